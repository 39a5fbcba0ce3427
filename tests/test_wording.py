import pytest

from packer.wording import count


@pytest.mark.parametrize(
    ("number", "noun", "text"),
    [
        (1, "shard", "1 shard"),
        (0, "shard", "0 shards"),
        (1, "class", "1 class"),
        (2, "class", "2 classes"),
        (3, "on-disk batch", "3 on-disk batches"),
        (2, "box", "2 boxes"),
        (2, "entry", "2 entries"),
        (2, "byte", "2 bytes"),
        (2, "day", "2 days"),
    ],
)
def test_counts(number: int, noun: str, text: str) -> None:
    assert count(number, noun) == text


def test_the_number_can_be_formatted() -> None:
    assert count(12_345, "file", ",") == "12,345 files"
