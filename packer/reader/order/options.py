"""The options of an epoch's order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from packer.arguments import check_choice, check_integer
from packer.errors import UsageError

Shuffle: TypeAlias = Literal["none", "batch", "window", "full"]
SHUFFLES: tuple[Shuffle, ...] = get_args(Shuffle)
Tail: TypeAlias = Literal["drop", "pad", "keep"]
TAILS: tuple[Tail, ...] = get_args(Tail)
#: Bytes of on-disk batches that a process may hold in memory. Enough for two windows of 16 batches
#: of 128 samples of 125 KB, and small beside the other memory of a training process.
WINDOW_BYTES = 512_000_000


def as_shuffle(given: Shuffle | bool) -> Shuffle:
    """Return a `shuffle` as users give it by its name; True and False are those of DataLoader."""
    if isinstance(given, bool):
        return "window" if given else "none"
    return given


@dataclass(frozen=True)
class OrderOptions:
    """Options of the order. All but `rank` must be equal on all ranks.

    Attributes:
        batch_size: Samples in a mini-batch of one rank.
        shuffle: "none": the packed order; "batch": on-disk batches in random order, each in its
            packed order; "window": on-disk batches in random order, `window` of them mixed at a
            time, the samples of each shuffled; "full": all samples shuffled.
        window: Number of on-disk batches; reduced if they exceed `window_bytes`.
        seed: Any integer.
        tail: Use of the last, partial global mini-batch. "drop": it is left out (with shuffle
            "none", epochs from the second on begin elsewhere, so that its samples differ); "pad":
            it is filled up with samples from the start of the sequence; "keep": it stays partial,
            each sample comes once, and ranks may differ by one step. None: "keep" for shuffle
            "none", else "drop".
        rank: Rank of this process.
        world_size: Number of ranks.
        window_bytes: Largest size of the batches of two windows, in bytes: while one window ends,
            the next one begins.

    Raises:
        UsageError: A value is invalid.
    """

    batch_size: int
    shuffle: str = "window"
    window: int = 16
    seed: int = 0
    tail: str | None = None
    rank: int = 0
    world_size: int = 1
    window_bytes: int = WINDOW_BYTES

    def __post_init__(self) -> None:
        self._set("shuffle", check_choice("shuffle", self.shuffle, SHUFFLES))
        by_default = "keep" if self.shuffle == "none" else "drop"
        tail = by_default if self.tail is None else self.tail
        self._set("tail", check_choice("tail", tail, TAILS))
        for name in ("batch_size", "window", "world_size", "window_bytes"):
            self._set(name, check_integer(name, getattr(self, name), 1))
        for name in ("seed", "rank"):
            self._set(name, check_integer(name, getattr(self, name)))
        if not 0 <= self.rank < self.world_size:
            raise UsageError(f"rank {self.rank} is out of range: 0 to {self.world_size - 1}")

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)  # the class is frozen
