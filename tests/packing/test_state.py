from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from packer.columns import ShardRecord
from packer.errors import OutputError, UsageError
from packer.packing.shard import WORK_FOLDER
from packer.packing.state import (
    ShardState,
    agree_on_plan,
    describe_difference,
    read_state,
    remove_work_folder,
    skip_from_json,
    skip_to_json,
    write_state,
)
from packer.types import Skip

RECORD = ShardRecord("train-000000.tar", 10240, "00" * 32, (1, 2), 3, 1)


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
    write_state(out, "train-000000", state)
    assert read_state(out, "train-000000") == state


@pytest.mark.parametrize("text", ["", "{", "{}", '{"record": {}}'])
def test_a_damaged_state_says_what_to_remove(out: Path, text: str) -> None:
    (out / WORK_FOLDER / "train-000000.json").write_text(text)
    with pytest.raises(OutputError, match=r"missing or damaged.*remove .*train-000000\.\*"):
        read_state(out, "train-000000")


def test_plans_agree_or_the_difference_is_named(out: Path) -> None:
    agree_on_plan(out, {"options": {"quality": 90, "batch_size": 128}})
    agree_on_plan(out, {"options": {"quality": 90, "batch_size": 128}})
    with pytest.raises(UsageError, match="unfinished pack with batch size 128 instead of 64"):
        agree_on_plan(out, {"options": {"quality": 90, "batch_size": 64}})


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
