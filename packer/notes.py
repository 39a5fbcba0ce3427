"""What is noted of a picture while it is converted; `packer.types.Encoded` says what it means."""

from __future__ import annotations

from collections.abc import Iterable

#: By their bits in an index: bit n stands for the n-th. New ones go to the end.
NOTES = (
    "kept",
    "turned",
    "gray",
    "cmyk",
    "alpha",
    "16-bit",
    "icc",
    "icc-ignored",
    "animation",
    "warnings",
    "damaged",
    "extension",
)


def note_bits(notes: Iterable[str]) -> int:
    """Names from `NOTES` as one number."""
    return sum(1 << NOTES.index(note) for note in set(notes))


def note_names(bits: int) -> list[str]:
    """The names that `note_bits` made a number of."""
    return [note for bit, note in enumerate(NOTES) if bits >> bit & 1]
