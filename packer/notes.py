"""Notes on a picture from its conversion; `packer.types.Encoded` describes each of them."""

from __future__ import annotations

from collections.abc import Iterable

#: In the order of their bits in an index: bit n is the n-th name. New names go to the end.
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
    """Return names from `NOTES` as one number."""
    return sum(1 << NOTES.index(note) for note in set(notes))


def note_names(bits: int) -> list[str]:
    """Return the names for a number; the inverse of `note_bits`."""
    return [note for bit, note in enumerate(NOTES) if bits >> bit & 1]
