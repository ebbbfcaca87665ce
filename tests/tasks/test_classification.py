"""A text, or a pair, becomes the sequence that run_classifier would make of it."""

from __future__ import annotations

from itertools import permutations

import pytest

from bertkit.tasks.classification import CLASSIFICATION, counts, label_names
from bertkit.tasks.readers import TextExample
from bertkit.tasks.task import TaskOptions


@pytest.mark.parametrize("length", [5, 7, 9, 64])
@pytest.mark.parametrize("pair", [None, "", "a new dog ran", "the man went to the house in a city"])
@pytest.mark.parametrize("text", ["", "unaffable man", "he bought milk! in the big river 书店"])
def test_sequences_are_those_of_encode(tiny_tokenizer, text, pair, length):
    examples = [TextExample(text, pair, "x")]
    made = CLASSIFICATION.features(examples, tiny_tokenizer, ["y", "x"], TaskOptions(length))
    encoding = tiny_tokenizer.encode(text, pair, max_length=length)
    [one] = made.features
    assert one.ids == encoding.ids
    assert one.segments == encoding.segment_ids
    assert one.targets == [1]
    whole = tiny_tokenizer.encode(text, pair, max_length=None)
    assert made.truncated == (len(whole.ids) > length)


def test_labels_that_are_numbers_come_in_their_own_order():
    examples = [TextExample("", None, label) for label in ("10", "2", "no", "1", "2")]
    assert label_names(examples) == ["1", "2", "10", "no"]


def test_a_label_that_reads_as_no_finite_number_is_a_word():
    """float("nan") has no place in an order, so that of a set's elements would show."""
    for order in permutations(("nan", "1", "2", "inf", "no")):
        examples = [TextExample("", None, label) for label in order]
        assert label_names(examples) == ["1", "2", "inf", "nan", "no"]
        assert list(counts(examples)) == ["1", "2", "inf", "nan", "no"]
