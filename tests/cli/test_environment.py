"""Each option of each command can be set in the environment: walked by running the commands."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest
from click.core import ParameterSource

from packer import registry
from packer.cli._environment import (
    SHARED,
    load_command,
    long_flag,
    misspelt,
    variables,
)
from packer.cli._group import packer
from packer.cli._options import Option
from tests.fixtures import MakeTree, Run

#: Values for the options that take a value of a certain form, by their flags.
VALUES = {
    "--resize": "32", "--resize-mode": "crop", "--filter": "box", "--codec": "png",
    "--quality": "50", "--subsampling": "4:4:4", "--background": "black", "--format": "lmdb",
    "--batch-size": "7", "--shard-size": "5MB", "--order": "sorted", "--seed": "3",
    "--split": "val", "--split-seed": "3", "--exclude-class": "a b:c", "--jobs": "2",
    "--backend": "threading", "--scheduler": "tcp://a:1", "--part": "0/2", "--on-error": "fail",
    "--max-skipped": "3", "--config": "nfs", "--src": "top", "--out": "out", "--progress": "log",
    "--against": "photos", "--sample": "5%", "--max-minutes": "2", "--fraction": "0.5",
    "--window": "4", "--epochs": "2", "--note": "kept",
}  # fmt: skip


def commands() -> Iterator[tuple[str, click.Command]]:
    for verb in registry.names("cli"):
        command = load_command(verb)
        if isinstance(command, click.Group):
            yield from ((f"{verb} {name}", one) for name, one in command.commands.items())
        else:
            yield verb, command


OPTIONS = [
    pytest.param(path, option, id=f"{path} {long_flag(option)}")
    for path, command in commands()
    for option in command.params
    if isinstance(option, click.Option)
]


def parse(path: str, *arguments: str) -> click.Context:
    """Parse a command line as `packer` does, without running the command."""
    context = packer.make_context("packer", [*path.split(), "…", "…", "…"][:1])
    for name in path.split():
        command = context.command
        assert isinstance(command, click.Group)
        found = command.get_command(context, name)
        assert found is not None
        needed = [one for one in found.params if isinstance(one, click.Argument)]
        own = [*arguments, *(f"argument{number}" for number in range(len(needed)))]
        inner = [*path.split()[1:], "x"] if isinstance(found, click.Group) else own
        context = found.make_context(name, inner, parent=context)
    return context


@pytest.mark.parametrize(("path", "option"), OPTIONS)
def test_a_variable_does_what_the_flag_does(
    path: str, option: click.Option, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert isinstance(option, Option), "use packer.cli._options.option"
    assert option.envvar and option.name
    flag = long_flag(option)
    value = "train=0.5,val=0.5" if (path, flag) == ("convert", "--split") else VALUES.get(flag, "1")
    given = value.split(":") if option.multiple else [value]
    arguments = [flag] if option.is_flag else [part for one in given for part in (flag, one)]
    by_flag, usual = parse(path, *arguments), parse(path)
    monkeypatch.setenv(str(option.envvar), value)
    by_variable = parse(path)
    assert by_variable.get_parameter_source(option.name) is ParameterSource.ENVIRONMENT
    assert by_variable.params[option.name] == by_flag.params[option.name]
    if not option.secondary_opts:
        assert by_variable.params[option.name] != usual.params[option.name]


def test_flags_go_before_variables_and_a_variable_can_be_no(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PACKER_JOBS", "3")
    monkeypatch.setenv("PACKER_UPSCALE", "0")
    monkeypatch.setenv("PACKER_DRY_RUN", "false")
    params = parse("convert", "-j", "5").params
    assert (params["jobs"], params["upscale"], params["dry_run"]) == (5, False, False)


def test_names_follow_one_rule() -> None:
    names: dict[str, set[str]] = {}
    for verb in registry.names("cli"):
        for name, flag in variables(verb).items():
            word = flag.removeprefix("--").replace("-", "_").upper()
            shared = flag.removeprefix("--") in SHARED or verb == "convert"
            assert name == (f"PACKER_{word}" if shared else f"PACKER_{verb.upper()}_{word}")
            names.setdefault(name, set()).add(flag)
    assert all(len(flags) == 1 for flags in names.values()), "one variable for two options"
    assert {"PACKER_OUT", "PACKER_DRY_RUN", "PACKER_JSON", "PACKER_VERIFY_DECODE"} <= names.keys()


@pytest.mark.parametrize(
    ("arguments", "name", "value", "said"),
    [
        (["convert", "x"], "PACKER_QUALITY", "good", "'good'"),
        (["convert", "x"], "PACKER_QUALITY", "101", "101 is not in the range"),
        (["convert", "x"], "PACKER_RESIZE", "big", "size 'big' is not a size"),
        (["convert", "x"], "PACKER_BACKGROUND", "mauve", "'mauve' is not a colour"),
        (["convert", "x"], "PACKER_SPLIT", "train=2", "its parts must sum to 1"),
        (["convert", "x"], "PACKER_FORMAT", "tarr", "did you mean 'tar'?"),
        (["convert", "x"], "PACKER_DRY_RUN", "maybe", "'maybe'"),
        (["convert", "x"], "PACKER_PART", "4/4", "K from 0 to N-1"),
        (["verify", "x"], "PACKER_VERIFY_MAX_MINUTES", "soon", "'soon'"),
        (["stage", "x", "y"], "PACKER_STAGE_FRACTION", "2", "2"),
        (["ls", "x"], "PACKER_LS_NOTE", "keptt", "did you mean 'kept'?"),
        (["info", "x"], "PACKER_INFO_WINDOW", "0", "0"),
        (["fetch", "sample"], "PACKER_PROGRESS", "loud", "'loud'"),
        (["fetch", "sample"], "PACKER_FETCH_OUT", "", "is empty"),
        (["recipes", "list"], "PACKER_JSON", "perhaps", "'perhaps'"),
    ],
)
def test_an_invalid_value_is_one_line_that_names_the_variable(
    called: Callable[[list[str]], tuple[int, str]],
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    name: str,
    value: str,
    said: str,
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(name, value)
    code, stderr = called(arguments)
    [line] = (line for line in stderr.splitlines() if name in line)
    assert code == 2 and said in line and "Traceback" not in stderr


def test_a_dry_run_from_the_environment_writes_nothing(
    run: Run, make_tree: MakeTree, tmp_path: Path
) -> None:
    make_tree("photos", classes=1, each=2)
    done = run("convert", "photos", "--resize", "32", PACKER_DRY_RUN="1", PACKER_JSON="1")
    assert json.loads(done.stdout)["planned"] == 2, done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["photos"]
    made = run("convert", "photos", PACKER_RESIZE="32", PACKER_OUT="x", PACKER_QUIET="1")
    assert (made.stdout.strip(), made.stderr) == (str(tmp_path / "x"), "")
    assert (tmp_path / "x" / "manifest.json").exists()


def test_misspelt_variables_lead_to_a_warning() -> None:
    environ = dict.fromkeys(
        [
            *("PACKER_RESZIE", "PACKER_EXCLUDE_CLASSES", "PACKER_RESIZE", "PACKER_VERIFY_DECODE"),
            *("PACKER_SBATCH_MERGE", "PACKER_STAGE", "PACKER_MYSTERY", "PACKER_DATA", "PACKERS"),
        ],
        "1",
    )
    assert misspelt(environ, "convert") == [
        f"{wrong} has no effect: no option has this variable; {right} is one"
        for wrong, right in (
            ("PACKER_EXCLUDE_CLASSES", "PACKER_EXCLUDE_CLASS"),
            ("PACKER_RESZIE", "PACKER_RESIZE"),
        )
    ]
    [line] = misspelt({"PACKER_DECODE": "1"}, "verify")
    assert "PACKER_VERIFY_DECODE is one" in line
    for name in ("PACKER_RESIZE", "PACKER_VERIFY_DECODE", "HOME"):
        assert misspelt({name: "1"}, "verify") == []


@pytest.mark.parametrize(
    "arguments", [["convert", "nowhere"], ["ls", "nowhere"], ["recipes", "list"]]
)
def test_every_command_prints_the_warning(
    called: Callable[[list[str]], tuple[int, str]],
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
) -> None:
    monkeypatch.setenv("PACKER_RESZIE", "32")
    _, stderr = called(arguments)
    assert stderr.count("packer: warning: PACKER_RESZIE has no effect") == 1


def test_the_warning_is_an_event_with_progress_json(run: Run) -> None:
    done = run("convert", "nowhere", "--progress", "json", PACKER_RESZIE="32")
    events = [json.loads(line) for line in done.stderr.splitlines()]
    assert [event["event"] for event in events] == ["start", "warning", "failed"]
