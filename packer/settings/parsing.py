"""Parses texts that users write: sizes, colours, splits, numbers of bytes. Pure functions."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from fractions import Fraction

from packer.errors import ConfigError

#: Largest side of a JPEG in pixels (16-bit sizes, ITU-T T.81 B.2.2).
MAX_SIDE = 65_535
SPLIT_NAME = re.compile(r"[A-Za-z0-9_]+")

#: Smallest plausible shard in bytes: `256` without a unit probably means 256 MB.
_SMALLEST_BARE = 1 << 20
_BYTES = re.compile(r"(\d{1,30}(?:\.\d{1,30})?)\s*([kmgt]?)(i?)b?", re.IGNORECASE | re.ASCII)
#: K/N, numbered like the tasks of a batch system, from 0.
_PART_OF = re.compile(r"(\d{1,9})/(\d{1,9})", re.ASCII)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
_FORM = "NAME=PART,NAME=PART with parts that sum to 1"
_EXAMPLE = "train=0.8,val=0.2"
#: One part of a split, with or without a name; also in the forms of other tools.
_PART = re.compile(r"(?:([A-Za-z_]\w*)\s*[=:]\s*)?(\d+\.?\d*|\.\d+)", re.ASCII)
#: Names for parts without names, in order.
_PARTS = ("train", "val", "test")
#: Largest rounding error of the sum of a split's parts, which must be 1.
_ROUNDING = 1e-6


def parse_size(value: object, mode: str) -> tuple[int, int] | None:
    """ "256" → (256, 256); "224x320" → (224, 320), width first; None → None.

    Raises:
        ConfigError: The text is not a size, or has two numbers and the mode takes one.
    """
    if value is None:
        return None
    text = str(value)
    parts = text.lower().split("x")
    if len(parts) > 2 or not all(re.fullmatch("[0-9]{1,30}", part) for part in parts):
        raise ConfigError(f"size {text!r} is not a size", "a number of pixels, or WIDTHxHEIGHT")
    width, height = int(parts[0]), int(parts[-1])
    if not (1 <= width <= MAX_SIDE and 1 <= height <= MAX_SIDE):
        raise ConfigError(f"size {text!r} is out of range", f"1 to {MAX_SIDE} pixels a side")
    if len(parts) == 2 and mode in ("short", "long"):
        raise ConfigError(
            f"size {text!r} has two numbers, but mode {mode!r} takes one",
            "use --resize-mode exact, crop or pad",
        )
    return width, height


def parse_colour(text: str) -> tuple[int, int, int]:
    """ "white", "black" or "#rrggbb" → (r, g, b).

    Raises:
        ConfigError: The text is not a colour.
    """
    digits = {"white": "ffffff", "black": "000000"}.get(text, text.removeprefix("#"))
    try:
        red, green, blue = bytes.fromhex(digits)
    except ValueError:
        raise ConfigError(
            f"background {text!r} is not a colour", "white, black or #rrggbb"
        ) from None
    return red, green, blue


def parse_bytes(value: str | int) -> int:
    """Parse a number of bytes: "256MB" is 256,000,000; "1GiB" is 2^30; "4096" and 4096 are 4096.

    Units: B, kB, MB, GB, TB (powers of 1000), KiB, MiB, GiB, TiB (powers of 1024), in any case;
    the B is optional.

    Raises:
        ConfigError: The value is not a number of bytes.
    """
    match = _BYTES.fullmatch(str(value).strip())
    if match is None or (match[3] and not match[2]) or isinstance(value, bool):
        raise ConfigError(f"{value!r} is not a size in bytes", "for example 256MB or 1GiB")
    base = 1024 if match[3] else 1000
    size = Fraction(match[1]) * base ** _POWERS[match[2].lower()]
    if size.denominator != 1:
        raise ConfigError(f"{value!r} is not a whole number of bytes")
    return int(size)


def parse_part(text: str) -> tuple[int, int] | None:
    """ "0/4" → (0, 4); None for anything else."""
    match = _PART_OF.fullmatch(text)
    return None if match is None else (int(match[1]), int(match[2]))


def doubt_shard_size(value: str | int) -> str:
    """Return a warning for a number of bytes below 1 MiB without a unit (256 instead of 256MB);
    else "".
    """
    text = str(value).strip()
    if parse_bytes(value) >= _SMALLEST_BARE or not text[-1].isdigit():
        return ""
    return (
        f"shard size {text} is {text} bytes, as it has no unit"
        f" (write {text}MB for megabytes, {text}B for bytes)"
    )


def parse_split(text: str) -> tuple[tuple[str, ...], tuple[float, ...]]:
    """ "train=0.8,val=0.2" → (("train", "val"), (0.8, 0.2)).

    Raises:
        ConfigError: The text has another form, a name occurs twice, or the sum of the parts is not
            1. The hint is a valid split.
    """
    pairs = [entry.partition("=") for entry in text.split(",")]
    names = tuple(name.strip() for name, _, _ in pairs)
    numbers = tuple(_number(value) for _, _, value in pairs)
    wrong = f"is not of the form {_FORM}" if None in numbers else _wrong_names(names)
    fractions = tuple(number for number in numbers if number is not None)
    total = sum(fractions)
    if not wrong and not all(number >= 0 for number in fractions):
        wrong = "has a negative part"
    if not wrong and abs(total - 1) > _ROUNDING:
        wrong = f"is invalid: its parts must sum to 1, and their sum is {total:.6g}"
    if wrong:
        raise ConfigError(f"split {text!r} {wrong}", _split_hint(text))
    return names, fractions


def _number(text: str) -> float | None:
    """Parse a finite number; None if the text is not one."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _wrong_names(names: Sequence[str]) -> str:
    """Return the error in the names of a split's parts; "" if there is none."""
    for name in names:
        if not SPLIT_NAME.fullmatch(name):
            return f"is invalid: the name {name!r} is not made of letters, digits and _"
    return "has a name twice" if len(set(names)) < len(names) else ""


def _split_hint(text: str) -> str:
    """Return a valid split close to an invalid one: with parts in per cent, without names, with
    other separators, or with one part alone.
    """
    if text.strip().lower() == "none":
        return "did you mean none?"
    found = _PART.findall(text)
    names = [name or usual for (name, _), usual in zip(found, _PARTS, strict=False)]
    parts = [float(number) for _, number in found]
    if len(found) == 1 and (0 < parts[0] < 1 or 5 <= parts[0] < 100):  # a fraction, or per cent
        rest = (1 if parts[0] < 1 else 100) - parts[0]
        if names[0] == "train":
            names, parts = ["train", "val"], [parts[0], rest]
        else:
            names, parts = ["train", names[0]], [rest, parts[0]]
    # Round for reading; the last part is the rest, so that the sum is 1.
    rounded = [round(part / (sum(parts) or 1), 4) for part in parts[:-1]]
    rounded.append(round(1 - sum(rounded), 4))
    if not 2 <= len(parts) == len(set(names)) or min(rounded) <= 0:
        return f"for example {_EXAMPLE}, or none"
    shown = ",".join(f"{name}={part:.4g}" for name, part in zip(names, rounded, strict=True))
    return f"did you mean {shown}?"
