from __future__ import annotations

import pytest

from packer.errors import UsageError
from packer.reader.order.options import OrderOptions


def test_the_default_tail_follows_the_shuffle() -> None:
    assert OrderOptions(2, "none").tail == "keep"
    assert {OrderOptions(2, shuffle).tail for shuffle in ("batch", "window", "full")} == {"drop"}


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"shuffle": "windows"}, "did you mean 'window'"),
        ({"tail": "dropped"}, "did you mean 'drop'"),
        ({"batch_size": 0}, "batch_size 0"),
        ({"window": 0}, "window 0"),
        ({"rank": 2, "world_size": 2}, "rank 2"),
        ({"rank": -1}, "rank -1"),
    ],
)
def test_invalid_values_are_refused(values: dict[str, object], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        OrderOptions(**{"batch_size": 1, **values})  # type: ignore[arg-type]
