from __future__ import annotations

import pytest

from packer.attributes import ReadOnly, read_only


class Thing:
    size: ReadOnly[int] = ReadOnly(lambda self: 3)

    @read_only("write to the file")
    def text(self) -> str:
        """What it says."""
        return "old"


class Larger(Thing):
    pass


def test_can_be_read_and_not_assigned() -> None:
    thing = Larger()
    assert (thing.size, thing.text) == (3, "old")
    with pytest.raises(
        AttributeError, match=r"^Larger\.size cannot be assigned: make another Larger with size=…$"
    ):
        thing.size = 4
    with pytest.raises(AttributeError, match=r"^Larger\.text cannot .*: write to the file$"):
        thing.text = "new"
    assert (thing.size, thing.text) == (3, "old")


def test_documents_what_it_reads() -> None:
    assert Thing.text.__doc__ == "What it says."
