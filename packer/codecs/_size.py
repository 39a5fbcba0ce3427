"""The one check that every codec's `decode` makes."""

from __future__ import annotations

from packer.errors import ImageError


def require_size(found: tuple[int, int], width: int, height: int) -> None:
    """Refuse a payload whose picture has another (width, height) than its index says.

    Raises:
        ImageError: bad-size.
    """
    if found != (width, height):
        raise ImageError(
            "bad-size", f"payload of {found[0]} x {found[1]} pixels, not {width} x {height}"
        )
