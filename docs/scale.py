"""Compute the costs of large data sets: the tables of scale.md.

    python docs/scale.py

Every figure follows from a few measured figures, below, and from the way in which packs are read
and written. tests/test_scale.py compares scale.md with this output, and the model with packs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

KIB, MIB = 1 << 10, 1 << 20
KB, MB, GB, TB = 10**3, 10**6, 10**9, 10**12

# Measured: pictures of Caltech-256's sizes, shorter side 256, JPEG quality 90 (performance.md).
IMAGE_BYTES = 26 * KB
#: Bytes of a tar pack, divided by those of its pictures.
TAR = 1.072
#: Speed of one core converting ImageNet's photos, and of one DataLoader worker reading with
#: RandomResizedCrop: pictures per second (performance.md).
CONVERT_SPEED, READ_SPEED = 440, 1665

# Measured on the Linux NFS client 6.1, v4.2 (scripts/bench_nfs.py).
#: Calls per file: OPEN, READ, CLOSE (v3: GETATTR, ACCESS, READ).
FILE_CALLS = 3
#: Calls per thousand names when a folder is listed.
LISTING_CALLS = 3
#: Calls to open a pack, without reading its index: manifest, listing, index, three closes.
OPENING_CALLS = 11
#: Calls when a process first reads a shard: OPEN, two READs of its fingerprint, CLOSE.
SHARD_CALLS = 4
#: The index is mapped: it is read in pieces of Linux's read-ahead.
INDEX_READ = 128 * KIB

# How packs are made.
BATCH = 128
WINDOW = 16
#: Bytes of the index per sample: slot, label, width, height, notes, one field, start of its path.
INDEX_SAMPLE = 8 + 4 + 4 + 4 + 4 + (8 + 8 + 4) + 8
#: Bytes of the index per batch of a split: offset, bytes, first, count, shard.
INDEX_BATCH = 8 + 8 + 8 + 4 + 4
#: Bytes of a path such as n01440764/n01440764_10026.JPEG.
PATH_BYTES = 30
#: Bytes of manifest.json per shard, with its two companion files.
MANIFEST_SHARD = 500
#: Memory of a reading process per sample, in bytes: flags of checked samples; temporary arrays when
#: an epoch begins; the order of shuffle="full".
CHECKED, MOMENT, FULL_ORDER = 1, 25, 8

#: Bytes of a READ call of a usual server.
READ_SIZE = MIB


@dataclass(frozen=True)
class Server:
    """Limits of a server for all clients together: calls and bytes per second."""

    calls: float
    size: float


@dataclass(frozen=True)
class Pack:
    """One split in tar shards.

    Attributes:
        images: Number of samples.
        image_bytes: Mean size of a picture.
        shard_bytes: Target size of a shard.
        path_bytes: Mean length of a path.
        read_size: Bytes of the server's READ calls.
        overhead: Bytes of the pack, divided by those of its pictures.
        batch: Samples in an on-disk batch.
    """

    images: int
    image_bytes: float = IMAGE_BYTES
    shard_bytes: int = 256 * MB
    path_bytes: float = PATH_BYTES
    read_size: int = READ_SIZE
    overhead: float = TAR
    batch: int = BATCH

    @property
    def size(self) -> float:
        """Bytes of all shards."""
        return self.images * self.image_bytes * self.overhead

    @property
    def batches(self) -> int:
        """Number of on-disk batches."""
        return math.ceil(self.images / self.batch)

    @property
    def shards(self) -> int:
        """Number of shards."""
        each = max(1, round(self.shard_bytes / (self.size / self.batches)))
        return math.ceil(self.batches / each)

    @property
    def index_bytes(self) -> float:
        """Size of the split's index."""
        return self.images * (INDEX_SAMPLE + self.path_bytes) + self.batches * INDEX_BATCH

    @property
    def opening_calls(self) -> int:
        """Calls to open it on a node without cached data; paths are not read."""
        index = self.index_bytes - self.images * self.path_bytes
        listing = math.ceil(3 * self.shards * LISTING_CALLS / 1000)
        manifest = math.ceil(self.shards * MANIFEST_SHARD / self.read_size)
        return OPENING_CALLS + listing - 1 + manifest - 1 + math.ceil(index / INDEX_READ)

    @property
    def epoch_calls(self) -> int:
        """Calls of one epoch, in order, by batch or by window, on one node."""
        span = self.size / self.batches
        reads = self.batches * math.ceil(span / self.read_size)
        return self.opening_calls + self.shards * SHARD_CALLS + reads

    @property
    def full_calls(self) -> int:
        """Calls of one epoch with shuffle="full": one READ per picture."""
        return self.opening_calls + self.shards * SHARD_CALLS + self.images

    def ranks_calls(self, nodes: int) -> int:
        """Calls of one epoch on several nodes: each opens the pack and, at worst, every shard."""
        once = self.opening_calls + self.shards * SHARD_CALLS
        return self.epoch_calls + (nodes - 1) * once


def number(value: float) -> str:
    """Format a number with three digits and a unit of thousands."""
    for unit, name in ((TB, " T"), (GB, " G"), (MB, " M"), (KB, " k")):
        if value >= unit * 0.9995:
            return f"{value / unit:.3g}{name}"
    return f"{value:.3g}"


def size(value: float) -> str:
    """Format a number of bytes."""
    return number(value) + ("B" if value >= KB else " B")


def duration(seconds: float) -> str:
    """Format a duration in its usual unit."""
    for unit, name in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= unit:
            return f"{seconds / unit:.1f} {name}"
    return f"{seconds:.1f} s"


def sizes_table() -> Iterator[str]:
    """Make the table of costs of a data set, once and per epoch."""
    packs = [Pack(1_281_167), Pack(100_000_000)]
    rows: list[tuple[str, Callable[[Pack], str]]] = [
        ("**pictures as files**: files", lambda p: f"{p.images:,}"),
        ("calls to list them", lambda p: number(p.images * LISTING_CALLS / 1000)),
        ("calls per epoch", lambda p: number(p.images * FILE_CALLS)),
        ("**pack**: bytes", lambda p: size(p.size)),
        ("shards of 256 MB", lambda p: f"{p.shards:,}"),
        ("shards of 1 GB", lambda p: f"{Pack(p.images, shard_bytes=GB).shards:,}"),
        ("manifest", lambda p: size(p.shards * MANIFEST_SHARD)),
        ("index of the split, on disk", lambda p: size(p.index_bytes)),
        ("calls to open it, per node", lambda p: number(p.opening_calls)),
        ("calls per epoch: none, batch, window", lambda p: number(p.epoch_calls)),
        ("calls per epoch: full", lambda p: number(p.full_calls)),
        ("files / pack, calls", lambda p: f"{p.images * FILE_CALLS / p.epoch_calls:.0f} ×"),
        (
            "**memory**: index, shared by the processes of a node",
            lambda p: size(p.index_bytes - p.images * p.path_bytes),
        ),
        ("per process: flags of checked samples", lambda p: size(p.images * CHECKED)),
        ("per process: temporary, when an epoch begins", lambda p: size(p.images * MOMENT)),
        ('per process: shuffle="full"', lambda p: size(p.images * FULL_ORDER)),
        (
            "per process: window of 16 batches, and the next",
            lambda p: size(2 * WINDOW * p.size / p.batches),
        ),
        ("**time**: converting, one core", lambda p: duration(p.images / CONVERT_SPEED)),
        ("converting, 64 cores", lambda p: duration(p.images / CONVERT_SPEED / 64)),
        ("reading an epoch, one core", lambda p: duration(p.images / READ_SPEED)),
        ("reading an epoch, 64 cores", lambda p: duration(p.images / READ_SPEED / 64)),
    ]
    yield "| | " + " | ".join(f"{pack.images:,}" for pack in packs) + " |"
    yield "|---|---|---|"
    for name, cell in rows:
        yield f"| {name} | " + " | ".join(cell(pack) for pack in packs) + " |"


def server_table(server: Server, images: int, node_speed: float) -> Iterator[str]:
    """Make the table of epoch times of several nodes at one server, with the limit of each.

    Args:
        server: Shared by all nodes.
        images: Pictures in an epoch.
        node_speed: Pictures per second that a node reads at most.
    """
    pack = Pack(images, shard_bytes=GB)
    cases: tuple[tuple[str, Callable[[int], int], float], ...] = (
        ("files", lambda n: images * FILE_CALLS, images * IMAGE_BYTES),
        ("pack, window", pack.ranks_calls, pack.size),
        ("pack, full", lambda n: pack.full_calls + n * pack.opening_calls, pack.size),
    )
    nodes = (1, 4, 16, 64, 256)
    yield "| nodes | " + " | ".join(str(n) for n in nodes) + " |"
    yield "|---" * (len(nodes) + 1) + "|"
    for name, calls, read in cases:
        cells = []
        for n in nodes:
            limits = {
                "calls": calls(n) / server.calls,
                "bytes": read / server.size,
                "nodes": images / node_speed / n,
            }
            slowest = max(limits, key=lambda limit: limits[limit])
            cells.append(f"{duration(limits[slowest])} ({slowest})")
        yield f"| {name} | " + " | ".join(cells) + " |"


def tables() -> Iterator[str]:
    """Make all tables, in the order of scale.md."""
    yield "\n".join(sizes_table())
    server = Server(calls=20_000, size=1.2 * GB)
    for images in (1_281_167, 100_000_000):
        yield "\n".join(server_table(server, images, node_speed=16_000))


if __name__ == "__main__":
    print("\n\n".join(tables()))  # noqa: T201 - a script
