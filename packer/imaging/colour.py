"""To plain sRGB: ICC profiles, transparency, depths and modes that are not 8-bit RGB."""

from __future__ import annotations

import io
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from packer.errors import ImageError
from packer.imaging.heads.head import Head
from packer.types import Pixels

if TYPE_CHECKING:
    from PIL.Image import Image

RGB: TypeAlias = tuple[int, int, int]
WHITE: Final[RGB] = (255, 255, 255)

# Levels by which a profile may change a colour and still count as sRGB: the many copies of the
# sRGB profile differ by rounding.
_SRGB_TOLERANCE = 2
# Colour space of a profile (ICC.1 7.2.6, bytes 16..19) → Pillow's mode of pixels that it describes.
_PROFILE_MODES = {b"RGB ": "RGB", b"GRAY": "L", b"CMYK": "CMYK"}
# Pixels of a band of a large picture.
_BAND = 1 << 24
_GRAY = ("1", "L", "LA", "La")
_SIXTEEN_BITS = ("I;16", "I;16B", "I;16L", "I;16N")


@dataclass(frozen=True, slots=True)
class Conversion:
    """How to convert pixels that carry an ICC profile.

    Attributes:
        transform: Pillow's transform from `mode` to sRGB, or None: pixels stay unchanged.
        mode: Pillow's mode of the pixels that the transform takes.
        note: "icc" (converted), "icc-ignored" (broken, of another kind of pixels, or Pillow has
            no colour management), "" (the profile is sRGB).
    """

    transform: Any
    mode: str
    note: str


def conversion(profile: bytes, mode: str) -> Conversion:
    """Look up the conversion of pixels of a mode (L, RGB, CMYK) that carry a profile."""
    described = _PROFILE_MODES.get(profile[16:20], "")
    # Gray pixels under an RGB profile are its neutral colours.
    if not profile or described not in (mode, "RGB" if mode == "L" else mode):
        return Conversion(None, mode, "icc-ignored" if profile else "")
    return _conversion(profile, described)


@lru_cache(maxsize=64)  # a data set has a few profiles, each in thousands of pictures
def _conversion(profile: bytes, mode: str) -> Conversion:
    from PIL import Image

    try:
        from PIL import ImageCms

        transform = ImageCms.buildTransform(
            ImageCms.ImageCmsProfile(io.BytesIO(profile)),
            ImageCms.createProfile("sRGB"),
            mode,
            "RGB",
        )
    except MemoryError:
        raise
    except Exception:  # PyCMSError, OSError, ImportError, …: broken metadata costs no picture
        return Conversion(None, mode, "icc-ignored")
    if mode == "CMYK":
        return Conversion(transform, mode, "icc")
    levels = np.arange(0, 256, 51 if mode == "RGB" else 5, dtype=np.uint8)
    probe = np.stack(np.meshgrid(*[levels] * len(mode)), -1).reshape(1, -1, len(mode))
    image = Image.fromarray(probe if mode == "RGB" else probe[..., 0])
    before = np.asarray(image.convert("RGB"), np.int16)
    after = np.asarray(_transformed(image, transform), np.int16)
    if np.abs(after - before).max() <= _SRGB_TOLERANCE:
        return Conversion(None, mode, "")
    return Conversion(transform, mode, "icc")


def _transformed(image: Image, transform: Any) -> Image:
    from PIL import ImageCms

    converted = ImageCms.applyTransform(image, transform)
    assert converted is not None  # None only with inPlace
    return converted


def to_srgb(image: Image, profile: bytes) -> tuple[Image, str]:
    """A picture of mode L, RGB or CMYK → (RGB in sRGB, `Conversion.note`)."""
    what = conversion(profile, image.mode)
    return apply(image, what), what.note


def apply(image: Image, what: Conversion) -> Image:
    """A picture of mode L, RGB or CMYK → RGB in sRGB, by a given conversion."""
    if what.transform is None:
        return _converted(image, "RGB")
    return _transformed(_converted(image, what.mode), what.transform)


def _converted(image: Image, mode: str) -> Image:
    """Convert to a mode; unlike `convert`, no copy (4 bytes a pixel) if it has that mode."""
    return image if image.mode == mode else image.convert(mode)


def flatten(image: Image, head: Head, background: RGB) -> tuple[Image, tuple[str, ...]]:
    """Any picture decoded by Pillow → (RGB in sRGB without transparency, notes).

    Raises:
        ImageError: unsupported (pixels of 32 bits, which have no agreed scale).
        ValueError, OSError: Pillow cannot convert pixels of this mode.
    """
    notes = ["16-bit"] if head.bits > 8 else []
    image = _eight_bits(image, head)
    alpha = _alpha(image, head)
    if alpha is not None:
        # Keep gray levels until a gray profile has been applied.
        gray = image.mode in _GRAY
        image = _converted(image, "RGBA")
        image = image.getchannel("R") if gray else image.convert("RGB")
    elif image.mode == "CMYK":
        notes.append("cmyk")
    elif image.mode in _GRAY:
        notes.append("gray")
        image = _converted(image, "L")
    else:
        image = _converted(image, "RGB")
    image, note = to_srgb(image, head.icc)
    notes += [note] if note else []
    if alpha is not None:
        notes.append("alpha")
        image = _over(image, alpha, background)
    return image, tuple(notes)


def flattened(image: Image, head: Head, background: RGB) -> tuple[Pixels, tuple[str, ...]]:
    """`flatten` to pixels. A large picture is converted in bands of rows, so that no intermediate
    holds all of it.
    """
    width, height = image.size
    rows = max(1, _BAND // width)
    # Whether a BMP's fourth byte is opacity depends on the whole picture.
    if rows >= height or head.kind == "bmp":
        flat, notes = flatten(image, head, background)
        return np.asarray(flat), notes
    pixels = np.empty((height, width, 3), np.uint8)
    found: dict[str, None] = {}  # in order of their first appearance
    for top in range(0, height, rows):
        band = image.crop((0, top, width, min(top + rows, height)))
        flat, notes = flatten(band, head, background)
        pixels[top : top + rows] = np.asarray(flat)
        found |= dict.fromkeys(notes)
    if "alpha" in found:
        found.pop("gray", None)  # bands that are opaque note it
    return pixels, tuple(found)


def inverted(image: Image, head: Head) -> Image:
    """Invert gray levels of any depth (0 is white) to 8-bit levels (0 is black)."""
    from PIL import ImageOps

    return ImageOps.invert(_eight_bits(image, head).convert("L"))


def _eight_bits(image: Image, head: Head) -> Image:
    """Pixels of 12 or 16 bits scaled to 8 (`convert` would clip them); return others unchanged."""
    from PIL import Image as Pillow

    if image.mode == "I" and head.kind == "ppm":
        # Pillow has already scaled the file's own maximum to 65535.
        values = np.asarray(image).astype(np.int64)
        return Pillow.fromarray(((values * 255 + 32_767) // 65_535).astype(np.uint8))
    # Pillow before 11 opens 16-bit gray PNGs as mode I.
    if image.mode in _SIXTEEN_BITS or (image.mode == "I" and head.kind == "png"):
        values = np.asarray(image).astype(np.int32)
        depth = 12 if head.bits == 12 else 16
        scaled = Pillow.fromarray((values >> depth - 8).clip(0, 255).astype(np.uint8))
        key = image.info.get("transparency")
        if key is not None:
            opaque = np.where(values == key, 0, 255).astype(np.uint8)
            scaled = Pillow.merge("LA", (scaled, Pillow.fromarray(opaque)))
        return scaled
    if image.mode in ("I", "F"):
        raise ImageError("unsupported", "pixels of 32 bits have no agreed scale")
    key = image.info.get("transparency")
    if head.bits == 16 and isinstance(key, tuple):
        # Pillow has scaled a 16-bit RGB PNG's pixels to 8 bits, but not its transparent colour.
        image.info["transparency"] = tuple(part >> 8 for part in key)
    return image


def _alpha(image: Image, head: Head) -> Image | None:
    """The opacity of each pixel, or None if all are opaque. In a 32-bit BMP the fourth byte is 0
    everywhere if the program that wrote it did not use that byte.
    """
    if "transparency" not in image.info and image.mode not in ("LA", "La", "PA", "RGBA", "RGBa"):
        return None
    alpha = _converted(image, "RGBA").getchannel("A")
    lowest, highest = alpha.getextrema()
    return None if lowest == 255 or (head.kind == "bmp" and highest == 0) else alpha


def _over(image: Image, alpha: Image, background: RGB) -> Image:
    from PIL import Image as Pillow

    ground = Pillow.new("RGB", image.size, background)
    ground.paste(image, mask=alpha)
    return ground
