from __future__ import annotations

import threading

import numpy as np
import pytest

from packer.reader.batches.making import Maker
from packer.reader.batches.material import Wanted
from packer.reader.loading.pipeline import Pipeline
from packer.reader.loading.sheets import HeapSheets
from packer.types import Array
from tests.materials import MakeMaterial
from tests.packs import BuildPack

pytestmark = pytest.mark.slow


def test_many_at_once_in_any_order_of_threads(
    build_pack: BuildPack, make_material: MakeMaterial
) -> None:
    built = build_pack([[8, 8], [8]])
    material = make_material(built, 5)
    layout = material.layout()
    assert layout is not None
    sheets = [HeapSheets(layout, 0).take() for _ in range(5)]
    pipeline = Pipeline(Maker(material), 3)
    results = [pipeline.submit(Wanted(0, 0, step), sheets[step]) for step in range(5)]
    for step, result in enumerate(results):
        samples = range(5 * step, min(24, 5 * step + 5))
        columns, count = result.result(30)
        assert columns["key"] == [built.keys[sample] for sample in samples]
        pictures = sheets[step].array[:count]
        assert np.array_equal(pictures, [built.pixels[sample] for sample in samples])
    pipeline.close()


def test_pictures_are_decoded_in_all_threads_at_once(
    build_pack: BuildPack, make_material: MakeMaterial
) -> None:
    together = threading.Barrier(3, timeout=30)

    def meet(pixels: Array) -> Array:
        together.wait()
        return pixels

    material = make_material(build_pack([[12]]), 12, transform=meet)
    pipeline = Pipeline(Maker(material), 3)
    assert len(pipeline.submit(Wanted(0, 0, 0), None).result(60).columns["key"]) == 12
    pipeline.close()


def test_an_error_comes_once_nobody_writes_any_more(
    build_pack: BuildPack, make_material: MakeMaterial
) -> None:
    """The sheet may be used again then."""
    failed, at_work = threading.Event(), []

    def fail(pixels: Array) -> Array:
        if threading.current_thread() is first[0]:
            failed.set()
            raise ValueError("no")
        at_work.append(1)
        failed.wait(30)
        at_work.pop()
        return pixels

    first: list[threading.Thread] = []

    def choose(pixels: Array) -> Array:
        if not first:
            first.append(threading.current_thread())
        return pixels

    material = make_material(build_pack([[8]]), 8, transform=[choose, fail])
    pipeline = Pipeline(Maker(material), 2)
    with pytest.raises(ValueError, match="no"):
        pipeline.submit(Wanted(0, 0, 0), None).result(60)
    assert at_work == []
    pipeline.close()


def test_closing_drops_what_is_not_done(build_pack: BuildPack, make_material: MakeMaterial) -> None:
    begun, go_on, decoded = threading.Event(), threading.Event(), []

    def wait(pixels: Array) -> Array:
        begun.set()
        go_on.wait(30)
        decoded.append(1)
        return pixels

    material = make_material(build_pack([[8] * 4]), 8, transform=wait)
    pipeline = Pipeline(Maker(material), 2)
    for step in range(4):
        pipeline.submit(Wanted(0, 0, step), None)
    begun.wait(30)
    threading.Timer(0.2, go_on.set).start()
    pipeline.close()
    assert len(decoded) <= 2  # the one that each thread was at
