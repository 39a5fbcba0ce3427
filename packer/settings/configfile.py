"""Configs: presets of convert's options in YAML. `configs/` has those that come with packer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from packer.errors import ConfigError
from packer.settings import yamlfile
from packer.settings.options import OPTIONS
from packer.settings.table import Option

_PACKAGE = "packer.configs"


def names() -> tuple[str, ...]:
    """Return the names of the configs that come with packer."""
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
    """Check options of a YAML file.

    Args:
        where: The file, for errors.
        value: Values by the options' words, with dashes or underscores; sizes in bytes as "256MB".

    Returns:
        Values by the names of the fields of `ConvertOptions`.

    Raises:
        ConfigError: As for `load_config`.
    """
    options = {key.replace("_", "-"): entry for key, entry in value.items()}
    known = {option.word: option for option in OPTIONS.values()}
    yamlfile.check_keys(where, options, known)
    if len(options) < len(value):
        raise ConfigError(f"{where}: an option is there twice, with a dash and an underscore")
    return {known[key].name: _checked(where, known[key], entry) for key, entry in options.items()}


def _checked(where: str, option: Option, value: object) -> Any:
    try:
        checked = option.check(value)
        if checked is not None and (doubt := option.kind.doubt(value)):
            raise ConfigError(doubt)
    except ConfigError as error:
        raise ConfigError(f"{where}: {option.word}: {error.message}", error.hint) from None
    return checked
