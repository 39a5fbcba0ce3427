"""`packer info --shuffle`: how well each way of shuffling mixes a pack, as a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from packer.errors import UsageError
from packer.pack.opened import Pack
from packer.reader.order.options import SHUFFLES, OrderOptions
from packer.reader.order.quality import TOLERANCE, Quality, measure, sufficient_window
from packer.reader.order.schedule import Schedule
from packer.wording import count

_HEAD = (
    ("", "distinct", "of a", "same batch", "", "met again", "", "rank"),
    ("shuffle", "classes", "permutation's", "meets", "predicted", "", "predicted", "correlation"),
)
_WIDTHS = (13, 11, 16, 12, 12, 12, 12, 12)


@dataclass(frozen=True)
class ShuffleReport:
    """Measures of one split.

    Attributes:
        pack: The pack's folder.
        split: The split's name.
        samples: Number of samples.
        classes: Number of classes that occur.
        batches: Number of on-disk batches.
        batch_size: Samples in a mini-batch.
        epochs: Number of measured epochs.
        measured: The measures, one for each shuffle mode.
        advice: Lines that say what to do; empty if the window mixes well enough.
    """

    pack: str
    split: str
    samples: int
    classes: int
    batches: int
    batch_size: int
    epochs: int
    measured: tuple[Quality, ...]
    advice: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """Return the object for --json."""
        measured = [
            {**asdict(quality), "ratio": quality.ratio, "mixes": quality.mixes}
            for quality in self.measured
        ]
        return {"schema": "packer.shuffle/1", **asdict(self), "measured": measured}

    def as_text(self) -> str:
        """Return a table and the advice."""
        first = self.measured[0]
        lines = [
            f"{self.split}: {count(self.samples, 'sample')} of {count(self.classes, 'class')} in "
            f"{count(self.batches, 'on-disk batch')}; mini-batches of {self.batch_size}, "
            f"{count(self.epochs, 'epoch')}",
            f"a true permutation: {first.distinct_expected:.2f} distinct classes in a mini-batch; "
            f"two samples meet in {first.permutation:.3%} of epochs; rank correlation 0",
            "",
            *(_row(cells) for cells in _HEAD),
            *(_row(_cells(quality)) for quality in self.measured),
            "",
            *(self.advice or ("window: mixes classes as a true permutation does",)),
        ]
        return "\n".join(lines)


def measure_shuffles(
    root: Path, split: str | None, batch_size: int, window: int, epochs: int
) -> ShuffleReport:
    """Measure all shuffle modes on one split of a pack.

    Raises:
        UsageError: The split does not exist, has no labels or has too few samples.
    """
    pack = Pack(root, split) if split else _first_split(root)
    labels, counts = pack.index["label"], pack.index["batch_count"]
    classes = len(set(labels.tolist()) - {-1})
    if not classes:
        raise UsageError(f"{root}: split {pack.split!r} has no labels to measure with")
    measured = []
    for shuffle in SHUFFLES:
        options = OrderOptions(batch_size, shuffle, window)
        schedule = Schedule(counts, pack.index["batch_bytes"], options)
        measured.append(measure(labels, counts, schedule, epochs))
    by_window = measured[SHUFFLES.index("window")]
    return ShuffleReport(
        pack=str(pack.root),
        split=pack.split,
        samples=len(pack),
        classes=classes,
        batches=len(counts),
        batch_size=batch_size,
        epochs=epochs,
        measured=tuple(measured),
        advice=() if by_window.mixes else tuple(_advice(pack, by_window, batch_size)),
    )


def _first_split(root: Path) -> Pack:
    from packer.pack.manifest import read_manifest

    splits = read_manifest(root).splits
    if not splits:
        raise UsageError(f"{root}: has no samples")
    return Pack(root, next(iter(splits)))


def _advice(pack: Pack, quality: Quality, batch_size: int) -> Sequence[str]:
    """Say what to do about a window that mixes too little."""
    options = OrderOptions(batch_size, "window", quality.window)
    sizes = pack.index["batch_bytes"]
    larger = sufficient_window(pack.index["label"], pack.index["batch_count"], sizes, options)
    lines = [
        f"window {quality.window}: mini-batches hold {quality.ratio:.1%} of a permutation's "
        f"classes, less than {1 - TOLERANCE:.0%}: samples of one class lie side by side in this "
        "pack, and training will suffer",
        "better: convert again with --order shuffled (the default), or write samples in random "
        "order to PackWriter",
    ]
    if larger is None:
        lines.append("or: shuffle='full', which reads samples one by one")
    else:
        size = larger * int(sizes.max()) / 1e6
        lines.append(f"or: window={larger}, which holds up to {size:,.0f} MB a process in memory")
    return lines


def _cells(quality: Quality) -> tuple[str, ...]:
    name = f"window {quality.window}" if quality.shuffle == "window" else quality.shuffle
    again = quality.again_expected
    return (
        name,
        f"{quality.distinct:.2f}",
        f"{quality.ratio:.1%}",
        f"{quality.together:.3%}",
        f"{quality.together_expected:.3%}",
        f"{quality.again:.3%}",
        "-" if again is None else f"{again:.3%}",
        f"{quality.correlation:+.3f}",
    )


def _row(cells: Sequence[str]) -> str:
    first, *others = zip(cells, _WIDTHS, strict=True)
    return (
        f"{first[0]:<{first[1]}}" + "".join(f"{cell:>{width}}" for cell, width in others)
    ).rstrip()
