"""Counts in messages, with the noun in singular or plural."""

from __future__ import annotations


def count(number: int, noun: str, spec: str = "") -> str:
    """Return "1 class", "2 classes", "3 on-disk batches".

    Args:
        number: How many.
        noun: The noun in singular; its plural must be regular.
        spec: Format of the number: "," groups thousands.
    """
    return f"{number:{spec}} {noun if number == 1 else plural(noun)}"


def plural(noun: str) -> str:
    """Return the regular plural of an English noun."""
    if noun.endswith("y") and noun[-2:-1] not in "aeiou":
        return f"{noun[:-1]}ies"
    return f"{noun}es" if noun.endswith(("s", "x", "ch", "sh")) else f"{noun}s"
