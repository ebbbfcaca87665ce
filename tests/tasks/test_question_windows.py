"""Windows are cut as the reference release cuts them, and offsets are the untouched context's."""

from __future__ import annotations

import random

import numpy as np
import pytest

from bertkit.errors import UserError
from bertkit.tasks import question_windows
from bertkit.tasks.question_windows import (
    ContextTokens,
    Window,
    Windowing,
    by_example,
    make_windows,
    max_context,
    tokenize_contexts,
)
from bertkit.tasks.squad import Answer, QuestionExample


def question(context: str, answer: str | None = None, text: str = "who?") -> QuestionExample:
    answers = () if answer is None else (Answer(answer, context.index(answer)),)
    return QuestionExample("q", text, context, answers)


def slices(context_tokens: int, question_tokens: int, windowing: Windowing) -> list[tuple]:
    return windowing.starts(context_tokens, question_tokens)


def test_step_and_overlap_are_two_ways_to_say_it_and_differ():
    step = Windowing(384, step=128, question_tokens=64)
    # room 384 - 12 - 3 = 369
    assert slices(369, 12, step) == [(0, 369)]
    assert slices(370, 12, step) == [(0, 369), (128, 242)]
    assert slices(800, 12, step) == [(0, 369), (128, 369), (256, 369), (384, 369), (512, 288)]
    overlap = Windowing(384, step=None, overlap=128)
    assert slices(800, 12, overlap) == [(0, 369), (241, 369), (482, 318)]
    assert slices(0, 12, step) == []
    # a step beyond the window would lose tokens: it is cut, as in the release
    assert slices(25, 0, Windowing(13, step=99, question_tokens=1)) == [(0, 10), (10, 10), (20, 5)]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"step": 128, "overlap": 128}, "--doc-stride .* or --doc-overlap .* not both"),
        ({"sequence_length": 67}, "use --sequence-length 68 or more"),
        ({"step": 0}, "a step of 0 tokens goes nowhere"),
        ({"step": None, "overlap": 317}, "give 0 to 316"),
        ({"step": None, "overlap": -1}, "give 0 to 316"),
        ({"question_tokens": 0}, "0 question tokens"),
    ],
)
def test_windows_that_cannot_be_are_one_line_for_the_user(settings, message):
    with pytest.raises(UserError, match=message):
        Windowing(**settings).check()


def test_a_window_is_cls_question_sep_context_sep(tiny_tokenizer):
    example = question("the man went to the store", "store")
    [window] = make_windows([example], tiny_tokenizer, Windowing(20, 8, None, 8), True).windows
    tokens = [tiny_tokenizer.vocabulary[n] for n in window.ids]
    assert tokens[0] == "[CLS]" and tokens[-1] == "[SEP]"
    first = tokens.index("[SEP]")
    assert tokens[first + 1 : -1] == tiny_tokenizer.tokenize(example.context)
    assert window.offset == first + 1
    assert list(window.segments) == [0] * (first + 1) + [1] * (len(tokens) - first - 1)
    assert window.tokens == len(window) == len(tokens) == len(window.segments)
    assert tokens[window.target[0]] == tokens[window.target[1]] == "store"


def test_long_questions_lose_their_ends_and_are_counted(tiny_tokenizer):
    examples = [question("the store", text="the man " * 40), question("the store")]
    made = make_windows(examples, tiny_tokenizer, Windowing(384), False)
    assert made.cut_questions == 1
    assert [len(w.question) for w in made.windows] == [64, len(tiny_tokenizer.token_ids("who?"))]
    assert all(w.target is None for w in made.windows)


def test_an_answer_is_learned_where_all_of_it_is_shown_and_cls_elsewhere(tiny_tokenizer):
    context = " ".join(["the man went to the store and bought"] * 6)
    answer = Answer("store and bought", context.index("store", 100))
    example = QuestionExample("q", "who", context, (answer,))
    made = make_windows([example], tiny_tokenizer, Windowing(24, 5, None, 4), True)
    assert made.split == 1
    shown = 0
    for window in made.windows:
        text = [tiny_tokenizer.vocabulary[n] for n in window.ids]
        first, last = window.first, window.first + window.length - 1
        starts, ends = window.context.starts, window.context.ends
        if starts[first] <= answer.start and ends[last] >= answer.end:
            shown += 1
            assert text[window.target[0] : window.target[1] + 1] == ["store", "and", "bought"]
        else:
            assert window.target == (0, 0)
    assert 1 <= shown < len(made.windows)
    # unanswerable: [CLS] everywhere
    made = make_windows([question(context)], tiny_tokenizer, Windowing(24, 5, None, 4), True)
    assert {w.target for w in made.windows} == {(0, 0)}


@pytest.mark.parametrize(
    ("context", "answer"),
    [
        ("the  man \t went", "man \t went"),
        ("he  saw the cafe\u0301, bought", "cafe\u0301"),  # a decomposed accent
        ("he saw CAFÉ bought", "CAFÉ"),
        ("我是书店的人", "书店"),
        ("the man (wantable) ran", "wantable"),
        ("a \u200bman\u200b ran", "man"),
        ("he\u00a0saw\u3000her", "saw"),
    ],
)
def test_the_tokens_of_an_answer_give_back_its_characters(tiny_tokenizer, context, answer):
    example = question(context, answer)
    [window] = make_windows([example], tiny_tokenizer, Windowing(64, 8, None, 8), True).windows
    first, last = (place - window.offset for place in window.target)
    start, end = window.context.starts[first], window.context.ends[last]
    assert context[start:end].strip("\u200b") == answer


def test_an_answer_without_a_token_is_not_trained_on_and_counted(tiny_tokenizer):
    example = question("the \u200b man", "\u200b")
    made = make_windows([example], tiny_tokenizer, Windowing(64, 8, None, 8), True)
    assert (made.lost, made.windows) == (1, [])


def test_a_context_without_tokens_has_no_window(tiny_tokenizer):
    examples = [question(""), question("the man", "man"), question(" \x00")]
    made = make_windows(examples, tiny_tokenizer, Windowing(), False)
    assert [(n, list(own)) for n, own in by_example(made.windows)] == [(1, [0])]


def plain_max_context(spans: list[tuple[int, int]], number: int, position: int) -> bool:
    """The release's rule, a token at a time."""
    best, chosen = None, None
    for index, (start, length) in enumerate(spans):
        end = start + length - 1
        if position < start or position > end:
            continue
        score = min(position - start, end - position) + 0.01 * length
        if best is None or score > best:
            best, chosen = score, index
    return number == chosen


def test_each_token_belongs_to_the_window_that_the_release_says():
    generator = random.Random(0)
    nothing = np.zeros(0, dtype=np.int32)
    context = ContextTokens(nothing, nothing, nothing)
    for _ in range(100):
        windowing = Windowing(
            generator.randrange(8, 40), step=generator.randrange(1, 30), question_tokens=2
        )
        tokens = generator.randrange(1, 120)
        spans = windowing.starts(tokens, 2)
        windows = [Window(0, nothing, context, s, n, None, (0, 1)) for s, n in spans]
        own = max_context(windows)
        for number, (first, length) in enumerate(spans):
            for place in range(length):
                assert own[number][place] == plain_max_context(spans, number, first + place)
        assert sum(int(one.sum()) for one in own) == tokens


def test_each_distinct_context_is_tokenized_once_and_processes_change_nothing(
    tiny_tokenizer, monkeypatch
):
    monkeypatch.setattr(question_windows, "CONTEXTS_AT_ONCE", 2)
    contexts = ["the man", "我 是 人", "", "cafe\u0301 store", "the man"]
    alone = tokenize_contexts(contexts, tiny_tokenizer, 1)
    assert list(alone) == contexts[:4]
    together = tokenize_contexts(contexts, tiny_tokenizer, 2)
    for context, tokens in alone.items():
        pieces = tiny_tokenizer.pieces(context)
        for other in (together[context],):
            assert tokens.ids.tolist() == other.ids.tolist() == pieces.ids
            assert tokens.starts.tolist() == other.starts.tolist() == pieces.starts
            assert tokens.ends.tolist() == other.ends.tolist() == pieces.ends


def test_every_answer_of_squad_is_in_a_window_and_comes_back(shared_data):
    from bertkit.tasks.squad import read_squad
    from bertkit.text.tokenizer import Tokenizer

    examples = read_squad(shared_data / "squad" / "dev-v1.1.json")[:3000]
    tokenizer = Tokenizer.load(shared_data / "vocab/bert-base-uncased/vocab.txt", lower_case=True)
    made = make_windows(examples, tokenizer, Windowing(), True)
    exact = 0
    for number, own in by_example(made.windows):
        answer = examples[number].trained_answer()
        targets = [w for w in (made.windows[n] for n in own) if w.target != (0, 0)]
        assert targets
        for window in targets:
            first, last = (p - window.offset + window.first for p in window.target)
            start, end = window.context.starts[first], window.context.ends[last]
            assert start <= answer.start and end >= answer.end
        exact += examples[number].context[start:end] == answer.text
    assert exact / len(examples) > 0.99  # the others end inside a token, as "18" of "1870"
