"""Files of numeric labels beside pictures; test_agreement.py tests which files sources find."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pytest

from packer.sources._numbers import read_numbers
from packer.types import ClassNumbers, Listing


def numbers_of(
    contents: dict[bytes, bytes], pictures: list[bytes], top: bytes = b""
) -> ClassNumbers:
    none = np.zeros(len(pictures), "<i8")

    def read(paths: Sequence[bytes]) -> Iterator[bytes]:
        return (contents[path] for path in paths)

    found = read_numbers(Listing(pictures, none, none, [], top=top), contents, read)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("content", "value"),
    [
        (b"0", 0), (b"007", 7), (b" 12\r\n", 12), (b"999999999999999999", 999_999_999_999_999_999),
        (b"", -1), (b"-1", -1), (b"+1", -1), (b"1.0", -1), (b"1 2", -1), (b"cat", -1),
        (b"1" * 19, -1), ("\u0663".encode(), -1), (b"0x1", -1), (b"1\0", -1),
    ],
)  # fmt: skip
def test_only_numbers_from_0_on_are_labels(content: bytes, value: int) -> None:
    found = numbers_of({b"1.cls": content}, [b"1.jpg"])
    assert found.values.tolist() == [value]
    assert found.invalid == (() if value >= 0 else (b"1.cls",))


def test_no_files_are_no_numbers() -> None:
    none = np.zeros(1, "<i8")
    assert read_numbers(Listing([b"1.jpg"], none, none, []), [], lambda paths: []) is None


def test_only_files_inside_of_the_top_count() -> None:
    contents = {b"data/1.cls": b"4", b"1.cls": b"5", b"database/1.cls": b"6"}
    found = numbers_of(contents, [b"1.jpg", b"2.jpg"], top=b"data")
    assert found.values.tolist() == [4, -1]
    assert found.alone == ()


def test_the_whole_name_comes_before_the_key() -> None:
    contents = {b"a/v.cls": b"1", b"a/v.2.cls": b"2", b"a.v/3.cls": b"3"}
    pictures = [b"a.v/3.jpg", b"a/v.2.jpg", b"a/v.3.jpg", b"a/v.jpg"]
    found = numbers_of(contents, pictures)
    assert found.values.tolist() == [3, 2, 1, 1]
    assert found.shared == (b"a/v.jpg",)
