"""Charts show the curve that the numbers are, inside their frame."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest

from bertkit.report.chart import (
    BOTTOM,
    HEIGHT,
    LEFT,
    MOST_POINTS,
    RIGHT,
    TOP,
    WIDTH,
    Chart,
    Level,
    Series,
    figure,
    thinned,
    ticks,
)


def lines(svg: str) -> list[list[tuple[float, float]]]:
    return [
        [tuple(map(float, pair.split(","))) for pair in points.split(" ")]
        for points in re.findall(r'<polyline points="([^"]+)"', svg)
    ]


def test_a_curve_runs_from_corner_to_corner_of_its_values() -> None:
    svg = figure(Chart("Loss", [Series("training", [(0, 1.0), (50, 2.0), (100, 5.0)])]))
    ((first, middle, last),) = lines(svg)
    assert first == (LEFT, HEIGHT - BOTTOM)
    assert middle == pytest.approx(((LEFT + WIDTH - RIGHT) / 2, HEIGHT - BOTTOM - 184 / 4), abs=0.1)
    assert last == (WIDTH - RIGHT, TOP)
    assert HEIGHT - BOTTOM - TOP == 184
    assert ">training 5<" in svg


@pytest.mark.parametrize(
    "points",
    [
        [(5, 3.0)],
        [(1, 2.0), (2, 2.0)],
        [(1, 0.0), (2, 0.0)],
        [(1, -1e-9), (2, 1e12)],
        [(3, 1e-7), (1e7, 2e-7)],
    ],
)
def test_odd_values_stay_inside_the_frame(points: list[tuple[float, float]]) -> None:
    svg = figure(Chart("x", [Series("one", points)], levels=[Level("chance", points[0][1])]))
    for line in lines(svg):
        assert all(LEFT - 0.1 <= x <= WIDTH and 0 <= y <= HEIGHT for x, y in line)
    assert "nan" not in svg and "inf" not in svg


def test_nothing_to_draw_is_nothing() -> None:
    assert figure(Chart("Loss", [Series("training", [])])) == ""
    assert figure(Chart("Loss", [])) == ""


def test_series_differ_in_more_than_colour_and_names_are_escaped() -> None:
    points = [(1.0, 1.0), (2.0, 3.0)]
    svg = figure(Chart("<b>", [Series("a<b", points), Series("c", points, markers=True)]))
    assert svg.count("stroke-dasharray") == 2  # the second curve and its legend
    assert svg.count("<circle") == 2
    assert "a&lt;b" in svg and "<b>&lt;b&gt;</b>" in svg


@pytest.mark.parametrize(
    ("low", "high"),
    [(0, 1), (3.2, 7.9), (0, 1500), (-2, 2), (1e-5, 2e-3), (5, 5), (0, 0), (0.3, 0.31)],
)
def test_ticks_are_round_and_span_the_values(low: float, high: float) -> None:
    marks = ticks(low, high)
    assert marks[0] <= low + 1e-12 and marks[-1] >= high - 1e-12
    assert 2 <= len(marks) <= 8
    steps = {round((b - a) / (marks[1] - marks[0]), 6) for a, b in pairwise(marks)}
    assert steps == {1.0}


def test_a_long_curve_is_drawn_as_means_and_ends_where_it_ends() -> None:
    points = [(float(k), float(k % 2)) for k in range(10001)]
    thin = thinned(points)
    assert len(thin) == MOST_POINTS
    assert thin[-1] == points[-1]
    assert all(0.4 < y < 0.6 for _, y in thin[:-1])
    assert thin == sorted(thin)
    assert thinned(points[:5]) == points[:5]
