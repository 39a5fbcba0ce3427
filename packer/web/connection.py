"""Open HTTP(S) connections that fail if headers or content arrive below a minimum speed.

A timeout only ends a connection without any data. A server that sends a byte now and then would
block a download forever.
"""

from __future__ import annotations

import http.client
import io
import time
import urllib.parse
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packer.files.regular import open_regular

#: Schemes of the addresses that `connect` opens.
SCHEMES = ("http", "https", "file")


@dataclass(frozen=True)
class Pace:
    """Minimum speed of a server.

    Attributes:
        timeout: Seconds without a byte after which a connection counts as dead.
        speed: Minimum in bytes per second, on average over `window`.
        window: Seconds of waiting for the server over which the speed is averaged.
    """

    timeout: float
    speed: float
    window: float


def connect(request: urllib.request.Request, pace: Pace) -> Any:
    """Send a request; the response has `read1`, `status` and `headers`.

    Raises:
        urllib.error.HTTPError: The server refused.
        OSError, http.client.HTTPException: There is no connection, or it broke.
        ValueError: The address is invalid.
    """
    parts = urllib.parse.urlsplit(request.full_url)
    scheme = parts.scheme
    if scheme not in SCHEMES:
        raise ValueError(f"{scheme or 'no'} scheme; packer fetches {', '.join(SCHEMES)}")
    if scheme == "file":
        path = urllib.request.url2pathname(parts.path)
        open_regular(Path(path), follow=True).close()  # opening a pipe would block
    for address in (request.full_url, urllib.request.getproxies().get(scheme, "")):
        _check_port(address)
    opener = urllib.request.build_opener(_handler(pace, tls=False), _handler(pace, tls=True))
    return opener.open(request, timeout=pace.timeout)


def _check_port(address: str) -> None:
    """Refuse invalid ports: some systems connect to another port if the number is too large."""
    place = address if "://" in address else f"//{address}"
    if urllib.parse.urlsplit(place).port == 0:
        raise ValueError(f"port 0 in {address!r}")


def _handler(pace: Pace, *, tls: bool) -> urllib.request.BaseHandler:
    """Return an opener for these addresses with a minimum speed."""
    base: Any = http.client.HTTPSConnection if tls else http.client.HTTPConnection

    def make(*arguments: Any, **options: Any) -> Any:
        connection = base(*arguments, **options)
        connection.response_class = _response_class(pace)
        return connection

    return _HTTPS(make) if tls else _HTTP(make)


class _HTTP(urllib.request.HTTPHandler):
    def __init__(self, make: Callable[..., Any]) -> None:
        super().__init__()
        self._make = make

    def http_open(self, request: urllib.request.Request) -> Any:
        return self.do_open(self._make, request)


class _HTTPS(urllib.request.HTTPSHandler):
    def __init__(self, make: Callable[..., Any]) -> None:
        super().__init__()
        self._make = make

    def https_open(self, request: urllib.request.Request) -> Any:
        return self.do_open(self._make, request)


def _response_class(pace: Pace) -> Any:
    class Response(http.client.HTTPResponse):
        def __init__(self, sock: Any, *arguments: Any, **options: Any) -> None:
            super().__init__(sock, *arguments, **options)
            self.fp.close()
            self.fp = io.BufferedReader(_Paced(sock.makefile("rb", buffering=0), pace))

    return Response


class _Paced(io.RawIOBase):
    """Bytes of a connection, with a TimeoutError if they arrive too slowly. Only the time spent
    waiting for them counts, not the time between two reads.
    """

    def __init__(self, raw: Any, pace: Pace) -> None:
        self._raw = raw
        self._pace = pace
        self._waited = 0.0
        self._bytes = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        start = time.monotonic()
        got: int | None = self._raw.readinto(buffer)
        self._waited += time.monotonic() - start
        self._bytes += got or 0
        if got and self._waited >= self._pace.window:
            if self._bytes < self._pace.speed * self._waited:
                raise TimeoutError(
                    f"sent {self._bytes} bytes in {self._waited:.0f} s,"
                    f" fewer than {self._pace.speed:,.0f} a second"
                )
            self._waited, self._bytes = 0.0, 0
        return got

    def close(self) -> None:
        if not self.closed:
            self._raw.close()
        super().close()
