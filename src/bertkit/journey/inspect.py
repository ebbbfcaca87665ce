"""`bertkit inspect`: what a folder or file is, what is in it, and whether it is whole.

A model size (base, 2x256x4) gives the table of its parameters with the arithmetic; a corpus its
counts, and any document of it in words; a vocabulary its entries; a run how far it came; a search
its grid; a checkpoint its sizes, head and labels. What is damaged ends with the error of the room
that reads it, so a script can rely on the exit code.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from bertkit.errors import UserError
from bertkit.files import read_json
from bertkit.formats.kinds import WEIGHTS, is_checkpoint
from bertkit.journey.checkpoints import (
    casing_facts,
    checkpoint_facts,
    parameter_facts,
    size_lines,
)
from bertkit.journey.config import InspectConfig
from bertkit.journey.examples import (
    DEFAULT_LENGTH,
    document_in_words,
    example_in_words,
    example_of_run,
    split_of,
)
from bertkit.model.config import SIZES, model_config
from bertkit.model.parameters import parameter_table

RUN_COMMANDS = ("pretrain", "finetune")
"""Commands whose configuration, <command>.yaml, marks the folder of a run."""


@dataclass
class InspectResult:
    """What was found.

    Attributes:
        kind: "model size", "corpus", "vocabulary", "run", "search", "quickstart" or "checkpoint".
        path: what was asked for.
        facts: everything found, by name.
        lines: the same for people, a name and a text each.
        text: what stands below the lines: a parameter table, a document.
    """

    kind: str
    path: str
    facts: dict[str, Any]
    lines: list[tuple[str, str]] = field(default_factory=list)
    text: str = ""

    def __str__(self) -> str:
        width = max((len(name) for name, _ in self.lines), default=0)
        rows = [f"  {name:<{width}}  {value}" for name, value in self.lines]
        shown = [f"{self.path}: {self.kind}", *rows]
        return "\n".join([*shown, "", self.text] if self.text else shown)


def inspect(config: InspectConfig) -> InspectResult:
    """Looks at `config.path`.

    Raises:
        UserError: it is nothing that bertkit knows, or it is damaged.
    """
    from bertkit.formats.hub import checkpoint_path

    sized = config.path in SIZES or re.fullmatch(r"\d+x\d+x\d+", config.path)
    path = Path(config.path) if sized else checkpoint_path(config.path)
    if not path.exists():
        if sized:
            return _model_size(config)
        raise UserError(
            f"there is no {config.path}; give a corpus, vocabulary, run or checkpoint, or a model "
            f"size ({', '.join(SIZES)}, or LAYERSxHIDDENxHEADS)"
        )
    if (path / "manifest.json").is_file():
        return _corpus(config, path)
    if (path / "parts.json").is_file():
        return _parts(path)
    if (path / "quickstart.yaml").is_file():
        return _quickstart(config, path)
    if (path / "search.yaml").is_file():
        return _search(config, path)
    if any((path / f"{command}.yaml").is_file() for command in RUN_COMMANDS):
        return _run(config, path)
    if is_checkpoint(path):
        kind, facts, lines = checkpoint_facts(path, config.verify)
        return InspectResult(kind, config.path, facts, lines)
    if path.name.endswith("vocab.txt") or (path / "vocab.txt").is_file():
        return _vocabulary(path)
    raise UserError(
        f"{path} is nothing that bertkit knows; it understands a corpus (manifest.json), a "
        "vocabulary (vocab.txt), a run (pretrain.yaml or finetune.yaml), a search (search.yaml), "
        "a quickstart (quickstart.yaml) and a checkpoint (config.json)"
    )


def _model_size(config: InspectConfig) -> InspectResult:
    sizes = model_config(config.path, config.vocab_size)
    table = parameter_table(sizes)
    facts = asdict(sizes) | parameter_facts(table)
    return InspectResult("model size", config.path, facts, size_lines(sizes), str(table))


def _corpus(config: InspectConfig, path: Path) -> InspectResult:
    from bertkit.corpus.format import Corpus
    from bertkit.pretraining.config import PretrainConfig

    corpus = Corpus.open(path)
    if config.verify:
        corpus.verify()
    tokenizer = corpus.tokenizer()
    facts: dict[str, Any] = {"identity": corpus.identity, "verified": config.verify, "splits": {}}
    lines = []
    for name, split in corpus.splits.items():
        found = corpus.manifest["splits"][name]
        facts["splits"][name] = found
        unknown = f", {100 * found['unknown'] / split.tokens:.2f} % of them unknown"
        lines.append(
            (
                name,
                f"{split.documents:,} documents, {split.sentences:,} sentences, "
                f"{split.tokens:,} tokens{unknown}; "
                f"{split.sentences / split.documents:.1f} sentences a "
                f"document, {split.tokens / split.sentences:.1f} tokens a sentence",
            )
        )
        for kind in ("sentence_tokens", "document_tokens"):
            if kind in found:  # not in corpora of early versions
                lines.append((f"  a {kind.split('_')[0]}", _lengths(found[kind])))
    facts |= casing_facts(tokenizer.lower_case) | {"vocab_size": len(tokenizer)}
    facts["words"] = corpus.manifest.get("words")
    if facts["words"]:
        lines.append(("words", f"their starts are stored, found by {facts['words']}"))
    lines += [
        ("vocabulary", f"{len(tokenizer):,} entries, {facts['casing']}"),
        ("shards", f"{len(corpus.manifest['shards'])}, identity {corpus.identity[:12]}"),
        ("whole", "yes, every checksum agrees" if config.verify else "sizes agree, not read"),
    ]
    texts = []
    if config.document is not None:
        split = split_of(corpus, config.split, path)
        facts["document"], text = document_in_words(config.document, split)
        texts.append(text)
    if config.example is not None:
        split = split_of(corpus, config.split, path)
        length = config.sequence_length or DEFAULT_LENGTH
        options = PretrainConfig(corpus=config.path, output="", sequence_length=length)
        facts["example"], text = example_in_words(config, options, split, tokenizer)
        texts.append(text)
    return InspectResult("corpus", config.path, facts, lines, "\n\n".join(texts))


def _lengths(found: dict[str, Any]) -> str:
    percentiles = found["percentiles"]
    return (
        f"{found['mean']:,.1f} tokens; median {percentiles['50']:,}, 90 % up to "
        f"{percentiles['90']:,}, 99 % up to {percentiles['99']:,}, longest {found['longest']:,}"
    )


def _parts(path: Path) -> InspectResult:
    """Shards that wait to become a corpus."""
    from bertkit.corpus.parts import Parts

    parts = Parts(path)
    plan, entries = parts.plan(), parts.entries()
    missing = [number for number in range(len(plan)) if number not in entries]
    facts = {"shards": len(plan), "missing": missing}
    what = f"{len(entries)} of {len(plan)} shards are finished"
    lines = [("shards", what), ("input", f"{sum(s.documents for s in plan):,} documents")]
    return InspectResult("parts of a corpus", str(path), facts, lines)


def _vocabulary(path: Path) -> InspectResult:
    from bertkit.text.tokenizer import Tokenizer, load_vocabulary
    from bertkit.text.wordpiece import PREFIX

    lower_case = None
    if path.is_dir() and (path / "tokenizer_config.json").is_file():
        tokenizer = Tokenizer.load(path)
        vocabulary, lower_case = tokenizer.vocabulary, tokenizer.lower_case
    else:
        vocabulary = load_vocabulary(path / "vocab.txt" if path.is_dir() else path)
    inside = sum(entry.startswith(PREFIX) for entry in vocabulary)
    single = sum(len(entry.removeprefix(PREFIX)) == 1 for entry in vocabulary)
    unused = sum(entry.startswith("[unused") for entry in vocabulary)
    special = {
        entry: number
        for number, entry in enumerate(vocabulary)
        if entry in ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
    }
    longest = max((entry.removeprefix(PREFIX) for entry in vocabulary), key=len)
    facts: dict[str, Any] = {
        "vocab_size": len(vocabulary),
        "inside_words": inside,
        "single_characters": single,
        "unused": unused,
        "special_tokens": special,
        "longest": longest,
        **casing_facts(lower_case),
    }
    lines = [
        ("entries", f"{len(vocabulary):,}"),
        ("inside words", f"{inside:,} begin with {PREFIX}"),
        ("characters", f"{single:,} entries of a single character"),
        ("longest", longest),
        ("special", ", ".join(f"{entry} {number}" for entry, number in special.items())),
        ("casing", facts["casing"]),
    ]
    if unused:
        lines.insert(4, ("unused", f"{unused:,} places kept free"))
    return InspectResult("vocabulary", str(path), facts, lines)


def _run(config: InspectConfig, path: Path) -> InspectResult:
    from bertkit.report.curves import run_table
    from bertkit.report.guesses import moments, read_sentences, sentence_lines
    from bertkit.training.checkpoint import newest_restart_point
    from bertkit.training.log import read_log

    command = next(name for name in RUN_COMMANDS if (path / f"{name}.yaml").is_file())
    records = read_log(path)
    last = {kind: _last(records, kind) for kind in ("train", "dev")}
    planned = _planned_steps(path)
    done = last["train"]["step"] if last["train"] else 0
    finished = (path / WEIGHTS).is_file()
    facts: dict[str, Any] = {
        "command": command,
        "finished": finished,
        "steps_logged": done,
        "steps_planned": planned,
        "last_train": last["train"],
        "last_dev": last["dev"],
        "checkpoint": None,
        "restart_point": None,
    }
    of = f" of {planned:,}" if planned else ""
    lines = [
        ("made by", f"bertkit {command} --config {path / f'{command}.yaml'}"),
        ("progress", f"{'finished' if finished else 'not finished'}, {done:,}{of} steps logged"),
    ]
    lines += [(f"last {kind}", _numbers(record)) for kind, record in last.items() if record]
    point = newest_restart_point(path)
    if point is not None:
        facts["restart_point"] = {"path": str(point.path), "step": point.step}
        lines.append(("restart", f"from step {point.step:,}, checksums agree"))
    elif not finished:
        lines.append(("restart", "from the beginning: no restart point yet"))
    if finished:
        _, facts["checkpoint"], more = checkpoint_facts(path, config.verify)
        lines += more
    texts = [run_table(records)]
    told = sentence_lines(read_sentences(path), moments(records))
    if told:
        texts.append("\n".join(["held-out sentences with the newest guesses:", *told]))
    if config.example is not None:
        facts["example"], text = example_of_run(config, path)
        texts.append(text)
    return InspectResult("run", config.path, facts, lines, "\n\n".join(filter(None, texts)))


def _results(path: Path) -> dict[str, Any] | None:
    """What a command of several runs wrote at its end; None before."""
    file = path / "results.json"
    return read_json(file) if file.is_file() else None


def _quickstart(config: InspectConfig, path: Path) -> InspectResult:
    result = _results(path)
    lines = [
        ("made by", f"bertkit quickstart --config {path / 'quickstart.yaml'}"),
        ("progress", "finished" if result else "not finished; the same command continues"),
    ]
    lines += [(Path(place).name, what) for place, what in (result or {}).get("places", [])]
    facts = {"finished": bool(result), "results": result}
    return InspectResult("quickstart", config.path, facts, lines)


def _search(config: InspectConfig, path: Path) -> InspectResult:
    from bertkit.tasks.grid import PointResult, grid_lines

    ended = sorted((path / "runs").glob("*.json"))
    result = _results(path)
    finished = "finished" if result else "not finished"
    lines = [
        ("made by", f"bertkit search --config {path / 'search.yaml'}"),
        ("progress", f"{finished}, {len(ended):,} runs ended"),
    ]
    facts: dict[str, Any] = {"finished": bool(result), "runs_ended": len(ended), "results": result}
    text = ""
    if result:
        lines.append(("kept", f"{path / result['best_run']}"))
        _, facts["checkpoint"], more = checkpoint_facts(path, config.verify)
        lines += more
        points = [PointResult(**point) for point in result["points"]]
        text = "\n".join(grid_lines(points, result["best_point"]))
    return InspectResult("search", config.path, facts, lines, text)


def _last(records: list[dict[str, Any]], kind: str) -> dict[str, Any] | None:
    return next((record for record in reversed(records) if record.get("kind") == kind), None)


def _planned_steps(path: Path) -> int | None:
    """The number of steps that the run fixed at its start, where it has written that down."""
    try:
        steps = json.loads((path / "run.json").read_text(encoding="utf-8"))["steps"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return int(steps)


def _numbers(record: dict[str, Any]) -> str:
    named = [
        f"{name} {value:.4g}"
        for name, value in record.items()
        if isinstance(value, float) and name != "seconds"
    ]
    return f"step {record.get('step', 0):,}: " + ", ".join(named)
