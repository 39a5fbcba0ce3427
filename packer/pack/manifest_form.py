"""Check the values of a manifest, whoever wrote it. Its names become names of files, so each must
be a plain name of the expected form; counts must add up.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Any

from packer.settings.options import ConvertOptions

_SPLIT = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_WORD = re.compile(r"[a-z0-9]+")
_DIGEST = re.compile(r"[0-9a-f]{64}")
#: Names that may be anything are still single names in the pack's folder, and not hidden.
_FILE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_KINDS = ("image", "label", "bytes")


def check_form(value: Mapping[str, Any], ledger: str, manifest: str = "manifest.json") -> None:
    """Check the values of a manifest, as JSON has them.

    Args:
        value: The manifest.
        ledger: Name of the ledger, which every pack has.
        manifest: Name of the manifest's own file.

    Raises:
        ValueError: A value is invalid; the message says which.
        KeyError, TypeError, AttributeError: A key is missing, or has a value of another type.
    """
    _text(value["name"], "name")
    _match(_WORD, value["format"], "format")
    _count(value["batch_size"], "batch_size", least=1)
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
    taken = [shard["name"] for split in value["splits"].values() for shard in split["shards"]]
    taken += [split["index"] for split in value["splits"].values()]
    taken += [*value["files"], manifest]
    _require(len(set(taken)) == len(taken), "one name for two files", taken)
    _check_options(value["options"])
    for name, version in value["libraries"].items():
        _text(version, f"version of {name}")
    _text(value["listing_sha256"], "listing_sha256")
    _check_counts(value["counts"], sum(split["samples"] for split in value["splits"].values()))


def _check_fields(fields: Sequence[Mapping[str, Any]]) -> None:
    for entry in fields:
        _match(_FILE, entry["name"], "field")
        _match(_FILE, entry["extension"], f"extension of field {entry['name']!r}")
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
        for name in names:
            _text(name, "class")
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
        for crc32 in (first, last):
            _count(crc32, f"fingerprint of {shard['name']}", most=(1 << 32) - 1)
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
    for name in ("ignored", "notes", "excerpt_of"):
        for reason, number in counts.get(name, {}).items():
            _count(number, f"count {name} {reason}")
    if counts.get("excerpt_of"):
        _require({"samples", "shards"} <= counts["excerpt_of"].keys(), "count", "excerpt_of")


def _check_options(options: Mapping[str, Any]) -> None:
    """Those that are known have values of their type; which of these mean something is checked
    where they are used.
    """
    _require(isinstance(options, dict), "options", options)
    for option in dataclasses.fields(ConvertOptions):
        if option.name not in options:
            continue
        value, default = options[option.name], option.default
        if isinstance(default, tuple):
            right = isinstance(value, list) and all(isinstance(one, str) for one in value)
        elif default is None:
            right = value is None or isinstance(value, str)
        else:
            right = type(value) is type(default)
        if type(value) is int:
            right = right and abs(value) < 1 << 63
        _require(right, f"option {option.name}", value)


def _count(value: Any, what: str, least: int = 0, most: int = (1 << 63) - 1) -> None:
    _require(type(value) is int and least <= value <= most, what, value)


def _text(value: Any, what: str) -> None:
    """Text whose characters are valid, or stand for bytes that are no UTF-8."""
    _require(isinstance(value, str), what, value)
    try:
        value.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise ValueError(f"{what}: {ascii(value)[:100]} is invalid") from None


def _match(pattern: re.Pattern[str], value: Any, what: str) -> None:
    _require(isinstance(value, str) and pattern.fullmatch(value) is not None, what, value)


def _require(right: bool, what: str, value: Any) -> None:
    if not right:
        raise ValueError(f"{what[:200]}: {_shown(value)!a} is invalid")


def _shown(value: Any) -> str:
    # As text, a number of more than 4,300 digits is an error.
    return "a number" if type(value) is int and abs(value) >= 1 << 64 else str(value)[:100]
