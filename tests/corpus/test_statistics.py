"""Statistics are those of the documents, the same on the terminal, in the manifest and the page."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np

from bertkit.corpus.config import PrepareConfig
from bertkit.corpus.format import Corpus
from bertkit.corpus.prepare import prepare
from bertkit.corpus.statistics import PERCENTILES, Lengths


def plain(lengths: np.ndarray) -> Lengths:
    """The definition: the smallest length that at least so many per cent do not exceed."""
    percentiles = {
        str(p): int(np.percentile(lengths, p, method="inverted_cdf")) for p in PERCENTILES
    }
    return Lengths(float(np.mean(lengths)), percentiles, int(max(lengths)))


def test_lengths_are_those_of_sentences_and_documents(config: PrepareConfig) -> None:
    result = prepare(config)
    corpus = Corpus.open(config.output)
    assert set(corpus.splits) == {"train", "dev"}
    for name, split in corpus.splits.items():
        ends = np.concatenate([[0], np.cumsum(split.sentence_lengths, dtype=np.int64)])
        found = result.splits[name]
        assert found.sentence_tokens == plain(split.sentence_lengths)
        assert found.document_tokens == plain(np.diff(ends[split.document_bounds]))
        assert found.document_sentences == plain(np.diff(split.document_bounds))
        assert json.loads(json.dumps(asdict(found))) == corpus.manifest["splits"][name]


def test_the_table_and_the_page_tell_them(config: PrepareConfig) -> None:
    result = prepare(config)
    train = result.splits["train"]
    assert "train, tokens a sentence" in str(result) and f"{train.tokens:,}" in str(result)
    page = Path(config.output, "report.html").read_text(encoding="utf-8")
    assert "Tokens a document, training" in page and "Held out" in page
    assert f">{train.document_tokens.longest}<" in page


def test_the_page_is_part_of_the_same_bytes(config: PrepareConfig, tmp_path: Path) -> None:
    prepare(config)
    other = replace(config, output=str(tmp_path / "elsewhere"), workers=2)
    prepare(other)
    pages = [Path(path, "report.html").read_bytes() for path in (config.output, other.output)]
    assert pages[0] == pages[1]
