"""Going on without damaged samples: `on_error="skip"`.

A damaged sample's place is taken by the next whole one of its on-disk batch, which is at hand
already: mini-batches keep their size, ranks their number of them. Which sample that is depends on
the damage alone, not on which process found it first.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, TypeVar, get_args

import numpy as np

from packer.arguments import check_choice
from packer.errors import DamagedSample
from packer.pack.opened import Pack
from packer.reader.sharedmem import SharedArray
from packer.types import Array

T = TypeVar("T")

OnError: TypeAlias = Literal["raise", "skip"]
ON_ERROR: tuple[OnError, ...] = get_args(OnError)


@dataclass(frozen=True)
class SkippedSample:
    """A damaged sample that was left out.

    Attributes:
        sample: Its number.
        pack: The pack's folder.
        shard: File name of its shard.
        batch: Its on-disk batch, counted through the split.
        key: Its original path.
    """

    sample: int
    pack: str
    shard: str
    batch: int
    key: str


class Skips:
    """What is known of a pack's damaged samples.

    Args:
        pack: The open pack.
        on_error: "raise": damage is an error; "skip": it is noted, and gone around.

    Raises:
        UsageError: Another `on_error`.
    """

    def __init__(self, pack: Pack, on_error: str = "raise") -> None:
        self.on_error = check_choice("on_error", on_error, ON_ERROR)
        self._pack = pack
        # A byte a sample, seen by the processes that read with this one.
        self._bad = SharedArray(len(pack), "uint8") if self.on_error == "skip" else None
        self._warned = False

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_warned": False}

    def skipped(self) -> list[SkippedSample]:
        """The damaged samples found so far, in this process and in DataLoader's workers."""
        return [self._describe(int(sample)) for sample in np.flatnonzero(self._flags())]

    def around(self, samples: Array, make: Callable[[Array], T]) -> T:
        """What `make` makes of these samples, or of others in the places of damaged ones.

        Args:
            samples: int64, sample numbers.
            make: Reads and decodes them all.

        Raises:
            DamagedSample: There is damage and on_error is "raise", or nothing whole is left of a
                sample's on-disk batch.
        """
        while True:
            try:
                return make(self.replaced(samples))
            except DamagedSample as error:
                self.note(error)

    def replaced(self, samples: Array) -> Array:
        """The same samples, those known to be damaged replaced."""
        if self._bad is None:
            return samples
        bad = self._flags()
        if not bad[samples].any():
            return samples
        return np.array([self._replacement(int(sample), bad) for sample in samples], np.int64)

    def note(self, error: DamagedSample) -> None:
        """Remember the sample that an error is about; the first one a process meets is warned of.

        Raises:
            DamagedSample: The same, if damage is to be an error.
        """
        if self._bad is None:
            raise error
        self._bad.array[error.sample] = 1
        if not self._neighbours(error.sample, self._flags()).size:
            raise error
        if not self._warned:
            self._warned = True
            warnings.warn(
                f"{error}; skipped, as on_error='skip' asks: others of its batch take its place. "
                "Later ones are listed in `skipped` without a warning",
                stacklevel=2,
            )

    def _flags(self) -> Array:
        """uint8, one a sample, 1 where it is known to be damaged; a view of the shared memory."""
        return np.zeros(0, np.uint8) if self._bad is None else self._bad.array

    def _replacement(self, sample: int, bad: Array) -> int:
        if not bad[sample]:
            return sample
        whole = self._neighbours(sample, bad)
        # Another process may have found the rest of this batch damaged meanwhile: then the sample
        # itself is tried once more, and its error tells.
        return int(whole[np.searchsorted(whole, sample) % len(whole)]) if whole.size else sample

    def _neighbours(self, sample: int, bad: Array) -> Array:
        """The samples of a sample's on-disk batch that are not known to be damaged."""
        index = self._pack.index
        batch = int(self._pack.batch_of(sample))
        first = int(index["batch_first"][batch])
        return first + np.flatnonzero(bad[first : first + int(index["batch_count"][batch])] == 0)

    def _describe(self, sample: int) -> SkippedSample:
        pack = self._pack
        batch = int(pack.batch_of(sample))
        shard = pack.shard_path(int(pack.index["batch_shard"][batch])).name
        return SkippedSample(sample, str(pack.root), shard, batch, pack.key(sample))
