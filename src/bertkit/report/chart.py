"""Curve charts as inline SVG: named series in, a figure with axes and a legend out.

The picture is drawn on a small canvas and scaled to its column, so that its labels stay readable on
a phone. Colours come from the page's style (light or dark); series differ in dash too, so that the
chart reads without colours.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from bertkit.report.log import Point
from bertkit.report.page import Html, escape, join, tag

WIDTH, HEIGHT = 400, 230
LEFT, RIGHT, TOP, BOTTOM = 44, 12, 10, 36
COLOURS = 6
DASHES = ("", "6 3", "2 3", "8 3 2 3")
MOST_POINTS = 160
"""A longer series is drawn as the means of so many runs of points."""


@dataclass(frozen=True)
class Series:
    """A named curve.

    Attributes:
        points: (x, y), in order of x.
        markers: draw the points themselves too (for few points, such as held-out scores).
    """

    name: str
    points: Sequence[Point]
    markers: bool = False


@dataclass(frozen=True)
class Level:
    """A horizontal line to compare with, such as chance."""

    name: str
    value: float


@dataclass(frozen=True)
class Chart:
    """A figure of curves.

    Attributes:
        title: what is shown, with its unit.
        series: the curves; those without points are left out.
        x_label: name of the horizontal axis.
        percent: values are shares, written as per cent.
        levels: horizontal lines to compare with.
        from_zero: the vertical axis starts at 0.
    """

    title: str
    series: Sequence[Series]
    x_label: str = "step"
    percent: bool = False
    levels: Sequence[Level] = field(default_factory=tuple)
    from_zero: bool = False


def figure(chart: Chart) -> Html:
    """The chart as a figure with caption and legend; nothing when no series has a point."""
    series = [one for one in chart.series if one.points]
    if not series:
        return Html("")
    x_axis = _axis([x for one in series for x, _ in one.points], tight=True)
    values = [y for one in series for _, y in one.points] + [level.value for level in chart.levels]
    y_axis = _axis(values + ([0.0] if chart.from_zero else []))
    drawing = [_grid(chart, x_axis, y_axis)]
    drawing += [_level(level, y_axis) for level in chart.levels]
    drawing += [_curve(one, k, x_axis, y_axis) for k, one in enumerate(series)]
    svg = Html(
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(chart.title)}" '
        f'font-size="11" fill="currentColor">{join(*drawing)}</svg>'
    )
    legend = join(
        *(_legend(one, k, chart) for k, one in enumerate(series)),
        *(
            tag(
                "li",
                join(_swatch("var(--soft)", "2 3"), f"{level.name} {_say(level.value, chart)}"),
            )
            for level in chart.levels
        ),
    )
    caption = tag("figcaption", join(tag("b", chart.title), tag("ul", legend, "legend")))
    return tag("figure", join(svg, caption))


def ticks(low: float, high: float, most: int = 5) -> list[float]:
    """Round numbers (1, 2 or 5 times a power of ten) that span low to high, at most `most` + 2."""
    if high <= low:
        low, high = low - (abs(low) or 1.0) / 2, high + (abs(high) or 1.0) / 2
    raw = (high - low) / most
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= raw * 0.999)
    first, behind = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [k * step for k in range(first, behind + 1)]


def thinned(points: Sequence[Point], most: int = MOST_POINTS) -> list[Point]:
    """At most `most` points: the means of runs of neighbours. The last point is kept as it is."""
    if len(points) <= most:
        return list(points)
    thin: list[Point] = []
    for k in range(most - 1):
        run = points[
            k * (len(points) - 1) // (most - 1) : (k + 1) * (len(points) - 1) // (most - 1)
        ]
        thin.append((sum(x for x, _ in run) / len(run), sum(y for _, y in run) / len(run)))
    return [*thin, points[-1]]


@dataclass(frozen=True)
class _Axis:
    low: float
    high: float
    ticks: list[float]

    def share(self, value: float) -> float:
        return (value - self.low) / (self.high - self.low)


def _axis(values: Sequence[float], tight: bool = False) -> _Axis:
    """An axis over the values: from tick to tick, or just as far as the values go (from 0 where
    they begin near it)."""
    low, high = min(values), max(values)
    if tight and 0 < low < high / 5:
        low = 0.0
    marks = ticks(low, high)
    if tight and high > low:
        return _Axis(low, high, [mark for mark in marks if low <= mark <= high])
    return _Axis(marks[0], marks[-1], marks)


def _x(axis: _Axis, value: float) -> float:
    return LEFT + axis.share(value) * (WIDTH - LEFT - RIGHT)


def _y(axis: _Axis, value: float) -> float:
    return HEIGHT - BOTTOM - axis.share(value) * (HEIGHT - TOP - BOTTOM)


def _grid(chart: Chart, x_axis: _Axis, y_axis: _Axis) -> Html:
    lines: list[str] = []
    for mark in y_axis.ticks:
        y = _y(y_axis, mark)
        lines.append(
            f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" '
            f'stroke="var(--line)"/>'
            f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">'
            f"{escape(_short(mark, chart.percent))}</text>"
        )
    base = HEIGHT - BOTTOM
    for mark in x_axis.ticks:
        x = _x(x_axis, mark)
        anchor = "end" if x > WIDTH - RIGHT - 14 else "middle"
        lines.append(
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{base}" y2="{base + 4}" stroke="var(--soft)"/>'
            f'<text x="{x:.1f}" y="{base + 16}" text-anchor="{anchor}">'
            f"{escape(_short(mark))}</text>"
        )
    lines.append(
        f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{base}" y2="{base}" stroke="var(--soft)"/>'
        f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 5}" text-anchor="middle" '
        f'fill="var(--soft)">{escape(chart.x_label)}</text>'
    )
    return Html("".join(lines))


def _curve(series: Series, number: int, x_axis: _Axis, y_axis: _Axis) -> Html:
    colour = f"var(--c{number % COLOURS})"
    dash = DASHES[number % len(DASHES)]
    places = [(_x(x_axis, x), _y(y_axis, y)) for x, y in thinned(series.points)]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    parts = [
        f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="1.8" '
        f'stroke-linejoin="round"' + (f' stroke-dasharray="{dash}"' if dash else "") + "/>"
    ]
    if series.markers or len(places) == 1:
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.6" fill="{colour}"/>' for x, y in places]
    return Html("".join(parts))


def _level(level: Level, y_axis: _Axis) -> Html:
    y = _y(y_axis, level.value)
    return Html(
        f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="var(--soft)" '
        f'stroke-dasharray="2 3"/>'
    )


def _legend(series: Series, number: int, chart: Chart) -> Html:
    swatch = _swatch(f"var(--c{number % COLOURS})", DASHES[number % len(DASHES)])
    return tag("li", join(swatch, f"{series.name} {_say(series.points[-1][1], chart)}"))


def _swatch(colour: str, dash: str) -> Html:
    dashes = f' stroke-dasharray="{dash}"' if dash else ""
    return Html(
        '<svg viewBox="0 0 24 8" aria-hidden="true"><line x1="0" x2="24" y1="4" y2="4" '
        f'stroke="{colour}" stroke-width="2.4"{dashes}/></svg>'
    )


def _say(value: float, chart: Chart) -> str:
    """A value in the legend."""
    if chart.percent:
        return f"{100 * value:.1f} %"
    if value != 0 and not 0.001 <= abs(value) < 1000:
        return f"{value:.2e}" if abs(value) < 0.001 else _short(value)
    return f"{value:.3g}"


def _short(value: float, percent: bool = False) -> str:
    """A tick's label: 5, 0.25, 20 k, 1.5 M, 2e-04, 40 %."""
    if percent:
        return f"{round(100 * value, 6):g} %"
    size = abs(value)
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if size >= limit:
            scale = {"G": 1e9, "M": 1e6, "k": 1e3}[unit]
            return f"{round(value / scale, 6):g} {unit}"
    if 0 < size < 0.0001:
        return f"{value:.0e}"
    return f"{round(value, 9):g}"
