"""One update: what it takes from the device at once, and how it goes on where it may run ahead."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from bertkit.model.dropout import Dropout
from bertkit.training.batch import Batch
from bertkit.training.config import TrainOptions
from bertkit.training.log import read_log
from bertkit.training.loop import train
from bertkit.training.objective import LossSums
from bertkit.training.optimizer import make_optimizer
from bertkit.training.processes import Processes
from bertkit.training.update import NotFiniteError, Updater
from tests.training.small import Classify, RandomBatches, small_model

OPTIONS = TrainOptions(steps=10, learning_rate=1e-3)
ALONE = Processes(0, 1, torch.device("cpu"))


class Broken(Classify):
    """Losses that become infinite where a step is asked for it."""

    factor = 1.0

    def __call__(self, model: nn.Module, batch: Batch) -> LossSums:
        sums = super().__call__(model, batch)
        sums.losses["label"] = sums.losses["label"] * self.factor
        return sums


def updater(objective: Classify, runs_ahead: bool) -> Updater:
    model = small_model()
    update = Updater(model, objective, make_optimizer(model, OPTIONS), ALONE)
    update._runs_ahead = runs_ahead
    return update


def weights(update: Updater) -> list[Tensor]:
    return [p.detach().clone() for p in update.model.parameters()]


def test_an_update_that_runs_ahead_of_its_check_is_the_same() -> None:
    source = RandomBatches()
    found = []
    for runs_ahead in (False, True):
        update = updater(Classify(), runs_ahead)
        told = [update(step, list(enumerate(source.step(step))), OPTIONS) for step in range(3)]
        found.append((weights(update), told))
    for one, other in zip(found[0][0], found[1][0], strict=True):
        assert torch.equal(one, other)
    assert found[0][1] == found[1][1]


@pytest.mark.parametrize("factor", [float("inf"), float("nan")])
@pytest.mark.parametrize("runs_ahead", [False, True])
def test_a_loss_that_is_not_finite_leaves_weights_and_moments(
    runs_ahead: bool, factor: float
) -> None:
    source, objective = RandomBatches(), Broken()
    update = updater(objective, runs_ahead)
    update(0, list(enumerate(source.step(0))), OPTIONS)
    before = weights(update)
    first = next(iter(update.model.parameters()))
    state = {name: value.clone() for name, value in update.optimizer.state[first].items()}
    objective.factor = factor
    with pytest.raises(NotFiniteError, match="the loss is no longer finite at step 2"):
        update(1, list(enumerate(source.step(1))), OPTIONS)
    for one, other in zip(weights(update), before, strict=True):
        assert torch.equal(one, other)
    for name, value in update.optimizer.state[first].items():
        assert torch.equal(value, state[name]), name


def test_numbers_come_from_the_device_once_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """A look at a value makes a GPU wait: not one in a micro-batch, however many there are."""
    looks: list[str] = []

    def counted(name: str) -> None:
        real = getattr(Tensor, name)

        def look(self: Tensor, *arguments: object) -> object:
            looks.append(name)
            return real(self, *arguments)

        monkeypatch.setattr(Tensor, name, look)

    source, update = RandomBatches(sequences=16, micro=2), updater(Classify(), runs_ahead=True)
    batches = list(enumerate(source.step(0)))
    for name in ("item", "tolist", "__float__", "__bool__", "__int__"):
        counted(name)
    values = update(0, batches, OPTIONS)
    assert values["accuracy"][1] == 16
    # besides, the embeddings look at ids on a CPU only
    assert [name for name in looks if name != "__int__"] == ["tolist"]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_updates_on_a_gpu_are_those_of_a_cpu() -> None:
    source, found = RandomBatches(), []
    for device in ("cpu", "cuda"):
        model = small_model().to(device)
        for module in model.modules():
            if isinstance(module, Dropout):
                module.rate = 0.0
        processes = Processes(0, 1, torch.device(device))
        update = Updater(model, Classify(), make_optimizer(model, OPTIONS), processes)
        told = []
        for number in range(3):
            batches = list(enumerate(source.step(number)))
            if device == "cuda":
                batches = [(place, batch.pinned()) for place, batch in batches]
            told.append(update(number, batches, OPTIONS)["loss"][0])
        found.append((torch.tensor(told), [w.cpu() for w in weights(update)]))
    torch.testing.assert_close(found[1][0], found[0][0], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(found[1][1], found[0][1], rtol=1e-3, atol=1e-4)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_run_on_a_gpu_goes_on_from_its_restart_point(tmp_path: Path) -> None:
    device = Processes(0, 1, torch.device("cuda"))
    for steps in (4, 8):
        options = TrainOptions(steps, 1e-3, checkpoint_steps=2, precision="bf16", quiet=True)
        result = train(
            small_model(), Classify(), RandomBatches(), options, tmp_path, processes=device
        )
    assert result.resumed_from == 4
    assert all(torch.isfinite(torch.tensor(r["loss"])) for r in read_log(tmp_path))
