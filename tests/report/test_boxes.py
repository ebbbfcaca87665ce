"""A box plot shows the quartiles that the numbers have, and stands alone."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import numpy as np
import pytest

from bertkit.report.boxes import BOTTOM, HEIGHT, TOP, Group, box_plot, quartiles
from bertkit.report.chart import Level


def test_quartiles_are_interpolated() -> None:
    values = [0.3, 0.9, 0.1, 0.7, 0.55, 0.2]
    assert quartiles(values) == pytest.approx(np.quantile(values, [0.25, 0.5, 0.75]))
    assert quartiles([0.4]) == (0.4, 0.4, 0.4)


def test_box_median_and_whiskers_stand_at_their_values() -> None:
    svg = box_plot("Accuracy", [Group("a", [0, 25, 50, 75, 100])])
    height = HEIGHT - TOP - BOTTOM
    (box,) = re.findall(r'<rect x="[\d.]+" y="([\d.]+)" width="[\d.]+" height="([\d.]+)"', svg)
    assert float(box[0]) == pytest.approx(TOP + height / 4, abs=0.1)
    assert float(box[1]) == pytest.approx(height / 2, abs=0.1)
    points = [float(y) for y in re.findall(r'<circle cx="[\d.]+" cy="([\d.]+)"', svg)]
    assert points == pytest.approx([TOP + height * share for share in (1, 0.75, 0.5, 0.25, 0)])


def test_a_group_of_one_and_equal_values_are_drawn() -> None:
    svg = box_plot("x", [Group("one", [0.5]), Group("same", [0.5, 0.5])])
    assert svg.count("<rect") == 2
    assert svg.count("<circle") == 3
    assert "nan" not in svg


def test_the_file_is_xml_whatever_the_names() -> None:
    svg = box_plot("a < b & c", [Group('adam "paper"\n3 epochs', [1, 2])], Level("<chance>", 1.5))
    root = ElementTree.fromstring(svg)
    assert root.attrib["aria-label"] == "a < b & c"
    texts = ["".join(node.itertext()) for node in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"a < b & c", 'adam "paper"', "3 epochs", "<chance>"} <= set(texts)
