"""A mini-batch on its way from payloads to columns.

    Draft    what `Maker.read` returns: the fields are read, the pictures are still coded, and are
             either Apart or InSheet; `Maker.decode` and `Maker.decode_several` decode them
    Made     what `Maker.finished` returns: the columns are collated

`Maker.make` does all of it in one call.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from packer.reader.batches.material import Wanted
from packer.types import Array

#: Coded pictures as they are stored; None for a sample without a picture.
Payloads: TypeAlias = "list[memoryview | None]"


@dataclass(frozen=True)
class Apart:
    """Pictures that are decoded each into memory of its own: their sizes differ, or the user's
    transforms return something else than pixels.

    Attributes:
        payloads: The coded pictures.
        images: The pictures after all transforms; None for one that is not decoded yet.
    """

    payloads: Payloads
    images: list[Any]


@dataclass(frozen=True)
class InSheet:
    """Pictures that are decoded into one array.

    Attributes:
        payloads: The coded pictures.
        sheet: N×H×W×3 or N×3×H×W, with at least as many places as there are pictures.
        lent: Whether the caller has lent the array and makes the tensor over it.
    """

    payloads: Payloads
    sheet: Array
    lent: bool


@dataclass
class Draft:
    """A mini-batch whose pictures may not all be decoded yet.

    Attributes:
        wanted: Which mini-batch.
        asked: int64, its samples before damaged ones were replaced.
        samples: Its samples.
        changes: What `ShardFiles.changes` was before the mini-batch was read.
        columns: All fields but the pictures.
        pictures: The pictures; None if "image" is not among the fields.
    """

    wanted: Wanted
    asked: Array
    samples: list[int]
    changes: int
    columns: dict[str, list[Any]] = field(default_factory=dict)
    pictures: Apart | InSheet | None = None

    @property
    def count(self) -> int:
        """Number of pictures to decode."""
        return 0 if self.pictures is None else len(self.pictures.payloads)


class Made(NamedTuple):
    """A finished mini-batch.

    Attributes:
        columns: The collated columns by field name; "image" is missing if the pictures are in a
            sheet that the caller has lent.
        in_sheet: Number of pictures in that sheet; None if there is none.
    """

    columns: dict[str, Any]
    in_sheet: int | None = None
