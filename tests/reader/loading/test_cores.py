from __future__ import annotations

import os

import pytest

from packer.reader.loading import cores

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("usable", "ranks", "expected"),
    [(16, "1", 16), (16, "4", 4), (4, "4", 4), (3, "8", 1), (16, "nonsense", 16)],
)
def test_ranks_of_a_node_share_its_cores(
    monkeypatch: pytest.MonkeyPatch, usable: int, ranks: str, expected: int
) -> None:
    monkeypatch.setattr(cores, "usable_cores", lambda: usable)
    monkeypatch.setattr(os, "cpu_count", lambda: 16)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", ranks)
    assert cores.default_threads() == expected
