"""Parts made in any order, at once, or twice: missing ones are named; bytes equal one process's."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from packer import merge
from packer.convert import ConvertOptions, convert_dataset
from packer.errors import InUse, MissingShards, OutputError, SourceError, TooManySkipped, UsageError
from packer.merge import merge_pack, ranges
from packer.packing.lock import Lock
from packer.reporting import Reporter
from tests.fixtures import Digest, MakeTree


class _Ears(Reporter):
    def __init__(self) -> None:
        self.warnings: list[str] = []

    def warn(self, text: str) -> None:
        self.warnings.append(text)


def _options(**changes: object) -> ConvertOptions:
    values: dict[str, object] = {
        "resize": "48", "batch_size": 4, "shard_size": 8_000, "jobs": 1,
        "split": "train=0.75,val=0.25",
    }  # fmt: skip
    return ConvertOptions(**(values | changes))  # type: ignore[arg-type]


@pytest.fixture
def tree(make_tree: MakeTree) -> Path:
    """60 pictures, one of them cut short, and litter."""
    tree = make_tree(classes=3, each=20)
    first = sorted(tree.rglob("*.jpg"))[0]
    first.write_bytes(first.read_bytes()[:300])
    (tree / "001.class0" / "notes.txt").write_text("litter")
    return tree


@pytest.mark.parametrize("format_name", ["tar", "lmdb", "hdf5"])
def test_parts_in_any_order_and_again_give_the_bytes_of_one_process(
    tmp_path: Path, tree: Path, digest_tree: Digest, format_name: str
) -> None:
    convert_dataset(tree, tmp_path / "whole", _options(format=format_name))
    out = tmp_path / "parts"
    for part in (2, 0, 2, 1, 0):
        result = convert_dataset(tree, out, _options(format=format_name, part=(part, 3)))
        assert result.manifest is None
    shutil.move(tree, tmp_path / "elsewhere")  # the source is not needed
    made = {path.name: path.stat().st_mtime_ns for path in out.glob("*-0*")}
    assert not merge_pack(out).was_complete
    assert digest_tree(out) == digest_tree(tmp_path / "whole")
    now = {path.name: path.stat().st_mtime_ns for path in out.glob("*-0*")}
    assert made.items() <= now.items()
    before = {path: path.stat().st_mtime_ns for path in [out, *out.rglob("*")]}
    assert merge_pack(out).was_complete
    assert before == {path: path.stat().st_mtime_ns for path in [out, *out.rglob("*")]}


def test_missing_shards_are_named_with_the_parts_to_run_again(tmp_path: Path, tree: Path) -> None:
    for part in (0, 4):
        convert_dataset(tree, tmp_path / "pack", _options(part=(part, 5)))
    with pytest.raises(MissingShards, match=r"shards are missing: .*--array=1-3") as caught:
        merge_pack(tmp_path / "pack")
    assert caught.value.parts == [1, 2, 3]
    assert "train-000001.tar" in caught.value.shards
    assert caught.value.exit_code == 1
    for part in (1, 3):
        convert_dataset(tree, tmp_path / "pack", _options(part=(part, 5)))
    with pytest.raises(MissingShards, match=r"--array=2$|--array=2\)"):
        merge_pack(tmp_path / "pack")


def test_an_unfinished_pack_without_parts_is_to_be_gone_on_with(tmp_path: Path, tree: Path) -> None:
    class Stop(Reporter):
        def detail(self, text: str) -> None:
            if ".tar: " in text:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        convert_dataset(tree, tmp_path / "pack", _options(), reporter=Stop())
    with pytest.raises(MissingShards, match=r"missing.*run the same packer convert again"):
        merge_pack(tmp_path / "pack")


def test_another_number_of_parts_is_refused(tmp_path: Path, tree: Path) -> None:
    """A second submission of two tasks alone has SLURM_ARRAY_TASK_COUNT=2."""
    convert_dataset(tree, tmp_path / "pack", _options(part=(0, 4)))
    with pytest.raises(UsageError, match="made in 4 parts, so there is no part of 2"):
        convert_dataset(tree, tmp_path / "pack", _options(part=(1, 2)))
    assert convert_dataset(tree, tmp_path / "pack", _options()).manifest is not None


def test_more_parts_than_shards_is_warned_of_and_works(
    tmp_path: Path, tree: Path, digest_tree: Digest
) -> None:
    whole = convert_dataset(tree, tmp_path / "whole", _options()).manifest
    assert whole is not None
    shards = sum(len(split.shards) for split in whole.splits.values())
    for part in range(shards + 2):
        ears, options = _Ears(), _options(part=(part, shards + 2))
        convert_dataset(tree, tmp_path / "pack", options, reporter=ears)
        assert ears.warnings == [
            f"{shards + 2} parts share {shards} shards: parts {shards} to {shards + 1} have nothing"
            " to do (a smaller --shard-size makes more shards)"
        ]
    merge_pack(tmp_path / "pack")
    assert digest_tree(tmp_path / "pack") == digest_tree(tmp_path / "whole")


def test_skips_are_judged_over_the_whole(tmp_path: Path, make_tree: MakeTree) -> None:
    tree = make_tree(classes=3, each=20)
    for path in sorted(tree.rglob("*.jpg"))[::5]:
        path.write_bytes(path.read_bytes()[:300])
    for part in range(3):  # 12 in all, none with more than 10
        convert_dataset(tree, tmp_path / "pack", _options(part=(part, 3)))
    with pytest.raises(TooManySkipped, match="12 of 60 pictures skipped, 10 allowed") as caught:
        merge_pack(tmp_path / "pack")
    assert caught.value.exit_code == 3
    assert not (tmp_path / "pack" / "manifest.json").exists()
    assert merge_pack(tmp_path / "pack", max_skipped=12).manifest.counts["skipped"] == 12


@pytest.mark.slow
@pytest.mark.parametrize("last", [False, True], ids=["merge", "merge-when-complete"])
def test_parts_at_once(tmp_path: Path, tree: Path, digest_tree: Digest, last: bool) -> None:
    """Four processes that end at about the same time; with the option, one of them joins."""
    convert_dataset(tree, tmp_path / "whole", _options())
    out = tmp_path / "pack"
    command = [
        sys.executable, "-m", "packer", "convert", os.fspath(tree), "--out", os.fspath(out),
        "--resize", "48", "--batch-size", "4", "--shard-size", "8000B", "--jobs", "1",
        "--split", "train=0.75,val=0.25", "--quiet",
    ]  # fmt: skip
    more = ["--merge-when-complete"] if last else []
    parts = [subprocess.Popen([*command, "--part", f"{k}/4", *more]) for k in range(4)]
    assert [part.wait(60) for part in parts] == [0] * 4
    assert merge_pack(out).was_complete == last
    assert digest_tree(out) == digest_tree(tmp_path / "whole")


def test_a_lost_part_is_run_again_and_the_rest_is_kept(
    tmp_path: Path, tree: Path, digest_tree: Digest
) -> None:
    convert_dataset(tree, tmp_path / "whole", _options())
    out = tmp_path / "pack"
    convert_dataset(tree, out, _options(part=(0, 2)))

    class Die(Reporter):
        def detail(self, text: str) -> None:
            os.kill(os.getpid(), signal.SIGKILL)

    child = os.fork()
    if child == 0:
        convert_dataset(tree, out, _options(part=(1, 2)), reporter=Die())
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    with pytest.raises(MissingShards, match="--array=1"):  # and the dead lock is no obstacle
        merge_pack(out)
    made = {path.name: path.stat().st_ino for path in out.glob("*.tar")}
    convert_dataset(tree, out, _options(part=(1, 2), merge_when_complete=True))
    assert made.items() <= {path.name: path.stat().st_ino for path in out.glob("*.tar")}.items()
    assert digest_tree(out) == digest_tree(tmp_path / "whole")


def test_nobody_joins_while_a_part_is_at_work(
    tmp_path: Path, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "pack"
    convert_dataset(tree, out, _options(part=(0, 1)))
    monkeypatch.setattr(merge, "_LAST_SECONDS", 0.3)
    with Lock(out / ".packer", 3, "SLURM job 5_3"):
        with pytest.raises(InUse, match=rf"in use by another .* {os.getpid()}, SLURM job 5_3"):
            merge_pack(out)
        start = time.monotonic()
        result = convert_dataset(tree, out, _options(part=(0, 1), merge_when_complete=True))
        assert (result.manifest, result.missing) == (None, 0)
        assert time.monotonic() - start >= 0.3
    assert merge_pack(out).manifest is not None


def test_what_is_no_unfinished_pack(tmp_path: Path, tree: Path) -> None:
    with pytest.raises(SourceError, match="nowhere: no such folder"):
        merge_pack(tmp_path / "nowhere")
    with pytest.raises(SourceError, match=r"not a pack"):
        merge_pack(tree)
    (tmp_path / "begun" / ".packer").mkdir(parents=True)
    with pytest.raises(SourceError, match="no part has begun"):
        merge_pack(tmp_path / "begun")


def test_a_shard_of_another_size_and_a_damaged_state(tmp_path: Path, tree: Path) -> None:
    out = tmp_path / "pack"
    convert_dataset(tree, out, _options(part=(0, 1)))
    state = (out / ".packer" / "train-000001.json").read_bytes()
    (out / ".packer" / "train-000001.json").write_bytes(b"")
    with pytest.raises(OutputError, match=r"missing or damaged.*train-000001\.\*"):
        merge_pack(out)
    (out / ".packer" / "train-000001.json").write_bytes(state)
    with (out / "train-000001.tar").open("ab") as file:
        file.write(b"x")
    with pytest.raises(OutputError, match=r"train-000001.tar: has \d+ bytes, but \d+ were written"):
        merge_pack(out)


@pytest.mark.parametrize(
    ("numbers", "text"), [([], ""), ([4], "4"), ([0, 1, 2, 5, 7, 8], "0-2,5,7-8")]
)
def test_ranges(numbers: list[int], text: str) -> None:
    assert ranges(numbers) == text
