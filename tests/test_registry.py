from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import packer
from packer import registry
from packer.errors import UsageError

ROOMS = ("codecs", "formats", "sources", "cli")


@pytest.mark.parametrize("room", ROOMS)
def test_names_are_the_files_of_the_room(room: str) -> None:
    folder = Path(packer.__file__).parent / room
    expected = sorted(path.stem for path in folder.glob("*.py") if not path.stem.startswith("_"))
    assert registry.names(room) == tuple(expected)


def test_what_is_there() -> None:
    assert {"tar", "lmdb", "hdf5"} <= set(registry.names("formats"))
    assert {"jpeg", "png", "webp", "raw"} <= set(registry.names("codecs"))


@pytest.mark.parametrize("room", ["codecs", "formats"])
def test_every_name_loads(room: str) -> None:
    for name in registry.names(room):
        assert registry.load(room, name).__name__ == f"packer.{room}.{name}"


@pytest.mark.parametrize(
    ("room", "name", "message"),
    [
        ("formats", "tra", "unknown format 'tra' (did you mean 'tar'?)"),
        ("formats", "hdf", "unknown format 'hdf' (did you mean 'hdf5'?)"),
        ("codecs", "jpg", "unknown codec 'jpg' (did you mean 'jpeg'?)"),
        ("formats", "zzzz", "unknown format 'zzzz' (known: hdf5, lmdb, tar)"),
        ("formats", "_places", "unknown format '_places'"),
        ("formats", "", "unknown format ''"),
        ("formats", "../errors", "unknown format '../errors'"),
    ],
)
def test_unknown_names_are_suggested(room: str, name: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        registry.load(room, name)
    assert str(caught.value).startswith(message)
    assert caught.value.exit_code == 2


def test_listing_names_imports_none_of_them() -> None:
    """`packer --help` lists choices; it must not pay for the libraries behind them."""
    script = (
        "import sys; from packer import registry\n"
        f"for room in {ROOMS!r}: registry.names(room)\n"
        "print([m for m in ('numpy', 'cv2', 'PIL', 'h5py', 'lmdb', 'torch') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_formats_load_without_their_libraries() -> None:
    """What a format needs is in EXTRA, and can be asked where it is not installed."""
    script = (
        "import sys; sys.modules['lmdb'] = sys.modules['h5py'] = None\n"
        "from packer import registry\n"
        "print([registry.load('formats', n).EXTRA for n in ('hdf5', 'lmdb', 'tar')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "['h5py', 'lmdb', '']"
