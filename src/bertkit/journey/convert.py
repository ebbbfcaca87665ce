"""`bertkit convert`: a checkpoint of one kind in, one of another out, proved to be the same model.

    SRC   a TensorFlow checkpoint, a Hugging Face or sentence-transformers directory, a hub's model
    DST   config.json, model.safetensors, the tokenizer's files       --to huggingface
          with --pooling: modules.json, 1_Pooling/ besides            (sentence-transformers)
          bert_config.json, bert_model.ckpt.*, vocab.txt              --to tensorflow
          model.onnx, config.json, the tokenizer's files              --to onnx

The proof is a forward pass on both sides over the same random sequences, before the result is
moved into its place. The source is given up before the result is read back, so that one model is
in memory at a time.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from bertkit.errors import UserError, listed
from bertkit.files import writing
from bertkit.formats.assembly import LoadedCheckpoint
from bertkit.formats.configuration import config_values, write_config
from bertkit.formats.heads import model_outputs
from bertkit.formats.hub import checkpoint_path
from bertkit.formats.huggingface import load_checkpoint, save_checkpoint
from bertkit.formats.kinds import CONFIG, KINDS, ONNX, Kind, kind_of
from bertkit.formats.sentence import (
    SentenceModules,
    read_sentence_modules,
    write_sentence_modules,
)
from bertkit.formats.source import load_source, probe
from bertkit.formats.tensorflow import load_tensorflow, save_tensorflow
from bertkit.journey.config import ConvertConfig
from bertkit.progress import say
from bertkit.tasks.fit import check_fit
from bertkit.text.tokenizer import Tokenizer
from bertkit.text.tokenizer_files import (
    has_capitals,
    has_tokenizer,
    load_vocabulary,
    read_directory,
)
from bertkit.training.seeds import seed_initial_weights

LARGEST_DIFFERENCE = {"huggingface": 0.0, "tensorflow": 0.0, "onnx": 1e-4}
"""Above this, as a share of the largest output where that is over 1, the result is not written."""

_SHOWN = 5


@dataclass
class ConvertResult:
    """What became of a checkpoint.

    Attributes:
        source, output: the paths.
        kind, to: what they are.
        head: of the model.
        parameters: numbers in it.
        files: names of what was written.
        difference: largest difference between the outputs of both sides.
        missing: weights that the source lacks, which start fresh.
        unexpected: what of the source found no place.
        left_out: variables of an optimizer, counted.
        vocabulary: entries, or None without one.
        quantized: scores, seconds and sizes before and after, with --quantize.
    """

    source: str
    kind: str
    output: str
    to: str
    head: str
    parameters: int
    files: list[str]
    difference: float
    missing: list[str]
    unexpected: list[str]
    left_out: int
    vocabulary: int | None
    seconds: float
    quantized: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        lines = [
            f"{self.output}: {KINDS[self.to]}, {self.head}, {self.parameters:,} parameters, "  # type: ignore[index]
            f"in {self.seconds:.1f} s",
            f"largest difference between both sides: {self.difference:.3g}",
        ]
        for name, tensors in (("started fresh", self.missing), ("not taken", self.unexpected)):
            if tensors:
                lines.append(f"{name}: {listed(tensors, _SHOWN)}")
        if self.left_out:
            lines.append(f"left out: an optimizer's variables, {self.left_out} (--optimizer)")
        if self.quantized:
            lines += quantized_lines(self.quantized)
        return "\n".join(lines)


def convert(config: ConvertConfig) -> ConvertResult:
    """Converts `config.source` and writes `config.output`.

    Raises:
        UserError: the source cannot be read, does not fit the vocabulary, or has no place in the
            kind asked for; both sides differ; an option that makes no sense with the others.
    """
    started = time.monotonic()
    _check(config)
    source = checkpoint_path(config.source)
    if source.resolve() == Path(config.output).resolve():
        raise UserError(f"{source} is the source too; give another folder for the result")
    sentence = read_sentence_modules(source) if source.is_dir() else None
    encoder = sentence.transformer if sentence else source
    kind = kind_of(encoder)
    say(
        f"{config.source} is {'a sentence-transformers directory' if sentence else KINDS[kind]}; "
        f"{config.output} becomes {_target(config, sentence)}",
        config.quiet,
    )
    changes: dict[str, Any] = {} if config.activation is None else {"activation": config.activation}
    seed_initial_weights(0)  # what the source lacks starts alike every time
    if config.optimizer:
        loaded = load_tensorflow(encoder, config.head, optimizer=True, **changes)
    else:
        loaded = load_source(encoder, config.head, **changes)
    model = loaded.model.eval()
    tokenizer = find_tokenizer(config, encoder, kind)
    if tokenizer is not None:
        extra = check_fit(tokenizer, model, Path(config.vocab or encoder), config.quiet)
        if extra:
            say(f"the last {extra} token embeddings are padding", config.quiet)
    else:
        say("there is no vocabulary beside it; give one with --vocab", config.quiet)
    batch = probe(model.config)  # type: ignore[arg-type]
    before = model_outputs(model, batch)
    quantized: dict[str, Any] = {}
    with writing(config.output) as folder:
        folder.mkdir()
        _write(model, loaded, folder, config, tokenizer)
        if config.pooling or (sentence and config.to == "huggingface"):
            _write_sentence(folder, config, sentence, model)
        if config.quantize != "none":
            from bertkit.journey.quantize import quantize_and_compare

            quantized = quantize_and_compare(config, model, tokenizer, folder, encoder)
        result = ConvertResult(
            source=config.source,
            kind=kind,
            output=config.output,
            to=config.to,
            head=str(model.head),
            parameters=sum(value.numel() for value in model.parameters()),
            files=sorted(
                str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()
            ),
            difference=0.0,
            missing=loaded.missing,
            unexpected=loaded.unexpected,
            left_out=len(loaded.left_out),
            vocabulary=None if tokenizer is None else len(tokenizer),
            seconds=0.0,
        )
        del model, loaded
        result.difference = _difference(before, _outputs_of(folder, config.to, batch))
        _check_difference(result, before)
    result.quantized = quantized
    result.seconds = round(time.monotonic() - started, 3)
    return result


def _check(config: ConvertConfig) -> None:
    """Refuses options that make no sense together."""
    if config.quantize != "none" and config.to != "onnx":
        raise UserError("--quantize needs --to onnx: only that is computed in 8-bit integers")
    if config.quantize == "static" and not config.calibration:
        raise UserError("--quantize static needs texts to measure on: --calibration FILE")
    if config.calibration and config.quantize != "static":
        raise UserError("--calibration is for --quantize static: give both, or neither")
    if (config.data or config.task) and config.quantize == "none":
        raise UserError("--data and --task score a quantized model: give --quantize too")
    if config.optimizer and config.to != "tensorflow":
        raise UserError("--optimizer needs --to tensorflow: other kinds have no place for it")
    if config.pooling and config.to != "huggingface":
        raise UserError("--pooling makes a sentence-transformers directory: leave --to out")
    if config.normalize and not config.pooling:
        raise UserError("--normalize is about sentence vectors: give --pooling too")
    if config.max_examples < 1:
        raise UserError(f"--max-examples is {config.max_examples}; score at least one")


def _target(config: ConvertConfig, sentence: SentenceModules | None) -> str:
    if config.pooling:
        return f"a sentence-transformers directory that pools by {config.pooling}"
    if sentence and config.to == "huggingface":
        return f"a sentence-transformers directory that pools by {', '.join(sentence.pooling)}"
    return KINDS[config.to]


def find_tokenizer(config: ConvertConfig, source: Path, kind: Kind) -> Tokenizer | None:
    """The tokenizer asked for, or the one beside a checkpoint, or None."""
    places = [source]
    if kind == "tensorflow":
        place = source if source.is_dir() else source.parent
        places = [place, place / "assets"]
        if place.name == "variables":  # of a saved model
            places += [place.parent, place.parent / "assets"]
    if config.vocab is not None:
        place = Path(config.vocab)
        if not place.exists():
            raise UserError(f"there is no {place}; give a vocab.txt or the folder of a tokenizer")
        places = [place]
    for place in places:
        if place.is_file():
            return Tokenizer.load(place, _casing(config, load_vocabulary(place), source))
        if has_tokenizer(place):
            return _from_directory(config, place, source)
    return None


def _from_directory(config: ConvertConfig, place: Path, source: Path) -> Tokenizer:
    stored = read_directory(place)
    if stored.lower_case is None:
        return Tokenizer.load(place, _casing(config, stored.vocabulary, source))
    wanted = {"cased": False, "uncased": True}.get(config.casing)
    return Tokenizer.load(place, wanted)


def _casing(config: ConvertConfig, vocabulary: list[str], source: Path) -> bool:
    """Whether to lower-case where nothing says so: by the option, the name, the entries."""
    if config.casing != "auto":
        return config.casing == "uncased"
    named = re.search(r"(^|[_\W])(un)?cased([_\W]|$)", source.resolve().name)
    if named:
        lower, why = named[2] is not None, "by its name"
    else:
        lower = not has_capitals(vocabulary)
        why = f"its vocabulary has {'no ' * lower}capitals"
    say(f"taken for {'uncased' if lower else 'cased'}: {why} (--casing)", config.quiet)
    return lower


def _write(
    model: nn.Module,
    loaded: LoadedCheckpoint,
    folder: Path,
    config: ConvertConfig,
    tokenizer: Tokenizer | None,
) -> None:
    """The files of the kind asked for, and the tokenizer's."""
    if config.to == "tensorflow":
        save_tensorflow(model, folder, optimizer=loaded.optimizer)
    elif config.to == "onnx":
        from bertkit.formats.onnx import save_onnx

        save_onnx(model, folder / ONNX)
        write_config(config_values(model) | {"model_type": "bert"}, folder / CONFIG)
    else:
        save_checkpoint(model, folder)
    if tokenizer is not None:
        tokenizer.save(folder, model.config.max_positions)  # type: ignore[union-attr, arg-type]


def _write_sentence(
    folder: Path, config: ConvertConfig, sentence: SentenceModules | None, model: Any
) -> None:
    sizes = model.config
    length = (sentence.max_length if sentence else None) or sizes.max_positions
    if config.pooling is None and sentence is not None:
        if len(sentence.pooling) > 1 or sentence.layers:
            raise UserError(
                f"{config.source} has steps after its pooling, or several poolings, which are read "
                "and not written; choose one with --pooling"
            )
        pooling, normalize = sentence.pooling[0], sentence.normalize
    else:
        pooling, normalize = config.pooling, config.normalize  # type: ignore[assignment]
    write_sentence_modules(
        folder, pooling, normalize, sizes.hidden_size, min(length, sizes.max_positions)
    )


def _outputs_of(folder: Path, to: Kind, batch: Any) -> dict[str, Tensor]:
    """What the written model computes, read back from its files."""
    if to == "onnx":
        from bertkit.formats.onnx import OnnxModel

        return OnnxModel(folder / ONNX).outputs(batch)
    loaded = load_tensorflow(folder) if to == "tensorflow" else load_checkpoint(folder)
    return model_outputs(loaded.model.eval(), batch)


def _difference(before: dict[str, Tensor], after: dict[str, Tensor]) -> float:
    if before.keys() != after.keys():
        raise UserError(
            f"the result computes {', '.join(after)} and not {', '.join(before)}; "
            "this should not happen: report it"
        )
    return max(float((before[name] - after[name]).abs().max()) for name in before)


def _check_difference(result: ConvertResult, before: dict[str, Tensor]) -> None:
    """Raises UserError where both sides are not the same model; nothing is left then."""
    scale = max(1.0, *(float(value.abs().max()) for value in before.values()))
    if not result.difference <= LARGEST_DIFFERENCE[result.to] * scale:
        raise UserError(
            f"the result differs from {result.source} by {result.difference:.3g}, more than "
            f"{LARGEST_DIFFERENCE[result.to]:g}; nothing was written: convert it again, or report "
            "it if it happens again"
        )


def quantized_lines(found: dict[str, Any]) -> list[str]:
    """What quantization gave, for people."""
    before, after = found["float32"], found["int8"]
    lines = [
        f"int8 ({found['how']}): {after['bytes'] / 1e6:,.1f} MB instead of "
        f"{before['bytes'] / 1e6:,.1f}, outputs differ by {found['difference']:.3g}"
    ]
    if "metrics" in before:
        pairs = [
            f"{name} {value:.4f} -> {after['metrics'][name]:.4f}"
            for name, value in before["metrics"].items()
        ]
        lines.append(f"on {found['examples']:,} examples: {', '.join(pairs)}")
    times = before["seconds"] / after["seconds"]
    lines.append(
        f"speed: {times:.2f} times that of float32"
        if times >= found["gain"]
        else f"this processor gains nothing from int8: it computes {times:.2f} times as fast as "
        "float32; take model.onnx unless the size matters"
    )
    return lines
