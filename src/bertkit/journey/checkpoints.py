"""What a checkpoint is, for `bertkit inspect`: sizes, head, labels, tokenizer, and whether it is
whole. Where it comes from is told by `origin.py`."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from bertkit.errors import listed
from bertkit.model.config import ModelConfig
from bertkit.model.parameters import ParameterRow, ParameterTable, parameter_table

Line = tuple[str, str]


def checkpoint_facts(path: Path, verify: bool) -> tuple[str, dict[str, Any], list[Line]]:
    """What is in a checkpoint of any kind.

    Args:
        verify: whether to read the weights for their checksums.

    Returns:
        "checkpoint" or "ONNX model", facts by name, and lines for people.

    Raises:
        UserError: it is damaged, or its tokenizer is another model's.
    """
    from bertkit.formats.kinds import kind_of
    from bertkit.formats.source import load_source
    from bertkit.journey.origin import origin_of

    if kind_of(path) == "onnx":
        return "ONNX model", *_onnx(path, verify)
    loaded = load_source(path)
    model: Any = loaded.model
    sizes: ModelConfig = model.config
    options = getattr(model, "head_options", None)
    table = parameter_table(sizes, model.head, len(model.labels), options)
    head = model.head
    if options:  # a head without a formula: counted
        count = sum(value.numel() for value in model.tagger.parameters())
        table = replace(table, heads=[ParameterRow(head, "", count)])
        head += f" on {options['features']}, size {options['lstm_size']}"
    facts: dict[str, Any] = {
        "head": model.head,
        "labels": list(model.labels),
        "missing": loaded.missing,
        "unexpected": loaded.unexpected,
        "left_out": len(loaded.left_out),
        **asdict(sizes),
        **parameter_facts(table),
    }
    found, origin = origin_of(path, verify)
    facts["origin"] = found
    lines = [
        *size_lines(sizes),
        ("parameters", f"{table.total:,}, of them the encoder {table.encoder_total:,}"),
        ("head", head),
    ]
    if model.labels:
        lines.append(("labels", listed(model.labels)))
    lines.append(_vocabulary_of(path, sizes, facts))
    whole = "yes, every weight is there and finite"
    if loaded.missing:
        whole = f"no: {len(loaded.missing)} weights are missing, as {loaded.missing[0]}"
    lines.append(("whole", whole))
    if loaded.unexpected:
        lines.append(
            ("not used", f"{len(loaded.unexpected)} weights, as {loaded.unexpected[0]}"),
        )
    lines += origin
    return "checkpoint", facts, lines


def _vocabulary_of(path: Path, sizes: ModelConfig, facts: dict[str, Any]) -> Line:
    """The line about the tokenizer beside a model; raises UserError where it is another's."""
    from bertkit.formats.source import check_vocabulary
    from bertkit.text.tokenizer_files import casing_warning, has_tokenizer, read_directory

    place = path if path.is_dir() else path.parent
    if not has_tokenizer(place):
        return "vocabulary", "no vocab.txt or tokenizer.json; texts cannot be read without it"
    stored = read_directory(place)
    entries = len(stored.vocabulary)
    facts |= casing_facts(stored.lower_case)
    facts["vocabulary"], facts["padding"] = entries, check_vocabulary(entries, sizes, place)
    text = f"{entries:,} entries, casing {facts['casing']}"
    if stored.lower_case is not None:
        text = f"{entries:,} entries, {facts['casing']}"
    if facts["padding"]:
        text += f"; {facts['padding']} more embeddings are padding"
    if stored.lower_case is not None:
        warning = casing_warning(stored.vocabulary, stored.lower_case)
        text += f"; but {warning}" if warning else ""
    return "vocabulary", text


def _onnx(path: Path, verify: bool) -> tuple[dict[str, Any], list[Line]]:
    from bertkit.journey.origin import onnx_facts, origin_of

    facts, lines, graph = onnx_facts(path)
    found, origin = origin_of(path, verify)
    facts |= {"head": graph.head, "labels": graph.labels, "origin": found, **asdict(graph.config)}
    lines = [*size_lines(graph.config), ("head", graph.head), *lines]
    lines.append(_vocabulary_of(path, graph.config, facts))
    return facts, lines + origin


def size_lines(sizes: ModelConfig) -> list[Line]:
    """The sizes of a model, for people."""
    layers = "1 layer" if sizes.layers == 1 else f"{sizes.layers} layers"
    return [
        (
            "model",
            f"{layers}, hidden size {sizes.hidden_size}, {sizes.heads} heads, "
            f"feed-forward {sizes.intermediate_size}",
        ),
        ("embeddings", f"{sizes.vocab_size:,} tokens, {sizes.max_positions} positions"),
    ]


def parameter_facts(table: ParameterTable) -> dict[str, Any]:
    """How many parameters there are, by their places."""
    rows = [asdict(row) for row in [*table.encoder, *table.heads]]
    return {"parameters": table.total, "encoder_parameters": table.encoder_total, "table": rows}


def casing_facts(lower_case: bool | None) -> dict[str, str]:
    """Whether a tokenizer lower-cases, as far as that is stored."""
    if lower_case is None:
        return {"casing": "not stored"}
    return {"casing": "uncased" if lower_case else "cased"}
