"""The content of a picture's header."""

from __future__ import annotations

from dataclasses import dataclass

#: Orientations of EXIF (CIPA DC-008, tag 0x0112) that swap width and height.
TRANSPOSED = (5, 6, 7, 8)


@dataclass(frozen=True, slots=True)
class Head:
    """The content of a picture's header, read without decoding a pixel.

    Attributes:
        kind: Kind of file as `sniff` names it; "" for pixels that were never in a file.
        width: Width in the file, in pixels, before the picture is turned.
        height: Height in the file, in pixels, before the picture is turned.
        orientation: EXIF orientation, 1..8; 1 (upright) also if the metadata is broken.
        mode: gray, rgb, ycc (JPEG's YCbCr), cmyk, palette, float.
        bits: Bits of one component of a pixel.
        alpha: Whether it may have transparent pixels.
        animated: Whether it has more than one frame or page; only the first is used.
        icc: ICC profile, b"" if none; not checked.
        complete: Whether the file reaches the end that its own structure announces.
        coding: For JPEG: baseline, extended, progressive, arithmetic, lossless, hierarchical; for
            BMP: rle, or "".
        subsampling: For JPEG: "4:4:4", "4:2:2", "4:2:0", "" if another or gray.
    """

    kind: str
    width: int
    height: int
    orientation: int = 1
    mode: str = "rgb"
    bits: int = 8
    alpha: bool = False
    animated: bool = False
    icc: bytes = b""
    complete: bool = True
    coding: str = ""
    subsampling: str = ""

    @property
    def upright_size(self) -> tuple[int, int]:
        """(width, height) once turned upright."""
        if self.orientation in TRANSPOSED:
            return self.height, self.width
        return self.width, self.height
