from __future__ import annotations

import dataclasses
import json
import pickle
from typing import Any

import pytest

from packer.errors import ConfigError
from packer.options import (
    MAX_SIDE,
    RUN_OPTIONS,
    ConvertOptions,
    ImageOptions,
    parse_colour,
    parse_size,
)


def test_defaults_are_those_of_the_contract() -> None:
    options = ConvertOptions()
    assert (options.format, options.codec, options.quality) == ("tar", "jpeg", 90)
    assert (options.subsampling, options.batch_size, options.order) == ("4:2:0", 128, "shuffled")
    assert options.shard_size == 256_000_000
    assert options.image.size is None
    assert options.filter == "bicubic"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"codec": "jpg"}, "unknown codec 'jpg' (did you mean 'jpeg'?)"),
        ({"format": "tarr"}, "unknown format 'tarr' (did you mean 'tar'?)"),
        ({"filter": "cubic"}, "unknown filter 'cubic' (did you mean 'bicubic'?)"),
        ({"resize_mode": "shorter"}, "unknown resize mode 'shorter' (did you mean 'short'?)"),
        ({"subsampling": "420"}, "unknown subsampling '420'"),
        ({"order": "random"}, "unknown order 'random'"),
        ({"on_error": "stop"}, "unknown on-error 'stop'"),
        ({"backend": "spark"}, "unknown backend 'spark'"),
        ({"quality": 0}, "quality 0 is out of range (1 to 100)"),
        ({"quality": 101}, "quality 101 is out of range"),
        ({"batch_size": 0}, "batch size 0 is out of range"),
        ({"shard_size": 0}, "shard size 0 is out of range (at least 1)"),
        ({"jobs": 0}, "jobs 0 is out of range"),
        ({"max_skipped": -1}, "max skipped -1 is out of range"),
        ({"part": (2, 2)}, "part 2/2 cannot be"),
        ({"part": (-1, 2)}, "part -1/2 cannot be"),
        ({"part": (0, 0)}, "part 0/0 cannot be"),
        ({"codec": "raw"}, "codec raw needs pictures of one size"),
        ({"codec": "raw", "resize": "256"}, "codec raw needs pictures of one size"),
        ({"codec": "raw", "resize": "8x8", "resize_mode": "short"}, "size '8x8' has two numbers"),
        ({"codec": "raw", "resize": "8", "resize_mode": "crop", "upscale": False}, "codec raw"),
    ],
    ids=str,
)
def test_impossible_options_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        ConvertOptions(**change)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    "change",
    [
        {"quality": 1},
        {"quality": 100},
        {"batch_size": 1_000_000},
        {"part": (0, 1)},
        {"part": (7, 8)},
        {"max_skipped": 0},
        {"codec": "raw", "resize": "8x9", "resize_mode": "crop"},
        {"codec": "raw", "resize": "8", "resize_mode": "pad", "upscale": False},
        {"codec": "raw", "resize": "8", "resize_mode": "exact"},
    ],
    ids=str,
)
def test_possible_options_are_taken(change: dict[str, Any]) -> None:
    options = ConvertOptions(**change)
    assert pickle.loads(pickle.dumps(options)) == options


def test_options_are_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        ConvertOptions().quality = 3  # type: ignore[misc]


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
    ["", "x", "0", "0x5", "5x0", "-1", "1.5", "256px", "1x2x3", "65536", "٣", "²", " 256", "1e3"],
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
    ("options", "one"),
    [
        (ImageOptions(), False),
        (ImageOptions(size=(8, 8), mode="short"), False),
        (ImageOptions(size=(8, 8), mode="long"), False),
        (ImageOptions(size=(8, 8), mode="exact"), True),
        (ImageOptions(size=(8, 8), mode="crop"), True),
        (ImageOptions(size=(8, 8), mode="pad"), True),
        (ImageOptions(size=(8, 8), mode="exact", upscale=False), False),
        (ImageOptions(size=(8, 8), mode="crop", upscale=False), False),
        (ImageOptions(size=(8, 8), mode="pad", upscale=False), True),
    ],
)
def test_one_size(options: ImageOptions, one: bool) -> None:
    assert options.one_size is one


def test_image_options_follow() -> None:
    options = ConvertOptions(
        resize="30x20",
        resize_mode="pad",
        filter="box",
        upscale=False,
        codec="png",
        quality=7,
        subsampling="4:4:4",
        reencode=True,
        exact_decode=True,
        background="black",
    )
    assert options.image == ImageOptions(
        (30, 20), "pad", "box", False, "png", 7, "4:4:4", True, True, (0, 0, 0)
    )


def test_run_options_do_not_affect_bytes() -> None:
    """Runs that make one pack may differ in them; in all others they may not."""
    other = ConvertOptions(
        jobs=3, backend="threading", part=(1, 4), on_error="fail", max_skipped=99
    )
    assert other.affecting_bytes() == ConvertOptions().affecting_bytes()
    names = {entry.name for entry in dataclasses.fields(ConvertOptions)}
    assert set(other.affecting_bytes()) == names - {*RUN_OPTIONS, "keep_damaged"}
    assert ConvertOptions(keep_damaged=True).affecting_bytes()["keep_damaged"] is True
    changed: dict[str, Any] = {
        "resize": "8",
        "resize_mode": "long",
        "filter": "box",
        "upscale": False,
        "codec": "png",
        "quality": 1,
        "subsampling": "4:4:4",
        "reencode": True,
        "exact_decode": True,
        "background": "black",
        "keep_damaged": True,
        "format": "lmdb",
        "batch_size": 1,
        "shard_size": 1,
        "order": "sorted",
        "seed": 1,
        "split": "none",
        "split_seed": 1,
        "exclude_classes": ("a",),
    }
    assert set(changed) == names - set(RUN_OPTIONS)
    for name, value in changed.items():
        options = dataclasses.replace(ConvertOptions(), **{name: value})
        assert options.affecting_bytes() != ConvertOptions().affecting_bytes()
        assert json.loads(json.dumps(options.affecting_bytes())) == options.affecting_bytes()
