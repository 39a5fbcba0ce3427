"""The options of an epoch's order."""

from __future__ import annotations

from dataclasses import dataclass

from packer.errors import UsageError, suggestion

SHUFFLES = ("none", "batch", "window", "full")
TAILS = ("drop", "pad", "keep")
#: Bytes of on-disk batches that a process may hold in memory. Enough for two windows of 16 batches
#: of 128 samples of 125 KB, and small beside the other memory of a training process.
WINDOW_BYTES = 512_000_000


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
        _check_choice("shuffle", self.shuffle, SHUFFLES)
        if self.tail is None:
            object.__setattr__(self, "tail", "keep" if self.shuffle == "none" else "drop")
        _check_choice("tail", str(self.tail), TAILS)
        for name in ("batch_size", "window", "world_size", "window_bytes"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name} {getattr(self, name)} is out of range", "at least 1")
        if not 0 <= self.rank < self.world_size:
            raise UsageError(f"rank {self.rank} is out of range: 0 to {self.world_size - 1}")


def _check_choice(what: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise UsageError(f"unknown {what} {value!r}", suggestion(value, choices))
