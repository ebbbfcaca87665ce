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
    lower_case: bool = option(True, help="lower-case and strip accents (uncased)")
    min_frequency: int = option(
        2, help="how often a character or a piece must be seen to become an entry"
    )
    documents: Literal["auto", "file", "blank-line", "line"] = option(
        "auto", help="what a document is in plain text; auto: a file, or with one file a block"
    )
    text_field: str = option("text", help="the field of a JSONL object that holds the text")
    errors: Literal["strict", "replace"] = option(
        "strict", help="broken UTF-8: strict refuses it, replace reads on"
    )
    quiet: bool = option(False, help="show no progress")
