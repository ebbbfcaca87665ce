"""Power laws are straight lines, and their exponents are found."""

from __future__ import annotations

import re
from itertools import pairwise
from xml.etree import ElementTree

import pytest

from bertkit.report.loglog import HEIGHT, WIDTH, Line, exponent, log_log_plot

SQUARE = [(float(x), 0.5 * x**2) for x in (1, 2, 4, 16)]


def test_the_exponent_of_a_power_law_is_found() -> None:
    assert exponent(SQUARE) == pytest.approx(2)
    assert exponent([(x, 3 / x) for x in (1.0, 10.0, 100.0)]) == pytest.approx(-1)
    with pytest.raises(ValueError, match="two different sizes"):
        exponent([(2.0, 1.0), (2.0, 3.0)])


def test_a_power_law_is_drawn_as_a_straight_line_inside_the_picture() -> None:
    drawn = log_log_plot("Cost <of>", "size", "seconds", [Line("square & co", SQUARE)])
    ElementTree.fromstring(drawn)
    assert "square &amp; co: exponent 2.00" in drawn and "Cost &lt;of&gt;" in drawn
    points = re.search(r'points="([^"]+)"', drawn)
    assert points is not None
    places = [tuple(map(float, pair.split(","))) for pair in points[1].split()]
    slopes = {round((b[1] - a[1]) / (b[0] - a[0]), 2) for a, b in pairwise(places)}
    assert max(slopes) - min(slopes) < 0.02
    assert all(0 < x < WIDTH and 0 < y < HEIGHT for x, y in places)


def test_one_point_size_still_has_axes() -> None:
    assert "exponent" in log_log_plot("t", "x", "y", [Line("a", [(1.0, 1.0), (2.0, 1.0)])])
