import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from packer.codecs import load_codec
from packer.errors import ImageError, PackerError
from packer.packing.shards.batch import (
    SMALLEST_PIECE,
    BatchResult,
    BatchTask,
    Slot,
    cut,
    describe_batch,
    make_batch,
    one_batch,
)
from packer.settings.options import ImageOptions
from packer.sources import open_source

SIZE = ImageOptions(size=(32, 32))


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    pixels = np.full((40, 50, 3), 90, np.uint8)
    (tmp_path / "a.jpg").write_bytes(load_codec("jpeg").encode(pixels, ImageOptions()))
    (tmp_path / "png.jpg").write_bytes(load_codec("png").encode(pixels, ImageOptions()))
    (tmp_path / "cut.jpg").write_bytes((tmp_path / "a.jpg").read_bytes()[:-100])
    return tmp_path


def _task(tree: Path, *paths: bytes, fail: bool = False) -> BatchTask:
    slots = tuple(Slot(number + 5, path, number) for number, path in enumerate(paths))
    return BatchTask(open_source(tree), SIZE, slots, fail)


def test_samples_skips_and_notes(tree: Path) -> None:
    (tree / "gone.jpg").mkdir()
    result = make_batch(_task(tree, b"a.jpg", b"cut.jpg", b"gone.jpg", b"png.jpg"))
    assert [(sample.slot, sample.label) for sample in result.samples] == [(5, 0), (8, 3)]
    assert [(sample.width, sample.height) for sample in result.samples] == [(40, 32)] * 2
    assert [(s.slot, s.path, s.reason) for s in result.skips] == [
        (6, b"cut.jpg", "truncated"),
        (7, b"gone.jpg", "unreadable"),
    ]
    assert result.notes == {"extension": 1}
    whole = sum(os.path.getsize(tree / name) for name in ("a.jpg", "cut.jpg", "png.jpg"))
    assert result.read == whole


def test_failing_names_the_picture(tree: Path) -> None:
    with pytest.raises(PackerError, match=r"^cut.jpg: truncated") as caught:
        make_batch(_task(tree, b"a.jpg", b"cut.jpg", fail=True))
    assert isinstance(caught.value.__cause__, ImageError)


def test_describing_a_batch_names_some_files(tree: Path) -> None:
    assert describe_batch(_task(tree, b"a", b"b")) == "a, b"
    many = _task(tree, *(b"%d" % number for number in range(9)))
    assert describe_batch(many) == "0, 1, 2 and 6 more files"


@given(st.lists(st.integers(1, 300), max_size=30), st.integers(1, 5))
def test_batches_are_cut_at_both_ends(sizes: list[int], jobs: int) -> None:
    source = open_source(Path(__file__).parent)
    numbers = iter(range(sum(sizes)))
    tasks = [
        BatchTask(source, SIZE, tuple(Slot(next(numbers), b"a", 0) for _ in range(size)))
        for size in sizes
    ]
    pieces = list(cut(tasks, sum(sizes), jobs))
    batches: list[list[Slot]] = [[]]
    for piece in pieces:
        batches[-1] += piece.slots
        if piece.ends:
            batches.append([])
    assert batches == [*(list(task.slots) for task in tasks), []]
    done = 0
    for piece in pieces:
        left = sum(sizes) - done
        assert len(piece.slots) <= max(SMALLEST_PIECE, min(done, left // (2 * jobs)))
        done += len(piece.slots)


def test_pieces_of_a_batch_make_the_batch(tree: Path) -> None:
    task = _task(tree, *[b"a.jpg"] * 20, b"cut.jpg", *[b"png.jpg"] * 20)
    whole = make_batch(task)
    results = (make_batch(piece) for piece in cut([task, task], 82, 2))
    for _ in range(2):
        pieces = list(one_batch(results))
        assert len(pieces) > 1
        assert [sample for piece in pieces for sample in piece.samples] == whole.samples
        assert [skip for piece in pieces for skip in piece.skips] == whole.skips
        assert sum(piece.read for piece in pieces) == whole.read
    assert next(results, None) is None


def test_payloads_of_a_batch_outlive_the_memory_of_its_first_pieces(tree: Path) -> None:
    memory = bytearray(b"first")
    task = _task(tree, b"a.jpg")
    made = make_batch(task).samples[0]
    first = replace(made, payloads={"image": memoryview(memory)})

    def results() -> Iterator[BatchResult]:
        yield BatchResult([first], ends=False)
        memory[:] = b"other"
        yield BatchResult([made])

    pieces = list(one_batch(results()))
    assert pieces[0].samples[0].payloads == {"image": b"first"}
