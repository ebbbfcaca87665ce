"""Feature-based tagging: the tagger learns, and the encoder is the same before and after."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import bertkit
from bertkit.errors import UserError
from bertkit.tasks.config import EvaluateConfig, FinetuneConfig
from bertkit.tasks.evaluate import evaluate
from bertkit.tasks.finetune import finetune
from tests.tasks.tiny import finetune_until, tuning


def config(checkpoint: Path, data: Path, output: Path, **changes: Any) -> FinetuneConfig:
    given = {"task": "tagging", "data": str(data), "features": "0,-1", "lstm_size": 32}
    return tuning(checkpoint, output, **(given | {"epochs": 6, "learning_rate": 1e-2} | changes))


def test_a_tagger_on_frozen_features_learns_and_leaves_the_encoder_as_it_was(
    checkpoint, data, tmp_path
):
    run = tmp_path / "run"
    result = finetune(config(checkpoint, data, run))
    assert result.metrics["f1"] > 0.9
    before, after = (
        load_file(checkpoint / "model.safetensors"),
        load_file(run / "model.safetensors"),
    )
    encoder = [name for name in after if name.startswith("bert.")]
    assert len(encoder) > 30
    assert all(torch.equal(before[name], after[name]) for name in encoder)
    assert {name.partition(".")[0] for name in after} == {"bert", "tagger"}
    again = evaluate(EvaluateConfig(str(run), str(data), precision="fp32", quiet=True))
    assert again.metrics == pytest.approx(result.metrics)
    prediction = bertkit.load(run).predict(["the man went to big house"])[0]
    assert [(one.label, one.text) for one in prediction.entities] == [
        ("PER", "man"),
        ("LOC", "big house"),
    ]
    assert json.loads((run / "config.json").read_text())["bertkit_head"]["features"] == "0,-1"


def test_an_interrupted_run_goes_on_to_the_same_tagger(checkpoint, data, tmp_path, monkeypatch):
    changes = {"epochs": 1, "checkpoint_steps": 5, "features": "weighted-all"}
    finetune(config(checkpoint, data, tmp_path / "through", **changes))
    broken = config(checkpoint, data, tmp_path / "broken", **changes)
    finetune_until(8, broken, monkeypatch)
    finetune(broken)
    expected, found = (
        load_file(tmp_path / name / "model.safetensors") for name in ("through", "broken")
    )
    assert all(torch.equal(expected[name], found[name]) for name in expected)


def test_a_tagger_on_features_can_be_tuned_on_as_a_whole(checkpoint, data, tmp_path):
    finetune(config(checkpoint, data, tmp_path / "features", epochs=0.2))
    finetune(config(tmp_path / "features", data, tmp_path / "whole", epochs=0.2, features=None))
    names = set(load_file(tmp_path / "whole" / "model.safetensors"))
    assert "classifier.weight" in names and not any(n.startswith("tagger.") for n in names)


def test_a_random_encoder_is_a_baseline_for_features_too(checkpoint, data, tmp_path):
    finetune(config(checkpoint, data, tmp_path / "run", epochs=0.2, initialise="random"))
    before, after = (
        load_file(folder / "model.safetensors") for folder in (checkpoint, tmp_path / "run")
    )
    name = "bert.embeddings.word_embeddings.weight"
    assert not torch.allclose(before[name], after[name], atol=1e-2)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"task": "classification"}, "features are for tagging, and classification has no head"),
        ({"features": "top"}, "no layers 'top'"),
        ({"features": "concat-last-four"}, "layer -4, but the model has layers 0"),
        ({"lstm_size": 0}, "give --lstm-size above 0"),
    ],
)
def test_features_that_cannot_be_are_one_line(checkpoint, data, tmp_path, changes, message):
    with pytest.raises(UserError, match=message):
        finetune(config(checkpoint, data, tmp_path / "run", **changes))
