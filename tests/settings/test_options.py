from __future__ import annotations

import dataclasses
import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from packer.convert import convert_dataset
from packer.errors import ConfigError
from packer.reporting import Reporter
from packer.settings.options import (
    RUN_OPTIONS,
    ConvertOptions,
    ImageOptions,
    warnings_of,
    without_effect,
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
        ({"codec": "jpg"}, "unknown codec 'jpg' (did you mean 'jpeg'?"),
        ({"format": "tarr"}, "unknown format 'tarr' (did you mean 'tar'?"),
        ({"filter": "cubic"}, "unknown filter 'cubic' (did you mean 'bicubic'?"),
        ({"resize_mode": "shorter"}, "unknown resize mode 'shorter' (did you mean 'short'?"),
        ({"subsampling": "420"}, "unknown subsampling '420'"),
        ({"order": "random"}, "unknown order 'random'"),
        ({"on_error": "stop"}, "unknown on error 'stop'"),
        ({"backend": "spark"}, "unknown backend 'spark'"),
        ({"quality": 0}, "quality 0 is out of range (1 to 100)"),
        ({"quality": 101}, "quality 101 is out of range"),
        ({"batch_size": 0}, "batch size 0 is out of range"),
        ({"shard_size": 0}, "shard size 0 is out of range (at least 1)"),
        ({"jobs": 0}, "jobs 0 is out of range"),
        ({"max_skipped": -1}, "max skipped -1 is out of range"),
        ({"part": (2, 2)}, "invalid part 2/2 (K/N with K from 0 to N-1)"),
        ({"part": (-1, 2)}, "invalid part -1/2"),
        ({"part": (0, 0)}, "invalid part 0/0"),
        (
            {"split": "train=80,val=20"},
            "split 'train=80,val=20' is invalid: its parts must sum to 1",
        ),
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


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"resize": "256"},
        {"resize": "8", "resize_mode": "crop", "upscale": False},
    ],
)
def test_raw_pixels_of_several_sizes_are_not_converted(values: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="codec raw needs pictures of one size"):
        ConvertOptions(codec="raw", **values).require_one_size()
    with pytest.raises(ConfigError, match="size '8x8' has two numbers"):
        ConvertOptions(codec="raw", resize="8x8").require_one_size()
    ConvertOptions(codec="raw", resize="8x6", resize_mode="pad").require_one_size()
    ConvertOptions(**values).require_one_size()


#: What a conversion is asked for, → the options that change nothing beside it.
COMPANY: list[tuple[dict[str, Any], set[str]]] = [
    ({}, {"resize_mode", "filter", "upscale", "exact_decode", "split_seed"}),
    ({"resize": "40"}, {"split_seed"}),
    ({"resize": "40", "filter": "nearest"}, {"exact_decode", "split_seed"}),
    (
        {"codec": "png", "order": "sorted", "split": "train=0.5,val=0.5"},
        {"quality", "subsampling", "resize_mode", "filter", "upscale", "exact_decode", "seed"},
    ),
    ({"codec": "webp", "resize": "40"}, {"subsampling", "split_seed"}),
    (
        {"codec": "raw", "resize": "40", "resize_mode": "crop", "split": "none"},
        {"quality", "subsampling", "reencode", "split_seed"},
    ),
]
#: Another value than the default's, of all options that decide bytes.
OTHER: dict[str, Any] = {
    "resize_mode": "pad",
    "filter": "box",
    "upscale": False,
    "quality": 40,
    "subsampling": "4:4:4",
    "reencode": True,
    "exact_decode": True,
    "background": "black",
    "seed": 1,
    "split_seed": 1,
    "keep_damaged": True,
}


@pytest.mark.parametrize(("company", "idle"), COMPANY)
def test_an_option_without_effect_is_known_and_all_others_have_one(
    company: dict[str, Any], idle: set[str], tmp_path: Path
) -> None:
    """By really converting: pictures of all kinds, some smaller than the size, some transparent."""
    tree = mixed_tree(tmp_path / "photos")
    usual = ConvertOptions(**{"backend": "sequential", "batch_size": 3, **company})
    plain = digests(tree, tmp_path / "plain", usual)
    assert set(without_effect(usual)) >= idle
    for name, value in OTHER.items():
        if name in company:
            continue
        if (name, company.get("codec")) == ("upscale", "raw"):
            continue  # refused: pictures would not have one size
        changed = dataclasses.replace(usual, **{name: value})
        warned = [line for line in warnings_of(changed) if line.startswith(name.replace("_", " "))]
        same = digests(tree, tmp_path / name, changed) == plain
        assert (name, same, bool(warned)) == (name, name in idle, name in idle)


def test_every_option_is_looked_at() -> None:
    """A new option goes into OTHER, unless it always has an effect or is refused."""
    always = {"resize", "codec", "format", "batch_size", "shard_size", "order", "split"}
    always |= {"exclude_classes"}
    names = {entry.name for entry in dataclasses.fields(ConvertOptions)}
    assert names == OTHER.keys() | always | set(RUN_OPTIONS)


def mixed_tree(folder: Path) -> Path:
    """JPEG, PNG (one transparent) and WebP in two classes: one large enough to be decoded at a
    reduced scale, some with 40 pixels on the shorter side, some smaller.
    """
    random = np.random.default_rng(3)
    for number, (kind, side, mode) in enumerate(
        (
            *(("jpg", 400, "RGB"), ("jpg", 24, "RGB"), ("png", 90, "RGBA"), ("png", 60, "RGB")),
            *(("webp", 30, "RGB"), ("jpg", 53, "RGB"), ("png", 20, "RGB"), ("webp", 53, "RGB")),
        )
    ):
        coarse = random.integers(0, 256, (side // 2, side // 3, len(mode)), np.uint8)
        picture = Image.fromarray(coarse).resize((side, side - side // 4))
        path = folder / "ab"[number % 2] / f"{number}.{kind}"
        path.parent.mkdir(parents=True, exist_ok=True)
        picture.save(path)
    whole = (folder / "a" / "0.jpg").read_bytes()
    (folder / "a" / "damaged.jpg").write_bytes(whole[: len(whole) // 2])
    return folder


def digests(tree: Path, out: Path, options: ConvertOptions) -> dict[str, bytes]:
    """The shards and their indexes. The other files name the options, or state the digest of a file
    that does.
    """
    convert_dataset(tree, out, options, reporter=Reporter())
    return {path.name: path.read_bytes() for path in out.iterdir() if is_content(path)}


def is_content(path: Path) -> bool:
    return path.suffix == ".tar" or (path.suffix == ".index" and "-" in path.stem)


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"jobs": 2, "backend": "sequential"}, "jobs 2 has no effect with backend sequential"),
        ({"scheduler": "tcp://a:1"}, "scheduler tcp://a:1 has no effect without backend dask"),
        ({"merge_when_complete": True}, "merge when complete True has no effect without a part"),
        ({"max_skipped": 3, "on_error": "fail"}, "max skipped 3 has no effect with on-error fail"),
        ({"jobs": 1, "backend": "sequential"}, ""),
        ({"jobs": 2, "backend": "dask", "scheduler": "tcp://a:1"}, ""),
        ({"merge_when_complete": True, "part": (0, 2)}, ""),
        ({"max_skipped": 3}, ""),
        ({}, ""),
    ],
    ids=str,
)
def test_options_of_the_run_without_effect(options: dict[str, Any], line: str) -> None:
    (found,) = warnings_of(ConvertOptions(**options)) or [""]
    assert found.startswith(line) and bool(found) == bool(line)
