"""Where the tests of this folder find NFS: two mounts of one export, best on two hosts' names.

    NFS_TEST_MOUNTS=/mnt/one:/mnt/two   writable folders, two clients of the same exported folder
    NFS_TEST_STATS=COMMAND              prints the second one's counts, as for bench_nfs.py
    NFS_TEST_COLD=COMMAND               empties the second one's caches, best by mounting it anew

Tests that need them are skipped without.
"""

from __future__ import annotations

import os
import shutil
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[2] / "scripts"


@pytest.fixture
def clients() -> Iterator[tuple[Path, Path]]:
    """A fresh folder on the server, as two clients see it."""
    mounts = os.environ.get("NFS_TEST_MOUNTS", "").split(":")
    if len(mounts) != 2:
        pytest.skip("needs two mounts of one NFS export: NFS_TEST_MOUNTS=/mnt/one:/mnt/two")
    name = f"packer-test-{uuid.uuid4().hex}"
    one, two = (Path(mount) / name for mount in mounts)
    one.mkdir()
    yield one, two
    # What a test that failed still holds open stays, as .nfs…, until it lets go.
    shutil.rmtree(one, ignore_errors=True)


@pytest.fixture
def bench() -> list[str]:
    """The beginning of a command line: Python and bench_nfs.py."""
    return [sys.executable, str(SCRIPTS / "bench_nfs.py")]
