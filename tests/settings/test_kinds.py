"""Options check themselves: each field of ConvertOptions against values of all types."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from packer.errors import ConfigError
from packer.settings.kinds import Bytes, Choice, Flag, Named, Names, Part, Size, Text, Whole
from packer.settings.options import OPTIONS, ConvertOptions

#: Values that no option takes.
WRONG: list[Any] = [
    object(), 1.5, math.nan, b"jpeg", Path("jpeg"), {}, {"a": 1}, {1, 2}, [1], ["a", 2], (1, 2, 3),
    np.array([1, 2]), np.float32(1), np.bool_(True), -(10**30), "", "x" * 5000, lambda: 0,
]  # fmt: skip
#: More values that only some kinds take → those kinds.
SOME: list[tuple[Any, tuple[type, ...]]] = [
    (True, (Flag,)),
    (None, ()),
    ("90", (Size, Text, Bytes)),
    (90, (Size, Whole, Bytes)),
    (np.int64(90), (Size, Whole, Bytes)),
    ((1, 2), (Size, Part)),
    ("257.clutter", (Text,)),
    (("a",), (Names,)),
    ([], (Names,)),
    ("no-such-name", (Text,)),
]
#: Wrong values that an option of any kind takes, as any text or any number is one of its values.
FREE = {"scheduler": ("", "x" * 5000), "seed": (-(10**30),), "split_seed": (-(10**30),)}


@pytest.mark.parametrize("name", OPTIONS)
def test_wrong_types_are_refused_when_options_are_made(name: str) -> None:
    label = name.replace("_", " ")
    for value in WRONG:
        if any(
            value is free or value == free
            for free in FREE.get(name, ())
            if type(value) is type(free)
        ):
            continue
        with pytest.raises(ConfigError) as caught:
            ConvertOptions(**{name: value})
        assert len(str(caught.value).splitlines()) == 1
        assert len(str(caught.value)) < 6000
        assert label in str(caught.value) or repr(value) in str(caught.value) or name == "resize"


@pytest.mark.parametrize("name", OPTIONS)
def test_each_kind_takes_its_own_types_alone(name: str) -> None:
    option = OPTIONS[name]
    for value, kinds in SOME:
        if value is None and option.default is None:
            assert option.check(None) is None
        elif isinstance(option.kind, kinds):
            try:
                kept = option.check(value)
            except ConfigError as error:  # of the right type, but out of range
                assert isinstance(option.kind, Text) or "range" in str(error) or value == "90"
            else:
                assert option.check(kept) == kept and type(kept) is type(option.check(kept))
        else:
            with pytest.raises(ConfigError):
                option.check(value)


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ({"resize": 256}, {"resize": "256"}),
        ({"resize": np.int32(256)}, {"resize": "256"}),
        ({"resize": (224, 320), "resize_mode": "crop"}, {"resize": "224x320"}),
        ({"resize": [224, 320], "resize_mode": "pad"}, {"resize": "224x320"}),
        ({"shard_size": "64MB"}, {"shard_size": 64_000_000}),
        ({"part": "1/4"}, {"part": (1, 4)}),
        ({"exclude_classes": ["a", "b"]}, {"exclude_classes": ("a", "b")}),
        ({"batch_size": np.uint8(7)}, {"batch_size": 7}),
    ],
    ids=str,
)
def test_other_forms_are_equal_to_the_usual_one(
    given: dict[str, Any], kept: dict[str, Any]
) -> None:
    made = ConvertOptions(**given)
    assert made == ConvertOptions(**{**given, **kept})
    assert hash(made) == hash(ConvertOptions(**{**given, **kept}))
    for name, value in kept.items():
        assert getattr(made, name) == value
        assert type(getattr(made, name)) is type(value)
    assert dataclasses.replace(made) == made


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"resize": "big"}, "size 'big' is not a size"),
        ({"resize": 0}, "resize 0 is out of range"),
        ({"resize": 70_000}, "size '70000' is out of range"),
        ({"resize": (224, 320)}, "size '224x320' has two numbers, but mode 'short' takes one"),
        ({"resize": (224, True), "resize_mode": "pad"}, "resize True is not a whole number"),
        ({"background": "mauve"}, "background 'mauve' is not a colour"),
        ({"split": "train=2"}, "split 'train=2' is invalid"),
        ({"split": ""}, "split ''"),
        ({"quality": "90"}, "quality '90' is not a whole number"),
        ({"exclude_classes": "257.clutter"}, "exclude classes '257.clutter' is not a list"),
        ({"batch_size": True}, "batch size True is not a whole number"),
        ({"upscale": "no"}, "upscale 'no' is not true or false"),
        ({"codec": None}, "unknown codec None (known: 'jpeg', 'png', 'raw', 'webp')"),
        ({"part": 4}, "part 4 is not K/N"),
        ({"shard_size": "many"}, "'many' is not a size in bytes"),
    ],
    ids=str,
)
def test_messages(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        ConvertOptions(**given)
    assert str(caught.value).startswith(message)


def test_every_kind_occurs() -> None:
    kinds = {type(option.kind) for option in OPTIONS.values()}
    assert kinds == {Flag, Whole, Choice, Named, Text, Size, Bytes, Part, Names}
