from __future__ import annotations

from pathlib import Path

import pytest
import torch

from packer.errors import UsageError
from packer.reader.order import ranks


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RANK", raising=False)
    monkeypatch.delenv("WORLD_SIZE", raising=False)


def test_alone_is_rank_0_of_1() -> None:
    assert ranks.resolve(None, None) == (0, 1)


def test_what_is_given_counts_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setenv("WORLD_SIZE", "4")
    assert ranks.resolve(None, None) == (3, 4)
    assert ranks.resolve(1, 2) == (1, 2)


def test_the_process_group_counts_more_than_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setenv("WORLD_SIZE", "4")
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{tmp_path}/group", rank=0, world_size=1
    )
    try:
        assert ranks.resolve(None, None) == (0, 1)
    finally:
        torch.distributed.destroy_process_group()
    assert ranks.resolve(None, None) == (3, 4)


def test_half_an_environment_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "3")
    assert ranks.resolve(None, None) == (0, 1)


@pytest.mark.parametrize(("rank", "world_size"), [(0, None), (None, 2), (2, 2), (-1, 2)])
def test_what_cannot_be_is_refused(rank: int | None, world_size: int | None) -> None:
    with pytest.raises(UsageError):
        ranks.resolve(rank, world_size)


def test_an_environment_without_numbers_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "one")
    monkeypatch.setenv("WORLD_SIZE", "4")
    with pytest.raises(UsageError, match="RANK='one'"):
        ranks.resolve(None, None)


def test_there_is_no_worker_here() -> None:
    assert ranks.worker() is None


@pytest.mark.parametrize(("value", "expected"), [(None, 1), ("4", 4), ("0", 1), ("many", 1)])
def test_ranks_of_a_node(monkeypatch: pytest.MonkeyPatch, value: str | None, expected: int) -> None:
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)
    if value is not None:
        monkeypatch.setenv("LOCAL_WORLD_SIZE", value)
    assert ranks.on_this_node() == expected
