"""Reads YAML files strictly: recipes and configs, of packer or of a user."""

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
#: Largest file in bytes: packer's own have 2 kB, and PyYAML reads about 100 kB a second.
_MOST_BYTES = 1 << 18
#: How long a command may take that writes a file to a pipe.
_PIPE_SECONDS = 60


def names(package: str) -> tuple[str, ...]:
    """Return the names of the YAML files in a package, sorted."""
    files = importlib.resources.files(package).iterdir()
    return tuple(sorted(f.name[:-5] for f in files if f.name.endswith(".yaml")))


def is_file_name(name_or_path: str) -> bool:
    """Whether a text names a user's own file: it has a YAML suffix or a slash."""
    return name_or_path.endswith(_SUFFIXES) or "/" in name_or_path


def load(name_or_path: str, package: str, what: str) -> tuple[str, dict[str, Any]]:
    """Read a file of a package by name, or a user's own file by path.

    Args:
        name_or_path: "caltech256", or "./my.yaml".
        package: Where named files are: "packer.recipes", "packer.configs".
        what: Kind of file, for errors: "recipe", "config".

    Returns:
        The place of the file, for errors; its keys and values.

    Raises:
        ConfigError: The file does not exist, is not YAML, is not a mapping, or has a key twice.
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
        # PyYAML converts texts like dates, and tagged numbers, without checking them.
        raise ConfigError(f"{where}: holds a value that its type does not have: {error}") from error
    if value is None:
        value = {}
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise ConfigError(f"{where}: must be lines of the form key: value")
    return where, value


def check_keys(where: str, value: Mapping[str, object], known: Iterable[str]) -> None:
    """Raise a ConfigError that names the first unknown key."""
    known = list(known)
    for key in value:
        if key not in known:
            raise ConfigError(f"{where}: unknown key {key!r}", suggestion(key, known))


def dump_yaml(value: Mapping[str, Any]) -> str:
    """Return plain values as YAML: keys in the given order, one key or list item a line."""
    text: str = yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=math.inf)
    return text


def _read_text(path: Path) -> str:
    """Read the text of a file, which may be a pipe (`--config <(make-config)`).

    Raises:
        OSError: The file cannot be read.
        ValueError: The file is too long, is not UTF-8, or is a pipe without a writer.
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
    """Raises errors for duplicate keys (PyYAML keeps the last one silently), for aliases (a few
    lines of them expand to huge lists), and for numbers of more than 64 bits.
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
