"""The configuration of `bertkit pretrain`. The defaults are the paper's (appendix A.2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from bertkit.config import option
from bertkit.model.config import PositionInit
from bertkit.training.config import Precision

ObjectiveName = Literal["mlm+nsp", "mlm", "mlm+sop", "ltr"]
Pairs = Literal["nsp", "nsp-sentence", "sop", "full-sentences", "doc-sentences"]
Masking = Literal["dynamic", "static"]
MaskUnits = Literal["token", "word", "span"]


@dataclass
class PretrainConfig:
    """Pre-train a BERT on a prepared corpus: masked LM and next sentence, or a variant."""

    corpus: str = option(help="the corpus that 'bertkit prepare' wrote", positional=True)
    output: str = option(help="folder of the run; the same command continues it", short="o")
    model: str = option(
        "base",
        help="tiny, mini, small, medium, base, large, or LAYERSxHIDDENxHEADS as 2x256x4",
    )
    sequence_length: int = option(128, help="tokens of a sentence pair, special tokens included")
    phases: list[str] = option(
        [], help="phases of shorter sequences before, as LENGTH:SHARE of the steps: 128:0.9"
    )
    batch_size: int = option(256, help="sequences in a step")
    micro_batch_size: int = option(
        32, help="sequences in one forward pass; a step is made of several"
    )
    steps: int = option(1_000_000, help="updates of the weights")
    max_minutes: float | None = option(
        None,
        help="instead of --steps: as many steps as fit these minutes, measured once at the start",
    )
    learning_rate: float = option(1e-4, help="the peak, at the end of the warm-up")
    warmup: float = option(0.01, help="share of the steps in which the learning rate rises")
    weight_decay: float = option(0.01, help="not on LayerNorm and biases")
    beta2: float = option(0.999, help="AdamW's second moment decay")
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
        None, help="positions that the model has; default: 512, or more for longer sequences"
    )
    precision: Precision = option(
        "auto", help="fp32, bf16, or auto: bf16 where the processor is fast at it"
    )
    evaluate_steps: int = option(1000, help="steps between evaluations on the held-out documents")
    evaluate_examples: int = option(1024, help="held-out pairs to evaluate on")
    checkpoint_steps: int = option(1000, help="steps between restart points")
    keep_checkpoints: int = option(2, help="restart points that stay on disk")
    log_steps: int = option(10, help="steps between lines of the log")
    workers: int = option(1, help="1 builds batches in the background, 0 between the steps")
    seed: int = option(0, help="of pairs, masks, dropout and initial weights")
    quiet: bool = option(False, help="print no progress")
