"""The BiLSTM tagger reads each sequence by itself, on an encoder that stays as it is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from bertkit.errors import UserError
from bertkit.formats.huggingface import load_checkpoint, save_checkpoint
from bertkit.journey.config import InspectConfig
from bertkit.journey.inspect import inspect
from bertkit.model.batch import FlatBatch
from bertkit.model.bert import TaggingModel
from bertkit.model.bilstm import BiLstmTaggingModel
from bertkit.model.config import ModelConfig

CONFIG = ModelConfig(
    vocab_size=50,
    hidden_size=16,
    layers=4,
    heads=2,
    intermediate_size=32,
    max_positions=32,
    hidden_dropout=0.4,
    attention_dropout=0.4,
    initializer_range=0.3,
)
LABELS = ["O", "B-PER", "I-PER"]
SEQUENCES = [[1, 7, 8, 2], [1, 9, 2], [1, 5, 6, 7, 8, 9, 2]]


def make(features: str = "concat-last-four", seed: int = 0) -> BiLstmTaggingModel:
    torch.manual_seed(seed)
    return BiLstmTaggingModel(CONFIG, LABELS, features, lstm_size=12)


def rows_of_all(batch: FlatBatch) -> torch.Tensor:
    return torch.arange(batch.tokens)


@pytest.mark.parametrize("features", ["concat-last-four", "weighted-all", "sum-last-four", "0"])
def test_a_sequence_is_read_the_same_alone_and_among_others(features):
    model = make(features).eval()
    together = FlatBatch.from_sequences(SEQUENCES)
    found = model(together, rows_of_all(together)).split(together.lengths.tolist())
    for sequence, rows in zip(SEQUENCES, found, strict=True):
        alone = FlatBatch.from_sequences([sequence])
        assert torch.allclose(model(alone, rows_of_all(alone)), rows, atol=1e-5)


def test_the_tagger_is_the_papers_two_bidirectional_layers_on_the_joined_layers():
    model = make().eval()
    sequence = [1, 7, 8, 9, 2]
    batch = FlatBatch.from_sequences([sequence])
    states = model.encoder.hidden_states(batch)
    values = torch.cat(states[1:], dim=1)
    for layer in (0, 1):  # each direction by its own cell, joined
        directions = []
        for suffix in ("", "_reverse"):
            cell = torch.nn.LSTMCell(values.shape[1], 12)
            for name, parameter in cell.named_parameters():
                stored = getattr(model.tagger.lstm, f"{name}_l{layer}{suffix}")
                parameter.data.copy_(stored)
            steps = values.flip(0) if suffix else values
            hidden, memory, out = torch.zeros(1, 12), torch.zeros(1, 12), []
            for step in steps:
                hidden, memory = cell(step[None], (hidden, memory))
                out.append(hidden)
            read = torch.cat(out)
            directions.append(read.flip(0) if suffix else read)
        values = torch.cat(directions, dim=1)
    expected = model.tagger.output.dense(values)
    assert torch.allclose(model(batch, rows_of_all(batch)), expected, atol=1e-5)


def test_a_learned_sum_starts_as_the_mean_of_the_layers():
    model = make("weighted-all").eval()
    batch = FlatBatch.from_sequences(SEQUENCES)
    states = model.encoder.hidden_states(batch)
    seen = []
    model.tagger.dropout.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    model(batch, rows_of_all(batch))
    assert torch.allclose(seen[0], torch.stack(states[1:]).mean(dim=0), atol=1e-5)


def test_only_the_tagger_learns_and_the_encoder_has_no_dropout():
    model = make("weighted-last-four").train()
    assert model.training and model.tagger.training and not model.encoder.training
    batch = FlatBatch.from_sequences(SEQUENCES)
    model(batch, rows_of_all(batch)).sum().backward()
    for name, parameter in model.named_parameters():
        assert (parameter.grad is not None) == name.startswith("tagger."), name


def test_a_saved_tagger_comes_back_and_names_its_features(tmp_path: Path):
    model = make("second-to-last")
    save_checkpoint(model, tmp_path)
    values = json.loads((tmp_path / "config.json").read_text())
    assert values["architectures"] == ["BertkitBiLstmForTokenClassification"]
    assert values["bertkit_head"] == {
        "only_in_bertkit": True,
        "loads_elsewhere": "the encoder",
        "features": "second-to-last",
        "lstm_size": 12,
    }
    loaded = load_checkpoint(tmp_path)
    assert (loaded.missing, loaded.unexpected) == ([], [])
    told = str(inspect(InspectConfig(str(tmp_path))))
    assert f"{sum(value.numel() for value in model.parameters()):,}" in told
    assert "bilstm-tagging on second-to-last, size 12" in told
    before, after = model.state_dict(), loaded.model.state_dict()
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_another_head_or_other_features_start_fresh(tmp_path: Path):
    save_checkpoint(make(), tmp_path)
    plain = load_checkpoint(tmp_path, "tagging")
    assert isinstance(plain.model, TaggingModel)
    assert plain.missing == ["classifier.weight", "classifier.bias"]
    other = load_checkpoint(
        tmp_path, "bilstm-tagging", head_options={"features": "last", "lstm_size": 5}
    )
    assert all(name.startswith("tagger.") for name in other.missing)
    assert other.model.tagger.lstm.hidden_size == 5
    fresh = [p for n, p in other.model.named_parameters() if ".lstm." in n]
    assert all(parameter.abs().max() <= 5**-0.5 + 1e-6 for parameter in fresh)


def test_transformers_loads_the_encoder(tmp_path: Path):
    transformers = pytest.importorskip("transformers")
    model = make().eval()
    save_checkpoint(model, tmp_path)
    theirs = transformers.AutoModel.from_pretrained(tmp_path).eval()
    batch = FlatBatch.from_sequences([SEQUENCES[2]])
    with torch.inference_mode():
        expected = theirs(torch.tensor([SEQUENCES[2]])).last_hidden_state[0]
        assert torch.allclose(model.encoder(batch), expected, atol=1e-5)


def test_what_cannot_be_made_is_one_line(tmp_path: Path):
    with pytest.raises(UserError, match=r"layer 9, but the model has layers 0 .embeddings. to 4"):
        make("9")
    with pytest.raises(UserError, match="BiLSTM of size 0 is none"):
        BiLstmTaggingModel(CONFIG, LABELS, lstm_size=0)
    save_checkpoint(make(), tmp_path)
    values = json.loads((tmp_path / "config.json").read_text())
    for broken in ([], "x"):
        (tmp_path / "config.json").write_text(json.dumps(values | {"bertkit_head": broken or [1]}))
        with pytest.raises(UserError, match="is no JSON object"):
            load_checkpoint(tmp_path)
    values["bertkit_head"]["lstm_size"] = "large"
    (tmp_path / "config.json").write_text(json.dumps(values))
    with pytest.raises(UserError, match=r"'lstm_size' of 'bertkit_head'.*'large'; mend it"):
        load_checkpoint(tmp_path)
