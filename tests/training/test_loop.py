"""The loop: it learns, cuts steps freely, logs, and continues bit for bit."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
import torch
from torch import nn

from bertkit.errors import Interrupted, UserError
from bertkit.training.batch import Batch
from bertkit.training.checkpoint import FOLDER
from bertkit.training.config import TrainOptions
from bertkit.training.log import read_log
from bertkit.training.loop import LossSums, prefetched, train
from tests.training.small import Classify, RandomBatches, small_model


def options(**changes: object) -> TrainOptions:
    values = {"steps": 30, "learning_rate": 1e-3, "warmup_steps": 3, "quiet": True}
    return TrainOptions(**{**values, **changes})  # type: ignore[arg-type]


def weights(model: nn.Module) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in model.state_dict().items()}


def same(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    return a.keys() == b.keys() and all(a[name].equal(b[name]) for name in a)


def test_training_learns_and_logs(tmp_path: Path) -> None:
    model = small_model()
    result = train(
        model,
        Classify(),
        RandomBatches(),
        options(steps=60, learning_rate=3e-3),
        tmp_path,
        lambda _: {"accuracy": 0.5},
    )
    records = read_log(tmp_path)
    trained = [record for record in records if record["kind"] == "train"]
    assert [record["step"] for record in trained] == [10, 20, 30, 40, 50, 60]
    assert trained[-1]["label_loss"] < 0.5 * trained[0]["label_loss"]
    assert trained[-1]["accuracy"] > 0.9
    assert {"learning_rate", "gradient_norm", "tokens_per_second", "tokens"} <= trained[0].keys()
    assert result.dev == {"accuracy": 0.5}
    assert records[-1]["kind"] == "dev"


def test_the_same_seed_gives_the_same_weights_and_workers_change_nothing(tmp_path: Path) -> None:
    ends = []
    for number, workers in enumerate((0, 1, 2)):
        model = small_model()
        train(model, Classify(), RandomBatches(), options(workers=workers), tmp_path / str(number))
        ends.append(weights(model))
    assert same(ends[0], ends[1])
    assert same(ends[0], ends[2])


def test_a_step_is_the_same_however_it_is_cut(tmp_path: Path) -> None:
    ends = []
    for micro in (8, 2):
        model = small_model()
        for module in model.modules():
            if hasattr(module, "rate"):
                module.rate = 0.0
        model.config.attention_dropout = 0.0
        model.eval()
        source = RandomBatches(micro=micro)
        batches = source.step(0)
        total = sum(Classify().counts(batch)["label"] for batch in batches)
        for batch in batches:
            (Classify()(model, batch).losses["label"] / total).backward()
        ends.append([p.grad.clone() for p in model.parameters() if p.grad is not None])
    for whole, parts in zip(*ends, strict=True):
        torch.testing.assert_close(whole, parts, rtol=1e-4, atol=1e-7)


class StopAt(RandomBatches):
    """Sends this process a signal while the batch of a step is built."""

    def __init__(self, step: int, number: int) -> None:
        super().__init__()
        self.stop, self.number = step, number

    def step(self, step: int) -> list[Batch]:
        if step == self.stop:
            os.kill(os.getpid(), self.number)
        return super().step(step)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("checkpoint_steps", [0, 4])
def test_an_interrupted_run_continues_bit_for_bit(
    tmp_path: Path, number: int, checkpoint_steps: int
) -> None:
    how = options(workers=0, checkpoint_steps=checkpoint_steps)
    whole = small_model()
    train(whole, Classify(), RandomBatches(), how, tmp_path / "whole")
    run = tmp_path / "cut"
    with pytest.raises(Interrupted, match="after step 14 of 30"):
        train(small_model(), Classify(), StopAt(13, number), how, run)
    model = small_model(seed=99)  # its weights must not matter
    source = RandomBatches()
    result = train(model, Classify(), source, how, run)
    assert result.resumed_from == 14
    assert source.asked[0] == 14
    assert same(weights(whole), weights(model))
    told = [record for record in read_log(run) if record["kind"] == "train"]
    steps = [record["step"] for record in told]
    assert steps == sorted(set(steps))
    assert steps[-1] == 30
    assert told[-1]["tokens"] == read_log(tmp_path / "whole")[-1]["tokens"]


def test_old_restart_points_go(tmp_path: Path) -> None:
    train(
        small_model(),
        Classify(),
        RandomBatches(),
        options(checkpoint_steps=5, keep_checkpoints=2),
        tmp_path,
    )
    left = sorted(path.name for path in (tmp_path / FOLDER).iterdir())
    assert left == ["step-00000025", "step-00000030"]


class Diverge(Classify):
    def __call__(self, model: nn.Module, batch: Batch) -> LossSums:
        sums = super().__call__(model, batch)
        sums.losses["label"] = sums.losses["label"] * float("nan")
        return sums


def test_a_loss_that_is_not_finite_stops_the_run_before_the_weights_change(tmp_path: Path) -> None:
    model = small_model()
    before = weights(model)
    with pytest.raises(UserError, match=r"no longer finite at step 1; .*--learning-rate"):
        train(model, Diverge(), RandomBatches(), options(), tmp_path)
    assert same(before, weights(model))


class Broken(RandomBatches):
    def step(self, step: int) -> list[Batch]:
        if step == 2:
            raise UserError("the corpus is gone")
        return super().step(step)


@pytest.mark.parametrize("workers", [0, 1])
def test_an_error_in_the_source_reaches_the_training(workers: int) -> None:
    with pytest.raises(UserError, match="the corpus is gone"):
        list(prefetched(Broken(), 0, 5, workers))


def test_weights_move_under_every_parameter(tmp_path: Path) -> None:
    model = small_model()
    before = weights(model)
    train(model, Classify(), RandomBatches(), options(steps=3), tmp_path)
    unmoved = {
        name for name, value in model.named_parameters() if value.detach().equal(before[name])
    }
    assert not unmoved
