from __future__ import annotations

import hashlib
import shutil
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from packer import recipe as recipes
from packer import sources
from packer.errors import DamageError, OutputError, PackerError, SourceError
from packer.fetch import fetch_dataset
from packer.files import fsio
from packer.recipe import Archive, Recipe
from packer.reporting import Progress, Reporter
from packer.web.download import Patience

CONTENT = np.random.default_rng(2).bytes(200_000)
QUICK = Patience(tries=4, timeout=5, sleep=lambda seconds: None)


def recipe_of(*urls: str, content: bytes = CONTENT, size: int | None = len(CONTENT)) -> Recipe:
    md5, sha256 = hashlib.md5(content).hexdigest(), hashlib.sha256(content).hexdigest()
    archive = Archive("file.tar", urls, size, md5, sha256)
    return Recipe("mine", "Mine", archives=(archive,))


@pytest.fixture
def served(tmp_path: Path) -> Path:
    """A file at a file:// address, which sends everything from the start every time."""
    path = tmp_path / "served.tar"
    path.write_bytes(CONTENT)
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "new" / "data"


def test_a_file_gets_its_name_once_it_is_right(served: Path, folder: Path) -> None:
    seen: list[Progress] = []

    class Ear(Reporter):
        def progress(self, progress: Progress) -> None:
            seen.append(progress)

    got = fetch_dataset(recipe_of(served.as_uri()), folder, reporter=Ear())
    assert got == folder / "file.tar"
    assert got.read_bytes() == CONTENT
    assert list(folder.iterdir()) == [got]
    assert (seen[-1].done, seen[-1].total) == (len(CONTENT), len(CONTENT))


def test_what_is_there_and_right_is_not_fetched_again(served: Path, folder: Path) -> None:
    known = recipe_of(served.as_uri())
    got = fetch_dataset(known, folder)
    before = got.stat()
    served.unlink()
    assert fetch_dataset(known, folder) == got
    assert got.stat().st_ino == before.st_ino


def test_what_is_there_and_wrong_is_neither_used_nor_replaced(served: Path, folder: Path) -> None:
    folder.mkdir(parents=True)
    mine = folder / "file.tar"
    mine.write_bytes(CONTENT[:-1] + b"x")
    with pytest.raises(DamageError, match=r"is there already, but its md5 is .*move it away"):
        fetch_dataset(recipe_of(served.as_uri()), folder)
    mine.write_bytes(b"short")
    with pytest.raises(DamageError, match="but it has 5 bytes, should have 200000"):
        fetch_dataset(recipe_of(served.as_uri()), folder)
    assert mine.read_bytes() == b"short"


@pytest.mark.parametrize("checksum", ["md5", "sha256"])
def test_wrong_bytes_are_damage_and_not_kept(served: Path, folder: Path, checksum: str) -> None:
    wrong = CONTENT[:-1] + b"x"
    served.write_bytes(wrong)
    archive = recipe_of(served.as_uri()).archives[0]
    kept = {"md5": "", "sha256": "", checksum: getattr(archive, checksum)}
    only = Recipe("mine", "Mine", archives=(Archive("file.tar", archive.urls, None, **kept),))
    with pytest.raises(DamageError) as caught:
        fetch_dataset(only, folder)
    found = hashlib.new(checksum, wrong).hexdigest()
    assert f"its {checksum} is {found}, should be {kept[checksum]}" in caught.value.message
    assert caught.value.exit_code == 4
    assert list(folder.iterdir()) == []


def test_bytes_joined_from_two_versions_are_fetched_anew(folder: Path) -> None:
    """A part file of another version, which a server without versions cannot tell."""
    folder.mkdir(parents=True)
    (folder / "file.tar.part").write_bytes(b"z" * 150_000)
    with joining_server() as url:
        got = fetch_dataset(recipe_of(url), folder, patience=QUICK)
    assert got.read_bytes() == CONTENT
    assert list(folder.iterdir()) == [got]


def test_cut_connections_end_in_the_right_file(folder: Path) -> None:
    with joining_server(cut=60_000) as url:
        got = fetch_dataset(recipe_of(url), folder, patience=QUICK)
    assert got.read_bytes() == CONTENT


def test_a_failed_download_goes_on_the_next_time(served: Path, folder: Path) -> None:
    with joining_server(cut=10_000) as url, pytest.raises(PackerError, match="connection cut"):
        fetch_dataset(recipe_of(url), folder, patience=QUICK)
    part = folder / "file.tar.part"
    assert part.read_bytes() == CONTENT[:40_000]
    assert not (folder / "file.tar").exists()
    with joining_server() as url:
        assert fetch_dataset(recipe_of(url), folder, patience=QUICK).read_bytes() == CONTENT


def test_space_is_checked_before(
    served: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Usage(NamedTuple):
        free: int = 150_000

    monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage())
    with pytest.raises(OutputError, match="needs 200,000 more bytes, only 150,000 are free"):
        fetch_dataset(recipe_of(served.as_uri()), folder)
    (folder / "file.tar.part").write_bytes(CONTENT[:50_001])
    assert fetch_dataset(recipe_of(served.as_uri()), folder).read_bytes() == CONTENT


def test_first_to_publish_wins(served: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process on another node finishes in between: never overwritten, but compared."""
    other = CONTENT

    def publish(temp: Path, final: Path) -> bool:
        final.write_bytes(other)
        return fsio.publish(temp, final)

    monkeypatch.setattr("packer.fetch.publish", publish)
    assert fetch_dataset(recipe_of(served.as_uri()), folder).read_bytes() == CONTENT
    (folder / "file.tar").unlink()
    other = b"other"
    with pytest.raises(DamageError, match="appeared meanwhile"):
        fetch_dataset(recipe_of(served.as_uri()), folder)
    assert (folder / "file.tar").read_bytes() == b"other"


def test_several_archives_give_their_folder(served: Path, folder: Path) -> None:
    [one] = recipe_of(served.as_uri()).archives
    two = Archive("two.tar", one.urls, one.bytes, one.md5)
    assert fetch_dataset(Recipe("mine", "Mine", archives=(one, two)), folder) == folder
    assert sorted(path.name for path in folder.iterdir()) == ["file.tar", "two.tar"]


def test_a_recipe_without_addresses_says_how_to_get_the_data(folder: Path) -> None:
    with pytest.raises(SourceError, match=r"imagenet: nothing to download from \(.*an account"):
        fetch_dataset(recipes.load("imagenet"), folder)


@pytest.mark.slow
def test_the_sample_is_drawn(folder: Path) -> None:
    known = recipes.load("sample")
    got = fetch_dataset(known, folder)
    assert got == folder / "packer-sample"
    assert recipes.find_source(known, got, None, folder)[0] == got
    written = sources.open_source(got).scan(known.litter_paths)
    drawn = known.open(None).scan(known.litter_paths)
    assert written.paths == drawn.paths
    assert written.sizes.tolist() == drawn.sizes.tolist()


def test_a_file_in_the_way_of_the_folder(served: Path, tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="a file is in the way"):
        fetch_dataset(recipe_of(served.as_uri()), served)


class joining_server:
    """Serves CONTENT with ranges but without versions; cuts every answer after `cut` bytes."""

    def __init__(self, cut: int | None = None) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                wanted = self.headers.get("Range", "bytes=0-")
                start = int(wanted.removeprefix("bytes=").removesuffix("-"))
                self.send_response(206 if start else 200)
                self.send_header("Content-Length", str(len(CONTENT) - start))
                end = len(CONTENT) - 1
                if start:
                    self.send_header("Content-Range", f"bytes {start}-{end}/{end + 1}")
                self.end_headers()
                self.wfile.write(CONTENT[start : None if cut is None else start + cut])

            def log_message(self, format: str, *values: object) -> None:
                """Nothing on stderr."""

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.01}
        )

    def __enter__(self) -> str:
        self._thread.start()
        return f"http://127.0.0.1:{self._server.server_port}/file.tar"

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
