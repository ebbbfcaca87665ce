"""The configuration of `bertkit pretrain`. The defaults are the paper's (appendix A.2)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from bertkit import config as configurations
from bertkit.config import option, presets
from bertkit.errors import UserError
from bertkit.model.config import PositionInit
from bertkit.training.config import Compile, OptimizerName, Precision, Schedule

_PAPER: dict[str, Any] = {
    "sequence_length": 512,
    "phases": ["128:0.9"],
    "batch_size": 256,
    "steps": 1_000_000,
    "learning_rate": 1e-4,
    "warmup": 0.01,
    "schedule": "linear",
    "reference_warmup": True,
    "optimizer": "adam-paper",
    "weight_decay": 0.01,
    "beta2": 0.999,
    "dropout": 0.1,
}
PRESETS: dict[str, dict[str, Any]] = {
    "paper-base": {"model": "base", **_PAPER},
    "paper-large": {"model": "large", **_PAPER},
}
"""The paper's two runs (appendix A.2), with the optimizer and the warm-up of the reference."""

ObjectiveName = Literal["mlm+nsp", "mlm", "mlm+sop", "ltr"]
Pairs = Literal["nsp", "nsp-sentence", "sop", "full-sentences", "doc-sentences"]
Masking = Literal["dynamic", "static"]
MaskUnits = Literal["token", "word", "span"]


@presets(PRESETS)
@dataclass
class PretrainConfig:
    """Pre-train a BERT on a prepared corpus: masked LM and next sentence, or a variant."""

    corpus: str = option(help="the corpus that 'bertkit prepare' wrote", positional=True)
    output: str = option(help="folder of the run; the same command continues it", short="o")
    preset: Literal["paper-base", "paper-large"] | None = option(
        None,
        help="the paper's runs as defaults: sizes, 1M steps of 256 sequences, 128 then 512 tokens "
        "(default: none)",
    )
    model: str | None = option(
        None,
        help="tiny, mini, small, medium, base, large, or LAYERSxHIDDENxHEADS as 2x256x4; default: "
        "base, or the checkpoint's",
    )
    from_checkpoint: str | None = option(
        None,
        help="continue the pre-training of a checkpoint, a finished run or a released checkpoint "
        "by its name, as bert-base-chinese, on this corpus "
        "(default: fresh weights)",
    )
    sequence_length: int = option(512, help="tokens of a sentence pair, special tokens included")
    phases: list[str] | None = option(
        None,
        help="phases of shorter sequences before, as LENGTH:SHARE of the steps, or none (default: "
        "128:0.9, where --sequence-length is more than 128)",
    )
    batch_size: int = option(256, help="sequences in a step")
    micro_batch_size: int = option(
        32, help="sequences in one forward pass; a step is made of several"
    )
    batch_tokens: int | None = option(
        None,
        help="instead of --batch-size: tokens in a step, in micro-batches of like lengths that "
        "hold as many as --micro-batch-size full sequences",
    )
    steps: int = option(1_000_000, help="updates of the weights")
    max_minutes: float | None = option(
        None,
        help="instead of --steps: as many steps as fit these minutes, measured at the start and "
        "set right at restart points",
    )
    learning_rate: float = option(1e-4, help="the peak, at the end of the warm-up")
    warmup: float = option(0.01, help="share of the steps in which the learning rate rises")
    schedule: Schedule = option(
        "linear",
        help="after the warm-up: linear or cosine fall, constant, or wsd: constant, then a fall",
    )
    decay: float = option(0.1, help="share of the steps, the last ones, in which wsd falls")
    reference_warmup: bool = option(
        False,
        help="warm up as the reference release, whose rate starts at 0 and jumps down at the end",
    )
    optimizer: OptimizerName = option(
        "adamw", help="adamw, adam-paper (no bias correction, as the reference release), or lamb"
    )
    weight_decay: float = option(0.01, help="not on LayerNorm and biases")
    beta2: float = option(0.999, help="the optimizer's second moment decay")
    dropout: float = option(0.1, help="at every site of the paper, attention included")
    objective: ObjectiveName = option(
        "mlm+nsp",
        help="what is learned: masked LM with next sentence, alone, or with sentence order; "
        "or ltr, a left-to-right language model with a causal mask",
    )
    pairs: Literal["auto", Pairs] = option(
        "auto",
        help="what an example is. nsp: two segments, the second random half of the time; "
        "nsp-sentence: the same with two single sentences; sop: two segments that follow each "
        "other, swapped half of the time; full-sentences: one text, across documents; "
        "doc-sentences: one text of one document. auto: nsp for mlm+nsp, sop for mlm+sop, else "
        "full-sentences",
    )
    mask_rate: float = option(0.15, help="share of the tokens that the masked LM predicts")
    max_predictions: int | None = option(
        None, help="most predictions in a sequence; default: the mask rate's share of its length"
    )
    mask_split: str = option(
        "80/10/10",
        help="percent of the chosen tokens that become [MASK], stay, and become random; or a mix "
        "of the paper's table 8 by name: paper, mask, mask-random, mask-same, same-random, random",
    )
    mask_units: MaskUnits = option(
        "token",
        help="what is masked: single tokens, whole words (## pieces, or the words of a corpus "
        "prepared with --words), or spans of 1 to 10 words",
    )
    masking: Masking = option(
        "dynamic", help="dynamic: other pairs and masks in each epoch; static: see --duplicates"
    )
    duplicates: int | None = option(
        None,
        help="with --masking static, epochs that differ before they repeat (default: 10, the "
        "reference's dupe_factor)",
    )
    short_probability: float = option(
        0.1, help="how often a document's examples are shorter; nsp-sentence has no such draw"
    )
    position_init: PositionInit = option(
        "normal", help="how position embeddings start; sinusoidal helps very short runs"
    )
    initializer_range: float = option(
        0.02, help="standard deviation of the initial weights; small models learn sooner with more"
    )
    max_positions: int | None = option(
        None,
        help="positions that the model has; default: 512 or the checkpoint's, or more for longer "
        "sequences",
    )
    learned_positions: int | None = option(
        None,
        help="with --from-checkpoint, how many positions it has learned, the first ones; those "
        "after them start as copies (default: all that it has)",
    )
    precision: Precision = option(
        "auto", help="fp32, bf16, or auto: bf16 where the processor is fast at it"
    )
    device: str = option(
        "auto", help="cpu, cuda, cuda:1 for the second GPU, or auto: a GPU where there is one"
    )
    compile: Compile = option(
        "auto",
        help="on: torch.compile, faster after a slow start; auto: in long runs on a GPU; or off",
    )
    evaluate_steps: int = option(1000, help="steps between evaluations on the held-out documents")
    evaluate_examples: int = option(1024, help="held-out pairs to evaluate on")
    checkpoint_steps: int = option(1000, help="steps between restart points")
    keep_checkpoints: int = option(2, help="restart points that stay on disk")
    keep_best: bool = option(
        False, help="also keep the restart point with the lowest held-out loss, checkpoints/best"
    )
    activation_checkpointing: bool = option(
        False, help="less memory, a third more work: compute activations again going backwards"
    )
    shard_optimizer: bool = option(
        False,
        help="with many processes (torchrun), keep the optimizer's moments of a share of the "
        "parameters in each instead of all in all",
    )
    log_steps: int = option(10, help="steps between lines of the log")
    workers: int = option(
        1, help="threads that build batches in the background; 0: between the steps"
    )
    seed: int = option(0, help="of pairs, masks, dropout and initial weights")
    verify: bool = option(True, help="read the corpus and compare its checksums before the start")
    allow_changes: bool = option(
        False, help="continue a run with other options than it was started with"
    )
    dry_run: bool = option(
        False, help="print steps, FLOPs, memory, disk and projected time; write nothing"
    )
    quiet: bool = option(False, help="print no progress")


def pretrained_length(place: Path) -> int | None:
    """The sequence length of the pre-training that a checkpoint is the result of, if it is one.

    It is only for a hint: a configuration of another version is passed over.
    """
    file = place / "pretrain.yaml"
    if not file.is_file():
        return None
    try:
        return configurations.load(PretrainConfig, file).sequence_length
    except UserError:
        return None
