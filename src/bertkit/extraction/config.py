"""The configuration of `bertkit extract`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from bertkit.config import option


@dataclass
class ExtractConfig:
    """Make documents from dumps, books, pages and tables: running text, one JSON object a line."""

    inputs: list[str] = option(
        help="MediaWiki XML dumps, EPUB, HTML, text, JSONL, CSV, TSV or Parquet files (packed by "
        "gzip, bzip2, xz or Zstandard too), folders of them, or hub:NAME[:CONFIG][:SPLIT]",
        positional=True,
    )
    output: str = option(help="file of the documents: .jsonl, .jsonl.zst or .jsonl.gz", short="o")
    format: Literal[
        "auto", "mediawiki", "epub", "html", "text", "jsonl", "csv", "tsv", "parquet"
    ] = option("auto", help="what the inputs are; auto: what their names or first bytes say")
    documents: Literal["file", "blank-line", "line"] = option(
        "file", help="what a document is in plain text"
    )
    encoding: str | None = option(
        None, help="of the inputs, as gb18030; default: what they declare, else found out"
    )
    text_field: str = option("text", help="field or column that holds the text")
    title_field: str = option("title", help="field or column that holds the title, if any")
    id_field: str = option("id", help="field or column that holds the identity, if any")
    min_characters: int = option(1, help="documents with fewer characters are dropped")
    language: list[str] = option(
        [], help="keep only documents in these languages, as en or zh (ISO 639-1)"
    )
    deduplicate: Literal["none", "exact", "near"] = option(
        "none", help="drop documents that are equal to an earlier one, or nearly (MinHash)"
    )
    near: float = option(
        0.8, help="for near: share of five-word sequences in common from which two are the same"
    )
    strict: bool = option(False, help="stop at the first broken input instead of skipping it")
    workers: int | None = option(None, help="processes; default: one for each processor")
    quiet: bool = option(False, help="print no progress")
