"""Detect the kind of a file from its content, never from its name."""

from __future__ import annotations

from typing import Final

from packer.errors import ImageError

#: Kinds that are converted, with the extensions their files usually have (lower case).
EXTENSIONS: Final[dict[str, tuple[str, ...]]] = {
    "jpeg": ("jpg", "jpeg", "jpe", "jfif"),
    "png": ("png", "apng"),
    "webp": ("webp",),
    "bmp": ("bmp", "dib"),
    "gif": ("gif",),
    "tiff": ("tif", "tiff"),
    "ppm": ("ppm", "pgm", "pbm", "pnm"),
    "avif": ("avif",),
}
#: Programs that convert other kinds to a supported kind.
_WAYS_OUT: Final[dict[str, str]] = {
    "heic": "heif-convert (libheif) makes JPEGs of it",
    "jp2": "opj_decompress (OpenJPEG) makes PNGs of it",
    "jxl": "djxl (libjxl) makes JPEGs or PNGs of it",
    "svg": "rsvg-convert makes PNGs of it",
    "pdf": "pdftoppm -png makes pictures of its pages",
}

# First bytes, in the order they are tried.
_STARTS: Final[tuple[tuple[bytes, str], ...]] = (
    (b"\xff\xd8\xff", "jpeg"),
    (b"\x89PNG\r\n\x1a\n", "png"),
    (b"GIF87a", "gif"),
    (b"GIF89a", "gif"),
    (b"II*\x00", "tiff"),
    (b"MM\x00*", "tiff"),
    (b"II+\x00", "tiff"),
    (b"MM\x00+", "tiff"),
    (b"\x00\x00\x00\x0cjP  ", "jp2"),
    (b"\xff\x4f\xff\x51", "jp2"),
    (b"\x00\x00\x00\x0cJXL ", "jxl"),
    (b"\xff\x0a", "jxl"),
    (b"8BPS", "psd"),
    (b"\x00\x00\x01\x00", "ico"),
    (b"v/1\x01", "exr"),
    (b"%PDF", "pdf"),
)
# Sizes of the header that follows a BMP's first 14 bytes; "BM" alone also starts plain text.
_BMP_HEADERS: Final = (12, 16, 40, 52, 56, 64, 108, 124)
# Major brands of ISO base media files (ISO/IEC 14496-12) that hold still pictures.
_BRANDS: Final[dict[bytes, str]] = {
    b"avif": "avif",
    b"avis": "avif",
    b"heic": "heic",
    b"heix": "heic",
    b"hevc": "heic",
    b"mif1": "heic",
    b"mif3": "heic",
    b"msf1": "heic",
}
# Digits of PBM, PGM and PPM, plain and raw.
_NETPBM: Final = (b"1", b"2", b"3", b"4", b"5", b"6")
# Content that often has the name of a picture, for the ledger's detail.
_NO_PICTURES: Final[tuple[tuple[bytes, str], ...]] = (
    (b"version https://git-lfs", "a Git LFS pointer: git lfs pull fetches the file"),
    (b"/annex/objects/", "a git-annex pointer: git annex get fetches the file"),
    (b"\x1f\x8b", "gzip data"),
    (b"PK\x03\x04", "a ZIP archive"),
    (b"<!doctype html", "an HTML page"),
    (b"<html", "an HTML page"),
    (b"{", "JSON text"),
    (b"\x89PNG", "a PNG whose line ends were changed in transfer"),
)


def sniff(data: bytes) -> str:
    """Detect the kind of a picture.

    Returns:
        A key of `EXTENSIONS`; heic, jp2, jxl, psd, ico, exr, pdf, svg, pam or pfm, which are known
        but not converted; "" if unknown.
    """
    for start, kind in _STARTS:
        if data.startswith(start):
            return kind
    if data[4:8] == b"ftyp":
        kind = _BRANDS.get(data[8:12], "")
        others = data[16 : int.from_bytes(data[:4], "big")]
        return "avif" if kind == "heic" and b"avif" in others else kind
    text = data[:256].lstrip().lower()
    checks = {
        "jpeg": data == b"\xff\xd8",  # cut to its first two bytes
        "webp": data[:4] == b"RIFF" and data[8:12] == b"WEBP",
        "bmp": data[:2] == b"BM" and int.from_bytes(data[14:18], "little") in _BMP_HEADERS,
        "ppm": data[:1] == b"P" and data[1:2] in _NETPBM and _follows_magic(data[2:3]),
        "pam": data[:3] == b"P7\n",
        "pfm": data[:2] in (b"PF", b"Pf") and data[2:3].isspace(),
        "svg": text.startswith(b"<svg") or (text.startswith(b"<?xml") and b"<svg" in text),
    }
    return next((kind for kind, holds in checks.items() if holds), "")


def _follows_magic(following: bytes) -> bool:
    """Whether a Netpbm magic can be followed by this: white space, a comment, or nothing."""
    return not following or following.isspace() or following == b"#"


def require_kind(data: bytes) -> str:
    """Return the kind of a picture that packer converts.

    Raises:
        ImageError: empty, unsupported (a known kind that is not converted) or undecodable (no
            picture at all).
    """
    if not data:
        raise ImageError("empty", "the file has no bytes")
    kind = sniff(data)
    if kind in EXTENSIONS:
        return kind
    if kind:
        known = ", ".join(name.upper() for name in EXTENSIONS)
        way = _WAYS_OUT.get(kind, "magick (ImageMagick) makes PNGs of it")
        raise ImageError("unsupported", f"{kind.upper()} is not converted, only {known}; {way}")
    text = data[:64].lstrip().lower()
    for start, what in _NO_PICTURES:
        if text.startswith(start.lower()):
            raise ImageError("undecodable", f"no picture but {what}")
    raise ImageError("undecodable", f"no picture: starts with bytes {data[:8].hex(' ')}")
