from __future__ import annotations

import json
from typing import Any

import pytest

from packer.errors import UsageError
from packer.reader.order.statedict import (
    OrderIdentity,
    Place,
    Share,
    make_state,
    parse_share,
    parse_state,
)

SEQUENCE = OrderIdentity("ab12", 100, 0, "window", 16, "drop")


def shares(steps: list[int], stride: int = 10, position: int = 20) -> dict[str, Any]:
    """What a loader keeps of its workers, somewhere in its own state."""
    return {
        "_snapshot": {
            f"worker_{worker}": {
                "dataset_state": make_state(
                    SEQUENCE, Place(3, position), Share(worker, len(steps), stride, step)
                )
            }
            for worker, step in enumerate(steps)
        },
        "_steps_since_snapshot": 0,
    }


def test_there_and_back_through_json() -> None:
    state = json.loads(json.dumps(make_state(SEQUENCE, Place(3, 40))))
    assert parse_state(state, SEQUENCE) == Place(3, 40)
    assert parse_share(state, SEQUENCE, 1, 4, 10) == (Place(3, 40), 1)


@pytest.mark.parametrize(
    ("steps", "delivered"),
    [([0, 1], 0), ([2, 1], 1), ([2, 3], 2), ([4, 3], 3), ([0], 0), ([3], 3), ([3, 4, 2], 2)],
)
def test_all_workers_shares_make_a_state(steps: list[int], delivered: int) -> None:
    """They deliver in turn: what the furthest has delivered, all before it have."""
    state = shares(steps)
    assert parse_state(state, SEQUENCE) == Place(3, 20 + 10 * delivered)
    state["_steps_since_snapshot"] = 2
    assert parse_state(state, SEQUENCE) == Place(3, min(100, 20 + 10 * (delivered + 2)))


def test_a_worker_goes_on_from_its_share() -> None:
    state = make_state(SEQUENCE, Place(3, 20), Share(1, 2, 10, 5))
    assert parse_share(state, SEQUENCE, 1, 2, 10) == (Place(3, 20), 5)
    for other in ((0, 2, 10), (1, 3, 10), (1, 2, 20)):
        with pytest.raises(UsageError, match="worker 1 of 2"):
            parse_share(state, SEQUENCE, *other)


def test_some_workers_shares_are_refused() -> None:
    state = shares([2, 1, 2])
    del state["_snapshot"]["worker_1"]
    with pytest.raises(UsageError, match="not the state of all workers"):
        parse_state(state, SEQUENCE)
    mixed = {"a": shares([2, 1]), "b": shares([2, 1], position=30)}
    with pytest.raises(UsageError, match="not the state of all workers"):
        parse_state(mixed, SEQUENCE)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("pack", "cd34"), ("samples", 99), ("seed", 1), ("shuffle", "full"), ("window", 8),
        ("tail", "keep"),
    ],
)  # fmt: skip
def test_another_sequence_is_refused_by_name(name: str, value: Any) -> None:
    state = {**make_state(SEQUENCE, Place(0, 0)), name: value}
    with pytest.raises(UsageError, match=f"{name} {value!r} .here"):
        parse_state(state, SEQUENCE)


@pytest.mark.parametrize("state", [{}, {"epoch": 3}, {"a": {"b": 1}}, {"a": [1]}])
def test_what_is_no_state_is_refused(state: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="not the state of a stream"):
        parse_state(state, SEQUENCE)


def test_another_version_is_refused() -> None:
    with pytest.raises(UsageError, match="version 2"):
        parse_state({**make_state(SEQUENCE, Place(0, 0)), "version": 2}, SEQUENCE)
