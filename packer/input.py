"""The input of a conversion: a source, and its recipe."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from packer import recipe as recipes
from packer import sources
from packer.errors import SAME_DATA_SET, SourceError, suggestion
from packer.files.paths import given_path
from packer.recipe import Recipe
from packer.sources import Source, listed
from packer.types import display_text

__all__ = [
    "Input",
    "open_input",
    "open_list",
]

_ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")


@dataclass(frozen=True)
class Input:
    """An open source, and its recipe.

    Attributes:
        name: Name of the data set: the recipe's, else the folder's or archive's.
        location: Path of the source, for messages.
        source: Lists and reads the files.
        recipe: The recipe, or None.
        defaults: Defaults of convert's options from the recipe.
    """

    name: str
    location: str
    source: Source
    recipe: Recipe | None = None
    defaults: Mapping[str, Any] = field(default_factory=dict)

    @property
    def litter(self) -> frozenset[bytes]:
        """Paths that the recipe lists as not being pictures."""
        return self.recipe.litter_paths if self.recipe else frozenset()

    @property
    def split(self) -> str | None:
        """The recipe's own split."""
        split: str | None = self.defaults.get("split")
        return split

    def display_name(self, folder: str) -> str:
        """Display name of a class folder."""
        return self.recipe.display_name(folder) if self.recipe else folder

    def refuse_unlabelled(self, unlabelled: Mapping[str, int]) -> None:
        """Refuse a source without labels if its recipe says how to add them.

        Args:
            unlabelled: Number of samples by split, of splits without class folders.

        Raises:
            SourceError: train or val is among them; the hint says how to add the labels.
        """
        how = self.recipe.bring_labels if self.recipe else ""
        for split in ("train", "val"):
            if how and split in unlabelled:
                raise SourceError(
                    f"{self.location}: {split} has no class folders, so its {unlabelled[split]}"
                    " pictures have no label",
                    how,
                )

    def expectations(self, images: int, classes: int | None) -> Iterator[str]:
        """Warnings about counts that differ from the recipe's.

        Args:
            images: Candidates found.
            classes: Classes found; None if some were excluded.
        """
        if self.recipe is None:
            return
        pairs = (("images", self.recipe.images, images), ("classes", self.recipe.classes, classes))
        for what, expected, found in pairs:
            if expected is not None and found is not None and found != expected:
                difference = f"{abs(found - expected)} {'more' if found > expected else 'fewer'}"
                yield f"{self.name}: {found} {what}, {difference} than the expected {expected}"


def open_input(
    source: str | os.PathLike[str],
    *,
    src: str | os.PathLike[str] | None = None,
    data: Path | None = None,
    cwd: Path | None = None,
) -> Input:
    """Open a source by its name or path.

    Args:
        source: A recipe's name (it wins over a folder of that name; `./NAME` is the folder), a
            recipe file, a folder or an archive.
        src: Path of a recipe's data set; None: search for it.
        data: Folder that holds data sets by recipe name.
        cwd: Folder to search in; None: the working directory.

    Raises:
        SourceError: The source is missing, or packer cannot read it.
        ConfigError: A recipe file is invalid.
    """
    given_path(source, "source")
    text = os.fspath(source)  # unchanged: ./NAME is never a recipe
    for given in (text, os.fspath(src or "")):
        _refuse_address(given)
    if text in recipes.names() or text.endswith((".yaml", ".yml")):
        known = recipes.load(text)
        place, _ = recipes.find_source(
            known, given_path(src, "src") if src is not None else None, data, cwd or Path.cwd()
        )
        shown = os.fspath(place) if place is not None else f"made by packer ({known.title})"
        return Input(known.name, shown, known.open(place), known, known.options)
    if src is not None:
        raise SourceError(
            f"{text!r} is no recipe, so --src has no meaning",
            suggestion(text, recipes.names(), SAME_DATA_SET),
        )
    path = Path(text)
    if not path.exists() and path.name == text:
        hint = suggestion(text, recipes.names(), SAME_DATA_SET)
        raise SourceError(
            f"{text}: no such folder, archive or recipe",
            hint.replace("known:", "packer's recipes:"),
        )
    opened = sources.open_source(path)
    return Input(_name(path), os.fspath(path.absolute()), opened)


def open_list(
    content: bytes, *, top: str | os.PathLike[str] | None = None, null: bool = False
) -> Input:
    """Open the files of a list: output of `find … -print0`, or lines of text.

    The data set gets the name of the folder that the paths are relative to, so that a list of all
    files of a folder gives the same pack as the folder.

    Args:
        content: Bytes of the list; its paths are absolute, or relative to the working directory.
        top: The folder whose folders are the classes; None: the working directory.
        null: Whether paths end in a zero byte instead of a newline.

    Raises:
        SourceError: The folder is missing, a path lies outside it or occurs twice, or the list is
            empty.
    """
    folder = (Path.cwd() if top is None else given_path(top, "top")).absolute()
    opened = listed.list_source(content, os.fsencode(folder), null=null)
    return Input(_name(folder), f"{len(opened.paths)} listed files in {folder}", opened)


def _refuse_address(text: str) -> None:
    """Refuse a URL: `Path` would make a file name of it."""
    if (found := _ADDRESS.match(text)) is None:
        return
    if found[1].lower() == "file":
        raise SourceError(f"{text}: an address", f"give the path alone: {text[len(found[0]) :]}")
    raise SourceError(
        f"{text}: packer convert does not download",
        "download it first and give the folder or archive (packer fetch RECIPE does so for"
        f" {', '.join(name for name in recipes.names() if recipes.load(name).archives)})",
    )


def _name(path: Path) -> str:
    """Name of a data set without a recipe: its folder's, or its archive's without suffix; "" for
    the root folder.
    """
    # Only the file system can resolve ".." after a link.
    resolved = path.resolve() if ".." in path.parts else path.absolute()
    return display_text(resolved.name if path.is_dir() else resolved.stem or "pack")
