from __future__ import annotations

import pytest

from packer.imaging.heads.head import Head


@pytest.mark.parametrize("orientation", range(1, 9))
def test_upright_size_is_swapped_from_five_on(orientation: int) -> None:
    head = Head("jpeg", 40, 30, orientation)
    assert head.upright_size == ((30, 40) if orientation >= 5 else (40, 30))
