"""Draw bar charts as SVG: panels below one another, each with bars, their ranges and a limit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH, NAMES, VALUES = 760, 170, 90  # pixels: all, the names' column, the values' column
BAR, GAP, HEAD, FOOT = 16, 6, 40, 14  # pixels: heights of a bar, between bars, above and below
#: Fill by kind of bar. Readable on white and on black; the first is what the chart is about.
COLOURS = {"packer": "#0072b2", "peer": "#999999"}
STYLE = """
text { font: 12px sans-serif; fill: #222; } .title { font-weight: bold; font-size: 13px; }
.range { stroke: #222; } .limit { stroke: #d55e00; stroke-dasharray: 4 3; }
.limit-name { fill: #d55e00; text-anchor: end; } .page { fill: #fff; }
@media (prefers-color-scheme: dark) {
  text { fill: #ddd; } .range { stroke: #ddd; } .limit-name { fill: #d55e00; } .page { fill: #111; }
}
"""


@dataclass(frozen=True)
class Bar:
    """A value, its lowest and highest measurement, and a key of `COLOURS`."""

    name: str
    value: float
    low: float
    high: float
    kind: str


@dataclass(frozen=True)
class Panel:
    """Bars to compare, and their upper limit: its name and value."""

    title: str
    bars: Sequence[Bar]
    limit: tuple[str, float] | None = None


def svg(title: str, panels: Sequence[Panel]) -> str:
    """Return the chart. Each panel has its own scale, which starts at 0."""
    parts: list[str] = []
    top = 30.0
    for panel in panels:
        parts.append(_panel(panel, top))
        top += HEAD + len(panel.bars) * (BAR + GAP) + FOOT
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{top:.0f}"'
            f' viewBox="0 0 {WIDTH} {top:.0f}" role="img">',
            f"<title>{escape(title)}</title>",
            f"<style>{STYLE}</style>",
            f'<rect class="page" width="{WIDTH}" height="{top:.0f}"/>',
            f'<text class="title" x="10" y="20">{escape(title)}</text>',
            *parts,
            "</svg>\n",
        ]
    )


def _panel(panel: Panel, top: float) -> str:
    highest = max([bar.high for bar in panel.bars] + ([panel.limit[1]] if panel.limit else [0.0]))
    scale = (WIDTH - NAMES - VALUES) / (highest or 1.0)
    lines = [f'<text class="title" x="10" y="{top + 20:.0f}">{escape(panel.title)}</text>']
    first = top + HEAD
    for number, bar in enumerate(panel.bars):
        y = first + number * (BAR + GAP)
        middle, end = y + BAR / 2, NAMES + bar.value * scale
        low, high = NAMES + bar.low * scale, NAMES + bar.high * scale
        lines += [
            f'<text x="{NAMES - 8}" y="{y + 12:.0f}" text-anchor="end">{escape(bar.name)}</text>',
            f'<rect x="{NAMES}" y="{y:.1f}" width="{bar.value * scale:.1f}" height="{BAR}"'
            f' fill="{COLOURS[bar.kind]}"/>',
            f'<line class="range" x1="{low:.1f}" x2="{high:.1f}" y1="{middle:.1f}"'
            f' y2="{middle:.1f}"/>',
            f'<text x="{max(high, end) + 6:.1f}" y="{y + 12:.0f}">{bar.value:,.0f}</text>',
        ]
    if panel.limit:
        name, value = panel.limit
        x, bottom = NAMES + value * scale, first + len(panel.bars) * (BAR + GAP)
        lines += [
            f'<line class="limit" x1="{x:.1f}" x2="{x:.1f}" y1="{first - 4:.1f}"'
            f' y2="{bottom:.1f}"/>',
            f'<text class="limit-name" x="{x:.1f}" y="{first - 8:.0f}">'
            f"{escape(name)} {value:,.0f}</text>",
        ]
    return "\n".join(lines)
