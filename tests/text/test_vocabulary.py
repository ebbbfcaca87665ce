"""Vocabulary learning: merges by frequency, the same bytes for the same text, the layout of ids."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from bertkit.errors import UserError
from bertkit.text.characters import is_cjk
from bertkit.text.config import VocabConfig
from bertkit.text.tokenizer import SPECIAL_TOKENS, Tokenizer, load_vocabulary
from bertkit.text.vocabulary import Coverage, coverage, learn_vocabulary, learn_wordpieces
from tests.text.plain_tokenizer import plain_tokenize, plain_words

STORY = (
    "The man went to the store and bought milk. The milk was old; the man went back!\n\n"
    "我们去书店买书。书店的书很好，我们很高兴。\n\n"
    "Éric wanted to play, and played, and is playing; the players want play.\n\n"
) * 3


def plain_merges(word_counts: Mapping[str, int], alphabet: set[str], least: int) -> list[str]:
    """The pieces of frequency merges, with every pair counted again before each merge."""
    spelled = {}
    for word, count in word_counts.items():
        symbols = [word[0], *["##" + char for char in word[1:]]]
        if alphabet.issuperset(symbols):
            spelled[word] = (symbols, count)
    pieces: list[str] = []
    while True:
        pairs: Counter[tuple[str, str]] = Counter()
        for symbols, count in spelled.values():
            for i in range(len(symbols) - 1):
                pairs[symbols[i], symbols[i + 1]] += count
        if not pairs:
            return pieces
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        if pairs[best] < least:
            return pieces
        piece = best[0] + best[1].removeprefix("##")
        pieces.append(piece)
        for word, (symbols, count) in spelled.items():
            merged: list[str] = []
            i = 0
            while i < len(symbols):
                here = tuple(symbols[i : i + 2]) == best
                merged.append(piece if here else symbols[i])
                i += 2 if here else 1
            spelled[word] = (merged, count)


def random_counts(seed: int) -> dict[str, int]:
    draw = random.Random(seed)
    words = {"".join(draw.choices("abc", k=draw.randint(1, 8))) for _ in range(60)}
    return {word: draw.randint(1, 9) for word in sorted(words)}


@pytest.mark.parametrize("seed", range(20))
def test_merges_are_those_of_counting_anew_each_time(seed: int) -> None:
    counts = random_counts(seed)
    learned = learn_wordpieces(counts, size=1000, min_frequency=2)
    alphabet = {entry for entry in learned if len(entry.removeprefix("##")) == 1}
    expected = [*SPECIAL_TOKENS, *sorted(alphabet, key=lambda e: (e.startswith("##"), e))]
    expected += plain_merges(counts, alphabet, 2)
    assert learned == list(dict.fromkeys(expected))


def test_the_most_frequent_pair_is_merged_first_and_ties_go_by_code_point() -> None:
    counts = {"low": 5, "lower": 2, "newest": 6, "widest": 3}
    learned = learn_wordpieces(counts, size=5 + 10 + 9 + 4)
    assert learned[:5] == ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    characters = [entry for entry in learned[5:] if len(entry.removeprefix("##")) == 1]
    assert characters == [
        *("d", "e", "i", "l", "n", "o", "r", "s", "t", "w"),
        *("##d", "##e", "##i", "##o", "##r", "##s", "##t", "##w"),
    ]
    # e+s and s+t occur 9 times, then es+t; o+w and l+o 7 times, then l+ow; e+w, n+e, w+est 6 times
    assert learned[23:] == ["##es", "##est", "##ow", "low", "##ew"]


def test_a_character_is_in_bare_and_with_hashes_where_it_is_seen_inside_words() -> None:
    learned = learn_wordpieces({"ab": 2, "cb": 1, "d": 2, "x": 1}, size=100)
    assert learned == [*SPECIAL_TOKENS, "a", "b", "d", "##b", "ab"]


def test_a_word_with_a_rare_character_teaches_nothing() -> None:
    counts = {"abx": 2, "a": 9, "b": 9}
    learned = learn_wordpieces(counts, size=100, min_frequency=3)
    assert learned == [*SPECIAL_TOKENS, "a", "b", "##b"]
    assert "abx" in learn_wordpieces(counts, size=100, min_frequency=2)


def test_a_word_that_is_always_unknown_teaches_nothing() -> None:
    learned = learn_wordpieces({"ab" * 101: 5, "cd": 5}, size=100)
    assert "a" not in learned
    assert "cd" in learned
    assert "a" in learn_wordpieces({"ab" * 101: 5, "cd": 5}, size=100, word_limit=202)


def test_the_order_of_the_words_changes_nothing() -> None:
    counts = random_counts(99)
    backwards = dict(reversed(counts.items()))
    assert learn_wordpieces(counts, size=60) == learn_wordpieces(backwards, size=60)


def test_a_vocabulary_too_small_for_the_alphabet_has_the_most_frequent_characters() -> None:
    counts = {"书": 9, "店": 7, "人": 7, "中": 2}
    assert learn_wordpieces(counts, size=8) == [*SPECIAL_TOKENS, "书", "人", "店"]
    assert learn_wordpieces(counts, size=7) == [*SPECIAL_TOKENS, "书", "人"]


def test_half_a_surrogate_pair_is_no_entry() -> None:
    assert learn_wordpieces({"\ud800a": 5, "a": 5}, size=100) == [*SPECIAL_TOKENS, "a", "##a"]


def test_impossible_requests_are_errors() -> None:
    with pytest.raises(UserError, match="5 entries has no room"):
        learn_wordpieces({"a": 5}, size=5)
    with pytest.raises(UserError, match="1 or more"):
        learn_wordpieces({"a": 5}, min_frequency=0)
    with pytest.raises(UserError, match="no character occurs 6 times"):
        learn_wordpieces({"a": 5}, min_frequency=6)
    with pytest.raises(UserError, match="no character"):
        learn_wordpieces({})


def test_coverage_is_that_of_tokenizing_the_text() -> None:
    vocabulary = [*SPECIAL_TOKENS, "a", "##b", "ab", "##a", "c", "书"]
    text = "ab abab ba c 书店 书 c"
    tokens = plain_tokenize(text, vocabulary, lower_case=True)
    words = plain_words(text, lower_case=True)
    bare = [*SPECIAL_TOKENS, "a", "c"]
    fit, poor = coverage([vocabulary, bare], Counter(words))
    assert fit.unknown_rate == tokens.count("[UNK]") / len(words) == 2 / 8
    assert fit.pieces_per_word == len(tokens) / len(words)
    assert fit.whole_words == 5 / 8  # ab, c, 书, 书, c
    assert fit.characters == 8 / 13  # a, c and 书; "b" is an entry only inside words
    assert poor.unknown_rate == 6 / 8
    assert coverage([vocabulary], {}) == [Coverage(0.0, 0.0, 0.0, 0.0)]


# ---- from files to files -----------------------------------------------------------------------


@pytest.fixture
def story(tmp_path: Path) -> Path:
    folder = tmp_path / "documents"
    folder.mkdir()
    for number, paragraph in enumerate(STORY.split("\n\n")):
        if paragraph:
            (folder / f"{number}.txt").write_text(paragraph, encoding="utf-8")
    return folder


def test_a_folder_becomes_a_tokenizer(story: Path, tmp_path: Path) -> None:
    output = tmp_path / "vocabulary"
    config = VocabConfig([str(story)], str(output), size=120, quiet=True)
    result = learn_vocabulary(config)
    tokenizer = Tokenizer.load(output)
    assert tokenizer.lower_case
    assert len(tokenizer) == result.size
    assert tokenizer.vocabulary[:5] == list(SPECIAL_TOKENS)
    assert tokenizer.pad_id == 0
    assert "the" in tokenizer.vocabulary
    assert tokenizer.tokenize("Eric")[0].startswith("e")  # the accent was stripped before counting
    ids = tokenizer.token_ids(STORY)
    assert ids.count(tokenizer.unk_id) == 0 == result.unknown_rate
    assert result.words == len(plain_words(STORY, True))
    assert result.pieces_per_word == len(ids) / result.words
    assert result.documents == 9
    assert yaml.safe_load((output / "vocab.yaml").read_text("utf-8"))["size"] == 120
    assert str(result.size) in str(result)


def test_cased_text_keeps_case_and_accents(story: Path, tmp_path: Path) -> None:
    config = VocabConfig([str(story)], str(tmp_path / "v"), lower_case=False, quiet=True)
    learn_vocabulary(config)
    tokenizer = Tokenizer.load(tmp_path / "v")
    assert not tokenizer.lower_case
    assert tokenizer.tokenize("The Éric") == ["The", "Éric"]


def test_chinese_characters_stay_single(story: Path, tmp_path: Path) -> None:
    learn_vocabulary(VocabConfig([str(story)], str(tmp_path / "v"), quiet=True))
    chinese = [
        entry for entry in load_vocabulary(tmp_path / "v/vocab.txt") if any(map(is_cjk, entry))
    ]
    assert {"书", "店"} <= set(chinese)
    assert all(len(entry) == 1 for entry in chinese)


def test_a_text_too_small_for_the_size_gives_fewer_entries_and_says_so(
    story: Path, tmp_path: Path
) -> None:
    result = learn_vocabulary(VocabConfig([str(story)], str(tmp_path / "v"), quiet=True))
    assert result.requested == 30522
    assert result.size == len(load_vocabulary(tmp_path / "v/vocab.txt")) < 200
    assert "too small for 30,522" in str(result)


def test_the_same_text_gives_the_same_bytes(story: Path, tmp_path: Path) -> None:
    script = (
        "import sys; from bertkit.text.vocabulary import *; "
        "learn_vocabulary(VocabConfig(sys.argv[2:], sys.argv[1], size=110, quiet=True))"
    )
    files = sorted(map(str, story.iterdir()))
    written = set()
    for number, order in enumerate([files, files[::-1], files[3:] + files[:3]]):
        output = tmp_path / f"run{number}" / "v"
        subprocess.run(
            [sys.executable, "-c", script, str(output), *order],
            check=True,
            env=os.environ | {"PYTHONHASHSEED": str(number)},
        )
        written.add(
            tuple(
                (output / name).read_bytes()
                for name in ("vocab.txt", "tokenizer.json", "tokenizer_config.json")
            )
        )
    assert len(written) == 1


def test_an_earlier_vocabulary_is_replaced_but_nothing_else(story: Path, tmp_path: Path) -> None:
    output = tmp_path / "v"
    config = VocabConfig([str(story)], str(output), size=60, quiet=True)
    learn_vocabulary(config)
    config.size = 70
    assert learn_vocabulary(config).size == len(load_vocabulary(output / "vocab.txt")) == 70
    (output / "thesis.tex").write_text("years of work")
    with pytest.raises(UserError, match=r"other files \(thesis\.tex\)"):
        learn_vocabulary(config)
    assert (output / "thesis.tex").read_text() == "years of work"
    with pytest.raises(UserError, match="is a file"):
        learn_vocabulary(VocabConfig([str(story)], str(output / "thesis.tex"), quiet=True))


def test_a_failed_run_leaves_nothing(story: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError):
        learn_vocabulary(VocabConfig([str(story)], str(tmp_path / "v"), size=3, quiet=True))
    with pytest.raises(UserError):
        learn_vocabulary(VocabConfig([str(tmp_path / "absent")], str(tmp_path / "v"), quiet=True))
    assert [path.name for path in tmp_path.iterdir()] == ["documents"]


@pytest.mark.slow
def test_a_vocabulary_of_novels_covers_other_novels(shared_data: Path, tmp_path: Path) -> None:
    novels = sorted((shared_data / "corpora" / "novels-en").glob("*.txt"))
    config = VocabConfig([str(path) for path in novels[:5]], str(tmp_path / "v"), size=8000)
    result = learn_vocabulary(config)
    assert result.size == 8000
    assert result.unknown_rate < 1e-5
    assert result.pieces_per_word < 1.15
    tokenizer = Tokenizer.load(tmp_path / "v")
    other = novels[20].read_text(encoding="utf-8-sig")
    ids = tokenizer.token_ids(other)
    assert ids.count(tokenizer.unk_id) < 1e-4 * len(ids)
    assert len(ids) < 1.25 * len(plain_words(other, lower_case=True))
