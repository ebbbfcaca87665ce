"""`bertkit inspect`: what a folder or file is, what is in it, and whether it is whole.

A model size (base, 2x256x4) gives the table of its parameters with the arithmetic; a corpus its
counts, and any document of it in words; a vocabulary its entries; a run how far it came; a
checkpoint its sizes, head and labels. What is damaged ends with the error of the room that reads
it, so a script can rely on the exit code.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bertkit.errors import UserError
from bertkit.journey.config import InspectConfig
from bertkit.model.config import SIZES, ModelConfig, model_config
from bertkit.model.parameters import ParameterRow, ParameterTable, parameter_table

if TYPE_CHECKING:
    from bertkit.corpus.format import CorpusSplit
    from bertkit.pretraining.config import PretrainConfig
    from bertkit.text.tokenizer import Tokenizer

RUN_COMMANDS = ("pretrain", "finetune")
"""Commands whose configuration, <command>.yaml, marks the folder of a run."""

DEFAULT_LENGTH = 128
"""Tokens of an example where neither the command nor a run says."""

_SHOWN_LABELS = 12


@dataclass
class InspectResult:
    """What was found.

    Attributes:
        kind: "model size", "corpus", "vocabulary", "run" or "checkpoint".
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
    from bertkit.journey.origin import is_checkpoint

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
    if any((path / f"{command}.yaml").is_file() for command in RUN_COMMANDS):
        return _run(config, path)
    if is_checkpoint(path):
        return _checkpoint(config, path)
    if path.name.endswith("vocab.txt") or (path / "vocab.txt").is_file():
        return _vocabulary(path)
    raise UserError(
        f"{path} is nothing that bertkit knows; it understands a corpus (manifest.json), a "
        "vocabulary (vocab.txt), a run (pretrain.yaml or finetune.yaml) and a checkpoint "
        "(config.json)"
    )


def _model_size(config: InspectConfig) -> InspectResult:
    sizes = model_config(config.path, config.vocab_size)
    table = parameter_table(sizes)
    facts = asdict(sizes) | _parameters(table)
    return InspectResult("model size", config.path, facts, _sizes(sizes), str(table))


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
    facts |= _casing(tokenizer.lower_case) | {"vocab_size": len(tokenizer)}
    facts["words"] = corpus.manifest.get("words")
    if facts["words"]:
        lines.append(("words", f"their starts are stored, found by {facts['words']}"))
    lines += [
        ("vocabulary", f"{len(tokenizer):,} entries, {facts['casing']}"),
        ("shards", f"{len(corpus.manifest['shards'])}, identity {corpus.identity[:12]}"),
        ("whole", "yes, every checksum agrees" if config.verify else "sizes agree, not read"),
    ]
    texts = []
    if config.document is not None or config.example is not None:
        if config.split not in corpus.splits:
            raise UserError(
                f"{path} has no split '{config.split}'; choose one of {', '.join(corpus.splits)}"
            )
        split = corpus.splits[config.split]
        if config.document is not None:
            facts["document"], text = _document(config.document, split)
            texts.append(text)
        if config.example is not None:
            length = config.sequence_length or DEFAULT_LENGTH
            options = PretrainConfig(corpus=config.path, output="", sequence_length=length)
            facts["example"], text = _example(config, options, split, tokenizer)
            texts.append(text)
    return InspectResult("corpus", config.path, facts, lines, "\n\n".join(texts))


def _lengths(found: dict[str, Any]) -> str:
    percentiles = found["percentiles"]
    return (
        f"{found['mean']:,.1f} tokens; median {percentiles['50']:,}, 90 % up to "
        f"{percentiles['90']:,}, 99 % up to {percentiles['99']:,}, longest {found['longest']:,}"
    )


def _document(number: int, split: CorpusSplit) -> tuple[dict[str, Any], str]:
    """A document in words, a sentence a line; spaces between words where the corpus knows them."""
    if not 0 <= number < split.documents:
        raise UserError(
            f"{split.path} has documents 0 to {split.documents - 1} in {split.name}, not {number}"
        )
    first, stop = split.document_bounds[number : number + 2].tolist()
    sentences = split.decode(first, stop - first, words=split.has_words)
    identity = split.document_id(number)
    text = "\n".join([f"document {number} of {split.name}: {identity}", *sentences])
    return {"id": identity, "sentences": sentences}, text


def _example(
    config: InspectConfig, options: PretrainConfig, split: CorpusSplit, tokenizer: Tokenizer
) -> tuple[dict[str, Any], str]:
    """An example as a run with these options sees it; what is to be predicted of the masked
    tokens stands in braces behind what the model sees."""
    from bertkit.pretraining.phases import read_phases
    from bertkit.pretraining.plan import ONE_TEXT
    from bertkit.pretraining.sources import training_source

    number, length = config.example or 0, config.sequence_length or options.sequence_length
    if number < 0:
        raise UserError(f"--example is {number}; count from 0")
    if length < 8:
        raise UserError(f"a sequence length of {length} is too short for a sentence pair")
    lengths = [one.sequence_length for one in read_phases(options.phases, options.sequence_length)]
    if length not in lengths:
        raise UserError(
            f"{config.path} has no phase with sequences of {length} tokens; give "
            f"--sequence-length {' or '.join(map(str, lengths))}"
        )
    source = training_source(options, split, tokenizer, length)
    if config.epoch is None:
        epoch, place = source.locate(number)
    else:
        epoch, place = config.epoch, number
    if epoch < 0 or place >= len(source.plan(epoch)):
        raise UserError(
            f"epochs count from 0, and epoch {max(0, epoch)} has the examples 0 to "
            f"{len(source.plan(max(0, epoch))) - 1:,}, not --epoch {epoch} --example {number}"
        )
    examples = source.build(epoch, source.ordered(epoch, place, 1))
    tokens = [tokenizer.vocabulary[token] for token in examples.token_ids.tolist()]
    masked = {
        index: tokenizer.vocabulary[examples.original_ids[index]]
        for index in examples.masked.tolist()
    }
    pairs, unlike = source.options.pairs, bool(examples.next_sentence[0])
    facts = {
        "tokens": tokens,
        "segment_ids": examples.segment_ids.tolist(),
        "masked": masked,
        "random_next": unlike and pairs != "sop",
        "swapped": unlike and pairs == "sop",
        "epoch": epoch,
        "place": place,
    }
    predicted = f"{len(masked)} to predict" + ("" if examples.ahead else " ({...})")
    head = f"example {place} of {split.name} in epoch {epoch}: {len(tokens)} tokens, {predicted}"
    if pairs not in ONE_TEXT:
        other = "what comes before it" if pairs == "sop" else "a random text"
        head += f"; the second text is {other if unlike else 'what follows'}"
    if examples.ahead:  # every token is predicted from those before
        return facts, f"{head}\n{' '.join(tokens)}"
    shown = [f"{t}{{{masked[k]}}}" if k in masked else t for k, t in enumerate(tokens)]
    return facts, f"{head}\n{' '.join(shown)}"


def _example_of_run(config: InspectConfig, path: Path) -> tuple[dict[str, Any], str]:
    """An example as the run saw it, from the corpus that it names."""
    from bertkit import config as configurations
    from bertkit.corpus.format import Corpus
    from bertkit.pretraining.config import PretrainConfig

    if not (path / "pretrain.yaml").is_file():
        raise UserError(f"{path} is no pre-training run; --example shows those of pretrain")
    options = configurations.load(PretrainConfig, path / "pretrain.yaml")
    corpus = Corpus.open(options.corpus)
    if config.split not in corpus.splits:
        raise UserError(
            f"{options.corpus} has no split '{config.split}'; choose one of "
            f"{', '.join(corpus.splits)}"
        )
    return _example(config, options, corpus.splits[config.split], corpus.tokenizer())


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
        **_casing(lower_case),
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
    finished = (path / "model.safetensors").is_file()
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
        checkpoint = _checkpoint(config, path)
        facts["checkpoint"] = checkpoint.facts
        lines += checkpoint.lines
    texts = [run_table(records)]
    told = sentence_lines(read_sentences(path), moments(records))
    if told:
        texts.append("\n".join(["held-out sentences with the newest guesses:", *told]))
    if config.example is not None:
        facts["example"], text = _example_of_run(config, path)
        texts.append(text)
    return InspectResult("run", config.path, facts, lines, "\n\n".join(filter(None, texts)))


def _checkpoint(config: InspectConfig, path: Path) -> InspectResult:
    from bertkit.formats.source import kind_of, load_source
    from bertkit.journey.origin import origin_of

    if kind_of(path) == "onnx":
        return _onnx(config, path)
    loaded = load_source(path)
    model: Any = loaded.model
    sizes: ModelConfig = model.config
    options = getattr(model, "head_options", None)
    table = parameter_table(sizes, model.head, len(model.labels), options)
    head = model.head
    if options := getattr(model, "head_options", None):  # a head without a formula: counted
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
        **_parameters(table),
    }
    found, origin = origin_of(path, config.verify)
    facts["origin"] = found
    lines = [
        *_sizes(sizes),
        ("parameters", f"{table.total:,}, of them the encoder {table.encoder_total:,}"),
        ("head", head),
    ]
    if model.labels:
        shown = ", ".join(model.labels[:_SHOWN_LABELS])
        more = len(model.labels) - _SHOWN_LABELS
        lines.append(("labels", shown + (f" and {more} more" if more > 0 else "")))
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
    return InspectResult("checkpoint", config.path, facts, lines)


def _vocabulary_of(path: Path, sizes: ModelConfig, facts: dict[str, Any]) -> tuple[str, str]:
    """The line about the tokenizer beside a model; raises UserError where it is another's."""
    from bertkit.formats.source import check_vocabulary
    from bertkit.text.tokenizer_files import casing_warning, has_tokenizer, read_directory

    place = path if path.is_dir() else path.parent
    if not has_tokenizer(place):
        return "vocabulary", "no vocab.txt or tokenizer.json; texts cannot be read without it"
    stored = read_directory(place)
    entries = len(stored.vocabulary)
    facts |= _casing(stored.lower_case)
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


def _onnx(config: InspectConfig, path: Path) -> InspectResult:
    from bertkit.journey.origin import onnx_facts, origin_of

    facts, lines, graph = onnx_facts(path)
    found, origin = origin_of(path, config.verify)
    facts |= {"head": graph.head, "labels": graph.labels, "origin": found, **asdict(graph.config)}
    lines = [*_sizes(graph.config), ("head", graph.head), *lines]
    lines.append(_vocabulary_of(path, graph.config, facts))
    return InspectResult("ONNX model", config.path, facts, lines + origin)


def _sizes(sizes: ModelConfig) -> list[tuple[str, str]]:
    layers = "1 layer" if sizes.layers == 1 else f"{sizes.layers} layers"
    return [
        (
            "model",
            f"{layers}, hidden size {sizes.hidden_size}, {sizes.heads} heads, "
            f"feed-forward {sizes.intermediate_size}",
        ),
        ("embeddings", f"{sizes.vocab_size:,} tokens, {sizes.max_positions} positions"),
    ]


def _parameters(table: ParameterTable) -> dict[str, Any]:
    rows = [asdict(row) for row in [*table.encoder, *table.heads]]
    return {"parameters": table.total, "encoder_parameters": table.encoder_total, "table": rows}


def _casing(lower_case: bool | None) -> dict[str, str]:
    if lower_case is None:
        return {"casing": "not stored"}
    return {"casing": "uncased" if lower_case else "cased"}


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
