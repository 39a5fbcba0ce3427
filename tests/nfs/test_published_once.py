"""How a conversion uses names and files, as NFS requires.

An audit hook in each of its processes records the calls, so that any file system will do.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

pytestmark = pytest.mark.nfs

# Python imports a module of this name, if there is one, at the start of every process. What is
# linked is hashed at that moment, so that a later change to it shows.
SITE = """
import hashlib, json, os, sys
log = os.open(os.environ["AUDIT_LOG"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
wanted = os.environ["AUDIT_BELOW"]
def tell(kind, path="", other="", flags=0):
    os.write(log, (json.dumps([kind, path, other, flags]) + "\\n").encode())
def text(value):
    return os.fsdecode(value) if isinstance(value, (str, bytes, os.PathLike)) else ""
def hook(event, arguments):
    if event in ("fcntl.flock", "fcntl.lockf"):
        tell(event)
    elif event in ("open", "os.rename", "os.link", "os.remove", "os.truncate", "shutil.move"):
        paths = [text(value) for value in arguments[:2]]
        if any(path.startswith(wanted) for path in paths):
            flags = arguments[2] if event == "open" else 0
            tell(event, *paths, flags)
            if event == "os.link":
                with open(paths[0], "rb") as file:
                    tell("content", paths[1], hashlib.sha256(file.read()).hexdigest())
sys.addaudithook(hook)
real = os.stat
def stat(path, *arguments, **options):
    if text(path).startswith(wanted):
        tell("stat", text(path))
    return real(path, *arguments, **options)
os.stat = stat
"""
#: Looks at one name in a run: whether it is there at first, whether it is a link, and beside its
#: link once it is. Waiting for a name by looking again and again would take many.
LOOKS = 5
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT


class Event(NamedTuple):
    """What a process did to a path.

    Attributes:
        kind: The audit event's name, "stat", or "content".
        path: What it was done to; of a link what is linked.
        other: The new name of a link; of content, a SHA-256.
        flags: Of open.
    """

    kind: str
    path: str
    other: str
    flags: int


def watched(source: Path, out: Path, tmp_path: Path, *options: str) -> list[Event]:
    """Convert, and return what happened to paths below `out`, in order."""
    (tmp_path / "site").mkdir(exist_ok=True)
    (tmp_path / "site" / "sitecustomize.py").write_text(SITE)
    log = tmp_path / "audit.log"
    log.unlink(missing_ok=True)
    environment = {
        **os.environ,
        "PYTHONPATH": str(tmp_path / "site"),
        "AUDIT_LOG": str(log),
        "AUDIT_BELOW": str(out),
    }
    command = [sys.executable, "-m", "packer", "convert", str(source), "-o", str(out), *options]
    subprocess.run(command, check=True, capture_output=True, env=environment, timeout=100)
    return [Event(*json.loads(line)) for line in log.read_text().splitlines()]


@pytest.mark.parametrize("name", ["tar", "lmdb", "hdf5"])
def test_published_names_are_new_and_final(
    name: str, make_tree: Callable[..., Path], tmp_path: Path
) -> None:
    """Files are made under names that nobody else has, get their final name once, by link, and are
    neither renamed over, nor removed, nor written to afterwards. No lock calls, no waiting for a
    name to appear.
    """
    out = tmp_path / "out" / "pack"
    events = watched(
        make_tree(classes=2, each=8), out, tmp_path, "--format", name, "--batch-size", "4", "-j2"
    )
    by_kind = Counter(event.kind for event in events)
    assert by_kind["os.link"] >= 4  # a shard, its index, the split's, the manifest
    assert not by_kind.keys() & {"os.rename", "shutil.move", "os.truncate"}
    assert not by_kind.keys() & {"fcntl.flock", "fcntl.lockf"}

    published = [event.other for event in events if event.kind == "os.link"]
    assert len(set(published)) == len(published)
    contents = {event.path: event.other for event in events if event.kind == "content"}
    for path in out.rglob("*"):
        if path.is_file():
            assert contents[str(path)] == hashlib.sha256(path.read_bytes()).hexdigest()

    for event in events:
        if event.kind == "open" and event.flags & WRITING:
            assert event.path.startswith(f"{out}/.packer/") and event.path.endswith(".tmp")
            assert event.flags & os.O_EXCL and event.flags & os.O_CREAT
    # Of what is outside of .packer only the rest of a run that died would be removed.
    linked: set[str] = set()
    for event in events:
        if event.kind == "os.link":
            linked.add(event.other)
        elif event.kind == "os.remove" and not event.path.startswith(f"{out}/.packer/"):
            assert event.path not in linked or event.path.endswith(".tmp")
    looks = Counter(event.path for event in events if event.kind == "stat")
    assert max(looks.values()) <= LOOKS


def test_the_same_command_again_writes_nothing(
    make_tree: Callable[..., Path], tmp_path: Path
) -> None:
    source, out = make_tree(classes=2, each=4), tmp_path / "out" / "pack"
    watched(source, out, tmp_path)
    events = watched(source, out, tmp_path)
    assert events
    assert not [event for event in events if event.kind == "open" and event.flags & WRITING]
    assert not {event.kind for event in events} & {"os.link", "os.remove", "os.rename"}
