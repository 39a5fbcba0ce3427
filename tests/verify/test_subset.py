from __future__ import annotations

import random

import pytest

from packer.errors import ConfigError
from packer.reporting import Progress, Reporter
from packer.verify.subset import ComparedBytes, Subset, Work, parse_subset


@pytest.mark.parametrize(
    ("text", "subset"),
    [
        ("5%", Subset(0.05)),
        (" 0.5 %", Subset(0.005)),
        ("100%", Subset(1.0)),
        ("0/20", Subset(part=(0, 20))),
        ("19/20", Subset(part=(19, 20))),
    ],
)
def test_subsets(text: str, subset: Subset) -> None:
    assert parse_subset(text) == subset


@pytest.mark.parametrize(
    "text", ["", "5", "0%", "101%", "-5%", "nan%", "1e1%", "20/20", "0/0", "a/b", "٣%", "9" * 5000]
)
def test_what_is_no_subset(text: str) -> None:
    with pytest.raises(ConfigError, match="neither a share nor a part"):
        parse_subset(text)


@pytest.mark.parametrize("batches", [0, 1, 3, 1000])
def test_parts_are_everything_once(batches: int) -> None:
    rng = random.Random(0)
    parts = [Subset(part=(number, 7)).choose(batches, rng) for number in range(7)]
    assert sorted(number for part in parts for number in part) == list(range(batches))


@pytest.mark.parametrize(
    ("batches", "share", "count"), [(0, 0.5, 0), (3, 0.01, 1), (1000, 0.05, 50)]
)
def test_a_share_is_drawn_anew(batches: int, share: float, count: int) -> None:
    rng = random.Random(0)
    chosen = Subset(share).choose(batches, rng)
    assert len(set(chosen)) == count
    assert chosen == sorted(chosen)
    assert batches < 1000 or chosen != Subset(share).choose(batches, rng)


class _Heard(Reporter):
    def __init__(self) -> None:
        self.seen: list[tuple[int, int]] = []

    def progress(self, progress: Progress) -> None:
        self.seen.append((progress.done, progress.total))


def test_work_begins_nothing_when_the_time_is_up() -> None:
    work = Work(10, 1e-9, Reporter())
    assert list(work.begin([1, 2])) == []
    assert work.is_stopped
    work = Work(10, 60, Reporter())
    assert list(work.begin([1, 2])) == [1, 2]
    assert not work.is_stopped


def test_progress_is_of_the_whole_work() -> None:
    """Files first, then pictures that are compared; never more than all."""
    heard = _Heard()
    work = Work(100, None, heard)
    work.done(40)
    pictures = ComparedBytes(work, 60, heard)
    for done in (1, 2, 3):
        pictures.progress(Progress(done, 3))
    work.done(5)
    assert heard.seen == [(40, 100), (60, 100), (80, 100), (100, 100), (100, 100)]
