from __future__ import annotations

import pickle
import subprocess
import sys
from collections import Counter
from typing import Any

import numpy as np
import pytest
from PIL import Image

from packer.errors import DamageError, UsageError
from packer.pack.shards import ShardFiles
from packer.reader import PackedDataset
from packer.reader.transforms import CenterCrop, RandomResizedCrop
from tests.packs import BuildPack

SHARDS = [[4, 0, 4], [3], [4]]


def test_stands_in_for_image_folder(build_pack: BuildPack, format_name: str) -> None:
    built = build_pack(SHARDS, format_name)
    dataset = PackedDataset(built.root)
    assert len(dataset) == 15
    for index, (pixels, label) in enumerate(zip(built.pixels, built.labels, strict=True)):
        image, target = dataset[index]
        assert isinstance(image, Image.Image)
        assert np.array_equal(np.array(image), pixels)
        assert (target, type(target)) == (label, int)
    assert dataset.classes == ["class0", "class1", "class2", "class3", "class4"]
    assert dataset.class_to_idx["class3"] == 3
    assert dataset.samples == dataset.imgs == list(zip(built.keys, built.labels, strict=True))
    assert dataset.keys == built.keys
    assert dataset.targets.dtype == np.int64
    assert dataset.targets.tolist() == built.labels
    assert Counter(dataset.targets.tolist()) == Counter(built.labels)
    assert (dataset.root, dataset.split) == (str(built.root), "train")
    assert "15 samples, 5 classes" in repr(dataset)


def test_indices_count_from_both_ends(build_pack: BuildPack) -> None:
    built = build_pack(SHARDS)
    dataset = PackedDataset(built.root, decode="numpy")
    assert np.array_equal(dataset[-1][0], built.pixels[14])
    assert np.array_equal(dataset[np.int64(3)][0], built.pixels[3])
    for wrong in (15, -16):
        with pytest.raises(IndexError, match=f"sample {wrong} of 15"):
            dataset[wrong]
    # Iterating by index until IndexError, as Python does where there is no __iter__.
    assert len(list(dataset)) == 15  # type: ignore[call-overload]


def test_slices_are_selections(build_pack: BuildPack) -> None:
    built = build_pack(SHARDS)
    dataset = PackedDataset(built.root, decode="numpy", transform=CenterCrop(4))
    for place in (slice(3), slice(4, -2), slice(None, None, 3), slice(9, 9), slice(-3, None)):
        part = dataset[place]
        assert isinstance(part, PackedDataset)
        assert part.keys == built.keys[place]
        assert [label for _, label in part] == built.labels[place]  # type: ignore[attr-defined]
    assert dataset[2:][0][0].shape == (4, 4, 3)
    with pytest.raises(UsageError, match="goes backwards"):
        dataset[::-1]


@pytest.mark.parametrize("index", [[0, 1], np.array([0, 1]), 1.0, "0", None])
def test_what_is_no_index_is_refused(build_pack: BuildPack, index: Any) -> None:
    dataset = PackedDataset(build_pack(SHARDS).root)
    with pytest.raises(TypeError, match=r"is an integer, not \w+; several samples: select"):
        dataset[index]


def test_decodes_as_asked(build_pack: BuildPack) -> None:
    built = build_pack(SHARDS)
    assert np.array_equal(PackedDataset(built.root, decode="numpy")[2][0], built.pixels[2])
    assert PackedDataset(built.root, decode="bytes")[2][0] == built.samples[2].payloads["image"]
    with pytest.raises(UsageError, match="unknown decode"):
        PackedDataset(built.root, decode="tensor")  # type: ignore[arg-type]


def test_arrays_are_writable_and_nobody_elses(build_pack: BuildPack) -> None:
    built = build_pack(SHARDS)
    dataset = PackedDataset(built.root, decode="numpy")
    first, second = dataset.__getitems__([0, 1])
    first[0][:] = 9
    assert np.array_equal(second[0], built.pixels[1])
    assert first[0].base is None


def test_transforms_are_applied(build_pack: BuildPack) -> None:
    built = build_pack(SHARDS)
    dataset = PackedDataset(
        built.root,
        decode="numpy",
        transform=[CenterCrop(4), lambda pixels: pixels.sum()],
        target_transform=lambda label: -label,
    )
    total, label = dataset[3]
    assert total == built.pixels[3][1:5, 2:6].sum()
    assert label == -built.labels[3]


def test_a_random_transform_draws_anew_each_time(build_pack: BuildPack) -> None:
    built = build_pack([[1]], sizes=[(200, 200)])
    dataset = PackedDataset(built.root, decode="numpy", transform=RandomResizedCrop(8))
    first, second = dataset[0][0], dataset[0][0]
    assert first.shape == second.shape == (8, 8, 3)
    assert not np.array_equal(first, second)


def test_several_at_once_are_read_in_few_reads(
    build_pack: BuildPack, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = build_pack(SHARDS)
    dataset = PackedDataset(built.root, decode="numpy")
    wanted = [14, 0, 2, 1, 8, 0]
    sizes = []
    real = ShardFiles.read

    def read(self: ShardFiles, shard: int, offset: int, size: int) -> memoryview:
        sizes.append(size)
        return real(self, shard, offset, size)

    monkeypatch.setattr(ShardFiles, "read", read)
    found = dataset.__getitems__(wanted)
    assert len(sizes) == 3  # one a shard
    for (pixels, label), sample in zip(found, wanted, strict=True):
        assert np.array_equal(pixels, built.pixels[sample])
        assert label == built.labels[sample]


def test_fields_of_bytes_by_name(build_pack: BuildPack, format_name: str) -> None:
    built = build_pack(SHARDS, format_name, extra=True)
    dataset = PackedDataset(built.root)
    assert [dataset.field("note", sample) for sample in (4, 6, -1)] == [b"note 4", None, b"note 14"]
    assert dataset.field("image", 3) == built.samples[3].payloads["image"]
    with pytest.raises(UsageError, match=r"unknown field 'notes'.*did you mean 'note'"):
        dataset.field("notes", 0)
    with pytest.raises(IndexError):
        dataset.field("note", 15)


def test_pickles_small_and_after_use(build_pack: BuildPack, format_name: str) -> None:
    """Data sets that hold open files fail with "cannot pickle Environment"; this one must pickle
    after use.
    """
    built = build_pack([[40] * 5], format_name)
    dataset = PackedDataset(built.root, decode="numpy", transform=CenterCrop(4))
    before = len(pickle.dumps(dataset))
    dataset[3]
    data = pickle.dumps(dataset)
    assert len(data) <= before < 2000
    assert np.array_equal(pickle.loads(data)[3][0], dataset[3][0])


def test_worker_processes_know_the_rank(
    build_pack: BuildPack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that takes itself for rank 0 draws the random numbers of rank 0: a spawned worker
    of rank 3 has no process group; a spawned rank has a data set made before there were ranks.
    """
    dataset = PackedDataset(build_pack(SHARDS).root)
    made_before = pickle.dumps(dataset)
    assert dataset.enter_process() == 0
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setenv("WORLD_SIZE", "4")
    assert pickle.loads(made_before).enter_process() == 3
    made_by_rank_3 = pickle.dumps(dataset)
    monkeypatch.delenv("RANK")
    assert pickle.loads(made_by_rank_3).enter_process() == 3


def test_damage_is_an_error_that_names_the_sample(build_pack: BuildPack) -> None:
    built = build_pack([[8]], "tar", "jpeg", sizes=[(200, 200)])
    dataset = PackedDataset(built.root)
    place = int(dataset.pack.index["image.offset"][5]) + 600
    with built.shard(0).open("r+b") as file:
        file.seek(place)
        file.write(b"\0\0")
    assert dataset[4]
    with pytest.raises(DamageError, match=r"train-000000\.tar, batch 0, .*class0/5\.v1\.jpg"):
        dataset[5]


WITHOUT = """
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {refused!r}:
            raise ImportError(name + " is not here")
sys.meta_path.insert(0, Refuse())
from packer.reader import PackedDataset
dataset = PackedDataset(sys.argv[1], decode={decode!r})
print(len(dataset.__getitems__([0, 5, 2])), dataset[1][0].shape)
print(sorted({refused!r} & sys.modules.keys()))
"""


@pytest.mark.parametrize("codec", ["raw", "jpeg"])
def test_needs_neither_torch_nor_the_converters_libraries(
    build_pack: BuildPack, codec: str
) -> None:
    built = build_pack([[8]], "hdf5", codec)
    refused = {"torch", "PIL", "cv2", "lmdb", "h5py", "joblib"}
    script = WITHOUT.format(refused=refused, decode="numpy")
    done = subprocess.run(
        [sys.executable, "-c", script, str(built.root)], check=True, capture_output=True, text=True
    )
    assert done.stdout == "3 (6, 8, 3)\n[]\n"


def test_importing_the_reader_imports_next_to_nothing() -> None:
    script = (
        "import sys; import packer.reader; "
        "print(sorted({'numpy', 'torch', 'PIL', 'cv2', 'lmdb', 'h5py'} & sys.modules.keys()), "
        "dir(packer.reader))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True
    )
    assert done.stdout.startswith("[]")
    for name in ("PackedDataset", "BatchStream", "MixedStream", "WindowSampler"):
        assert name in done.stdout


def test_the_reader_has_what_it_says_and_nothing_else() -> None:
    import packer.reader

    for name in packer.reader.__all__:
        assert getattr(packer.reader, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'Batch'"):
        packer.reader.Batch  # noqa: B018
