"""The limit of skipped samples, and the error if there are more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from packer.errors import TooManySkipped
from packer.types import Skip, display_path
from packer.wording import count


def allowed_skips(planned: int, max_skipped: int | None) -> int:
    """The limit: `max_skipped`, or by default 1 % of the planned samples, at least 10."""
    return max(planned // 100, 10) if max_skipped is None else max_skipped


def judge_skips(skips: Sequence[Skip], planned: int, allowed: int) -> None:
    """Raise if more than `allowed` samples, or all of them, were skipped.

    Raises:
        TooManySkipped: The message lists the reasons and an example.
    """
    if skips and (len(skips) > allowed or len(skips) == planned):
        raise too_many(skips, planned, allowed)


def too_many(skips: Sequence[Skip], planned: int, allowed: int) -> TooManySkipped:
    """Make the error, with reasons and an example."""
    reasons = Counter(skip.reason for skip in skips)
    shown = ", ".join(f"{number} {reason}" for reason, number in reasons.most_common())
    first = skips[0]
    example = f"first: {display_path(first.path)}: {first.detail}"
    if len(skips) == planned:
        return TooManySkipped(f"not one picture can be stored ({shown}; {example})")
    return TooManySkipped(
        f"{len(skips)} of {count(planned, 'picture')} skipped, {allowed} allowed"
        f" ({shown}; {example})",
        "raise --max-skipped and run the same command again to continue",
    )
