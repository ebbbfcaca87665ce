"""Configurations of `bertkit predict`, `fill` and `embed`; imports no torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from bertkit.config import option
from bertkit.tasks.config import Long, WindowMean
from bertkit.training.config import Precision

Unit = Literal["text", "word", "token"]
Pooling = Literal["mean", "max", "cls", "first"]
Words = Literal["tokenizer", "spaces"]


@dataclass
class PredictConfig:
    """Labels texts with a tuned model: one line of JSON for each."""

    checkpoint: str = option(help="a tuned model", positional=True)
    input: str = option(
        "-",
        help="text (a line each), .jsonl, .csv, .tsv, .json, .parquet or hub:NAME; - is standard "
        "input; for multiple choice a table; for question answering SQuAD's .json too",
        positional=True,
    )
    output: str | None = option(None, help="JSONL file (default: standard output)", short="o")
    text: str | None = option(
        None,
        help="column or field of the text (default: as in training, or text); with standard input "
        "it means JSONL",
    )
    pair: str | None = option(
        None, help="column or field of the second text (default: as in training, or none)"
    )
    choices: list[str] = option(
        [], help="multiple choice: the columns of the choices, or the one that holds a list of them"
    )
    words: Words = option(
        "tokenizer",
        help="where a tagger's words end: as the tokenizer cuts (white space, punctuation, each "
        "Chinese character), or at spaces only, for text that is cut already",
    )
    long: Long = option(
        "windows",
        help="a text longer than a sequence is read in overlapping windows, or cut at its end",
    )
    window_mean: WindowMean = option(
        "probabilities", help="what of the windows' answers is averaged, where they are"
    )
    sequence_length: int | None = option(
        None, help="tokens of the longest sequence (default: as in training)"
    )
    batch_tokens: int = option(2048, help="tokens computed at once")
    precision: Precision = option("auto", help="arithmetic of the matrix products")
    device: str = option(
        "auto", help="cpu, cuda, cuda:1 for the second GPU, or auto: a GPU where there is one"
    )
    quiet: bool = option(False, help="print no progress")


@dataclass
class FillConfig:
    """Fills each [MASK] of a text with what the masked LM finds probable."""

    checkpoint: str = option(help="a pre-trained model with its masked-LM head", positional=True)
    text: str | None = option(
        None, help='a text with one [MASK] or several, or "-"', positional=True
    )
    input: str | None = option(
        None, help="instead of a text: a file as for bertkit predict; - is standard input"
    )
    output: str | None = option(
        None, help="JSONL file for --input (default: standard output)", short="o"
    )
    top: int = option(5, help="candidates for each mask", short="k")
    field: str | None = option(
        None,
        help="column or field of the text (default: text); with standard input it means JSONL",
    )
    sequence_length: int | None = option(
        None, help="tokens of the longest sequence (default: as in training)"
    )
    batch_tokens: int = option(2048, help="tokens computed at once")
    precision: Precision = option("auto", help="arithmetic of the matrix products")
    device: str = option(
        "auto", help="cpu, cuda, cuda:1 for the second GPU, or auto: a GPU where there is one"
    )
    quiet: bool = option(False, help="print no progress")


@dataclass
class EmbedConfig:
    """Writes the vectors of texts (paper, section 5.3: the feature-based approach)."""

    checkpoint: str = option(help="any model", positional=True)
    input: str = option(
        "-",
        help="text (a line each), .jsonl, .csv, .tsv, .json, .parquet or hub:NAME; - is standard "
        "input",
        positional=True,
    )
    output: str | None = option(
        None,
        help=".npz, .npy, .parquet or .jsonl file (default: JSONL to standard output)",
        short="o",
    )
    unit: Unit = option("text", help="what gets a vector: each text, word or token")
    layers: str = option(
        "last",
        help="last, second-to-last, embeddings, sum-last-four, concat-last-four, sum-all, or "
        "numbers as 0,-1 to join: 0 is the embeddings, -1 the last layer",
    )
    weights: list[float] | None = option(
        None,
        help="of a weighted sum of the layers, one each: with numbers, weighted-last-four or "
        "weighted-all (default: no weighted sum)",
    )
    pooling: Pooling | None = option(
        None,
        help="one vector from a text's tokens, specials included: mean, max, or cls; from a word's "
        "pieces: first, mean or max (default: as a sentence-transformers directory says, else mean "
        "of a text, first of a word)",
    )
    normalize: bool | None = option(
        None,
        help="give every vector the length 1 (default: as a sentence-transformers directory says)",
    )
    words: Words = option(
        "tokenizer",
        help="where words end: as the tokenizer cuts (white space, punctuation, each Chinese "
        "character), or at spaces only, for text that is cut already",
    )
    long: Long | None = option(
        None,
        help="a text longer than a sequence is read in overlapping windows, or cut at its end "
        "(default: windows; cut where a sentence-transformers directory says how to pool)",
    )
    text: str | None = option(
        None,
        help="column or field of the text (default: text); with standard input it means JSONL",
    )
    pair: str | None = option(None, help="column or field of the second text (default: none)")
    sequence_length: int | None = option(
        None, help="tokens of the longest sequence (default: as in training)"
    )
    batch_tokens: int = option(2048, help="tokens computed at once")
    precision: Precision = option("auto", help="arithmetic of the matrix products")
    device: str = option(
        "auto", help="cpu, cuda, cuda:1 for the second GPU, or auto: a GPU where there is one"
    )
    quiet: bool = option(False, help="print no progress")
