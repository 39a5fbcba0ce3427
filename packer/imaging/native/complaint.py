"""Messages of libjpeg about JPEGs that simplejpeg does not read: their components are sampled in a
way that TurboJPEG has no name for. Pillow decodes such files without reporting warnings.
"""

from __future__ import annotations

from packer.extension import Extension

NATIVE = Extension("packer.imaging.native._complaint")


def first_complaint(data: bytes) -> str | None:
    """The first warning or error that libjpeg reports while it decodes the whole picture.

    Args:
        data: The JPEG.

    Returns:
        libjpeg's message; "" if there is none; None if the C extension is missing.
    """
    native = NATIVE.module
    return None if native is None else str(native.first(data))
