"""A whole pre-training run: learning, continuing after kill -9, refusing what cannot work."""

from __future__ import annotations

import json
import math
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import pytest
import torch
from safetensors.torch import load_file

from bertkit.corpus.config import PrepareConfig
from bertkit.corpus.prepare import prepare
from bertkit.errors import Interrupted, UserError
from bertkit.formats.huggingface import load_checkpoint
from bertkit.pretraining import run as module
from bertkit.pretraining.config import PretrainConfig
from bertkit.pretraining.dryrun import DryRun
from bertkit.pretraining.run import pretrain
from bertkit.text.tokenizer import Tokenizer
from bertkit.training.checkpoint import FOLDER
from bertkit.training.log import read_log
from tests.pretraining.small_run import configuration, flags, pretrain_until, small_corpus


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory, tiny_tokenizer: Tokenizer) -> Path:
    return small_corpus(tmp_path_factory.mktemp("corpus"), tiny_tokenizer)


def test_a_run_learns_and_leaves_a_checkpoint(corpus: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    result = pretrain(configuration(corpus, run, steps=150, dropout=0.0))
    first = read_log(run)[0]
    assert result.dev["mlm_loss"] < 0.75 * first["mlm_loss"]
    assert result.dev["mlm_accuracy"] > 5 / 100  # a guess is right once in a hundred
    for name in ("config.json", "model.safetensors", "vocab.txt", "pretrain.yaml", "run.json"):
        assert (run / name).is_file(), name
    assert "bertkit fill" in str(result)


def run_command(config: PretrainConfig) -> list[str]:
    return [sys.executable, "-m", "bertkit", "pretrain", *flags(config)]


def points(run: Path) -> list[str]:
    folder = run / FOLDER
    return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [{}, {"phases": ["16:0.4"], "batch_tokens": 200, "workers": 2, "optimizer": "lamb"}],
    ids=["one-phase", "two-phases"],
)
def test_killed_at_any_moment_a_run_ends_with_the_same_weights(
    corpus: Path, tmp_path: Path, changes: dict[str, object]
) -> None:
    whole = configuration(corpus, tmp_path / "whole", steps=150, checkpoint_steps=3, **changes)
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run(run_command(whole), check=True, env=environment)
    cut = replace(whole, output=str(tmp_path / "cut"))
    run = Path(cut.output)
    generator = random.Random(1)
    kills = after_change = 0
    for wait_for in (2, 8, 20):
        process = subprocess.Popen(run_command(cut), env=environment)
        begun = len(points(run)) and points(run)[-1]
        while process.poll() is None:
            newest = points(run)[-1:] or [""]
            if newest[0].startswith("step-") and newest[0] != begun:
                wait_for -= 1
                begun = newest[0]
            if wait_for <= 0:
                time.sleep(generator.random() * 0.1)
                process.send_signal(signal.SIGKILL)
                kills += 1
                after_change += int(begun.removeprefix("step-") or 0) > 60
                break
            time.sleep(0.005)
        process.wait()
    assert kills == 3
    assert after_change >= 1  # the last one; the phases change after step 60
    subprocess.run(run_command(cut), check=True, env=environment)
    for name in ("model.safetensors", f"{FOLDER}/step-00000150/optimizer.safetensors"):
        assert (run / name).read_bytes() == (Path(whole.output) / name).read_bytes(), name
    steps = [r["step"] for r in read_log(run) if r["kind"] == "train"]
    assert steps == [r["step"] for r in read_log(Path(whole.output)) if r["kind"] == "train"]


def test_a_finished_run_started_again_does_nothing_new(corpus: Path, tmp_path: Path) -> None:
    config = configuration(corpus, tmp_path / "run", steps=20)
    first = pretrain(config)
    before = (tmp_path / "run" / "model.safetensors").read_bytes()
    again = pretrain(config)
    assert again.resumed_from == 20
    assert again.dev == first.dev
    assert (tmp_path / "run" / "model.safetensors").read_bytes() == before


def test_phases_of_shorter_sequences_come_first_and_survive_a_restart(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = configuration(corpus, tmp_path / "whole", phases=["16:0.7"], steps=20)
    pretrain(config)
    tokens = [r["tokens"] for r in read_log(tmp_path / "whole") if r["kind"] == "train"]
    assert tokens[0] < 10 * 8 * 16 < tokens[1] - tokens[0]

    cut = replace(config, output=str(tmp_path / "cut"))
    pretrain_until(17, cut, monkeypatch)
    assert pretrain(cut).resumed_from == 10
    ends = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("whole", "cut")]
    assert ends[0] == ends[1]


def test_another_option_is_refused_with_its_name(corpus: Path, tmp_path: Path) -> None:
    config = configuration(corpus, tmp_path / "run", steps=2)
    pretrain(config)
    with pytest.raises(UserError, match=r"learning_rate was 0.003, is 0.1.*another --output"):
        pretrain(replace(config, learning_rate=0.1))


def test_minutes_become_steps_once(corpus: Path, tmp_path: Path) -> None:
    config = configuration(corpus, tmp_path / "run", max_minutes=0.05, checkpoint_steps=1000)
    first = pretrain(config)
    assert first.steps > 20
    assert pretrain(config).steps == first.steps


def test_a_budget_is_planned_once_and_stored(corpus: Path, tmp_path: Path) -> None:
    config = configuration(
        corpus, tmp_path / "run", max_minutes=0.1, phases=["16:0.6"], keep_checkpoints=50
    )
    result = pretrain(config)
    facts = json.loads((tmp_path / "run" / "run.json").read_text())
    assert len(facts["plan"]["costs"]["steps"]) == 2
    assert facts["plan"]["costs"]["evaluation"] > 0
    assert facts["plan"]["costs"]["restart_point"] > 0
    assert facts["steps"] == result.steps
    first = facts["plan"]["next_check"]
    point = tmp_path / "run" / FOLDER / f"step-{first:08d}" / "state.json"
    assert "budget" in json.loads(point.read_text())["more"]
    assert 0.9 * 6 < result.seconds + facts["calibration_seconds"] + 0.5 < 1.3 * 6


def test_changed_options_are_taken_when_allowed_and_noted(corpus: Path, tmp_path: Path) -> None:
    config = configuration(corpus, tmp_path / "run", steps=20)
    pretrain(config)
    other = replace(config, steps=40, learning_rate=1e-3, sequence_length=24)
    with pytest.raises(UserError, match=r"steps was 20, is 40.*, or --allow-changes"):
        pretrain(other)
    result = pretrain(replace(other, allow_changes=True))
    assert (result.resumed_from, result.steps) == (20, 40)
    notes = [r["text"] for r in read_log(tmp_path / "run") if r["kind"] == "note"]
    assert len(notes) == 1
    for text in ("steps was 20, is 40", "learning_rate was 0.003, is 0.001", "sequence_length"):
        assert text in notes[0]
    assert len(json.loads((tmp_path / "run" / "run.json").read_text())["changes"]) == 3
    assert pretrain(other).resumed_from == 40  # it is the run's own configuration now
    with pytest.raises(UserError, match=r"\(optimizer was adamw, is lamb\); give the same options"):
        pretrain(replace(other, optimizer="lamb", seed=5, allow_changes=True))


def test_a_run_goes_on_with_another_seed(corpus: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    config = configuration(corpus, run, steps=20)
    pretrain(config)
    asked = (run / "sentences.json").read_bytes()
    result = pretrain(replace(config, steps=40, seed=5, allow_changes=True))
    assert (result.resumed_from, result.steps) == (20, 40)
    assert (run / "sentences.json").read_bytes() == asked
    assert "Held-out sentences" in (run / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"sequence_length": 600},
            r"another model \(.*position.* is \[512, 32\] there and \[600",
        ),
        ({"objective": "mlm"}, r"of another model \(.* missing here\)"),
        ({"steps": 10}, "is at step 20, which is after its end at 10"),
        ({"corpus": "another"}, "is not the corpus that the run"),
    ],
)
def test_a_change_that_cannot_be_leaves_the_runs_configuration(
    corpus: Path, tmp_path: Path, tiny_tokenizer: Tokenizer, changes: dict, message: str
) -> None:
    run = tmp_path / "run"
    config = configuration(corpus, run, steps=20)
    pretrain(config)
    before = {name: (run / name).read_bytes() for name in ("pretrain.yaml", "run.json")}
    if "corpus" in changes:
        (tmp_path / "another").mkdir()
        other = small_corpus(tmp_path / "another", tiny_tokenizer, documents=60)
        changes = {"corpus": str(other), "batch_size": 6}
    with pytest.raises(UserError, match=message):
        pretrain(replace(config, **changes, allow_changes=True))
    assert {name: (run / name).read_bytes() for name in before} == before
    assert pretrain(config).resumed_from == 20


def test_a_change_is_written_down_when_all_of_it_stands(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stop between the facts and the configuration: the same command takes it up again."""
    config = configuration(corpus, tmp_path / "run", steps=20)
    pretrain(config)
    other = replace(config, steps=40, allow_changes=True)

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("bertkit.pretraining.run.configurations.save", stop)
        with pytest.raises(KeyboardInterrupt):
            pretrain(other)
    assert pretrain(other).steps == 40


def test_a_signal_while_the_result_is_written_loses_nothing(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = module.save_checkpoint

    def signalled(*arguments: Any) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        original(*arguments)

    monkeypatch.setattr(module, "save_checkpoint", signalled)
    run = tmp_path / "run"
    with pytest.raises(Interrupted, match="is finished") as stopped:
        pretrain(configuration(corpus, run, steps=4, checkpoint_steps=0))
    assert stopped.value.signal == signal.SIGTERM
    assert load_checkpoint(run).missing == []


def test_other_software_is_told_the_models_positions(corpus: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    pretrain(configuration(corpus, run, steps=2, checkpoint_steps=2, max_positions=64))
    for folder in (run, run / FOLDER / "step-00000002"):
        told = json.loads((folder / "tokenizer_config.json").read_text())["model_max_length"]
        assert told == load_checkpoint(folder).model.config.max_positions == 64


def test_a_change_of_phases_continues_where_the_run_was(corpus: Path, tmp_path: Path) -> None:
    config = configuration(corpus, tmp_path / "run", steps=20)
    pretrain(config)
    other = replace(config, phases=["16:0.75"], steps=40, allow_changes=True)
    result = pretrain(other)
    tokens = [r["tokens"] for r in read_log(tmp_path / "run") if r["kind"] == "train"]
    assert result.steps == 40
    assert tokens[2] - tokens[1] < 10 * 8 * 16 < tokens[3] - tokens[2]


@pytest.mark.parametrize("batch_tokens", [None, 200])
def test_loader_threads_change_nothing(
    corpus: Path, tmp_path: Path, batch_tokens: int | None
) -> None:
    ends = []
    for workers in (0, 1, 2):
        run = tmp_path / str(workers)
        pretrain(
            configuration(
                corpus, run, steps=40, workers=workers, phases=["16:0.5"], batch_tokens=batch_tokens
            )
        )
        ends.append((run / "model.safetensors").read_bytes())
    assert ends[0] == ends[1] == ends[2]


def test_batches_by_tokens_see_as_many_in_each_phase(corpus: Path, tmp_path: Path) -> None:
    config = configuration(corpus, tmp_path / "run", steps=40, phases=["16:0.5"], batch_tokens=256)
    result = pretrain(config)
    assert 0 < result.epochs < 40
    tokens = [r["tokens"] for r in read_log(tmp_path / "run") if r["kind"] == "train"]
    for before, after in pairwise([0, *tokens]):
        assert abs((after - before) / 2560 - 1) < 0.15


def test_activation_checkpointing_trains_the_same(corpus: Path, tmp_path: Path) -> None:
    ends = []
    for on in (False, True):
        run = tmp_path / str(on)
        pretrain(configuration(corpus, run, steps=20, model="3x32x2", activation_checkpointing=on))
        ends.append(load_file(run / "model.safetensors"))
    for name, value in ends[0].items():
        torch.testing.assert_close(value, ends[1][name], rtol=1e-5, atol=1e-6)


def test_a_dry_run_tells_what_a_run_would_take_and_writes_nothing(
    corpus: Path, tmp_path: Path
) -> None:
    config = configuration(corpus, tmp_path / "run", dry_run=True, phases=["16:0.5"], steps=1000)
    before = sorted(tmp_path.rglob("*"))
    result = pretrain(config)
    assert isinstance(result, DryRun)
    assert sorted(tmp_path.rglob("*")) == before
    assert result.steps == 1000
    assert [phase.steps for phase in result.phases] == [500, 500]
    assert result.memory["weights"] == 4 * result.parameters == result.memory["gradients"]
    assert result.memory["optimizer"] >= 8 * result.parameters
    assert result.disk["restart points"] == 3 * 12 * result.parameters
    assert result.seconds > 0
    for word in (
        "FLOPs",
        "memory: process",
        "memory: activations",
        "memory: logits",
        "disk: result",
        "time",
    ):
        assert word in str(result)
    assert pretrain(replace(config, max_minutes=0.5)).steps != 1000


def test_a_dry_run_needs_less_memory_with_activation_checkpointing(
    corpus: Path, tmp_path: Path
) -> None:
    config = configuration(corpus, tmp_path / "run", model="6x32x2", dry_run=True)
    plain, less = (
        pretrain(replace(config, activation_checkpointing=on)).memory["activations"]
        for on in (False, True)
    )
    assert less < 0.5 * plain


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"batch_tokens": 8}, "less than one sequence of 32 tokens"),
        ({"reference_warmup": True, "schedule": "wsd"}, "choose --schedule linear or cosine"),
        ({"batch_size": 0}, "--batch-size is 0; it must be at least 1"),
        ({"workers": -1}, "--workers is -1"),
        ({"log_steps": 0}, "--log-steps is 0; it must be at least 1"),
        ({"keep_checkpoints": 0}, "--keep-checkpoints is 0; it must be at least 1"),
        ({"checkpoint_steps": -1}, "--checkpoint-steps is -1"),
        ({"evaluate_steps": -1}, "--evaluate-steps is -1"),
        ({"evaluate_examples": -1}, "--evaluate-examples is -1"),
        ({"weight_decay": -1.0}, "--weight-decay is -1; it must be at least 0"),
        ({"learning_rate": -1.0}, "--learning-rate is -1; it must be above 0"),
        ({"learning_rate": math.nan}, "--learning-rate is nan"),
        ({"initializer_range": 0.0}, "--initializer-range is 0; it must be above 0"),
        ({"beta2": 1.5}, "--beta2 is 1.5; give one from 0 to below 1"),
        ({"phases": ["16:nan"]}, "must be above 0 and together below 1"),
        ({"max_minutes": 1e-6}, "not one step fits"),
        ({"warmup": 1.5}, "--warmup is 1.5; give a share"),
        ({"max_minutes": 0.0}, "--max-minutes is 0"),
        ({"sequence_length": 4}, "too short for a sentence pair"),
        ({"phases": ["16:0.9", "16:0.05"]}, "each must be longer"),
        ({"phases": ["16"]}, "give LENGTH:SHARE"),
        ({"phases": ["16:1.0"]}, "together below 1"),
        ({"max_positions": 16}, "longer than the model's 16 positions"),
        ({"sequence_length": 100_000}, "fewer than one sequence"),
        ({"model": "giant"}, "no model size 'giant'"),
        ({"model": "1x30x4"}, "not a multiple of 4 heads"),
        ({"device": "cuda:99"}, "--device cuda:99"),
        ({"device": "tpu"}, "no device 'tpu'"),
    ],
)
def test_what_cannot_work_is_one_line(
    corpus: Path, tmp_path: Path, changes: dict[str, object], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        pretrain(configuration(corpus, tmp_path / "run", **changes))
    assert not (tmp_path / "run").exists()


def test_a_folder_with_something_else_is_left_alone(corpus: Path, tmp_path: Path) -> None:
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "to-mum.txt").write_text("dear", encoding="utf-8")
    with pytest.raises(UserError, match=r"not empty.*another --output"):
        pretrain(configuration(corpus, tmp_path / "letters"))


@pytest.mark.parametrize(
    ("changes", "architecture", "measures"),
    [
        ({}, "BertForPreTraining", {"mlm_accuracy", "mlm_perplexity", "nsp_accuracy"}),
        ({"pairs": "nsp-sentence"}, "BertForPreTraining", {"nsp_accuracy"}),
        ({"objective": "mlm+sop"}, "BertForPreTraining", {"mlm_accuracy", "sop_accuracy"}),
        ({"objective": "mlm"}, "BertForMaskedLM", {"mlm_accuracy"}),
        (
            {"objective": "mlm", "pairs": "doc-sentences", "mask_units": "span"},
            "BertForMaskedLM",
            {"mlm_perplexity"},
        ),
        ({"objective": "ltr"}, "BertLMHeadModel", {"ltr_accuracy", "ltr_perplexity"}),
        ({"mask_units": "word", "mask_split": "random"}, "BertForPreTraining", {"mlm_accuracy"}),
        ({"masking": "static", "duplicates": 2}, "BertForPreTraining", {"mlm_accuracy"}),
    ],
)
def test_every_variant_learns_restarts_and_leaves_its_checkpoint(
    corpus: Path,
    tmp_path: Path,
    changes: dict[str, object],
    architecture: str,
    measures: set[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = configuration(corpus, tmp_path / "whole", dropout=0.1, **changes)
    result = pretrain(config)
    losses = [r["loss"] for r in read_log(tmp_path / "whole") if r["kind"] == "train"]
    assert losses[-1] < losses[0]
    assert measures <= result.dev.keys()
    assert "held out" in str(result)
    written = json.loads((tmp_path / "whole" / "config.json").read_text(encoding="utf-8"))
    assert written["architectures"] == [architecture]
    loaded = load_checkpoint(tmp_path / "whole")
    assert (loaded.missing, loaded.unexpected) == ([], [])

    cut = replace(config, output=str(tmp_path / "cut"))
    pretrain_until(37, cut, monkeypatch)
    assert pretrain(cut).resumed_from == 30
    ends = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("whole", "cut")]
    assert ends[0] == ends[1]


def test_contradicting_options_leave_no_folder(corpus: Path, tmp_path: Path) -> None:
    for changes in ({"objective": "mlm+sop", "pairs": "nsp"}, {"mask_split": "80/80/80"}):
        with pytest.raises(UserError):
            pretrain(configuration(corpus, tmp_path / "run", **changes))
        assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("words", ["none", "jieba"])
def test_a_chinese_corpus_without_words_says_what_whole_words_are(
    words: Literal["none", "jieba"],
    tmp_path: Path,
    tiny_tokenizer: Tokenizer,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if words == "jieba":
        pytest.importorskip("jieba", reason="needs jieba: pip install jieba")
    (tmp_path / "vocab").mkdir()
    tiny_tokenizer.save(tmp_path / "vocab")
    generator = random.Random(0)
    lines = ["我不是书店的人。", "你是好人。", "他的书不好。", "书店不是我的。"]
    documents = ["\n".join(generator.choices(lines, k=9)) for _ in range(40)]
    text = "\n\n".join(documents)
    (tmp_path / "text.txt").write_text(text, encoding="utf-8")
    prepare(
        PrepareConfig(
            inputs=[str(tmp_path / "text.txt")],
            vocab=str(tmp_path / "vocab"),
            output=str(tmp_path / "corpus"),
            sentences="line",
            words=words,
            workers=1,
            quiet=True,
        )
    )
    changes = {"mask_units": "word", "steps": 2, "quiet": False}
    pretrain(configuration(tmp_path / "corpus", tmp_path / "run", **changes))
    said = capsys.readouterr().err
    assert ("has no word starts" in said) == (words == "none")


def test_one_document_is_refused_for_a_random_next_only(
    tmp_path: Path, tiny_tokenizer: Tokenizer
) -> None:
    (tmp_path / "vocab").mkdir()
    tiny_tokenizer.save(tmp_path / "vocab")
    (tmp_path / "text.txt").write_text("the man went to the house.\n" * 40, encoding="utf-8")
    prepare(
        PrepareConfig(
            inputs=[str(tmp_path / "text.txt")],
            vocab=str(tmp_path / "vocab"),
            output=str(tmp_path / "corpus"),
            sentences="line",
            held_out=0.0,
            workers=1,
            quiet=True,
        )
    )
    with pytest.raises(UserError, match=r"1 document\(s\).*--objective mlm"):
        pretrain(configuration(tmp_path / "corpus", tmp_path / "one"))
    assert not (tmp_path / "one").exists()
    for objective in ("mlm", "mlm+sop", "ltr"):
        run = tmp_path / objective
        assert pretrain(configuration(tmp_path / "corpus", run, objective=objective, steps=2))


def test_a_changed_byte_in_the_corpus_is_found_before_the_start(
    corpus: Path, tmp_path: Path
) -> None:
    copied = tmp_path / "corpus"
    shutil.copytree(corpus, copied)
    shard = max((copied / "shards").rglob("*"), key=lambda path: path.stat().st_size)
    content = bytearray(shard.read_bytes())
    content[len(content) // 2] ^= 1
    shard.write_bytes(content)
    with pytest.raises(UserError, match=f"{shard.name}: damaged"):
        pretrain(configuration(copied, tmp_path / "run"))
    assert not (tmp_path / "run").exists()
