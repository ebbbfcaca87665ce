"""`bertkit inspect` tells what a thing is, what is in it, and refuses what is damaged."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from bertkit import config as configurations
from bertkit.cli import main
from bertkit.corpus.config import PrepareConfig
from bertkit.corpus.format import Corpus
from bertkit.corpus.prepare import prepare
from bertkit.errors import UserError
from bertkit.formats.huggingface import save_checkpoint
from bertkit.journey.config import InspectConfig
from bertkit.journey.inspect import InspectResult, inspect
from bertkit.model.bert import LABELLED, MODELS, ClassificationModel
from bertkit.model.config import model_config
from bertkit.pretraining.config import PretrainConfig
from bertkit.pretraining.run import pretrain
from bertkit.pretraining.sources import source_of
from bertkit.text.tokenizer import Tokenizer

SENTENCES = [
    "The cat sat on the mat.",
    "A dog ran to the river.",
    "她不是书店的人。",
    "He read it.",
]


def look(path: Path | str, **options: object) -> InspectResult:
    return inspect(InspectConfig(path=str(path), **options))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory: pytest.TempPathFactory, tiny_tokenizer: Tokenizer) -> Path:
    folder = tmp_path_factory.mktemp("vocabulary")
    tiny_tokenizer.save(folder)
    return folder


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory, vocabulary: Path) -> Path:
    """Forty documents of four sentences, a tenth of them held out."""
    folder = tmp_path_factory.mktemp("corpus")
    text = "\n\n".join("\n".join(SENTENCES) + f"\nIt was day {day}." for day in range(40))
    (folder / "text.txt").write_text(text, encoding="utf-8")
    prepare(
        PrepareConfig(
            inputs=[str(folder / "text.txt")],
            vocab=str(vocabulary),
            output=str(folder / "corpus"),
            documents="blank-line",
            sentences="line",
            held_out=0.1,
            workers=1,
            quiet=True,
        )
    )
    return folder / "corpus"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, corpus: Path) -> Path:
    """A finished pre-training of four steps, with restart points after the second and fourth."""
    output = tmp_path_factory.mktemp("runs") / "run"
    pretrain(
        PretrainConfig(
            corpus=str(corpus),
            output=str(output),
            model="1x16x2",
            steps=4,
            batch_size=4,
            sequence_length=24,
            checkpoint_steps=2,
            log_steps=2,
            evaluate_examples=8,
            quiet=True,
        )
    )
    return output


def copy(path: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(path, tmp_path / "copy"))


def test_a_size_a_vocabulary_and_a_corpus_are_told_without_torch(
    vocabulary: Path, corpus: Path
) -> None:
    paths = ["base", str(vocabulary), str(corpus)]
    script = (
        "import sys; from bertkit.cli import main; "
        f"codes = [main(['inspect', path]) for path in {paths}]; "
        "print(codes, 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.endswith("[0, 0, 0] False\n"), done.stderr


def test_a_model_size_shows_where_its_parameters_are() -> None:
    found = look("base")
    assert found.kind == "model size"
    assert found.facts["encoder_parameters"] == 109_482_240  # the paper's 110M
    assert sum(row["count"] for row in found.facts["table"]) == found.facts["parameters"]
    assert "30522 × 768" in str(found) and "109,482,240" in str(found)


def test_a_model_size_may_be_given_in_numbers_and_for_another_vocabulary() -> None:
    assert look("2x128x2").facts["parameters"] == look("tiny").facts["parameters"]
    smaller = look("tiny", vocab_size=1000).facts
    assert smaller["vocab_size"] == 1000 and smaller["table"][0]["count"] == 128_000
    with pytest.raises(UserError, match="not a multiple of 3 heads"):
        look("2x128x3")


def test_a_vocabulary_tells_its_entries_and_casing(
    vocabulary: Path, tiny_tokenizer: Tokenizer
) -> None:
    found = look(vocabulary)
    assert found.kind == "vocabulary"
    assert found.facts["vocab_size"] == len(tiny_tokenizer)
    assert found.facts["casing"] == "uncased"
    assert found.facts["special_tokens"]["[MASK]"] == tiny_tokenizer.mask_id
    assert look(vocabulary / "vocab.txt").facts["casing"] == "not stored"


def test_a_file_of_entries_without_the_special_ones_is_no_vocabulary(tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_text("a\nb\n")
    with pytest.raises(UserError, match=r"has no \[PAD\]"):
        look(tmp_path / "vocab.txt")


def test_a_corpus_tells_its_counts(corpus: Path) -> None:
    found = look(corpus)
    assert found.kind == "corpus" and found.facts["verified"]
    counts = found.facts["splits"]
    assert sum(split["documents"] for split in counts.values()) == 40
    assert sum(split["sentences"] for split in counts.values()) == 200
    assert "every checksum agrees" in str(found)


def test_a_document_of_a_corpus_is_shown_in_words(corpus: Path) -> None:
    document = look(corpus, document=0, split="dev").facts["document"]
    assert document["id"].startswith("text.txt")
    assert len(document["sentences"]) == 5
    assert document["sentences"][3].startswith("he read it")
    assert "he read it" in str(look(corpus, document=0))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"document": 1000}, "has documents 0 to .* in train, not 1000"),
        ({"document": -1}, "not -1"),
        ({"document": 0, "split": "test"}, "no split 'test'; choose one of train, dev"),
        ({"example": -1}, "count from 0"),
        ({"example": 99_999_999}, "lies beyond 1000 epochs of about .*; give the --epoch"),
        ({"example": 0, "sequence_length": 4}, "too short"),
        ({"example": 0, "split": "test"}, "no split 'test'"),
    ],
)
def test_a_document_or_an_example_that_is_not_there_is_refused(
    corpus: Path, options: dict[str, object], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        look(corpus, **options)


def test_a_corpus_tells_its_statistics(corpus: Path) -> None:
    found = look(corpus)
    train = found.facts["splits"]["train"]
    assert train["sentence_tokens"]["percentiles"]["50"] > 3
    assert "99 % up to" in str(found) and "of them unknown" in str(found)
    assert found.facts["words"] is None


def test_an_example_is_shown_as_pre_training_sees_it(corpus: Path) -> None:
    found = look(corpus, example=2, sequence_length=32)
    example = found.facts["example"]
    tokens = example["tokens"]
    assert tokens[0] == "[CLS]" and tokens[-1] == "[SEP]" and tokens.count("[SEP]") == 2
    assert len(tokens) <= 32 and len(tokens) == len(example["segment_ids"])
    assert len(example["masked"]) == max(1, round(0.15 * len(tokens)))
    place, original = next(iter(example["masked"].items()))
    assert f"{tokens[place]}{{{original}}}" in found.text
    assert ("a random text" in found.text) == example["random_next"]
    assert look(corpus, example=2, sequence_length=32).facts == found.facts
    assert look(corpus, example=3, sequence_length=32).facts["example"] != example


def test_an_example_of_a_run_is_the_one_that_it_saw(run: Path, corpus: Path) -> None:
    found = look(run, example=5)
    example = found.facts["example"]
    options = configurations.load(PretrainConfig, run / "pretrain.yaml")
    opened = Corpus.open(corpus)
    source = source_of(options, opened.splits["train"], opened.tokenizer(), 24)
    inputs = source.step(1)[0].inputs  # 4 examples a step
    ids = inputs.token_ids[inputs.bounds[1] : inputs.bounds[2]].tolist()
    assert example["tokens"] == [opened.tokenizer().vocabulary[number] for number in ids]
    assert example["epoch"] == 0 and "example 5 of train in epoch 0" in found.text
    rows = len(source.plan(0))
    later = look(run, example=rows + 2).facts["example"]
    assert later == look(run, example=2, epoch=1).facts["example"] and later["epoch"] == 1
    with pytest.raises(UserError, match=f"epoch 0 has the examples 0 to {rows - 1}, not"):
        look(run, example=rows, epoch=0)
    with pytest.raises(UserError, match=r"no phase with sequences of 99 tokens.*24"):
        look(run, example=5, sequence_length=99)


def test_a_document_is_shown_in_chinese_words(
    corpus: Path, vocabulary: Path, tmp_path: Path
) -> None:
    pytest.importorskip("jieba", reason="needs jieba: pip install jieba")
    prepare(
        PrepareConfig(
            inputs=[str(corpus.parent / "text.txt")],
            vocab=str(vocabulary),
            output=str(tmp_path / "corpus"),
            sentences="line",
            words="jieba",
            workers=1,
            quiet=True,
        )
    )
    found = look(tmp_path / "corpus", document=0)
    assert "她 不是 书店 的 人" in found.text.replace("[UNK]", "她")
    assert "jieba" in found.facts["words"] and "starts are stored" in str(found)


def test_parts_tell_what_is_missing(corpus: Path, vocabulary: Path, tmp_path: Path) -> None:
    prepare(
        PrepareConfig(
            inputs=[str(corpus.parent / "text.txt")],
            vocab=str(vocabulary),
            output=str(tmp_path / "parts"),
            shard="1/2",
            shard_bytes=1000,
            workers=1,
            quiet=True,
        )
    )
    found = look(tmp_path / "parts")
    assert found.kind == "parts of a corpus" and found.facts["missing"][:2] == [1, 3]


@pytest.mark.parametrize("change", ["vocab.txt", "tokenizer_config.json"])
def test_a_vocabulary_of_another_corpus_is_refused(
    corpus: Path, tmp_path: Path, change: str
) -> None:
    other = copy(corpus, tmp_path)
    path = other / change
    text = path.read_text()
    changed = {
        "vocab.txt": text.replace("\ndog\ncat\n", "\ncat\ndog\n"),
        "tokenizer_config.json": text.replace('_per_word": 200', '_per_word": 100'),
    }[change]
    assert changed != text
    path.write_text(changed)
    with pytest.raises(UserError, match=rf"{change}: damaged"):
        look(other)
    message = "that this corpus was made with|remove the file that does not belong"
    with pytest.raises(UserError, match=message):
        look(other, verify=False)
    with pytest.raises(UserError, match=message):
        pretrain(PretrainConfig(corpus=str(other), output=str(tmp_path / "run"), quiet=True))
    assert not (tmp_path / "run").exists()


def test_a_changed_byte_in_a_corpus_is_found_unless_it_is_not_read(
    corpus: Path, tmp_path: Path
) -> None:
    damaged = copy(corpus, tmp_path)
    shard = next((damaged / "shards").glob("*.tokens"))
    content = bytearray(shard.read_bytes())
    content[0] ^= 1
    shard.write_bytes(content)
    with pytest.raises(UserError, match=r"\.tokens: damaged"):
        look(damaged)
    assert not look(damaged, verify=False).facts["verified"]


def test_a_finished_run_tells_how_it_went_and_what_it_made(run: Path) -> None:
    found = look(run)
    assert found.kind == "run" and found.facts["finished"]
    assert (found.facts["steps_logged"], found.facts["steps_planned"]) == (4, 4)
    assert found.facts["last_train"]["mlm_loss"] > 0
    assert found.facts["last_dev"]["nsp_loss"] > 0
    assert found.facts["restart_point"]["step"] == 4
    assert found.facts["checkpoint"]["head"] == "pretraining"
    assert "every weight is there" in str(found)


def test_a_run_that_has_not_ended_says_so(run: Path, tmp_path: Path) -> None:
    unfinished = copy(run, tmp_path)
    for name in ("model.safetensors", "config.json"):
        (unfinished / name).unlink()
    shutil.rmtree(unfinished / "checkpoints")
    found = look(unfinished)
    assert not found.facts["finished"] and found.facts["checkpoint"] is None
    assert "not finished" in str(found) and "from the beginning" in str(found)


def test_a_quickstart_tells_what_is_where(tmp_path: Path) -> None:
    (tmp_path / "quickstart.yaml").write_text("minutes: 2\n")
    assert "not finished; the same command continues" in str(look(tmp_path))
    places = [[str(tmp_path / "vocab"), "the vocabulary"]]
    (tmp_path / "results.json").write_text(json.dumps({"places": places}))
    found = look(tmp_path)
    assert (found.kind, found.facts["finished"]) == ("quickstart", True)
    assert ("vocab", "the vocabulary") in found.lines


def test_a_damaged_restart_point_gives_way_to_the_one_before(run: Path, tmp_path: Path) -> None:
    damaged = copy(run, tmp_path)
    (damaged / "checkpoints" / "step-00000004" / "optimizer.safetensors").write_bytes(b"half")
    assert look(damaged).facts["restart_point"]["step"] == 2


def test_a_checkpoint_tells_its_sizes_head_labels_and_casing(
    tmp_path: Path, tiny_tokenizer: Tokenizer
) -> None:
    labels = [f"label {number}" for number in range(20)]
    model = ClassificationModel(model_config("1x16x2", len(tiny_tokenizer)), labels)
    save_checkpoint(model, tmp_path)
    tiny_tokenizer.save(tmp_path)
    found = look(tmp_path)
    assert found.kind == "checkpoint"
    facts = found.facts
    assert (facts["head"], facts["labels"], facts["casing"]) == (
        "classification",
        labels,
        "uncased",
    )
    assert facts["parameters"] == sum(value.numel() for value in model.parameters())
    assert "and 8 more" in str(found)


@pytest.mark.parametrize("head", MODELS)
def test_the_arithmetic_agrees_with_the_weights_of_every_head(head: str, tmp_path: Path) -> None:
    config = model_config("2x16x2", 50)
    labels = [["yes", "no", "perhaps"]] if head in LABELLED else []
    options = {"features": "last", "lstm_size": 8} if head == "bilstm-tagging" else {}
    model = MODELS[head](config, *labels, **options)
    save_checkpoint(model, tmp_path)
    found = look(tmp_path)
    assert found.facts["parameters"] == sum(value.numel() for value in model.parameters())
    assert "no vocab.txt" in str(found)


def test_a_checkpoint_cut_short_is_refused(run: Path, tmp_path: Path) -> None:
    damaged = copy(run, tmp_path)
    weights = (damaged / "model.safetensors").read_bytes()
    (damaged / "model.safetensors").write_bytes(weights[: len(weights) // 2])
    with pytest.raises(UserError, match="broken or truncated"):
        look(damaged)


def test_a_checkpoint_with_numbers_that_are_not_finite_is_refused(tmp_path: Path) -> None:
    model = ClassificationModel(model_config("1x16x2", 50), ["yes", "no"])
    with torch.no_grad():
        model.classifier.dense.bias[1] = float("nan")
    save_checkpoint(model, tmp_path)
    with pytest.raises(UserError, match=r"classifier\.bias \[2\] in .* holds 1 numbers that"):
        look(tmp_path)


def test_a_vocabulary_larger_than_the_models_is_refused(
    tmp_path: Path, tiny_tokenizer: Tokenizer
) -> None:
    save_checkpoint(ClassificationModel(model_config("1x16x2", 20), ["yes", "no"]), tmp_path)
    tiny_tokenizer.save(tmp_path)
    with pytest.raises(UserError, match=r"embeddings are \[20, 16\] and should be \[135, 16\]"):
        look(tmp_path)


def test_anything_else_is_refused_with_what_is_understood(tmp_path: Path) -> None:
    (tmp_path / "photo.jpg").write_bytes(b"\xff")
    for path in (tmp_path, tmp_path / "photo.jpg"):
        with pytest.raises(UserError, match=r"it understands a corpus.*a run.*a checkpoint"):
            look(path)
    with pytest.raises(UserError, match=r"there is no .*absent; give a corpus.*base"):
        look(tmp_path / "absent")


def test_the_command_prints_text_or_json(
    vocabulary: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["inspect", str(vocabulary)]) == 0
    assert capsys.readouterr().out.startswith(f"{vocabulary}: vocabulary\n  entries ")
    assert main(["inspect", str(vocabulary), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["kind"] == "vocabulary"
    assert main(["inspect", str(vocabulary / "absent")]) == 2
    assert capsys.readouterr().err.count("\n") == 1
