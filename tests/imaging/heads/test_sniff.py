from __future__ import annotations

from collections.abc import Callable

import pytest

from packer.errors import ImageError
from packer.imaging.heads.sniff import EXTENSIONS, require_kind, sniff
from packer.types import Pixels


@pytest.mark.parametrize("kind", sorted(EXTENSIONS))
def test_every_kind_is_told_from_its_content(
    kind: str, photo: Pixels, save: Callable[..., bytes]
) -> None:
    assert sniff(save(photo, kind)) == kind


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"\x00\x00\x00\x1cftypheic", "heic"),
        (b"\x00\x00\x00\x0cjP  \r\n\x87\n", "jp2"),
        (b"\xff\x0a\x00", "jxl"),
        (b"8BPS\x00\x01", "psd"),
        (b"%PDF-1.7", "pdf"),
        (b"P7\nWIDTH 1\n", "pam"),
        (b"PF\n1 1\n-1.0\n", "pfm"),
        (b'<?xml version="1.0"?>\n<svg xmlns=""/>', "svg"),
    ],
)
def test_known_kinds_that_are_not_converted_are_named(data: bytes, kind: str) -> None:
    assert sniff(data) == kind
    with pytest.raises(ImageError, match=kind.upper()) as caught:
        require_kind(data)
    assert caught.value.reason == "unsupported"


@pytest.mark.parametrize(
    ("data", "reason", "says"),
    [
        (b"", "empty", "no bytes"),
        (b"<!DOCTYPE html><p>404", "undecodable", "HTML"),
        (b'{"error": 403}', "undecodable", "JSON"),
        (b"version https://git-lfs.github.com/spec/v1\n", "undecodable", "git lfs pull"),
        (b"/annex/objects/SHA256E-s9--ab.jpg\n", "undecodable", "git annex get"),
        (b"\x1f\x8b\x08", "undecodable", "gzip"),
        (b"\x89PNG\n\x1a\n", "undecodable", "line ends"),
        (b"BMW is a car maker of Munich", "undecodable", "42 4d 57"),
        (b"\x00" * 100, "undecodable", "00 00"),
        (b"\xff", "undecodable", "ff"),
    ],
)
def test_what_is_no_picture_is_refused_by_name(data: bytes, reason: str, says: str) -> None:
    with pytest.raises(ImageError, match=says) as caught:
        require_kind(data)
    assert caught.value.reason == reason


@pytest.mark.parametrize("major", [b"avif", b"avis", b"mif1", b"msf1"])
def test_avif_is_told_by_its_brands(major: bytes) -> None:
    assert sniff(b"\0\0\0\x20ftyp" + major + b"\0\0\0\0mif1avifmiaf") == "avif"
    assert sniff(b"\0\0\0\x20ftypmif1\0\0\0\0mif1heicmiaf") == "heic"


def test_a_jpeg_cut_to_two_bytes_is_still_a_jpeg() -> None:
    assert sniff(b"\xff\xd8") == "jpeg"
