"""Make and run inputs with pictures or their names: encoded pictures, archives, lists."""

from __future__ import annotations

import io
import random
import re
import struct
import tarfile
import zipfile
import zlib
from pathlib import Path

import cv2
import numpy as np
from PIL import Image, ImageCms

from fuzzing.change import NUMBERS, change_bytes
from packer.errors import ImageError, ReadError
from packer.packing.shards.batch import BatchTask, Slot, make_batch
from packer.settings.options import ImageOptions
from packer.sources import Source, listed, open_source
from packer.types import Listing

_OPTIONS = (
    *(ImageOptions(size=(24, 24), mode="exact", codec=name) for name in ("jpeg", "png", "raw")),
    *(ImageOptions(codec=name) for name in ("jpeg", "png")),
)
_TOKENS = (
    *(b"IHDR", b"IDAT", b"IEND", b"PLTE", b"tRNS", b"iCCP", b"acTL", b"fcTL", b"eXIf"),
    *(b"\xff\xd8", b"\xff\xd9", b"\xff\xda", b"\xff\xc0", b"\xff\xc2", b"\xff\xc4", b"\xff\xdb"),
    *(b"\xff\xe1\x00\x10Exif\0\0II*\0", b"\xff\xe2", b"\xff\xee", b"\xff\xdd", b"\xff\xff\xff"),
    *(b"VP8 ", b"VP8L", b"VP8X", b"ANIM", b"ANMF", b"ALPH", b"ICCP", b"\x21\xf9\x04", b"\x2c"),
    *(b"II*\0", b"MM\0*", b"II+\0", b"99999999", b"P7\n", b"ftyp", b"meta", b"iloc", b"iprp"),
)
_OCTAL = re.compile(rb"[0-7]{7,11}[\0 ]")


class _One:
    """A source of one file."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def scan(self, *_: object, **__: object) -> Listing:
        raise NotImplementedError

    def read(self, path: bytes) -> bytes:
        return self.data


def seed_picture(kind: str) -> list[bytes]:
    """Return small pictures of a format, in several modes."""
    y, x = np.mgrid[0:37, 0:45]
    rgb = np.stack([x * 5, y * 6, (x + y) * 3], axis=2).astype(np.uint8)
    if kind == "avif":
        transparent = np.dstack([rgb, np.full((37, 45, 1), 128, np.uint8)])
        return [
            cv2.imencode(".avif", pixels)[1].tobytes()
            for pixels in (rgb, rgb[:, :, 0], transparent)
        ]
    image = Image.fromarray(rgb)
    modes = [image, image.convert("L"), image.convert("P"), image.convert("RGBA")]
    settings: list[dict[str, object]] = [{}]
    if kind == "jpeg":
        modes = [image, image.convert("L"), image.convert("CMYK")]
        settings = [{}, {"progressive": True, "quality": 80}, {"subsampling": 0}]
    elif kind == "tiff":
        settings = [{"compression": name} for name in (None, "tiff_lzw", "packbits", "jpeg")]
        modes += [image.convert("1"), image.convert("I;16")]
    elif kind == "webp":
        settings = [{}, {"lossless": True}]
    elif kind == "ppm":
        modes = [image, image.convert("L"), image.convert("1")]
    elif kind in ("bmp", "gif"):
        modes = modes[:3]
    found = []
    for mode in modes:
        for setting in settings:
            if setting.get("compression") == "jpeg" and mode.mode not in ("L", "RGB"):
                continue  # libtiff has no such thing, and may harm the heap over it
            file = io.BytesIO()
            mode.save(file, kind, **setting)
            found.append(file.getvalue())
    if kind in ("jpeg", "png", "webp", "tiff"):
        file = io.BytesIO()
        exif = Image.Exif()
        exif[0x0112] = 6  # turned
        profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
        image.save(file, kind, exif=exif, icc_profile=profile)
        found.append(file.getvalue())
    if kind in ("gif", "webp", "tiff", "png"):
        file = io.BytesIO()
        image.save(file, kind, save_all=True, append_images=[image.rotate(90)])
        found.append(file.getvalue())
    return found


def change_picture(rng: random.Random, data: bytes) -> bytes:
    """Change a picture; half of the PNGs get right checksums again, so that decoders get
    further.
    """
    data = change_bytes(rng, data, _TOKENS)
    if data.startswith(b"\x89PNG") and rng.random() < 0.5:
        data = _with_checksums(data)
    return data


def _with_checksums(data: bytes) -> bytes:
    out, at = bytearray(data), 8
    while at + 12 <= len(out):
        [length] = struct.unpack_from(">I", out, at)
        if at + 12 + length > len(out):
            break
        struct.pack_into(">I", out, at + 8 + length, zlib.crc32(out[at + 4 : at + 8 + length]))
        at += 12 + length
    return bytes(out)


def run_picture(data: bytes, folder: Path) -> None:
    """Store a picture, whole and resized; a picture that is skipped by name is refused."""
    options = _OPTIONS[zlib.crc32(data) % len(_OPTIONS)]
    result = make_batch(BatchTask(_One(data), options, (Slot(0, b"a.jpg", 0),)))
    for skip in result.skips:
        raise ImageError(skip.reason, skip.detail)


def seed_archive(kind: str) -> list[bytes]:
    """Return archives of a few files: plain names, long ones, links, folders."""
    picture = seed_picture("jpeg")[0][:200]
    names = ["train/a/1.jpg", "train/b/2.jpg", "val/a/3.png", "train/a/4.cls", "x" * 150 + "/é.jpg"]
    if kind == "zip":
        return [_zip(names, picture, method) for method in (0, zipfile.ZIP_DEFLATED)]
    return [
        _tar(names, picture, form)
        for form in (tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT)
    ]


def _zip(names: list[str], picture: bytes, method: int) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        for name in names:
            archive.writestr(zipfile.ZipInfo(name, (2024, 5, 6, 7, 8, 10)), picture, method)
    return file.getvalue()


def _tar(names: list[str], picture: bytes, form: int) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=form) as archive:
        for name in names if form != tarfile.USTAR_FORMAT else names[:4]:
            entry = tarfile.TarInfo(name)
            entry.size = len(picture)
            entry.mtime = 1700000000
            archive.addfile(entry, io.BytesIO(picture))
        for kind, name in ((tarfile.SYMTYPE, "train/a/5.jpg"), (tarfile.LNKTYPE, "train/a/6.jpg")):
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = kind, "train/a/1.jpg"
            archive.addfile(entry)
    return file.getvalue()


def change_archive(rng: random.Random, data: bytes) -> bytes:
    """Change an archive; most tar headers get right checksums again."""
    tokens = (b"../", b"/", b"\0", b"path=", b"size=", b"GNU.sparse.major=1", b"PK\1\2", b"\x80")
    out = bytearray(data)
    if rng.random() < 0.5 and len(out) > 512:  # in one header of a tar, or one of the zip's tables
        starts = [m.start() for m in re.finditer(rb"PK\x01\x02|PK\x05\x06|PK\x03\x04", data)]
        start = rng.choice(starts or range(0, len(out), 512))
        changed = change_bytes(rng, bytes(out[start : start + 512]), tokens)
        out[start : start + 512] = changed if starts else changed[:512].ljust(512, b"\0")
        for match in list(_OCTAL.finditer(out, start, start + 512)):
            if rng.random() < 0.2:
                width = match.end() - match.start() - 1
                number = b"%o" % (abs(rng.choice(NUMBERS)) % 8**width)
                out[match.start() : match.end() - 1] = number.rjust(width, b"0")
    else:
        out = bytearray(change_bytes(rng, data, tokens))
    if not out.startswith(b"PK") and rng.random() < 0.8:
        for at in range(0, len(out) - 511, 512):
            if out[at + 257 : at + 262] == b"ustar":
                out[at + 148 : at + 156] = b" " * 8
                out[at + 148 : at + 156] = b"%06o\0 " % sum(out[at : at + 512])
    return bytes(out)


def run_archive(data: bytes, folder: Path) -> None:
    """Scan an archive and read its files."""
    path = folder / ("a.zip" if data.startswith(b"PK") else "a.tar")
    path.unlink(missing_ok=True)
    path.write_bytes(data)
    _read_all(open_source(path))


def _read_all(source: Source) -> None:
    for name in source.scan().paths:
        try:
            source.read(name)
        except (ImageError, ReadError):
            continue


def seed_list() -> list[bytes]:
    """Return lists of files that exist and of some that do not."""
    return [b"a/1.jpg\nb/2.jpg\na/3.png\n", b"./a/1.jpg\r\nb/../b/2.jpg\r\n", b"a/1.jpg\0b/2.jpg\0"]


def change_list(rng: random.Random, data: bytes) -> bytes:
    """Change a list."""
    tokens = (b"\n", b"\0", b"../", b"/", b"//", b"/etc/passwd\n", b"~", b"a/1.jpg\n", b"\xff\xfe")
    return change_bytes(rng, data, (*tokens, b".packer/", b"manifest.json", b"x" * 5000, b"./"))


def run_list(data: bytes, folder: Path) -> None:
    """Scan the files of a list and read them."""
    for name in ("a/1.jpg", "b/2.jpg", "a/3.png"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(b"picture")
    _read_all(listed.list_source(data, bytes(folder), null=b"\0" in data and b"\n" not in data))


#: Kinds of pictures that the libraries here can write.
PICTURES = (
    *("jpeg", "png", "webp", "tiff", "bmp", "gif", "ppm"),
    *(("avif",) if cv2.haveImageWriter(".avif") else ()),
)
