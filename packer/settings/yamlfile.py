"""YAML files that come with packer (recipes, configs) or that a user wrote, read strictly."""

from __future__ import annotations

import importlib.resources
import math
import os
import select
import stat
from collections.abc import Hashable, Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from packer.errors import SAME_DATA_SET, ConfigError, suggestion

_SUFFIXES = (".yaml", ".yml")
#: Of a file. Those that come with packer have 2 kB; PyYAML reads about 100 kB a second.
_MOST_BYTES = 1 << 18
#: How long a command may take that writes a file to a pipe.
_PIPE_SECONDS = 60


def names(package: str) -> tuple[str, ...]:
    """Names of the YAML files in a package, sorted."""
    files = importlib.resources.files(package).iterdir()
    return tuple(sorted(f.name[:-5] for f in files if f.name.endswith(".yaml")))


def is_file_name(name_or_path: str) -> bool:
    """Whether this means a file of the user's own: a YAML suffix, or a folder in it."""
    return name_or_path.endswith(_SUFFIXES) or "/" in name_or_path


def load(name_or_path: str, package: str, what: str) -> tuple[str, dict[str, Any]]:
    """Read one of a package's files by name, or a file of the user's own.

    Args:
        name_or_path: "caltech256", or "./my.yaml".
        package: Where named files are: "packer.recipes", "packer.configs".
        what: What the file is, for errors: "recipe", "config".

    Returns:
        Where it was read, for errors; its keys and values.

    Raises:
        ConfigError: No such name or file, no YAML, not keys with values, a key given twice.
    """
    if is_file_name(name_or_path):
        where = name_or_path
        try:
            text = _read_text(Path(name_or_path))
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise ConfigError(f"{what} {where}: cannot be read: {reason}") from error
    else:
        known = names(package)
        if name_or_path not in known:
            hint = suggestion(name_or_path, known, SAME_DATA_SET)
            raise ConfigError(f"unknown {what} {name_or_path!r}", hint)
        where = f"{what} {name_or_path}"
        resource = importlib.resources.files(package) / f"{name_or_path}.yaml"
        text = resource.read_text(encoding="utf-8")
    try:
        value = yaml.load(text, _StrictLoader)
    except yaml.YAMLError as error:
        raise ConfigError(f"{where}: not readable as YAML: {_one_line(error)}") from error
    except RecursionError:
        raise ConfigError(f"{where}: not readable as YAML: nested too deeply") from None
    except (ValueError, ArithmeticError, LookupError, TypeError, AttributeError) as error:
        # PyYAML converts what has the form of a date or the tag of a number without checking it.
        raise ConfigError(f"{where}: holds a value that its type does not have: {error}") from error
    if value is None:
        value = {}
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise ConfigError(f"{where}: must be lines of the form key: value")
    return where, value


def check_keys(where: str, value: Mapping[str, object], known: Iterable[str]) -> None:
    """Raise a ConfigError that names the first key that is not known."""
    known = list(known)
    for key in value:
        if key not in known:
            raise ConfigError(f"{where}: unknown key {key!r}", suggestion(key, known))


def dump_yaml(value: Mapping[str, Any]) -> str:
    """YAML text of plain values: keys in the given order, a list item or key a line."""
    text: str = yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=math.inf)
    return text


def _read_text(path: Path) -> str:
    """The text of a file, which may be a pipe (`--config <(make-config)`).

    Raises:
        OSError: It cannot be read.
        ValueError: It is too long, no UTF-8, or a pipe that nobody writes to.
    """
    # Opening a pipe waits for a writer otherwise.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb", buffering=0) as file:  # noqa: PTH123
        is_pipe = stat.S_ISFIFO(os.fstat(descriptor).st_mode)
        poller = select.poll()
        poller.register(file, select.POLLIN)
        data = b""
        while len(data) <= _MOST_BYTES:
            if is_pipe and not poller.poll(_PIPE_SECONDS * 1000):
                raise ValueError(f"is a pipe to which nobody wrote for {_PIPE_SECONDS} s")
            if not (part := file.read(_MOST_BYTES + 1 - len(data))):
                break
            data += part
    if len(data) > _MOST_BYTES:
        raise ValueError(f"has more than {_MOST_BYTES:,} bytes")
    return data.decode("utf-8")


class _StrictLoader(yaml.SafeLoader):
    """Refuses a key that is there twice, of which YAML's own loader keeps the last one silently;
    aliases, as a few lines of them make lists without end; and numbers of more than 64 bits.
    """

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            event = self.peek_event()  # type: ignore[no-untyped-call]
            raise _wrong(f"alias *{event.anchor}: write the value again", event.start_mark)
        node: yaml.Node | None = super().compose_node(parent, index)
        return node

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        known = set()
        for entry, _ in node.value:
            key = self.construct_object(entry, deep=True)
            if isinstance(key, Hashable) and key in known:
                raise _wrong(f"key {key!r} is there twice", node.start_mark)
            if isinstance(key, Hashable):
                known.add(key)
        return super().construct_mapping(node, deep)

    def construct_yaml_int(self, node: yaml.ScalarNode) -> int:
        number: int = super().construct_yaml_int(node)
        if number.bit_length() > 64:
            raise _wrong("a number of more than 64 bits", node.start_mark)
        return number


_StrictLoader.add_constructor("tag:yaml.org,2002:int", _StrictLoader.construct_yaml_int)


def _wrong(what: str, mark: yaml.Mark) -> yaml.MarkedYAMLError:
    return yaml.constructor.ConstructorError(None, None, what, mark)


def _one_line(error: yaml.YAMLError) -> str:
    problem = getattr(error, "problem", None) or str(error).partition("\n")[0]
    mark = getattr(error, "problem_mark", None)
    return f"{problem}, line {mark.line + 1}" if mark else str(problem)
