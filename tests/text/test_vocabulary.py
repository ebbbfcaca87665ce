"""Vocabulary learning: merges by frequency, the same bytes for the same text, the layout of ids."""

from __future__ import annotations

import errno
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from bertkit.cli import main
from bertkit.errors import UserError
from bertkit.text import word_counts
from bertkit.text.characters import is_cjk
from bertkit.text.config import VocabConfig
from bertkit.text.documents import Document
from bertkit.text.holdout import split_key
from bertkit.text.learning import RELEASE_UNUSED, first_entries, list_words
from bertkit.text.tokenizer import SPECIAL_TOKENS, Tokenizer, load_vocabulary
from bertkit.text.vocabulary import (
    WRITTEN_FILES,
    Coverage,
    coverage,
    learn_vocabulary,
    learn_wordpieces,
)
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


def test_the_alphabet_is_bounded_by_its_most_frequent_characters() -> None:
    counts = {"ab": 5, "ba": 3, "书": 9, "c": 7, "d": 7}
    assert learn_wordpieces(counts, size=100, alphabet=1) == [*SPECIAL_TOKENS, "书"]
    learned = learn_wordpieces(counts, size=100, alphabet=3)
    assert learned == [*SPECIAL_TOKENS, "a", "b", "书", "##a", "##b", "ab", "ba"]  # 8, 8, 9
    assert "c" in learn_wordpieces(counts, size=100, alphabet=4)  # before "d" by code point
    with pytest.raises(UserError, match="alphabet is 0"):
        learn_wordpieces(counts, alphabet=0)


def test_unused_entries_stand_where_the_release_has_them(shared_data: Path) -> None:
    released = load_vocabulary(shared_data / "vocab" / "bert-base-uncased" / "vocab.txt")
    assert first_entries(RELEASE_UNUSED) == released[:999]
    assert first_entries(99)[100:] == ["[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    assert first_entries(2) == ["[PAD]", "[unused0]", "[unused1]", *SPECIAL_TOKENS[1:]]
    assert first_entries(0) == list(SPECIAL_TOKENS)
    learned = learn_wordpieces({"ab": 5}, size=1004, unused=994)
    assert learned == [*released[:999], "a", "b", "##b", "ab"]
    with pytest.raises(UserError, match=r"994 .unused. entries"):
        learn_wordpieces({"ab": 5}, size=999, unused=994)


def test_only_the_most_frequent_words_take_part_and_equals_go_by_code_point() -> None:
    counts = {"ab": 5, "cd": 4, "ef": 4, "gh": 4, "ij": 1, "k" * 201: 50}
    for order in (list(counts.items()), list(counts.items())[::-1]):
        listed = list_words(order, max_words=2)
        assert listed.words == {"ab": 5, "cd": 4}
        assert (listed.running, listed.distinct) == (68, 6)
        assert (listed.cut, listed.cut_running) == (3, 9)
    learned = learn_wordpieces(listed, size=100)
    assert set("abcdefgh") <= set(learned)  # characters are those of all words
    assert learned[-2:] == ["ab", "cd"]


def test_pairs_may_have_to_be_more_frequent_than_characters() -> None:
    learned = learn_wordpieces({"ab": 9, "cd": 4}, size=100, min_pair_frequency=5)
    assert learned[-1] == "ab"
    assert {"c", "##d"} <= set(learned)


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


def test_longer_words_than_the_limit_teach_nothing_and_are_unknown(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("abab cd\n\n" * 20 + "ababab cd\n\n" * 20)
    for limit, expected in ((5, "[UNK]"), (None, "ababab")):
        config = VocabConfig([str(tmp_path / "text.txt")], str(tmp_path / "v"), quiet=True)
        config.word_limit, config.size, config.held_out = limit, 40, 0.0
        learn_vocabulary(config)
        tokenizer = Tokenizer.load(tmp_path / "v")
        assert tokenizer.word_limit == (limit or 200)
        assert ("ababab" in tokenizer.vocabulary) == (limit is None)
        assert tokenizer.tokenize("abab ababab") == ["abab", expected]
    config.extend, config.output, config.add = str(tmp_path / "v"), str(tmp_path / "longer"), 1
    config.word_limit, config.size = 4, VocabConfig.size
    learn_vocabulary(config)
    assert Tokenizer.load(tmp_path / "longer").word_limit == 4
    config.word_limit = 0
    with pytest.raises(UserError, match="word_limit"):
        learn_vocabulary(config)


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


@pytest.fixture
def many(tmp_path: Path) -> Path:
    """Sixty documents of many words, in three files."""
    folder = tmp_path / "documents"
    folder.mkdir()
    draw = random.Random(5)
    letters = "abcdefg" * 4 + "xyzé书店é"
    lines = [
        " ".join("".join(draw.choices(letters, k=draw.randint(1, 7))) for _ in range(80))
        for _ in range(60)
    ]
    for number in range(3):
        (folder / f"{number}.txt").write_text("\n".join(lines[number::3]), encoding="utf-8")
    return folder


@pytest.mark.parametrize("criterion", ["frequency", "likelihood"])
def test_the_same_text_gives_the_same_bytes(many: Path, tmp_path: Path, criterion: str) -> None:
    """However many processes count, and in whatever files and order the documents come."""
    script = (
        "import sys; from bertkit.text import word_counts; from bertkit.text.vocabulary import *; "
        "word_counts.BATCH_CHARACTERS, word_counts.TABLE_WORDS = int(sys.argv[2]), int(sys.argv[3])"
        "; result = learn_vocabulary(VocabConfig(sys.argv[6:], sys.argv[1], size=300, quiet=True, "
        "documents='line', workers=int(sys.argv[4]), criterion=sys.argv[5], max_words=700, "
        "held_out=0.1)); result.output, result.seconds = '', 0; print(result)"
    )
    files = sorted(map(str, many.iterdir()))
    lines = [line for name in files for line in Path(name).read_text("utf-8").split("\n")]
    joined = tmp_path / "joined.txt"
    joined.write_text("\n".join(reversed(lines)), encoding="utf-8")
    written = set()
    for number, (batch, table, workers, inputs) in enumerate(
        [
            ("1000", "100", "2", files),
            ("1000", "1000000", "3", files[::-1]),
            ("100000000", "1000000", "1", [str(joined)]),
            ("300", "37", "1", files[1:] + files[:1]),
        ]
    ):
        output = tmp_path / f"run{number}" / "v"
        printed = subprocess.run(
            [sys.executable, "-c", script, str(output), batch, table, workers, criterion, *inputs],
            check=True,
            env=os.environ | {"PYTHONHASHSEED": str(number)},
            capture_output=True,
            text=True,
        ).stdout
        names = ("vocab.txt", "tokenizer.json", "tokenizer_config.json")
        written.add((printed, *((output / name).read_bytes() for name in names)))
        assert {path.name for path in output.iterdir()} == {*WRITTEN_FILES}
    assert len(written) == 1
    assert "held-out documents" in printed
    assert "took no part in merging" in printed


def test_held_out_documents_are_measured_on_and_not_learned_from(tmp_path: Path) -> None:
    text = tmp_path / "t.txt"
    lines = [f"common words and word{number}" for number in range(50)]
    text.write_text("\n".join(lines), encoding="utf-8")
    config = VocabConfig([str(text)], str(tmp_path / "v"), documents="line", held_out=0.3)
    result = learn_vocabulary(replace(config, min_frequency=1, quiet=True))
    keys = [split_key(Document("", line), 0) for line in lines]
    held = [line for line, key in zip(lines, keys, strict=True) if key < 0.3 * 2**64]
    assert 0 < len(held) == result.held_out_documents < 50
    assert result.documents == 50 - len(held)
    assert result.words == 4 * result.documents
    tokenizer = Tokenizer.load(tmp_path / "v")
    for line in lines:
        whole = line.split()[-1] in tokenizer.vocabulary
        assert whole == (line not in held)
    pieces = sum(len(tokenizer.token_ids(line)) for line in held)
    assert result.pieces_per_word == pieces / (4 * len(held))
    assert result.whole_words == 3 / 4
    assert f"on {len(held)} held-out documents" in str(result)


def test_too_few_documents_to_hold_out_are_said(
    story: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = learn_vocabulary(VocabConfig([str(story)], str(tmp_path / "v"), size=60))
    assert "fewer than 10" in capsys.readouterr().err
    assert result.held_out_documents == 0
    assert "on the text it was learned from" in str(result)


def test_the_result_is_json_with_the_longest_and_the_last_entries(
    story: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = ["vocab", str(story), "-o", str(tmp_path / "v"), "--size", "1200", "--json", "--quiet"]
    assert main([*line, "--layout", "release", "--criterion", "likelihood"]) == 0
    printed = json.loads(capsys.readouterr().out)
    vocabulary = load_vocabulary(tmp_path / "v" / "vocab.txt")
    assert printed["last"] == vocabulary[-20:]
    assert len(printed["longest"][0]) == max(map(len, vocabulary[999:]))
    assert printed["characters"] == sum(len(entry) == 1 for entry in vocabulary)
    assert printed["extension"] is None
    assert vocabulary.index("[MASK]") == 103


def test_bad_options_are_one_line(
    story: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for options, message in (
        (["--held-out", "1"], "held_out is 1"),
        (["--workers", "0"], "workers is 0"),
        (["--max-words", "0"], "max_words is 0"),
        (["--alphabet", "0"], "alphabet is 0"),
        (["--unused", "-1"], "unused is -1"),
        (["--unused", "60000"], "no room beside"),
        (["--criterion", "unigram"], "frequency, likelihood"),
    ):
        assert main(["vocab", str(story), "-o", str(tmp_path / "v"), "--quiet", *options]) == 2
        error = capsys.readouterr().err
        assert message in error
        assert error.count("\n") == 1
    assert main(["vocab", str(story), "-o", str(story / "v")]) == 2
    assert "inside the input folder" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["documents"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_leaves_nothing(tmp_path: Path, number: signal.Signals) -> None:
    (tmp_path / "in").mkdir()
    draw = random.Random(1)
    words = ["".join(draw.choices("abcdefghij", k=9)) for _ in range(200_000)]
    for name in "abc":
        (tmp_path / "in" / f"{name}.txt").write_text(" ".join([name, *words]))
    script = (
        "import sys; from bertkit.text import word_counts; from bertkit.cli import main; "
        "word_counts.TABLE_WORDS = 1000; word_counts.BATCH_CHARACTERS = 20000; "
        "sys.exit(main(['vocab', sys.argv[1], '-o', sys.argv[2], '--workers', '2']))"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path / "in"), str(tmp_path / "v")],
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # Where the tests run in the background, Ctrl-C is ignored, and children inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL) and None,
    )
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob(".v.partial-*/counts/words/*")):  # on the disk already
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(number)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert error.splitlines()[-1].startswith("bertkit: stopped")
    assert "Traceback" not in error
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


def test_a_full_disk_is_one_line_and_leaves_nothing(
    many: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(word_counts, "TABLE_WORDS", 100)
    monkeypatch.setattr(word_counts, "BATCH_CHARACTERS", 1000)

    def full(self: word_counts.WordTable) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "00").write_text("half")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(word_counts.WordTable, "_divide", full)
    line = ["vocab", str(many), "-o", str(tmp_path / "v"), "--quiet", "--documents", "line"]
    assert main([*line, "--workers", "1"]) == 2
    assert capfd.readouterr().err == (
        f"bertkit: the disk is full while writing {tmp_path / 'v'}; free some space\n"
    )
    assert [path.name for path in tmp_path.iterdir()] == ["documents"]


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
