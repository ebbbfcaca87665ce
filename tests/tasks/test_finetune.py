"""Fine-tuning learns, restarts exactly, keeps its label names, and refuses what cannot work."""

from __future__ import annotations

import json
import math
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from bertkit.errors import UserError
from bertkit.formats.huggingface import load_checkpoint
from bertkit.tasks import finetune as module
from bertkit.tasks.config import EvaluateConfig, FinetuneConfig
from bertkit.tasks.evaluate import evaluate
from bertkit.tasks.finetune import finetune
from tests.tasks.tiny import finetune_until, tuning, write_sentiment


def config(pretrained: Path, folder: Path, output: Path, **changes: Any) -> FinetuneConfig:
    return tuning(pretrained, output, **({"task": "classification", "data": str(folder)} | changes))


def weights(run: Path) -> dict[str, torch.Tensor]:
    return load_checkpoint(run).model.state_dict()


def test_a_classifier_learns_and_its_run_is_a_checkpoint_with_label_names(
    checkpoint, data, tmp_path
):
    result = finetune(config(checkpoint, data, tmp_path / "run"))
    assert result.metrics["accuracy"] > 0.95
    assert result.steps == 400 * 5 // 16
    run = tmp_path / "run"
    assert json.loads((run / "config.json").read_text())["id2label"] == {"0": "glad", "1": "sad"}
    saved = json.loads((run / "metrics.json").read_text())
    assert saved["metrics"] == result.metrics
    predictions = [json.loads(line) for line in (run / "predictions.jsonl").open()]
    assert len(predictions) == 100
    right = sum(line["label"] == line["gold"] for line in predictions)
    assert right / 100 == result.metrics["accuracy"]
    kinds = {json.loads(line)["kind"] for line in (run / "log.jsonl").open()}
    assert kinds == {"train", "dev"}
    again = evaluate(EvaluateConfig(str(run), str(data), precision="fp32", quiet=True))
    assert again.metrics == pytest.approx(result.metrics)


def test_a_tagger_learns_two_word_entities(checkpoint, data, tmp_path):
    result = finetune(config(checkpoint, data, tmp_path / "run", task="tagging"))
    assert result.metrics["f1"] > 0.95
    assert [row["label"] for row in result.table] == ["LOC", "PER"]
    again = evaluate(
        EvaluateConfig(
            str(tmp_path / "run"),
            str(data),
            output=str(tmp_path / "out.jsonl"),
            precision="fp32",
            quiet=True,
        )
    )
    assert again.metrics == pytest.approx(result.metrics)
    first = json.loads((tmp_path / "out.jsonl").read_text().splitlines()[0])
    assert set(first) == {"words", "tags", "gold", "entities"}


def test_an_interrupted_run_ends_with_the_weights_of_one_that_ran_through(
    checkpoint, data, tmp_path, monkeypatch
):
    changes = {"epochs": 1, "checkpoint_steps": 10}
    through = config(checkpoint, data, tmp_path / "through", **changes)
    finetune(through)
    broken = config(checkpoint, data, tmp_path / "broken", **changes)
    finetune_until(17, broken, monkeypatch)
    assert not (tmp_path / "broken" / "model.safetensors").exists()
    finetune(broken)
    expected, found = weights(tmp_path / "through"), weights(tmp_path / "broken")
    assert all(torch.equal(expected[name], found[name]) for name in expected)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_killed_again_and_again_ends_with_the_same_bytes(
    checkpoint, data, tmp_path, number
):
    changes = ["--epochs", "4", "--batch-size", "8", "--learning-rate", "2e-3", "--quiet"]
    changes += ["--checkpoint-steps", "10", "--sequence-length", "32", "--precision", "fp32"]
    changes += ["--batch-tokens", "60", "--micro-batch-tokens", "25", "--patience", "3"]
    changes += ["--optimizer", "adam-paper", "--layer-decay", "0.9", "--freeze-embeddings"]

    def command(run: Path) -> list[str]:
        line = [sys.executable, "-m", "bertkit", "finetune", str(checkpoint), "-o", str(run)]
        return [*line, "--task", "classification", "--data", str(data), *changes]

    def newest(run: Path) -> int:
        found = [int(path.name[5:]) for path in run.glob("checkpoints/step-*")]
        return max(found, default=0)

    subprocess.run(command(tmp_path / "whole"), check=True)
    cut = tmp_path / "cut"
    stops = 0
    for attempt in range(3):
        before = newest(cut)
        process = subprocess.Popen(command(cut), stderr=subprocess.PIPE, text=True)
        while process.poll() is None and newest(cut) <= before:
            time.sleep(0.001)
        if process.poll() is None:
            process.send_signal(number)
        _, told = process.communicate()
        assert process.returncode in (-number, 128 + number, 0), told
        stops += process.returncode != 0
        if number != signal.SIGKILL and attempt == 0:  # a later one may come after the last step
            assert process.returncode == 128 + number
            [line] = told.splitlines()
            step = re.fullmatch(
                rf"bertkit: stopped after step (\d+) of \d+, all of it saved in {cut}; "
                "run the same command again to go on",
                line,
            )
            assert step is not None and int(step[1]) == newest(cut) > before, told
            assert not (cut / "model.safetensors").exists()
    assert stops >= 2
    subprocess.run(command(cut), check=True)
    for name in ("model.safetensors", "predictions.jsonl"):
        assert (cut / name).read_bytes() == (tmp_path / "whole" / name).read_bytes(), name
    assert not (cut / "best").exists()


def test_the_best_evaluation_is_kept_and_patience_ends_the_run(
    checkpoint, data, tmp_path, monkeypatch
):
    """A dev score that is told: 0.5, 0.8, 0.7, 0.8, 0.6, ... by the number of the evaluation."""
    real = module.evaluate_model
    told = [0.5, 0.8, 0.7, 0.8, 0.6, 0.9]
    calls: list[int] = []
    states: list[dict] = []

    def scripted(model, *rest, **more):
        evaluation = real(model, *rest, **more)
        if len(calls) < len(told):
            evaluation.scores.metrics["accuracy"] = told[len(calls)]
        calls.append(1)
        states.append({name: value.clone() for name, value in model.state_dict().items()})
        return evaluation

    monkeypatch.setattr(module, "evaluate_model", scripted)
    changes = {"epochs": 6, "batch_size": 80, "patience": 3}  # 5 steps an epoch
    result = finetune(config(checkpoint, data, tmp_path / "run", **changes))
    assert result.steps == 25  # after the fifth evaluation: the second was the best of all
    assert result.best_step == 10
    kept = weights(tmp_path / "run")
    assert all(kept[name].equal(states[1][name]) for name in kept)
    assert "25 steps (kept: step 10)" in str(result)
    calls.clear()
    states.clear()
    result = finetune(
        config(checkpoint, data, tmp_path / "all", **changes | {"patience": 0}, keep_best=True)
    )
    assert (result.steps, result.best_step) == (30, 30)


def test_a_finished_run_with_its_best_weights_kept_stays_as_it_is(checkpoint, data, tmp_path):
    settings = config(
        checkpoint, data, tmp_path / "run", epochs=3, patience=1, checkpoint_steps=5, batch_size=40
    )
    first = finetune(settings)
    before = weights(tmp_path / "run")
    second = finetune(settings)
    after = weights(tmp_path / "run")
    assert (second.best_step, second.metrics) == (first.best_step, first.metrics)
    assert all(before[name].equal(after[name]) for name in before)


def test_frozen_layers_and_embeddings_stay_the_checkpoints(checkpoint, data, tmp_path):
    finetune(config(checkpoint, data, tmp_path / "run", epochs=0.3, freeze_layers=1))
    before, after = weights(checkpoint), weights(tmp_path / "run")
    for name in after:
        if name.startswith(("encoder.embeddings", "encoder.blocks.0.")):
            assert after[name].equal(before[name]), name
        elif name.startswith("encoder."):
            assert not after[name].equal(before[name]), name


def test_fresh_layers_are_not_the_checkpoints(checkpoint, data, tmp_path):
    changes = {"epochs": 0.1, "learning_rate": 1e-9, "reinitialise_layers": 1}
    finetune(config(checkpoint, data, tmp_path / "run", **changes))
    before, after = weights(checkpoint), weights(tmp_path / "run")

    def same(name: str) -> bool:
        return torch.allclose(before[name], after[name], atol=1e-6)

    assert same("encoder.blocks.0.qkv.weight")
    assert not same("encoder.blocks.1.qkv.weight")
    assert not same("encoder.pooler.weight")


def test_a_step_by_tokens_holds_the_longest_example(checkpoint, data, tmp_path):
    with pytest.raises(UserError, match=r"--batch-tokens 5 is less than the \d+ tokens"):
        finetune(config(checkpoint, data, tmp_path / "run", batch_tokens=5))


def test_the_optimizer_and_the_schedule_reach_the_loop(checkpoint, data, tmp_path):
    rates = {}
    for name, changes in {
        "linear": {},
        "constant": {"schedule": "constant"},
        "paper": {"optimizer": "adam-paper"},
    }.items():
        finetune(config(checkpoint, data, tmp_path / name, epochs=0.8, **changes))
        log = [json.loads(line) for line in (tmp_path / name / "log.jsonl").open()]
        rates[name] = [r["learning_rate"] for r in log if r["kind"] == "train"]
    assert rates["constant"][-1] == 2e-3 > rates["linear"][-1]
    linear, paper = weights(tmp_path / "linear"), weights(tmp_path / "paper")
    assert not linear["classifier.dense.weight"].equal(paper["classifier.dense.weight"])


def test_the_same_seed_gives_the_same_weights_and_micro_batches_change_nothing_but_rounding(
    checkpoint, data, tmp_path
):
    # without dropout: its masks are drawn anew for each micro-batch
    still = {"epochs": 0.2, "dropout": 0.0}
    finetune(config(checkpoint, data, tmp_path / "a", **still))
    finetune(config(checkpoint, data, tmp_path / "b", **still))
    finetune(config(checkpoint, data, tmp_path / "c", **still, micro_batch_size=5))
    a, b, c = (weights(tmp_path / name) for name in "abc")
    assert all(torch.equal(a[name], b[name]) for name in a)
    # Adam makes a rounding error in a gradient near zero as large as the learning rate
    close = [torch.isclose(a[name], c[name], atol=1e-4).float().mean() for name in a]
    assert min(close) > 0.98


def test_dropout_is_the_checkpoints_unless_another_rate_is_given(checkpoint, data, tmp_path):
    def rates(run: Path) -> tuple[float, float]:
        values = load_checkpoint(run).model.config
        return values.hidden_dropout, values.attention_dropout

    finetune(config(checkpoint, data, tmp_path / "as it is", epochs=0.1))
    assert rates(tmp_path / "as it is") == rates(checkpoint)
    for start in ("checkpoint", "random"):
        run = tmp_path / start
        finetune(config(checkpoint, data, run, epochs=0.1, dropout=0.3, initialise=start))
        assert rates(run) == (0.3, 0.3)
    with pytest.raises(UserError, match=r"hidden dropout is 1.5; choose a rate from 0 to 0.99"):
        finetune(config(checkpoint, data, tmp_path / "no", dropout=1.5))


def test_random_initialisation_keeps_nothing_of_the_checkpoint(checkpoint, data, tmp_path):
    finetune(
        config(
            checkpoint, data, tmp_path / "run", epochs=0.1, learning_rate=1e-9, initialise="random"
        )
    )
    before, after = weights(checkpoint), weights(tmp_path / "run")
    name = "encoder.embeddings.token"
    assert not torch.allclose(before[name], after[name], atol=1e-2)
    finetune(config(checkpoint, data, tmp_path / "kept", epochs=0.1, learning_rate=1e-9))
    assert torch.allclose(before[name], weights(tmp_path / "kept")[name], atol=1e-6)


def test_without_a_dev_file_a_seeded_share_is_held_out_and_written_down(checkpoint, data, tmp_path):
    result = finetune(
        config(
            checkpoint,
            data,
            tmp_path / "run",
            data=None,
            train=str(data / "train.tsv"),
            dev_share=0.2,
            epochs=0.1,
        )
    )
    assert (result.examples, result.dev_examples) == (320, 80)
    rows = json.loads((tmp_path / "run" / "dev_rows.json").read_text())
    assert len(set(rows)) == 80 and rows == sorted(rows)


def test_a_run_is_not_continued_with_other_options(checkpoint, data, tmp_path):
    finetune(config(checkpoint, data, tmp_path / "run", epochs=0.1))
    with pytest.raises(UserError, match=r"other options \(epochs was 0.1, is 0.2\)"):
        finetune(config(checkpoint, data, tmp_path / "run", epochs=0.2))
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter.txt").write_text("dear")
    with pytest.raises(UserError, match="not empty"):
        finetune(config(checkpoint, data, tmp_path / "full"))
    assert (tmp_path / "full" / "letter.txt").read_text() == "dear"


def test_a_run_is_not_continued_with_other_data(checkpoint, tmp_path):
    train = write_sentiment(tmp_path / "train.tsv", 40)
    settings = config(checkpoint, tmp_path, tmp_path / "run", epochs=0.5)
    finetune(settings)
    finetune(settings)
    train.write_text(train.read_text().replace("glad", "happy"))
    with pytest.raises(UserError, match=r"train.tsv changed, came .* the run in .*run began"):
        finetune(settings)


def test_what_is_refused_after_the_start_can_be_tried_again_otherwise(checkpoint, data, tmp_path):
    run = tmp_path / "run"
    with pytest.raises(UserError, match=r"--batch-tokens 8 is less than the"):
        finetune(config(checkpoint, data, run, epochs=0.1, batch_tokens=8))
    assert not run.exists()
    run.mkdir()
    with pytest.raises(UserError, match=r"--batch-tokens 8 is less than the"):
        finetune(config(checkpoint, data, run, epochs=0.1, batch_tokens=8))
    assert finetune(config(checkpoint, data, run, epochs=0.1, batch_tokens=512)).steps
    with pytest.raises(UserError, match="other options"):
        finetune(config(checkpoint, data, run, epochs=0.1, batch_tokens=8))
    assert (run / "finetune.yaml").is_file() and (run / "log.jsonl").is_file()


def test_one_of_several_processes_is_refused(checkpoint, data, tmp_path, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(UserError, match=r"bertkit finetune is for one process, .* one of 2; start"):
        finetune(config(checkpoint, data, tmp_path / "run"))
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("goes", [True, False], ids=["goes", "comes"])
def test_a_run_is_not_continued_when_its_dev_file_goes_or_comes(checkpoint, tmp_path, goes):
    write_sentiment(tmp_path / "train.tsv", 40)
    dev = tmp_path / "dev.tsv"
    if goes:
        write_sentiment(dev, 10)
    settings = config(checkpoint, tmp_path, tmp_path / "run", epochs=0.5)
    finetune(settings)
    before = (tmp_path / "run" / "metrics.json").read_bytes()
    if goes:
        dev.unlink()
    else:
        write_sentiment(dev, 10)
    with pytest.raises(UserError, match=r"dev.tsv changed, came or went since the run"):
        finetune(settings)
    assert (tmp_path / "run" / "metrics.json").read_bytes() == before


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"task": "ner"}, "no task 'ner'"),
        ({"data": None}, "either as --data FOLDER or as --train FILE"),
        ({"train": "x.tsv"}, "either as --data FOLDER or as --train FILE"),
        (
            {"data": "nowhere"},
            "there is no nowhere; give the task's folder, or a file of examples",
        ),
        ({"sequence_length": 65}, "beyond the model's 64 positions"),
        ({"sequence_length": 2}, "no room"),
        ({"text": "sentence"}, "no column 'sentence' .there are: text, label"),
        ({"epochs": 0}, "epochs is 0"),
        ({"batch_size": -1}, "batch size is -1"),
        ({"dev_share": 1.5}, "dev share is 1.5"),
        ({"layer_decay": 0}, "layer decay is 0"),
        ({"decay": 2}, "decay is 2"),
        ({"decay": 0.2}, "--decay is for --schedule wsd"),
        ({"patience": -1}, "patience is -1"),
        ({"sequence_length": 0}, "sequence length is 0"),
        ({"weight_decay": -1}, "weight decay is -1"),
        ({"evaluate_steps": -1}, "steps between evaluations is -1"),
        ({"checkpoint_steps": -5}, "steps between restart points is -5"),
        ({"epochs": math.inf}, "epochs is inf"),
        ({"freeze_layers": 3}, "--freeze-layers is 3; the checkpoint has 2 layers"),
        ({"reference_warmup": True, "schedule": "wsd"}, "--schedule linear or cosine"),
        ({"batch_tokens": 64, "micro_batch_size": 4}, "give --micro-batch-tokens"),
        ({"micro_batch_tokens": 64, "micro_batch_size": 4}, "not both"),
        ({"micro_batch_tokens": 0}, "tokens at once is 0"),
        ({"max_examples": 1}, "1 examples drawn with seed 0 all have the same label"),
        ({"checkpoint": "nothing-here"}, "nothing-here"),
    ],
)
def test_options_that_cannot_work_are_one_line_for_the_user(
    checkpoint, data, tmp_path, changes, message
):
    with pytest.raises(UserError, match=message):
        finetune(config(checkpoint, data, tmp_path / "run", **changes))
    assert not (tmp_path / "run").exists()


def test_one_class_and_unknown_dev_labels_are_one_line_for_the_user(checkpoint, tmp_path):
    (tmp_path / "train.tsv").write_text("text\tlabel\na\tx\nb\tx\n")
    with pytest.raises(UserError, match="the one label 'x'"):
        finetune(config(checkpoint, tmp_path, tmp_path / "run"))
    (tmp_path / "train.tsv").write_text("text\tlabel\na\tx\nb\ty\n")
    (tmp_path / "dev.tsv").write_text("text\tlabel\na\tz\nb\tw\nb\tx\n")
    with pytest.raises(UserError, match=r"dev.tsv has labels that .*train.tsv lacks: w, z"):
        finetune(config(checkpoint, tmp_path, tmp_path / "run"))


def test_evaluation_names_labels_that_the_model_does_not_know(checkpoint, data, tmp_path):
    run = tmp_path / "run"
    finetune(config(checkpoint, data, run, epochs=0.1))
    other = tmp_path / "other.tsv"
    other.write_text("text\tlabel\na\tglad\nb\tfurious\n")
    with pytest.raises(UserError, match=r"does not know: furious \(it knows glad, sad\)"):
        evaluate(EvaluateConfig(str(run), str(other), quiet=True))
    with pytest.raises(UserError, match="not tuned for tagging: its head is classification"):
        evaluate(EvaluateConfig(str(run), str(data), task="tagging", quiet=True))
    with pytest.raises(UserError, match="answers no task"):
        evaluate(EvaluateConfig(str(checkpoint), str(data), quiet=True))
