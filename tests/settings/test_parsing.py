from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from packer.errors import ConfigError
from packer.settings.parsing import (
    MAX_SIDE,
    doubt_shard_size,
    parse_bytes,
    parse_colour,
    parse_size,
    parse_split,
)


@pytest.mark.parametrize(
    ("text", "mode", "size"),
    [
        (None, "short", None),
        ("256", "short", (256, 256)),
        ("1", "long", (1, 1)),
        ("224x320", "exact", (224, 320)),
        ("224X320", "pad", (224, 320)),
        (str(MAX_SIDE), "crop", (MAX_SIDE, MAX_SIDE)),
    ],
)
def test_sizes(text: str | None, mode: str, size: tuple[int, int] | None) -> None:
    assert parse_size(text, mode) == size


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "0",
        "0x5",
        "5x0",
        "-1",
        "1.5",
        "256px",
        "1x2x3",
        "65536",
        "٣",
        "²",
        " 256",
        "1e3",
        "9" * 5000,
    ],
)
def test_what_is_no_size(text: str) -> None:
    """Digits of other scripts too: int() would take some and choke on others."""
    with pytest.raises(ConfigError, match="size"):
        parse_size(text, "exact")


@pytest.mark.parametrize("mode", ["short", "long"])
def test_modes_of_one_number_take_one(mode: str) -> None:
    with pytest.raises(ConfigError, match="two numbers, but mode"):
        parse_size("224x224", mode)


@pytest.mark.parametrize(
    ("text", "colour"),
    [
        ("white", (255, 255, 255)),
        ("black", (0, 0, 0)),
        ("#102030", (16, 32, 48)),
        ("fFfF00", (255, 255, 0)),
    ],
)
def test_colours(text: str, colour: tuple[int, int, int]) -> None:
    assert parse_colour(text) == colour


@pytest.mark.parametrize("text", ["", "red", "#12345", "#1234567", "#gggggg", "#11223344", "12 34"])
def test_what_is_no_colour(text: str) -> None:
    with pytest.raises(ConfigError, match="is not a colour"):
        parse_colour(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("256MB", 256_000_000),
        ("256mb", 256_000_000),
        ("256 M", 256_000_000),
        ("1GiB", 1 << 30),
        ("1.5kB", 1500),
        ("0.5KiB", 512),
        ("2TB", 2 * 10**12),
        ("4096", 4096),
        ("4096B", 4096),
        (4096, 4096),
    ],
)
def test_numbers_of_bytes(text: str | int, value: int) -> None:
    assert parse_bytes(text) == value


@pytest.mark.parametrize(
    "text", ["", "MB", "-1MB", "1iB", "1XB", "1.2.3", "1e6", "0.3B", "٣MB", "9" * 5000, True]
)
def test_what_is_no_number_of_bytes(text: str) -> None:
    with pytest.raises(ConfigError, match="is not a"):
        parse_bytes(text)


@given(st.integers(0, 2**63 - 1))
def test_whole_numbers_of_bytes_are_kept_exactly(value: int) -> None:
    assert parse_bytes(str(value)) == parse_bytes(value) == value


@pytest.mark.parametrize("value", ["256MB", "256B", "1 kb", "1k", "0B", "1048576", 300_000_000])
def test_shard_sizes_without_a_doubt(value: str | int) -> None:
    assert doubt_shard_size(value) == ""


@pytest.mark.parametrize("value", ["256", 256, "0", "1048575", " 64 ", "1.0"])
def test_a_small_shard_size_without_a_unit_is_doubted(value: str | int) -> None:
    number = str(value).strip()
    doubt = doubt_shard_size(value)
    assert doubt.startswith(f"shard size {number} is {number} bytes")
    assert f"{number}MB for megabytes, {number}B for bytes" in doubt
    assert parse_bytes(f"{number}B") == parse_bytes(value)


@pytest.mark.parametrize(
    ("text", "names", "fractions"),
    [
        ("train=0.8,val=0.2", ("train", "val"), (0.8, 0.2)),
        (" a = .25 , b_2=0.75", ("a", "b_2"), (0.25, 0.75)),
        ("train=1", ("train",), (1.0,)),
        ("train=1,val=0", ("train", "val"), (1.0, 0.0)),
        ("a=0.333333,b=0.333333,c=0.333334", ("a", "b", "c"), (0.333333, 0.333333, 0.333334)),
    ],
)
def test_splits(text: str, names: tuple[str, ...], fractions: tuple[float, ...]) -> None:
    assert parse_split(text) == (names, fractions)


@pytest.mark.parametrize(
    ("text", "wrong", "meant"),
    [
        ("train=80,val=20", "its parts must sum to 1, and their sum is 100", "train=0.8,val=0.2"),
        ("train=0.5,val=0.4", "sum to 1, and their sum is 0.9", "train=0.5556,val=0.4444"),
        ("train=0.7,val=0.15,test=0.1", "is 0.95", "train=0.7368,val=0.1579,test=0.1053"),
        ("a=0.33333,b=0.33333,c=0.33333", "is 0.99999", "a=0.3333,b=0.3333,c=0.3334"),
        ("val=0.2", "sum is 0.2", "train=0.8,val=0.2"),
        ("train=0.75", "sum is 0.75", "train=0.75,val=0.25"),
        ("80/20", "parts that sum to 1", "train=0.8,val=0.2"),
        ("80:10:10", "parts that sum to 1", "train=0.8,val=0.1,test=0.1"),
        ("0.8,0.2", "parts that sum to 1", "train=0.8,val=0.2"),
        ("0.8", "parts that sum to 1", "train=0.8,val=0.2"),
        ("90", "parts that sum to 1", "train=0.9,val=0.1"),
        ("train=80%,val=20%", "parts that sum to 1", "train=0.8,val=0.2"),
        ("train:0.8 val:0.2", "parts that sum to 1", "train=0.8,val=0.2"),
        ("NONE", "not of the form", "none"),
    ],
)
def test_a_wrong_split_suggests_a_valid_one(text: str, wrong: str, meant: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(wrong)) as caught:
        parse_split(text)
    assert caught.value.hint == f"did you mean {meant}?"
    if meant != "none":
        parse_split(meant)


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("", "not of the form"),
        ("train", "not of the form"),
        ("train=x", "not of the form"),
        ("train=nan,val=1", "not of the form"),
        ("train=inf", "not of the form"),
        ("train=2", "their sum is 2"),
        ("train=0,val=0", "their sum is 0"),
        ("train=99999,val=1", "their sum is 100000"),
        ("a=0.5,a=0.5", "has a name twice"),
        ("a/b=1", "the name 'a/b'"),
        ("=1", "the name ''"),
        ("train=-1,val=2", "has a negative part"),
    ],
)
def test_splits_that_are_refused(text: str, wrong: str) -> None:
    with pytest.raises(ConfigError, match=wrong) as caught:
        parse_split(text)
    assert "train=0." in caught.value.hint


@given(st.lists(st.integers(1, 10_000), min_size=2, max_size=3))
def test_every_suggested_split_is_valid(parts: list[int]) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_split("/".join(map(str, parts)))
    meant = re.fullmatch(r"did you mean (.+)\?", caught.value.hint)
    if meant:
        _, fractions = parse_split(meant[1])
        shares = [part / sum(parts) for part in parts]
        assert fractions == pytest.approx(shares, abs=2e-4)
