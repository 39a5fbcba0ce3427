"""The scripts, run as users run them, with a few drawn pictures."""

from __future__ import annotations

import json
import os
import runpy
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import simplejpeg

from packer.packing.transcode import transcode
from packer.settings.options import ImageOptions

pytestmark = pytest.mark.slow

SCRIPTS = Path(__file__).parent.parent / "scripts"

# Takes 0.1 s a picture, reports 2 s for all, and stores the files unchanged.
NAP = """
import json, os, pathlib, shutil, sys, time
source, out, workers = sys.argv[1:]
if not os.environ["TMPDIR"].startswith(os.getcwd()) or workers != "2":
    sys.exit("not what was promised")
files = sorted(pathlib.Path(source).rglob("*.jpg"))
os.mkdir(out)
for file in files:
    time.sleep(0.1)
    shutil.copy(file, out)
print("here we go")
print(json.dumps({"n": len(files), "inner_s": 2}))
"""


def bench(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPTS / "bench_convert.py"), str(folder), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture
def folder(make_tree: Callable[..., Path]) -> Path:
    """Twelve pictures of about 64 pixels a side, in three classes."""
    return make_tree(classes=3, each=4)


def test_bench_convert_measures_all_candidates(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "nap.py").write_text(NAP)
    done = bench(
        folder,
        *("--rounds", "1", "--formats", "tar", "--resize", "48"),
        *("--peer", f"nap={sys.executable} {tmp_path}/nap.py {{src}} {{out}} {{workers}}"),
        *("--json", str(tmp_path / "out.json"), "--scratch", str(tmp_path)),
    )
    assert done.returncode == 0, done.stderr
    assert "made" not in done.stderr  # every candidate made all pictures
    assert list(tmp_path.glob("bench-*")) == []

    value = json.loads((tmp_path / "out.json").read_text())
    assert (value["images"], value["jobs"]) == (12, 2)
    assert value["options"] == {"resize": 48, "quality": 90}
    assert value["machine"]["processor"] and any("simplejpeg" in x for x in value["libraries"])
    assert value["fastest_peer"]["whole"] == "nap"
    rounds = {found["name"]: found["rounds"] for found in value["candidates"]}
    assert list(rounds) == ["limit", "packer tar", "nap"]
    figures: dict[str, dict[str, Any]] = {name: found[0] for name, found in rounds.items()}
    check_figures(figures, folder)

    for name, found in figures.items():
        first, second = (x for x in done.stdout.splitlines() if x.startswith(f"{name:<18}"))
        assert f"{found['steady']:.0f} (" in first if "steady" in found else first.count("–") > 2
        assert f" {found['peak_mb']:.0f} (" in second


def check_figures(figures: dict[str, dict[str, Any]], folder: Path) -> None:
    limit, packer, nap = figures.values()
    assert limit["steady_to_limit"] == 1 and "whole" not in limit
    assert 0.05 < packer["first_seconds"] < 30  # Python alone takes longer than 0.05 s
    assert packer["whole_to_peer"] == pytest.approx(packer["whole"] / nap["whole"])
    assert packer["output_mb"] > 0.01  # a tar of nothing has 10,240 bytes
    assert nap["whole"] < 12 / 1.2  # 1.2 s of sleep
    assert 5 < nap["steady"] < 20  # 10, were it not for what else the machine does
    assert nap["fixed_seconds"] > 0.2  # of two pictures
    assert nap["busy"] < 0.3
    assert nap["own"] == 6
    size = sum(path.stat().st_size for path in folder.rglob("*.jpg"))
    assert nap["output_mb"] == pytest.approx(size / 1e6)


def test_bench_convert_stops_at_a_peer_that_fails(folder: Path, tmp_path: Path) -> None:
    code = "import sys; sys.exit(sys.argv[1][-5:])"
    peer = f"broken={sys.executable} -c '{code}' {{src}} {{out}}"
    done = bench(folder, "--scratch", str(tmp_path), "--peer", peer, "--formats")
    assert done.returncode == 1
    assert "broken: failed with exit code 1" in done.stderr
    assert done.stderr.endswith("small\n")
    assert list(tmp_path.glob("bench-*")) == []


def test_bench_convert_says_what_a_peer_lacks(folder: Path) -> None:
    done = bench(folder, "--peer", "name=command {src}")
    assert done.returncode == 1 and "{out}" in done.stderr


@pytest.mark.parametrize(
    ("width", "height"), [(700, 500), (500, 700), (2400, 2200), (256, 300), (100, 80)]
)
@pytest.mark.parametrize("subsampling", ["420", "444", "Gray"])
def test_bench_limit_does_the_same_work(width: int, height: int, subsampling: str) -> None:
    """The same bytes as packer's, so that the limit is one for the same task."""
    rows, columns = np.mgrid[:height, :width]
    pixels = np.stack([rows, columns, rows + columns], axis=2).astype(np.uint8)
    data = simplejpeg.encode_jpeg(pixels, 85, "RGB", subsampling)
    options = ImageOptions(size=(256, 256), upscale=False, reencode=True)
    limit = runpy.run_path(str(SCRIPTS / "bench_limit.py"))
    assert limit["transcode"](memoryview(data), 256, 90) == transcode(data, options).payload


def test_the_demo_ends_with_lines_that_work(make_tree: Callable[..., Path], tmp_path: Path) -> None:
    """In a checkout that is set up already, whose path has a blank."""
    pytest.importorskip("torch")
    scripts = tmp_path / "check out" / "scripts"
    scripts.mkdir(parents=True)
    for name in ("demo", "demo_read.py"):
        shutil.copy(SCRIPTS / name, scripts)
    (scripts / "setup").write_text("#!/bin/sh\n")
    (scripts / "setup").chmod(0o755)
    make_tree("YOUR_FOLDER", each=1)
    done = subprocess.run(
        ["bash", scripts / "demo", tmp_path / "out"],
        cwd=tmp_path, env={**os.environ, "PACKER_VENV": sys.prefix},
        capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "$ packer convert sample --resize 256 --out " in done.stdout
    assert "epoch 1: 245 images" in done.stdout
    *_, convert, read = done.stdout.splitlines()
    assert shlex.split(read)[1:] == ["check out/scripts/demo_read.py", "YOUR_FOLDER-256-jpeg-tar"]
    subprocess.run(["bash", "-c", convert], cwd=tmp_path, timeout=120, check=True)
    assert (tmp_path / shlex.split(read)[2] / "manifest.json").exists()
