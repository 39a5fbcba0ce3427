"""Leaving out damaged samples: `on_error="skip"`.

A damaged sample is replaced by the next undamaged one of its on-disk batch, which has been read
already. So mini-batches keep their size, and ranks their number of mini-batches. Which sample
replaces it depends on the damage alone, not on the process that found it first.
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
        sample: Number of the sample.
        pack: The pack's folder.
        shard: File name of the sample's shard.
        batch: Number of its on-disk batch in the split.
        key: Its original path.
    """

    sample: int
    pack: str
    shard: str
    batch: int
    key: str


class Skips:
    """The damaged samples of a pack that were found so far.

    Args:
        pack: The open pack.
        on_error: "raise": damage is an error; "skip": damaged samples are recorded and replaced.

    Raises:
        UsageError: `on_error` is invalid.
    """

    def __init__(self, pack: Pack, on_error: str = "raise") -> None:
        self.on_error = check_choice("on_error", on_error, ON_ERROR)
        self._pack = pack
        # One byte for each sample, shared with the processes that read with this one.
        self._bad = SharedArray(len(pack), "uint8") if self.on_error == "skip" else None
        self._warned = False

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_warned": False}

    def skipped(self) -> list[SkippedSample]:
        """Return the damaged samples found so far, in this process and in DataLoader's workers."""
        return [self._describe(int(sample)) for sample in np.flatnonzero(self._flags())]

    def around(self, samples: Array, make: Callable[[Array], T]) -> T:
        """Call `make` with these samples, damaged ones replaced, and again after each damaged
        sample that it finds.

        Args:
            samples: int64, sample numbers.
            make: Reads and decodes all samples that it is called with.

        Returns:
            What `make` returns.

        Raises:
            DamagedSample: A sample is damaged, and on_error is "raise" or no undamaged sample is
                left in its on-disk batch.
        """
        while True:
            try:
                return make(self.replaced(samples))
            except DamagedSample as error:
                self.add(error)

    def replaced(self, samples: Array) -> Array:
        """Return the same samples, with those known to be damaged replaced."""
        if self._bad is None:
            return samples
        bad = self._flags()
        if not bad[samples].any():
            return samples
        return np.array([self._replacement(int(sample), bad) for sample in samples], np.int64)

    def add(self, error: DamagedSample) -> None:
        """Record the sample that an error names. A warning names the first one in each process.

        Raises:
            DamagedSample: The same error, if on_error is "raise" or no undamaged sample is left in
                the sample's on-disk batch.
        """
        if self._bad is None:
            raise error
        self._bad.array[error.sample] = 1
        if not self._neighbours(error.sample, self._flags()).size:
            raise error
        if not self._warned:
            self._warned = True
            warnings.warn(
                f"{error}; skipped (on_error='skip'): another sample of its batch takes its place. "
                "Later ones are listed in `skipped` without a warning",
                stacklevel=2,
            )

    def _flags(self) -> Array:
        """Return uint8, 1 for each sample known to be damaged: a view of the shared memory."""
        return np.zeros(0, np.uint8) if self._bad is None else self._bad.array

    def _replacement(self, sample: int, bad: Array) -> int:
        if not bad[sample]:
            return sample
        whole = self._neighbours(sample, bad)
        # Another process may have found the rest of this batch damaged meanwhile: then the sample
        # itself is read once more, and raises its error.
        return int(whole[np.searchsorted(whole, sample) % len(whole)]) if whole.size else sample

    def _neighbours(self, sample: int, bad: Array) -> Array:
        """Return the samples of the same on-disk batch that are not known to be damaged."""
        index = self._pack.index
        batch = int(self._pack.batch_of(sample))
        first = int(index["batch_first"][batch])
        return first + np.flatnonzero(bad[first : first + int(index["batch_count"][batch])] == 0)

    def _describe(self, sample: int) -> SkippedSample:
        pack = self._pack
        batch = int(pack.batch_of(sample))
        shard = pack.shard_path(int(pack.index["batch_shard"][batch])).name
        return SkippedSample(sample, str(pack.root), shard, batch, pack.key(sample))
