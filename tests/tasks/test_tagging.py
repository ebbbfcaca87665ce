"""The first sub-token of each word carries its tag, and no word goes without one."""

from __future__ import annotations

import random

import numpy as np
import pytest

from bertkit.tasks.readers import WordsExample
from bertkit.tasks.tagging import decode, features, find_entities, label_names, windows
from bertkit.tasks.task import TaskOptions

LABELS = ["O", "B-PER", "I-PER"]


def test_only_the_first_piece_of_a_word_is_asked(tiny_tokenizer):
    example = WordsExample(["unaffable", "man"], ["B-PER", "O"])
    [one] = features([example], tiny_tokenizer, LABELS, TaskOptions(16)).features
    tokens = [tiny_tokenizer.vocabulary[number] for number in one.ids]
    assert tokens == ["[CLS]", "un", "##aff", "##able", "man", "[SEP]"]
    assert one.asked == [1, 4]
    assert one.targets == [1, 0]


def test_both_tags_of_a_type_are_labels_though_one_is_absent():
    assert label_names([WordsExample(["a", "b"], ["O", "B-PER"])]) == ["O", "B-PER", "I-PER"]
    assert label_names([WordsExample(["a", "b"], ["NN", "VB"])]) == ["NN", "VB"]


def test_every_word_is_asked_exactly_once_whatever_the_length():
    generator = random.Random(1)
    for _ in range(400):
        room = generator.randrange(1, 30)
        lengths = [generator.randrange(0, min(room, 4) + 1) for _ in range(generator.randrange(80))]
        found = windows(lengths, room)
        asked = sorted(word for _, _, words in found for word in words)
        assert asked == [word for word, length in enumerate(lengths) if length]
        for first, last, words in found:
            assert sum(lengths[first:last]) <= room
            assert all(first <= word < last for word in words)


def test_a_word_in_a_long_sentence_sees_context_on_both_sides():
    room = 32
    lengths = [1] * 300
    for first, last, words in windows(lengths, room):
        for word in words:
            assert word - first >= room // 8 or first == 0
            assert last - 1 - word >= room // 8 - 1 or last == len(lengths)


def test_a_word_without_tokens_is_outside_and_counted(tiny_tokenizer):
    example = WordsExample(["man", "\u200b\x07", "dog"], ["B-PER", "O", "O"])
    made = features([example], tiny_tokenizer, None, TaskOptions(16))
    assert made.unseen_words == 1
    [one] = made.features
    assert one.words == [0, 2]
    rows = np.array([[0.1, 0.8, 0.1], [0.2, 0.2, 0.6]], dtype=np.float32)
    [prediction] = decode([example], made.features, [rows], LABELS, TaskOptions(16))
    assert prediction.tags == ["B-PER", "O", "I-PER"]


def test_a_sentence_of_nothing_but_controls_is_all_outside(tiny_tokenizer):
    example = WordsExample(["\x07"], [])
    made = features([example], tiny_tokenizer, None, TaskOptions(16))
    assert made.features == []
    [prediction] = decode([example], [], [], LABELS, TaskOptions(16))
    assert prediction.tags == ["O"]


def test_a_word_longer_than_the_sequence_still_gets_its_tag(tiny_tokenizer):
    example = WordsExample(["a", "-" * 1000, "b"], ["O", "O", "O"])
    made = features([example], tiny_tokenizer, LABELS, TaskOptions(12))
    assert sorted(word for one in made.features for word in one.words) == [0, 1, 2]
    assert max(len(one.ids) for one in made.features) <= 12


def test_entities_point_to_the_untouched_text():
    text = "At Jim  Henson's, 我"
    offsets = [(0, 2), (3, 6), (8, 14), (14, 15), (15, 16), (16, 17), (18, 19)]
    example = WordsExample([text[a:b] for a, b in offsets], [], text, offsets)
    tags = ["O", "B-PER", "I-PER", "O", "O", "O", "I-PER"]
    first, second = find_entities(example, tags, [1.0, 0.5, 0.7, 1, 1, 1, 0.9])
    assert (first.text, first.start, first.end) == ("Jim  Henson", 3, 14)
    assert first.probability == pytest.approx(0.6)
    assert (second.text, second.label) == ("我", "PER")


def test_entities_of_given_words_point_into_the_words_joined_by_blanks():
    example = WordsExample(["At", "Jim", "Henson"], [])
    [entity] = find_entities(example, ["O", "B-PER", "I-PER"], [1, 1, 1])
    assert " ".join(example.words)[entity.start : entity.end] == entity.text == "Jim Henson"
