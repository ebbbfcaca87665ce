"""Holding documents out of a stream, in one reading, whatever their order."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from bertkit.text.documents import Document
from bertkit.text.holdout import HoldoutStream, split_key


def documents(count: int) -> list[Document]:
    return [Document(f"{number}", f"text {number}") for number in range(count)]


def split(given: list[Document], share: float) -> tuple[HoldoutStream, set[str], set[str]]:
    stream = HoldoutStream(share, seed=0)
    sides: dict[bool, list[str]] = {True: [], False: []}
    for held_out, text in stream.split(given):
        sides[held_out].append(text)
    assert Counter(sides[True] + sides[False]) == Counter(one.text for one in given)
    assert len(sides[True]) == stream.held_out
    assert stream.documents == len(given)
    return stream, set(sides[True]), set(sides[False])


@pytest.mark.parametrize("share", [0.2, 0.001])
def test_the_choice_does_not_depend_on_the_order(share: float) -> None:
    given = documents(200)
    first = split(given, share)
    assert first[0].valid
    for seed in range(5):
        shuffled = random.Random(seed).sample(given, len(given))
        assert split(shuffled, share)[1:] == first[1:]


def test_held_out_are_the_documents_with_the_lowest_keys() -> None:
    given = documents(1000)
    ordered = sorted(given, key=lambda one: split_key(one, 0))
    stream, held_out, _ = split(given, 0.05)
    assert 25 < stream.held_out < 80
    assert held_out == {one.text for one in ordered[: stream.held_out]}
    assert split(given, 1e-9)[1] == {ordered[0].text}


def test_equal_documents_are_on_one_side() -> None:
    given = documents(30) * 3
    for share in (0.3, 1e-9):
        stream, held_out, rest = split(given, share)
        assert stream.valid
        assert not held_out & rest
        assert stream.held_out == 3 * len(held_out)


def test_few_documents_or_equal_ones_cannot_be_held_out() -> None:
    assert not split(documents(9), 0.5)[0].valid
    assert not split(documents(1) * 50, 0.01)[0].valid
    assert not split([], 0.5)[0].valid
    stream, held_out, _ = split(documents(50), 0)
    assert not stream.valid
    assert not held_out
    assert not split(documents(20), 1 - 1e-12)[0].valid
