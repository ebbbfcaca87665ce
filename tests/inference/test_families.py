"""Every family answers from files and in Python, and reads what is too long in windows."""

from __future__ import annotations

import json
import random
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

import bertkit
from bertkit import config as configurations
from bertkit.errors import UserError
from bertkit.inference.config import PredictConfig
from bertkit.inference.predict import predict
from bertkit.tasks.config import EvaluateConfig, FinetuneConfig
from bertkit.tasks.evaluate import evaluate
from bertkit.tasks.registry import TASKS
from tests.tasks.tiny import save_tiny

LABELS = {
    "classification": ["glad", "sad"],
    "regression": ["score"],
    "multi-label": ["short", "long", "odd"],
    "multiple-choice": [],
    "tagging": ["O", "B-LOC", "I-LOC"],
}
WORDS = random.Random(3).choices(["the", "man", "big", "house", "river", "store"], k=100)
LONG = " ".join(WORDS)
WINDOWS = [" ".join(WORDS[:62]), " ".join(WORDS[-62:])]
"""What a sequence of 64 tokens shows of LONG: the last window is moved back so that it is full."""


@pytest.fixture(scope="module")
def models(tmp_path_factory, tiny_tokenizer) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("models")
    return {
        head: save_tiny(folder / head, tiny_tokenizer, head, labels)
        for head, labels in LABELS.items()
    }


def answers(checkpoint: Path, source: Path, **changes) -> list[dict]:
    out = source.with_name("out.jsonl")
    config = PredictConfig(str(checkpoint), str(source), str(out), precision="fp32", quiet=True)
    for name, value in changes.items():
        setattr(config, name, value)
    predict(config)
    return [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]


def test_a_number_for_a_long_text_is_the_mean_of_its_windows(models, tmp_path):
    model = bertkit.load(models["regression"])
    first, second, whole = (one.score for one in model.predict([*WINDOWS, LONG]))
    assert whole == pytest.approx((first + second) / 2, abs=1e-5)
    (tmp_path / "in.txt").write_text(f"a man\n{LONG}\n")
    short, long = answers(models["regression"], tmp_path / "in.txt")
    assert (set(short), long["windows"]) == ({"text", "score"}, 2)
    assert long["score"] == pytest.approx(whole, abs=1e-5)


def test_labels_of_a_long_text_are_those_whose_mean_probability_is_half(models, tmp_path):
    model = bertkit.load(models["multi-label"])
    first, second, whole = (one.probabilities for one in model.predict([*WINDOWS, LONG]))
    for label in LABELS["multi-label"]:
        assert whole[label] == pytest.approx((first[label] + second[label]) / 2, abs=1e-5)
    (tmp_path / "in.csv").write_text(f'text\n"a man"\n{LONG}\n')
    _, long = answers(models["multi-label"], tmp_path / "in.csv")
    assert long["labels"] == [label for label, p in whole.items() if p >= 0.5]
    assert long["windows"] == 2


def test_a_long_context_is_read_beside_its_choices(models, tmp_path):
    model = bertkit.load(models["multiple-choice"])
    choices = ["good", "a bad dog"]
    # 61 tokens beside the special ones, 5 for "in store a bad dog": 56 a window
    shown = [" ".join(WORDS[:56]), " ".join(WORDS[42:98]), " ".join(WORDS[-56:])]
    parts = model.predict([(part, "in store", choices) for part in shown])
    [whole] = model.predict([(LONG, "in store", choices)])
    for number in range(2):
        mean = sum(part.probabilities[number] for part in parts) / 3
        assert whole.probabilities[number] == pytest.approx(mean, abs=1e-5)
    source = tmp_path / "in.jsonl"
    rows = [
        {"text": LONG, "q": "in store", "choices": choices, "id": "x1"},
        {"text": "a man", "q": "went", "choices": ["to", "in", "a city"], "id": "x2"},
    ]
    source.write_text("\n".join(map(json.dumps, rows)))
    long, short = answers(models["multiple-choice"], source, pair="q")
    assert (long["id"], long["windows"], long["answer"]) == ("x1", 3, choices[long["choice"]])
    assert long["probabilities"] == pytest.approx(whole.probabilities, abs=1e-5)
    assert (short["id"], len(short["probabilities"]), "windows" in short) == ("x2", 3, False)


def test_choices_stay_whole_where_they_leave_the_context_a_quarter(models):
    model = bertkit.load(models["multiple-choice"])

    def answer(words: int) -> Any:
        choices = [" ".join(WORDS[:words]), "a man"]
        [found] = model.predict([(LONG, choices)], long="cut")
        return model.answer([model.example((LONG, choices))], long="windows"), found

    windowed, _ = answer(40)  # 61 tokens beside the special ones: 21 a window
    assert windowed.windows[0] > len(WORDS) // 21 and windowed.truncated == 0
    windowed, cut = answer(80)  # 15 of the context, 46 of the choice
    assert windowed.windows[0] > len(WORDS) // 15 and windowed.truncated == 1
    assert asdict(cut) != asdict(windowed.predictions[0])


def test_questions_with_choices_do_not_come_from_standard_input(models):
    with pytest.raises(UserError, match="give them as a file"):
        predict(PredictConfig(str(models["multiple-choice"]), quiet=True))


@pytest.mark.parametrize("head", LABELS)
def test_the_order_of_the_answers_is_that_of_the_inputs(models, head):
    model = bertkit.load(models[head])
    texts = [" ".join(WORDS[:n]) for n in (3, 90, 1, 40, 100, 7)]
    inputs = [(text, ["good", "bad"]) for text in texts] if head == "multiple-choice" else texts
    together = model.predict(inputs, batch_tokens=100)
    for one, found in zip(inputs, together, strict=True):
        [alone] = model.predict([one])
        for name, value in asdict(alone).items():
            if isinstance(value, (float, list, dict)) and name != "entities":
                assert getattr(found, name) == pytest.approx(value, abs=1e-5)


def test_columns_are_those_of_the_training_unless_others_are_named(
    tmp_path, tiny_tokenizer, capsys
):
    run = save_tiny(tmp_path / "run", tiny_tokenizer, "classification", ["glad", "sad"])
    tuned = FinetuneConfig("x", output="y", task="classification", text="body", pair="reply")
    configurations.save(tuned, run / "finetune.yaml")
    source = tmp_path / "in.tsv"
    source.write_text("body\treply\tother\na man\tthe dog\ta house\n")
    [line] = answers(run, source, sequence_length=32)
    assert (line["text"], line["pair"]) == ("a man", "the dog")
    [line] = answers(run, source, sequence_length=32, pair="other")
    assert (line["text"], line["pair"]) == ("a man", "a house")
    assert "pairs of texts" not in capsys.readouterr().err
    (tmp_path / "in.txt").write_text("body\n")
    [line] = answers(run, tmp_path / "in.txt", sequence_length=32, quiet=False)
    assert "pair" not in line
    said = " ".join(capsys.readouterr().err.split())
    assert "was tuned on pairs of texts, and these are single ones" in said


ROWS = [{"text": "a man", "label": "glad"}, {"text": "the, dog", "label": "sad"}]


@pytest.mark.parametrize("name", ["list.json", "lines.json", "a.ndjson", "a.csv", "a.parquet"])
def test_every_kind_of_records_that_is_trained_on_is_answered(models, tmp_path, name):
    path = tmp_path / name
    if name == "a.parquet":
        arrow = pytest.importorskip("pyarrow")
        pytest.importorskip("pyarrow.parquet").write_table(arrow.Table.from_pylist(ROWS), path)
    elif name == "a.csv":
        path.write_text('text,label\na man,glad\n"the, dog",sad\n')
    else:
        lines = "".join(json.dumps(row) + "\n" for row in ROWS)
        path.write_text(json.dumps(ROWS, indent=1) if name == "list.json" else lines)
    lines = answers(models["classification"], path)
    assert [line["text"] for line in lines] == ["a man", "the, dog"]


def test_lists_of_words_are_tagged_as_they_are(models, tmp_path):
    path = tmp_path / "in.jsonl"
    path.write_text('{"text": ["a man", "3"]}\n{"text": "a man"}\n')
    assert [line.get("words") for line in answers(models["tagging"], path)] == [
        ["a man", "3"],
        None,
    ]
    with pytest.raises(UserError, match="no text but a list"):
        answers(models["classification"], path)
    path.write_text('{"text": ["a man", null]}\n')
    with pytest.raises(UserError, match=r"line 1: word 2 is null"):
        answers(models["tagging"], path)


@pytest.mark.parametrize(
    ("task", "name", "content", "texts"),
    [
        ("cola", "test.tsv", "index\tsentence\n0\ta man\n1\tthe dog\n", [("a man", None)]),
        ("cola", "dev.tsv", "gj04\t1\t\ta man\ngj04\t0\t*\tman a\n", [("a man", None)]),
        ("rte", "test.tsv", "index\tsentence1\tsentence2\n0\ta man\ta dog\n",
         [("a man", "a dog")]),
        ("mrpc", "msr_paraphrase_test.txt",
         "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n1\t1\t2\ta man\ta dog\n",
         [("a man", "a dog")]),
        ("lcqmc", "test.txt", "我\t是\t1\n", [("我", "是")]),
        ("tnews", "test.json", '{"id": 0, "sentence": "我"}\n', [("我", None)]),
        ("cola", "own.csv", "text,other\na man,x\n", [("a man", None)]),
    ],
)  # fmt: skip
def test_a_known_data_sets_own_files_are_answered(
    task, name, content, texts, tmp_path, tiny_tokenizer
):
    labels = TASKS[task].labels([])
    run = save_tiny(tmp_path / "run", tiny_tokenizer, "classification", labels)
    configurations.save(FinetuneConfig("x", output="y", task=task), run / "finetune.yaml")
    (tmp_path / name).write_text(content, encoding="utf-8")
    lines = answers(run, tmp_path / name, sequence_length=32)
    assert [(line["text"], line.get("pair")) for line in lines[:1]] == texts


@pytest.mark.parametrize(
    ("task", "name", "content", "words"),
    [
        ("conll-2003", "eng.testb", "-DOCSTART- -X- O O\n\nman NN I-NP I-LOC\n\nhe PRP I-NP O\n",
         [["man"], ["he"]]),
        ("msra", "test.txt", "我 O\n是 B-LOC\n\n人 O\n", [["我", "是"], ["人"]]),
        ("pos", "x-ud-test.conllu", "1\tman\t_\tNOUN\t_\t_\t0\t_\t_\t_\n\n", [["man"]]),
        ("pos", "test.txt", "man/NOUN went/VERB\n", [["man", "went"]]),
        ("tagging", "mine.bio", "man B-LOC\nwent O\n", [["man", "went"]]),
        ("tagging", "test.txt", "man went\nto the city\nhe\n", None),
        ("tagging", "mine.txt", "man went\n", None),
    ],
)  # fmt: skip
def test_words_with_tags_are_read_as_such(task, name, content, words, tmp_path, tiny_tokenizer):
    run = save_tiny(tmp_path / "run", tiny_tokenizer, "tagging", ["O", "B-LOC", "I-LOC"])
    configurations.save(FinetuneConfig("x", output="y", task=task), run / "finetune.yaml")
    (tmp_path / name).write_text(content, encoding="utf-8")
    lines = answers(run, tmp_path / name, sequence_length=32)
    if words is None:
        assert [line["text"] for line in lines] == content.splitlines()
    else:
        assert [line["words"] for line in lines] == words


def test_a_test_file_needs_no_labels_though_it_is_named_itself(tmp_path, tiny_tokenizer):
    labels = TASKS["cola"].labels([])
    run = save_tiny(tmp_path / "run", tiny_tokenizer, "classification", labels)
    path = tmp_path / "test.tsv"
    path.write_text("index\tsentence\n0\ta man\n")
    config = EvaluateConfig(str(run), str(path), "cola", split="test", sequence_length=32)
    assert evaluate(config).metrics == {}
    config.split = "dev"
    with pytest.raises(UserError, match=r"no column 'label' .*--split test if there is none"):
        evaluate(config)
