"""Downloads that cannot work, or must not: no time is lost, no other file is touched."""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from packer.errors import OutputError, PackerError
from packer.web.download import Patience, download, lock_part

CONTENT = np.random.default_rng(1).bytes(300_000)
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

    def promise(self, start: int = 0) -> None:
        """The headers alone."""
        content = self.server.content
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(content) - start))
        self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        self.send_header("ETag", self.server.version)
        self.end_headers()


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
    start = int((re.findall(r"\d+", handler.headers.get("Range", "")) or [0])[0])
    handler.promise(start)
    handler.wfile.write(handler.server.content[start:])


def refuse(status: int) -> Behaviour:
    def refused(handler: Handler) -> None:
        handler.send_response(status)
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    return refused


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

    def __call__(self, url: str) -> bool:
        patience = Patience(timeout=5, sleep=self.waits.append)
        return download([url], self.part, len(CONTENT), patience, lambda *_: None)


@pytest.fixture
def get(tmp_path: Path) -> Download:
    return Download(tmp_path / "file.tar.part")


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:99999/x",
        "http://127.0.0.1:0/x",
        "http://127.0.0.1:-1/x",
        "http://127.0.0.1:port/x",
        "http://[::1/x",
        "http:///x",
        "http://a b/x",
        "http://127.0.0.1/a b",
        f"http://{'a' * 64}.{'a' * 64}/x",
        "http://..../x",
        "htp://127.0.0.1/x",
        "ftp://127.0.0.1/x",
        "data:,x",
        "127.0.0.1/x",
        "",
        "file:///dev/zero",
        "file:///",
    ],
)
def test_what_cannot_be_an_address_is_not_tried_again(get: Download, url: str) -> None:
    with pytest.raises(PackerError) as caught:
        get(url)
    assert caught.value.message.startswith(f"{url}: ")
    assert get.waits == []


@pytest.mark.parametrize("proxy", ["http://127.0.0.1:99999", "http://[", "://", "http://a b"])
def test_what_cannot_be_a_proxy_is_not_tried_again(
    get: Download, monkeypatch: pytest.MonkeyPatch, proxy: str
) -> None:
    monkeypatch.setenv("http_proxy", proxy)
    with pytest.raises(PackerError):
        get("http://example.invalid/x")
    assert get.waits == []


def test_a_name_that_is_not_found_is_tried_a_few_times(get: Download) -> None:
    with pytest.raises(PackerError, match=r"no-such-host\.invalid"):
        get("http://no-such-host.invalid/x")
    assert len(get.waits) <= 2


def test_what_is_no_http_server_is_not_tried_again(get: Download) -> None:
    for scheme in ("http", "https"):
        with socket.create_server(("127.0.0.1", 0)) as listening:
            thread = threading.Thread(target=_greet, args=(listening,))
            thread.start()
            with pytest.raises(PackerError):
                get(f"{scheme}://127.0.0.1:{listening.getsockname()[1]}/x")
            thread.join()
    assert get.waits == []


def _greet(listening: socket.socket) -> None:
    connection, _ = listening.accept()
    with connection:
        connection.recv(1000)
        with contextlib.suppress(OSError):  # the client may have had enough
            connection.sendall(b"SSH-2.0-something\r\n" * 100)


@pytest.mark.parametrize("status", [202, 204, 205, 299])
def test_an_answer_without_the_file_is_not_asked_for_again(
    server: Server, get: Download, status: int
) -> None:
    server.script = [refuse(status)]
    with pytest.raises(PackerError, match=rf"{status} .*without the file"):
        get(server.url)
    assert len(server.requests) == 1 and get.waits == []


@pytest.mark.parametrize("what", ["content", "headers"])
def test_a_slow_drip_is_given_up(server: Server, get: Download, what: str) -> None:
    """No single byte is late."""

    def drip(handler: Handler) -> None:
        if what == "content":
            handler.promise()
        with contextlib.suppress(OSError):
            for _ in range(10_000):
                handler.wfile.write(b"x")
                time.sleep(0.02)

    server.script = [drip, serve]
    patience = Patience(timeout=0.3, sleep=get.waits.append)
    download([server.url], get.part, None, patience, lambda *_: None)
    assert len(server.requests) == 2 and get.waits == [1.0]
    got = get.part.read_bytes()
    assert len(got) == len(CONTENT) and got.endswith(CONTENT[100:])


def test_slow_writing_is_not_the_servers_fault(server: Server, get: Download) -> None:
    patience = Patience(timeout=0.2, least_speed=1e6, sleep=get.waits.append)
    server.content = CONTENT * 10
    download([server.url], get.part, None, patience, lambda *_: time.sleep(0.1))
    assert get.waits == [] and get.part.read_bytes() == CONTENT * 10


@pytest.mark.parametrize("planted", ["link", "pipe", "device", "folder"])
def test_a_part_that_is_no_file_is_refused(
    server: Server, get: Download, tmp_path: Path, planted: str
) -> None:
    """A link leads to another file, which would be overwritten."""
    other = tmp_path / "other"
    other.write_bytes(b"keep")
    if planted == "link":
        get.part.symlink_to(other)
    elif planted == "pipe":
        os.mkfifo(get.part)
    elif planted == "device":
        get.part.symlink_to("/dev/full")
    else:
        get.part.mkdir()
    for use in (lambda: get(server.url), lambda: lock_part(get.part).__enter__()):
        with pytest.raises(OutputError, match=r"file\.tar\.part: "):
            use()
    assert other.read_bytes() == b"keep"


@pytest.mark.parametrize(
    "notes",
    [
        b"[" * 60_000,
        b"x" * 1_000_000,
        b"null",
        b"[1]",
        b'{"URL": 5}',
        b'{"URL": ["a"]}',
        b'{"URL": "a\\r\\nHost: b"}',
        b'{"URL": "\\ud800"}',
        b'{"URL": ""}',
    ],
)
def test_rubbish_in_the_notes_says_nothing(server: Server, get: Download, notes: bytes) -> None:
    get.part.write_bytes(CONTENT[:1000])
    get.part.with_name("file.tar.part.json").write_bytes(notes.replace(b"URL", server.url.encode()))
    get(server.url)
    assert get.part.read_bytes() == CONTENT
    assert "if-range" not in server.requests[0] and get.waits == []


@pytest.mark.parametrize("planted", ["link", "pipe"])
def test_notes_that_are_no_file_are_replaced(
    server: Server, get: Download, tmp_path: Path, planted: str
) -> None:
    other, notes = tmp_path / "other", get.part.with_name("file.tar.part.json")
    other.write_text(json.dumps({server.url: "other"}))
    notes.symlink_to(other) if planted == "link" else os.mkfifo(notes)
    get.part.write_bytes(CONTENT[:1000])
    get(server.url)
    assert "if-range" not in server.requests[0]
    assert json.loads(other.read_text()) == {server.url: "other"}
    assert json.loads(notes.read_text()) == {server.url: server.version}
    assert notes.is_file() and not notes.is_symlink()
