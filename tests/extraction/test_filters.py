"""Filters: language, exact and near duplicates."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from bertkit.extraction.filters import NearIndex, digest, languages_of, signature

from .conftest import Run

WORDS = [f"word{n}" for n in range(2000)]


def text(seed: int, length: int = 400) -> str:
    return " ".join(random.Random(seed).choices(WORDS, k=length))


def changed(original: str, share: float) -> str:
    draw = random.Random(1)
    return " ".join("new" if draw.random() < share else word for word in original.split())


def jaccard(one: str, other: str) -> float:
    sets = []
    for words in (one.split(), other.split()):
        sets.append({tuple(words[n : n + 5]) for n in range(len(words) - 4)})
    return len(sets[0] & sets[1]) / len(sets[0] | sets[1])


@pytest.mark.parametrize("share", [0.0, 0.005, 0.01, 0.2, 1.0])
def test_near_duplicates_are_those_above_the_threshold(share: float) -> None:
    wrong = 0
    for seed in range(30):
        original, other = text(seed), changed(text(seed), share)
        similarity = jaccard(original, other)
        if 0.65 < similarity < 0.93:
            continue
        index = NearIndex(0.8)
        for filler in range(100, 105):
            assert index.find_or_add("filler", signature(text(filler))) is None
        assert index.find_or_add("original", signature(original)) is None
        found = index.find_or_add("other", signature(other))
        wrong += (found is not None) != (similarity > 0.8)
        if found is not None:
            assert found[0] == "original" and abs(found[1] - similarity) < 0.2
    assert wrong <= 1


def test_signatures_do_not_depend_on_case_or_white_space_and_know_chinese() -> None:
    assert signature("One two  three\nfour five") == signature("one TWO three four five")
    assert signature("今天天气很好我们去上学") != signature("明天放假他们在家里看书")
    assert len(signature("")) == len(signature("x" * 100_000)) == 512
    assert digest("a  b\nc") == digest("a b c") != digest("a b d")


@pytest.mark.parametrize(
    ("code", "sample"),
    [
        ("en", "The town lies on a river and people have lived there for a long time."),
        ("de", "Die Stadt liegt an einem Fluss, und die Menschen leben dort seit langer Zeit."),
        ("zh", "这个城市位于河边，人们在那里生活了很长时间。"),
    ],
)
def test_a_language_is_known(code: str, sample: str) -> None:
    assert code in languages_of(sample)


def test_filters_are_counted_with_examples(tmp_path: Path, run: Run) -> None:
    texts = {
        "a": "The town lies on a river and people have lived there for a long time.",
        "b": "The town lies on a river and  people\nhave lived there for a long time.",
        "c": "Die Stadt liegt an einem Fluss, und die Menschen leben dort seit langer Zeit.",
        "d": "The town is.",
        "e": " \n ",
    }
    for name, content in texts.items():
        (tmp_path / f"{name}.txt").write_text(content)
    words = "the house and people of that town were not there when she came home"
    long = " ".join(random.Random(3).choices(words.split(), k=400))
    (tmp_path / "f.txt").write_text(long)
    (tmp_path / "g.txt").write_text(long + " and more")
    options = {"language": ["en"], "min_characters": 20, "deduplicate": "near"}
    result, lines = run(tmp_path, **options)
    assert [line["id"] for line in lines] == ["a.txt", "f.txt"]
    assert result.dropped == {
        "exact duplicate": 1,
        "other language": 1,
        "too short": 1,
        "empty": 1,
        "near duplicate": 1,
    }
    assert result.examples["near duplicate"][0].endswith("% of f.txt")
    assert "de: Die Stadt" in result.examples["other language"][0]
    assert "near duplicate" in str(result)
    assert len(run(tmp_path, deduplicate="exact")[1]) == 5
