from __future__ import annotations

from dataclasses import dataclass

import pytest

from packer.errors import ConfigError
from packer.settings.kinds import Flag, Whole
from packer.settings.options import OPTIONS
from packer.settings.table import PICTURES, RUN, SECTIONS, option, rows_of


@dataclass(frozen=True)
class Toy:
    some_number: int | None = option(None, RUN, Whole(1), "A number.", short="n")
    flag: bool = option(False, PICTURES, Flag(), "A flag.", word="the-flag")


def test_a_field_is_a_row_and_keeps_its_default() -> None:
    assert Toy() == Toy(some_number=None, flag=False)
    rows = rows_of(Toy)
    assert list(rows) == ["some_number", "flag"]
    assert (rows["some_number"].word, rows["some_number"].short) == ("some-number", "n")
    assert (rows["flag"].word, rows["flag"].affects_bytes) == ("the-flag", True)
    assert not rows["some_number"].affects_bytes


def test_none_is_valid_only_as_a_default() -> None:
    rows = rows_of(Toy)
    assert rows["some_number"].check(None) is None
    with pytest.raises(ConfigError, match="flag None is not true or false"):
        rows["flag"].check(None)
    with pytest.raises(ConfigError, match="some number 0 is out of range"):
        rows["some_number"].check(0)


def test_words_are_unique_and_sections_known() -> None:
    words = [row.word for row in OPTIONS.values()]
    assert len(set(words)) == len(words)
    assert {row.section for row in OPTIONS.values()} == set(SECTIONS)
