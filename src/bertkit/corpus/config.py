"""The configuration of `bertkit prepare`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from bertkit.config import option


@dataclass
class PrepareConfig:
    """Turn text into a corpus: token ids, sentences and documents on disk, once for all runs."""

    inputs: list[str] = option(
        help="text (.txt) or JSONL files, or folders of them", positional=True
    )
    vocab: str = option(help="folder that 'bertkit vocab' wrote, or a vocab.txt")
    output: str = option(help="folder of the corpus", short="o")
    lower_case: bool | None = option(
        None, help="for a bare vocab.txt: whether it is lower-cased (uncased)"
    )
    word_limit: int | None = option(
        None,
        help="longest word in characters that is not [UNK] at once; default: as stored with the "
        "vocabulary, else 200 (the release; 100 in its first version)",
    )
    special_tokens: bool | None = option(
        None,
        help="take [MASK], [SEP] and the like in the text for the tokens; default: as stored with "
        "the vocabulary, else no (they are text)",
    )
    documents: Literal["auto", "file", "blank-line", "line"] = option(
        "auto",
        help="what a document is in plain text; auto: a file, or in a single file what stands "
        "between blank lines",
    )
    sentences: Literal["auto", "line"] = option(
        "auto", help="find the sentences, or take every line as one"
    )
    words: Literal["none", "jieba"] = option(
        "none", help="store where words start, in Chinese found by jieba, for whole word masking"
    )
    text_field: str = option("text", help="the field of a JSONL object that holds the text")
    errors: Literal["strict", "replace"] = option(
        "strict", help="refuse broken UTF-8, or replace it with U+FFFD"
    )
    held_out: float = option(0.01, help="share of the documents kept apart for the dev split")
    held_out_documents: list[str] = option(
        [], help="names of documents or files to keep apart, instead of a share"
    )
    seed: int = option(0, help="of the choice of held-out documents")
    workers: int | None = option(
        None, help="processes that tokenize; default: one for each processor"
    )
    engine: Literal["processes", "ray"] = option(
        "processes", help="what tokenizes: processes of this machine, or actors of a Ray cluster"
    )
    shard: str | None = option(
        None,
        help="i/n: make only the i-th of n parts of the shards (i from 1), as in an array job, in "
        "the output as a folder of parts (default: all)",
    )
    merge: list[str] = option(
        [], help="folders that --shard wrote, to be joined; the inputs are not read again"
    )
    shard_bytes: int = option(64_000_000, help="bytes of text in one shard of the corpus")
    quiet: bool = option(False, help="print no progress")
