"""Word starts: those of jieba, at the tokens that begin them, readable beside the ids."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bertkit.corpus import encode, plan
from bertkit.corpus.config import PrepareConfig
from bertkit.corpus.format import Corpus
from bertkit.corpus.prepare import prepare
from bertkit.corpus.words import marked_ids
from bertkit.errors import UserError
from bertkit.text.tokenizer import SPECIAL_TOKENS, Tokenizer

from .test_prepare import content

jieba = pytest.importorskip("jieba", reason="needs jieba: pip install jieba")

SENTENCES = [
    "我来到北京清华大学。",
    "小明硕士毕业于中国科学院计算所，后在日本京都大学深造！",
    "他用iPhone给Café老板发了3.5元 😀\x00 dogs unaffable",
    "한국어 ß İ e\u0301\u0323 中\u200b国 ﷽",
]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    characters = sorted({c.lower() for c in "".join(SENTENCES) if not c.isspace()} | set("un"))
    vocabulary = [*SPECIAL_TOKENS, *characters, *("##" + c for c in characters)]
    return Tokenizer([*dict.fromkeys([*vocabulary, "dog", "##s", "cafe"])], lower_case=True)


def words_of(sentence: str, tokenizer: Tokenizer) -> list[str]:
    ids, starts = marked_ids(sentence, tokenizer)
    words: list[str] = []
    for number, start in zip(ids, starts, strict=True):
        if start:
            words.append("")
        words[-1] += tokenizer.vocabulary[number].removeprefix("##")
    return words


def test_a_chinese_sentence_falls_into_its_words(tokenizer: Tokenizer) -> None:
    assert words_of(SENTENCES[0], tokenizer) == ["我", "来到", "北京", "清华大学", "。"]
    assert "中国科学院" in words_of(SENTENCES[1], tokenizer)
    assert "iphone" in words_of(SENTENCES[2], tokenizer)


@pytest.mark.parametrize("sentence", SENTENCES)
def test_a_token_starts_a_word_when_its_first_character_does(
    sentence: str, tokenizer: Tokenizer
) -> None:
    ids, starts = marked_ids(sentence, tokenizer)
    assert ids == tokenizer.token_ids(sentence)
    begins = {first for _, first, _ in jieba.Tokenizer().tokenize(sentence)}
    places = tokenizer.pieces(sentence).starts
    for number, place, start in zip(ids, places, starts, strict=True):
        inside = tokenizer.vocabulary[number].startswith("##")
        assert start == (place in begins and not inside)


def test_word_starts_are_read_beside_the_ids(
    config: PrepareConfig, texts: Path, tmp_path: Path, tokenizer: Tokenizer
) -> None:
    folder = tmp_path / "chinese"
    folder.mkdir()
    tokenizer.save(folder)
    for number, path in enumerate(sorted(texts.iterdir())):
        path.write_text("\n\n".join(SENTENCES[number % 3 :]) * (number % 4 + 1))
    config = replace(config, vocab=str(folder), words="jieba", sentences="line")
    prepare(config)
    corpus = Corpus.open(config.output)
    corpus.verify()
    assert corpus.manifest["words"] == f"jieba {jieba.__version__}"
    for split in corpus.splits.values():
        every, one = np.arange(split.sentences), np.ones(split.sentences, dtype=int)
        ids, _ = split.read(every, one)
        starts = split.word_starts(every, one)
        assert split.has_words and starts.dtype == bool and len(starts) == len(ids) == split.tokens
        expected = [
            start
            for document in split.document_ids()
            for line in (texts / document).read_text().split("\n")
            for start in marked_ids(line.strip(), tokenizer)[1]
        ]
        assert starts.tolist() == expected
        random = np.random.default_rng(0)
        first = random.integers(0, split.sentences, 50)
        ends = np.concatenate([[0], np.cumsum(split.sentence_lengths, dtype=np.int64)])
        assert split.word_starts(first, np.ones(50, dtype=int)).tolist() == [
            bit for place in first for bit in starts[ends[place] : ends[place + 1]].tolist()
        ]
        assert len(split.word_starts(first[:0], first[:0])) == 0
    shown = corpus.splits["train"].decode(0, 1, words=True)[0]
    assert shown == "我 来到 北京 清华大学 。" or " " in shown


def test_the_bits_are_the_same_for_any_number_of_workers(
    config: PrepareConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare(replace(config, words="jieba"))
    monkeypatch.setattr(plan, "CHUNK_BYTES", 100)
    other = replace(config, words="jieba", workers=2, output=str(tmp_path / "other"))
    prepare(other)
    assert content(other.output) == content(config.output)
    without = replace(config, output=str(tmp_path / "without"))
    prepare(without)
    found, plain = content(config.output), content(without.output)
    marked = [name for name in found if name.endswith(".words")]
    assert marked and not set(marked) & set(plain)
    assert all(found[name] == plain[name] for name in plain if name.startswith("shards/"))


def test_a_corpus_without_word_starts_says_so(config: PrepareConfig) -> None:
    prepare(config)
    split = Corpus.open(config.output).splits["train"]
    assert not split.has_words
    with pytest.raises(UserError, match="no word starts; prepare it with --words"):
        split.word_starts(np.array([0]), np.array([1]))


def test_a_damaged_words_file_is_found(config: PrepareConfig) -> None:
    prepare(replace(config, words="jieba"))
    path = next(Path(config.output).rglob("*.train.words"))
    before = path.read_bytes()
    path.write_bytes(bytes([before[0] ^ 1]) + before[1:])
    with pytest.raises(UserError, match=r"\.words: damaged"):
        Corpus.open(config.output).verify()
    path.write_bytes(before + b"\x00")
    with pytest.raises(UserError, match=r"\.words has \d+ bytes"):
        Corpus.open(config.output)


def test_jieba_prints_nothing_and_leaves_no_cache(config: PrepareConfig, tmp_path: Path) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    script = (
        "import sys; from dataclasses import replace\n"
        "from bertkit.corpus.words import marked_ids\n"
        "from bertkit.text.tokenizer import Tokenizer\n"
        "marked_ids('我来到北京', Tokenizer.load(sys.argv[1]))"
    )
    done = subprocess.run(
        [sys.executable, "-W", "always", "-B", "-c", script, config.vocab],
        capture_output=True,
        text=True,
        env={"TMPDIR": str(temporary), "PYTHONPATH": ":".join(sys.path)},
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert not list(temporary.iterdir())


def test_without_jieba_the_option_says_what_to_install(
    config: PrepareConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "jieba", None)
    with pytest.raises(UserError, match=r'pip install "bertkit\[chinese\]"'):
        prepare(replace(config, words="jieba"))


def test_a_document_in_pieces_is_one_document_of_the_same_words(
    config: PrepareConfig, texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, path in enumerate(sorted(texts.iterdir())):
        path.write_text(
            "\n\n".join([*SENTENCES[:2], "\x00 \u200b"] * (number % 5)) + "\n\nThe dog."
        )
    config = replace(config, words="jieba", sentences="line", shard_bytes=3000)
    prepare(config)
    monkeypatch.setattr(encode, "PIECE_CHARACTERS", 64)
    monkeypatch.setattr(plan, "PIECE_CHARACTERS", 64)
    for workers in (1, 2):
        other = replace(config, output=str(tmp_path / f"pieces{workers}"), workers=workers)
        prepare(other)
        assert content(other.output) == content(config.output)
