from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from packer import registry
from packer.errors import OutputError
from packer.formats import hdf5
from packer.types import Field, Sample
from tests.formats.shards import BuildShard, MakeBatches

LABEL = Field("label", "label", "cls")
#: As the codec raw's; formats know nothing of a codec but its name and file header.
RAW = (Field("image", "image", "npy", "raw"), LABEL)
BYTES = (Field("image", "bytes", "jpg"), LABEL)


def _pixels(slot: int, width: int = 5, height: int = 4) -> Sample:
    payload = np.random.default_rng(slot).bytes(width * height * 3)
    return Sample(slot, b"p", 1, width, height, {"image": payload})


def test_raw_of_one_size_is_arrays(build: BuildShard) -> None:
    """Height comes before width, and the picture is not transposed."""
    batches = [[], [_pixels(0), _pixels(1)], [_pixels(2)], []]
    shard = build("hdf5", RAW, batches, True)
    expected = np.frombuffer(b"".join(s.payloads["image"] for s in shard.samples), np.uint8)
    with h5py.File(shard.path, "r") as file:
        assert [file[f"batches/00000{i}"].shape for i in (1, 2)] == [(2, 4, 5, 3), (1, 4, 5, 3)]
        images = file["images"]
        assert images.is_virtual
        assert (images.shape, images.dtype) == ((3, 4, 5, 3), np.uint8)
        assert np.array_equal(images[:], expected.reshape(3, 4, 5, 3))
    assert shard.by_offsets() == [payloads for _, _, payloads in shard.expected]
    # The virtual data set finds its file under any name, as shards are renamed.
    moved = shard.path.rename(shard.path.with_name("moved.h5"))
    with h5py.File(moved, "r") as file:
        assert file["images"][2].tobytes() == shard.samples[2].payloads["image"]


@pytest.mark.parametrize(
    ("fields", "one_size", "batches"),
    [
        (RAW, False, [[_pixels(0), _pixels(1)]]),
        (RAW, True, [[_pixels(0), _pixels(1, 4, 5)]]),
        (RAW, True, [[_pixels(0)], [Sample(1, b"p", 1, 5, 4, {})]]),
        ((*RAW, Field("extra", "bytes", "bin")), True, [[_pixels(0)]]),
        (BYTES, True, [[_pixels(0)]]),
        (RAW, True, [[]]),
    ],
    ids=["many-sizes", "another-size", "absent", "more-fields", "no-raw", "no-sample"],
)
def test_otherwise_there_is_no_array_of_all(
    build: BuildShard, fields: Any, one_size: bool, batches: Any
) -> None:
    shard = build("hdf5", fields, batches, one_size)
    with h5py.File(shard.path, "r") as file:
        assert "images" not in file
    assert shard.alone() == shard.expected
    assert shard.by_offsets() == [payloads for _, _, payloads in shard.expected]


def test_data_sets_are_contiguous_and_plain(build: BuildShard, make_batches: MakeBatches) -> None:
    shard = build("hdf5", BYTES, make_batches([2, 0, 300], size=(30, 20)))
    with h5py.File(shard.path, "r") as file:
        datasets = [*file["batches"].values(), *file["columns"].values()]
        for dataset in datasets:
            assert (dataset.chunks, dataset.compression) == (None, None)
            assert dataset.dtype.kind in "iu"  # no HDF5 strings: they end at NULs
        offsets = [file[f"batches/{i:06d}"].id.get_offset() or 0 for i in range(3)]
    assert offsets == shard.layout.batch_offset.tolist()
    assert offsets[1] == 0 == shard.layout.batch_bytes[1]


def test_abort_without_close_is_silent(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """libhdf5 prints from destructors if it cannot close."""
    writer = hdf5.Writer(tmp_path / "shard", BYTES, one_size=False)
    writer.add_batch([_pixels(0)])
    writer.abort()
    del writer
    gc.collect()
    assert capfd.readouterr() == ("", "")


def test_hdf5_errors_become_output_errors(tmp_path: Path) -> None:
    writer = hdf5.Writer(tmp_path / "shard", BYTES, one_size=False)
    writer.add_batch([_pixels(0)])
    writer._offsets.clear()  # the next batch takes a name that is taken
    with pytest.raises(OutputError, match=r"shard: HDF5 refused: .*exists"):
        writer.add_batch([_pixels(1)])
    writer.abort()


def test_locked_shard_can_be_read_by_its_offsets(
    build: BuildShard, make_batches: MakeBatches
) -> None:
    """File locks of HDF5 fail on shared file systems; preads by the layout need no lock."""
    import fcntl

    shard = build("hdf5", BYTES, make_batches([3]))
    with shard.path.open("r+b") as holder:
        fcntl.flock(holder, fcntl.LOCK_EX)
        assert shard.by_offsets() == [payloads for _, _, payloads in shard.expected]
        with h5py.File(shard.path, "r", locking=False) as file:
            assert len(file["batches"]) == 1


def test_modules_load_without_the_library() -> None:
    assert registry.load("formats", "hdf5").EXTRA == "h5py"
