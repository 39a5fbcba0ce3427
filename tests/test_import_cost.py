"""What starting a command and importing the reader load: nothing slow, nothing optional."""

from __future__ import annotations

import subprocess
import sys

import pytest


def imported_by(*arguments: str) -> set[str]:
    """Top-level names of all modules that a Python process imports."""
    command = [sys.executable, "-X", "importtime", *arguments]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr[-2000:]
    times = [line for line in done.stderr.splitlines() if line.startswith("import time:")]
    return {line.rsplit("|", 1)[1].strip().split(".")[0] for line in times}


SLOW = {"numpy", "cv2", "PIL", "h5py", "lmdb", "torch", "simplejpeg", "joblib"}


def test_importing_is_seen() -> None:
    assert imported_by("-c", "import numpy") & SLOW == {"numpy"}


@pytest.mark.parametrize("arguments", [("--help",), ("--version",)])
def test_help_is_quick(arguments: tuple[str, ...]) -> None:
    assert imported_by("-m", "packer", *arguments) & SLOW == set()


def test_reading_needs_no_converter_library() -> None:
    loaded = imported_by("-c", "from packer.reader import PackedDataset")
    assert loaded & {"PIL", "cv2", "lmdb", "h5py", "joblib", "torch"} == set()
