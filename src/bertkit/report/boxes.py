"""Box plots as an SVG file of its own: named groups of values in, a picture for a page of text out.

    |-----[  |    ]----|      whiskers to the lowest and highest value, a box between the quartiles,
      o  o  o    o     o      a line at the median; each value is drawn too, for groups are small

It brings its colours along, light and dark, for no page's style reaches a file that is linked.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from bertkit.report.chart import Level, ticks
from bertkit.report.page import Html, escape

WIDTH, HEIGHT = 480, 300
LEFT, RIGHT, TOP, BOTTOM = 48, 12, 30, 40
BOX = 0.42
"""Width of a box as a share of its group's place."""

STYLE = (
    "svg{color:#1c2024;background:#fff;--soft:#60646c;--line:#d9d9e0;--box:#0b63ce}"
    "@media(prefers-color-scheme:dark){svg{color:#e8eaed;background:#15171a;--soft:#a0a6ae;"
    "--line:#363a40;--box:#7ab4ff}}"
)


@dataclass(frozen=True)
class Group:
    """Values under one name; a line break in the name divides it."""

    name: str
    values: Sequence[float]


def quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    """Lower quartile, median and upper quartile, by linear interpolation."""
    if len(values) < 2:
        return values[0], values[0], values[0]
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, middle, high


def box_plot(title: str, groups: Sequence[Group], level: Level | None = None) -> Html:
    """The picture; the vertical axis is in the values' own unit.

    Args:
        groups: from left to right, none of them empty.
        level: a horizontal line to compare with, such as chance.
    """
    values = [value for group in groups for value in group.values]
    values += [level.value] if level else []
    marks = ticks(min(values), max(values))
    low, high = marks[0], marks[-1]

    def y(value: float) -> float:
        return HEIGHT - BOTTOM - (value - low) / (high - low) * (HEIGHT - TOP - BOTTOM)

    parts = [f'<text x="{LEFT}" y="18" font-weight="600">{escape(title)}</text>']
    for mark in marks:
        parts.append(
            f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(mark):.1f}" y2="{y(mark):.1f}" '
            f'stroke="var(--line)"/><text x="{LEFT - 6}" y="{y(mark) + 4:.1f}" '
            f'text-anchor="end">{round(mark, 6):g}</text>'
        )
    if level is not None:
        at = y(level.value)
        parts.append(
            f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at:.1f}" y2="{at:.1f}" '
            f'stroke="var(--soft)" stroke-dasharray="4 3"/><text x="{WIDTH - RIGHT}" '
            f'y="{at - 4:.1f}" text-anchor="end" fill="var(--soft)">{escape(level.name)}</text>'
        )
    place = (WIDTH - LEFT - RIGHT) / len(groups)
    for number, group in enumerate(groups):
        centre = LEFT + (number + 0.5) * place
        parts += _box([y(value) for value in group.values], centre, BOX * place)
        for row, line in enumerate(group.name.split("\n")):
            parts.append(
                f'<text x="{centre:.1f}" y="{HEIGHT - BOTTOM + 16 + 14 * row}" '
                f'text-anchor="middle">{escape(line)}</text>'
            )
    return Html(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'font-family="system-ui,sans-serif" font-size="11" fill="currentColor" role="img" '
        f'aria-label="{escape(title)}"><style>{STYLE}</style>{"".join(parts)}</svg>\n'
    )


def _box(heights: list[float], centre: float, width: float) -> list[str]:
    """A group's box from the heights of its values."""
    first, middle, third = quartiles(heights)
    left, right = centre - width / 2, centre + width / 2
    pen = 'stroke="var(--box)" stroke-width="1.5"'
    parts = [
        f'<line x1="{centre:.1f}" x2="{centre:.1f}" y1="{end:.1f}" y2="{quartile:.1f}" {pen}/>'
        for end, quartile in ((min(heights), first), (max(heights), third))
    ]
    parts.append(
        f'<rect x="{left:.1f}" y="{first:.1f}" width="{width:.1f}" height="{third - first:.1f}" '
        f'fill="var(--box)" fill-opacity="0.18" {pen}/>'
        f'<line x1="{left:.1f}" x2="{right:.1f}" y1="{middle:.1f}" y2="{middle:.1f}" '
        f'stroke="var(--box)" stroke-width="2.5"/>'
    )
    parts += [
        f'<circle cx="{centre:.1f}" cy="{height:.1f}" r="2.4" fill="currentColor" '
        f'fill-opacity="0.7"/>'
        for height in heights
    ]
    return parts
