"""Download one file over HTTP(S), with retries, and resume interrupted downloads.

The bytes so far are in `NAME.part`. `NAME.part.json` beside it holds the version of the file (its
ETag or date), so that a server that has another version by now sends that from the start (If-Range,
RFC 9110, 13.1.5).
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import http.client
import json
import os
import re
import socket
import ssl
import stat
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

import packer
from packer.errors import OutputError, PackerError
from packer.files.fsio import output_error, output_errors, remove_if_there, write_temp
from packer.files.regular import read_json
from packer.web.connection import Pace, connect

#: Bytes so far, bytes in all (None if the server does not send the size).
Progress = Callable[[int, "int | None"], None]

_READ_BYTES = 1 << 20
#: After a try that received this many bytes, the count of failed tries starts at 0 again.
_WORTH_BYTES = 1 << 20
#: Statuses with the file in the answer (RFC 9110; 203: a proxy has changed it, as its size or
#: checksum shows). 204, 205 and others have no content, and a retry does not change that.
_CONTENT = (200, 203, 206)
#: Largest size of the notes beside a part, and form of a version in them, which is sent.
_NOTES_BYTES = 64 << 10
_VERSION = re.compile(r"[\x20-\x7e]{1,1000}")
#: Statuses for which a retry may succeed (RFC 9110; 429 RFC 6585).
_PASSING = (408, 425, 429, 500, 502, 503, 504)
#: Errors of networks and servers for which a retry may succeed.
_PASSING_ERRORS = (
    *(errno.ECONNREFUSED, errno.ECONNRESET, errno.ECONNABORTED, errno.EPIPE, errno.EIO),
    *(errno.ENETUNREACH, errno.ENETDOWN, errno.ENETRESET, errno.EHOSTUNREACH, errno.EHOSTDOWN),
    *(errno.EINTR, errno.EAGAIN, errno.ENOBUFS, errno.EMFILE, errno.ENFILE, errno.ENOMEM),
)


@dataclass(frozen=True)
class Patience:
    """Limits of the retries with a server that fails.

    Attributes:
        tries: Failed tries in a row, for each address.
        first_tries: The same for an address that has sent nothing yet, if the connection is refused
            or the name is not found: most likely the address, or a proxy's, is wrong.
        first_wait: Seconds before the second try; doubled before each further one.
        longest_wait: Longest wait in seconds.
        timeout: Seconds without a byte after which a connection counts as dead.
        least_speed: Bytes per second, on average over `timeout`; a slower connection counts as a
            failed try.
        sleep: Function that waits for a number of seconds.
    """

    tries: int = 8
    first_tries: int = 3
    first_wait: float = 1.0
    longest_wait: float = 60.0
    timeout: float = 60.0
    least_speed: float = 1000.0
    sleep: Callable[[float], None] = time.sleep


class _TryError(Exception):
    """A try that failed.

    Args:
        reason: The reason in a few words.
        passing: Whether a retry may succeed.
        wait: Seconds to wait, as the server's Retry-After has them.
        nobody: Whether no server was reached at all.
    """

    def __init__(
        self, reason: str, *, passing: bool, wait: float = 0.0, nobody: bool = False
    ) -> None:
        super().__init__(reason)
        self.passing = passing
        self.wait = wait
        self.nobody = nobody


@contextlib.contextmanager
def lock_part(part: Path) -> Iterator[None]:
    """Lock a part file against other processes; create it if it does not exist.

    Raises:
        OutputError: Another process is downloading it, or the file cannot be written.
    """
    with output_errors(part):
        file = _open_part(part)
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
        part: The file; the download resumes after the bytes that are in it.
        size: Bytes that the file must have, or None.
        patience: Limits of the retries.
        progress: Called after every piece.

    Returns:
        Whether bytes of several tries were joined; if their checksum is wrong, the file may have
        changed in between, and a download from the start may succeed.

    Raises:
        PackerError: No address works; the message has the reason for each.
        OutputError: The disk is full, or `part` cannot be written.
    """
    joined = _length(part) > 0
    reasons = []
    for url in urls:
        failures = 0
        is_known = False  # whether the address has sent anything
        while True:
            before = _length(part)
            try:
                pace = Pace(patience.timeout, patience.least_speed, patience.timeout)
                _Try(url, part, size, pace, progress).run()
            except _TryError as failure:
                got = _length(part)
                joined = joined or got > 0
                failures = 1 if got - before >= _WORTH_BYTES else failures + 1
                is_known = is_known or not failure.nobody
                most = patience.tries if is_known else min(patience.first_tries, patience.tries)
                if not failure.passing or failures >= most:
                    reasons.append(f"{url}: {failure}")
                    break
                wait = patience.first_wait * 2 ** (failures - 1)
                patience.sleep(min(max(wait, failure.wait), patience.longest_wait))
            else:
                return joined
    kept = "the bytes so far are kept: the same command goes on"
    raise PackerError("; ".join(reasons), kept if _length(part) else "")


def forget(part: Path) -> None:
    """Remove a part file and its notes."""
    remove_if_there(part)
    remove_if_there(_notes_path(part))


@dataclass(frozen=True)
class _Try:
    """One request for the rest of a file."""

    url: str
    part: Path
    size: int | None
    pace: Pace
    progress: Progress

    def run(self) -> None:
        """Append what the server sends; return once the file is whole."""
        have = _length(self.part)
        if self.size is not None and have > self.size:
            have = _truncate(self.part)
        if self.size is not None and have == self.size:
            return
        try:
            with connect(self._request(have), self.pace) as response:
                self._receive(response, have)
        except urllib.error.HTTPError as error:
            with error:
                self._refused(error, have)
        except (OSError, http.client.HTTPException) as error:
            raise _network_failure(error) from error
        except (ValueError, OverflowError) as error:  # of an invalid address or proxy
            raise _TryError(f"invalid address or proxy: {error}", passing=False) from error

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
        # Files have no status.
        if response.status not in (*_CONTENT, None):
            reason = f"{response.status} {response.reason}"
            raise _TryError(f"{reason}: an answer without the file", passing=False)
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
        with output_errors(self.part), _open_part(self.part) as file:
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
            # The part is complete or too long; the length in the answer shows which.
            if error.headers.get("Content-Range", "") == f"bytes */{have}" and self.size is None:
                return
            _truncate(self.part)
            raise _TryError("has another length now", passing=True)
        wait = _number(error.headers.get("Retry-After")) or 0
        reason = f"{error.code} {error.reason}"
        raise _TryError(reason, passing=error.code in _PASSING, wait=wait)


def _network_failure(error: BaseException) -> _TryError:
    reason = getattr(error, "reason", error)
    text = str(reason) or type(reason).__name__
    nobody = isinstance(reason, (socket.gaierror, ConnectionRefusedError))
    return _TryError(text, passing=_is_passing(reason), nobody=nobody)


def _is_passing(reason: Any) -> bool:
    """Return whether a retry may succeed."""
    if isinstance(reason, socket.gaierror):
        return reason.errno == socket.EAI_AGAIN
    if isinstance(reason, ssl.SSLError):
        return isinstance(reason, (ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLSyscallError))
    if isinstance(reason, http.client.HTTPException):
        # Others mean that there is no HTTP server, or that the address is invalid.
        return isinstance(reason, (http.client.RemoteDisconnected, http.client.IncompleteRead))
    if not isinstance(reason, OSError):
        return False  # messages of urllib: an unknown scheme, no host
    if tunnel := re.match(r"Tunnel connection failed: (\d+)", str(reason)):
        return int(tunnel[1]) in _PASSING  # what a proxy said
    return isinstance(reason, TimeoutError) or reason.errno in _PASSING_ERRORS


def _version(headers: Any) -> str:
    """Return the version for If-Range: a strong ETag, else the date."""
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
    """Return the version of the part's bytes by address. Without valid notes no version is sent,
    and the server may send bytes of another version: then the checksum differs, and the file is
    downloaded from the start.
    """
    try:
        notes = read_json(_notes_path(part), _NOTES_BYTES)
    except (OSError, ValueError):
        return {}
    if not isinstance(notes, dict):
        return {}
    return {url: version for url, version in notes.items() if _is_version(version)}


def _is_version(value: Any) -> bool:
    return isinstance(value, str) and _VERSION.fullmatch(value) is not None


def _write_notes(part: Path, url: str, version: str) -> None:
    notes = {url: version} if _is_version(version) else {}
    path = _notes_path(part)
    temp = write_temp(part.parent, path.name, json.dumps(notes).encode())
    try:
        with output_errors(path):
            temp.replace(path)
    finally:
        remove_if_there(temp)


def _open_part(part: Path, flags: int = 0) -> BinaryIO:
    """Open a part file to append to it; create it if it does not exist.

    Raises:
        OSError: It is a link, which would lead to another file, or no regular file.
    """
    flags |= os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor = os.open(part, flags, 0o666)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):  # a pipe that nobody reads
            raise OSError(error.errno, "is a link or a pipe; remove it") from None
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "is not a regular file; remove it")
    return cast(BinaryIO, os.fdopen(descriptor, "ab"))


def _length(path: Path) -> int:
    try:
        return path.lstat().st_size
    except FileNotFoundError:
        return 0


def _truncate(part: Path) -> int:
    with output_errors(part):
        _open_part(part, os.O_TRUNC).close()
    return 0
