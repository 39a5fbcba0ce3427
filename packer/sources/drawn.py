"""Draw the built-in sample, a small data set in Caltech-256's layout.

300 pictures of 12 kinds of things, `NNN.name/NNN_MMMM.jpg`, and among them odd files as in real
data sets: a gray picture, a CMYK one, one turned by its EXIF orientation, a PNG, one cut short; and
a stray file. Any process can draw any of them from its path alone. `prepare` draws all of them once
and keeps them in a file.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from functools import cache
from pathlib import Path

import numpy as np

from packer import registry
from packer.errors import ImageError, OutputError
from packer.files import fsio
from packer.imaging import libraries
from packer.reporting import Reporter
from packer.sample import drawings, special
from packer.sample.scenes import THINGS, Dice, draw
from packer.settings.options import SUBSAMPLINGS, ImageOptions
from packer.sources._candidates import Candidates
from packer.types import Listing, Pixels, display_path

#: Number of pictures of each thing.
_EACH = 25
#: Odd files: name without extension → kind.
_SPECIALS = {
    b"002_0007": "gray",
    b"003_0005": "turned",
    b"005_0011": "cmyk",
    b"007_0003": "png",
    b"010_0009": "cut",
}
#: Pictures of a camera's size, not of a web page's.
_LARGE = (b"001_0004", b"006_0013", b"009_0020", b"012_0002")
_STRAY = b"008.heart/RENAME2"
_STRAY_TEXT = b"mv 008_0026.jpg 008_0025.jpg\n"
#: Width : height.
_ASPECTS = ((4, 3), (4, 3), (3, 2), (3, 2), (1, 1), (3, 4), (2, 3), (16, 9))
#: EXIF orientation of a picture that stands upright after a quarter turn clockwise.
_TURN_RIGHT = 6

MAKES_FILES = True


def accepts(location: Path) -> bool:
    """Return False: the sample has no location. A recipe names it, `source: drawn`."""
    return False


def open_source(location: Path, root: bytes = b"") -> DrawnSource:
    """Return the sample; both arguments are ignored."""
    return DrawnSource()


class DrawnSource:
    """The sample's files. The process keeps those that were drawn, 10 MB in all."""

    def __init__(self) -> None:
        self._kept: Path | None = None

    def prepare(self, folder: Path | None, reporter: Reporter) -> None:
        """Draw all pictures, or find them in `folder`, where an earlier call kept them.

        Args:
            folder: Folder of the user's caches; created if needed. None: keep nothing.
            reporter: Called with notes on what is drawn, and where it is kept.

        Raises:
            MissingDependency: A library that converting needs is not installed.
        """
        libraries.require_converting()
        code = (__file__, *(registry.load("codecs", name).__file__ for name in ("jpeg", "png")))
        self._kept = None if folder is None else drawings.file_in(folder, *code)
        if self._kept is not None and drawings.holds(self._kept, _catalogue()):
            reporter.detail(f"the sample's pictures are those in {self._kept}")
            return
        reporter.note(f"drawing the sample's {len(_catalogue()) - 1} pictures, once")
        start = time.monotonic()
        pictures = {path: _file(path) for path in _catalogue()}
        drawn = f"drew them in {time.monotonic() - start:.1f} s"
        if self._kept is None:
            reporter.note(drawn)
            return
        try:
            drawings.keep(self._kept, pictures)
            reporter.note(f"{drawn}; kept for the next time: {self._kept}")
        except OutputError as error:
            self._kept = None
            reporter.note(f"{drawn}; not kept, the next time draws them again: {error.message}")

    def scan(
        self,
        litter: Collection[bytes] = (),
        report: Callable[[int], None] | None = None,
        output: Path | None = None,
    ) -> Listing:
        """See `packer.sources.Source.scan`; draws all pictures, as sizes are only known then."""
        found = Candidates(litter)
        for path in _catalogue():
            if found.wants(path):
                found.add(path, len(self.read(path)), 0)
        for folder in {path.partition(b"/")[0] for path in _catalogue()}:
            found.add_folder(folder)
        return found.listing()[0]

    def read(self, path: bytes) -> bytes:
        """See `packer.sources.Source.read`."""
        if path not in _catalogue():
            raise ImageError("unreadable", "the sample has no such file")
        found = drawings.kept(self._kept).get(path) if self._kept is not None else None
        return _file(path) if found is None else found


def write_tree(folder: Path) -> None:
    """Write the sample as files into `folder`; existing files stay.

    Raises:
        OutputError: The file system refused, or a file there has other content.
    """
    source = DrawnSource()
    for path in _catalogue():
        final = folder / display_path(path)
        fsio.make_folder(final.parent)
        try:
            fsio.publish_bytes(final.parent, final, source.read(path))
        except OutputError as error:
            raise OutputError(error.message, "write it into another folder") from error


@cache
def _catalogue() -> dict[bytes, str]:
    """Return all files of the sample: path → the thing on it."""
    paths = {_STRAY: ""}
    for number, thing in enumerate(THINGS, 1):
        for picture in range(1, _EACH + 1):
            name = f"{number:03}_{picture:04}"
            extension = "png" if _SPECIALS.get(name.encode()) == "png" else "jpg"
            paths[f"{number:03}.{thing}/{name}.{extension}".encode()] = thing
    return paths


@cache
def _file(path: bytes) -> bytes:
    """A file's bytes."""
    if path == _STRAY:
        return _STRAY_TEXT
    name = path.rpartition(b"/")[2].partition(b".")[0]
    dice = Dice(path)
    width, height = _size(name, dice)
    pixels = draw(_catalogue()[path], width, height, dice)
    options = ImageOptions(
        quality=dice.integer(70, 96), subsampling=SUBSAMPLINGS[dice.integer(0, len(SUBSAMPLINGS))]
    )
    kind = _SPECIALS.get(name, "")
    if kind == "png":
        return _encode("png", pixels, options)
    if kind == "gray":
        return special.encode_gray(pixels[:, :, 1], options.quality)
    if kind == "cmyk":
        return special.encode_cmyk(pixels, options.quality)
    if kind == "turned":
        left = np.ascontiguousarray(np.rot90(pixels))
        return special.with_orientation(_encode("jpeg", left, options), _TURN_RIGHT)
    data = _encode("jpeg", pixels, options)
    return data[: len(data) * 6 // 10] if kind == "cut" else data


def _encode(codec: str, pixels: Pixels, options: ImageOptions) -> bytes:
    data: bytes = registry.load("codecs", codec).encode(pixels, options)
    return data


def _size(name: bytes, dice: Dice) -> tuple[int, int]:
    """Return width and height in pixels: most pictures are a few hundred wide, as in
    Caltech-256.
    """
    across, down = _ASPECTS[dice.integer(0, len(_ASPECTS))]
    longer = 2000 if name in _LARGE else int(160 + 740 * dice.uniform(0, 1) * dice.uniform(0.3, 1))
    scale = longer / max(across, down)
    return round(across * scale), round(down * scale)
