"""From a name to the module of that name: codecs, formats, sources, backends and commands.

packer's own are one file each in `packer/<room>/`: a new one is a new file, and there is no table
to edit. Modules whose name starts with an underscore are not offered. Other distributions add
theirs by entry points of the group `packer.<room>` (docs/extending.md): these are plug-ins.

packer's own names come first. Looking one up does not read entry points, as that takes milliseconds
and imports: the metadata of all installed distributions is read.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from packer.errors import MissingDependency, UsageError, suggestion

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

#: Rooms that other distributions can add to.
OPEN_ROOMS: Final = ("codecs", "formats", "sources", "backends")
#: Execution backends that are part of `packer.packing`, and so have no file of their own.
_BACKENDS: Final = ("loky", "threading", "sequential", "dask")
#: Form of the names; manifests allow no other names of codecs and formats.
NAME: Final = re.compile(r"[a-z0-9]+")
#: A distribution and its version in a manifest. Nothing else may get into a hint, which users
#: paste into a shell.
_PROVENANCE: Final = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*) [A-Za-z0-9][A-Za-z0-9.+!_-]*")
_NOTHING: Final[Mapping[str, str]] = {}


class Plugin(NamedTuple):
    """What one distribution offers under one name.

    Attributes:
        room: "codecs", "formats", "sources" or "backends".
        name: Name of the entry point.
        distribution: Name of the distribution.
        version: Version of the distribution.
        entry: The entry point.
    """

    room: str
    name: str
    distribution: str
    version: str
    entry: EntryPoint

    @property
    def described(self) -> str:
        """The distribution and its version: "packer-zpix 1.2"."""
        return f"{self.distribution} {self.version}"

    @property
    def kind(self) -> str:
        """The room in the singular: "codec"."""
        return _kind(self.room)

    def load(self) -> Any:
        """Import it, and check that it has all attributes that its room requires.

        Raises:
            UsageError: It cannot be imported, or an attribute is missing.
        """
        what = f"{self.kind} {self.name!r} of {self.described}"
        hint = f"update or uninstall {self.distribution}"
        if NAME.fullmatch(self.name) is None:
            raise UsageError(f"{what}: invalid name: only a to z and 0 to 9 are allowed", hint)
        try:
            module = self.entry.load()
        except Exception as error:  # another author's module can raise anything
            reason = " ".join(str(error).split())
            raise UsageError(
                f"{what} cannot be loaded: {type(error).__name__}: {reason}", hint
            ) from error
        missing = [name for name in _required(self.room) if not hasattr(module, name)]
        if missing:
            raise UsageError(f"{what} lacks {', '.join(missing)}", hint)
        return module


@cache
def own_names(room: str) -> tuple[str, ...]:
    """Return packer's own names in a room ("codecs", "formats", "sources", "backends", "cli").

    Sorted; imports none of them and reads no entry points.
    """
    if room == "backends":
        return tuple(sorted(_BACKENDS))
    folder = Path(__file__).parent / room
    found = (module.name for module in pkgutil.iter_modules([str(folder)]))
    return tuple(sorted(name for name in found if not name.startswith("_")))


@cache
def plugins(room: str) -> Mapping[str, tuple[Plugin, ...]]:
    """Return the plug-ins of a room by name, without importing them.

    Plug-ins with a name of packer's own are left out. A name that several plug-ins have cannot be
    loaded.
    """
    if room not in OPEN_ROOMS:
        return {}
    from importlib.metadata import entry_points

    found: dict[str, tuple[Plugin, ...]] = {}
    for entry in entry_points(group=f"packer.{room}"):
        if entry.name not in own_names(room):
            distribution = ("unknown", "") if entry.dist is None else _named(entry.dist)
            plugin = Plugin(room, entry.name, *distribution, entry)
            found[entry.name] = (*found.get(entry.name, ()), plugin)
    return found


def names(room: str) -> tuple[str, ...]:
    """Return all names in a room, packer's own and those of plug-ins, sorted; imports none."""
    return tuple(sorted({*own_names(room), *plugins(room)}))


def is_offered(room: str, name: str) -> bool:
    """Whether a room has this name."""
    return name in own_names(room) or name in plugins(room)


def plugin(room: str, name: str) -> Plugin | None:
    """Return the plug-in with a name; None if the name is packer's own or unknown.

    Raises:
        UsageError: Several distributions offer the name; the message says which.
    """
    if name in own_names(room):
        return None
    found = plugins(room).get(name, ())
    if len(found) > 1:
        offering = " and ".join(sorted(entry.distribution for entry in found))
        raise UsageError(
            f"{_kind(room)} {name!r} is offered by several distributions: {offering}",
            "uninstall all but one of them",
        )
    return found[0] if found else None


def load(room: str, name: str, made_with: Mapping[str, str] = _NOTHING) -> Any:
    """Import the module `name` of a room.

    Args:
        room: The room.
        name: A name in it.
        made_with: The `libraries` of the pack that needs it, which name the distribution.

    Raises:
        UsageError: No such name, with a suggestion; or a plug-in that cannot be used.
        MissingDependency: The pack was made with a plug-in that is not installed.
    """
    if name in own_names(room):
        return importlib.import_module(f"packer.{room}.{name}")
    return _load_plugin(room, name, made_with.get(f"{_kind(room)} {name}", ""))


def require_offered(room: str, name: str, made_with: Mapping[str, str] = _NOTHING) -> None:
    """Check that a room has a name, without importing it; raises as `load`."""
    if not is_offered(room, name):
        raise _unknown(room, name, made_with.get(f"{_kind(room)} {name}", ""))


def provenance(**chosen: str) -> dict[str, str]:
    """Return the distributions of the plug-ins that make a pack, for `libraries` in its manifest.

    Args:
        **chosen: Names by kind: codec="zpix", format="tar".

    Returns:
        {"codec zpix": "packer-zpix 1.2"}; packer's own are left out.
    """
    found = {}
    for kind, name in chosen.items():
        offered = plugin(f"{kind}s", name)
        if offered is not None:
            found[f"{kind} {name}"] = offered.described
    return found


def provenance_here(libraries: Mapping[str, str]) -> dict[str, str]:
    """Return the entries of `provenance` among a pack's libraries, as installed here.

    A plug-in that is not installed has no entry.
    """
    found = {}
    for key in libraries:
        kind, _, name = key.partition(" ")
        if f"{kind}s" in OPEN_ROOMS:
            found.update(provenance(**{kind: name}))
    return found


@cache
def _load_plugin(room: str, name: str, made_with: str) -> Any:
    found = plugin(room, name)
    if found is None:
        raise _unknown(room, name, made_with)
    return found.load()


def report() -> list[str]:
    """Return a line for each plug-in: "codec zpix: packer-zpix 1.2", or why it does not load."""
    lines = []
    for room in OPEN_ROOMS:
        for name in sorted(plugins(room)):
            try:
                load(room, name)
            except UsageError as error:
                lines.append(str(error))
            else:
                [found] = plugins(room)[name]
                lines.append(f"{found.kind} {name}: {found.described}")
    return lines


def forget() -> None:
    """Clear the caches, so that plug-ins are looked up again."""
    plugins.cache_clear()
    _load_plugin.cache_clear()


def _unknown(room: str, name: str, made_with: str) -> UsageError:
    kind = _kind(room)
    if origin := _PROVENANCE.fullmatch(made_with):
        from packer.installing import pip

        return MissingDependency(
            f"{kind} {name!r} is part of {made_with}, which is not installed",
            f"{pip()} install {origin[1]}",
        )
    return UsageError(f"unknown {kind} {name!r}", suggestion(name, names(room)))


def _named(distribution: Any) -> tuple[str, str]:
    return str(distribution.metadata["Name"]), str(distribution.version)


def _kind(room: str) -> str:
    return room.removesuffix("s")


@cache
def _required(room: str) -> tuple[str, ...]:
    """Return the attributes that each module of a room must have: those of its protocol."""
    home = "packer.packing.workers.executor" if room == "backends" else f"packer.{room}"
    protocol = importlib.import_module(home).PROTOCOL
    declared = {*vars(protocol), *protocol.__annotations__}
    return tuple(sorted(name for name in declared if not name.startswith("_")))
