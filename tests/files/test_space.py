from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from packer.files import space
from packer.files.space import free_space, in_memory

MB = 1 << 20


def test_a_disk_is_its_file_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(space, "in_memory", lambda device: False)
    status = os.statvfs(tmp_path)
    found = free_space(tmp_path, tmp_path / "nothing")
    assert found.free == pytest.approx(status.f_bavail * status.f_frsize, abs=100 * MB)
    assert found.limit == "the file system"


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="needs /dev/shm")
def test_shared_memory_is_memory() -> None:
    assert in_memory(Path("/dev/shm").stat().st_dev)
    assert not in_memory(Path("/proc").stat().st_dev)
    assert 0 < free_space(Path("/dev/shm")).free < 1 << 60


def fake_system(root: Path, available: int, cgroup: str, files: dict[str, str]) -> Path:
    """A /proc and a /sys that say these numbers."""
    meminfo = f"MemTotal: 99999999 kB\nMemAvailable: {available // 1024} kB\n"
    texts = {"proc/meminfo": meminfo, "proc/self/cgroup": cgroup}
    texts |= {f"sys/fs/cgroup/{name}": text for name, text in files.items()}
    for name, text in texts.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every folder is one of a tmpfs of 1000 MB."""
    monkeypatch.setattr(space, "in_memory", lambda device: True)
    status = SimpleNamespace(f_bavail=1000, f_frsize=MB, f_blocks=2000)
    monkeypatch.setattr(os, "statvfs", lambda folder: status)


V2 = {
    "job/memory.max": f"{900 * MB}\n",
    "job/memory.current": f"{700 * MB}\n",
    "job/memory.stat": f"anon 5\ninactive_file {100 * MB}\n",
    "job/step/memory.max": "max\n",
    "job/step/memory.current": f"{1 * MB}\n",
}
V1 = {
    "memory/job/memory.limit_in_bytes": f"{900 * MB}\n",
    "memory/job/memory.usage_in_bytes": f"{700 * MB}\n",
    "memory/job/memory.stat": f"inactive_file 0\ntotal_inactive_file {100 * MB}\n",
}


@pytest.mark.usefixtures("memory")
@pytest.mark.parametrize(
    ("available", "cgroup", "files", "free", "limit"),
    [
        (5000 * MB, "0::/\n", {}, 1000 * MB, "file system"),
        (400 * MB, "0::/\n", {}, 400 * MB, "available memory"),
        (5000 * MB, "0::/job/step\n", V2, 300 * MB, "cgroup/job"),
        (5000 * MB, "5:cpu,cpuacct:/\n4:memory:/job\n0::/\n", V1, 300 * MB, "cgroup/memory/job"),
        # A container: the path is the host's, the mount is its own.
        (
            5000 * MB,
            "0::/host/path\n",
            {"memory.max": "50\n", "memory.current": "80\n"},
            0,
            "sys/fs/cgroup",
        ),
        (5000 * MB, "0::/job\n", {"job/memory.max": "max\n"}, 1000 * MB, "file system"),
    ],
)
def test_memory_ends_where_the_tightest_limit_is(
    tmp_path: Path, available: int, cgroup: str, files: dict[str, str], free: int, limit: str
) -> None:
    found = free_space(tmp_path, fake_system(tmp_path, available, cgroup, files))
    assert (found.free, limit in found.limit) == (free, True)


def test_a_tmpfs_without_a_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, memory: None
) -> None:
    """Mounted with size=0 it reports no blocks: nothing of its own binds."""
    status = SimpleNamespace(f_bavail=0, f_frsize=MB, f_blocks=0)
    monkeypatch.setattr(os, "statvfs", lambda folder: status)
    found = free_space(tmp_path, fake_system(tmp_path, 7 * MB, "", {}))
    assert found.free == 7 * MB
