"""Arguments and variables that a shell has made empty: `-o "$UNSET"`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fixtures import Run


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["convert", "sample", "-o", ""], "-o"),
        (["convert", "sample", "--out="], "--out"),
        (["convert", "", "-o", "out"], "convert"),
        (["convert", "imagenet", "--src", "", "-o", "out"], "--src"),
        (["convert", "sample", "--config", "", "-o", "out"], "--config"),
        (["fetch", "sample", "-o", ""], "-o"),
        (["stage", "pack", ""], "pack"),
        (["info", ""], "info"),
        (["recipes", "show", ""], "show"),
    ],
)
def test_an_empty_argument_is_wrong_usage(
    run: Run, tmp_path: Path, arguments: list[str], named: str
) -> None:
    done = run(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"the argument after {named!r} is empty" in done.stderr or (
        f"{named} is empty" in done.stderr
    )
    assert "variable that is not set" in done.stderr
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["PACKER_OUT", "PACKER_DATA"])
def test_an_empty_path_in_the_environment_is_wrong_usage(
    run: Run, tmp_path: Path, name: str
) -> None:
    done = run("convert", "sample", **{name: ""})
    assert (done.returncode, done.stdout) == (2, "")
    assert f"{name} is empty" in done.stderr
    assert not any(tmp_path.iterdir())


def test_variables_of_other_options_count_as_not_set(run: Run) -> None:
    done = run("convert", "nothing", "-o", "out", PACKER_RESIZE="", PACKER_JOBS="")
    assert "nothing: no such folder" in done.stderr


def test_a_variable_that_is_not_needed_may_be_empty(run: Run) -> None:
    assert run("recipes", "list", PACKER_OUT="", PACKER_DATA="").returncode == 0
