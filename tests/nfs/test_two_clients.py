"""One client of an NFS server writes, another reads or writes too."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from packer.errors import OutputError, SourceError
from packer.packing.lock import Lock
from packer.reader import PackedDataset

pytestmark = pytest.mark.nfs

FORMATS = ("tar", "lmdb", "hdf5")


def convert(source: Path, out: Path, *options: str) -> subprocess.Popen[str]:
    """Start a conversion by a process of its own."""
    command = [sys.executable, "-m", "packer", "convert", str(source), "-o", str(out), "-j1"]
    return subprocess.Popen(
        [*command, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def finish(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Its exit code and what it said."""
    _, said = process.communicate(timeout=100)
    return process.returncode, said


@pytest.mark.parametrize("name", FORMATS)
def test_what_one_makes_the_other_reads(
    name: str, clients: tuple[Path, Path], make_tree: Callable[..., Path]
) -> None:
    """At once, also where it looked before there was anything: a client remembers for 30 seconds
    that a name is not there.
    """
    one, two = clients
    with pytest.raises(SourceError):
        PackedDataset(two / "pack")
    code, said = finish(convert(make_tree(), one / "pack", "--format", name))
    assert code == 0, said
    near = PackedDataset(one / "pack", decode="bytes")
    far = PackedDataset(two / "pack", decode="bytes", verify="always")
    assert len(far) == 24
    assert [far[i] for i in range(24)] == [near[i] for i in range(24)]


def test_a_reader_keeps_its_pack(
    clients: tuple[Path, Path], make_tree: Callable[..., Path]
) -> None:
    """While another client puts a new pack in its place, what is open stays what it was."""
    one, two = clients
    source = make_tree(each=8)
    assert finish(convert(source, one / "pack"))[0] == 0
    far = PackedDataset(two / "pack", decode="bytes", verify="always")
    before = [bytes(far[i][0]) for i in range(len(far))]
    code, said = finish(convert(source, one / "pack", "--force", "--resize", "32"))
    assert code == 0, said
    assert [bytes(far[i][0]) for i in range(len(far))] == before


def test_a_lock_holds_across_clients(clients: tuple[Path, Path]) -> None:
    one, two = clients
    folder = one / "pack" / ".packer"
    folder.mkdir(parents=True)
    other = Lock(two / "pack" / ".packer", None)
    with Lock(folder, None), pytest.raises(OutputError, match="in use by another"), other:
        pytest.fail("both hold it")
    with other:
        pass


def test_two_at_once_make_one_pack(
    clients: tuple[Path, Path], make_tree: Callable[..., Path]
) -> None:
    """One of them makes it; the other is refused, or finds it complete."""
    source = make_tree(classes=3, each=20)
    runs = [
        convert(source, mount / "pack", "--batch-size", "8", "--shard-size", "16KB")
        for mount in clients
    ]
    ends = [finish(run) for run in runs]
    codes = sorted(code for code, _ in ends)
    assert codes in ([0, 0], [0, 1]), ends
    assert all("in use by another" in said for code, said in ends if code == 1)
    for mount in clients:
        command = [sys.executable, "-m", "packer", "verify", str(mount / "pack")]
        checked = subprocess.run(command, capture_output=True, text=True, check=False)
        assert checked.returncode == 0, checked.stderr
