from __future__ import annotations

import os
import pickle
import random
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from packer import sources
from packer.errors import ImageError, ReadError, SourceError
from packer.sources import folder
from tests.fixtures import WriteFiles


def test_lists_candidates_sorted_with_sizes_and_times(
    tmp_path: Path, write_files: WriteFiles
) -> None:
    files = {b"b/2.jpg": b"22", b"a/10.JPG": b"1", b"a/2.png": b"333", b"a.b/x.jpg": b""}
    write_files(tmp_path, files)
    os.utime(tmp_path / "b" / "2.jpg", ns=(5, 1_234_567_891))
    listing = folder.open_source(tmp_path).scan()
    assert listing.paths == [b"a.b/x.jpg", b"a/10.JPG", b"a/2.png", b"b/2.jpg"]
    assert listing.sizes.tolist() == [0, 1, 3, 2]
    assert listing.stamps[3] == 1_234_567_891
    assert listing.folders == [b"a", b"a.b", b"b"]
    assert listing.ignored == {}


def test_folders_linked_among_siblings_end(tmp_path: Path, write_files: WriteFiles) -> None:
    """There are 10^18 ways through 20 of them, none a circle."""
    names = [f"f{number:02d}" for number in range(20)]
    write_files(tmp_path, {f"{name}/1.jpg".encode(): b"x" for name in names})
    for one in names:
        for other in names:
            if one != other:
                (tmp_path / one / f"to-{other}").symlink_to(f"../{other}")
    with pytest.raises(SourceError, match="lead through one another in more than 10,000 ways"):
        folder.open_source(tmp_path).scan()


def test_folders_of_any_depth_are_one_line_at_most(tmp_path: Path) -> None:
    """Deeper than any path can say: each is made from within the one above."""
    before = os.getcwd()
    try:
        os.chdir(tmp_path)
        for _ in range(600):
            os.mkdir("d" * 10)
            os.chdir("d" * 10)
    finally:
        os.chdir(before)
    with pytest.raises(SourceError, match="cannot be read: File name too long"):
        folder.open_source(tmp_path).scan()


def test_what_is_no_candidate_is_counted_by_reason(tmp_path: Path, write_files: WriteFiles) -> None:
    """AppleDouble, .DS_Store, Thumbs.db, RENAME2 and empty nested folders must not become samples
    or classes.
    """
    clutter = [b"056.dog/._1.jpg", b"056.dog/.DS_Store", b".git/config", b"__MACOSX/056.dog/x.jpg"]
    other = [b"056.dog/Thumbs.db", b"056.dog/desktop.ini", b"notes.txt"]
    write_files(tmp_path, dict.fromkeys([*clutter, *other, b"198.spider/RENAME2"], b"x"))
    write_files(tmp_path, {b"056.dog/greg/vision309/": b"", b"056.dog/1.jpg": b"picture"})
    (tmp_path / "056.dog" / "gone").symlink_to("nowhere")
    (tmp_path / "056.dog" / "circle.txt").symlink_to("circle.txt")
    os.mkfifo(tmp_path / "056.dog" / "pipe.jpg")
    listing = folder.open_source(tmp_path).scan([b"198.spider/RENAME2"])
    assert listing.paths == [b"056.dog/1.jpg"]
    assert listing.ignored == {
        "broken-link": 2,
        "extension": 3,
        "hidden": 4,
        "litter": 1,
        "special": 1,
    }
    assert listing.ignored_examples["special"] == (b"056.dog/pipe.jpg",)
    assert listing.ignored_examples["hidden"] == tuple(
        sorted([b"056.dog/._1.jpg", b"056.dog/.DS_Store", b".git", b"__MACOSX"])
    )
    assert listing.folders == [b"056.dog", b"056.dog/greg", b"198.spider"]


def test_a_socket_is_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # names of sockets are limited to about 100 bytes
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("s.jpg")
        assert folder.open_source(tmp_path).scan().ignored == {"special": 1}


def test_links_are_followed_as_torchvision_does(tmp_path: Path, write_files: WriteFiles) -> None:
    write_files(tmp_path, {b"real/1.jpg": b"one", b"cats/2.jpg": b"two", b"docs/3.txt": b"three"})
    (tmp_path / "cats" / "link.jpg").symlink_to("../real/1.jpg")
    (tmp_path / "cats" / "named.jpg").symlink_to("../docs/3.txt")
    (tmp_path / "linked").symlink_to("real")
    listing = folder.open_source(tmp_path).scan()
    assert listing.paths == [
        b"cats/2.jpg",
        b"cats/link.jpg",
        b"cats/named.jpg",
        b"linked/1.jpg",
        b"real/1.jpg",
    ]
    assert listing.sizes.tolist() == [3, 3, 5, 3, 3]
    assert b"linked" in listing.folders


def test_a_link_to_a_folder_above_ends(tmp_path: Path, write_files: WriteFiles) -> None:
    write_files(tmp_path, {b"a/x/1.jpg": b"one", b"b/2.jpg": b"two"})
    (tmp_path / "a" / "up").symlink_to("..")
    (tmp_path / "a" / "x" / "self").symlink_to(".")
    (tmp_path / "b" / "to_a").symlink_to("../a")
    (tmp_path / "a" / "to_b").symlink_to("../b")
    listing = folder.open_source(tmp_path).scan()
    # a/to_b/to_a and b/to_a/to_b lead back to where they came from.
    assert listing.paths == [b"a/to_b/2.jpg", b"a/x/1.jpg", b"b/2.jpg", b"b/to_a/x/1.jpg"]
    assert listing.ignored == {"link-loop": 6}


def test_the_order_of_the_file_system_changes_nothing(
    tmp_path: Path, write_files: WriteFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """File systems list folders in any order: scandir in sorted, reversed and random order."""
    files = {
        b"%d/%d/%d.jpg" % (a, b, c): b"x" * c for a in range(3) for b in range(3) for c in range(5)
    }
    write_files(tmp_path, {**files, b"1/notes.txt": b"", b"2/more.txt": b""})
    source = folder.open_source(tmp_path)
    real = os.scandir

    def scan(arrange: Callable[[list[os.DirEntry[bytes]]], list[os.DirEntry[bytes]]]) -> object:
        @contextmanager
        def scandir(path: bytes) -> Iterator[Iterator[os.DirEntry[bytes]]]:
            with real(path) as entries:
                yield iter(arrange(sorted(entries, key=lambda entry: entry.name)))

        with monkeypatch.context() as patch:
            patch.setattr(os, "scandir", scandir)
            listing = source.scan()
        return (
            listing.paths,
            listing.sizes.tolist(),
            listing.stamps.tolist(),
            listing.folders,
            listing.ignored,
            listing.ignored_examples,
        )

    generator = random.Random(1)
    arrangements: list[Callable[[list[os.DirEntry[bytes]]], list[os.DirEntry[bytes]]]] = [
        list,
        lambda entries: entries[::-1],
        lambda entries: generator.sample(entries, len(entries)),
    ]
    first, second, third = map(scan, arrangements)
    assert first == second == third
    assert first[0] == sorted(files)  # type: ignore[index]


def test_a_recipes_root_is_entered_if_it_is_there(tmp_path: Path, write_files: WriteFiles) -> None:
    write_files(tmp_path, {b"256_ObjectCategories/001.ak47/1.jpg": b"", b"beside.jpg": b""})
    inside = [b"001.ak47/1.jpg"]
    assert folder.open_source(tmp_path, b"256_ObjectCategories").scan().paths == inside
    unpacked = tmp_path / "256_ObjectCategories"
    assert folder.open_source(unpacked, b"256_ObjectCategories").scan().paths == inside


@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse names that are no UTF-8")
def test_names_are_raw_bytes(tmp_path: Path, write_files: WriteFiles) -> None:
    files = {
        b"\xff\xfe/new\nline \xe9.jpg": b"1",
        b"a/-rf \t'\".jpg": b"2",
        b"a/" + b"n" * 251 + b".jpg": b"3",
    }
    source = folder.open_source(write_files(tmp_path, files))
    assert source.scan().paths == sorted(files)
    assert {path: source.read(path) for path in files} == files


def test_reads_from_another_folder_and_process(
    tmp_path: Path, write_files: WriteFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_files(tmp_path, {b"photos/a/1.jpg": bytes(range(256)) * 5000})
    monkeypatch.chdir(tmp_path)
    source = sources.open_source(Path("photos"))
    monkeypatch.chdir("/")
    pickled = pickle.dumps(source)
    assert len(pickled) < 500
    again = pickle.loads(pickled)
    assert again.read(b"a/1.jpg") == bytes(range(256)) * 5000


def test_what_cannot_be_read_is_a_line_of_the_ledger(tmp_path: Path) -> None:
    source = folder.open_source(tmp_path)
    (tmp_path / "folder.jpg").mkdir()
    with pytest.raises(ImageError, match="unreadable: Is a directory"):
        source.read(b"folder.jpg")


def test_what_is_gone_or_changed_since_the_scan_stops_the_run_and_is_named(tmp_path: Path) -> None:
    for name in ("gone", "grown", "pipe", "same"):
        (tmp_path / f"{name}.jpg").write_bytes(b"x" * 100)
    source = folder.open_source(tmp_path)
    source.scan()
    source = pickle.loads(pickle.dumps(source))
    (tmp_path / "gone.jpg").unlink()
    with pytest.raises(ReadError, match=r"/gone.jpg: No such file .* while it was read"):
        source.read(b"gone.jpg")
    (tmp_path / "pipe.jpg").unlink()
    os.mkfifo(tmp_path / "pipe.jpg")
    with pytest.raises(ReadError, match=r"/pipe.jpg: is no regular file any more"):
        source.read(b"pipe.jpg")
    later = (tmp_path / "same.jpg").stat().st_mtime_ns + 1
    os.utime(tmp_path / "grown.jpg", ns=(later, later))
    with pytest.raises(ReadError, match=r"/grown.jpg: changed since the source was scanned"):
        source.read(b"grown.jpg")
    assert source.read(b"same.jpg") == b"x" * 100


@pytest.mark.parametrize(
    ("code", "times", "works"), [(116, 1, True), (116, 2, False), (5, 1, False)]
)
def test_trouble_with_the_storage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, times: int, works: bool
) -> None:
    """ESTALE once: an NFS client remembers a file that was replaced. Twice stops the run."""
    (tmp_path / "a.jpg").write_bytes(b"abc")
    source, left, real = folder.open_source(tmp_path), [times], os.fstat

    def fstat(fd: int) -> os.stat_result:
        if left[0]:
            left[0] -= 1
            raise OSError(code, os.strerror(code))
        return real(fd)

    monkeypatch.setattr(os, "fstat", fstat)
    if works:
        assert source.read(b"a.jpg") == b"abc"
    else:
        with pytest.raises(ReadError, match=rf"a.jpg: {os.strerror(code)}"):
            source.read(b"a.jpg")


def test_a_huge_sparse_file_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "sparse.jpg").open("wb") as file:
        file.truncate(20 << 30)
    with pytest.raises(ImageError, match="too-large: 21474836480 bytes"):
        folder.open_source(tmp_path).read(b"sparse.jpg")


def test_an_unreadable_folder_is_an_error_not_fewer_samples(
    tmp_path: Path, write_files: WriteFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root ignores modes, so scandir itself refuses here."""
    write_files(tmp_path, {b"good/1.jpg": b"", b"locked/2.jpg": b""})
    real = os.scandir

    def scandir(path: bytes) -> object:
        if b"locked" in path:
            raise PermissionError(13, "Permission denied", path)
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    with pytest.raises(SourceError, match="locked/: cannot be read: Permission denied"):
        folder.open_source(tmp_path).scan()


def test_no_such_folder(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="no such folder"):
        folder.open_source(tmp_path / "gone")
    with pytest.raises(SourceError, match="no such folder or archive"):
        sources.open_source(tmp_path / "gone")
    (tmp_path / "text.md").write_text("hello")
    with pytest.raises(SourceError, match="not a folder, nor an archive"):
        sources.open_source(tmp_path / "text.md")


def test_a_file_costs_little_memory(tmp_path: Path) -> None:
    """A million files must fit: beside its path, a file costs at most 100 bytes while scanned."""
    import tracemalloc

    count = 3000
    (tmp_path / "a").mkdir()
    for number in range(count):
        (tmp_path / "a" / f"{number:08}.jpg").touch()
    source = folder.open_source(tmp_path)
    tracemalloc.start()
    listing = source.scan()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    paths = sum(sys.getsizeof(path) for path in listing.paths)
    assert len(listing.paths) == count
    assert (peak - paths) / count < 100 + 50_000 / count  # 50 KB for the scan itself
