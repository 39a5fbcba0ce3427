"""Whole conversions: equal bytes for all ways of making them, nothing lost, errors in one line."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from packer import registry
from packer.convert import ConvertOptions, convert_dataset
from packer.errors import OutputError, PackerError, SourceError, TooManySkipped, UsageError
from packer.pack.manifest import Manifest, read_manifest
from packer.reporting import Progress, Reporter
from tests.fixtures import Digest, MakeTree

FORMATS = registry.names("formats")


def _options(**changes: object) -> ConvertOptions:
    values: dict[str, object] = {
        "resize": "48", "batch_size": 4, "shard_size": 16_000, "jobs": 1,
        "split": "train=0.75,val=0.25",
    }  # fmt: skip
    return ConvertOptions(**(values | changes))  # type: ignore[arg-type]


def _convert(source: Path, out: Path, **changes: object) -> Manifest:
    manifest = convert_dataset(os.fspath(source), out, _options(**changes)).manifest
    assert manifest is not None
    return manifest


def _add_broken(tree: Path, count: int = 1) -> None:
    whole = sorted(tree.rglob("*.jpg"))[0].read_bytes()
    for number in range(count):
        path = tree / "001.class0" / f"broken{number}.jpg"
        path.write_bytes(whole[: len(whole) * 6 // 10])


@pytest.mark.parametrize("format_name", FORMATS)
def test_same_bytes_for_any_jobs_backend_and_source(
    tmp_path: Path, make_tree: MakeTree, digest_tree: Digest, format_name: str
) -> None:
    tree = make_tree(classes=3, each=20)
    _add_broken(tree)
    with tarfile.open(tmp_path / "photos.tar", "w") as archive:
        archive.add(tree, "photos")
    _convert(tree, tmp_path / "one", format=format_name)
    expected = digest_tree(tmp_path / "one")
    assert len(expected) > 8
    others: list[tuple[str, Path, dict[str, object]]] = [
        ("two", tree, {"jobs": 2}),
        ("threads", tree, {"jobs": 2, "backend": "threading"}),
        ("archive", tmp_path / "photos.tar", {}),
    ]
    for name, source, changes in others:
        _convert(source, tmp_path / name, format=format_name, **changes)
        assert digest_tree(tmp_path / name) == expected, name


def test_directory_order_does_not_matter(
    tmp_path: Path, make_tree: MakeTree, digest_tree: Digest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """File systems list folders in different orders; the packs must be equal."""
    tree = make_tree()
    _convert(tree, tmp_path / "plain")
    real = os.scandir
    for name, arrange in [("reversed", list.reverse), ("random", random.Random(1).shuffle)]:

        class Scan:
            def __init__(self, path: object, arrange: Callable[[list[object]], None]) -> None:
                with real(path) as entries:  # type: ignore[call-overload]
                    self.entries = list(entries)
                arrange(self.entries)

            def __enter__(self) -> object:
                return iter(self.entries)

            def __exit__(self, *error: object) -> None:
                pass

            def __iter__(self) -> object:
                return iter(self.entries)

            def close(self) -> None:
                pass

        def scandir(path: object = ".", arrange: object = arrange) -> Scan:
            return Scan(path, arrange)  # type: ignore[arg-type]

        monkeypatch.setattr(os, "scandir", scandir)
        _convert(tree, tmp_path / name)
        monkeypatch.setattr(os, "scandir", real)
        assert digest_tree(tmp_path / name) == digest_tree(tmp_path / "plain")


@pytest.mark.parametrize("jobs", [1, 4])
@pytest.mark.parametrize("format_name", FORMATS)
def test_a_truncated_picture_is_in_the_ledger_and_counts_add_up(
    tmp_path: Path, make_tree: MakeTree, format_name: str, jobs: int
) -> None:
    """A truncated JPEG must not stop the run; the ledger names it, and the counts add up."""
    tree = make_tree(classes=2, each=10)
    _add_broken(tree)
    garbage = tree / "002.class1" / "garbage.jpg"
    garbage.write_bytes(sorted(tree.rglob("*.jpg"))[0].read_bytes() + b"trailing garbage" * 9)
    manifest = _convert(tree, tmp_path / "pack", format=format_name, jobs=jobs)
    counts = manifest.counts
    assert (counts["planned"], counts["packed"], counts["skipped"]) == (22, 21, 1)
    assert sum(split.samples for split in manifest.splits.values()) == 21
    [skip] = map(json.loads, (tmp_path / "pack" / "skipped.jsonl").read_text().splitlines())
    assert skip["path"] == "001.class0/broken0.jpg"
    assert skip["reason"] == "truncated"
    with pytest.raises(PackerError, match=r"001.class0/broken0.jpg: truncated"):
        _convert(tree, tmp_path / "strict", format=format_name, jobs=jobs, on_error="fail")


def test_litter_is_ignored_and_counted(tmp_path: Path, make_tree: MakeTree) -> None:
    """AppleDouble files, .DS_Store and extensions in capitals: litter is counted, pictures are
    packed.
    """
    tree = make_tree(classes=2, each=4)
    shutil.copy(tree / "001.class0" / "001_0001.jpg", tree / "002.class1" / "UPPER.JPG")
    for name in (".DS_Store", "._001_0001.jpg", "Thumbs.db", "desktop.ini", "RENAME2"):
        (tree / "001.class0" / name).write_bytes(b"x" * 100)
    (tree / "002.class1" / "greg" / "vision309").mkdir(parents=True)
    manifest = _convert(tree, tmp_path / "pack")
    assert manifest.classes == ("001.class0", "002.class1")
    assert manifest.counts["packed"] == 9
    assert manifest.counts["skipped"] == 0
    assert sum(manifest.counts["ignored"].values()) == 5


def test_the_same_command_on_a_complete_pack_writes_nothing(
    tmp_path: Path, make_tree: MakeTree, digest_tree: Digest
) -> None:
    tree, out = make_tree(), tmp_path / "pack"
    _convert(tree, out)
    before = {path: path.stat().st_mtime_ns for path in [out, *out.rglob("*")]}
    result = convert_dataset(tree, out, _options(jobs=2, max_skipped=3))
    assert result.was_complete
    assert {path: path.stat().st_mtime_ns for path in [out, *out.rglob("*")]} == before
    with pytest.raises(UsageError, match="quality 90 instead of 80"):
        convert_dataset(tree, out, _options(quality=80))
    (tree / "001.class0" / "new.jpg").write_bytes(b"new")
    with pytest.raises(UsageError, match="source listing"):
        convert_dataset(tree, out, _options())


class _StopAfter(Reporter):
    def __init__(self, samples: int) -> None:
        self.samples = samples

    def progress(self, progress: Progress) -> None:
        if progress.fresh >= self.samples:
            raise KeyboardInterrupt


@pytest.mark.parametrize("format_name", FORMATS)
def test_going_on_after_an_interruption_gives_the_same_bytes(
    tmp_path: Path, make_tree: MakeTree, digest_tree: Digest, format_name: str
) -> None:
    tree, out = make_tree(classes=3, each=20), tmp_path / "pack"
    _convert(tree, tmp_path / "whole", format=format_name)
    options = _options(format=format_name)
    seen: dict[Path, tuple[int, int]] = {}
    for _ in range(20):
        try:
            convert_dataset(tree, out, options, reporter=_StopAfter(30))
            break
        except KeyboardInterrupt:
            assert not (out / "manifest.json").exists()
            assert not list(out.rglob("*.tmp"))
            shards = [path for path in out.glob("*-0*") if path.suffix != ".index"]
            now = {path: (path.stat().st_ino, path.stat().st_mtime_ns) for path in shards}
            assert seen.items() <= now.items(), "a finished shard was written again"
            seen = now
    assert len(seen) > 1
    assert digest_tree(out) == digest_tree(tmp_path / "whole")


_RUN = """
import sys
from packer.convert import ConvertOptions, convert_dataset
options = ConvertOptions(resize="48", batch_size=4, shard_size=16_000, jobs=int(sys.argv[4]),
                         split="train=0.75,val=0.25", format=sys.argv[3])
convert_dataset(sys.argv[1], sys.argv[2], options)
"""


@pytest.mark.slow
@pytest.mark.parametrize("format_name", FORMATS)
def test_killed_at_any_moment_then_finished_gives_the_same_bytes(
    tmp_path: Path, make_tree: MakeTree, digest_tree: Digest, format_name: str
) -> None:
    """kill -9 at moments spread over the whole run, all on one output: no half shard may count as
    done.
    """
    tree, out = make_tree(classes=3, each=40, size=160), tmp_path / "pack"
    start = time.monotonic()
    _convert(tree, tmp_path / "whole", format=format_name)
    seconds = time.monotonic() - start
    command = [sys.executable, "-c", _RUN, os.fspath(tree), os.fspath(out), format_name, "1"]
    generator = random.Random(format_name)
    kept: dict[str, tuple[int, int]] = {}
    for _ in range(5):
        process = subprocess.Popen(command)
        _wait_for(out / ".packer" / "plan.json", process)
        time.sleep(generator.uniform(0, seconds))
        process.send_signal(signal.SIGKILL)
        process.wait()
        now = {
            path.name: (path.stat().st_ino, path.stat().st_mtime_ns)
            for path in out.glob(f"*.{registry.load('formats', format_name).EXTENSION}")
        }
        assert kept.items() <= now.items(), "a finished shard was written again"
        kept = now
    _convert(tree, out, format=format_name)
    assert digest_tree(out) == digest_tree(tmp_path / "whole")


def _wait_for(path: Path, process: "subprocess.Popen[bytes]") -> None:
    while not path.exists() and process.poll() is None:
        time.sleep(0.005)


def test_parts_make_the_shards_of_their_number(tmp_path: Path, make_tree: MakeTree) -> None:
    tree, out = make_tree(classes=3, each=20), tmp_path / "pack"
    first = convert_dataset(tree, out, _options(part=(0, 2)))
    names = sorted(path.stem for path in out.glob("*.tar"))
    assert names[:2] == ["train-000000", "train-000002"]
    assert (first.manifest, first.missing) == (None, len(names))
    second = convert_dataset(tree, out, _options(part=(1, 2)))
    assert (second.manifest, second.missing) == (None, 0)
    assert not (out / "manifest.json").exists()
    assert convert_dataset(tree, out, _options()).manifest is not None


def test_another_plan_on_an_unfinished_pack_is_refused(tmp_path: Path, make_tree: MakeTree) -> None:
    tree, out = make_tree(), tmp_path / "pack"
    with pytest.raises(KeyboardInterrupt):
        convert_dataset(tree, out, _options(), reporter=_StopAfter(1))
    with pytest.raises(UsageError, match=r"unfinished pack with quality 90 instead of 70"):
        convert_dataset(tree, out, _options(quality=70))
    result = convert_dataset(tree, out, _options(quality=70), force=True)
    assert result.moved is not None
    assert (result.moved / ".packer" / "plan.json").exists()


def test_a_changed_source_is_found_when_going_on(tmp_path: Path, make_tree: MakeTree) -> None:
    tree, out = make_tree(classes=3, each=20), tmp_path / "pack"
    with pytest.raises(KeyboardInterrupt):
        convert_dataset(tree, out, _options(), reporter=_StopAfter(40))
    for path in tree.rglob("*.jpg"):
        os.utime(path, ns=(1, 1))
    with pytest.raises(UsageError, match=r"jpg and \d+ more files .*train-000000.tar was made"):
        convert_dataset(tree, out, _options())


def test_too_many_skipped_keeps_finished_shards_and_going_on_works(
    tmp_path: Path, make_tree: MakeTree, digest_tree: Digest
) -> None:
    tree, out = make_tree(classes=3, each=20), tmp_path / "pack"
    _add_broken(tree, 12)
    with pytest.raises(TooManySkipped, match=r"pictures skipped, 10 allowed .*truncated") as caught:
        _convert(tree, out)
    assert caught.value.exit_code == 3
    assert not (out / "manifest.json").exists()
    kept = {path: path.stat().st_ino for path in out.glob("*.tar")}
    _convert(tree, out, max_skipped=20)
    assert kept.items() <= {path: path.stat().st_ino for path in out.glob("*.tar")}.items()
    _convert(tree, tmp_path / "fresh", max_skipped=20)
    assert digest_tree(out) == digest_tree(tmp_path / "fresh")


def test_everything_failing_is_an_error_whatever_the_limit(
    tmp_path: Path, make_tree: MakeTree
) -> None:
    tree = make_tree(classes=2, each=3)
    for path in tree.rglob("*.jpg"):
        path.write_bytes(b"\xff\xd8 no picture")
    with pytest.raises(TooManySkipped, match="not one picture can be stored"):
        _convert(tree, tmp_path / "pack", max_skipped=1000)
    assert not (tmp_path / "pack" / "manifest.json").exists()


def test_force_moves_only_packs_and_deletes_nothing(
    tmp_path: Path, make_tree: MakeTree, digest_tree: Digest
) -> None:
    tree, out = make_tree(), tmp_path / "pack"
    _convert(tree, out)
    before = digest_tree(out)
    result = convert_dataset(tree, out, _options(quality=50), force=True)
    assert result.moved is not None
    assert digest_tree(result.moved) == before
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("precious")
    with pytest.raises(UsageError, match="holds no pack"):
        convert_dataset(tree, tmp_path / "mine", _options(), force=True)
    with pytest.raises(UsageError, match="not empty and holds no pack"):
        convert_dataset(tree, tmp_path / "mine", _options())
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "precious"


def test_a_file_where_the_folder_should_be(tmp_path: Path, make_tree: MakeTree) -> None:
    (tmp_path / "pack").write_text("a file")
    for out in (tmp_path / "pack", tmp_path / "pack" / "below"):
        with pytest.raises(OutputError, match="a file is in the way"):
            _convert(make_tree(f"for-{out.name}"), out)


def test_missing_and_empty_sources(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="nowhere"):
        _convert(tmp_path / "nowhere", tmp_path / "pack")
    (tmp_path / "empty" / "a").mkdir(parents=True)
    (tmp_path / "empty" / "a" / "notes.txt").write_text("no picture")
    with pytest.raises(SourceError, match=r"no pictures there \(ignored: 1 extension\)"):
        _convert(tmp_path / "empty", tmp_path / "pack")
    assert not (tmp_path / "pack").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small tmpfs needs root")
@pytest.mark.parametrize("format_name", FORMATS)
def test_a_full_disk_is_one_line_and_going_on_works(
    tmp_path: Path, make_tree: MakeTree, digest_tree: Digest, format_name: str
) -> None:
    tree, mount = make_tree(classes=3, each=40, size=160), tmp_path / "small"
    _convert(tree, tmp_path / "whole", format=format_name, codec="png")
    mount.mkdir()
    found = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=600k", "tmpfs", os.fspath(mount)], check=False
    )
    if found.returncode:
        pytest.skip("mount refused: no tmpfs in this container")
    try:
        with pytest.raises(OutputError, match=r"No space left on device.*free some space"):
            _convert(tree, mount / "pack", format=format_name, codec="png")
        assert not (mount / "pack" / "manifest.json").exists()
        assert not list((mount / "pack").rglob("*.tmp"))
        subprocess.run(["mount", "-o", "remount,size=64m", os.fspath(mount)], check=True)
        _convert(tree, mount / "pack", format=format_name, codec="png")
        assert digest_tree(mount / "pack") == digest_tree(tmp_path / "whole")
    finally:
        subprocess.run(["umount", "-l", os.fspath(mount)], check=True)


@pytest.mark.parametrize("format_name", FORMATS)
def test_odd_names_survive(tmp_path: Path, make_tree: MakeTree, format_name: str) -> None:
    """Dots, spaces, newlines and bytes that are no UTF-8 in names."""
    tree = make_tree(classes=1, each=1)
    data = next(tree.rglob("*.jpg")).read_bytes()
    folder = os.fsencode(tree) + b"/train.v1"
    names = [b"22.05.jpg", b"a.b.jpeg", b"Track 2.0 (x).jpg", b"new\nline.jpg", b"\xff\xfe.jpg"]
    os.mkdir(folder)
    for name in names:
        with open(folder + b"/" + name, "wb") as file:
            file.write(data)
    manifest = _convert(tree, tmp_path / "pack", format=format_name)
    assert manifest.counts["packed"] == len(names) + 1
    assert read_manifest(tmp_path / "pack") == manifest


def test_nothing_of_the_run_is_in_the_pack(
    tmp_path: Path, make_tree: MakeTree, digest_tree: Digest
) -> None:
    """Times, hosts and paths go to stderr, so a moved source gives the same pack."""
    tree = make_tree()
    _convert(tree, tmp_path / "pack")
    (tmp_path / "elsewhere").mkdir()
    shutil.copytree(tree, tmp_path / "elsewhere" / "photos")  # new times
    _convert(tmp_path / "elsewhere" / "photos", tmp_path / "again")
    assert digest_tree(tmp_path / "again") == digest_tree(tmp_path / "pack")
