from __future__ import annotations

from packer.notes import NOTES, note_bits, note_names


def test_every_note_has_a_bit() -> None:
    assert note_bits(NOTES) == (1 << len(NOTES)) - 1 < 1 << 32
    assert [note_bits([name]) for name in NOTES] == [1 << n for n in range(len(NOTES))]
    assert note_bits(["gray", "gray"]) == note_bits(["gray"])


def test_names_come_back_from_their_bits() -> None:
    for names in ([], ["kept"], ["extension", "gray"], list(NOTES)):
        assert set(note_names(note_bits(names))) == set(names)
