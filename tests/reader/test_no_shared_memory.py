"""Reading where /dev/shm is full, read-only or missing."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.packs import BuildPack

pytestmark = pytest.mark.slow

READ = """
import sys
import numpy as np
import torch
from packer.reader import BatchStream, Loader, PackedDataset

def skipping():
    dataset = PackedDataset(sys.argv[1], decode="numpy", on_error="skip")
    return len(dataset.__getitems__(range(8))), len(dataset.skipped)

def preloaded(how):
    try:
        return len(PackedDataset(sys.argv[1], preload=how))
    except Exception as error:
        return f"{type(error).__name__} {error}"

def preloaded_ram():
    return preloaded("ram")

def preloaded_shm():
    return preloaded("shm")

def stream():
    return [len(labels) for _, labels in BatchStream(PackedDataset(sys.argv[1]), 4)]

def loader(**options):
    return [len(labels) for _, labels in Loader(sys.argv[1], batch_size=4, **options)]

def loader_process():
    return loader(process=True)

if __name__ == "__main__":
    for way in sys.argv[2].split(","):
        print(way, globals()[way]())
"""

#: What each way of reading gives: all of the samples, or an error that names the folder.
READS = {
    "skipping": r"\(8, 0\)",
    "stream": r"\[4, 4\]",
    "loader": r"\[4, 4\]",
    "loader_process": r"\[4, 4\]",
    "preloaded_ram": r"(OutputError|UsageError) .*/dev/shm",
    "preloaded_shm": r"(OutputError|UsageError) .*/dev/shm",
}


@pytest.mark.parametrize(
    "spoil",
    [
        "mount -t tmpfs -o size=8k none /dev/shm; head -c 8192 /dev/zero > /dev/shm/x",
        "mount -t tmpfs -o ro none /dev/shm",
        "mount -t tmpfs none /dev; mknod /dev/null c 1 3; mknod /dev/urandom c 1 9",
    ],
    ids=["full", "read-only", "missing"],
)
def test_reading_without_shared_memory(build_pack: BuildPack, tmp_path: Path, spoil: str) -> None:
    """/dev/shm is needed by nothing but `preload`, which names it."""
    root = build_pack([[4, 4]]).root
    script = tmp_path / "script.py"
    script.write_text(READ)
    inside = ["unshare", "-m", "bash", "-ec"]
    if subprocess.run([*inside, spoil], check=False, capture_output=True).returncode:
        pytest.skip("mounting in a namespace of its own is not allowed here")
    command = f"({spoil}) 2>/dev/null; exec {sys.executable} {script} {root} {','.join(READS)}"
    done = subprocess.run(
        [*inside, command], check=False, capture_output=True, text=True, timeout=120
    )
    said = done.stdout.splitlines()
    for way, expected in READS.items():
        assert any(re.fullmatch(f"{way} {expected}.*", line) for line in said), (
            way,
            said,
            done.stderr,
        )
