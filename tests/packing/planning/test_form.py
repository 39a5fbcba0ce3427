from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from typing import Any

import pytest

from packer.pack.columns import ShardRecord
from packer.packing.planning.agreement import Agreement, agreement_from_json
from packer.packing.planning.form import check_parts, check_plan, check_state

STATE = {
    "record": dataclasses.asdict(ShardRecord("train-000000.tar", 10, "0" * 64, (1, 2), 3, 1)),
    "skips": [{"slot": 1, "path": "a", "path_base64": "YQ==", "reason": "r", "detail": "d"}],
    "notes": {"gray": 1},
    "stamps": "ab",
}
#: What a value may be replaced with, so that its type or range is another one.
OTHERS: list[Any] = [None, True, -1, 1 << 70, 1.5, "text", [], {}, [None], {"a": None}, [[1, "2"]]]


def plain(value: Any) -> Any:
    return json.loads(json.dumps(value))


def changed(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    made = plain(value)
    place = made
    for step in path[:-1]:
        place = place[step]
    if new is KeyError:
        del place[path[-1]]
    else:
        place[path[-1]] = new
    return made


def test_what_packer_writes_passes(make_agreement: Callable[..., Agreement]) -> None:
    check_plan(make_agreement().to_json())
    check_state(plain(STATE), "train-000000")
    check_parts({"parts": 3})


@pytest.mark.parametrize("key", ["record", "skips", "notes", "stamps"])
@pytest.mark.parametrize("new", [*OTHERS, KeyError])
def test_a_state_of_another_form(key: str, new: Any) -> None:
    if (key, new) in (("skips", []), ("notes", {}), ("stamps", "text")):
        return
    with pytest.raises(ValueError, match=rf"(its|no) '({key}|name)'"):
        check_state(changed(STATE, (key,), new), "train-000000")


@pytest.mark.parametrize("key", STATE["record"])
@pytest.mark.parametrize("new", [*OTHERS, KeyError])
def test_a_record_of_another_form(key: str, new: Any) -> None:
    with pytest.raises(ValueError, match=rf"(its|no) '{key}'"):
        check_state(changed(STATE, ("record", key), new), "train-000000")


@pytest.mark.parametrize(
    "name",
    [
        "../train-000000.tar",
        "train-000001.tar",
        "train-000000",
        "a/train-000000.tar",
        "train-000000.tar\0",
        "train-000000.tar\n",
        "train-000000.t r",
        "train-000000.",
        "",
    ],
)
def test_a_record_of_another_file(name: str) -> None:
    with pytest.raises(ValueError, match="its 'name'"):
        check_state(changed(STATE, ("record", "name"), name), "train-000000")


@pytest.mark.parametrize("key", ["slot", "path", "reason", "detail", "path_base64"])
def test_a_skip_of_another_form(key: str) -> None:
    others: list[Any] = [None, 1.5, [1], {}]
    for new in others:
        with pytest.raises(ValueError, match="its 'skips'"):
            check_state(changed(STATE, ("skips", 0, key), new), "train-000000")


def test_a_plan_of_another_form(make_agreement: Callable[..., Agreement]) -> None:
    plan = plain(make_agreement().to_json())
    fine = {("name", "text"), ("source listing", "text")}
    for key in plan:
        for new in (*OTHERS, KeyError):
            made = changed(plan, (key,), new)
            if key == "version" or (key, str(new)) in fine or made == plan or new == {}:
                continue
            with pytest.raises(ValueError, match=r"its|it has"):
                agreement_from_json(made)


@pytest.mark.parametrize("name", ["../../owned", "a/b", "..", ".", "", "a\nb", "a\0", "a-b"])
def test_a_split_is_a_name(make_agreement: Callable[..., Agreement], name: str) -> None:
    """Else `packer merge` would write its index anywhere."""
    plan = plain(make_agreement().to_json())
    plan["splits"] = {name: [0, 4]}
    with pytest.raises(ValueError, match="its 'splits'"):
        check_plan(plan)


def test_a_plan_of_too_many_shards(make_agreement: Callable[..., Agreement]) -> None:
    plan = plain(make_agreement().to_json())
    plan["splits"] = {"train": [0, (1 << 40) - 1]}
    with pytest.raises(ValueError, match="more than 1,000,000 shards"):
        check_plan(plan)
    plan["splits"] = {"train": [5, 4]}
    with pytest.raises(ValueError, match="its 'splits'"):
        check_plan(plan)


@pytest.mark.parametrize("key", ["format", "codec", "batch_size"])
def test_options_that_are_no_names(make_agreement: Callable[..., Agreement], key: str) -> None:
    plan = plain(make_agreement().to_json())
    others: list[Any] = [None, 0, "../tar", "", "_size", [], KeyError]
    for new in others:
        with pytest.raises(ValueError, match="its 'options'"):
            check_plan(changed(plan, ("options", key), new))


def test_parts() -> None:
    values: list[Any] = [None, [], 3, {}]
    values += [{"parts": parts} for parts in (0, -1, "2", True, 1.0, None)]
    for value in values:
        with pytest.raises(ValueError, match=r"it holds|it has|its 'parts'"):
            check_parts(value)
