import json
from collections.abc import Callable
from typing import Any

import click
import pytest
from click.testing import CliRunner

from packer.cli._environment import load_command
from packer.cli._options import Option, convert_options
from packer.settings.options import OPTIONS, ConvertOptions


@click.command()
@convert_options
def _command(**values: Any) -> None:
    click.echo(json.dumps(values))


def _values(*arguments: str) -> dict[str, Any]:
    found = CliRunner().invoke(_command, arguments)
    assert found.exit_code == 0, found.output
    values: dict[str, Any] = json.loads(found.output)
    return values


def test_without_arguments_the_defaults_are_those_of_python() -> None:
    values = _values()
    assert list(values) and values.keys() == OPTIONS.keys()
    assert ConvertOptions(**values) == ConvertOptions()


@pytest.mark.parametrize(
    ("arguments", "changed"),
    [
        (["--shard-size", "2MiB", "--part", "0/3"], {"shard_size": 2 << 20, "part": [0, 3]}),
        (["--no-upscale", "-j", "3"], {"upscale": False, "jobs": 3}),
        (["--exclude-class", "a b", "--exclude-class", "c"], {"exclude_classes": ["a b", "c"]}),
        (["--seed", "-5", "--reencode"], {"seed": -5, "reencode": True}),
    ],
)
def test_values(arguments: list[str], changed: dict[str, Any]) -> None:
    assert _values(*arguments) == _values() | changed


@pytest.mark.parametrize("part", ["3/3", "1", "-1/2", "a/b", "1/2/3", "", "²/3", "0/" + "9" * 5000])
def test_invalid_parts(part: str) -> None:
    found = CliRunner().invoke(_command, ["--part", part])
    assert found.exit_code == 2
    assert "is not K/N" in found.output or "K/N with K from 0 to N-1" in found.output


def test_every_option_of_the_table_has_its_flag_and_its_help() -> None:
    command = load_command("convert")
    flags = {param.name: param for param in command.params if isinstance(param, Option)}
    for name, row in OPTIONS.items():
        assert f"--{row.word}" in flags[name].opts
        assert (flags[name].help, flags[name].section) == (row.help, row.section)
        assert row.help[0].isupper() and row.help[-1] == "."


def test_the_help_has_sections_and_names_the_configs(run: Callable[..., Any]) -> None:
    from packer.settings.configfile import names

    said = " ".join(run("convert", "--help").stdout.split())
    places = [said.index(title) for title in ("Options:", "Pictures:", "Pack:", "Run:")]
    assert places == sorted(places)
    assert f"Preset of options: {', '.join(names())}, or a YAML file." in said
