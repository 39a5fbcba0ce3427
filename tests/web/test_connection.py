from __future__ import annotations

import io
import time
from pathlib import Path
from urllib.request import Request

import pytest

from packer.web.connection import Pace, _Paced, connect


class Slow(io.RawIOBase):
    """Gives a byte after so many seconds."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]
        time.sleep(self.seconds)
        buffer[:1] = b"x"
        return 1


def test_only_waiting_counts() -> None:
    pace = Pace(timeout=1, speed=100, window=0.1)
    slow = _Paced(Slow(0.02), pace)
    with pytest.raises(TimeoutError, match="fewer than 100 a second"):
        while True:
            slow.read(1)
    fast = _Paced(Slow(0), pace)
    for _ in range(5):
        assert fast.read(1) == b"x"
        time.sleep(0.05)


def test_the_source_is_closed_once() -> None:
    raw = io.BytesIO(b"abc")
    paced = _Paced(raw, Pace(1, 1, 1))
    assert io.BufferedReader(paced).read() == b"abc"
    paced.close()
    paced.close()
    assert raw.closed


def test_files_are_read_and_pipes_are_not(tmp_path: Path) -> None:
    (tmp_path / "file name").write_bytes(b"abc")
    pace = Pace(1, 1, 1)
    with connect(Request((tmp_path / "file name").as_uri()), pace) as response:
        assert response.read1(10) == b"abc"
    with pytest.raises(OSError, match="not a regular file"):
        connect(Request("file:///dev/zero"), pace)


@pytest.mark.parametrize("url", ["ftp://a/b", "data:,abc", "HTP://a/"])
def test_other_schemes_are_refused(url: str) -> None:
    with pytest.raises(ValueError, match="packer fetches http, https, file"):
        connect(Request(url), Pace(1, 1, 1))
