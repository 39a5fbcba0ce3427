from __future__ import annotations

import errno
import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from packer.errors import OutputError
from packer.staging.claim import try_claim


def test_alone_or_together(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    first = try_claim(path)
    assert first is not None
    assert try_claim(path) is None
    assert try_claim(path, shared=True) is None
    first.close()
    users = [try_claim(path, shared=True) for _ in range(2)]
    assert None not in users
    assert try_claim(path) is None
    with try_claim(path, shared=True) or pytest.fail("shared with others"):
        pass


def test_the_last_user_knows(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    first, second = (try_claim(path, shared=True) for _ in range(2))
    assert first is not None
    assert second is not None
    assert not first.is_last()
    assert second.is_last()
    assert try_claim(path, shared=True) is None
    second.close()
    second.close()
    assert try_claim(path) is not None


def test_a_killed_holder_holds_nothing(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    script = (
        "import sys, time; from pathlib import Path; from packer.staging.claim import try_claim;"
        "held = try_claim(Path(sys.argv[1])); print('held', flush=True); time.sleep(60)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(path)], stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        assert try_claim(path) is None
        holder.send_signal(signal.SIGKILL)
    claim = try_claim(path)
    assert claim is not None
    claim.close()


def test_a_lock_file_that_was_removed_is_no_claim(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its last holder removes it between our opening and our locking it."""
    path = tmp_path / "lock"
    real = fcntl.flock

    def late(descriptor: int, how: int) -> None:
        path.unlink()
        real(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", late)
    before = len(os.listdir("/proc/self/fd"))
    assert try_claim(path) is None
    assert len(os.listdir("/proc/self/fd")) == before


def test_no_folder_no_claim(tmp_path: Path) -> None:
    assert try_claim(tmp_path / "gone" / "lock") is None


def test_a_file_system_without_locks_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Network file systems may have no locks (ENOLCK); the error must name the file system."""

    def refuse(descriptor: int, how: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(OutputError, match=r"lock: cannot be locked: No locks.*local disk"):
        try_claim(tmp_path / "lock")
