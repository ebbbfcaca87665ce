"""What the paper's defaults give must not move: stored batches, exact, and a stored loss curve.

The batches were stored before the variants of pairs, masks and objectives existed; the losses again
when attention's dropout came to be drawn as bytes, which moved them by 0.03 % at most. Batches are
integers and the same everywhere; losses differ in the last digits from processor to processor.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from bertkit.model.bert import PretrainingModel
from bertkit.model.config import model_config
from bertkit.pretraining.batches import PretrainingSource, SpecialIds
from bertkit.pretraining.masking import MaskOptions
from bertkit.pretraining.objectives import MaskedLMAndNextSentence
from bertkit.pretraining.plan import PlanOptions
from bertkit.training.config import TrainOptions
from bertkit.training.log import read_log
from bertkit.training.loop import train
from bertkit.training.seeds import seed_initial_weights
from tests.pretraining.memory_split import MemorySplit, random_documents

DIGEST = "7f43d00201e6029eeb64be918169edd02e50b1c3fed0e9af37cb62750e346b46"
LOSSES = [5.23534, 4.88846, 4.53883, 4.21760, 3.97255, 3.77033, 3.70019, 3.59209, 3.52327, 3.52585]


def source() -> PretrainingSource:
    split = MemorySplit(random_documents(80, seed=12, most_tokens=40))
    split.ids = (
        np.arange(split.tokens, dtype=np.int32) % 12
    ) + 5  # so that there is something to learn
    masks = MaskOptions(mask_id=4, vocab_size=100, max_predictions=10)
    return PretrainingSource(split, PlanOptions(64, seed=3), masks, SpecialIds(2, 3), 16, 8)


def test_the_batches_of_the_default_rules_are_what_they_were() -> None:
    digest = hashlib.sha256()
    reader = source()
    for step in (0, 1, 50, 200):
        for batch in reader.step(step):
            inputs = batch.inputs
            for tensor in (inputs.token_ids, inputs.segment_ids, inputs.positions, inputs.bounds):
                digest.update(tensor.numpy().astype(np.int64).tobytes())
            for name in ("masked", "masked_ids", "next_sentence"):
                digest.update(batch.targets[name].numpy().astype(np.int64).tobytes())
    assert digest.hexdigest() == DIGEST


def test_the_losses_of_the_default_objective_are_what_they_were(
    tmp_path: Path, threads: Callable[[int], None]
) -> None:
    threads(1)
    seed_initial_weights(5)
    model = PretrainingModel(model_config("2x32x2", 100))
    options = TrainOptions(
        steps=30,
        learning_rate=3e-3,
        warmup_steps=3,
        precision="fp32",
        seed=5,
        log_steps=3,
        workers=0,
        quiet=True,
    )
    train(model, MaskedLMAndNextSentence(), source(), options, tmp_path)
    losses = [record["loss"] for record in read_log(tmp_path) if record["kind"] == "train"]
    assert losses == pytest.approx(LOSSES, rel=2e-4)
