"""Conversions that meet faults: a compiled shim, and a process that has it preloaded."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from simplejpeg import encode_jpeg

from tests.fixtures import Meet

HERE = Path(__file__).parent

#: Runs with a fault so far, by format.
RUNS: Counter[str] = Counter()


@pytest.fixture(scope="session")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compiled shim."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if sys.platform != "linux" or compiler is None:
        pytest.skip("needs Linux and a C compiler, to make calls of the system fail")
    built = tmp_path_factory.mktemp("shim") / "shim.so"
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-O1", "-o", built, HERE / "shim.c", "-ldl"], check=True
    )
    return built


@pytest.fixture(scope="session")
def preload(shim: Path) -> dict[str, str]:
    """The environment of a process that has it."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith("PACKER_")}
    # One thread, as in the command itself: the driver forks.
    return clean | {"LD_PRELOAD": os.fspath(shim), "OPENBLAS_NUM_THREADS": "1"}


@pytest.fixture(scope="session")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sixteen tiny pictures, one of them cut short: four shards of one batch each."""
    folder = tmp_path_factory.mktemp("source") / "photos"
    generator = np.random.default_rng(1)
    for label in range(3):
        (folder / f"{label}").mkdir(parents=True)
        for number in range(5):
            pixels = generator.integers(0, 256, (30 + label, 32 + number, 3), np.uint8)
            (folder / f"{label}" / f"{number}.jpg").write_bytes(encode_jpeg(pixels, quality=80))
    whole = (folder / "0" / "0.jpg").read_bytes()
    (folder / "0" / "cut.jpg").write_bytes(whole[: len(whole) // 2])
    return folder


@pytest.fixture(scope="session")
def meet(
    photos: Path, preload: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Meet]:
    """Runs cases in one process a format."""
    drivers: dict[str, subprocess.Popen[str]] = {}

    def call(format_name: str, **case: Any) -> dict[str, Any]:
        driver = drivers.get(format_name)
        if driver is None:
            folder = tmp_path_factory.mktemp(format_name)
            command = [sys.executable, str(HERE / "driver.py"), str(photos), str(folder)]
            driver = drivers[format_name] = subprocess.Popen(
                [*command, format_name],
                env=preload, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            )  # fmt: skip
            assert driver.stdout is not None and driver.stdout.readline() == "ready\n"
        assert driver.stdin is not None and driver.stdout is not None
        print(json.dumps(case), file=driver.stdin, flush=True)
        RUNS[format_name] += 1
        outcome: dict[str, Any] = json.loads(driver.stdout.readline())
        return outcome

    yield call
    for driver in drivers.values():
        driver.communicate("", timeout=60)


@pytest.fixture(autouse=True)
def faults_are_counted(record_property: Callable[[str, object], None]) -> Iterator[None]:
    """For the line in pytest's summary: with xdist, only properties reach the main process."""
    before = RUNS.copy()
    yield
    for format_name, number in (RUNS - before).items():
        record_property(f"faults in {format_name}", number)
