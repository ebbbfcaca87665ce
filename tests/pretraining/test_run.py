"""A whole pre-training run: learning, continuing after kill -9, refusing what cannot work."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest

from bertkit.corpus.config import PrepareConfig
from bertkit.corpus.prepare import prepare
from bertkit.errors import UserError
from bertkit.formats.huggingface import load_checkpoint
from bertkit.pretraining import run as run_module
from bertkit.pretraining.config import PretrainConfig
from bertkit.pretraining.run import pretrain
from bertkit.text.tokenizer import Tokenizer
from bertkit.training.batch import Batch
from bertkit.training.checkpoint import FOLDER
from bertkit.training.log import read_log

WORDS = [
    *("the", "man", "woman", "dog", "cat", "house", "river", "went", "came", "saw", "ran"),
    *("to", "of", "and", "a", "good", "bad", "red", "big"),
]


def write_text(path: Path, documents: int) -> None:
    generator = random.Random(0)
    lines = []
    for _ in range(documents):
        topic = generator.sample(WORDS, 6)
        for _ in range(generator.randint(4, 12)):
            lines.append(" ".join(generator.choices(topic, k=generator.randint(4, 9))) + ".")
        lines.append("")
    path.write_text("\n".join(lines), encoding="utf-8")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory, tiny_tokenizer: Tokenizer) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    write_text(folder / "text.txt", 120)
    (folder / "vocab").mkdir()
    tiny_tokenizer.save(folder / "vocab")
    prepare(
        PrepareConfig(
            inputs=[str(folder / "text.txt")],
            vocab=str(folder / "vocab"),
            output=str(folder / "corpus"),
            sentences="line",
            held_out=0.1,
            workers=1,
            quiet=True,
        )
    )
    return folder / "corpus"


def configuration(corpus: Path, run: Path, **changes: object) -> PretrainConfig:
    config = PretrainConfig(
        corpus=str(corpus),
        output=str(run),
        model="1x32x2",
        sequence_length=32,
        batch_size=8,
        micro_batch_size=4,
        steps=60,
        learning_rate=3e-3,
        warmup=0.1,
        evaluate_steps=30,
        evaluate_examples=32,
        checkpoint_steps=10,
        quiet=True,
    )
    return replace(config, **changes)  # type: ignore[arg-type]


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
    flags = [
        config.corpus, "--output", config.output, "--model", config.model,
        "--sequence-length", str(config.sequence_length),
        "--batch-size", str(config.batch_size),
        "--micro-batch-size", str(config.micro_batch_size), "--steps", str(config.steps),
        "--learning-rate", str(config.learning_rate), "--warmup", str(config.warmup),
        "--evaluate-steps", str(config.evaluate_steps),
        "--evaluate-examples", str(config.evaluate_examples),
        "--checkpoint-steps", str(config.checkpoint_steps), "--quiet",
    ]  # fmt: skip
    return [sys.executable, "-m", "bertkit", "pretrain", *flags]


def points(run: Path) -> list[str]:
    folder = run / FOLDER
    return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []


@pytest.mark.slow
def test_killed_at_any_moment_a_run_ends_with_the_same_weights(
    corpus: Path, tmp_path: Path
) -> None:
    whole = configuration(corpus, tmp_path / "whole", steps=150, checkpoint_steps=3)
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run(run_command(whole), check=True, env=environment)
    cut = replace(whole, output=str(tmp_path / "cut"))
    run = Path(cut.output)
    generator = random.Random(1)
    kills = 0
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
                break
            time.sleep(0.005)
        process.wait()
    assert kills == 3
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

    class StopError(Exception):
        pass

    cut = replace(config, output=str(tmp_path / "cut"))
    with monkeypatch.context() as patch:
        real = run_module.PhasedSource.step

        def stop_at_17(self: run_module.PhasedSource, step: int) -> list[Batch]:
            if step == 17:
                raise StopError
            return real(self, step)

        patch.setattr(run_module.PhasedSource, "step", stop_at_17)
        with pytest.raises(StopError):
            pretrain(cut)
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


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sequence_length": 4}, "too short for a sentence pair"),
        ({"phases": ["16:0.9", "16:0.05"]}, "each must be longer"),
        ({"phases": ["16"]}, "give LENGTH:SHARE"),
        ({"phases": ["16:1.0"]}, "together below 1"),
        ({"max_positions": 16}, "longer than the model's 16 positions"),
        ({"sequence_length": 100_000}, "fewer than one sequence"),
        ({"model": "giant"}, "no model size 'giant'"),
        ({"model": "1x30x4"}, "not a multiple of 4 heads"),
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

    class StopError(Exception):
        pass

    cut = replace(config, output=str(tmp_path / "cut"))
    with monkeypatch.context() as patch:
        real = run_module.PhasedSource.step

        def stop_at_37(self: run_module.PhasedSource, step: int) -> list[Batch]:
            if step == 37:
                raise StopError
            return real(self, step)

        patch.setattr(run_module.PhasedSource, "step", stop_at_37)
        with pytest.raises(StopError):
            pretrain(cut)
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
