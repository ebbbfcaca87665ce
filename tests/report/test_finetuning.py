"""The page and the card of a fine-tuning run say what its files say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

import bertkit
from bertkit.report.card import MARK, card, write_card
from bertkit.report.finetuning import (
    learning_figures,
    write_evaluation_report,
    write_finetuning_report,
)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = tmp_path / "my run"
    folder.mkdir()
    (folder / "config.json").write_text(
        json.dumps(
            {
                "architectures": ["BertForSequenceClassification"],
                "id2label": {"0": "glad", "1": "s|a`d"},
            }
        )
    )
    (folder / "finetune.yaml").write_text(
        yaml.safe_dump(
            {
                "checkpoint": "/home/me/secret/my-bert",
                "task": "classification",
                "output": "/home/me/secret/run",
                "train": "/home/me/secret/reviews.csv",
                "learning_rate": 5e-5,
                "features": None,
                "lstm_size": 768,
                "epochs": 3.0,
            }
        )
    )
    (folder / "inputs.json").write_text(json.dumps({"/home/me/secret/reviews.csv": "ab" * 32}))
    (folder / "dev_rows.json").write_text("[1, 2]")
    row = {"label": "glad", "precision": 0.9, "recall": 0.8, "f1": 0.85, "count": 1234}
    (folder / "metrics.json").write_text(
        json.dumps(
            {
                "task": "classification",
                "examples": 4000,
                "dev_examples": 400,
                "truncated": 7,
                "steps": 375,
                "seconds": 61.5,
                "metrics": {"accuracy": 0.9125, "macro_f1": 0.9, "rmse": 1.5},
                "table": [row],
            }
        )
    )
    data = {"median": 12, "shared": 3, "repeated": 0, "counts": {"glad": 2000}, "longest": 99}
    (folder / "data.json").write_text(json.dumps(data | {"dev_counts": {"glad": 200}}))
    lines = [
        {"text": "fine", "label": "glad", "probability": 0.9, "gold": "glad"},
        {"text": "awful <b>", "label": "glad", "probability": 0.8, "gold": "s|a`d"},
    ]
    (folder / "predictions.jsonl").write_text("\n".join(map(json.dumps, lines)))
    log = [
        {"kind": "train", "step": 10, "seconds": 1, "loss": 0.7, "label_loss": 0.7},
        {"kind": "dev", "step": 10, "seconds": 1, "accuracy": 0.8},
        {"kind": "train", "step": 20, "seconds": 2, "loss": 0.5, "label_loss": 0.5},
        {"kind": "dev", "step": 20, "seconds": 2, "accuracy": 0.9},
    ]
    (folder / "log.jsonl").write_text("\n".join(map(json.dumps, log)))
    return folder


def test_the_page_has_scores_confusions_errors_and_curves(run: Path):
    page = write_finetuning_report(run).read_text(encoding="utf-8")
    for expected in (
        "Fine-tuning: my run",
        "<dd>91.25 %</dd>",
        "<dd>1.5000</dd>",
        "1 min 2 s",
        "s|a`d as glad: 1",
        "awful &lt;b&gt;",
        "1 of 2 (50.0 %)",
        "held-out 90.0 %",
        "learning_rate: 5.0e-05",
        "<dd>99</dd>",
        "2\u2009000",
    ):
        assert expected in page, expected
    assert page.count('role="img"') == 3  # the matrix, the loss, the accuracy


def test_a_metric_that_was_scored_once_has_no_curve():
    records = [
        {"kind": "train", "step": 1, "loss": 2.0, "padding": 0.25},
        {"kind": "train", "step": 2, "loss": 1.0, "padding": 0.5},
        {"kind": "dev", "step": 2, "f1": 0.5, "seconds": 3.0},
        {"kind": "note", "step": 2, "changed": "x"},
    ]
    [figure] = learning_figures(records)
    assert "Loss" in figure


def test_a_page_of_an_evaluation_needs_no_run(tmp_path: Path):
    path = write_evaluation_report(
        tmp_path / "page.html", "A title", "A lead.", {"metrics": {"f1": 0.5}, "table": []}, []
    )
    assert "<dd>50.00 %</dd>" in path.read_text(encoding="utf-8")


def test_the_card_opens_with_what_the_hub_reads(run: Path):
    hub = pytest.importorskip("huggingface_hub")
    loaded = hub.ModelCard.load(write_card(run))
    assert loaded.data.library_name == "transformers"
    assert loaded.data.pipeline_tag == "text-classification"
    assert loaded.data.model_name == "my run"
    results = {one.metric_type: one for one in loaded.data.eval_results}
    assert results["accuracy"].metric_value == 0.9125
    assert results["macro_f1"].metric_name == "macro F1"
    assert results["accuracy"].dataset_name == "reviews.csv"


def test_the_card_tells_data_recipe_scores_and_versions_but_no_places_of_the_machine(run: Path):
    text = card(run, run.name)
    for expected in (
        "fine-tuned from `my-bert`",
        "| training examples | 4,000 |",
        "held out from the training file",
        "| dev examples that stand in the training data too | 3 |",
        "| `reviews.csv` | `abababababababab` |",
        "| learning rate | `5e-05` |",
        "| accuracy | 91.25 % |",
        "| `glad` | 90.00 % | 80.00 % | 85.00 % | 1,234 |",
        f"| bertkit | {bertkit.__version__} |",
        "| torch | ",
        "`s\\|a'd`",
    ):
        assert expected in text, expected
    assert "secret" not in text and "lstm" not in text


def test_the_steps_between_evaluations_are_told_where_they_choose_the_model(run: Path):
    values = yaml.safe_load((run / "finetune.yaml").read_text())
    for changes, told in (({}, False), ({"keep_best": True}, True), ({"patience": 2}, True)):
        (run / "finetune.yaml").write_text(yaml.safe_dump(values | {"evaluate_steps": 7} | changes))
        assert ("| evaluate steps | `7` |" in card(run, run.name)) == told


def test_a_head_that_only_bertkit_has_is_said_so(run: Path):
    (run / "config.json").write_text(
        json.dumps({"architectures": ["BertkitBiLstmForTokenClassification"]})
    )
    text = card(run, run.name)
    assert "library_name: bertkit" in text
    assert "`AutoModel.from_pretrained` loads the encoder alone" in text
    assert "from transformers import" not in text


def test_a_model_for_pairs_is_shown_a_pair(run: Path):
    assert 'model.predict(["a text"])' in card(run, run.name)
    line = {"text": "a", "pair": "b", "label": "glad"}
    (run / "predictions.jsonl").write_text(json.dumps(line) + "\n")
    assert 'model.predict([("a text", "its pair")])' in card(run, run.name)


def test_a_folder_called_by_a_dot_has_its_name(run: Path, monkeypatch: pytest.MonkeyPatch):
    values = yaml.safe_load((run / "finetune.yaml").read_text())
    changes = {"checkpoint": ".", "data": ".", "train": None}
    (run / "finetune.yaml").write_text(yaml.safe_dump(values | changes))
    monkeypatch.chdir(run)
    text = card(run, run.name)
    assert f"fine-tuned from `{run.name}`" in text
    assert f"name: {run.name}" in text


def test_a_hub_data_set_is_named_to_the_hub(run: Path):
    values = yaml.safe_load((run / "finetune.yaml").read_text())
    values |= {"train": None, "data": "hub:stanfordnlp/sst2"}
    (run / "finetune.yaml").write_text(yaml.safe_dump(values))
    front = yaml.safe_load(card(run, run.name).split("---")[1])
    assert front["datasets"] == ["stanfordnlp/sst2"]
    assert front["model-index"][0]["results"][0]["dataset"]["type"] == "stanfordnlp/sst2"


def test_a_card_that_a_person_has_written_stays(run: Path):
    path = write_card(run)
    assert MARK in path.read_text(encoding="utf-8")
    path.write_text("# Mine\n", encoding="utf-8")
    write_card(run)
    assert path.read_text(encoding="utf-8") == "# Mine\n"


def test_what_a_run_lacks_is_left_out(tmp_path: Path):
    text = card(tmp_path, "x")
    assert "## Use" in text and "## Scores" not in text and "## Recipe" not in text
