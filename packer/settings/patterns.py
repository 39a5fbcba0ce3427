"""Regular expressions from files that others wrote: matched in bounded time.

Python's `re` tries all ways in which an expression may match: of `(a+)+b` there are 2^n for n
letters. Accepted here is what has few ways for any text of bounded length.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from functools import cache

#: Characters of an expression: one of a recipe has ten or twenty.
_MOST_CHARACTERS = 200
#: Characters of a text: of a file's name there are no more bytes.
TEXT_CHARACTERS = 255
#: A quantifier has at most 2^8 ways for such a text, an alternative or "?" has 2.
_QUANTIFIER_BITS = 8
_CHOICE_BITS = 1
#: Of all ways together: three quantifiers and four choices take about 0.3 s a text at the worst.
_MOST_BITS = 28
#: An escape, a set, the start of a group, a quantifier that may be lazy, any other character.
_TOKEN = re.compile(
    r"(?P<escape>\\.)|(?P<set>\[\^?\]?(?:\\.|[^\]\\])*\])"
    r"|(?P<group>\((?:\?(?:P<\w+>|<?[=!]|:|i\)|))?)|(?P<fixed>\{\d+\})"
    r"|(?P<quantifier>(?:[*+]|\{\d*,\d*\})[?+]?)|(?P<choice>\?[?+]?|\|)|(?P<other>.)",
    re.DOTALL,
)


@cache
def compile_bounded(pattern: str) -> re.Pattern[str]:
    """Compile an expression.

    Args:
        pattern: In the syntax of `re`, without repeated groups, flags but `(?i)`, comments and
            conditions.

    Raises:
        ValueError: It is invalid, or may take long; says why.
    """
    if len(pattern) > _MOST_CHARACTERS:
        raise ValueError(f"has more than {_MOST_CHARACTERS} characters")
    _require_few_ways(pattern)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            return re.compile(pattern)
        except (re.error, OverflowError, RecursionError, Warning) as error:
            raise ValueError(str(error)) from error


def first_group(pattern: re.Pattern[str], text: str) -> str:
    """What the first group matched, if the expression matches the whole text and the group is not
    empty; else the text. A text that is too long is not looked at.
    """
    match = pattern.fullmatch(text) if len(text) <= TEXT_CHARACTERS else None
    return (match[1] if match else None) or text


def _require_few_ways(pattern: str) -> None:
    bits, before = 0, ""
    for kind, token in _tokens(pattern):
        if kind == "group" and token == "(?":
            raise ValueError("has a group (? that is none of (?: (?P<NAME> (?= (?! (?<= (?<! (?i)")
        if kind in ("quantifier", "fixed") and before == ")":
            raise ValueError("repeats a group, which may take for ever; repeat single characters")
        bits += {"quantifier": _QUANTIFIER_BITS, "choice": _CHOICE_BITS}.get(kind, 0)
        before = token
    if bits > _MOST_BITS:
        raise ValueError("has more than three of * + {,} or too many | and ?, may take for ever")


def _tokens(pattern: str) -> Iterator[tuple[str, str]]:
    for found in _TOKEN.finditer(pattern):
        yield str(found.lastgroup), found[0]
