from __future__ import annotations

import enum
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from packer.arguments import (
    check_choice,
    check_integer,
    check_names,
    explain_unknown,
    shown,
)
from packer.errors import ConfigError, UsageError

CHOICES = ("window", "full")
#: Values of types that are no text, among them some that compare, hash or print unusually.
NO_TEXT: list[Any] = [
    *(None, True, False, 0, 1, 1.5, float("nan"), b"window", object(), int, print),
    *([], ["window"], {}, {"window": 1}, {"window"}, ("window",), Path("window")),
    *(np.arange(3), np.array(["window", "full"]), np.bool_(True), slice(1), Ellipsis),
]


@pytest.mark.parametrize("value", NO_TEXT, ids=lambda value: type(value).__name__)
def test_a_choice_of_another_type_lists_the_choices(value: Any) -> None:
    with pytest.raises(UsageError) as caught:
        check_choice("shuffle", value, CHOICES)
    text = str(caught.value)
    assert text == f"unknown shuffle {shown(value)} (known: 'window', 'full')"
    assert "\n" not in text


def test_a_similar_choice_is_suggested() -> None:
    with pytest.raises(ConfigError, match=r"'Windw' \(did you mean 'window'\? known: 'window', "):
        check_choice("shuffle", "Windw", CHOICES, ConfigError)


def test_a_choice_is_plain_text() -> None:
    class Shuffle(str, enum.Enum):
        FULL = "full"

    for value in ("full", Shuffle.FULL, np.str_("full")):
        found = check_choice("shuffle", value, CHOICES)
        assert (found, type(found)) == ("full", str)


def test_whole_numbers() -> None:
    for value in (3, np.int64(3), np.uint8(3)):
        found = check_integer("window", value, 1)
        assert (found, type(found)) == (3, int)
    assert check_integer("seed", -(2**70)) == -(2**70)
    for wrong in (None, True, 3.0, "3", [3], np.array([3, 4])):
        with pytest.raises(UsageError, match=r"^invalid window .*whole number"):
            check_integer("window", wrong, 1)
    with pytest.raises(UsageError, match=r"window 0 is out of range \(at least 1\)"):
        check_integer("window", 0, 1)


def test_one_text_is_no_list_of_names() -> None:
    for names in ((), ("image",), ["image"], None, {"image": 1}):
        check_names("fields", names)
    with pytest.raises(UsageError, match=r"invalid fields 'image': one text \(fields=\('image',\)"):
        check_names("fields", "image")


def test_values_are_shown_in_one_short_line() -> None:
    assert shown("a\nb") == r"'a\nb'"
    assert shown(np.arange(4).reshape(2, 2)) == "array([[0, 1], [2, 3]])"
    assert len(shown("a" * 1000)) == 60


def hint(owner: str, name: str) -> str:
    return f"{owner} has it as size" if name == "length" else ""


class Box:
    @explain_unknown(hint)
    def __init__(self, width: int, *, size: int = 1) -> None:
        self.found = width, size

    @explain_unknown(hint)
    def scale(self, factor: int = 1) -> int:
        return self.found[0] * factor


def test_unknown_names_are_explained() -> None:
    make: Any = Box
    with pytest.raises(UsageError) as caught:
        make(length=3)
    assert str(caught.value) == "Box has no argument length (Box has it as size)"
    with pytest.raises(UsageError, match=r"no argument widht \(did you mean width=…\?\)"):
        make(widht=3)
    with pytest.raises(UsageError, match=r"no argument colour \(known: width, size\)"):
        make(3, colour=1)
    several = r"no arguments length, sise \(length: Box has it as size; sise: did you mean size=…"
    with pytest.raises(UsageError, match=several):
        make(3, length=1, sise=2)
    scale: Any = Box(3).scale
    with pytest.raises(UsageError, match=r"^Box\.scale has no argument fctor \(did you mean"):
        scale(fctor=2)


def test_known_names_are_passed_on() -> None:
    assert Box(2, size=3).found == (2, 3)
    assert Box(2).scale(factor=4) == Box(2).scale(4) == 8
    make: Any = Box
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'width'"):
        make(size=3)
