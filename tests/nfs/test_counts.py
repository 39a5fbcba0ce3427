"""Requests of one epoch, by the counters of a real NFS client."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
import simplejpeg

pytestmark = pytest.mark.nfs

#: Calls of the image folder by those of a pack, at least.
FEWER = 40
#: Pictures of 25 KB, as at 256 pixels: ten on-disk batches.
IMAGES, SIDE = 1280, 144


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An image folder with the size of photos' files."""
    random = np.random.default_rng(0)
    pixels = random.integers(0, 256, (SIDE, SIDE, 3), np.uint8)
    data = simplejpeg.encode_jpeg(pixels, quality=70)
    assert 20_000 < len(data) < 30_000
    (tmp_path / "photos" / "a").mkdir(parents=True)
    for number in range(IMAGES):
        (tmp_path / "photos" / "a" / f"{number}.jpg").write_bytes(data)
    return tmp_path / "photos"


def test_an_epoch_costs_few_calls(
    clients: tuple[Path, Path], folder: Path, tmp_path: Path, bench: list[str]
) -> None:
    """Every format, read in order, by batch and by window, in one process and with workers."""
    cold = os.environ.get("NFS_TEST_COLD")
    if cold is None:
        # The server promised that nobody else changes what this client has opened (delegations).
        pytest.skip("needs NFS_TEST_COLD: files opened before are opened again without a call")
    written, data = (mount / "data" for mount in clients)
    making = ["prepare", str(folder), str(written), "--resize", str(SIDE)]
    subprocess.run([*bench, *making], check=True, timeout=300)
    out = tmp_path / "out.json"
    command = [*bench, "measure", str(data), "--json", str(out), "--cold", cold]
    stats = os.environ.get("NFS_TEST_STATS")
    command += ["--stats", stats] if stats else []
    subprocess.run(command, check=True, timeout=300)
    rows = {row["case"]: row for row in json.loads(out.read_text())["rows"]}
    if rows["folder 1"]["rpcs"] is None:
        pytest.skip("nobody counts calls on this mount: NFS_TEST_STATS=COMMAND")
    files = rows["folder 1"]["rpcs"]
    assert files >= 3 * IMAGES * 0.95
    for name in ("tar", "lmdb", "hdf5"):
        for how in ("none", "batch", "window", "window, 2 workers"):
            row = rows[f"{name} {how}"]
            assert row["rpcs"] * FEWER <= files, row
            assert row["fetched"] <= 1.2 * row["size"], row
        full = rows[f"{name} full"]
        assert full["rpcs"] <= files / 3, full  # no open and no close a picture
        assert full["fetched"] <= 1.2 * full["size"], full
