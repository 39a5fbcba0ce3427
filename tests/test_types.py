import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from packer.types import Encoded, display_path


@given(st.binary())
def test_a_displayed_path_turns_back(path: bytes) -> None:
    assert os.fsencode(display_path(path)) == path


def test_samples_on_their_way_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        Encoded(b"", 1, 1).width = 2  # type: ignore[misc]
