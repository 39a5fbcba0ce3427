from __future__ import annotations

import os
from pathlib import Path

import pytest

from packer.errors import OutputError
from packer.imaging import libraries
from packer.sample import drawings as _drawings

PICTURES = {b"001.ball/1.jpg": b"one", b"002.ring/2.png": bytes(range(256))}


def test_what_is_kept_comes_back(tmp_path: Path) -> None:
    file = tmp_path / "a" / "b.zip"
    assert not _drawings.holds(file, PICTURES)
    _drawings.keep(file, PICTURES)
    assert _drawings.kept(file) == PICTURES
    assert _drawings.holds(file, PICTURES)
    assert not _drawings.holds(file, [*PICTURES, b"003.box/3.jpg"])
    assert [path.name for path in file.parent.iterdir()] == ["b.zip"]


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "other"])
def test_a_damaged_file_holds_nothing_and_is_replaced(tmp_path: Path, damage: str) -> None:
    file = tmp_path / "a.zip"
    _drawings.keep(file, PICTURES)
    whole = file.read_bytes()
    place = whole.index(bytes(range(256)))
    flipped = bytes([*whole[: place + 9], whole[place + 9] ^ 1, *whole[place + 10 :]])
    damaged = {"cut": whole[:-9], "flipped": flipped, "empty": b"", "other": b"x" * 99}[damage]
    file.write_bytes(damaged)
    _drawings.kept.cache_clear()
    assert not _drawings.holds(file, PICTURES)
    _drawings.keep(file, PICTURES)
    assert file.read_bytes() == whole
    assert _drawings.holds(file, PICTURES)


def test_other_code_or_libraries_have_another_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = tmp_path / "code.py"
    code.write_text("one")
    names = [_drawings.file_in(tmp_path, os.fspath(code))]
    assert names == [_drawings.file_in(tmp_path, os.fspath(code))]
    code.write_text("two")
    names.append(_drawings.file_in(tmp_path, os.fspath(code)))
    monkeypatch.setattr(libraries, "versions", lambda: {"simplejpeg": "0"})
    names.append(_drawings.file_in(tmp_path, os.fspath(code)))
    assert len(set(names)) == 3
    assert {name.parent for name in names} == {tmp_path}


def test_a_folder_that_cannot_be_made_is_an_output_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError):
        _drawings.keep(tmp_path / "file" / "a.zip", PICTURES)
