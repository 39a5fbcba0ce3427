from __future__ import annotations

import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch.utils.data import DataLoader

from packer.errors import DamagedSample, DamageError, UsageError
from packer.pack.payloads import Verify
from packer.reader import BatchStream, PackedDataset, WindowSampler
from packer.reader.batches.skipping import SkippedSample, Skips
from packer.reader.order.options import Shuffle
from tests.packs import BuildPack

pytestmark = [
    # More workers than cores are slow, and here that is all they are.
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),
    # Python 3.12 and later warn of forks where libraries have threads; that they work is the test.
    pytest.mark.filterwarnings("ignore:This process .*multi-threaded:DeprecationWarning"),
]

SHARDS = [[4, 4], [4]]
#: So large that no picture's middle lies in the ends of a shard, which are compared when it is
#: opened: damage there makes it another shard.
SIZES = [(96, 64)]
FIELDS = ("key", "label", "image")


def damage(built: Any, *samples: int) -> None:
    """Change a byte in the middle of these samples' pictures."""
    index = PackedDataset(built.root).pack.index
    for sample in samples:
        batch = np.searchsorted(index["batch_first"], sample, "right") - 1
        with built.shard(int(index["batch_shard"][batch])).open("r+b") as file:
            place = int(index["image.offset"][sample] + index["image.size"][sample] // 2)
            file.seek(place)
            byte = file.read(1)[0]
            file.seek(place)
            file.write(bytes([byte ^ 0xFF]))


def keys_of(batches: Any) -> list[list[str]]:
    return [list(batch[0]) for batch in batches]


@pytest.mark.parametrize("shuffle", ["none", "batch", "window", "full"])
def test_another_of_its_batch_takes_a_damaged_ones_place(
    build_pack: BuildPack, format_name: str, shuffle: Shuffle
) -> None:
    built = build_pack(SHARDS, format_name, sizes=SIZES)
    damage(built, 1, 2, 7)
    dataset = PackedDataset(built.root, decode="numpy", on_error="skip")
    stream = BatchStream(dataset, 3, shuffle=shuffle, window=2, tail="keep", fields=FIELDS)
    whole = BatchStream(
        PackedDataset(built.root, decode="bytes"), 3,
        shuffle=shuffle, window=2, tail="keep", fields=["key"],
    )  # fmt: skip
    with pytest.warns(UserWarning, match="its checksum differs.*skipped") as warned:
        batches = list(stream)
    assert len(warned) == 1  # once a process
    stand_ins = {1: 3, 2: 3, 7: 4}
    expected = [
        [built.keys[stand_ins.get(built.keys.index(key), built.keys.index(key))] for key in keys]
        for (keys,) in whole
    ]
    assert keys_of(batches) == expected
    for keys, labels, images in batches:
        for key, label, image in zip(keys, labels, images, strict=True):
            sample = built.keys.index(key)
            assert (label, sample) == (built.labels[sample], sample)
            assert np.array_equal(image.permute(1, 2, 0), built.pixels[sample])
    assert stream.skipped == [
        SkippedSample(sample, str(built.root), built.shard(0).name, sample // 4, built.keys[sample])
        for sample in (1, 2, 7)
    ]


@pytest.mark.slow
@pytest.mark.filterwarnings("default:.*skipped .on_error")  # forked workers inherit "error"
def test_workers_and_ranks_agree_and_report(build_pack: BuildPack) -> None:
    """The same mini-batches for any number of workers, the same number on every rank, and the
    list in the training process.
    """
    built = build_pack(SHARDS, sizes=SIZES)
    damage(built, 0, 9)

    def stream_of(**options: Any) -> BatchStream:
        dataset = PackedDataset(built.root, decode="numpy", on_error="skip")
        return BatchStream(dataset, 2, window=2, fields=FIELDS, **options)

    with pytest.warns(UserWarning, match="skipped"):
        expected = keys_of(stream_of())
    for context in ("fork", "forkserver"):
        stream = stream_of()
        loader: Any = DataLoader(
            stream, batch_size=None, num_workers=2, multiprocessing_context=context
        )
        assert keys_of(loader) == expected  # each worker says its warning on stderr
        assert [entry.sample for entry in stream.skipped] == [0, 9]
    ranks = [stream_of(rank=rank, world_size=3) for rank in range(3)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert [len(list(stream)) for stream in ranks] == [2, 2, 2]


def test_by_index_too(build_pack: BuildPack) -> None:
    built = build_pack(SHARDS, "tar", "jpeg", sizes=[(64, 64)])
    damage(built, 5)
    dataset = PackedDataset(built.root, decode="numpy", on_error="skip")
    with pytest.warns(UserWarning, match="skipped"):
        found = dataset.__getitems__([4, 5, 5, 11])
    assert [label for _, label in found] == [built.labels[sample] for sample in (4, 6, 6, 11)]
    assert np.array_equal(found[1][0], dataset[6][0])
    assert [entry.key for entry in dataset.skipped] == [built.keys[5]]
    sampler = WindowSampler(dataset, 4)
    assert len(list(DataLoader(dataset, batch_sampler=sampler))) == 3  # type: ignore[arg-type]


def test_what_cannot_be_decoded_is_skipped(build_pack: BuildPack) -> None:
    """Its bytes are as they were written: the checksum agrees."""
    from packer.reader.images.decoding import Decoder

    built = build_pack(SHARDS)
    dataset = PackedDataset(built.root, decode="numpy", on_error="skip")
    real = Decoder.image

    def image(self: Any, payload: Any, sample: int, draws: Any) -> Any:
        if sample == 3:
            payload = payload[:-1]
        return real(self, payload, sample, draws)

    with pytest.MonkeyPatch.context() as patch, pytest.warns(UserWarning, match="skipped"):
        patch.setattr(Decoder, "image", image)
        assert dataset[3][1] == built.labels[0]


def test_nothing_whole_in_a_batch_is_an_error(build_pack: BuildPack) -> None:
    built = build_pack(SHARDS, sizes=SIZES)
    damage(built, 8, 9, 10, 11)
    dataset = PackedDataset(built.root, decode="numpy", on_error="skip")
    with (
        pytest.warns(UserWarning, match="skipped"),
        pytest.raises(DamageError, match=r"train-000001\.tar, batch 2, .*checksum"),
    ):
        list(BatchStream(dataset, 4, shuffle="none"))
    assert len(dataset.skipped) == 4
    with pytest.raises(DamageError, match="batch 2"):  # and stays one, known as it is
        dataset[9]


def test_by_default_damage_is_an_error_that_says_which(build_pack: BuildPack) -> None:
    built = build_pack(SHARDS, sizes=SIZES)
    damage(built, 5)
    stream = BatchStream(PackedDataset(built.root), 4)
    with pytest.raises(
        DamagedSample, match=rf"{built.root}: train-000000\.tar, batch 1, .*class0/5\.v1\.jpg"
    ) as caught:
        list(stream)
    assert caught.value.sample == 5
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (copy.sample, str(copy)) == (5, str(caught.value))
    assert stream.skipped == []


@pytest.mark.parametrize("verify", ["first", "always"])
def test_damage_that_comes_while_training_runs(build_pack: BuildPack, verify: Verify) -> None:
    """A shard that was written to is compared anew, once or always."""
    built = build_pack(SHARDS, sizes=SIZES)
    dataset = PackedDataset(built.root, decode="numpy", verify=verify)
    assert len(list(BatchStream(dataset, 4))) == 3
    before = Path(built.shard(0)).stat()
    damage(built, 5)
    assert Path(built.shard(0)).stat().st_ino == before.st_ino
    with pytest.raises(DamageError, match="checksum"):
        list(BatchStream(dataset, 4))


def test_pickles_with_what_it_knows(build_pack: BuildPack) -> None:
    built = build_pack(SHARDS, sizes=SIZES)
    damage(built, 1)
    dataset = PackedDataset(built.root, decode="numpy", on_error="skip")
    with pytest.warns(UserWarning, match="skipped"):
        _ = dataset[1]
    copy = pickle.loads(pickle.dumps(dataset))
    assert [entry.sample for entry in copy.skipped] == [1]
    assert copy[1][1] == built.labels[2]


def test_another_word_is_refused(build_pack: BuildPack) -> None:
    dataset = PackedDataset(build_pack(SHARDS).root)
    with pytest.raises(UsageError, match=r"unknown on_error 'skp'.*did you mean 'skip'"):
        Skips(dataset.pack, "skp")
