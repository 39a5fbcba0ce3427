from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from packer.errors import DamageError, SourceError
from packer.pack.columns import ShardRecord
from packer.pack.manifest import NAME, FileRecord, Manifest, SplitRecord, read_manifest, seal
from packer.types import Field


def _manifest() -> Manifest:
    shards = tuple(
        ShardRecord(f"train-{i:06d}.tar", 10_000_000_000 + i, "ab" * 32, (i, 2**32 - 1), 5, 2)
        for i in range(2)
    )
    files = ("skipped.jsonl", "train-000000.index", "train-000001.index")
    return Manifest(
        name="Ünïcode",
        format="tar",
        batch_size=128,
        fields=(Field("image", "image", "jpg", "jpeg"), Field("label", "label", "cls")),
        classes=("001.ak47", "\udcff\udcfe no UTF-8"),
        display_names=("ak47", "?"),
        splits={"train": SplitRecord(10, 4, "train.index", 999, "cd" * 32, shards)},
        counts={"planned": 11, "packed": 10, "skipped": 1, "ignored": {"hidden": 3}},
        options={"resize": "256", "exclude_classes": []},
        libraries={"pillow-simd": "12.1.1.post0"},
        listing_sha256="ef" * 32,
        identity="01" * 32,
        files={name: FileRecord(7, "23" * 32) for name in files},
    )


def _value() -> dict[str, Any]:
    value: dict[str, Any] = json.loads(_manifest().to_json())
    del value["sha256"]
    return value


def _written(folder: Path, change: dict[str, Any] | None = None) -> Path:
    (folder / NAME).write_bytes(seal(_value() | (change or {})))
    return folder


def test_comes_back_as_it_was(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(_manifest().to_json())
    assert read_manifest(tmp_path) == _manifest()


def test_is_plain_json_for_others(tmp_path: Path) -> None:
    data = _manifest().to_json()
    assert data.isascii()
    assert data.endswith(b"}\n")
    value = json.loads(data)
    assert (value["packer"], value["version"]) == ("packer", 1)
    assert value["splits"]["train"]["shards"][1]["name"] == "train-000001.tar"
    assert value["fields"][0] == {
        "name": "image",
        "kind": "image",
        "extension": "jpg",
        "codec": "jpeg",
    }


def test_equal_manifests_have_equal_bytes() -> None:
    assert _manifest().to_json() == _manifest().to_json()
    assert replace(_manifest(), batch_size=64).to_json() != _manifest().to_json()


def test_unknown_keys_are_ignored(tmp_path: Path) -> None:
    """Later versions may add keys without a new version number."""
    assert read_manifest(_written(tmp_path, {"later": [1, 2]})) == _manifest()


def test_later_version_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(DamageError, match=r"version 2, this packer reads version 1.*upgrade"):
        read_manifest(_written(tmp_path, {"version": 2}))


@pytest.mark.parametrize(
    "change",
    [
        {"packer": "other"},
        {"fields": 3},
        {"fields": [{"name": "image"}]},
        {"splits": []},
        {"splits": {"train": {}}},
        {"splits": {"train": None}},
        {"classes": None},
        {"classes": ["one"]},
        {"identity": "../.."},
    ],
    ids=str,
)
def test_damaged_values_are_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    with pytest.raises(DamageError, match=r"manifest\.json: not a readable manifest"):
        read_manifest(_written(tmp_path, change))


def test_every_changed_byte_is_refused(tmp_path: Path) -> None:
    data = _manifest().to_json()
    for place in range(len(data)):
        for bit in (0, 5):
            changed = bytearray(data)
            changed[place] ^= 1 << bit
            (tmp_path / NAME).write_bytes(changed)
            with pytest.raises(DamageError):
                read_manifest(tmp_path)


def test_one_that_was_edited_is_refused(tmp_path: Path) -> None:
    value = json.loads(_manifest().to_json())
    for data in (json.dumps(value), json.dumps(value, indent=1)):
        (tmp_path / NAME).write_text(data)
        with pytest.raises(DamageError, match=r"SHA-256 is not the one that it states.*--force"):
            read_manifest(tmp_path)


def test_one_without_a_digest_says_to_convert_again(tmp_path: Path) -> None:
    (tmp_path / NAME).write_text(json.dumps(_value(), indent=1) + "\n")
    with pytest.raises(DamageError, match=r"earlier development version.*convert again"):
        read_manifest(tmp_path)


@pytest.mark.parametrize("missing", ["packer", "version", "name", "format", "fields", "splits"])
def test_missing_keys_are_refused(tmp_path: Path, missing: str) -> None:
    value = _value()
    del value[missing]
    (tmp_path / NAME).write_bytes(seal(value))
    with pytest.raises(DamageError, match=r"manifest\.json: not a readable manifest"):
        read_manifest(tmp_path)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b"3", b"\xff\xfe{}", b'"packer"'])
def test_other_files_are_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / NAME).write_bytes(content)
    with pytest.raises(DamageError, match=r"manifest\.json: not a readable manifest"):
        read_manifest(tmp_path)


def test_truncated_anywhere_is_refused(tmp_path: Path) -> None:
    data = _manifest().to_json().rstrip()
    for length in range(0, len(data), 7):
        (tmp_path / NAME).write_bytes(data[:length])
        with pytest.raises(DamageError):
            read_manifest(tmp_path)


def test_where_there_is_no_pack(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="nowhere: no such folder"):
        read_manifest(tmp_path / "nowhere")
    with pytest.raises(SourceError, match="not a pack"):
        read_manifest(tmp_path)
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(SourceError, match="file: not a pack"):
        read_manifest(tmp_path / "file")
    (tmp_path / ".packer").mkdir()
    with pytest.raises(SourceError, match="unfinished pack"):
        read_manifest(tmp_path)


def test_a_name_that_was_not_there_is_looked_up_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NFS: until its folders have been listed, a manifest that another client made is not there."""
    _written(tmp_path)
    real_read, real_list = Path.read_bytes, os.listdir
    listed: list[Path] = []

    def read_bytes(path: Path) -> bytes:
        if path.name == NAME and listed != [tmp_path.parent, tmp_path]:
            raise FileNotFoundError(path)
        return real_read(path)

    def listdir(path: Path) -> list[str]:
        listed.append(path)
        return real_list(path)

    monkeypatch.setattr(Path, "read_bytes", read_bytes)
    monkeypatch.setattr(os, "listdir", listdir)
    assert read_manifest(tmp_path) == _manifest()
