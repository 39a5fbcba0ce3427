import pytest

from packer.errors import TooManySkipped
from packer.packing.skips import allowed_skips, judge_skips
from packer.types import Skip

SKIPS = [Skip(n, b"a/%d.jpg" % n, "truncated" if n else "empty", "why") for n in range(12)]


@pytest.mark.parametrize(
    ("planned", "wanted", "limit"), [(5, None, 10), (2000, None, 20), (5, 0, 0), (2000, 3, 3)]
)
def test_the_limit(planned: int, wanted: int | None, limit: int) -> None:
    assert allowed_skips(planned, wanted) == limit


def test_judging() -> None:
    judge_skips(SKIPS, 100, 12)
    judge_skips([], 100, 0)
    with pytest.raises(
        TooManySkipped,
        match=r"12 of 100 pictures skipped, 11 allowed \(11 truncated, 1 empty; first: a/0.jpg",
    ):
        judge_skips(SKIPS, 100, 11)
    with pytest.raises(TooManySkipped, match="not one picture can be stored"):
        judge_skips(SKIPS, 12, 1000)
