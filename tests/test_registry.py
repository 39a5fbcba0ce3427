from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import packer
from packer import registry
from packer.errors import UsageError

FORMATS = ", ".join(registry.own_names("formats"))
Offer = Callable[[str, str], None]
ROOMS = ("codecs", "formats", "sources", "cli")


@pytest.mark.parametrize("room", ROOMS)
def test_names_are_the_files_of_the_room(room: str) -> None:
    folder = Path(packer.__file__).parent / room
    expected = sorted(path.stem for path in folder.glob("*.py") if not path.stem.startswith("_"))
    assert registry.own_names(room) == tuple(expected)


def test_what_is_there() -> None:
    assert {"tar", "lmdb", "hdf5"} <= set(registry.names("formats"))
    assert {"jpeg", "png", "webp", "raw"} <= set(registry.names("codecs"))


@pytest.mark.parametrize("room", ["codecs", "formats"])
def test_every_name_loads(room: str) -> None:
    for name in registry.own_names(room):
        assert registry.load(room, name).__name__ == f"packer.{room}.{name}"


@pytest.mark.parametrize(
    ("room", "name", "message"),
    [
        ("formats", "tra", "unknown format 'tra' (did you mean 'tar'?)"),
        ("formats", "hdf", "unknown format 'hdf' (did you mean 'hdf5'?)"),
        ("codecs", "jpg", "unknown codec 'jpg' (did you mean 'jpeg'?)"),
        (
            "formats",
            "zzzz",
            f"unknown format 'zzzz' (known: {FORMATS})",
        ),
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


@pytest.fixture
def offer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Offer]:
    """offer("packer-a", "[packer.codecs]\na = json"): a distribution that is installed."""

    def offer(name: str, entry_points: str) -> None:
        metadata = tmp_path / f"{name.replace('-', '_')}-1.0.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (metadata / "entry_points.txt").write_text(entry_points)
        monkeypatch.syspath_prepend(tmp_path)
        registry.forget()

    yield offer
    registry.forget()


def test_plugins_are_names_like_packers_own(offer: Offer) -> None:
    offer("packer-a", "[packer.codecs]\nacodec = json\n[packer.formats]\naformat = json\n")
    assert "acodec" in registry.names("codecs")
    assert "acodec" not in registry.own_names("codecs")
    assert registry.is_offered("codecs", "acodec")
    assert not registry.is_offered("formats", "acodec")
    with pytest.raises(UsageError, match="did you mean 'acodec'"):
        registry.load("codecs", "acodek")
    found = registry.provenance(codec="acodec", format="tar")
    assert found == {"codec acodec": "packer-a 1.0"}
    there = {**found, "pillow zlib": "1.3", "format gone": "packer-b 1.0"}
    assert registry.provenance_here(there) == found


def test_packers_own_names_cannot_be_replaced(offer: Offer) -> None:
    offer("packer-a", "[packer.codecs]\njpeg = json\n[packer.cli]\nconvert = json\n")
    assert registry.load("codecs", "jpeg").__name__ == "packer.codecs.jpeg"
    assert registry.plugins("codecs") == registry.plugins("cli") == {}


def test_two_distributions_with_one_name(offer: Offer) -> None:
    for name in ("packer-a", "packer-b"):
        offer(name, "[packer.formats]\nsame = json\nown = json\n")
    with pytest.raises(UsageError, match="several distributions: packer-a and packer-b"):
        registry.load("formats", "same")
    assert any("packer-a and packer-b" in line for line in registry.report())


@pytest.mark.parametrize("room", registry.OPEN_ROOMS)
def test_what_a_plugin_lacks_is_named(offer: Offer, room: str) -> None:
    offer("packer-a", f"[packer.{room}]\nempty = this.nowhere\nother = packer.notes\n")
    with pytest.raises(UsageError, match=r"of packer-a 1\.0 cannot be loaded: ModuleNotFound"):
        registry.load(room, "empty")
    with pytest.raises(UsageError, match=r"'other' of packer-a 1\.0 lacks \w+"):
        registry.load(room, "other")


def test_packers_own_modules_have_what_plugins_must_have() -> None:
    for room in ("codecs", "formats", "sources"):
        for name in registry.own_names(room):
            module = registry.load(room, name)
            assert [n for n in registry._required(room) if not hasattr(module, n)] == []


def test_own_names_are_found_without_a_look_at_entry_points(make_tree: Callable[..., Path]) -> None:
    """A whole conversion, and reading it: metadata of distributions is read by neither."""
    script = f"""
import sys
from importlib import metadata
def refuse(**selected): raise AssertionError("looked at entry points")
metadata.entry_points = refuse
from packer.cli import main
sys.argv = ["packer", "convert", {str(make_tree())!r}, "-o", "pack", "--jobs", "1"]
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
from packer.reader import PackedDataset
PackedDataset("pack", "train", decode="numpy")[0]
"""
    subprocess.run([sys.executable, "-c", script], check=True, cwd=make_tree("other").parent)
