from __future__ import annotations

import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from packer.escape import BACKSLASH, escape, escape_path, unescape_path


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (b"a/1.jpg", "a/1.jpg"),
        ("ä/日本.jpg".encode(), "ä/日本.jpg"),
        (b"a b  c", "a b  c"),
        (b"a\tb\nc\rd\\e", r"a\tb\nc\rd\\e"),
        (b"\\t", r"\\t"),
        (b"\x1b[31m\x07\x7f", r"\x1b[31m\x07\x7f"),
        (b"\xff\xfe", r"\xff\xfe"),
        ("\x9b\u202e\u2028".encode(), r"\xc2\x9b\xe2\x80\xae\xe2\x80\xa8"),
        (b"-n.jpg", r"\x2dn.jpg"),
        (b"a-n.jpg", "a-n.jpg"),
        (b"", ""),
    ],
)
def test_how_names_are_written(path: bytes, text: str) -> None:
    assert escape_path(path) == text
    assert unescape_path(text.encode()) == path


@given(st.binary(max_size=40))
@example("\u0085".encode())
@example(b"\xed\xa0\x80")
def test_every_name_comes_back_and_is_safe_to_print(path: bytes) -> None:
    text = escape_path(path)
    assert unescape_path(text.encode()) == path
    assert not any(unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp") for char in text)
    assert not text.startswith("-")


@given(st.binary(max_size=12), st.binary(max_size=12))
@example(b"a\\tb", b"a\tb")
def test_no_two_names_are_written_alike(one: bytes, other: bytes) -> None:
    assert (escape_path(one) == escape_path(other)) == (one == other)


@pytest.mark.parametrize("text", [b"\\", b"a\\", b"\\q", b"\\x", b"\\x4", b"\\xZZ", b"\\\\\\"])
def test_what_is_no_written_name(text: bytes) -> None:
    assert unescape_path(text) is None


def test_for_people_alone() -> None:
    assert escape("a\\b\tc", keep=BACKSLASH) == r"a\b\tc"
    assert escape("\ud800") == r"\xed\xa0\x80"
