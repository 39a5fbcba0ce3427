"""Downloads from a real server of one thread, which misbehaves on request."""

from __future__ import annotations

import fcntl
import os
import resource
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from packer.errors import OutputError, PackerError
from packer.web.download import Patience, download, forget, lock_part

CONTENT = np.random.default_rng(1).bytes(300_000)
#: Answers one request.
Behaviour = Callable[["Handler"], None]


class Handler(BaseHTTPRequestHandler):
    """Does what the next entry of its server's script says."""

    server: Server

    def do_GET(self) -> None:
        self.server.requests.append({key.lower(): value for key, value in self.headers.items()})
        script = self.server.script
        (script.pop(0) if len(script) > 1 else script[0])(self)

    def log_message(self, format: str, *values: object) -> None:
        """Nothing on stderr."""

    def start(self) -> int:
        """Where the client wants to go on; 0 if what it has is of another version."""
        wanted, version = self.headers.get("Range"), self.headers.get("If-Range")
        if wanted is None or (version is not None and version != self.server.version):
            return 0
        return int(wanted.removeprefix("bytes=").removesuffix("-"))

    def answer(self, start: int, stop: int | None = None, *, ranges: bool = True) -> None:
        """The content from `start`, cut at `stop` though the headers promise all of it."""
        content = self.server.content
        self.send_response(206 if start and ranges else 200)
        self.send_header("Content-Length", str(len(content) - start))
        if start and ranges:
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        if self.server.version:
            self.send_header("ETag", self.server.version)
        self.end_headers()
        self.wfile.write(content[start:stop])


class Server(ThreadingHTTPServer):
    """Serves one file under every address."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.content = CONTENT
        self.version = '"one"'
        self.script: list[Behaviour] = [serve]
        self.requests: list[dict[str, str]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/file.tar"


def serve(handler: Handler) -> None:
    handler.answer(handler.start())


def serve_whole(handler: Handler) -> None:
    """As a server that knows no ranges."""
    handler.answer(0)


def cut_after(count: int) -> Behaviour:
    def cut(handler: Handler) -> None:
        start = handler.start()
        handler.answer(start, start + count)

    return cut


def refuse(status: int, **headers: str) -> Behaviour:
    def refused(handler: Handler) -> None:
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()

    return refused


def reset(handler: Handler) -> None:
    """Closes the connection without an answer."""
    handler.connection.shutdown(socket.SHUT_RDWR)


def hang(handler: Handler) -> None:
    """Says what will come, and then nothing."""
    handler.answer(handler.start(), 0)
    handler.rfile.read(1)  # until the client gives up


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield running
        running.shutdown()
        thread.join()


@dataclass
class Download:
    """Downloads with waits that are noted instead of waited."""

    part: Path
    waits: list[float] = field(default_factory=list)
    seen: list[tuple[int, int | None]] = field(default_factory=list)

    def __call__(self, *urls: str, size: int | None = len(CONTENT), tries: int = 8) -> bool:
        patience = Patience(tries=tries, timeout=0.5, sleep=self.waits.append)
        return download(urls, self.part, size, patience, lambda *seen: self.seen.append(seen))


@pytest.fixture
def get(tmp_path: Path) -> Download:
    return Download(tmp_path / "file.tar.part")


def test_in_one_go(server: Server, get: Download) -> None:
    assert get(server.url) is False
    assert get.part.read_bytes() == CONTENT
    assert get.seen[-1] == (len(CONTENT), len(CONTENT))
    assert [done for done, _ in get.seen] == sorted(done for done, _ in get.seen)
    assert server.requests[0]["user-agent"].startswith("packer-shards/")


@pytest.mark.parametrize("size", [len(CONTENT), None])
def test_goes_on_where_it_was_cut(server: Server, get: Download, size: int | None) -> None:
    server.script = [cut_after(100_000), reset, cut_after(1), hang, serve]
    assert get(server.url, size=size) is True
    assert get.part.read_bytes() == CONTENT
    ranges = [request.get("range") for request in server.requests]
    assert ranges == [None, "bytes=100000-", "bytes=100000-", "bytes=100001-", "bytes=100001-"]
    assert {request.get("if-range") for request in server.requests[1:]} == {'"one"'}
    assert get.waits == [1.0, 2.0, 4.0, 8.0]


def test_goes_on_in_another_process(server: Server, get: Download) -> None:
    """What the first process knew of the version lies beside the bytes."""
    server.script = [cut_after(123_456), refuse(404)]
    with pytest.raises(PackerError, match=r"404 .*the bytes so far are kept"):
        get(server.url)
    server.script = [serve]
    assert Download(get.part)(server.url) is True
    assert server.requests[-1]["range"] == "bytes=123456-"
    assert server.requests[-1]["if-range"] == '"one"'
    assert get.part.read_bytes() == CONTENT


def test_a_server_without_ranges_starts_again(server: Server, get: Download) -> None:
    server.script = [cut_after(200_000), serve_whole]
    get(server.url)
    assert get.part.read_bytes() == CONTENT


def test_a_file_that_changed_is_taken_from_the_start(server: Server, get: Download) -> None:
    """If-Range: the old bytes are not joined to the new ones."""
    changed = CONTENT[::-1]

    def change(handler: Handler) -> None:
        server.content, server.version = changed, '"two"'
        serve(handler)

    server.script = [cut_after(200_000), change]
    get(server.url)
    assert get.part.read_bytes() == changed


def test_without_a_version_bytes_are_joined_and_said_to_be(server: Server, get: Download) -> None:
    """Only the checksum can tell then: the caller is told that it is worth a second try."""
    server.version = ""
    server.script = [cut_after(200_000), serve]
    assert get(server.url) is True
    assert "if-range" not in server.requests[-1]
    weak = Download(get.part.with_name("weak.part"))
    server.version, server.script = 'W/"weak"', [cut_after(10), serve]
    weak(server.url)
    assert "if-range" not in server.requests[-1]


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
def test_passing_failures_are_tried_again(server: Server, get: Download, status: int) -> None:
    server.script = [refuse(status, Retry_After="7"), refuse(status, Retry_After="soon"), serve]
    get(server.url)
    assert get.part.read_bytes() == CONTENT
    assert get.waits == [7.0, 2.0]


@pytest.mark.parametrize("status", [401, 403, 404, 410])
def test_lasting_failures_are_not(server: Server, get: Download, status: int) -> None:
    server.script = [refuse(status)]
    with pytest.raises(PackerError, match=f"{server.url}: {status} "):
        get(server.url)
    assert len(server.requests) == 1


def test_patience_ends(server: Server, get: Download) -> None:
    server.script = [refuse(503)]
    with pytest.raises(PackerError, match="503 Service Unavailable"):
        get(server.url, tries=9)
    assert len(server.requests) == 9
    assert get.waits == [1, 2, 4, 8, 16, 32, 60, 60]


def test_patience_starts_anew_where_there_is_progress(server: Server, get: Download) -> None:
    server.content = CONTENT * 40  # 12 MB
    server.script = [cut_after(1_200_000)] * 9 + [serve]
    get(server.url, size=len(server.content), tries=2)
    assert get.part.read_bytes() == server.content
    assert set(get.waits) == {1.0}


def test_the_next_address_is_tried(server: Server, get: Download) -> None:
    server.script = [refuse(404), serve]
    get(server.url, server.url.replace("file", "mirror"))
    assert get.part.read_bytes() == CONTENT


def test_no_server(get: Download) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(PackerError, match="Connection refused"):
        get(f"http://127.0.0.1:{port}/x")
    assert get.waits == [1.0, 2.0]


def test_a_server_that_goes_away_is_waited_for(server: Server, get: Download) -> None:
    """Longer than one that never was there."""
    server.script = [cut_after(100_000)]

    def leave(seconds: float) -> None:
        get.waits.append(seconds)
        server.socket.close()

    patience = Patience(tries=5, timeout=5, sleep=leave)
    with pytest.raises(PackerError, match="Connection refused"):
        download([server.url], get.part, len(CONTENT), patience, lambda *_: None)
    assert get.waits == [1.0, 2.0, 4.0, 8.0]


def test_another_size_is_seen_before_the_bytes(server: Server, get: Download) -> None:
    server.content = CONTENT[:-1]
    with pytest.raises(PackerError, match="has 299999 bytes, should have 300000"):
        get(server.url)
    assert get.seen == []


def test_a_part_that_is_whole_or_too_long(server: Server, get: Download) -> None:
    get.part.write_bytes(CONTENT)
    get(server.url)
    assert server.requests == []
    get.part.write_bytes(CONTENT + b"more")
    get(server.url)
    assert get.part.read_bytes() == CONTENT


def test_ranges_beyond_the_end(server: Server, get: Download) -> None:
    """Size not known: 416 says that all is there, or that the file is another one."""
    get.part.write_bytes(CONTENT)
    server.script = [refuse(416, Content_Range=f"bytes */{len(CONTENT)}")]
    get(server.url, size=None)
    assert get.part.read_bytes() == CONTENT
    get.part.write_bytes(CONTENT + b"more")
    server.script = [refuse(416, Content_Range=f"bytes */{len(CONTENT)}"), serve]
    get(server.url, size=None)
    assert get.part.read_bytes() == CONTENT


def test_the_wrong_range_is_not_appended(server: Server, get: Download) -> None:
    def elsewhere(handler: Handler) -> None:
        handler.answer(handler.start() + 5)

    server.script = [cut_after(1000), elsewhere, serve]
    get(server.url)
    assert get.part.read_bytes() == CONTENT


def test_from_a_file(get: Download, tmp_path: Path) -> None:
    source = tmp_path / "here.tar"
    source.write_bytes(CONTENT)
    get.part.write_bytes(b"old")
    get(source.as_uri())
    assert get.part.read_bytes() == CONTENT
    with pytest.raises(PackerError, match="No such file"):
        Download(tmp_path / "other.part")((tmp_path / "gone").as_uri())


def test_a_full_disk_is_no_network_failure(server: Server, get: Download) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
    try:
        with pytest.raises(OutputError, match=r"File too large \(the file system or ulimit"):
            get(server.url)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert len(server.requests) == 1


def test_two_processes_do_not_write_one_part(get: Download) -> None:
    with get.part.open("ab") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with (
            pytest.raises(OutputError, match="another packer is downloading it"),
            lock_part(get.part),
        ):
            pass
    with lock_part(get.part):
        assert get.part.exists()


def test_a_file_system_without_locks(get: Download, monkeypatch: pytest.MonkeyPatch) -> None:
    def flock(file: object, how: int) -> None:
        raise OSError(error, os.strerror(error))

    monkeypatch.setattr(fcntl, "flock", flock)
    error = 37
    with lock_part(get.part):
        pass
    error = 5
    with pytest.raises(OutputError, match="Input/output error"), lock_part(get.part):
        pass


def test_forget_leaves_nothing(server: Server, get: Download) -> None:
    get(server.url)
    assert len(list(get.part.parent.iterdir())) == 2
    forget(get.part)
    assert list(get.part.parent.iterdir()) == []
