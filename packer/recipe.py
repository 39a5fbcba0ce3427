"""Recipes: descriptions of data sets in YAML. `recipes/` holds those that packer contains.

A new data set is one new file, there or the user's own (`packer convert ./mine.yaml`). Keys are
the fields of `Recipe` and `Archive`; only `title` is required.
"""

from __future__ import annotations

import dataclasses
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from packer import registry, sources
from packer.errors import ConfigError, SourceError, suggestion
from packer.settings import yamlfile
from packer.settings.configfile import check_options
from packer.settings.options import OPTIONS
from packer.settings.parsing import parse_bytes
from packer.settings.patterns import compile_bounded, first_group
from packer.sources import Source
from packer.types import path_bytes

_PACKAGE = "packer.recipes"
#: Characters that a recipe may not contain, as its names and addresses are printed.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
#: Hexadecimal digits of an archive's checksums.
_DIGESTS = {"md5": 32, "sha256": 64}


@dataclass(frozen=True)
class Archive:
    """A file to download.

    Attributes:
        name: File name of the download.
        urls: Addresses, tried in order.
        bytes: Size in bytes, or None if unknown.
        md5: Hex digest, or "".
        sha256: Hex digest, or "".
    """

    name: str
    urls: tuple[str, ...]
    bytes: int | None = None
    md5: str = ""
    sha256: str = ""


@dataclass(frozen=True)
class Recipe:
    """The description of one data set.

    Attributes:
        name: Name of the recipe: its file name without suffix.
        title: Name of the data set, for people.
        description: A few sentences.
        homepage: Address of its page.
        licence: Terms of use.
        source: Kind of source: a file in `packer/sources`, or a plug-in's name. A kind that makes
            its own files needs no location. "": determined from the location.
        root: Folder inside the source that counts as its top, if it exists.
        local_names: Names under which a downloaded copy may lie, folder or archive.
        archives: What `packer fetch` downloads.
        obtain: How to get the data if there is nothing to download.
        bring_labels: How to add labels to the pictures. If set, a train or val without class
            folders is refused.
        images: Expected number of candidates, or None.
        classes: Expected number of classes, or None.
        class_name: Regular expression (`packer.settings.patterns`). If it matches the whole name
            of a class folder, its first group is the class's display name.
        litter: Paths of files that are not pictures.
        options: Defaults of convert's options, by field of `ConvertOptions`; `split` among them.
    """

    name: str
    title: str
    description: str = ""
    homepage: str = ""
    licence: str = ""
    source: str = ""
    root: str = ""
    local_names: tuple[str, ...] = ()
    archives: tuple[Archive, ...] = ()
    obtain: str = ""
    bring_labels: str = ""
    images: int | None = None
    classes: int | None = None
    class_name: str = ""
    litter: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)

    def display_name(self, folder: str) -> str:
        """Display name of a class folder: `001.ak47` → `ak47`."""
        return first_group(compile_bounded(self.class_name), folder) if self.class_name else folder

    @property
    def litter_paths(self) -> frozenset[bytes]:
        """`litter` as bytes, for a scan."""
        return frozenset(map(path_bytes, self.litter))

    def open(self, location: Path | None) -> Source:
        """Open the data set.

        Args:
            location: Its path; None if its kind of source makes its files itself.

        Raises:
            SourceError: The data set is missing, or packer cannot read it.
        """
        kind = sources.load_kind(self.source) if self.source else None
        if kind is not None and (location is None or not kind.MAKES_FILES):
            return cast(
                Source, kind.open_source(location or Path(self.name), path_bytes(self.root))
            )
        assert location is not None, "only a kind that makes its files needs no location"
        return sources.open_source(location, path_bytes(self.root))


def names() -> tuple[str, ...]:
    """Names of the recipes that packer contains."""
    return yamlfile.names(_PACKAGE)


def load(name_or_path: str) -> Recipe:
    """Read a recipe by name ("caltech256"), or from the user's own file ("./mine.yaml").

    Raises:
        ConfigError: The recipe does not exist, or has an unknown key or an invalid value.
    """
    where, value = yamlfile.load(name_or_path, _PACKAGE, "recipe")
    known = [entry.name for entry in dataclasses.fields(Recipe) if entry.name != "name"]
    yamlfile.check_keys(where, value, known)
    if "title" not in value:
        raise ConfigError(f"{where}: has no title")
    given: dict[str, Any] = {}
    for key, entry in value.items():
        if key in ("local_names", "litter"):
            given[key] = _texts(where, key, entry)
        elif key in ("images", "classes"):
            given[key] = _count(where, key, entry)
        elif key == "archives":
            given[key] = _archives(where, entry)
        elif key == "options":
            given[key] = check_options(f"{where}: options", _mapping(where, key, entry))
            if foreign := [name for name in given[key] if not OPTIONS[name].in_recipe]:
                raise ConfigError(f"{where}: options: {foreign[0]}: is not an option of a data set")
        else:
            given[key] = _text(where, key, entry)
    recipe = Recipe(name=Path(name_or_path).stem, **given)
    _check_class_name(where, recipe.class_name)
    if recipe.source and not registry.is_offered("sources", recipe.source):
        hint = suggestion(recipe.source, registry.names("sources"))
        raise ConfigError(f"{where}: source: unknown source {recipe.source!r}", hint)
    return recipe


def find_source(
    recipe: Recipe, src: Path | None, data: Path | None, cwd: Path
) -> tuple[Path | None, list[Path]]:
    """Find a recipe's data set.

    Args:
        recipe: The recipe.
        src: Path given by the user; then no other place is searched.
        data: Folder with a folder NAME for each recipe (`$PACKER_DATA`), if there is one.
        cwd: Folder to search for the recipe's known names.

    Returns:
        The path (None for a recipe that makes its own samples), and the paths searched.

    Raises:
        SourceError: The data set is at none of these paths; the message lists them and says how
            to get it.
    """
    if src is not None:
        if not src.exists():
            raise SourceError(f"{src}: no such folder or archive")
        return src, [src]
    if recipe.source and sources.load_kind(recipe.source).MAKES_FILES:
        return None, []
    looked = []
    if data is not None:
        own = data / recipe.name
        looked += [*(own / name for name in recipe.local_names), own]
    looked += [cwd / name for name in recipe.local_names]
    for place in looked:
        if place.exists():
            return place, looked
    where = ", ".join(str(place) for place in looked)
    found_none = f"{recipe.name}: not found at {where}" if looked else f"{recipe.name}: no source"
    raise SourceError(found_none, _how_to_get(recipe))


def _how_to_get(recipe: Recipe) -> str:
    say = "say where it is with --src FOLDER"
    if recipe.archives:
        return f"packer fetch {shlex.quote(recipe.name)}, or {say}"
    return f"{recipe.obtain}; then {say}" if recipe.obtain else say


def _archives(where: str, value: object) -> tuple[Archive, ...]:
    if not isinstance(value, list):
        raise _wrong(where, "archives", value, "a list")
    return tuple(_archive(f"{where}: archives", entry) for entry in value)


def _archive(where: str, value: object) -> Archive:
    entry = _mapping(where, "an archive", value)
    yamlfile.check_keys(where, entry, [field.name for field in dataclasses.fields(Archive)])
    name = _text(where, "name", entry.get("name"))
    if Path(name).name != name or name in ("", ".", ".."):
        raise _wrong(where, "name", name, "a file name without a folder")
    digests = {key: _text(where, key, entry.get(key, "")).lower() for key in _DIGESTS}
    for key, digits in _DIGESTS.items():
        if digests[key] and not re.fullmatch(rf"[0-9a-f]{{{digits}}}", digests[key]):
            raise _wrong(where, key, digests[key], f"{digits} hexadecimal digits")
    if not any(digests.values()):
        raise ConfigError(f"{where}: {name} has neither md5 nor sha256")
    urls = _texts(where, "urls", entry.get("urls"))
    for url in urls:
        if not url.startswith(("https://", "http://", "file://")):
            raise _wrong(where, "urls", url, "an address that starts with https://")
    size = parse_bytes(entry["bytes"]) if "bytes" in entry else None
    return Archive(name, urls, size, digests["md5"], digests["sha256"])


def _check_class_name(where: str, pattern: str) -> None:
    try:
        compiled = compile_bounded(pattern)
    except ValueError as error:
        raise ConfigError(f"{where}: class_name: {error}") from error
    if pattern and compiled.groups < 1:
        raise _wrong(where, "class_name", pattern, "a pattern with a group, as '\\d+\\.(.+)'")


def _text(where: str, key: str, value: object) -> str:
    if not isinstance(value, str):
        raise _wrong(where, key, value, "a text")
    if key in ("root", "name", "class_name", *_DIGESTS):
        return _printable(where, key, value.strip())
    return value.strip() if key == "description" else " ".join(value.split())  # it goes into hints


def _texts(where: str, key: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(entry, str) for entry in value):
        raise _wrong(where, key, value, "a list of texts")
    return tuple(_printable(where, key, entry) for entry in value)


def _printable(where: str, key: str, value: str) -> str:
    if _CONTROL.search(value):
        raise _wrong(where, key, value, "without line breaks and other control characters")
    return value


def _count(where: str, key: str, value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise _wrong(where, key, value, "a whole number")
    return value


def _mapping(where: str, key: str, value: object) -> dict[str, Any]:
    if not isinstance(value, dict) or not all(isinstance(name, str) for name in value):
        raise _wrong(where, key, value, "lines of the form key: value")
    return value


def _wrong(where: str, key: str, value: object, wanted: str) -> ConfigError:
    return ConfigError(f"{where}: {key} is {value!r:.200}, should be {wanted}")
