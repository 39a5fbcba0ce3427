"""The size check that every codec's `decode` makes."""

from __future__ import annotations

from packer.errors import ImageError


def require_size(found: tuple[int, int], width: int, height: int) -> None:
    """Check that a payload's (width, height) are those in the index.

    Raises:
        ImageError: bad-size: they are not.
    """
    if found != (width, height):
        raise ImageError(
            "bad-size", f"payload of {found[0]} x {found[1]} pixels, not {width} x {height}"
        )
