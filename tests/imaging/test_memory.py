from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import simplejpeg
from PIL import Image

from packer.imaging import colour, memory
from packer.imaging.decode import decode
from packer.imaging.heads.probe import probe
from packer.types import Pixels
from tests.fixtures import Save

pytestmark = pytest.mark.slow

_MIB = 1 << 20


def _group(folder: Path, limit: str, usage: int, cached: int, *, old: bool = False) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    names = ("limit_in_bytes", "usage_in_bytes") if old else ("max", "current")
    for name, value in zip(names, (limit, usage), strict=True):
        (folder / f"memory.{name}").write_text(f"{value}\n")
    (folder / "memory.stat").write_text(f"{'total_cache' if old else 'file'} {cached}\nanon 1\n")


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in place of /sys/fs/cgroup; 8,000 MiB are free, and there is no group."""
    meminfo, own = tmp_path / "meminfo", tmp_path / "cgroup"
    meminfo.write_text(f"MemTotal: 9 kB\nMemAvailable:  {8000 << 10} kB\n")
    own.write_text("0::/\n")
    for name, path in (("_MEMINFO", meminfo), ("_SELF", own), ("_CGROUP", tmp_path / "fs")):
        monkeypatch.setattr(memory, name, path)
    return tmp_path / "fs"


def test_what_is_left_is_the_least_of_the_machine_and_its_groups(machine: Path) -> None:
    assert memory.available() == 8000 * _MIB
    (machine.parent / "cgroup").write_text("0::/slurm/job/step\n")
    _group(machine / "slurm/job/step", "max", 500 * _MIB, 0)
    assert memory.available() == 8000 * _MIB
    _group(machine / "slurm/job", str(3000 * _MIB), 900 * _MIB, 400 * _MIB)
    assert memory.available() == 2500 * _MIB  # pages of files are given back
    _group(machine / "slurm", str(1000 * _MIB), 1900 * _MIB, 0)
    assert memory.available() == 0


def test_groups_of_version_1_count_too(machine: Path) -> None:
    (machine.parent / "cgroup").write_text("5:cpu:/x\n4:memory:/docker/abc\n0::/\n")
    _group(machine / "memory", str(700 * _MIB), 100 * _MIB, 0, old=True)  # as a container sees it
    assert memory.available() == 600 * _MIB
    _group(machine / "memory/docker/abc", str(300 * _MIB), 200 * _MIB, 50 * _MIB, old=True)
    assert memory.available() == 150 * _MIB


def test_as_many_large_pictures_as_there_is_memory_for(machine: Path) -> None:
    assert memory.at_once(1) == 1
    assert memory.at_once(64) == 3  # of 178,956,970 pixels, 14 bytes each
    (machine.parent / "meminfo").write_text("MemAvailable: 1000 kB\n")
    assert memory.at_once(64) == 1


def test_a_jpeg_takes_what_its_scale_takes(draw_photo: Callable[..., Pixels], save: Save) -> None:
    photo = draw_photo(256, 128)
    plain, progressive = (probe(save(photo, "jpeg", progressive=p)) for p in (False, True))
    pixels = 256 * 128
    assert memory.needed(plain, 1) == pixels * 8
    assert memory.needed(plain, 8) == pixels // 8
    assert memory.needed(progressive, 8) == pixels * 6 + pixels // 8


def test_large_pictures_wait_for_one_another_and_others_do_not(machine: Path) -> None:
    memory.take_turns(threading.Semaphore(1))
    try:
        with memory.place_for(memory.LARGE + 1):
            done = threading.Event()

            def convert(pixels: int) -> None:
                with memory.place_for(pixels):
                    done.set()

            large = threading.Thread(target=convert, args=(memory.LARGE + 1,))
            large.start()
            time.sleep(0.05)
            assert not done.is_set()
            with memory.place_for(memory.LARGE):
                pass
        large.join()
        assert done.is_set()
    finally:
        memory.take_turns(None)


def test_a_picture_for_which_there_is_no_memory_is_not_begun(machine: Path) -> None:
    (machine.parent / "meminfo").write_text(f"MemAvailable: {200 << 10} kB\n")
    with pytest.raises(MemoryError), memory.place_for(memory.LARGE + 1):
        pass
    with memory.place_for(memory.LARGE):
        pass


_LIMITED = """
import resource, sys
from packer.cli import main
from packer.imaging import libraries
libraries.require_converting()
import h5py, joblib, lmdb, simplejpeg
size = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
limit = size + (60 << 20)
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
sys.argv[0] = "packer"
sys.exit(main())
"""


@pytest.mark.parametrize(
    ("jobs", "kind"), [("1", "png"), ("1", "jpg"), ("1", "webp"), ("2", "png")]
)
def test_where_memory_ends_the_picture_is_named_in_a_line(
    jobs: str, kind: str, tmp_path: Path
) -> None:
    """Under `ulimit -v`: no traceback, no pack without the picture."""
    folder = tmp_path / "photos" / "a"
    folder.mkdir(parents=True)
    small = np.zeros((64, 64, 3), np.uint8)
    (folder / "0.jpg").write_bytes(simplejpeg.encode_jpeg(small))
    # Worker processes start with fewer libraries, and have more room.
    size = (6_000, 4_000) if jobs == "1" else (17_000, 10_000)
    large = Image.new("1" if kind == "png" else "RGB", size)
    large.save(folder / f"large.{kind}", quality=1, method=0)
    command = [sys.executable, "-c", _LIMITED, "convert", str(tmp_path / "photos")]
    found = subprocess.run(
        [*command, "-o", str(tmp_path / "pack"), "-j", jobs, "--resize", "64", "--exact-decode"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 1, found.stderr
    assert f"a/large.{kind}: not enough memory" in found.stderr
    assert "fewer --jobs" in found.stderr
    assert "Traceback" not in found.stderr
    assert not (tmp_path / "pack" / "manifest.json").exists()


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "LA", "L", "P"])
def test_large_pictures_are_flattened_in_bands_to_the_same_pixels(
    mode: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    rng = np.random.default_rng(1)
    image = Image.fromarray(rng.integers(0, 256, (50, 40, 3), np.uint8)).convert(mode)
    if mode in ("RGBA", "LA"):
        opacity = np.full((50, 40), 255, np.uint8)
        opacity[30:] = 9  # the first bands have none
        image.putalpha(Image.fromarray(opacity))
    if mode == "P":
        image.info["transparency"] = 3
    image.save(tmp_path / "x.png")
    data = (tmp_path / "x.png").read_bytes()
    whole = decode(data)
    monkeypatch.setattr(colour, "_BAND", 40 * 7)
    parts = decode(data)
    assert np.array_equal(parts.pixels, whole.pixels)
    assert parts.notes == whole.notes
