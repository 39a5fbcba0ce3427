"""The figures of docs/scale.md are those of docs/scale.py, whose model agrees with packs."""

from __future__ import annotations

import runpy
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from packer.pack.opened import Pack
from packer.pack.payloads import Payloads
from packer.reader.order.options import OrderOptions
from packer.reader.order.schedule import Schedule
from packer.settings.options import ConvertOptions
from packer.writer import PackWriter

pytestmark = pytest.mark.slow

DOCS = Path(__file__).parent.parent / "docs"

#: What the Linux NFS client counted for one epoch in order (scripts/bench_nfs.py: 1,279 pictures,
#: v4.2): size of READ calls in KiB, bytes of the pack by its pictures', calls.
COUNTED = [
    (512, 34_672_891, 86),
    (512, 32_414_462, 83),
    (1024, 34_672_891, 56),
    (1024, 32_414_462, 53),
]
PICTURES, PICTURES_BYTES = 1279, 32_271_258


@pytest.fixture(scope="module")
def scale() -> dict[str, Any]:
    """What scale.py defines."""
    return runpy.run_path(str(DOCS / "scale.py"))


@pytest.fixture
def write_pack(tmp_path: Path) -> Callable[[int], Pack]:
    """Makes a pack of some samples in batches of 8 and shards of a few, paths of 9 bytes."""

    def write(samples: int) -> Pack:
        out = tmp_path / str(samples)
        options = ConvertOptions(batch_size=8, shard_size=8_000)
        pixels = np.zeros((8, 8, 3), np.uint8)
        with PackWriter(out, classes=["a"], options=options) as writer:
            for number in range(samples):
                writer.write(image=pixels, label=0, key=f"{number:05d}.jpg", split="train")
        return Pack(out)

    return write


def test_the_page_is_what_the_script_prints(scale: dict[str, Any]) -> None:
    page = (DOCS / "scale.md").read_text()
    tables = list(scale["tables"]())
    assert len(tables) == 3
    for table in tables:
        assert table in page


def test_calls_are_those_that_were_counted(scale: dict[str, Any]) -> None:
    """Within 6 %, for each format and size of READ calls that was measured."""
    for kib, size, calls in COUNTED:
        pack = scale["Pack"](
            PICTURES,
            PICTURES_BYTES / PICTURES,
            overhead=size / PICTURES_BYTES,
            read_size=kib << 10,
            path_bytes=20,
        )
        assert pack.epoch_calls == pytest.approx(calls, rel=0.06)


def test_packs_grow_as_computed(scale: dict[str, Any], write_pack: Callable[[int], Pack]) -> None:
    """Index and manifest, by what 512 more samples add to them."""
    small, large = write_pack(512), write_pack(1024)
    grown = large.record.index_bytes - small.record.index_bytes
    shards = len(large.record.shards) - len(small.record.shards)
    assert shards > 8
    computed = [scale["Pack"](count, batch=8, path_bytes=9).index_bytes for count in (512, 1024)]
    of_shards = shards * 64  # their sizes, digests, counts: nothing at real sizes
    names = shards * 25  # and their names, in the header
    assert grown == pytest.approx(computed[1] - computed[0] + of_shards + names, rel=0.03)
    manifests = [(pack.root / "manifest.json").stat().st_size for pack in (small, large)]
    assert manifests[1] - manifests[0] == pytest.approx(shards * scale["MANIFEST_SHARD"], rel=0.1)


def test_memory_is_as_computed(scale: dict[str, Any], write_pack: Callable[[int], Pack]) -> None:
    """Of a process that reads, a sample."""
    payloads = [Payloads(write_pack(count)) for count in (512, 1024)]
    assert [array.nbytes for array in payloads[1]._checked.values()] == [1024 * scale["CHECKED"]]
    peaks = []
    for each in payloads:
        each.dense()  # brings what is kept
        tracemalloc.start()
        each.dense()
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    # A batch of 8, not of 128, costs a few bytes a sample more.
    assert (peaks[1] - peaks[0]) / 512 == pytest.approx(scale["MOMENT"], abs=8)

    counts = np.full(1024, 128, np.int64)
    schedule = Schedule(counts, counts * 26_000, OrderOptions(128, "full"))
    order = schedule.order(0)
    tracemalloc.start()
    schedule.mini_batch(order, 0)
    kept = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert kept / counts.sum() == pytest.approx(scale["FULL_ORDER"], rel=0.05)
