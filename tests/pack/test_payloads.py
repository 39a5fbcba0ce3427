from __future__ import annotations

import os
import pickle
import zlib
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from packer.errors import DamageError, UsageError
from packer.pack import payloads as payloads_module
from packer.pack.opened import Pack
from packer.pack.payloads import MERGE_GAP, Payloads, merge_runs
from packer.pack.shards import ShardFiles
from packer.types import ABSENT
from tests.packs import BuildPack, PackOptions

# Python 3.12 and later warn of forks where libraries have threads; that they work is the test.
pytestmark = pytest.mark.filterwarnings("ignore:This process .*multi-threaded:DeprecationWarning")

#: Payloads of 7680 bytes, 16 a shard: most of a shard is in neither fingerprint.
BIG: PackOptions = {"shards": [[8, 8], [8]], "sizes": [(64, 40)]}


def payloads_of(
    build_pack: BuildPack, verify: str = "first", **changes: Any
) -> tuple[Any, Payloads]:
    built = build_pack(**{**BIG, **changes})
    return built, Payloads(Pack(built.root), verify)


def flip(built: Any, pack: Pack, sample: int) -> None:
    """Change one byte in the middle of a sample's picture."""
    batch = int(pack.batch_of(sample))
    shard = built.shard(int(pack.index["batch_shard"][batch]))
    place = int(pack.index["image.offset"][sample]) + 3000
    with shard.open("r+b") as file:
        file.seek(place)
        byte = file.read(1)[0]
        file.seek(place)
        file.write(bytes([byte ^ 1]))


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(-1, 300), st.integers(1, 40)), max_size=30),
    st.integers(0, 50),
)
def test_runs_hold_what_is_wanted_and_small_gaps(
    wanted: list[tuple[int, int, int]], gap: int
) -> None:
    shards, offsets, sizes = np.array(wanted, np.int64).reshape(-1, 3).T
    runs = list(merge_runs(shards, offsets, sizes, gap))
    members = [place for run in runs for place in run.members]
    assert sorted(members) == [i for i in range(len(wanted)) if offsets[i] != ABSENT]
    for run in runs:
        covered = np.zeros(400, bool)
        for place in run.members:
            assert shards[place] == run.shard
            assert run.start <= offsets[place]
            assert offsets[place] + sizes[place] <= run.stop
            covered[offsets[place] : offsets[place] + sizes[place]] = True
        assert run.start == min(offsets[place] for place in run.members)
        # No stretch of what is read for nothing is longer than the gap.
        unwanted = "".join("x" if used else "-" for used in covered[run.start : run.stop])
        assert max(map(len, unwanted.split("x")), default=0) <= gap
    for first, second in pairwise(runs):
        assert first.shard < second.shard or second.start - first.stop > gap


def test_reads_fields_in_the_order_asked_for(build_pack: BuildPack, format_name: str) -> None:
    built, payloads = payloads_of(build_pack, format_name=format_name, extra=True)
    wanted = [20, 3, 3, 17, 0]
    images = payloads.read(wanted, "image")
    assert images == [built.samples[sample].payloads["image"] for sample in wanted]
    notes = payloads.read(wanted, "note")
    assert notes == [built.samples[sample].payloads.get("note") for sample in wanted]
    assert notes[1] is None


def test_a_span_holds_its_batch(build_pack: BuildPack, format_name: str) -> None:
    built, payloads = payloads_of(build_pack, format_name=format_name, extra=True)
    for batch in range(3):
        span = payloads.span(batch)
        samples = np.random.default_rng(batch).permutation(np.arange(8 * batch, 8 * batch + 8))
        for name in ("image", "note"):
            found = payloads.cut([span] * 8, samples, name)
            assert found == [built.samples[sample].payloads.get(name) for sample in samples]


def counted_reads(payloads: Payloads, monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    seen: list[tuple[int, int]] = []
    real = ShardFiles.read

    def read(self: ShardFiles, shard: int, offset: int, size: int) -> memoryview:
        seen.append((offset, size))
        return real(self, shard, offset, size)

    monkeypatch.setattr(ShardFiles, "read", read)
    return seen


def test_one_sample_never_costs_its_batch(
    build_pack: BuildPack, monkeypatch: pytest.MonkeyPatch, format_name: str
) -> None:
    """Random reads of whole batches are slow; only the sample's bytes are read."""
    built, payloads = payloads_of(build_pack, format_name=format_name)
    seen = counted_reads(payloads, monkeypatch)
    payloads.read([5], "image")
    assert [size for _, size in seen] == [len(built.samples[5].payloads["image"])]


def test_neighbours_are_read_together_and_strangers_are_not(
    build_pack: BuildPack, monkeypatch: pytest.MonkeyPatch
) -> None:
    # 120 × 120 × 3 bytes each: two unwanted ones between are more than the gap, one is less.
    _, payloads = payloads_of(build_pack, sizes=[(120, 120)])
    assert 43_200 < MERGE_GAP < 2 * 43_200
    seen = counted_reads(payloads, monkeypatch)
    payloads.read([0, 1, 3, 6, 16], "image")
    index = payloads.pack.index
    start = [int(index["image.offset"][sample]) for sample in range(24)]
    assert seen == [
        (start[0], start[3] + 43_200 - start[0]),
        (start[6], 43_200),
        (start[16], 43_200),
    ]


@pytest.mark.parametrize("by_span", [False, True])
def test_a_damaged_sample_is_named_and_its_neighbours_are_read(
    build_pack: BuildPack, by_span: bool, format_name: str
) -> None:
    built, payloads = payloads_of(build_pack, format_name=format_name)
    flip(built, payloads.pack, 18)

    def read(sample: int) -> object:
        if by_span:
            return payloads.cut([payloads.span(sample // 8)], np.array([sample]), "image")[0]
        return payloads.read([sample], "image")[0]

    assert read(17) == built.samples[17].payloads["image"]
    with pytest.raises(DamageError, match="checksum differs") as caught:
        read(18)
    message = str(caught.value)
    offset = int(payloads.pack.index["image.offset"][18])
    for part in (
        str(built.root),
        built.shard(1).name,
        "batch 2",
        f"offset {offset}",
        built.keys[18],
    ):
        assert part in message
    assert str(pickle.loads(pickle.dumps(caught.value))) == message


def test_checked_once_or_always(build_pack: BuildPack, monkeypatch: pytest.MonkeyPatch) -> None:
    """A shard that was changed counts as one that was never compared."""
    compared: list[int] = []

    def crc32(data: memoryview) -> int:
        compared.append(1)
        return zlib.crc32(data)

    monkeypatch.setattr(payloads_module, "zlib", SimpleNamespace(crc32=crc32))
    for verify, again in (("first", 0), ("always", 24)):
        built, payloads = payloads_of(build_pack, verify, name=verify)
        for expected in (24, again):
            compared.clear()
            payloads.read(range(24), "image")
            assert len(compared) == expected
        flip(built, payloads.pack, 3)
        for reader in (payloads, pickle.loads(pickle.dumps(payloads))):
            with pytest.raises(DamageError, match="checksum differs"):
                reader.read([3], "image")


def test_a_forked_child_checks_anew(build_pack: BuildPack) -> None:
    built, payloads = payloads_of(build_pack)
    payloads.read(range(24), "image")
    flip(built, payloads.pack, 3)
    child = os.fork()
    if child == 0:
        try:
            payloads.read([3], "image")
        except DamageError:
            os._exit(7)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_another_file_is_checked_anew(build_pack: BuildPack) -> None:
    """A shard replaced by another of the same name, head and tail: earlier checks do not count."""
    built, payloads = payloads_of(build_pack)
    payloads.read(range(24), "image")
    whole = built.shard(0).read_bytes()
    built.shard(0).unlink()
    built.shard(0).write_bytes(whole)
    flip(built, payloads.pack, 3)
    payloads.files.close()
    with pytest.raises(DamageError, match="checksum differs"):
        payloads.read([3], "image")


def test_unknown_verify_is_refused(build_pack: BuildPack) -> None:
    with pytest.raises(UsageError, match="did you mean 'always'"):
        payloads_of(build_pack, "allways")
