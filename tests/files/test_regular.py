from __future__ import annotations

import os
from pathlib import Path

import pytest

from packer.files.regular import open_regular, parse_json, read_json, read_regular


def test_a_file(tmp_path: Path) -> None:
    data = os.urandom(3 << 20)
    (tmp_path / "file").write_bytes(data)
    assert read_regular(tmp_path / "file", len(data)) == data
    with open_regular(tmp_path / "file") as file:
        assert file.read(5) == data[:5]


def test_a_file_that_is_too_large(tmp_path: Path) -> None:
    with (tmp_path / "file").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(OSError, match="has more than 1,000,000 bytes"):
        read_regular(tmp_path / "file", 1_000_000)
    (tmp_path / "file").write_bytes(b"1234")
    assert read_regular(tmp_path / "file", 4) == b"1234"
    with pytest.raises(OSError, match="has more than 3 bytes"):
        read_regular(tmp_path / "file", 3)


@pytest.mark.parametrize("follow", [False, True])
def test_what_is_no_file(tmp_path: Path, follow: bool) -> None:
    """None of them is waited for."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "to pipe").symlink_to("pipe")
    (tmp_path / "to zeros").symlink_to("/dev/zero")
    linked = "is not a regular file" if follow else "is a symbolic link"
    for path, reason in (
        (tmp_path / "pipe", "is not a regular file"),
        (Path("/dev/zero"), "is not a regular file"),
        (tmp_path, "is not a regular file"),
        (tmp_path / "to pipe", linked),
        (tmp_path / "to zeros", linked),
        (tmp_path / "nothing", "No such file"),
    ):
        with pytest.raises(OSError, match=reason):
            open_regular(path, follow=follow)


def test_links_are_followed_where_they_may_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"1")
    (tmp_path / "link").symlink_to("file")
    with open_regular(tmp_path / "link", follow=True) as file:
        assert file.read() == b"1"
    (tmp_path / "circle").symlink_to("circle")
    for follow in (False, True):
        with pytest.raises(OSError, match=r"symbolic link"):
            open_regular(tmp_path / "circle", follow=follow)


def test_no_descriptor_is_left(tmp_path: Path) -> None:
    before = os.listdir("/proc/self/fd")
    for _ in range(3):
        with pytest.raises(OSError, match="regular"):
            open_regular(tmp_path)
    assert len(os.listdir("/proc/self/fd")) == len(before)


def test_json(tmp_path: Path) -> None:
    (tmp_path / "file").write_text('{"a": [1]}')
    assert read_json(tmp_path / "file") == {"a": [1]}
    with pytest.raises(OSError, match="more than 5 bytes"):
        read_json(tmp_path / "file", 5)


@pytest.mark.parametrize(
    "data", [b"", b"{", b"\0" * 100, b"\xff", b"[" * 1_000_000, b'{"a":' * 1_000_000]
)
def test_rubbish_is_one_kind_of_error(data: bytes) -> None:
    with pytest.raises(ValueError):
        parse_json(data)
