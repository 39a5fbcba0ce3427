"""Check the form of the files in OUT/.packer.

Other users may write to a shared folder, and a disk may damage it. A checked value has the types
and ranges that the code relies on, and all its names are names of files in OUT.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from packer.registry import NAME
from packer.settings.parsing import SPLIT_NAME

_SHA256 = re.compile(r"[0-9a-f]{64}")
_EXTENSION = re.compile(r"[a-z0-9]{1,16}")
#: Upper limit of all numbers: 10^12 pictures would take 40 TB of index.
_MOST = 1 << 40
#: Most shards of one plan: 256 TB with the default shard size.
_MOST_SHARDS = 1_000_000

Check = Callable[[Any], bool]


def check_plan(value: Any) -> None:
    """Check the content of plan.json, except its version.

    Raises:
        ValueError: The content is invalid; the message says why.
    """
    _check(
        value,
        {
            "name": _is_text,
            "options": _is_options,
            "libraries": _maps(_is_text),
            "source listing": _is_text,
            "classes": _lists(_is_text),
            "display names": _lists(_is_text),
            "splits": _is_splits,
            "shard batches": _is_positive,
            "ignored": _maps(_is_number),
        },
    )
    if len(value["classes"]) != len(value["display names"]):
        raise ValueError("it has another number of classes than of display names")
    size = value["options"]["batch_size"] * value["shard batches"]
    if sum(-(-(end - first) // size) for first, end in value["splits"].values()) > _MOST_SHARDS:
        raise ValueError(f"it has more than {_MOST_SHARDS:,} shards")


def check_state(value: Any, stem: str) -> None:
    """Check the state of the shard `stem`.

    Raises:
        ValueError: The state is invalid; the message says why.
    """
    _check(
        value,
        {
            "record": lambda record: isinstance(record, dict),
            "skips": _lists(_is_skip),
            "notes": _maps(_is_number),
            "stamps": _is_text,
        },
    )
    _check(
        value["record"],
        {
            "name": lambda name: _is_text(name) and _is_shard_name(name, stem),
            "size": _is_number,
            "sha256": lambda text: _is_text(text) and bool(_SHA256.fullmatch(text)),
            "fingerprint": lambda pair: _lists(_is_crc32)(pair) and len(pair) == 2,
            "samples": _is_number,
            "batches": _is_number,
        },
    )


def check_parts(value: Any) -> None:
    """Check the content of parts.json.

    Raises:
        ValueError: The content is invalid; the message says why.
    """
    _check(value, {"parts": _is_positive})


def _check(value: Any, checks: Mapping[str, Check]) -> None:
    if not isinstance(value, dict):
        raise ValueError(f"it holds {_kind(value)}, not an object")
    for name, check in checks.items():
        if name not in value:
            raise ValueError(f"it has no {name!r}")
        if not check(value[name]):
            raise ValueError(f"its {name!r} is invalid")


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_shard_name(name: str, stem: str) -> bool:
    head, _, extension = name.rpartition(".")
    return head == stem and bool(_EXTENSION.fullmatch(extension))


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MOST


def _is_crc32(value: Any) -> bool:
    return _is_number(value) and value < 1 << 32


def _is_positive(value: Any) -> bool:
    return _is_number(value) and value > 0


def _lists(check: Check) -> Check:
    return lambda value: isinstance(value, list) and all(map(check, value))


def _maps(check: Check) -> Check:
    return lambda value: isinstance(value, dict) and all(map(check, value.values()))


def _is_options(value: Any) -> bool:
    if not isinstance(value, dict) or not _is_positive(value.get("batch_size")):
        return False
    names = (value.get("format"), value.get("codec"))
    return all(isinstance(name, str) and NAME.fullmatch(name) for name in names)


def _is_splits(value: Any) -> bool:
    if not _maps(_lists(_is_number))(value):
        return False
    spans = value.values()
    return all(map(SPLIT_NAME.fullmatch, value)) and all(
        len(span) == 2 and span[0] <= span[1] for span in spans
    )


def _is_skip(value: Any) -> bool:
    if not isinstance(value, dict) or not _is_number(value.get("slot")):
        return False
    texts = [value.get(name) for name in ("path", "reason", "detail")]
    return all(map(_is_text, [*texts, value.get("path_base64", "")]))


def _kind(value: Any) -> str:
    return "nothing" if value is None else f"a {type(value).__name__}"
