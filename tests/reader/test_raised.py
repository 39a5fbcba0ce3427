"""Errors of transforms on their way to the training loop: by every way of reading."""

from __future__ import annotations

import asyncio
import concurrent.futures
import re
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from torch.utils.data import ConcatDataset, DataLoader, Subset

from packer.reader import BatchStream, Loader, MixedStream, PackedDataset, WindowSampler
from packer.reader.transforms import CenterCrop
from tests.packs import BuildPack

pytestmark = [
    # More workers than cores are slow, and here that is all they are.
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),
    # Python 3.12 and later warn of forks where libraries have threads; that they work is the test.
    pytest.mark.filterwarnings("ignore:This process .*multi-threaded:DeprecationWarning"),
]

SHARDS = [[4, 4, 4]]
#: The sample that a transform fails at, of 12, and its name.
BAD, NAME = 6, r"train-000000\.tar, batch 1, .*class1/6\.v1\.jpg"


class Exhausted(StopIteration):
    pass


SIGNALS = (
    StopIteration,
    Exhausted,
    StopAsyncIteration,
    GeneratorExit,
    concurrent.futures.CancelledError,
    asyncio.CancelledError,
)


class Fails:
    """Raises an error at one picture or label; pickles, for processes that are spawned."""

    def __init__(self, kind: type[BaseException], bad: Any) -> None:
        self.kind = kind
        self.bad = bad

    def __call__(self, value: Any) -> Any:
        if np.array_equal(value, self.bad):
            raise self.kind("mine")
        return value


def reading(built: Any, way: str, **options: Any) -> Any:
    """An iterable over a pack in the order that it is stored."""
    order: dict[str, Any] = {"shuffle": "none"}
    if way in ("threads", "process"):
        process = way == "process"
        return Loader(built.root, batch_size=4, threads=2, process=process, **order, **options)
    dataset: Any = PackedDataset(built.root, decode="numpy", **options)
    stream = BatchStream(dataset, 4, **order)
    two: dict[str, Any] = {"num_workers": 2}
    ways: dict[str, Callable[[], Any]] = {
        "stream": lambda: stream,
        "mixed": lambda: MixedStream([stream]),
        "stream, no workers": lambda: DataLoader(stream, batch_size=None),
        "stream, workers": lambda: DataLoader(stream, batch_size=None, **two),
        "mixed, workers": lambda: DataLoader(MixedStream([stream]), batch_size=None, **two),
        "for": lambda: dataset,
        "for over a subset": lambda: Subset(dataset, range(12)),
        "for over a selection": lambda: dataset.select(first=12),
        "for over a sum": lambda: ConcatDataset([dataset, dataset]),
        "at once": lambda: dataset.__getitems__(range(12)),
        "by index": lambda: DataLoader(dataset, batch_size=4),
        "by index, workers": lambda: DataLoader(dataset, batch_size=4, **two),
        "sampler": lambda: DataLoader(
            dataset, batch_sampler=WindowSampler(dataset, 4, **order), **two
        ),
    }
    return ways[way]()


WAYS = (
    "threads",
    "stream",
    "mixed",
    "stream, no workers",
    "stream, workers",
    "mixed, workers",
    "for",
    "for over a subset",
    "for over a selection",
    "for over a sum",
    "at once",
    "by index",
    "by index, workers",
    "sampler",
)
CASES = [
    *((way, StopIteration) for way in (*WAYS, "process")),
    *((way, kind) for kind in SIGNALS[1:] for way in ("threads", "stream", "for")),
    *((way, GeneratorExit) for way in ("stream, workers", "by index, workers")),
]


def error_of(make: Callable[[], Any]) -> Exception:
    """What a loop raises; its workers end at once, where torch lets wait for 5 s after an error."""
    loop: Any = None
    try:
        loop = iter(make())
        for _ in loop:
            pass
    except Exception as error:
        return error
    finally:
        if hasattr(loop, "_shutdown_workers"):
            loop._shutdown_workers()
    raise AssertionError("the loop ended without an error")


@pytest.mark.parametrize("what", ["transform", "target_transform"])
@pytest.mark.parametrize(("way", "kind"), CASES)
def test_signals_of_iteration_are_errors(
    build_pack: BuildPack, way: str, kind: type[BaseException], what: str
) -> None:
    """As PEP 479 makes them in generators: none of them may end a loop before its time."""
    if what == "target_transform" and way == "process":
        return  # the same thread, and a second process is slow
    built = build_pack(SHARDS)
    bad = built.pixels[BAD] if what == "transform" else built.labels[BAD]
    error = error_of(lambda: reading(built, way, **{what: Fails(kind, bad)}))
    assert type(error) is RuntimeError
    said = rf"{what} raised {kind.__name__}: mine"
    assert re.search(said, str(error))
    if what == "transform":
        assert re.search(NAME, str(error))
    if "workers" not in way and way != "sampler":  # DataLoader makes an error of the text alone
        assert type(error.__cause__) is kind


@pytest.mark.parametrize("way", [*WAYS, "process"])
def test_other_errors_keep_their_type_and_get_a_name(build_pack: BuildPack, way: str) -> None:
    built = build_pack(SHARDS)
    transform = Fails(ZeroDivisionError, built.pixels[BAD])
    error = error_of(lambda: reading(built, way, transform=transform))
    assert type(error) is ZeroDivisionError
    notes: list[Any] = [*getattr(error, "__notes__", []), error, error.__cause__]
    assert any(re.search(NAME, str(note)) for note in notes)


@pytest.mark.parametrize("way", ["threads", "stream, workers", "for"])
def test_an_error_of_a_target_transform_gets_a_name(build_pack: BuildPack, way: str) -> None:
    built = build_pack(SHARDS)
    error = error_of(lambda: reading(built, way, target_transform=Fails(ZeroDivisionError, 3)))
    assert type(error) is ZeroDivisionError
    notes: list[Any] = [*getattr(error, "__notes__", []), error, error.__cause__]
    assert any(re.search(r"batch 0, .*class3/3\.v1\.jpg", str(note)) for note in notes)


@pytest.mark.parametrize("transform", [[CenterCrop(99), np.negative], [np.negative, CenterCrop(3)]])
def test_a_name_comes_once(build_pack: BuildPack, transform: Any) -> None:
    """Whatever a picture went through: decoding, built-in transforms, the loader's threads."""
    built = build_pack(SHARDS)
    transform = [*transform, Fails(ValueError, None), lambda pixels: pixels[99, 99]]
    error = error_of(lambda: reading(built, "threads", transform=transform))
    if sys.version_info >= (3, 11):
        assert len(error.__notes__) == 1


@pytest.mark.parametrize("what", ["transform", "target_transform"])
@pytest.mark.parametrize("way", ["for", "for over a subset", "at once", "by index, workers"])
def test_an_index_error_does_not_end_a_loop_over_indices(
    build_pack: BuildPack, way: str, what: str
) -> None:
    """Python ends a `for` loop at IndexError where there is no __iter__."""
    built = build_pack(SHARDS)
    bad = built.pixels[BAD] if what == "transform" else built.labels[BAD]
    error = error_of(lambda: reading(built, way, **{what: Fails(IndexError, bad)}))
    assert type(error) is RuntimeError
    assert re.search(r"raised IndexError: mine", str(error))
    dataset: Any = PackedDataset(built.root)
    with pytest.raises(IndexError, match="sample 12 of 12"):
        dataset[12]
    assert len(list(dataset)) == 12


@pytest.mark.parametrize("way", ["threads", "stream"])
def test_the_state_is_of_the_epoch_that_failed(build_pack: BuildPack, way: str) -> None:
    built = build_pack(SHARDS)
    stream = reading(built, way, transform=Fails(StopIteration, built.pixels[BAD]))
    stream.set_epoch(3)
    with pytest.raises(RuntimeError):
        list(stream)
    state = stream.state_dict()
    again = reading(built, way, fields=("key",)) if way == "threads" else None
    assert state["epoch"] == 3
    if again is not None:
        again.load_state_dict(state)
        assert [keys for (keys,) in again] == [built.keys[4:8], built.keys[8:]]
