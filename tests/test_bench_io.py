from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from packer.settings.options import ConvertOptions
from packer.writer import PackWriter

pytestmark = pytest.mark.slow

SCRIPT = Path(__file__).parents[1] / "scripts" / "bench_io.py"


@pytest.mark.skipif(not os.access("/proc/self/io", os.R_OK), reason="needs /proc/self/io")
@pytest.mark.parametrize("case", [{"workers": 0}, {"workers": 2}, {"rank": 1, "world_size": 2}])
def test_counts_what_an_epoch_asks_for(tmp_path: Path, case: dict[str, int]) -> None:
    """A rank's share, once, whatever the number of workers."""
    random = np.random.default_rng(0)
    pack = tmp_path / "pack"
    options = ConvertOptions(batch_size=16, codec="png")
    with PackWriter(pack, classes=["a"], options=options) as writer:
        for number in range(512):
            pixels = random.integers(0, 256, (64, 64, 3), np.uint8)
            writer.write(image=pixels, label=0, key=f"{number}.png", split="train")
    command = [sys.executable, str(SCRIPT), str(pack), "--case"]
    asked = json.dumps({"shuffle": "window", "batch_size": 20, **case})
    done = subprocess.run([*command, asked], check=True, capture_output=True, text=True, timeout=60)
    read = json.loads(done.stdout)
    assert read["share"] == pytest.approx(512 * 64 * 64 * 3 / case.get("world_size", 1), rel=0.2)
    assert 0.8 * read["share"] <= read["asked"] <= 1.2 * read["share"]
    # Of the disk: nothing where the pack is cached, with torch's libraries where they are not.
    assert isinstance(read["stored"], int)
    assert read["stored"] >= 0
