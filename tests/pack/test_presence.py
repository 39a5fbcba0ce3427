from pathlib import Path

import pytest

from packer.pack.presence import differing_sizes


def test_how_files_differ(tmp_path: Path) -> None:
    for name, size in (("right", 3), ("short", 2), ("long", 4), ("other", 9)):
        (tmp_path / name).write_bytes(b"x" * size)
    (tmp_path / "folder").mkdir()
    (tmp_path / "dangling").symlink_to("nowhere")
    (tmp_path / "link").symlink_to("right")
    names = ("right", "short", "long", "folder", "dangling", "link", "gone")
    assert differing_sizes(tmp_path, dict.fromkeys(names, 3)) == {
        "short": "cut short (2 of 3 bytes)",
        "long": "too long (4 of 3 bytes)",
        "folder": "missing",
        "dangling": "missing",
        "gone": "missing",
    }
    with pytest.raises(FileNotFoundError):
        differing_sizes(tmp_path / "nowhere", {})
