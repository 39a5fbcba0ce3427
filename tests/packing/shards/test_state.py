import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from packer.errors import OutputError, UsageError
from packer.pack.columns import ShardRecord
from packer.packing.planning.agreement import Agreement
from packer.packing.shards.shard import WORK_FOLDER
from packer.packing.shards.state import (
    ShardState,
    agree_on_parts,
    agree_on_plan,
    describe_difference,
    read_parts,
    read_plan,
    read_shard_state,
    remove_work_folder,
    skip_from_json,
    skip_to_json,
    write_shard_state,
)
from packer.types import Skip

RECORD = ShardRecord("train-000000.tar", 10240, "00" * 32, (1, 2), 3, 1)
MakeAgreement = Callable[..., Agreement]


@pytest.fixture
def out(tmp_path: Path) -> Path:
    (tmp_path / WORK_FOLDER).mkdir()
    return tmp_path


@given(st.binary(min_size=1, max_size=40), st.text(max_size=20))
def test_a_skip_survives_whatever_its_path(path: bytes, detail: str) -> None:
    skip = Skip(7, path, "truncated", detail)
    assert skip_from_json(skip_to_json(skip)) == skip


def test_state_round_trip(out: Path) -> None:
    state = ShardState(RECORD, (Skip(1, b"a/\xff.jpg", "truncated", "x"),), {"gray": 2}, "ab")
    write_shard_state(out, "train-000000", state)
    assert read_shard_state(out, "train-000000") == state


@pytest.mark.parametrize("text", ["", "{", "{}", '{"record": {}}'])
def test_a_damaged_state_says_what_to_remove(out: Path, text: str) -> None:
    (out / WORK_FOLDER / "train-000000.json").write_text(text)
    with pytest.raises(OutputError, match=r"missing or damaged.*remove .*train-000000\.\*"):
        read_shard_state(out, "train-000000")


def test_plans_agree_or_the_difference_is_named(out: Path, make_agreement: MakeAgreement) -> None:
    plan = make_agreement()
    assert agree_on_plan(out, plan) == plan
    assert agree_on_plan(out, make_agreement()) == plan
    assert read_plan(out) == plan
    other = make_agreement(options={**plan.pack.options, "batch_size": 64})
    with pytest.raises(UsageError, match="unfinished pack with batch size 4 instead of 64"):
        agree_on_plan(out, other)
    with pytest.raises(UsageError, match=r"display names .* instead of"):
        agree_on_plan(out, make_agreement(display_names=("other",)))


def test_litter_that_comes_later_is_no_other_plan(out: Path, make_agreement: MakeAgreement) -> None:
    plan = agree_on_plan(out, make_agreement(ignored={"hidden": 1}))
    assert agree_on_plan(out, make_agreement(ignored={"hidden": 2})) == plan


def test_a_damaged_plan_and_one_of_another_version(
    out: Path, make_agreement: MakeAgreement
) -> None:
    path = out / WORK_FOLDER / "plan.json"
    with pytest.raises(FileNotFoundError):
        read_plan(out)
    for text in ("", "{", "{}", "[]"):
        path.write_text(text)
        with pytest.raises(OutputError, match=r"plan.json: the plan of an unfinished pack is"):
            agree_on_plan(out, make_agreement())
    path.write_text('{"version": 1}')
    with pytest.raises(UsageError, match="of version 1"):
        agree_on_plan(out, make_agreement())


def test_parts_agree_on_their_number(out: Path) -> None:
    assert read_parts(out) is None
    agree_on_parts(out, 4)
    agree_on_parts(out, 4)
    assert read_parts(out) == 4
    with pytest.raises(UsageError, match=r"made in 4 parts, so .* of 8 .*--part K/4"):
        agree_on_parts(out, 8)
    (out / WORK_FOLDER / "parts.json").write_text("")
    with pytest.raises(OutputError, match=r"remove .*parts.json"):
        agree_on_parts(out, 4)


@pytest.mark.parametrize(
    ("theirs", "ours", "expected"),
    [
        ({"a": 1}, {"a": 1}, ""),
        ({"a": {"b": [1]}}, {"a": {"b": [2]}}, "b [1] instead of [2]"),
        ({"a": 1}, {}, "a 1 instead of null"),
        ({"a": "x" * 200}, {"a": ""}, 'a "' + "x" * 56 + '… instead of ""'),
    ],
)
def test_describe_difference(theirs: object, ours: object, expected: str) -> None:
    assert describe_difference(theirs, ours) == expected


def test_removing_the_work_folder_spares_what_is_not_ours(out: Path) -> None:
    work = out / WORK_FOLDER
    for name in ("plan.json", "a.tar.0.tmp", "lock-all"):
        (work / name).write_text("")
    (work / "notes.txt").write_text("mine")
    remove_work_folder(out)
    assert [path.name for path in work.iterdir()] == ["notes.txt"]
    (work / "notes.txt").unlink()
    remove_work_folder(out)
    assert not work.exists()


def test_who_is_killed_while_removing_leaves_the_plan_and_its_lock_to_the_last(
    out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work, gone = out / WORK_FOLDER, list[str]()
    for name in ("plan.json", "parts.json", "train-000000.json", "lock-all", "a.0.tmp"):
        (work / name).write_text("")

    def unlink(path: Path, missing_ok: bool = False) -> None:
        gone.append(path.name)
        os.unlink(path)

    monkeypatch.setattr(Path, "unlink", unlink)
    remove_work_folder(out)
    assert gone[-2:] == ["plan.json", "lock-all"]


def _plant(path: Path, planted: str) -> None:
    """Put something in a file's place that no run of packer leaves there."""
    if planted == "pipe":
        os.mkfifo(path)
    elif planted == "link":
        path.symlink_to("/dev/zero")
    elif planted == "folder":
        path.mkdir()
    elif planted == "gigabytes":
        with path.open("wb") as file:
            file.truncate(1 << 40)
    else:
        path.write_bytes(RUBBISH[planted])


RUBBISH = {
    "nothing": b"",
    "null": b"null",
    "number": b"1e999",
    "text": b'"text"',
    "list": b"[[1], 2]",
    "nested": b"[" * 1_000_000,
    "nested objects": b'{"version":' * 1_000_000,
    "bytes": bytes(range(256)),
    "digits": b'{"parts": ' + b"9" * 100_000 + b"}",
}
PLANTED = [*RUBBISH, "pipe", "link", "folder", "gigabytes"]


@pytest.mark.parametrize("planted", PLANTED)
@pytest.mark.parametrize("name", ["plan.json", "parts.json", "train-000000.json"])
def test_rubbish_is_one_error_that_names_the_file(
    out: Path, make_agreement: MakeAgreement, name: str, planted: str
) -> None:
    _plant(out / WORK_FOLDER / name, planted)
    read: dict[str, Callable[[], object]] = {
        "plan.json": lambda: read_plan(out),
        "parts.json": lambda: read_parts(out),
        "train-000000.json": lambda: read_shard_state(out, "train-000000"),
    }
    write: dict[str, Callable[[], object]] = {
        "plan.json": lambda: agree_on_plan(out, make_agreement()),
        "parts.json": lambda: agree_on_parts(out, 2),
    }
    for use in (read, write):
        if name in use:
            with pytest.raises(OutputError, match=re.escape(f"{out / WORK_FOLDER / name}: ")) as e:
                use[name]()
            assert e.value.hint and "\n" not in str(e.value) and len(str(e.value)) < 1000


@pytest.mark.parametrize("planted", ["nothing", "pipe", "link", "gigabytes"])
def test_a_state_is_written_over_what_lies_in_its_place(out: Path, planted: str) -> None:
    _plant(out / WORK_FOLDER / "train-000000.json", planted)
    state = ShardState(RECORD, (), {}, "ab")
    write_shard_state(out, "train-000000", state)
    assert read_shard_state(out, "train-000000") == state
