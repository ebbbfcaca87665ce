"""When a training is compiled, and that a compiled model computes what it does without."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from bertkit.errors import UserError
from bertkit.model import dropout, layers
from bertkit.model.batch import FlatBatch
from bertkit.model.bert import PretrainingModel
from bertkit.model.config import model_config
from bertkit.model.encoder import set_activation_checkpointing, set_compiled
from bertkit.training import compilation
from bertkit.training.compilation import WORTH_STEPS, compiles
from bertkit.training.config import Compile, TrainOptions
from bertkit.training.loop import train
from bertkit.training.processes import Processes
from tests.training.small import Classify, RandomBatches, small_model

CPU, GPU = torch.device("cpu"), torch.device("cuda")
ALONE = Processes(0, 1, CPU)


@pytest.fixture
def complete(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that has what compiling needs."""
    monkeypatch.setattr(compilation, "_lacking", lambda device: None)


@pytest.mark.parametrize(
    ("choice", "device", "steps", "expected"),
    [
        ("auto", CPU, 10 * WORTH_STEPS, False),
        ("auto", GPU, WORTH_STEPS, True),
        ("auto", GPU, WORTH_STEPS - 1, False),
        ("on", CPU, 1, True),
        ("on", GPU, 1, True),
        ("off", GPU, 10 * WORTH_STEPS, False),
    ],
)
def test_auto_compiles_a_training_that_is_long_enough_on_a_gpu(
    complete: None, choice: Compile, device: torch.device, steps: int, expected: bool
) -> None:
    assert compiles(choice, steps, device) is expected


def test_a_training_of_minutes_is_compiled_from_ten_on(complete: None) -> None:
    assert not compiles("auto", 10 * WORTH_STEPS, GPU, minutes=5)
    assert compiles("auto", 1, GPU, minutes=10)


def test_without_a_compiler_auto_goes_on_and_on_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compilation.shutil, "which", lambda name: None)
    assert not compiles("auto", 10 * WORTH_STEPS, GPU)
    with pytest.raises(UserError, match=r"--compile on needs a C\+\+ compiler"):
        compiles("on", 1, CPU)


@pytest.fixture
def traced(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """`torch.compile` without its code generation, which takes a minute on a CPU: the graphs are
    taken, differentiated and run. Holds the names of what is compiled."""
    names: list[str] = []
    real = torch.compile

    def compile(function: Callable[..., Any]) -> Callable[..., Any]:
        names.append(function.__name__)
        return real(function, backend="aot_eager")

    monkeypatch.setattr(torch, "compile", compile)
    torch.compiler.reset()
    layers.compiled.cache_clear()
    yield names
    layers.compiled.cache_clear()
    torch.compiler.reset()


def random_batch(seed: int) -> FlatBatch:
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(4, 20, (5,), generator=generator).tolist()
    return FlatBatch.from_sequences(
        [torch.randint(5, 60, (length,), generator=generator).tolist() for length in lengths]
    )


def step(model: PretrainingModel, seed: int) -> list[Tensor]:
    """The loss and every gradient, with one dropout seed."""
    model.zero_grad()
    torch.manual_seed(3)
    places, targets = torch.tensor([1, 2, 5 + seed]), torch.tensor([5, 6, 7])
    losses = model.losses(random_batch(seed), places, targets, torch.tensor([0, 1, 0, 0, 1]))
    (losses.mlm_loss + losses.nsp_loss).backward()  # type: ignore[operator]
    return [losses.mlm_loss.detach(), *(p.grad for p in model.parameters())]  # type: ignore[list-item]


def compare(checkpointing: bool = False, dropout: float = 0.1) -> None:
    """Batches of several sizes, compiled and not."""
    torch.manual_seed(0)
    rates = {"hidden_dropout": dropout, "attention_dropout": dropout}
    model = PretrainingModel(model_config("3x32x2", 60, **rates))
    set_activation_checkpointing(model, checkpointing)
    for seed in range(3):
        set_compiled(model, False)
        plain = step(model, seed)
        set_compiled(model, True)
        torch.testing.assert_close(step(model, seed), plain, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("checkpointing", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_compiled_model_computes_the_same(traced: list[str], checkpointing: bool) -> None:
    compare(checkpointing)
    assert sorted(traced) == ["_cross_entropy", "after_attention", "together"]


def test_layers_and_batches_of_all_sizes_share_what_is_compiled(
    traced: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With dropout as on a GPU, where it is torch's own: one graph for each function."""
    monkeypatch.setattr(dropout, "dropout", F.dropout)
    monkeypatch.setattr(dropout, "add_dropped", lambda a, b, rate: a + F.dropout(b, rate))
    model = PretrainingModel(model_config("3x32x2", 60))
    set_compiled(model, True)
    torch._dynamo.utils.counters.clear()
    for seed in range(3):
        step(model, seed)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 3
    assert not torch._dynamo.utils.counters["graph_break"]


def test_answers_are_not_compiled(traced: list[str]) -> None:
    model = PretrainingModel(model_config("2x32x2", 60)).eval()
    set_compiled(model, True)
    with torch.no_grad():
        model(random_batch(0))
    assert not traced


def test_a_training_does_as_its_options_say(traced: list[str], tmp_path: Path) -> None:
    for choice in ("off", "on"):
        options = TrainOptions(steps=2, learning_rate=1e-3, compile=choice, quiet=True)  # type: ignore[arg-type]
        run = tmp_path / choice
        train(small_model(), Classify(), RandomBatches(), options, run, processes=ALONE)
        assert traced == ([] if choice == "off" else ["together", "after_attention"])


@pytest.mark.slow
def test_compiled_kernels_of_a_processor_compute_the_same() -> None:
    if compilation._lacking(CPU):
        pytest.skip("needs a C++ compiler")
    compare(dropout=0.0)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_compiled_kernels_of_a_gpu_compute_the_same() -> None:
    torch.manual_seed(0)
    rates = {"hidden_dropout": 0.0, "attention_dropout": 0.0}  # compiled masks are drawn otherwise
    model = PretrainingModel(model_config("2x64x2", 60, **rates)).to(GPU)
    places, targets, labels = (torch.arange(start, start + 5).to(GPU) % 2 for start in range(3))
    found = []
    for on in (False, True):
        set_compiled(model, on)
        model.zero_grad()
        losses = model.losses(random_batch(0).to(GPU), places, targets, labels)
        (losses.mlm_loss + losses.nsp_loss).backward()  # type: ignore[operator]
        found.append([losses.mlm_loss.detach(), *(p.grad for p in model.parameters())])
    torch.testing.assert_close(found[1], found[0], rtol=1e-3, atol=1e-4)
