"""What `bertkit vocab` can be told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from bertkit.config import option


@dataclass
class VocabConfig:
    """Learns a WordPiece vocabulary from text (paper, section 3: "a 30,000 token vocabulary").

    Example: bertkit vocab books/ --output vocabulary
    """

    inputs: list[str] = option(help="text files, JSONL files or folders of them", positional=True)
    output: str = option(
        help="folder to write the vocabulary and the tokenizer's files to", short="o"
    )
    size: int = option(
        30522,
        help="entries of the vocabulary, special tokens included (the paper's English: 30522)",
    )
    lower_case: bool | None = option(
        None,
        help="lower-case and strip accents (uncased); default: yes, with --extend as the old "
        "vocabulary",
    )
    word_limit: int | None = option(
        None,
        help="longest word, in characters, that is not [UNK] at once; stored with the vocabulary; "
        "default: 200 (the release; 100 in its first version), with --extend as the old vocabulary",
    )
    min_frequency: int = option(
        2, help="how often a character or a pair of pieces must be seen to become an entry"
    )
    min_pair_frequency: int | None = option(
        None, help="the same for pairs alone; default: --min-frequency"
    )
    alphabet: int | None = option(
        None,
        help="most distinct characters among the entries, the most frequent ones; default: all "
        "(with --extend: half of --add)",
    )
    criterion: Literal["frequency", "likelihood"] = option(
        "frequency",
        help="which pair of pieces is merged next: the most frequent, or the one with the largest "
        "count(ab) / (count(a) count(b)), which needs a large --min-pair-frequency",
    )
    layout: Literal["compact", "release"] = option(
        "compact",
        help="compact: [PAD] is 0, then the other special tokens; release: with 994 [unused] "
        "entries in the places of the released uncased vocabulary, [UNK] at 100",
    )
    unused: int | None = option(
        None,
        help="[unused] entries, 99 of them after [PAD], the rest after [MASK]; default: what the "
        "layout has",
    )
    max_words: int = option(
        1_000_000,
        help="distinct words that take part in merging, the most frequent ones; a million of "
        "them take about 700 MB of memory",
    )
    extend: str | None = option(
        None, help="an old vocabulary (folder or vocab.txt) to add tokens to instead"
    )
    add: int | None = option(
        None,
        help="with --extend: tokens to add, into its [unused] entries first; default: as many as "
        "it has of these",
    )
    held_out: float = option(
        0.01, help="share of the documents to measure the vocabulary on and not learn from"
    )
    seed: int = option(0, help="of the choice of held-out documents, as in bertkit prepare")
    workers: int | None = option(
        None, help="processes that count words; default: one for each processor"
    )
    documents: Literal["auto", "file", "blank-line", "line"] = option(
        "auto", help="what a document is in plain text; auto: a file, or with one file a block"
    )
    text_field: str = option("text", help="the field of a JSONL object that holds the text")
    errors: Literal["strict", "replace"] = option(
        "strict", help="broken UTF-8: strict refuses it, replace reads on"
    )
    quiet: bool = option(False, help="show no progress")
