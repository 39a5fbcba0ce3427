"""What mini-batches need of a data set."""

from __future__ import annotations

from typing import Any, Protocol

from packer.pack.opened import Pack
from packer.pack.payloads import Payloads
from packer.reader.batches.skipping import Skips
from packer.reader.images.decoding import Decoder
from packer.types import Array


class StoredSamples(Protocol):
    """The part of a PackedDataset that mini-batches are made from."""

    @property
    def pack(self) -> Pack:
        """The open pack."""

    @property
    def payloads(self) -> Payloads:
        """Reads the pack's payloads."""

    @property
    def decoder(self) -> Decoder:
        """Decodes and transforms pictures."""

    @property
    def skips(self) -> Skips:
        """The damaged samples found so far."""

    def labels(self, samples: Array) -> list[Any]:
        """Return the labels of these samples (int64 numbers), after `target_transform`."""

    def enter_process(self, rank: int | None = None) -> int:
        """Set up this process as a reader of this rank, once; return the rank."""
