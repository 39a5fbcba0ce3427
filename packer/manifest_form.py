"""What values a manifest may hold, whoever wrote it. Names in it become names of files, so each
must be a plain name of the expected form; counts must add up.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

_SPLIT = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_WORD = re.compile(r"[a-z0-9]+")
_DIGEST = re.compile(r"[0-9a-f]{64}")
#: Names that may be anything are still single names in the pack's folder, and not hidden.
_FILE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_KINDS = ("image", "label", "bytes")


def check_form(value: Mapping[str, Any], ledger: str) -> None:
    """Check the values of a manifest, as JSON has them.

    Args:
        value: The manifest.
        ledger: Name of the ledger, which every pack has.

    Raises:
        ValueError: A value is invalid; the message says which.
        KeyError, TypeError, AttributeError: A key is missing, or has a value of another type.
    """
    _require(isinstance(value["name"], str), "name", value["name"])
    _match(_WORD, value["format"], "format")
    _count(value["batch_size"], "batch_size")
    _match(_DIGEST, value["identity"], "identity")
    _check_fields(value["fields"])
    _check_classes(value["classes"], value["display_names"])
    for name, split in value["splits"].items():
        _match(_SPLIT, name, "split")
        _check_split(name, split)
    for name, entry in value["files"].items():
        _match(_FILE, name, "file")
        _check_file(name, entry["size"], entry["sha256"])
    indexes = [
        f"{shard['name'].rpartition('.')[0]}.index"
        for split in value["splits"].values()
        for shard in split["shards"]
    ]
    for name in (ledger, *indexes):
        _require(name in value["files"], "no entry in files:", name)
    for name in ("options", "libraries"):
        _require(isinstance(value[name], dict), name, value[name])
    _check_counts(value["counts"], sum(split["samples"] for split in value["splits"].values()))


def _check_fields(fields: Sequence[Mapping[str, Any]]) -> None:
    for entry in fields:
        _require(isinstance(entry["name"], str), "field", entry["name"])
        _require(entry["kind"] in _KINDS, f"kind of field {entry['name']!r}", entry["kind"])
        codec = entry.get("codec")
        _require(codec is None or _WORD.fullmatch(codec) is not None, "codec", codec)
    names = [entry["name"] for entry in fields]
    _require(len(set(names)) == len(names), "fields", names)
    images = [entry["name"] for entry in fields if entry["kind"] == "image"]
    _require(len(images) == 1, "image fields", images)


def _check_classes(classes: Sequence[str], display_names: Sequence[str]) -> None:
    for names in (classes, display_names):
        _require(isinstance(names, list), "classes", names)
        _require(all(isinstance(name, str) for name in names), "classes", names)
    _require(len(classes) == len(display_names), "number of display_names", len(display_names))


def _check_split(name: str, split: Mapping[str, Any]) -> None:
    _require(split["index"] == f"{name}.index", f"index of split {name}", split["index"])
    _check_file(split["index"], split["index_bytes"], split["index_sha256"])
    sums = {"samples": 0, "batches": 0}
    for number, shard in enumerate(split["shards"]):
        stem, _, extension = str(shard["name"]).rpartition(".")
        right = stem == f"{name}-{number:06d}" and _WORD.fullmatch(extension)
        _require(bool(right), f"shard {number} of split {name}", shard["name"])
        _check_file(shard["name"], shard["size"], shard["sha256"])
        first, last = shard["fingerprint"]
        for what in (first, last):
            _count(what, f"fingerprint of {shard['name']}")
        for what in sums:
            _count(shard[what], f"{what} of {shard['name']}")
            sums[what] += shard[what]
    for what, number in sums.items():
        _count(split[what], f"{what} of split {name}")
        _require(split[what] == number, f"{what} of split {name}", split[what])


def _check_file(name: str, size: Any, sha256: Any) -> None:
    _count(size, f"size of {name}")
    _match(_DIGEST, sha256, f"SHA-256 of {name}")


def _check_counts(counts: Mapping[str, Any], packed: int) -> None:
    for what in ("planned", "packed", "skipped"):
        _count(counts[what], f"count {what}")
    _require(counts["packed"] == packed, "count packed", counts["packed"])
    _require(counts["planned"] == packed + counts["skipped"], "count planned", counts["planned"])


def _count(value: Any, what: str) -> None:
    _require(type(value) is int and 0 <= value < 1 << 63, what, value)


def _match(pattern: re.Pattern[str], value: Any, what: str) -> None:
    _require(isinstance(value, str) and pattern.fullmatch(value) is not None, what, value)


def _require(right: bool, what: str, value: Any) -> None:
    if not right:
        raise ValueError(f"{what}: {str(value)[:100]!r} is invalid")
