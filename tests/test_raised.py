from __future__ import annotations

import asyncio
import concurrent.futures
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from packer.convert import ConvertOptions, convert_dataset
from packer.raised import Contained, as_error, named
from packer.reporting import Reporter


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


@pytest.mark.parametrize("kind", SIGNALS)
def test_what_has_a_meaning_becomes_an_error(kind: type[BaseException]) -> None:
    error = kind("no backgrounds left")
    found = as_error(error, "a transform")
    assert type(found) is RuntimeError
    assert str(found) == f"a transform raised {kind.__name__}: no backgrounds left"
    assert found.__cause__ is error
    assert str(as_error(kind(), "it")) == f"it raised {kind.__name__}"
    with pytest.raises(RuntimeError, match="a block raised") as caught, Contained("a block"):
        raise error
    assert caught.value.__cause__ is error


@pytest.mark.parametrize("kind", [ValueError, IndexError, KeyError, KeyboardInterrupt, SystemExit])
def test_others_stay(kind: type[BaseException]) -> None:
    error = kind("mine")
    assert as_error(error, "it") is named(error, "it", "there") is error
    with pytest.raises(kind), Contained("it"):
        raise error
    if issubclass(kind, Exception):  # no reader would see other ones
        cause: Any = error.__notes__ if sys.version_info >= (3, 11) else [str(error.__cause__)]
        assert cause == ["in there"]


def test_names_where_it_was() -> None:
    assert str(named(StopIteration(), "a transform", "of 3.jpg")).startswith(
        "of 3.jpg: a transform"
    )


def raising(error: BaseException) -> Callable[..., None]:
    def callback(*arguments: Any) -> None:
        raise error

    return callback


@pytest.mark.parametrize("method", ["progress", "detail"])
@pytest.mark.parametrize("kind", [StopIteration, GeneratorExit])
def test_a_reporter_of_convert(tmp_path: Path, method: str, kind: type[BaseException]) -> None:
    for number in range(4):
        path = tmp_path / "src" / "a" / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.zeros((8, 8, 3), np.uint8)).save(path)
    reporter = Reporter()
    setattr(reporter, method, raising(kind()))
    options = ConvertOptions(backend="sequential", batch_size=2)
    with pytest.raises(RuntimeError, match=kind.__name__):
        convert_dataset(tmp_path / "src", tmp_path / "out", options, reporter=reporter)
