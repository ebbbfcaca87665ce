"""Cost against size as an SVG file of its own: lines on two logarithmic axes, with their exponents.

On such axes a power law y = c x^k is a straight line of slope k; each line's legend tells the slope
that least squares give its points. Colours come along, light and dark, for no page's style reaches
a file that is linked.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from bertkit.report.boxes import STYLE
from bertkit.report.log import Point
from bertkit.report.page import Html, escape

WIDTH, HEIGHT = 480, 320
LEFT, RIGHT, TOP, BOTTOM = 56, 16, 30, 40
LEGEND = 16
"""Height of a line of the legend, below the axes."""

COLOURS = ("#0b63ce", "#c2410c", "#15803d", "#a21caf", "#a16207", "#0f766e")


@dataclass(frozen=True)
class Line:
    """Points (x, y), all above 0, under one name."""

    name: str
    points: Sequence[Point]


def exponent(points: Sequence[Point]) -> float:
    """The k of y = c x^k that fits best, by least squares of the logarithms.

    Raises ValueError for fewer than two different x, or numbers that have no logarithm.
    """
    logs = [(math.log(x), math.log(y)) for x, y in points]
    count = len(logs)
    mean_x, mean_y = (sum(pair[axis] for pair in logs) / max(1, count) for axis in (0, 1))
    spread = sum((x - mean_x) ** 2 for x, _ in logs)
    if spread == 0:
        raise ValueError("an exponent needs two different sizes")
    return sum((x - mean_x) * (y - mean_y) for x, y in logs) / spread


def log_log_plot(title: str, x_label: str, y_label: str, lines: Sequence[Line]) -> Html:
    """The picture; both axes go from one power of two or ten to another."""
    xs = [x for line in lines for x, _ in line.points]
    ys = [y for line in lines for _, y in line.points]
    x_marks, y_marks = _powers(min(xs), max(xs), 2), _powers(min(ys), max(ys), 10)
    height = HEIGHT + LEGEND * len(lines)
    base = HEIGHT - BOTTOM

    def across(value: float) -> float:
        return LEFT + _share(value, x_marks) * (WIDTH - LEFT - RIGHT)

    def up(value: float) -> float:
        return base - _share(value, y_marks) * (base - TOP)

    parts = [f'<text x="{LEFT}" y="18" font-weight="600">{escape(title)}</text>']
    for mark in y_marks:
        parts.append(
            f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{up(mark):.1f}" y2="{up(mark):.1f}" '
            f'stroke="var(--line)"/><text x="{LEFT - 6}" y="{up(mark) + 4:.1f}" '
            f'text-anchor="end">{mark:g}</text>'
        )
    for mark in x_marks:
        parts.append(
            f'<line x1="{across(mark):.1f}" x2="{across(mark):.1f}" y1="{base}" y2="{base + 4}" '
            f'stroke="var(--soft)"/><text x="{across(mark):.1f}" y="{base + 16}" '
            f'text-anchor="middle">{mark:g}</text>'
        )
    parts.append(
        f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 8}" text-anchor="middle" '
        f'fill="var(--soft)">{escape(x_label)}</text>'
        f'<text x="{WIDTH - RIGHT}" y="18" text-anchor="end" fill="var(--soft)">'
        f"{escape(y_label)}</text>"
    )
    for number, line in enumerate(lines):
        colour = COLOURS[number % len(COLOURS)]
        places = [(across(x), up(y)) for x, y in sorted(line.points)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in places]
        y_legend = HEIGHT + LEGEND * number
        parts.append(
            f'<rect x="{LEFT}" y="{y_legend}" width="14" height="3" fill="{colour}"/>'
            f'<text x="{LEFT + 20}" y="{y_legend + 6}">{escape(line.name)}: '
            f"exponent {exponent(line.points):.2f}</text>"
        )
    return Html(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        f'font-family="system-ui,sans-serif" font-size="11" fill="currentColor" role="img" '
        f'aria-label="{escape(title)}"><style>{STYLE}</style>{"".join(parts)}</svg>\n'
    )


def _powers(low: float, high: float, base: int) -> list[float]:
    """Powers of a base from one at or below low to one at or above high, two at least."""
    first = math.floor(math.log(low, base) + 1e-9)
    last = max(first + 1, math.ceil(math.log(high, base) - 1e-9))
    return [float(base) ** k for k in range(first, last + 1)]


def _share(value: float, marks: Sequence[float]) -> float:
    """Where a value stands between the first and the last mark, by its logarithm."""
    return math.log(value / marks[0]) / math.log(marks[-1] / marks[0])
