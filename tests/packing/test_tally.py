from __future__ import annotations

import pytest

from packer.errors import TooManySkipped
from packer.packing.shards.batch import BatchResult
from packer.packing.tally import Tally
from packer.reporting import Progress, Reporter
from packer.types import Sample, Skip


class Heard(Reporter):
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.last: Progress | None = None

    def progress(self, progress: Progress) -> None:
        self.last = progress


def _skips(count: int) -> list[Skip]:
    return [Skip(number, b"a/%d.jpg" % number, "empty", "0 bytes") for number in range(count)]


def _sample(slot: int, payload: bytes) -> Sample:
    return Sample(slot=slot, path=b"a.jpg", label=0, width=1, height=1, payloads={"image": payload})


def test_earlier_shards_count_as_done_but_not_as_this_runs_work() -> None:
    heard = Heard()
    tally = Tally(100, 5, heard, share=80)
    tally.add_earlier(40, _skips(1))
    assert heard.last is None
    tally.add_batch(BatchResult([_sample(0, b"123"), _sample(1, b"4")], _skips(1), read=70))
    assert heard.last == Progress(done=43, total=80, skipped=2, read=70, written=4, fresh=3)
    tally.add(20, _skips(2), read=1000, written=500)
    assert heard.last == Progress(done=63, total=80, skipped=4, read=1070, written=504, fresh=23)


def test_skips_are_judged_as_they_arrive() -> None:
    heard = Heard()
    tally = Tally(100, 2, heard, share=100)
    tally.add_earlier(40, _skips(2))
    with pytest.raises(TooManySkipped, match="3 of 100 pictures skipped, 2 allowed"):
        tally.add(20, _skips(1), read=0, written=0)
    assert heard.last is not None  # the last figures show it
    assert heard.last.skipped == 3
    with pytest.raises(TooManySkipped):
        Tally(100, 2, heard, share=100).add_earlier(40, _skips(3))
    with pytest.raises(TooManySkipped):
        Tally(100, 2, heard, share=100).add_batch(BatchResult(skips=_skips(3)))
