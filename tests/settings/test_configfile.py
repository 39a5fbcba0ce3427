from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from packer.errors import ConfigError
from packer.settings.configfile import check_options, load_config, names
from packer.settings.options import OPTIONS, ConvertOptions


@pytest.mark.parametrize("name", names())
def test_presets_are_options_that_convert_takes(name: str) -> None:
    options = load_config(name)
    assert options
    made = ConvertOptions(**options)
    assert all(getattr(made, key) == value for key, value in options.items())


def test_presets_differ_as_they_promise() -> None:
    nfs, ssd, ram = load_config("nfs"), load_config("ssd"), load_config("ram")
    assert nfs["batch_size"] > ssd["batch_size"] > ram["batch_size"]
    assert nfs["shard_size"] == 1_000_000_000 > ssd["shard_size"] > ram["shard_size"]


def test_a_file_of_the_users_own(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("resize: 256\nno-such: 1\n")
    with pytest.raises(ConfigError, match=r"mine\.yaml: unknown key 'no-such'"):
        load_config(str(path))
    path.write_text("resize: 256\nbatch-size: 64\nresize_mode: crop\nshard-size: 1GiB\n")
    assert load_config(str(path)) == {
        "resize": "256",
        "batch_size": 64,
        "resize_mode": "crop",
        "shard_size": 1 << 30,
    }


def test_every_option_can_be_given() -> None:
    """No option of `ConvertOptions` is forgotten: its default comes back as itself."""
    given_options: dict[str, Any] = {}
    for option in OPTIONS.values():
        value = option.default
        given_options[option.word] = list(value) if isinstance(value, tuple) else value
    checked = check_options("here", given_options)
    assert ConvertOptions(**checked) == ConvertOptions()


@pytest.mark.parametrize(
    ("key", "value", "kept"),
    [
        ("resize", 224, "224"),
        ("resize", "224x320", "224x320"),
        ("shard-size", "64MB", 64_000_000),
        ("exclude-class", ["257.clutter"], ("257.clutter",)),
        ("part", "0/4", (0, 4)),
        ("codec", "raw", "raw"),
        ("jobs", None, None),
        ("split", "train=0.9,val=0.1", "train=0.9,val=0.1"),
    ],
)
def test_values_are_converted(key: str, value: object, kept: object) -> None:
    [name] = (name for name, option in OPTIONS.items() if option.word == key)
    assert check_options("here", {key: value}) == {name: kept}


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("batch-size", "64", "batch-size: batch size '64' is not a whole number"),
        ("batch-size", True, "batch-size: batch size True is not a whole number"),
        ("batch-size", 0, "batch-size: batch size 0 is out of range"),
        ("upscale", "no", "upscale: upscale 'no' is not true or false"),
        ("quality", 101, "quality: quality 101 is out of range"),
        ("quality", None, "quality: quality None is not a whole number"),
        ("format", "tarr", r"format: unknown format 'tarr' \(did you mean 'tar'"),
        ("codec", 5, "codec: "),
        ("resize", "big", "resize: size 'big' is not a size"),
        ("resize", 25.6, "resize: resize 25.6 is not a size: 256, or 224x320"),
        ("resize", True, "resize: resize True is not a size"),
        ("background", "mauve", "background: background 'mauve' is not a colour"),
        ("shard-size", "1 apple", "shard-size: '1 apple' is not a size in bytes"),
        ("shard-size", [1], "shard-size: shard size .1. is not a whole number"),
        ("exclude-class", "257.clutter", "exclude-class: .* is not a list of names"),
        ("part", 4, "part: part 4 is not K/N"),
        ("part", "0/" + "9" * 5000, "part: part .* is not K/N"),
        ("part", "4/4", "part: invalid part 4/4"),
        ("jobs", 0, "jobs: jobs 0 is out of range"),
        ("batchsize", 4, r"unknown key 'batchsize' \(did you mean 'batch-size'"),
    ],
)
def test_wrong_values_are_named(key: str, value: object, message: str) -> None:
    with pytest.raises(ConfigError, match=f"^here: {message}"):
        check_options("here", {key: value})


def test_one_option_spelled_both_ways_is_refused() -> None:
    with pytest.raises(ConfigError, match="twice, with a dash and an underscore"):
        check_options("here", {"batch-size": 1, "batch_size": 2})


def test_keys_are_the_words_of_the_command_line() -> None:
    with pytest.raises(ConfigError, match=r"unknown key 'exclude-classes' .*'exclude-class'"):
        check_options("here", {"exclude-classes": ["a"]})
