"""Where a checkpoint comes from, for `bertkit inspect`: its kind, its maker, its files and sums."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bertkit.files import read_json, sha256
from bertkit.formats.bundle import Bundle
from bertkit.formats.kinds import (
    CONFIG,
    KINDS,
    ONNX,
    find_index,
    kind_of,
    weight_file,
    weight_parts,
)
from bertkit.formats.sentence import MODULES, read_sentence_modules
from bertkit.journey.checkpoints import Line


def origin_of(path: Path, verify: bool = True) -> tuple[dict[str, Any], list[Line]]:
    """Facts by name, and lines for people.

    Args:
        path: a checkpoint of any kind.
        verify: whether to read the weights for their checksums.
    """
    kind = kind_of(path)
    facts: dict[str, Any] = {"kind": kind, "files": {}}
    origin = KINDS[kind]
    lines: list[Line] = []
    if kind == "tensorflow":
        index = find_index(path)
        bundle = Bundle(index)
        used = sorted({entry.shard for entry in bundle.entries.values()})
        files = [index, *(bundle.data_file(shard) for shard in used)]
        lines.append(("variables", f"{len(bundle.entries):,}, an optimizer's included"))
    elif kind == "onnx":
        files = [path] if path.is_file() else sorted(path.glob("*.onnx*"))
    else:
        values = read_json(path / CONFIG)
        facts["name"], facts["made_with"] = values.get("_name_or_path"), None
        if values.get("transformers_version"):
            facts["made_with"] = f"transformers {values['transformers_version']}"
            origin += f", written by {facts['made_with']}"
        if facts["name"]:
            origin += f", from {facts['name']}"
        first = weight_file(path)
        parts = weight_parts(first)
        files = parts if parts == [first] else [first, *parts]
        lines += _sentence(path, facts)
    lines.insert(0, ("origin", origin))
    for file in files:
        size = file.stat().st_size
        digest = sha256(file) if verify else None
        facts["files"][file.name] = {"bytes": size, "sha256": digest}
        lines.append((file.name, f"{size:,} bytes" + f", SHA-256 {digest}" * bool(digest)))
    return facts, lines


def _sentence(path: Path, facts: dict[str, Any]) -> list[Line]:
    """What a sentence-transformers directory says of pooling."""
    steps = read_sentence_modules(path)
    if steps is None:
        return []
    facts["sentence"] = {
        "pooling": list(steps.pooling),
        "dense_layers": len(steps.layers),
        "normalize": steps.normalize,
        "max_length": steps.max_length,
    }
    text = f"pools by {', '.join(steps.pooling)}"
    text += f", then {len(steps.layers)} dense layers" if steps.layers else ""
    text += ", to length 1" if steps.normalize else ""
    text += f"; sequences of up to {steps.max_length} tokens" if steps.max_length else ""
    return [(f"sentences ({MODULES})", text)]


def onnx_facts(path: Path) -> tuple[dict[str, Any], list[Line], Any]:
    """The same of an ONNX graph, and the graph itself, opened."""
    from bertkit.formats.onnx import OnnxModel

    graph = OnnxModel(path if path.is_file() else path / ONNX)
    session = graph.session
    inputs = {one.name: one.shape for one in session.get_inputs()}
    outputs = {one.name: one.shape for one in session.get_outputs()}
    lines = [
        (kind, ", ".join(f"{name} {'x'.join(map(str, shape))}" for name, shape in found.items()))
        for kind, found in (("inputs", inputs), ("outputs", outputs))
    ]
    return {"inputs": inputs, "outputs": outputs}, lines, graph
