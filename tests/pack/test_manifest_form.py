from __future__ import annotations

import copy
from typing import Any

import pytest

from packer.pack.manifest_form import check_form

DIGEST = "ab" * 32
RECORD = {"size": 7, "sha256": DIGEST}


def _shard(number: int) -> dict[str, Any]:
    return {
        "name": f"train-{number:06d}.tar",
        "size": 10_000_000_000,
        "sha256": DIGEST,
        "fingerprint": [number, 2**32 - 1],
        "samples": 5,
        "batches": 2,
    }


VALUE: dict[str, Any] = {
    "name": "Ünïcode/..",
    "format": "tar",
    "batch_size": 128,
    "fields": [
        {"name": "image", "kind": "image", "extension": "jpg", "codec": "jpeg"},
        {"name": "label", "kind": "label", "extension": "cls"},
    ],
    "classes": ["001.ak47", "\udcff"],
    "display_names": ["ak47", "?"],
    "splits": {
        "train": {
            "samples": 10,
            "batches": 4,
            "index": "train.index",
            "index_bytes": 999,
            "index_sha256": DIGEST,
            "shards": [_shard(0), _shard(1)],
        }
    },
    "counts": {"planned": 11, "packed": 10, "skipped": 1, "ignored": {"hidden": 3}},
    "options": {"resize": "256", "exclude_classes": [], "quality": 90, "seed": -1, "later": {}},
    "libraries": {"numpy": "2"},
    "listing_sha256": "",
    "identity": DIGEST,
    "files": dict.fromkeys(["skipped.jsonl", "train-000000.index", "train-000001.index"], RECORD),
}


def test_a_right_one() -> None:
    check_form(VALUE, "skipped.jsonl")


def _changed(path: str, new: Any) -> dict[str, Any]:
    """The values with one replaced: "splits/train/shards/0/name"."""
    value = copy.deepcopy(VALUE)
    place: Any = value
    *parents, last = path.split("/")
    for key in parents:
        place = place[int(key)] if isinstance(place, list) else place[key]
    place[last] = new
    return value


@pytest.mark.parametrize(
    ("path", "new"),
    [
        ("splits/train/index", "../train.index"),
        ("splits/train/shards/0/name", "../train-000000.tar"),
        ("splits/train/shards/0/name", "/etc/passwd"),
        ("splits/train/shards/0/name", "train-000001.tar"),
        ("splits/train/shards/0/name", "train-000000.tar/x"),
        ("splits/train/shards/0/size", -1),
        ("splits/train/shards/0/size", 1.5),
        ("splits/train/shards/0/sha256", "AB" * 32),
        ("splits/train/shards/0/fingerprint", [1]),
        ("splits/train/shards/0/samples", 6),
        ("splits/train/samples", 11),
        ("splits/train/samples", True),
        ("splits/train/batches", "4"),
        ("splits", {"../train": VALUE["splits"]["train"]}),
        ("splits", {".train": VALUE["splits"]["train"]}),
        ("files", {}),
        ("files/..", {"size": 1, "sha256": "ab" * 32}),
        ("files/a\nb", {"size": 1, "sha256": "ab" * 32}),
        ("identity", ""),
        ("format", "../tar"),
        ("batch_size", None),
        ("classes", ["one"]),
        ("classes", "ab"),
        ("classes", [1, 2]),
        ("fields", []),
        ("fields/0/kind", "audio"),
        ("fields/0/codec", "../jpeg"),
        ("counts/packed", 9),
        ("counts/planned", 12),
        ("counts/skipped", -1),
        ("options", []),
        ("options/resize", 256),
        ("options/quality", "90"),
        ("options/seed", 1 << 70),
        ("options/exclude_classes", "ab"),
        ("counts/ignored", {"hidden": "3"}),
        ("counts/ignored", [1]),
        ("counts/excerpt_of", {"samples": 1}),
        ("libraries/numpy", 2),
        ("listing_sha256", None),
        ("name", "\ud800"),
        ("classes/0", "\ud800"),
        ("fields/0/name", "../image"),
        ("fields/0/extension", "jpg/.."),
        ("splits/train/shards/0/fingerprint", [0, 1 << 32]),
        ("batch_size", 0),
        ("files/manifest.json", RECORD),
        ("files/train-000000.tar", RECORD),
        ("splits/train/shards/0/size", 10**5000),
    ],
    ids=lambda value: ascii(value)[:40] if not isinstance(value, int) else "number",
)
def test_values_of_another_form_are_refused(path: str, new: Any) -> None:
    """Names become names of files, counts must add up."""
    with pytest.raises((ValueError, TypeError, AttributeError)):
        check_form(_changed(path, new), "skipped.jsonl")
