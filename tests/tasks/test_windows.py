"""Windows over long texts: every token in exactly one, with as much around it as there is."""

from __future__ import annotations

import random

import numpy as np
import pytest

from bertkit.errors import UserError
from bertkit.tasks.windows import (
    merge_numbers,
    merge_sigmoid,
    merge_softmax,
    moving_windows,
    text_sequences,
    text_windows,
)


def test_every_token_belongs_to_exactly_one_window():
    generator = random.Random(2)
    for _ in range(300):
        count, room = generator.randrange(0, 200), generator.randrange(1, 40)
        windows = moving_windows(count, room)
        assert [token for _, own in windows for token in own] == list(range(count))
        for shown, own in windows:
            assert len(shown) == min(count, room)
            assert set(own) <= set(shown)


def test_a_text_that_fits_is_one_window():
    assert moving_windows(7, 7) == [(range(7), range(7))]
    assert moving_windows(0, 7) == [(range(0), range(0))]


def test_a_token_sees_context_on_both_sides():
    for shown, own in moving_windows(1000, 64):
        for token in own:
            assert token - shown.start >= 8 or shown.start == 0
            assert shown.stop - 1 - token >= 7 or shown.stop == 1000


def test_the_shorter_text_of_a_pair_is_in_every_window():
    generator = random.Random(3)
    for _ in range(300):
        lengths = [generator.randrange(0, 90), generator.randrange(0, 90)]
        room = generator.randrange(2, 60)
        windows, shortened = text_windows(lengths, room)
        short = min(lengths) if sum(lengths) <= room else min(*lengths, room // 2)
        assert shortened == (short < min(lengths))
        standing = 1 if lengths[0] > lengths[1] else 0
        for window in windows:
            assert sum(map(len, window.shown)) <= room
            assert window.shown[standing] == range(short)
        owned = [[t for window in windows for t in window.own[k]] for k in (0, 1)]
        assert owned[standing] == list(range(short))
        assert owned[1 - standing] == list(range(max(lengths)))


def test_a_room_too_small_for_a_pair_is_said():
    with pytest.raises(UserError, match="1 tokens beside the special ones leave no room"):
        text_windows([5, 6], 1)


def test_a_cut_text_is_the_reference_releases(tiny_tokenizer):
    generator = random.Random(5)
    for _ in range(200):
        texts = [" ".join("a" * generator.randrange(0, 20)) for _ in range(2)]
        length = generator.randrange(5, 40)
        for text, pair in ((texts[0], None), texts):
            parts = [tiny_tokenizer.token_ids(part) for part in (text, pair) if part is not None]
            encoding = tiny_tokenizer.encode(text, pair, max_length=length)
            [(ids, segments)], cut = text_sequences(parts, tiny_tokenizer, length, "cut")
            assert (ids, segments) == (encoding.ids, encoding.segment_ids)
            whole = tiny_tokenizer.encode(text, pair, max_length=None)
            assert cut == (len(whole.ids) > length)
            sequences, lost = text_sequences(parts, tiny_tokenizer, length, "windows")
            assert all(len(ids) <= length for ids, _ in sequences)
            if not cut:
                assert (sequences, lost) == ([(ids, segments)], False)


def test_answers_of_windows_are_averaged_as_probabilities_or_as_logits():
    generator = np.random.default_rng(0)
    logits = generator.normal(size=(3, 1, 5)).astype(np.float32) * 3
    softmax = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
    assert merge_softmax(softmax, "probabilities") == pytest.approx(softmax.mean(axis=0))
    mean = np.exp(logits.mean(axis=0))
    assert merge_softmax(softmax, "logits") == pytest.approx(mean / mean.sum(), abs=1e-5)
    sigmoid = 1 / (1 + np.exp(-logits[:, 0]))
    assert merge_sigmoid(sigmoid, "probabilities") == pytest.approx(sigmoid.mean(axis=0))
    expected = 1 / (1 + np.exp(-logits[:, 0].mean(axis=0)))
    assert merge_sigmoid(sigmoid, "logits") == pytest.approx(expected, abs=1e-5)
    assert merge_sigmoid(np.array([[1.0], [1.0]], np.float32), "logits") == pytest.approx(1)
    assert merge_numbers(logits[:, 0], "logits") == pytest.approx(logits[:, 0].mean(axis=0))
    certain = np.array([[1.0, 0.0], [0.0, 1.0]], np.float32)
    assert merge_softmax(certain, "logits") == pytest.approx([0.5, 0.5])
