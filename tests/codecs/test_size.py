from __future__ import annotations

import pytest

from packer.codecs._size import require_size
from packer.errors import ImageError


def test_only_the_same_size_passes() -> None:
    """Width and height must not be exchanged; the error names both sizes in the same order."""
    require_size((3, 2), 3, 2)
    with pytest.raises(ImageError, match="3 x 2 pixels, not 2 x 3") as caught:
        require_size((3, 2), 2, 3)
    assert caught.value.reason == "bad-size"
