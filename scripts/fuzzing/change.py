"""Make seeded changes: of bytes as by damage, and of JSON values as by an attacker."""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Sequence
from typing import Any

#: Numbers near the limits of 8 to 64 bits, and sizes that need much memory.
NUMBERS = (
    *(0, 1, -1, 2, 7, 8, 127, 128, 255, 256, 4095, 32767, 32768, 65535, 65536, 1 << 20),
    *((1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 40, (1 << 63) - 1, -(1 << 63), 1 << 64, 10**30),
)
_VALUES: tuple[Any, ...] = (
    *(None, True, False, "", "a", "..", "/", "../../x", ".", "a/b", "a\0b", "a\nb", "\ud800", "é"),
    *(1.5, float("nan"), float("inf"), -0.0, [], {}, [[]], {"a": 1}, [0, 1], "x" * 5000, "<i8"),
    *("0" * 64, "1e999", "99999999999999999999", "\x1b]0;title\x07"),
)
#: An entry of a list of edits: keys that lead to a value, and the new value; none removes it.
Edit = list[Any]


def change_bytes(rng: random.Random, data: bytes, tokens: Sequence[bytes] = ()) -> bytes:
    """Make a few changes, most of them near the beginning, where headers are."""
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 6))):
        end = min(len(out), rng.choice((32, 128, 600, 1 << 30)))
        at = rng.randrange(end + 1)
        kind = rng.randrange(8 if tokens else 7)
        if kind == 0 and at < len(out):
            out[at] ^= 1 << rng.randrange(8)
        elif kind == 1 and at < len(out):
            out[at] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        elif kind == 2:
            order, width = rng.choice("<>"), rng.choice("HIQ")
            size = struct.calcsize(width)
            number = rng.choice(NUMBERS) % (1 << 8 * size)
            out[at : at + size] = struct.pack(order + width, number)
        elif kind == 3:
            del out[at : at + rng.choice((1, 2, 4, 16, rng.randrange(1, len(out) + 2)))]
        elif kind == 4:
            length = rng.choice((1, 4, 16, 256))
            start = rng.randrange(len(out) + 1)
            out[at:at] = out[start : start + length] * rng.choice((1, 1, 2, 50))
        elif kind == 5:
            out[at:at] = rng.randbytes(rng.choice((1, 2, 8, 64)))
        elif kind == 6:
            length = rng.choice((1, 4, 64))
            out[at : at + length] = bytes([rng.choice((0, 0xFF, 0x20, 0x39))]) * length
        elif kind == 7:
            token = rng.choice(tokens)
            out[at : at + rng.choice((0, 0, len(token)))] = token
    return bytes(out)


def draw_edits(rng: random.Random, value: Any) -> list[Edit]:
    """Draw edits of JSON values, for `apply_edits`."""
    edits: list[Edit] = []
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        keys: list[Any] = []
        inner = value
        while isinstance(inner, dict | list) and inner and (not keys or rng.random() < 0.9):
            key = rng.choice(list(inner)) if isinstance(inner, dict) else rng.randrange(len(inner))
            keys.append(key)
            inner = inner[key]
        choice = rng.randrange(6)
        if choice == 0:
            edits.append([keys])
        elif choice == 1:
            edits.append([[*keys[:-1], rng.choice(("x", "../x", "train", "", "a b"))], inner])
        elif choice == 2 and isinstance(inner, int) and not isinstance(inner, bool):
            edits.append([keys, inner + rng.choice((-1, 1, -inner, inner, 1 << 20, 1 << 32))])
        elif choice == 3:
            edits.append([keys, rng.choice(NUMBERS)])
        elif choice == 4 and isinstance(inner, str) and inner:
            edits.append([keys, change_bytes(rng, inner.encode()).decode("utf-8", "replace")])
        else:
            edits.append([keys, rng.choice(_VALUES)])
    return edits


def apply_edits(text: str, edits: Sequence[Edit]) -> Any:
    """Apply edits to JSON values; an edit of a missing key has no effect."""
    value = json.loads(text)
    for keys, *new in edits:
        inner = value
        try:
            for key in keys[:-1]:
                inner = inner[key]
            if not new:
                del inner[keys[-1]]
            else:
                inner[keys[-1]] = new[0]
        except (KeyError, IndexError, TypeError):
            continue
    return value
