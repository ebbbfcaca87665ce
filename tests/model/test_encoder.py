"""The encoder: how it starts, what it refuses, and that a batch is only a way to compute."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
import torch

from bertkit.errors import UserError
from bertkit.model import encoder as encoder_module
from bertkit.model import heads, layers
from bertkit.model.attention import Backend
from bertkit.model.batch import FlatBatch
from bertkit.model.bert import LABELLED, MODELS, LeftToRightModel, PretrainingModel
from bertkit.model.config import ModelConfig, model_config
from bertkit.model.encoder import (
    Encoder,
    set_activation_checkpointing,
    set_attention,
    set_compute_dtype,
)
from bertkit.model.layers import LayerNorm, Linear
from tests.model.peers import random_batch, relative_difference

LENGTHS = [12, 3, 30, 1, 30]
CONFIG = ModelConfig(
    vocab_size=200,
    hidden_size=48,
    layers=3,
    heads=4,
    intermediate_size=96,
    max_positions=32,
    initializer_range=0.1,
)


@pytest.fixture
def encoder() -> Encoder:
    torch.manual_seed(0)
    return Encoder(CONFIG).eval()


def test_matrices_start_as_a_normal_cut_at_two_deviations() -> None:
    model = PretrainingModel(model_config("tiny", 5000))
    # A normal cut at two deviations keeps 0.880 of its deviation.
    for name, parameter in model.named_parameters():
        if parameter.dim() == 2:
            assert parameter.abs().max() <= 0.04, name
            if parameter.numel() > 10_000:
                assert float(parameter.detach().std()) == pytest.approx(0.02 * 0.880, rel=0.03), (
                    name
                )


def test_biases_start_at_zero_and_layer_norms_at_the_identity() -> None:
    model = PretrainingModel(CONFIG)
    for part in model.modules():
        if isinstance(part, (Linear, LayerNorm)):
            assert not part.bias.any()
        if isinstance(part, LayerNorm):
            assert (part.weight == 1).all() and part.eps == 1e-12
    assert not model.masked_lm.bias.any()


def test_the_padding_tokens_embedding_is_no_exception() -> None:
    """The reference release starts it like every other; transformers sets it to zero."""
    assert Encoder(CONFIG).embeddings.token[CONFIG.pad_id].any()


def test_one_seed_starts_one_model() -> None:
    states = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        states.append(torch.cat([p.flatten() for p in PretrainingModel(CONFIG).parameters()]))
    assert torch.equal(states[0], states[1])
    assert not torch.equal(states[0], states[2])


def test_positions_can_start_as_small_sinusoids_and_are_still_learned() -> None:
    config = model_config("tiny", 100, position_init="sinusoidal")
    learned = Encoder(config).embeddings.position
    assert learned.requires_grad
    position = learned.detach()
    assert float(position.std()) == pytest.approx(0.02, rel=0.2)
    assert float(position.abs().max()) == pytest.approx(0.02 * 2**0.5, rel=1e-3)
    # Near positions are alike, far ones less: what a random start has to learn.
    unit = position / position.norm(dim=1, keepdim=True)
    near, far = (unit[:-1] * unit[1:]).sum(dim=1), (unit[:-100] * unit[100:]).sum(dim=1)
    assert near.min() > 0.9 > 0.7 > far.max()


def test_an_odd_hidden_size_has_sinusoids_too() -> None:
    config = model_config("1x9x3", 100, position_init="sinusoidal")
    assert Encoder(config).embeddings.position.shape == (512, 9)


def test_the_last_hidden_state_is_the_output_and_the_first_the_embeddings(
    encoder: Encoder,
) -> None:
    batch = random_batch(LENGTHS, CONFIG.vocab_size).flat
    states = encoder.hidden_states(batch)
    assert len(states) == CONFIG.layers + 1
    assert torch.equal(states[0], encoder.embeddings(batch))
    assert torch.equal(states[-1], encoder(batch))
    assert states[-1].shape == (sum(LENGTHS), CONFIG.hidden_size)


def test_rows_asked_for_are_the_rows_of_the_whole(encoder: Encoder) -> None:
    batch = random_batch(LENGTHS, CONFIG.vocab_size).flat
    rows = torch.tensor([0, 75, 13, 13, 40])
    torch.testing.assert_close(encoder(batch, rows), encoder(batch)[rows])


def test_gradients_of_rows_are_those_of_the_whole(encoder: Encoder) -> None:
    batch = random_batch(LENGTHS, CONFIG.vocab_size).flat
    rows = torch.tensor([0, 75, 13, 40])
    upstream = torch.randn(
        len(rows), CONFIG.hidden_size, generator=torch.Generator().manual_seed(1)
    )
    gradients = []
    for part in (encoder(batch, rows), encoder(batch)[rows]):
        parameters = [value for name, value in encoder.named_parameters() if "pooler" not in name]
        gradients.append(torch.autograd.grad((part * upstream).sum(), parameters))
    for one, other in zip(*gradients, strict=True):
        assert float((one - other).abs().max()) <= 1e-4 * max(1e-3, float(other.abs().max()))


@pytest.mark.parametrize("backend", ["matmul", "sdpa"])
def test_a_sequence_gives_the_same_alone_and_in_any_batch(encoder: Encoder, backend: str) -> None:
    set_attention(encoder, backend)  # type: ignore[arg-type]
    both = random_batch(LENGTHS, CONFIG.vocab_size)
    together = encoder(both.flat).split(LENGTHS)
    for row, length in enumerate(LENGTHS):
        ids, segments = both.token_ids[row, :length], both.segment_ids[row, :length]
        alone = encoder(FlatBatch.from_sequences([ids.tolist()], [segments.tolist()]))
        assert relative_difference(together[row], alone) < 1e-5


def test_changing_one_sequence_changes_no_other(encoder: Encoder) -> None:
    batch = random_batch(LENGTHS, CONFIG.vocab_size).flat
    before = encoder(batch).split(LENGTHS)
    batch.token_ids[: LENGTHS[0]] = 7
    after = encoder(batch).split(LENGTHS)
    assert not torch.equal(before[0], after[0])
    assert all(torch.equal(x, y) for x, y in zip(before[1:], after[1:], strict=True))


def test_the_pooled_output_reads_the_first_token_of_each_sequence(encoder: Encoder) -> None:
    batch = random_batch(LENGTHS, CONFIG.vocab_size).flat
    hidden = encoder(batch)
    pooled = encoder.pooled(hidden, batch)
    first = torch.stack([part[0] for part in hidden.split(LENGTHS)])
    torch.testing.assert_close(pooled, torch.tanh(encoder.pooler(first)))


@pytest.mark.parametrize("lengths", [LENGTHS, [30, 30]])
def test_a_training_step_is_the_same_bit_for_bit(lengths: list[int]) -> None:
    """Forward with dropout and backward, with duplicates among the tokens."""
    torch.manual_seed(0)
    model = PretrainingModel(CONFIG)
    batch = random_batch(lengths, 10).flat
    masked, targets = torch.tensor([1, 2, 13, 31, 59]), torch.tensor([5, 5, 6, 7, 5])
    runs = []
    for _ in range(3):
        torch.manual_seed(9)
        model.zero_grad()
        losses = model.losses(batch, masked, targets, torch.ones(len(lengths), dtype=torch.int64))
        (losses.mlm_loss + losses.nsp_loss).backward()  # type: ignore[operator]
        runs.append(torch.cat([p.grad.flatten() for p in model.parameters()]))  # type: ignore
    assert torch.equal(runs[0], runs[1]) and torch.equal(runs[0], runs[2])


def test_a_sequence_longer_than_the_positions_is_refused(encoder: Encoder) -> None:
    with pytest.raises(UserError, match="a sequence of 33 tokens, but the model has 32 positions"):
        encoder(FlatBatch.from_sequences([[1, 2], [1] * 33]))
    assert encoder(FlatBatch.from_sequences([[1] * 32])).shape == (32, 48)


@pytest.mark.parametrize("wrong", [200, 30522, -1])
def test_a_token_without_embedding_is_refused_by_its_id(encoder: Encoder, wrong: int) -> None:
    with pytest.raises(UserError, match=f"token id {wrong} is outside the model's 200"):
        encoder(FlatBatch.from_sequences([[1, 2], [3, wrong, 4]]))


def test_a_segment_without_embedding_is_refused(encoder: Encoder) -> None:
    with pytest.raises(UserError, match="segment id 2 is outside the model's 2"):
        encoder(FlatBatch.from_sequences([[1, 2, 3]], [[0, 1, 2]]))


def test_an_unknown_attention_is_refused(encoder: Encoder) -> None:
    with pytest.raises(UserError, match="no attention back-end 'flash'"):
        set_attention(encoder, "flash")  # type: ignore[arg-type]


def test_computing_in_bfloat16_leaves_the_weights_in_float32() -> None:
    torch.manual_seed(0)
    model = PretrainingModel(CONFIG).eval()
    batch = random_batch(LENGTHS, CONFIG.vocab_size).flat
    masked, targets = torch.tensor([1, 13, 40]), torch.tensor([5, 6, 7])
    exact = model.losses(batch, masked, targets)
    set_compute_dtype(model, torch.bfloat16)
    assert model.encoder(batch).dtype == torch.bfloat16
    rough = model.losses(batch, masked, targets)
    rough.mlm_loss.backward()
    assert rough.mlm_loss.dtype == torch.float32
    assert not torch.equal(rough.mlm_loss, exact.mlm_loss)
    torch.testing.assert_close(rough.mlm_loss, exact.mlm_loss, rtol=0.02, atol=0.0)
    for parameter in model.encoder.blocks.parameters():
        assert parameter.dtype == torch.float32
        assert parameter.grad is not None and parameter.grad.dtype == torch.float32
    set_compute_dtype(model, torch.float32)
    assert torch.equal(model.losses(batch, masked, targets).mlm_loss, exact.mlm_loss)


@pytest.mark.parametrize("lengths", [[30, 12, 3], [25, 25, 25, 25]])
def test_padding_to_few_shapes_in_bfloat16_changes_no_number(
    lengths: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    model = PretrainingModel(CONFIG).eval()
    set_compute_dtype(model, torch.bfloat16)
    batch = random_batch(lengths, CONFIG.vocab_size).flat
    masked, targets = torch.tensor([1, 13, 40]), torch.tensor([5, 6, 7])
    results = []
    for extra in (0, 1, 61):
        for module in (encoder_module, heads):
            monkeypatch.setattr(module, "missing_rows", lambda *_, extra=extra: extra)
        model.zero_grad()
        losses = model.losses(batch, masked, targets)
        losses.mlm_loss.backward()
        gradient = model.encoder.embeddings.token.grad
        assert gradient is not None
        states = model.encoder.hidden_states(batch)
        assert {state.shape[0] for state in states} == {batch.tokens}
        results.append((states[-1], losses.mlm_loss, losses.mlm_correct, gradient))
    for one, *others in zip(*results, strict=True):
        for other in others:
            torch.testing.assert_close(one, other, rtol=0.02, atol=0.02)


def test_weights_kept_in_bfloat16_for_answers_follow_the_weights() -> None:
    layer = Linear(8, 5).eval()
    values = torch.randn(3, 8)
    layer.compute_dtype = torch.bfloat16

    def answer() -> torch.Tensor:
        with torch.inference_mode():
            kept = layer(values)
        expected = torch.nn.functional.linear(
            values.bfloat16(), layer.weight.bfloat16(), layer.bias.bfloat16()
        )
        assert torch.equal(kept, expected)
        return kept

    before = answer()
    optimizer = torch.optim.AdamW(layer.parameters(), lr=0.1, fused=True)
    layer.train()
    layer(values).sum().backward()
    optimizer.step()
    layer.eval()
    assert not torch.equal(answer(), before)
    layer.load_state_dict({"weight": torch.ones(5, 8), "bias": torch.zeros(5)})
    answer()
    layer.bias.data = torch.ones(5)
    answer()
    layer.compute_dtype = torch.float32
    with torch.no_grad():
        assert layer(values).dtype == torch.float32


def test_rows_are_padded_only_where_that_pays() -> None:
    cpu = torch.device("cpu")
    assert layers.missing_rows(1000, torch.float32, cpu) == 0
    assert layers.missing_rows(1500, torch.bfloat16, cpu) == 36
    assert layers.missing_rows(1536, torch.bfloat16, cpu) == 0
    assert layers.missing_rows(7, torch.bfloat16, cpu) == 9
    assert layers.missing_rows(1500, torch.bfloat16, torch.device("cuda")) == 0


@pytest.mark.parametrize("head", MODELS)
def test_every_family_has_a_configuration_an_encoder_and_labels(head: str) -> None:
    labels = ["x", "y"]
    model = MODELS[head](CONFIG, labels) if head in LABELLED else None
    model = model or MODELS[head](CONFIG)
    assert model.head == head
    assert model.config == replace(CONFIG, causal=head == "left-to-right")
    assert isinstance(model.encoder, Encoder)
    assert model.labels == (labels if head in LABELLED else [])


def test_every_order_of_a_batch_gives_each_sequence_the_same(encoder: Encoder) -> None:
    sequences = [[5, 6, 7], [8], [9, 10, 11, 12]]
    expected: dict[int, torch.Tensor] = {}
    for order in itertools.permutations(range(3)):
        hidden = encoder(FlatBatch.from_sequences([sequences[k] for k in order]))
        for k, part in zip(order, hidden.split([len(sequences[k]) for k in order]), strict=True):
            torch.testing.assert_close(part, expected.setdefault(k, part))


@pytest.mark.parametrize("backend", ["matmul", "sdpa"])
def test_a_left_to_right_model_never_sees_a_later_token(backend: Backend) -> None:
    torch.manual_seed(0)
    model = LeftToRightModel(CONFIG).eval()
    set_attention(model, backend)
    batch = random_batch(LENGTHS, CONFIG.vocab_size).flat
    with torch.no_grad():
        before = model(batch)
        for place in (0, 5, 11, 13, 40):
            changed = replace(batch, token_ids=batch.token_ids.clone())
            changed.token_ids[place] = (changed.token_ids[place] + 7) % CONFIG.vocab_size
            after = model(changed)
            torch.testing.assert_close(after[:place], before[:place], rtol=0, atol=1e-6)
            assert not torch.allclose(after[place], before[place])


def test_the_whole_sequence_is_seen_by_the_first_token_or_in_a_causal_model_by_the_last() -> None:
    batch = random_batch(LENGTHS, CONFIG.vocab_size).flat
    both, causal = Encoder(CONFIG), Encoder(replace(CONFIG, causal=True))
    assert both.summary_rows(batch).tolist() == batch.bounds[:-1].tolist()
    assert causal.summary_rows(batch).tolist() == (batch.bounds[1:] - 1).tolist()
    hidden = torch.randn(batch.tokens, CONFIG.hidden_size)
    assert torch.equal(
        causal.pooled(hidden, batch), causal.pool(hidden[causal.summary_rows(batch)])
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_activation_checkpointing_gives_the_same_losses_and_gradients(dtype: torch.dtype) -> None:
    """With dropout at every site: the masks of the second computation are those of the first."""
    torch.manual_seed(0)
    model = PretrainingModel(CONFIG)
    set_compute_dtype(model, dtype)
    batch = random_batch(LENGTHS, CONFIG.vocab_size).flat
    masked = torch.tensor([1, 14, 20, 44, 60])
    found = []
    for on in (False, True):
        set_activation_checkpointing(model, on)
        torch.manual_seed(7)
        losses = model.losses(batch, masked, masked + 3, torch.tensor([0, 1, 0, 1, 1]))
        assert losses.nsp_loss is not None
        (losses.mlm_loss + losses.nsp_loss).backward()
        drawn = torch.rand(1)  # the generator is left where it would be
        found.append([losses.mlm_loss.detach(), losses.nsp_loss.detach(), drawn])
        found[-1] += [p.grad.clone() for p in model.parameters() if p.grad is not None]
        model.zero_grad()
    for plain, again in zip(*found, strict=True):
        torch.testing.assert_close(plain, again, rtol=1e-6, atol=1e-7)


def test_activation_checkpointing_keeps_little_for_the_backward_pass() -> None:
    model = Encoder(CONFIG)
    batch = random_batch(LENGTHS, CONFIG.vocab_size).flat
    kept = []
    for on in (False, True):
        set_activation_checkpointing(model, on)
        sizes: dict[int, int] = {}

        def keep(tensor: torch.Tensor, sizes: dict[int, int] = sizes) -> torch.Tensor:
            sizes[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            model(batch)
        kept.append(sum(sizes.values()))
    assert kept[1] < 0.5 * kept[0]


@pytest.mark.parametrize("lengths", [[6, 6, 6], [4, 6, 1]])
def test_the_gpus_form_of_position_and_segment_embeddings_is_a_look_up(
    encoder: Encoder, lengths: list[int]
) -> None:
    embeddings, batch = encoder.embeddings, random_batch(lengths, 200).flat
    upstream = torch.randn(batch.tokens, CONFIG.hidden_size)
    for made, ids, table in (
        (embeddings._positions(batch), batch.positions, embeddings.position),
        (embeddings._segments(batch), batch.segment_ids, embeddings.segment),
    ):
        plain = torch.nn.functional.embedding(ids, table)
        assert torch.equal(made, plain)
        gradients = (torch.autograd.grad(value, table, upstream)[0] for value in (made, plain))
        torch.testing.assert_close(*gradients)


@pytest.mark.parametrize("checkpointing", [False, True])
@pytest.mark.parametrize("lengths", [[20, 7, 64], [20, 20, 20]])
@pytest.mark.parametrize(
    ("dtype", "backend"), [(torch.bfloat16, "varlen"), (torch.float32, "sdpa")]
)
def test_off_the_cpu_a_pass_never_looks_at_a_value(
    dtype: torch.dtype, backend: Backend, lengths: list[int], checkpointing: bool
) -> None:
    """Which would make a GPU wait. Tensors of the device "meta" have a shape and a type and go the
    ways of a GPU's, and have no values to look at."""
    with torch.device("meta"), layers.uninitialised():
        model = PretrainingModel(model_config("2x64x2", 700))
        places, labels = torch.empty(9, dtype=torch.int64), torch.empty(3, dtype=torch.int64)
    set_compute_dtype(model, dtype)
    set_attention(model, backend)
    set_activation_checkpointing(model, checkpointing)
    batch = FlatBatch.from_sequences([[5] * length for length in lengths]).to("meta")
    losses = model.losses(batch, places, places, labels)
    (losses.mlm_loss + losses.nsp_loss).backward()  # type: ignore[operator]
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None and parameter.grad.dtype == torch.float32, name
        assert parameter.grad.shape == parameter.shape and parameter.grad.is_meta, name
