"""Runs the real command in a process of its own."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """`run("convert", "photos", "--resize", "48")` in an empty working directory."""

    def call(*arguments: object, **env: str) -> "subprocess.CompletedProcess[str]":
        clean = {key: value for key, value in os.environ.items() if not key.startswith("PACKER_")}
        return subprocess.run(
            [sys.executable, "-m", "packer", *map(str, arguments)],
            cwd=tmp_path,
            env=clean | env,
            capture_output=True,
            text=True,
            encoding="utf-8",
            errors="surrogateescape",
            check=False,
            timeout=120,
        )

    return call
