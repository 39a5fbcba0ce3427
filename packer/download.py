"""One file over HTTP(S): goes on where it was cut, tries again, and never takes a guess for data.

The bytes so far are in `NAME.part`; beside it, `NAME.part.json` says of which version of the file
they are (its ETag or date), so that a server that has another one by now sends it from the start
(If-Range, RFC 9110, 13.1.5).
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import http.client
import json
import os
import re
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import packer
from packer.errors import OutputError, PackerError
from packer.fsio import output_error, output_errors, remove_if_there

#: Bytes so far, bytes in all (None: the server does not say).
Progress = Callable[[int, "int | None"], None]

_READ_BYTES = 1 << 20
#: A try that brought this much was worth it: patience starts anew.
_WORTH_BYTES = 1 << 20
#: Statuses that may be better the next time (RFC 9110; 429 RFC 6585).
_PASSING = (408, 425, 429, 500, 502, 503, 504)


@dataclass(frozen=True)
class Patience:
    """How long to go on with a server that fails.

    Attributes:
        tries: In a row that bring nothing, for each address.
        first_wait: Seconds before the second try; doubled before each further one.
        longest_wait: Seconds, at most.
        timeout: Seconds without a byte after which a connection counts as dead.
        sleep: Waits for so many seconds.
    """

    tries: int = 8
    first_wait: float = 1.0
    longest_wait: float = 60.0
    timeout: float = 60.0
    sleep: Callable[[float], None] = time.sleep


class _TryError(Exception):
    """A try that failed.

    Args:
        reason: In a few words.
        passing: Whether trying again may help.
        wait: Seconds that the server asks to wait.
    """

    def __init__(self, reason: str, *, passing: bool, wait: float = 0.0) -> None:
        super().__init__(reason)
        self.passing = passing
        self.wait = wait


@contextlib.contextmanager
def lock_part(part: Path) -> Iterator[None]:
    """Keep other processes from writing the same part file; makes it if it is not there.

    Raises:
        OutputError: One is at it, or the file cannot be written.
    """
    with output_errors(part):
        file = part.open("ab")
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise OutputError(f"{part}: another packer is downloading it", "wait for it") from None
        except OSError as error:
            # A file system without locks: two downloads at once then end in a wrong checksum.
            if error.errno not in (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP):
                raise output_error(part, error) from error
        yield


def download(
    urls: Sequence[str], part: Path, size: int | None, patience: Patience, progress: Progress
) -> bool:
    """Make `part` complete from the first of the addresses that has the file.

    Args:
        urls: Tried in order.
        part: Goes on from the bytes that are in it.
        size: Bytes that the file must have, or None.
        patience: With the server.
        progress: Called after every piece.

    Returns:
        Whether bytes of several tries were joined; if their checksum is wrong, the file may have
        changed in between, and is worth another try from the start.

    Raises:
        PackerError: No address works; says why for each.
        OutputError: The disk is full, or `part` cannot be written.
    """
    joined = _length(part) > 0
    reasons = []
    for url in urls:
        failures = 0
        while True:
            before = _length(part)
            try:
                _Try(url, part, size, patience.timeout, progress).run()
            except _TryError as failure:
                got = _length(part)
                joined = joined or got > 0
                failures = 1 if got - before >= _WORTH_BYTES else failures + 1
                if not failure.passing or failures >= patience.tries:
                    reasons.append(f"{url}: {failure}")
                    break
                wait = patience.first_wait * 2 ** (failures - 1)
                patience.sleep(min(max(wait, failure.wait), patience.longest_wait))
            else:
                return joined
    raise PackerError("; ".join(reasons), "the bytes so far are kept: the same command goes on")


def forget(part: Path) -> None:
    """Remove a part file and what is known of it."""
    remove_if_there(part)
    remove_if_there(_notes_path(part))


@dataclass(frozen=True)
class _Try:
    """One request for the rest of a file."""

    url: str
    part: Path
    size: int | None
    timeout: float
    progress: Progress

    def run(self) -> None:
        """Append what the server sends; return once the file is whole."""
        have = _length(self.part)
        if self.size is not None and have > self.size:
            have = _truncate(self.part)
        if self.size is not None and have == self.size:
            return
        try:
            with urllib.request.urlopen(self._request(have), timeout=self.timeout) as response:
                self._receive(response, have)
        except urllib.error.HTTPError as error:
            with error:
                self._refused(error, have)
        except (OSError, http.client.HTTPException) as error:
            raise _network_failure(error) from error

    def _request(self, have: int) -> urllib.request.Request:
        request = urllib.request.Request(self.url)
        request.add_header("User-Agent", f"packer-shards/{packer.__version__}")
        request.add_header("Accept-Encoding", "identity")
        if have:
            request.add_header("Range", f"bytes={have}-")
            if version := _read_notes(self.part).get(self.url):
                request.add_header("If-Range", version)
        return request

    def _receive(self, response: Any, have: int) -> None:
        total = _number(response.headers.get("Content-Length"))
        if response.status == http.client.PARTIAL_CONTENT:
            start, total = _content_range(response.headers.get("Content-Range", ""))
            if start != have:
                _truncate(self.part)
                raise _TryError(f"sent bytes from {start}, not from {have}", passing=True)
        elif have:
            have = _truncate(self.part)  # no ranges here, or another version by now
        if self.size is not None and total not in (None, self.size):
            raise _TryError(f"has {total} bytes, should have {self.size}", passing=False)
        _write_notes(self.part, self.url, _version(response.headers))
        with output_errors(self.part), self.part.open("ab") as file:
            have = self._copy(response, file, have, total)
            file.flush()
            os.fsync(file.fileno())
        wanted = total if total is not None else self.size
        if wanted is not None and have != wanted:
            raise _TryError(f"connection cut at byte {have} of {wanted}", passing=True)

    def _copy(self, response: Any, file: IO[bytes], have: int, total: int | None) -> int:
        while True:
            try:
                data = response.read1(_READ_BYTES)
            except (OSError, http.client.HTTPException) as error:
                raise _network_failure(error) from error
            if not data:
                return have
            file.write(data)
            have += len(data)
            self.progress(have, total)

    def _refused(self, error: urllib.error.HTTPError, have: int) -> None:
        if error.code == http.client.REQUESTED_RANGE_NOT_SATISFIABLE:
            # We have all there is, or more: which, its own length says.
            if error.headers.get("Content-Range", "") == f"bytes */{have}" and self.size is None:
                return
            _truncate(self.part)
            raise _TryError("has another length now", passing=True)
        wait = _number(error.headers.get("Retry-After")) or 0
        reason = f"{error.code} {error.reason}"
        raise _TryError(reason, passing=error.code in _PASSING, wait=wait)


def _network_failure(error: BaseException) -> _TryError:
    reason = getattr(error, "reason", error)
    lasting = (ssl.SSLCertVerificationError, FileNotFoundError, PermissionError, IsADirectoryError)
    text = str(reason) or type(reason).__name__
    return _TryError(text, passing=not isinstance(reason, lasting))


def _version(headers: Any) -> str:
    """What If-Range may name: a strong ETag, else the date."""
    tag: str = headers.get("ETag", "")
    if tag and not tag.startswith("W/"):
        return tag
    date: str = headers.get("Last-Modified", "")
    return date


def _content_range(text: str) -> tuple[int, int | None]:
    """Start and whole length of "bytes 5-9/10"."""
    match = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", text)
    if match is None:
        raise _TryError(f"sent an unreadable Content-Range {text!r}", passing=True)
    return int(match[1]), _number(match[2])


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() else None


def _notes_path(part: Path) -> Path:
    return part.with_name(part.name + ".json")


def _read_notes(part: Path) -> dict[str, str]:
    """Address → version of the file there that the part's bytes are of."""
    try:
        notes = json.loads(_notes_path(part).read_bytes())
    except (FileNotFoundError, ValueError):
        return {}
    return notes if isinstance(notes, dict) else {}


def _write_notes(part: Path, url: str, version: str) -> None:
    with output_errors(part):
        _notes_path(part).write_text(json.dumps({url: version} if version else {}))


def _length(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _truncate(part: Path) -> int:
    with output_errors(part):
        os.truncate(part, 0)
    return 0
