"""The corpus on disk: what is read is what was written, and damage is named."""

from __future__ import annotations

import json
import pickle
import shutil
import time
from pathlib import Path

import numpy as np
import pytest

from bertkit.corpus.config import PrepareConfig
from bertkit.corpus.format import Corpus, token_type
from bertkit.corpus.prepare import prepare
from bertkit.errors import UserError
from bertkit.text.documents import read_documents
from bertkit.text.sentences import split_sentences
from bertkit.text.tokenizer import Tokenizer


def test_ids_have_the_smallest_type_that_holds_the_vocabulary() -> None:
    sizes = [1, 256, 257, 65536, 65537, 119547]
    assert [token_type(size).itemsize for size in sizes] == [1, 1, 2, 2, 4, 4]


def test_a_corpus_holds_every_token_of_every_document(
    config: PrepareConfig, tiny_tokenizer: Tokenizer
) -> None:
    prepare(config)
    corpus = Corpus.open(config.output)
    assert list(corpus.splits) == ["train", "dev"]
    assert len(corpus.manifest["shards"]) > 2
    expected = {
        document.id: [
            ids
            for sentence in split_sentences(document.text)
            if (ids := tiny_tokenizer.token_ids(sentence))
        ]
        for document in read_documents(config.inputs)
    }
    found = {}
    for split in corpus.splits.values():
        bounds = split.document_bounds
        assert bounds.dtype == np.int64 and bounds[0] == 0 and (np.diff(bounds) > 0).all()
        lengths = split.sentence_lengths
        assert len(lengths) == bounds[-1] == split.sentences and lengths.min() > 0
        assert lengths.sum(dtype=np.int64) == split.tokens
        names = [split.document_id(number) for number in range(split.documents)]
        assert names == list(split.document_ids())
        for number, name in enumerate(names):
            sentences = np.arange(bounds[number], bounds[number + 1])
            ids, counts = split.read(sentences, np.ones_like(sentences))
            assert name not in found
            found[name] = [part.tolist() for part in np.split(ids, np.cumsum(counts)[:-1])]
    assert found == expected


def test_runs_of_sentences_are_read_end_to_end(config: PrepareConfig) -> None:
    prepare(config)
    split = Corpus.open(config.output).splits["train"]
    bounds = split.document_bounds
    everything, _ = split.read(bounds[:-1], np.diff(bounds))
    ends = np.concatenate([[0], np.cumsum(split.sentence_lengths, dtype=np.int64)])
    random = np.random.default_rng(0)
    document = random.integers(0, split.documents, 200)
    first = random.integers(bounds[document], bounds[document + 1])
    count = random.integers(0, bounds[document + 1] - first + 1)
    ids, lengths = split.read(first, count)
    assert (ids.dtype, lengths.dtype) == (np.int32, np.int64)
    expected = [
        everything[ends[a] : ends[a + n]] for a, n in zip(first.tolist(), count, strict=True)
    ]
    assert lengths.tolist() == list(map(len, expected))
    assert ids.tolist() == np.concatenate(expected).tolist()
    nothing = np.empty(0, dtype=np.int64)
    assert [len(part) for part in split.read(nothing, nothing)] == [0, 0]


def test_a_sentence_outside_of_the_split_is_refused(config: PrepareConfig) -> None:
    prepare(config)
    split = Corpus.open(config.output).splits["dev"]
    for first, count in ((-1, 1), (split.sentences, 1), (split.sentences - 1, 2), (0, -1)):
        with pytest.raises(IndexError):
            split.read(np.array([first]), np.array([count]))
    for document in (-1, split.documents):
        with pytest.raises(IndexError):
            split.document_id(document)


def test_256_runs_are_read_in_less_than_a_few_milliseconds(config: PrepareConfig) -> None:
    prepare(config)
    split = Corpus.open(config.output).splits["train"]
    bounds = split.document_bounds
    document = np.arange(256) % split.documents
    first, count = bounds[document], np.diff(bounds)[document]
    best = min(_seconds(lambda: split.read(first, count)) for _ in range(20))
    assert best < 0.003  # well under 1 ms on a quiet machine


def _seconds(work: object) -> float:
    started = time.perf_counter()
    work()  # type: ignore[operator]
    return time.perf_counter() - started


def test_a_split_is_pickled_by_its_path(config: PrepareConfig) -> None:
    prepare(config)
    split = Corpus.open(config.output).splits["dev"]
    content = pickle.dumps(split)
    assert len(content) < 1000
    copy = pickle.loads(content)
    assert copy.name == "dev" and copy.document_bounds.tolist() == split.document_bounds.tolist()


def test_decoded_sentences_can_be_read(config: PrepareConfig) -> None:
    Path(config.inputs[0], "00.txt").write_text("Dogs ran. 我 wanted Milk!")
    prepare(config)
    split = Corpus.open(config.output).splits["train"]
    number = list(split.document_ids()).index("00.txt")
    first, stop = split.document_bounds[number : number + 2].tolist()
    assert split.decode(first, stop - first) == ["dogs ran .", "我 wanted milk !"]


def test_the_tokenizer_travels_with_the_corpus(
    config: PrepareConfig, tiny_tokenizer: Tokenizer
) -> None:
    prepare(config)
    corpus = Corpus.open(config.output)
    tokenizer = corpus.tokenizer()
    assert tokenizer.vocabulary == tiny_tokenizer.vocabulary
    assert tokenizer.lower_case is True
    assert corpus.manifest["vocabulary"]["size"] == len(tiny_tokenizer)
    lines = (corpus.path / "vocab.txt").read_text().splitlines()
    lines[-1], lines[-2] = lines[-2], lines[-1]
    (corpus.path / "vocab.txt").write_text("\n".join(lines) + "\n")
    with pytest.raises(UserError, match=r"is not the vocabulary|does not belong to this model"):
        Corpus.open(config.output).tokenizer()


def test_identity_is_the_content(config: PrepareConfig, texts: Path) -> None:
    prepare(config)
    first = Corpus.open(config.output).identity
    moved = shutil.copytree(config.output, config.output + "-moved")
    assert Corpus.open(moved).identity == first
    config.seed = 1
    prepare(config)
    assert Corpus.open(config.output).identity != first
    config.seed = 0
    prepare(config)
    assert Corpus.open(config.output).identity == first
    (texts / "00.txt").write_text("The dog ran.")
    prepare(config)
    assert Corpus.open(config.output).identity != first


def test_a_flipped_bit_is_found_and_named(config: PrepareConfig) -> None:
    prepare(config)
    corpus = Corpus.open(config.output)
    corpus.verify()
    names = [path for path in sorted(corpus.path.rglob("*")) if "shards/" in path.as_posix()]
    assert len(names) > 8
    for path in [*names[:5], corpus.path / "vocab.txt", corpus.path / "tokenizer_config.json"]:
        content = path.read_bytes()
        path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        with pytest.raises(UserError, match=rf"{path.name}: damaged"):
            corpus.verify()
        path.write_bytes(content)
    corpus.verify()


def test_missing_and_cut_files_are_named_when_a_corpus_is_opened(config: PrepareConfig) -> None:
    prepare(config)
    path = Path(config.output, "shards", "00001.train.tokens")
    content = path.read_bytes()
    path.write_bytes(content[:-1])
    with pytest.raises(UserError, match=r"00001\.train\.tokens has \d+ bytes where"):
        Corpus.open(config.output)
    path.unlink()
    with pytest.raises(UserError, match=r"00001\.train\.tokens is missing"):
        Corpus.open(config.output)


def test_what_is_no_corpus_is_refused(config: PrepareConfig, tmp_path: Path) -> None:
    prepare(config)
    with pytest.raises(UserError, match="there is no corpus"):
        Corpus.open(tmp_path / "nothing")
    with pytest.raises(UserError, match=r"it has no manifest\.json"):
        Corpus.open(tmp_path)
    path = Path(config.output, "manifest.json")
    manifest = json.loads(path.read_text())
    for change, message in (
        ({"version": 2}, r"version 2.*reads version 1.*bertkit prepare"),
        ({"format": "other"}, "is not a corpus' manifest"),
        ({"shards": None}, "is damaged"),
        ({"splits": {"train": {}}}, "is damaged"),
        ({"token_type": "float"}, "is damaged"),
        ({"token_type": "<u4"}, "is damaged"),
        ({"shards": manifest["shards"][:-1]}, "is damaged"),
    ):
        path.write_text(json.dumps(manifest | change))
        with pytest.raises(UserError, match=message):
            Corpus.open(config.output)
    for content in ("[]", "{", ""):
        path.write_text(content)
        with pytest.raises(UserError, match=r"manifest\.json is"):
            Corpus.open(config.output)
