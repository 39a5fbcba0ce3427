from __future__ import annotations

import copy
import pickle
import signal

import pytest

from packer import errors
from packer.errors import ImageError, Interrupted, PackerError, closest, suggestion

EXIT_CODES = {
    "PackerError": 1,
    "OutputError": 1,
    "InUse": 1,
    "WorkDone": 1,
    "MissingShards": 1,
    "ReadError": 1,
    "WorkerError": 1,
    "UsageError": 2,
    "OtherPack": 2,
    "ConfigError": 2,
    "SourceError": 2,
    "MissingDependency": 2,
    "SamplerReplaced": 2,
    "TooManySkipped": 3,
    "DamageError": 4,
    "DamagedSample": 4,
}


def _all_classes() -> list[type[PackerError]]:
    return [
        value
        for value in vars(errors).values()
        if isinstance(value, type) and issubclass(value, PackerError)
    ]


def _example(kind: type[PackerError]) -> PackerError:
    if kind is Interrupted:
        return Interrupted(signal.SIGTERM)
    if kind is ImageError:
        return ImageError("truncated", "ends after 60 % of its rows")
    return kind("out: cannot be written", "choose another folder")


def test_exit_codes() -> None:
    for name, code in EXIT_CODES.items():
        assert getattr(errors, name)("x").exit_code == code
    assert {kind.__name__ for kind in _all_classes()} == {*EXIT_CODES, "ImageError", "Interrupted"}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupts_exit_as_shells_do(number: signal.Signals) -> None:
    error = Interrupted(number)
    assert error.exit_code == 128 + number
    assert str(error) == f"stopped by {number.name}"


@pytest.mark.parametrize("kind", _all_classes())
def test_survives_process_borders(kind: type[PackerError]) -> None:
    error = _example(kind)
    for back in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(back) is kind
        assert str(back) == str(error)
        assert vars(back) == vars(error)
        assert back.exit_code == error.exit_code


def test_one_line_with_what_to_do() -> None:
    assert str(PackerError("x: is full", "free some space")) == "x: is full (free some space)"
    assert str(PackerError("x: is full")) == "x: is full"
    assert str(_example(ImageError)) == "truncated: ends after 60 % of its rows"


def test_caught_as_a_family() -> None:
    for kind in _all_classes():
        with pytest.raises(PackerError):
            raise _example(kind)
    assert issubclass(errors.ConfigError, errors.UsageError)


@pytest.mark.parametrize(
    ("wrong", "line"),
    [
        ("JPG", "did you mean 'jpeg'?"),
        ("npy", "known: jpeg, png, webp"),
        ("jepg", "did you mean 'jpeg'?"),
        ("web", "did you mean 'webp'?"),
        ("???", "known: jpeg, png, webp"),
        ("", "known: jpeg, png, webp"),
    ],
)
def test_suggestion(wrong: str, line: str) -> None:
    assert suggestion(wrong, ["webp", "jpeg", "png"]) == line


@pytest.mark.parametrize(
    ("wrong", "right"),
    [("wds", "tar"), ("WebDataset", "tar"), ("h5", "hdf5"), ("mdb", "lmdb"), ("hdf", "hdf5")],
)
def test_formats_by_the_names_they_have_elsewhere(wrong: str, right: str) -> None:
    assert suggestion(wrong, ["tar", "lmdb", "hdf5"]) == f"did you mean {right!r}?"


@pytest.mark.parametrize("wrong", [None, True, 3, b"jpeg", ["jpeg"], object()])
def test_what_is_no_text_is_like_nothing(wrong: object) -> None:
    assert suggestion(wrong, ["webp", "jpeg"]) == "known: jpeg, webp"
    assert closest(wrong, ["webp", "jpeg"]) is None


def test_closest() -> None:
    assert closest("jepg", ["webp", "jpeg"]) == "jpeg"
    assert closest("jpg", ["webp", "jpeg"]) == "jpeg"
    assert closest("???", ["webp", "jpeg"]) is None
