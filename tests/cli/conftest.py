"""Runs the real command in a process of its own."""

import contextlib
import io
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from packer.cli import _group
from packer.errors import INTERRUPTS
from tests.fixtures import Run


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


@pytest.fixture
def called() -> Callable[[list[str]], tuple[int, str]]:
    """`called(["convert", "photos"])`: exit code and messages; in this process, for many cases."""

    def call(arguments: list[str]) -> tuple[int, str]:
        stderr, handlers = io.StringIO(), [signal.getsignal(number) for number in INTERRUPTS]
        with contextlib.redirect_stderr(stderr):
            code = _group.run(arguments)
        for number, handler in zip(INTERRUPTS, handlers, strict=True):
            signal.signal(number, handler)
        return code, stderr.getvalue()

    return call
