import os
from pathlib import Path

import numpy as np
import pytest

from packer.codecs import load_codec
from packer.errors import ImageError, PackerError
from packer.options import ImageOptions
from packer.packing.batch import BatchTask, Slot, describe_batch, make_batch
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
