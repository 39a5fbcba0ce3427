import click
import pytest
from click.testing import CliRunner

from packer.cli._options import Bytes, Part, option


@click.command()
@option("--shard-size", type=Bytes(), default="1kB")
@option("--part", type=Part())
def _command(shard_size: int, part: tuple[int, int] | None) -> None:
    click.echo(f"{shard_size} {part}")


@pytest.mark.parametrize(
    ("arguments", "env", "said"),
    [
        ([], {}, "1000 None"),
        (["--shard-size", "2MiB", "--part", "0/3"], {}, "2097152 (0, 3)"),
        ([], {"PACKER_SHARD_SIZE": "5MB", "PACKER_PART": "2/3"}, "5000000 (2, 3)"),
    ],
)
def test_values(arguments: list[str], env: dict[str, str], said: str) -> None:
    assert CliRunner().invoke(_command, arguments, env=env).output == f"{said}\n"


@pytest.mark.parametrize("part", ["3/3", "1", "-1/2", "a/b", "1/2/3", "", "²/3", "0/" + "9" * 5000])
def test_parts_that_cannot_be(part: str) -> None:
    found = CliRunner().invoke(_command, ["--part", part])
    assert found.exit_code == 2
    assert "is not K/N" in found.output
