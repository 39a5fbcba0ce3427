from __future__ import annotations

import bz2
import gzip
import lzma
import os
import pickle
import subprocess
import sys
import tarfile
import threading
import zipfile
from collections.abc import Callable
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from packer import sources
from packer.errors import DamageError, ImageError, SourceError
from packer.sources import Source, archive
from packer.types import Listing
from tests.fixtures import PackFolder, WriteFiles

#: Names that file systems, tar and zip can hold; bytes that are no UTF-8 are among them.
NAMES = st.one_of(
    st.sampled_from(
        [
            b"a",
            b"train",
            b"a.b",
            b"001.ak47",
            b".git",
            b"__MACOSX",
            b"@eaDir",
            b"sp ace\n",
            b"\xff\xfe",
        ]
    ),
    st.text("aZ.-_ é", min_size=1, max_size=6).map(str.encode),
).filter(lambda name: name not in (b".", b".."))
ENDINGS = st.sampled_from([b".jpg", b".JPEG", b".png", b".txt", b"", b".db"])
TREES = st.dictionaries(
    st.tuples(st.lists(NAMES, max_size=3), NAMES, ENDINGS).map(
        lambda parts: b"/".join([*parts[0], parts[1] + parts[2]])
    ),
    st.binary(max_size=3000),
    max_size=10,
)


def assert_equal_listings(first: Listing, second: Listing) -> None:
    assert first.paths == second.paths
    assert np.array_equal(first.sizes, second.sizes)
    assert first.folders == second.folders
    assert first.ignored == second.ignored
    assert first.ignored_examples == second.ignored_examples
    assert first.missing == second.missing
    assert first.sidecars == second.sidecars


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(tree=TREES)
def test_folder_tar_and_zip_are_one(
    tmp_path_factory: pytest.TempPathFactory,
    write_files: WriteFiles,
    make_tar: PackFolder,
    make_zip: PackFolder,
    tree: dict[bytes, bytes],
) -> None:
    """Whatever the names, the three list the same paths and reasons and read the same bytes."""
    base = tmp_path_factory.mktemp("tree")
    # A second top folder keeps the archive's single top folder from being entered.
    files: dict[bytes, bytes] = {b"zz/last.jpg": b"", b"yy/": b""}
    for path, content in tree.items():
        taken = [
            other
            for other in files
            if other.startswith(path + b"/") or path.startswith(other.rstrip(b"/") + b"/")
        ]
        if not taken and path not in files:
            files[path] = content
    folder = write_files(base / "tree", files)
    opened = [
        sources.open_source(place)
        for place in (folder, make_tar(folder, base / "x.tar"), make_zip(folder, base / "x.zip"))
    ]
    litter = [path for path in files if path.endswith(b"a.txt")]
    listings = [source.scan(litter) for source in opened]
    for listing, source in zip(listings[1:], opened[1:], strict=True):
        assert_equal_listings(listings[0], listing)
        assert [source.read(path) for path in listing.paths] == [
            files[path] for path in listing.paths
        ]


def test_links_in_folder_tar_and_zip(
    tmp_path: Path, write_files: WriteFiles, make_tar: PackFolder, make_zip: PackFolder
) -> None:
    folder = write_files(tmp_path / "t", {b"real/1.jpg": b"one", b"a/2.jpg": b"two"})
    (folder / "a" / "link.jpg").symlink_to("../real/1.jpg")
    (folder / "a" / "up").symlink_to("..")
    (folder / "linked").symlink_to("real")
    (folder / "a" / "gone.jpg").symlink_to("nowhere.jpg")
    expected = sources.open_source(folder).scan()
    assert expected.paths == [
        *(b"a/2.jpg", b"a/gone.jpg", b"a/link.jpg", b"linked/1.jpg", b"real/1.jpg")
    ]
    why = "a link to nowhere.jpg that leads to no file"
    assert expected.missing == {b"a/gone.jpg": why}
    for place in (make_tar(folder, tmp_path / "x.tar"), make_zip(folder, tmp_path / "x.zip")):
        source = sources.open_source(place)
        assert_equal_listings(source.scan(), expected)
        assert source.read(b"a/link.jpg") == b"one"


def test_tar_of_a_folder_by_the_tar_command(tmp_path: Path, write_files: WriteFiles) -> None:
    """Hard links, long names, one top folder: as users make them."""
    long = b"d" * 150 + b"/" + b"f" * 180 + b".jpg"
    folder = write_files(tmp_path / "mydata", {b"b/1.jpg": b"one", long: b"long", b"c/": b""})
    (folder / "b" / "hard.jpg").hardlink_to(folder / "b" / "1.jpg")
    for form in ("gnu", "posix"):
        name = tmp_path / f"{form}.tar"
        command = ["tar", f"--format={form}", "-cf", str(name), "-C", str(tmp_path), "mydata"]
        subprocess.run(command, check=True)
        source = sources.open_source(name)
        assert_equal_listings(source.scan(), sources.open_source(folder).scan())
        assert source.read(b"b/hard.jpg") == source.read(b"b/1.jpg") == b"one"
        assert source.read(long) == b"long"


@pytest.fixture
def small(tmp_path: Path, write_files: WriteFiles, make_tar: PackFolder) -> Path:
    files = {b"%d/%d.jpg" % (n % 3, n): b"%d," % n * n for n in range(30)}
    return make_tar(write_files(tmp_path / "t", files), tmp_path / "x.tar")


def test_a_source_is_small_and_reads_in_other_processes(small: Path) -> None:
    source = archive.open_source(small)
    source.scan()
    assert len(pickle.dumps(source)) < 1000
    for method in ("fork", "spawn"):
        with get_context(method).Pool(1) as pool:
            assert pool.map(source.read, [b"2/29.jpg", b"0/3.jpg"]) == [b"29," * 29, b"3,3,3,"]


def test_threads_share_one_archive(small: Path) -> None:
    source = archive.open_source(small)
    wrong: list[int] = []

    def read_all() -> None:
        for number in range(30):
            if source.read(b"%d/%d.jpg" % (number % 3, number)) != b"%d," % number * number:
                wrong.append(number)

    threads = [threading.Thread(target=read_all) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_litter_and_unknown_paths_are_not_read(small: Path) -> None:
    source = archive.open_source(small)
    assert source.scan([b"0/0.jpg"]).ignored == {"litter": 1}
    for path in (b"0/0.jpg", b"9/9.jpg", b"zzz"):
        with pytest.raises(ImageError, match="unreadable: not in the archive"):
            source.read(path)


def test_a_changed_archive_is_refused(small: Path) -> None:
    source = archive.open_source(small)
    os.utime(small, (1, 1))
    with pytest.raises(SourceError, match="changed while it was being read"):
        source.scan()


def test_a_cut_archive_is_damage_not_fewer_samples(small: Path) -> None:
    """tarfile and webdataset read a truncated archive as a shorter one; here it is an error."""
    os.truncate(small, small.stat().st_size // 2 // 512 * 512)
    with pytest.raises(DamageError, match=r"x\.tar: .*cut short"):
        archive.open_source(small).scan()
    os.truncate(small, 0)
    with pytest.raises(DamageError, match="ends at byte 0"):
        archive.open_source(small).scan()


def test_an_archive_that_shrinks_while_it_is_read(small: Path) -> None:
    source = archive.open_source(small)
    source.scan()
    os.truncate(small, 1000)
    with pytest.raises(ImageError, match="unreadable: the archive ends within it"):
        source.read(b"2/29.jpg")


@pytest.mark.parametrize(
    ("suffix", "pack", "command"),
    [
        (".tar.gz", gzip.compress, "gzip -dk"),
        (".tgz", gzip.compress, "gzip -dk"),
        (".tar.bz2", bz2.compress, "bzip2 -dk"),
        (".tar.xz", lzma.compress, "xz -dk"),
        (".tar", gzip.compress, "gzip -dk"),
        (".tar.zst", lambda data: b"\x28\xb5\x2f\xfd" + data, "zstd -dk"),
    ],
)
def test_compressed_tars_say_how_to_decompress(
    small: Path, suffix: str, pack: Callable[[bytes], bytes], command: str
) -> None:
    path = small.with_name(f"my data{suffix}")
    path.write_bytes(pack(small.read_bytes()))
    with pytest.raises(SourceError, match="cannot be read one by one") as caught:
        sources.open_source(path)
    assert caught.value.hint.startswith(f"{command} '{path}'")


def test_foreign_archives_say_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "x.7z"
    path.write_bytes(b"7z\xbc\xaf\x27\x1c" + bytes(100))
    with pytest.raises(SourceError, match="7z x"):
        sources.open_source(path)


def test_content_decides_what_an_archive_is(small: Path, tmp_path: Path) -> None:
    """A tar or zip by any name is one; a zip that is called .tar too."""
    renamed = small.rename(tmp_path / "download")
    assert len(sources.open_source(renamed).scan().paths) == 30
    misnamed = tmp_path / "misnamed.tar"
    with zipfile.ZipFile(misnamed, "w") as zipped:
        zipped.writestr("a/1.jpg", b"one")
    assert sources.open_source(misnamed).read(b"a/1.jpg") == b"one"
    text = tmp_path / "text.tar"
    text.write_bytes(b"no archive" * 100)
    with pytest.raises(DamageError, match="no tar header at byte 0"):
        sources.open_source(text).scan()


def test_a_huge_member_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "x.tar"
    entry = tarfile.TarInfo("sparse.jpg")
    entry.size = 2 << 30
    with path.open("wb") as file:
        file.write(entry.tobuf())
        file.seek(entry.size, os.SEEK_CUR)
        file.write(bytes(1024))
    source: Source = archive.open_source(path)
    source.scan()
    with pytest.raises(ImageError, match="too-large"):
        source.read(b"sparse.jpg")


def test_it_leaves_no_file_open(small: Path) -> None:
    """Two archives stay open, whatever the number used; all are closed with the process."""
    script = (
        "import os, shutil, sys; from pathlib import Path; from packer.sources import archive\n"
        "for n in range(20):\n"
        "    copy = Path(sys.argv[1] + str(n) + '.tar'); shutil.copy(sys.argv[1], copy)\n"
        "    archive.open_source(copy).scan()\n"
        "opened = [os.readlink(f'/proc/self/fd/{fd}') for fd in os.listdir('/proc/self/fd')"
        " if os.path.exists(f'/proc/self/fd/{fd}')]\n"
        "print(sum(name.endswith('.tar') for name in opened))\n"
    )
    command = [sys.executable, "-W", "error", "-c", script, str(small)]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert result.stdout == "2\n"
    assert result.stderr == ""


@pytest.mark.parametrize("kind", ["tar", "zip"])
def test_a_long_scan_tells_how_far_it_is(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"many.{kind}"
    names = [f"a/{number}.jpg" for number in range(1500)] + [f"b/{n}.txt" for n in range(1000)]
    if kind == "tar":
        with tarfile.open(path, "w") as tar:
            for name in names:
                tar.addfile(tarfile.TarInfo(name))
    else:
        with zipfile.ZipFile(path, "w") as file:
            for name in names:
                file.writestr(name, b"")
    heard: list[int] = []
    archive.open_source(path).scan(report=heard.append)
    assert heard == [1000, 1500]


def test_a_process_keeps_two_archives_open(tmp_path: Path) -> None:
    def descriptors() -> int:
        return len(os.listdir("/proc/self/fd"))

    before = descriptors()
    for number in range(5):
        path = tmp_path / f"{number}.tar"
        with tarfile.open(path, "w") as tar:
            tar.addfile(tarfile.TarInfo("a.jpg"))
        source = archive.open_source(path)
        for _ in range(2):
            assert source.scan().paths == [b"a.jpg"]
            assert source.read(b"a.jpg") == b""
        assert descriptors() <= before + 2
