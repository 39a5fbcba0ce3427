"""Types of this room's fixtures."""

from __future__ import annotations

from typing import Any, Protocol

from packer.reader.batches.making import Material
from tests.packs import Built


class MakeMaterial(Protocol):
    """Makes what mini-batches are made from; options are those of PackedDataset."""

    def __call__(
        self, built: Built, batch_size: int, planes: bool = False, **options: Any
    ) -> Material: ...
