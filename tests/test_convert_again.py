"""Continue a pack after its source has changed, or after a run that died."""

import dataclasses
import functools
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from packer import convert, merge
from packer.convert import ConvertOptions, convert_dataset
from packer.errors import UsageError
from packer.packing.holder import myself
from packer.packing.lock import Lock, Timing
from packer.packing.shards import shard
from packer.reporting import Reporter
from tests.fixtures import Digest, MakeTree

OPTIONS = ConvertOptions(resize="48", batch_size=4, shard_size=16_000, jobs=1)


def _interrupt(*arguments: object) -> bool:
    raise KeyboardInterrupt


def test_a_file_of_another_size_is_named(
    tmp_path: Path, make_tree: MakeTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree, out = make_tree(classes=3, each=20), tmp_path / "pack"
    convert_dataset(tree, out, ConvertOptions(**{**vars(OPTIONS), "part": (0, 2)}))
    named = 0
    paths = sorted(tree.rglob("*.jpg"))[::6]
    for path in paths:
        data, times = path.read_bytes(), (path.stat().st_atime_ns, path.stat().st_mtime_ns)
        path.write_bytes(data + b"more")
        with pytest.raises(UsageError) as caught:
            convert_dataset(tree, out, OPTIONS)
        named += f"{path.parent.name}/{path.name} of the source changed since" in str(caught.value)
        path.write_bytes(data)
        os.utime(path, ns=times)
    assert 0 < named < len(paths)  # others are in shards that are still to be made
    assert convert_dataset(tree, out, OPTIONS).manifest is not None


def test_what_a_dead_run_left_of_a_shard_gives_way_when_the_source_changed(
    tmp_path: Path, make_tree: MakeTree, digest_tree: Digest, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree, out = make_tree(classes=3, each=20), tmp_path / "pack"
    with monkeypatch.context() as patch:
        patch.setattr(shard, "publish", _interrupt)
        with pytest.raises(KeyboardInterrupt):
            convert_dataset(tree, out, OPTIONS)
    assert (out / ".packer" / "train-000000.json").exists()
    assert (out / "train-000000.index").exists() and not (out / "train-000000.tar").exists()
    (out / "train-000000.index").write_bytes(b"of other pictures")
    for path in tree.rglob("*.jpg"):
        path.touch()
    convert_dataset(tree, out, OPTIONS)
    convert_dataset(tree, tmp_path / "whole", OPTIONS)
    assert digest_tree(out) == digest_tree(tmp_path / "whole")


class Elsewhere(Reporter):
    """A run of another machine that holds a pack's folder, until a run here begins to wait for it.

    Args:
        out: The pack's folder.
        end: What that run does last.
    """

    def __init__(self, out: Path, end: Callable[[], object]) -> None:
        holder = dataclasses.replace(myself(), host="node7", kernel="x", pid=1)
        (out / ".packer" / "lock-all").write_bytes(holder.to_bytes())
        self.end = end
        self.said: list[str] = []

    def note(self, text: str) -> None:
        self.said.append(text)
        if text.startswith("watching the lock of packer on node7"):
            self.end()


@pytest.fixture
def unfinished(
    tmp_path: Path, make_tree: MakeTree, monkeypatch: pytest.MonkeyPatch
) -> tuple[Path, Path, Path]:
    """A source, its pack, and half of it in another folder."""
    timing = Timing(renew=0.01, patience=1000, first=1000)
    for module in (convert, merge):
        monkeypatch.setattr(module, "Lock", functools.partial(Lock, timing=timing))
    tree, whole, out = make_tree(classes=3, each=20), tmp_path / "whole", tmp_path / "pack"
    convert_dataset(tree, whole, OPTIONS)
    for part in range(2):
        convert_dataset(tree, out, ConvertOptions(**{**vars(OPTIONS), "part": (part, 2)}))
    return tree, whole, out


def finish(whole: Path, out: Path) -> None:
    """As the run elsewhere does it: the manifest, then the work folder's end."""
    shutil.copytree(whole, out, dirs_exist_ok=True)
    shutil.rmtree(out / ".packer")


@pytest.mark.parametrize("part", [None, (0, 2)])
def test_a_run_that_is_waited_for_may_finish(
    unfinished: tuple[Path, Path, Path], digest_tree: Digest, part: tuple[int, int] | None
) -> None:
    tree, whole, out = unfinished
    options = ConvertOptions(**{**vars(OPTIONS), "part": part})
    reporter = Elsewhere(out, lambda: finish(whole, out))
    result = convert_dataset(tree, out, options, reporter=reporter)
    assert any(line.startswith("watching") for line in reporter.said)
    assert result.was_complete and result.manifest is not None
    assert digest_tree(out) == digest_tree(whole)


def test_a_merge_waits_for_one_that_finishes(
    unfinished: tuple[Path, Path, Path], digest_tree: Digest
) -> None:
    _, whole, out = unfinished
    result = merge.merge_pack(out, reporter=Elsewhere(out, lambda: finish(whole, out)))
    assert result.was_complete
    assert digest_tree(out) == digest_tree(whole)


def test_a_run_that_is_waited_for_may_take_everything_away(
    unfinished: tuple[Path, Path, Path], digest_tree: Digest
) -> None:
    tree, whole, out = unfinished
    reporter = Elsewhere(out, lambda: shutil.rmtree(out))
    assert not convert_dataset(tree, out, OPTIONS, reporter=reporter).was_complete
    assert digest_tree(out) == digest_tree(whole)


def test_force_waits_for_one_that_finishes(
    unfinished: tuple[Path, Path, Path], digest_tree: Digest
) -> None:
    tree, whole, out = unfinished
    reporter = Elsewhere(out, lambda: finish(whole, out))
    result = convert_dataset(tree, out, OPTIONS, force=True, reporter=reporter)
    assert result.moved is not None and not result.was_complete
    assert digest_tree(result.moved) == digest_tree(out) == digest_tree(whole)


_WATCHED = """
import os, sys, threading
from pathlib import Path
from packer.convert import ConvertOptions, convert_dataset
from packer.reporting import Reporter

class Look(Reporter):
    said = False

    def progress(self, progress):
        if progress.done < progress.total or self.said:
            return
        self.said = True
        mine = Path("/proc/self/cmdline").read_bytes()
        children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
        forked = sum(Path(f"/proc/{pid}/cmdline").read_bytes() == mine for pid in children)
        renewing = any(thread.name == "packer-lock" for thread in threading.enumerate())
        print(forked, renewing)

if __name__ == "__main__":
    options = ConvertOptions(resize="48", batch_size=4, shard_size=16_000, jobs=2)
    convert_dataset(sys.argv[1], sys.argv[2], options, reporter=Look())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_the_lock_is_renewed_by_a_thread_and_workers_are_still_forked(
    tmp_path: Path, make_tree: MakeTree
) -> None:
    """Workers are forked by a process of one thread alone: 10 ms instead of half a second."""
    found = subprocess.run(
        [sys.executable, "-c", _WATCHED, str(make_tree(classes=3, each=20)), str(tmp_path / "out")],
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    assert found.stdout == "2 True\n"
