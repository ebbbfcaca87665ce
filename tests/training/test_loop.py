"""The loop: it learns, cuts steps freely, logs, and continues bit for bit."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from bertkit.errors import Interrupted, UserError
from bertkit.training.batch import Batch
from bertkit.training.checkpoint import BEST, FOLDER, best_loss
from bertkit.training.config import TrainOptions
from bertkit.training.log import read_log
from bertkit.training.loop import train
from bertkit.training.objective import LossSums
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
    assert all(0 <= record["waiting"] < 1 for record in trained)
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


@pytest.mark.parametrize("checkpoint_steps", [0, 4])
@pytest.mark.parametrize("keep_best", [False, True])
def test_a_signal_at_the_end_leaves_only_the_evaluation_to_do(
    tmp_path: Path, checkpoint_steps: int, keep_best: bool
) -> None:
    """In the last step, amid the evaluation after it, and amid that of a run that went on."""
    how = options(workers=0, checkpoint_steps=checkpoint_steps, keep_best=keep_best)
    calls = []

    def evaluate(model: nn.Module) -> dict[str, float]:
        calls.append(model)
        if len(calls) < 3:
            os.kill(os.getpid(), signal.SIGTERM)
        return {"loss": 1.5}

    run = tmp_path / "cut"
    model = small_model()
    with pytest.raises(Interrupted, match=r"after step 30 of 30, all of it saved"):
        train(model, Classify(), StopAt(29, signal.SIGINT), how, run, evaluate)
    assert not calls
    first, second = small_model(seed=99), small_model(seed=98)
    for attempt in (first, second):
        with pytest.raises(Interrupted, match="after step 30 of 30") as stopped:
            train(attempt, Classify(), RandomBatches(), how, run, evaluate)
        assert stopped.value.signal == signal.SIGTERM
    assert best_loss(run) is None
    last = small_model(seed=97)
    result = train(last, Classify(), RandomBatches(), how, run, evaluate)
    assert (result.resumed_from, result.dev, len(calls)) == (30, {"loss": 1.5}, 3)
    assert best_loss(run) == (1.5 if keep_best else None)
    assert [record["loss"] for record in read_log(run) if record["kind"] == "dev"] == [1.5]
    assert same(weights(model), weights(last))


def test_a_signal_amid_the_last_evaluation_saves_the_steps(tmp_path: Path) -> None:
    def stopped(model: nn.Module) -> dict[str, float]:
        os.kill(os.getpid(), signal.SIGINT)
        raise AssertionError("it went on")

    model = small_model()
    with pytest.raises(Interrupted, match="after step 30 of 30"):
        train(model, Classify(), RandomBatches(), options(), tmp_path, stopped)
    again = small_model(seed=99)
    how = options()
    assert train(again, Classify(), RandomBatches(), how, tmp_path).resumed_from == 30
    assert same(weights(model), weights(again))


@pytest.mark.parametrize("optimizer", ["adamw", "adam-paper", "lamb"])
def test_every_optimizer_continues_bit_for_bit(tmp_path: Path, optimizer: str) -> None:
    how = options(workers=0, checkpoint_steps=4, optimizer=optimizer)
    whole = small_model()
    train(whole, Classify(), RandomBatches(), how, tmp_path / "whole")
    run = tmp_path / "cut"
    with pytest.raises(Interrupted):
        train(small_model(), Classify(), StopAt(13, signal.SIGTERM), how, run)
    model = small_model(seed=99)
    assert train(model, Classify(), RandomBatches(), how, run).resumed_from == 14
    assert same(weights(whole), weights(model))
    assert not same(weights(whole), weights(small_model()))


def test_the_best_point_by_held_out_loss_is_kept(tmp_path: Path) -> None:
    losses = iter([3.0, 1.0, 2.0, 1.5, 0.9])
    at: dict[int, dict[str, torch.Tensor]] = {}

    def evaluate(model: nn.Module) -> dict[str, float]:
        at[len(at)] = weights(model)
        return {"loss": next(losses)}

    how = options(steps=20, evaluate_steps=5, checkpoint_steps=10, keep_best=True)
    train(small_model(), Classify(), RandomBatches(), how, tmp_path, evaluate)
    best = load_file(tmp_path / FOLDER / BEST / "model.safetensors")
    assert best["classifier.weight"].equal(at[1]["classifier.dense.weight"])
    assert best_loss(tmp_path) == 1.0
    kept = sorted(path.name for path in (tmp_path / FOLDER).iterdir())
    assert kept == [BEST, "step-00000010", "step-00000020"]
    more = options(steps=25, evaluate_steps=5, checkpoint_steps=10, keep_best=True)
    train(small_model(), Classify(), RandomBatches(), more, tmp_path, evaluate)
    assert best_loss(tmp_path) == 0.9


def test_space_for_all_restart_points_is_looked_at_before_the_first_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(10**9, 0, 10**5))
    source = RandomBatches()
    with pytest.raises(UserError, match=r"3 restart points .* needs .* MB .* has 0 MB free; free"):
        train(small_model(), Classify(), source, options(checkpoint_steps=5), tmp_path)
    assert not source.asked


def test_a_disk_that_fills_during_the_run_stops_it_with_the_last_point_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = iter([10**9, 10**9, 10**5])
    monkeypatch.setattr(
        shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(10**9, 0, next(free))
    )
    how = options(checkpoint_steps=5)
    with pytest.raises(UserError, match=r"the restart point of step 10 needs .*; free some space"):
        train(small_model(), Classify(), RandomBatches(), how, tmp_path)
    monkeypatch.undo()
    model, whole = small_model(), small_model()
    assert train(model, Classify(), RandomBatches(), how, tmp_path).resumed_from == 5
    train(whole, Classify(), RandomBatches(), how, tmp_path / "whole")
    assert same(weights(model), weights(whole))


def test_a_run_beyond_its_end_is_told_so(tmp_path: Path) -> None:
    train(small_model(), Classify(), RandomBatches(), options(checkpoint_steps=5), tmp_path)
    with pytest.raises(UserError, match=r"at step 30, which is after its end at 20"):
        train(small_model(), Classify(), RandomBatches(), options(steps=20), tmp_path)


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


class DivergeAt(Classify):
    """The gradient of step `step` is infinite, its loss is not."""

    def __init__(self, step: int) -> None:
        self.left = 2 * step

    def __call__(self, model: nn.Module, batch: Batch) -> LossSums:
        sums = super().__call__(model, batch)
        self.left -= 1
        if self.left < 0:
            loss = sums.losses["label"]
            sums.losses["label"] = (loss - loss.detach()).abs().sqrt() + loss.detach()
        return sums


@pytest.mark.parametrize("workers", [0, 2])
def test_the_batch_that_ended_a_run_is_written_and_the_restart_points_stay(
    tmp_path: Path, workers: int
) -> None:
    how = options(checkpoint_steps=4, workers=workers)
    with pytest.raises(
        UserError,
        match=r"gradient is no longer finite at step 11; its batch is in (.*step-00000011"
        r".safetensors); of the restart points that of step 8 is written before it",
    ):
        train(small_model(), DivergeAt(10), RandomBatches(), how, tmp_path)
    tensors = load_file(tmp_path / "not-finite-step-00000011.safetensors")
    for number, batch in enumerate(RandomBatches().step(10)):
        assert tensors[f"{number}/token_ids"].equal(batch.inputs.token_ids)
        assert tensors[f"{number}/labels"].equal(batch.targets["labels"])
    model, whole = small_model(), small_model()
    assert train(model, Classify(), RandomBatches(), how, tmp_path).resumed_from == 8
    train(whole, Classify(), RandomBatches(), how, tmp_path / "whole")
    assert same(weights(model), weights(whole))


def test_weights_move_under_every_parameter(tmp_path: Path) -> None:
    model = small_model()
    before = weights(model)
    train(model, Classify(), RandomBatches(), options(steps=3), tmp_path)
    unmoved = {
        name for name, value in model.named_parameters() if value.detach().equal(before[name])
    }
    assert not unmoved
