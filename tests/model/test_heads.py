"""The heads: the chunked masked-LM loss beside the plain one, and next sentence."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from bertkit.model import heads
from bertkit.model.bert import PretrainingModel
from bertkit.model.config import ModelConfig
from bertkit.model.heads import IGNORED, MaskedLMHead, NextSentenceHead, SpanHead, span_loss
from tests.model.peers import random_batch

CONFIG = ModelConfig(
    vocab_size=300,
    hidden_size=16,
    layers=2,
    heads=2,
    intermediate_size=32,
    initializer_range=0.3,
)


def make_head() -> MaskedLMHead:
    torch.manual_seed(0)
    head = MaskedLMHead(CONFIG, nn.Parameter(torch.randn(CONFIG.vocab_size, CONFIG.hidden_size)))
    nn.init.normal_(head.bias)
    return head


def states(rows: int) -> tuple[Tensor, Tensor]:
    torch.manual_seed(1)
    hidden = torch.randn(rows, CONFIG.hidden_size, requires_grad=True)
    return hidden, torch.randint(CONFIG.vocab_size, (rows,))


@pytest.mark.parametrize("rows", [0, 1, 7, 8, 9, 30])
def test_the_chunked_loss_and_its_gradients_are_the_plain_ones(
    rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heads, "CHUNK_ROWS", 8)
    head, (hidden, targets) = make_head(), states(rows)
    parameters = [hidden, *head.parameters()]
    chunked = head.loss(hidden, targets)
    logits = head.logits(hidden)
    plain = F.cross_entropy(logits, targets, reduction="sum")
    torch.testing.assert_close(chunked.loss, plain)
    assert int(chunked.correct) == int((logits.argmax(dim=1) == targets).sum())
    # a factor, as the loop divides by the count of the whole step
    mine = torch.autograd.grad(chunked.loss * 0.37, parameters)
    theirs = torch.autograd.grad(plain * 0.37, parameters)
    for one, other in zip(mine, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_right_predictions_are_counted() -> None:
    head, (hidden, targets) = make_head(), states(40)
    best = head.logits(hidden).argmax(dim=1)
    targets[:25] = best[:25]
    targets[25:] = (best[25:] + 1) % CONFIG.vocab_size
    assert int(head.loss(hidden, targets).correct) == 25


def test_a_target_can_be_ignored() -> None:
    head, (hidden, targets) = make_head(), states(12)
    expected = head.loss(hidden[:9], targets[:9])
    targets[9:] = IGNORED
    ignoring = head.loss(hidden, targets)
    torch.testing.assert_close(ignoring.loss, expected.loss)
    assert int(ignoring.correct) == int(expected.correct)
    (gradient,) = torch.autograd.grad(ignoring.loss, hidden)
    assert not gradient[9:].any() and gradient[:9].any()


def test_very_unlikely_targets_have_finite_losses() -> None:
    head, (hidden, targets) = make_head(), states(4)
    nn.init.constant_(head.bias, 0.0)
    with torch.no_grad():
        head.bias[int(targets[0])] = -1e4
    result = head.loss(hidden, targets)
    assert 9000 < float(result.loss.detach()) < 11000
    assert all(torch.isfinite(g).all() for g in torch.autograd.grad(result.loss, head.bias))


class LargestTensor(TorchDispatchMode):
    """Watches the number of values in every tensor that is made."""

    def __init__(self) -> None:
        super().__init__()
        self.values = 0

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        result = function(*args, **(kwargs or {}))
        if isinstance(result, Tensor):
            self.values = max(self.values, result.numel())
        return result


@pytest.mark.parametrize("learning", [True, False])
def test_logits_of_all_masked_positions_never_exist_at_once(
    learning: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heads, "CHUNK_ROWS", 20)
    head, (hidden, targets) = make_head(), states(100)
    with LargestTensor() as plain:
        F.cross_entropy(head.logits(hidden), targets)
    with LargestTensor() as chunked, torch.set_grad_enabled(learning):
        loss = head.loss(hidden, targets).loss
        if learning:
            loss.backward()
    assert plain.values == 100 * CONFIG.vocab_size
    assert chunked.values == 20 * CONFIG.vocab_size


def test_the_output_layer_is_the_token_embeddings() -> None:
    model = PretrainingModel(CONFIG)
    assert model.masked_lm.embeddings is model.encoder.embeddings.token
    assert sum(1 for _ in model.parameters()) == len(dict(model.named_parameters()))
    # A token that occurs nowhere gets its gradient through the output layer alone.
    batch = random_batch([9], 50).flat
    losses = model.losses(batch, torch.tensor([3]), torch.tensor([7]))
    losses.mlm_loss.backward()
    gradient = model.encoder.embeddings.token.grad
    assert gradient is not None and gradient[200].any()


def test_only_masked_positions_are_learned_from() -> None:
    """The encoder's last layer carries nothing else, and its losses are those of the whole."""
    torch.manual_seed(0)
    model = PretrainingModel(CONFIG).eval()
    batch = random_batch([9, 14, 5], CONFIG.vocab_size).flat
    masked, targets = torch.tensor([2, 8, 10, 25]), torch.tensor([4, 5, 6, 7])
    labels = torch.tensor([0, 1, 1])
    losses = model.losses(batch, masked, targets, labels)
    hidden = model(batch)
    logits = model.masked_lm.logits(hidden)[masked]
    torch.testing.assert_close(losses.mlm_loss, F.cross_entropy(logits, targets, reduction="sum"))
    decisions = model.next_sentence(model.encoder.pooled(hidden, batch))
    assert losses.nsp_loss is not None and losses.nsp_correct is not None
    torch.testing.assert_close(losses.nsp_loss, F.cross_entropy(decisions, labels, reduction="sum"))
    assert int(losses.nsp_correct) == int((decisions.argmax(dim=1) == labels).sum())


def test_next_sentence_can_be_left_out() -> None:
    model = PretrainingModel(CONFIG)
    batch = random_batch([9, 14], CONFIG.vocab_size).flat
    losses = model.losses(batch, torch.tensor([2]), torch.tensor([4]))
    assert losses.nsp_loss is None and losses.nsp_correct is None


@pytest.mark.parametrize("label", [0, 1])
def test_both_next_sentence_labels_are_learned_from(label: int) -> None:
    head = NextSentenceHead(CONFIG)
    result = head.loss(torch.randn(6, CONFIG.hidden_size), torch.full((6,), label))
    result.loss.backward()
    assert head.dense.weight.grad is not None
    assert head.dense.weight.grad[0].any() and head.dense.weight.grad[1].any()


def test_a_fresh_model_guesses_evenly() -> None:
    """The losses to see at step 0: the logarithms of the vocabulary's size and of two."""
    torch.manual_seed(0)
    config = ModelConfig(vocab_size=1000, hidden_size=64, layers=2, heads=2, intermediate_size=128)
    model = PretrainingModel(config).eval()
    batch = random_batch([30, 30], 1000).flat
    masked, labels = torch.arange(1, 50), torch.tensor([0, 1])
    losses = model.losses(batch, masked, batch.token_ids[masked], labels)
    assert float(losses.mlm_loss.detach()) / 49 == pytest.approx(6.908, abs=0.1)
    assert losses.nsp_loss is not None
    assert float(losses.nsp_loss.detach()) / 2 == pytest.approx(0.693, abs=0.1)


def test_the_span_loss_and_its_gradient_are_the_plain_ones_of_each_sequence() -> None:
    torch.manual_seed(0)
    lengths = [5, 1, 9]
    bounds = torch.tensor([0, 5, 6, 15])
    scores = (20 * torch.randn(15, 2)).requires_grad_()
    targets = torch.tensor([[0, 4], [5, 5], [8, 6]])
    found = span_loss(scores, targets, bounds)
    plain = torch.zeros(())
    correct = 0
    for part, target, start in zip(scores.split(lengths), targets, bounds, strict=False):
        for column in (0, 1):
            logits, right = part[None, :, column], target[column : column + 1] - start
            plain = plain + F.cross_entropy(logits, right, reduction="sum")
            correct += int(logits.argmax() == right)
    torch.testing.assert_close(found.loss, plain)
    assert int(found.correct) == correct
    torch.testing.assert_close(
        torch.autograd.grad(found.loss, scores)[0], torch.autograd.grad(plain, scores)[0]
    )


def test_starts_and_ends_have_a_vector_each_and_no_dropout() -> None:
    torch.manual_seed(0)
    head = SpanHead(CONFIG).train()
    hidden = torch.randn(7, CONFIG.hidden_size)
    scores = head(hidden)
    assert torch.equal(scores, head(hidden))
    torch.testing.assert_close(scores, hidden @ head.dense.weight.T + head.dense.bias)
