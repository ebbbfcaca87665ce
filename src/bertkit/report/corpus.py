"""The report of a corpus: CORPUS/manifest.json in, CORPUS/report.html out.

The page is a function of the manifest alone, without dates or places, so that two equal corpora
have equal pages.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bertkit.report.chart import Chart, Series, figure
from bertkit.report.page import (
    Html,
    Section,
    charts,
    count,
    facts,
    paragraph,
    percent,
    table,
    write_report,
)

KINDS = {
    "sentence_tokens": "Tokens a sentence",
    "document_tokens": "Tokens a document",
    "document_sentences": "Sentences a document",
}
NAMES = {"train": "training", "dev": "held-out"}


def write_corpus_report(corpus: Path) -> Path:
    """Writes CORPUS/report.html from the corpus' manifest; returns its path."""
    manifest: dict[str, Any] = json.loads((corpus / "manifest.json").read_text(encoding="utf-8"))
    splits: dict[str, Any] = manifest["splits"]
    sections = [
        Section("What is in it", [_counts(splits), _empty(manifest)]),
        Section("How long things are", [_lengths(splits), charts(*_figures(splits))]),
        Section("How it was made", [facts(_making(manifest))]),
    ]
    return write_report(
        corpus / "report.html",
        "The corpus",
        "Documents and sentences as token ids: how many there are and how long they are.",
        sections,
    )


def _counts(splits: Mapping[str, Any]) -> Html:
    rows = []
    for name, split in splits.items():
        numbers = [count(split[key]) for key in ("documents", "sentences", "tokens")]
        unknown = percent(split["unknown"] / split["tokens"], 2)
        rows.append([NAMES.get(name, name), *numbers, unknown])
    header = ["", "Documents", "Sentences", "Tokens", "Unknown tokens"]
    return table(header, rows, numbers=range(1, 5))


def _empty(manifest: Mapping[str, Any]) -> Html:
    empty = sum(shard["empty"] for shard in manifest["shards"])
    if not empty:
        return Html("")
    return paragraph(f"Documents without a token, left out: {count(empty)}.")


def _lengths(splits: Mapping[str, Any]) -> Html:
    rows = []
    for kind, title in KINDS.items():
        for name, split in splits.items():
            found = split[kind]
            percentiles = [count(found["percentiles"][key]) for key in ("50", "90", "99")]
            rows.append(
                [
                    f"{title}, {NAMES.get(name, name)}",
                    f"{found['mean']:.1f}",
                    *percentiles,
                    count(found["longest"]),
                ]
            )
    header = ["", "Mean", "Median", "90 %", "99 %", "Longest"]
    return table(header, rows, numbers=range(1, 6))


def _figures(splits: Mapping[str, Any]) -> list[Html]:
    """For each kind of length, the share of things that are at most so long."""
    figures = []
    for kind, title in KINDS.items():
        series = [
            Series(
                NAMES.get(name, name),
                [(length, int(key) / 100) for key, length in split[kind]["percentiles"].items()],
                markers=True,
            )
            for name, split in splits.items()
        ]
        what = title.split(" a ")[1]
        figures.append(
            figure(
                Chart(
                    f"Share of {what}s with at most so many {title.split()[0].lower()}",
                    series,
                    x_label=title.split()[0].lower(),
                    percent=True,
                    from_zero=True,
                )
            )
        )
    return figures


def _making(manifest: Mapping[str, Any]) -> list[tuple[str, str]]:
    vocabulary, held_out = manifest["vocabulary"], manifest["held_out"]
    casing = "lower-cased" if vocabulary["lower_case"] else "cased"
    if held_out["named"]:
        kept_apart = f"{count(held_out['named'])} documents or files by name"
    else:
        kept_apart = f"{percent(held_out['share'])} of the documents, seed {held_out['seed']}"
    return [
        ("Vocabulary", f"{count(vocabulary['size'])} entries, {casing}"),
        ("Sentences", "found by rule" if manifest["sentences"] == "auto" else "a line each"),
        ("Word starts", manifest.get("words", "not stored")),
        ("Held out", kept_apart),
        ("Shards", count(len(manifest["shards"]))),
        ("Made by", f"bertkit {manifest['bertkit']}"),
    ]
