from __future__ import annotations

import random
import time
from functools import partial

import pytest

from packer.settings.patterns import TEXT_CHARACTERS, compile_bounded, first_group
from tests.mutating import outcome

#: Of processor time; the worst expressions take 0.3 s.
SECONDS = 10


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        (r"\d+\.(.+)", "001.ak47", "ak47"),
        (r"\d+\.(.+)", "ak47", "ak47"),
        (r"n\d{8}_(.+)", "n01440764_tench", "tench"),
        (r"(.+)_\d+", "fish_12", "fish"),
        (r"\d+[-_](.+?)_\d+", "1_sea_fish_12", "sea_fish"),
        (r"(?i)(?:class|cls)?[-_ ]*(\w+)", "CLASS fish", "fish"),
        (r"(?P<name>.+)\(\d\)", "fish(1)", "fish"),
        (r"[]*+)]([^]*+)]+)\\", ")fish\\", "fish"),
        (r"(?!\.)(.+)(?<!_)(?=_)_", "fish_", "fish"),
        (r"(?:(a)|b)", "b", "b"),
        (r"(a*)b", "b", "b"),
        (r"(.).+", "x" * (TEXT_CHARACTERS + 1), "x" * (TEXT_CHARACTERS + 1)),
    ],
)
def test_the_first_group_names_a_class(pattern: str, text: str, expected: str) -> None:
    assert first_group(compile_bounded(pattern), text) == expected


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("(a+)+b", "repeats a group"),
        ("(a|a)*b", "repeats a group"),
        ("(?:a?){30}(b)", "repeats a group"),
        ("(a){2,}", "repeats a group"),
        (r"[]*]+(a)(\))*", "repeats a group"),
        ("a?" * 30 + "(b)", "more than three"),
        ("(a|a)" * 30, "more than three"),
        (".*.*.*.*(b)", "more than three"),
        ("(?x)(a) *", "is none of"),
        ("(?#x)(a)", "is none of"),
        ("(a)(?(1)b)", "is none of"),
        ("(a)(?P=x)", "is none of"),
        ("[[a](b)", "nested set"),
        ("(" * 300, "more than 200 characters"),
        ("(" * 150, "unterminated"),
        ("a{99999999999999999999}(b)", "too large"),
        ("(a)\\", "bad escape"),
        ("*(a)", "nothing to repeat"),
    ],
)
def test_what_is_invalid_or_may_take_long_is_refused(pattern: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        compile_bounded(pattern)


PARTS = (
    *("a", "b", ".", r"\w", "[ab]", "[^b]", "(", "(?:", ")", "*", "+", "?", "|", "{2}", "{1,9}"),
    *("{,3}", "(?=", "(?!", r"\1", "*?", "+?", "[]a]", "[^]a]", r"\]", "(?i)", "{", "}", "a"),
)
TEXTS = (
    "a" * TEXT_CHARACTERS,
    "a" * (TEXT_CHARACTERS - 1) + "!",
    "ab" * 127,
    "a" * 127 + "b" * 127,
)


def test_what_is_accepted_is_matched_in_bounded_time() -> None:
    """Each of some thousand drawn expressions, in a process that an endless match would not end."""
    assert outcome(partial(_match_drawn, 2026, 60_000)) == ""


def _match_drawn(seed: int, count: int) -> str | None:
    draw, accepted = random.Random(seed), 0
    for _ in range(count):
        pattern = "".join(draw.choice(PARTS) for _ in range(draw.randrange(1, 20)))
        try:
            compiled = compile_bounded(pattern)
        except ValueError:
            continue
        accepted += 1
        for text in TEXTS:
            start = time.process_time()
            compiled.fullmatch(text)
            if time.process_time() - start > SECONDS:
                return f"{pattern!r} takes more than {SECONDS} s"
    return None if accepted > count // 50 else f"only {accepted} of {count} were accepted"


@pytest.mark.parametrize("pattern", ["a*a*a*(b)", "a*[a]*.*(b)a?a?|a|b", r"(a*)\1*\1*b"])
def test_the_worst_take_a_second(pattern: str) -> None:
    start = time.process_time()
    assert first_group(compile_bounded(pattern), TEXTS[0]) == TEXTS[0]
    assert time.process_time() - start < SECONDS
