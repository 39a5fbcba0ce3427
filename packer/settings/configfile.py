"""Configs: presets of convert's options, in YAML. `configs/` has those that come with packer."""

from __future__ import annotations

import dataclasses
import functools
import typing
from collections.abc import Callable, Mapping
from types import NoneType, UnionType
from typing import Any

from packer.errors import ConfigError
from packer.settings import yamlfile
from packer.settings.options import ConvertOptions
from packer.settings.parsing import (
    doubt_shard_size,
    parse_bytes,
    parse_colour,
    parse_part,
    parse_size,
)

_PACKAGE = "packer.configs"


def names() -> tuple[str, ...]:
    """Names of the configs that come with packer."""
    return yamlfile.names(_PACKAGE)


def load_config(name_or_path: str) -> dict[str, Any]:
    """Read a config.

    Args:
        name_or_path: "nfs", or a YAML file of the user's own ("./mine.yaml").

    Returns:
        Values by the names of the fields of `ConvertOptions`.

    Raises:
        ConfigError: No such config; an unknown key, a value of the wrong type or out of range.
    """
    where, value = yamlfile.load(name_or_path, _PACKAGE, "config")
    return check_options(where, value)


def check_options(where: str, value: Mapping[str, Any]) -> dict[str, Any]:
    """Options as a YAML file gives them, as `ConvertOptions` takes them.

    Args:
        where: The file, for errors.
        value: By option name, with dashes or underscores; sizes in bytes as "256MB".

    Raises:
        ConfigError: As `load_config`.
    """
    types = _option_types()
    options = {key.replace("-", "_"): entry for key, entry in value.items()}
    # Said with dashes, as on the command line.
    yamlfile.check_keys(
        where,
        {key.replace("_", "-"): None for key in options},
        [k.replace("_", "-") for k in types],
    )
    if len(options) < len(value):
        raise ConfigError(f"{where}: an option is there twice, with a dash and an underscore")
    return {key: _checked(where, key, entry, types[key]) for key, entry in options.items()}


@functools.cache
def _option_types() -> dict[str, Any]:
    hints = typing.get_type_hints(ConvertOptions)
    return {field.name: hints[field.name] for field in dataclasses.fields(ConvertOptions)}


def _checked(where: str, key: str, value: object, kind: Any) -> Any:
    try:
        converted = _CONVERTERS.get(key, _as_given)(value)
        choices = typing.get_args(kind) if typing.get_origin(kind) in _UNIONS else (kind,)
        if not any(_is(converted, choice) for choice in choices):
            wanted = " or ".join(_TYPE_NAMES.get(choice, str(choice)) for choice in choices)
            raise ConfigError(f"is {value!r:.200}, should be {wanted}")
        # One option alone, in company of a size, which the codec raw asks for.
        company: dict[str, Any] = {"resize": "8x8", "resize_mode": "exact"}
        ConvertOptions(**{**company, key: converted})
    except ConfigError as error:
        raise ConfigError(
            f"{where}: {key.replace('_', '-')}: {error.message}", error.hint
        ) from None
    return converted


def _is(value: object, kind: Any) -> bool:
    if typing.get_origin(kind) is tuple:
        return isinstance(value, tuple)  # its converter has looked at what is in it
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, kind)


def _as_given(value: object) -> object:
    return value


def _resize(value: object) -> object:
    """256 in YAML is a number, 224x320 is a text."""
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if isinstance(value, str):
        parse_size(value, "exact")
    return value


def _background(value: object) -> object:
    if isinstance(value, str):
        parse_colour(value)
    return value


def _shard_size(value: object) -> object:
    if not isinstance(value, (str, int)):
        return value
    size = parse_bytes(value)
    if doubt := doubt_shard_size(value):
        raise ConfigError(doubt)
    return size


def _classes(value: object) -> object:
    if isinstance(value, list) and all(isinstance(name, str) for name in value):
        return tuple(value)
    raise ConfigError(f"is {value!r:.200}, should be a list of class folders")


def _part(value: object) -> object:
    part = parse_part(value) if isinstance(value, str) else None
    if value is not None and part is None:
        raise ConfigError(f"is {value!r:.200}, should be K/N")
    return part


_CONVERTERS: dict[str, Callable[[object], object]] = {
    "resize": _resize,
    "background": _background,
    "shard_size": _shard_size,
    "exclude_classes": _classes,
    "part": _part,
}
_UNIONS = (UnionType, typing.Union)
_TYPE_NAMES = {
    int: "a whole number",
    str: "a text",
    bool: "true or false",
    NoneType: "null",
}
