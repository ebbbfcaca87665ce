"""Each family makes its own units and targets, learns them, and says what its output means."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import bertkit
from bertkit.errors import UserError
from bertkit.formats.huggingface import load_checkpoint
from bertkit.model.bert import MODELS
from bertkit.tasks.batches import TrainingSource
from bertkit.tasks.choice_readers import ChoiceExample
from bertkit.tasks.config import EvaluateConfig
from bertkit.tasks.evaluate import evaluate
from bertkit.tasks.finetune import finetune
from bertkit.tasks.readers import TextExample, WordsExample
from bertkit.tasks.registry import TASKS
from bertkit.tasks.regression import ScorePrediction
from bertkit.tasks.task import TaskOptions
from tests.tasks.tiny import NEUTRAL, finetune_until, sentiment_rows, tiny_config, tuning

GOOD, BAD = ("good", "new", "green"), ("bad", "old", "red")


def filler(generator: random.Random) -> list[str]:
    return generator.choices(NEUTRAL, k=generator.randrange(1, 5))


def scored_rows(count: int, seed: int) -> list[dict[str, Any]]:
    """Texts whose score is the number of good words less the number of bad ones."""
    generator = random.Random(seed)
    rows = []
    for _ in range(count):
        good, bad = generator.randrange(4), generator.randrange(4)
        words = [generator.choice(GOOD) for _ in range(good)]
        words += [generator.choice(BAD) for _ in range(bad)] + filler(generator)
        generator.shuffle(words)
        rows.append({"text": " ".join(words), "score": (good - bad) / 2})
    return rows


def topical_rows(count: int, seed: int) -> list[dict[str, Any]]:
    """Texts with any of two labels, each told by a word of its own."""
    generator = random.Random(seed)
    rows = []
    for _ in range(count):
        labels = [name for name in ("river", "store") if generator.random() < 0.5]
        words = filler(generator) + labels
        generator.shuffle(words)
        rows.append({"text": " ".join(words), "labels": labels})
    return rows


def choice_rows(count: int, seed: int) -> list[dict[str, Any]]:
    """Two to four choices, of which one has a good word."""
    generator = random.Random(seed)
    rows = []
    for _ in range(count):
        choices = [
            " ".join([generator.choice(BAD), *filler(generator)])
            for _ in range(generator.randrange(2, 5))
        ]
        answer = generator.randrange(len(choices))
        choices[answer] = " ".join([*filler(generator), generator.choice(GOOD)])
        rows.append({"text": "the man went", "choices": choices, "label": answer})
    return rows


def write(folder: Path, rows: Any) -> Path:
    for split, count, seed in (("train", 400, 1), ("dev", 100, 2)):
        lines = (json.dumps(row) for row in rows(count, seed))
        (folder / f"{split}.jsonl").write_text("\n".join(lines))
    return folder


@pytest.fixture(scope="module")
def runs(checkpoint, tmp_path_factory) -> dict[str, tuple[Path, Path, Any]]:
    """family -> (run, data, result), each trained once without naming its task."""
    folder = tmp_path_factory.mktemp("families")
    found = {}
    for rows in (scored_rows, topical_rows, choice_rows):
        data = folder / rows.__name__
        data.mkdir()
        run = folder / f"run-{rows.__name__}"
        result = finetune(tuning(checkpoint, run, data=str(write(data, rows))))
        found[result.task] = (run, data, result)
    return found


@pytest.mark.parametrize(
    ("task", "metric", "least"),
    [
        ("regression", "spearman", 0.9),
        ("multi-label", "exact_match", 0.9),
        ("multiple-choice", "accuracy", 0.9),
    ],
)
def test_a_family_is_told_by_its_data_and_learns(runs, task, metric, least):
    run, data, result = runs[task]
    assert result.metrics[metric] > least
    again = evaluate(EvaluateConfig(str(run), str(data), precision="fp32", quiet=True))
    assert again.metrics == pytest.approx(result.metrics)
    record = json.loads((run / "predictions.jsonl").read_text().splitlines()[0])
    assert "gold" in record
    assert json.loads((run / "data.json").read_text())["examples"] == 400


def test_the_families_answer_in_python(runs):
    low, high = bertkit.load(runs["regression"][0]).predict(["bad old", "good new good"])
    assert low.score < 0 < high.score
    [both] = bertkit.load(runs["multi-label"][0]).predict(["the river store"])
    assert both.labels == ["river", "store"]
    chooser = bertkit.load(runs["multiple-choice"][0])
    asked = [("the man", ["bad", "good house", "red"]), ("the man", "", ["new", "old"])]
    first, second = chooser.predict(asked)
    assert (first.text, second.choice) == ("good house", 0)
    assert sum(first.probabilities) == pytest.approx(1)
    with pytest.raises(UserError, match=r"takes \(text, choices\)"):
        chooser.predict(["no choices"])


def test_prices_are_learned_as_well_as_stars_and_the_file_holds_prices(
    checkpoint, tiny_tokenizer, tmp_path
):
    def priced(count: int, seed: int) -> list[dict[str, Any]]:
        rows = scored_rows(count, seed)
        return [row | {"score": 300_000 + 50_000 * row["score"]} for row in rows]

    data = write(tmp_path, priced)
    run = tmp_path / "run"
    result = finetune(tuning(checkpoint, run, data=str(data), task="regression", label="score"))
    assert result.metrics["spearman"] > 0.9
    assert result.metrics["rmse"] < 20_000
    saved = bertkit.load(run)
    assert saved.model.scale == 1
    again = [one.score for one in saved.predict(["good new good", "bad old"])]
    assert again[0] > 300_000 > again[1]
    kept = finetune(
        tuning(run, tmp_path / "on", data=str(data), task="regression", label="score", epochs=0.05)
    )
    assert kept.head == "kept" and kept.metrics["spearman"] > 0.85
    (tmp_path / "stars").mkdir()
    stars = write(tmp_path / "stars", scored_rows)
    fresh = finetune(
        tuning(run, tmp_path / "down", data=str(stars), task="regression", label="score")
    )
    assert fresh.head == "replaced" and fresh.metrics["rmse"] < 1
    back = finetune(
        tuning(tmp_path / "down", tmp_path / "up", data=str(data), task="regression", label="score")
    )
    assert back.head == "replaced" and back.metrics["rmse"] < 20_000


@pytest.mark.parametrize("scores", [[2019 + n / 100 for n in range(30)], [10010.0, 10039.0] * 5])
def test_numbers_close_to_each_other_are_counted_apart(scores):
    examples = [TextExample("a", label=str(score)) for score in scores]
    found = TASKS["regression"].counts(examples)
    assert len(found) == 10
    assert sum(found.values()) == len(scores)


def test_a_small_number_is_written_as_it_is():
    line = TASKS["regression"].record(TextExample("a"), ScorePrediction(3.4e-8))
    assert line["score"] == 3.4e-8


def test_an_interrupted_regression_ends_with_the_weights_of_one_that_ran_through(
    checkpoint, tmp_path, monkeypatch
):
    def priced(count: int, seed: int) -> list[dict[str, Any]]:
        return [row | {"score": 700 * row["score"]} for row in scored_rows(count // 4, seed)]

    data = write(tmp_path, priced)
    options = {
        "data": str(data),
        "task": "regression",
        "label": "score",
        "epochs": 1,
        "batch_size": 10,
        "checkpoint_steps": 3,
    }
    finetune(tuning(checkpoint, tmp_path / "through", **options))
    broken = tuning(checkpoint, tmp_path / "broken", **options)
    finetune_until(7, broken, monkeypatch)
    finetune(broken)
    expected, found = (
        load_checkpoint(tmp_path / name).model.state_dict() for name in ("through", "broken")
    )
    assert all(torch.equal(expected[name], found[name]) for name in expected)


def test_a_regressions_scale_rounds_nothing(tiny_tokenizer):
    torch.manual_seed(0)
    kind = MODELS["regression"]
    model, other = (kind(tiny_config(tiny_tokenizer), ["score"]) for _ in range(2))
    before = {name: value.clone() for name, value in model.state_dict().items()}
    model.rescale(2.0**15)
    other.rescale(2.0**-3)
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    other.load_state_dict(model.state_dict())
    assert all(torch.equal(before[name], value) for name, value in other.state_dict().items())
    assert not torch.equal(model.classifier.dense.weight, other.classifier.dense.weight)


def test_choices_of_one_question_stay_in_one_micro_batch(tiny_tokenizer):
    task = TASKS["multiple-choice"]
    generator = random.Random(3)
    examples = [
        ChoiceExample("the man", "he", ["ran"] * generator.randrange(1, 6), 0) for _ in range(30)
    ]
    made = task.features(examples, tiny_tokenizer, [], TaskOptions(16))
    source = TrainingSource(made, task.collate, batch_size=12, micro_batch_size=5, seed=0)
    batches = source.step(0)
    assert [batch.targets["choices"].numel() for batch in batches] == [5, 5, 2]
    for batch in batches:
        assert int(batch.targets["choices"].sum()) == batch.inputs.sequences
        assert task.objective.counts(batch) == {"choice": batch.targets["choices"].numel()}


def test_the_loss_of_choices_is_that_of_each_question_by_itself(tiny_tokenizer):
    task = TASKS["multiple-choice"]
    torch.manual_seed(0)
    model = MODELS["multiple-choice"](tiny_config(tiny_tokenizer)).eval()
    examples = [
        ChoiceExample("the man", "he", ["ran", "sat", "went to the city"], 2),
        ChoiceExample("a dog", "it", ["saw the cat", "ran"], 0),
        ChoiceExample("a dog", "", ["ran"], 0),
    ]
    made = task.features(examples, tiny_tokenizer, [], TaskOptions(16))
    batch = task.collate(made.features)
    together = task.objective(model, batch).losses["choice"]
    expected = torch.zeros(())
    scores = model(batch.inputs)
    for example, part in zip(examples, scores.split([3, 2, 1]), strict=True):
        expected = expected + torch.nn.functional.cross_entropy(
            part[None], torch.tensor([example.answer]), reduction="sum"
        )
    torch.testing.assert_close(together, expected)
    assert torch.isfinite(together)
    together.backward()
    assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)


def test_a_choice_follows_the_question_in_segment_one(tiny_tokenizer):
    task = TASKS["multiple-choice"]
    example = ChoiceExample("the man", "he", ["ran", "sat"])
    [unit] = task.features([example], tiny_tokenizer, None, TaskOptions(16)).features
    encoding = tiny_tokenizer.encode("the man", "he sat", max_length=16)
    assert (unit.ids[1], unit.segments[1]) == (encoding.ids, encoding.segment_ids)
    cut = task.features([example], tiny_tokenizer, None, TaskOptions(6))
    assert cut.truncated == 1
    assert all(len(ids) == 6 for ids in cut.features[0].ids)


def test_squared_error_and_binary_cross_entropy_are_summed_with_their_counts(tiny_tokenizer):
    options = TaskOptions(16)
    torch.manual_seed(0)
    regression, examples = TASKS["regression"], [TextExample("the man", None, "2.5")] * 3
    model = MODELS["regression"](tiny_config(tiny_tokenizer), ["score"]).eval()
    batch = regression.collate(
        regression.features(examples, tiny_tokenizer, ["score"], options).features
    )
    found = model(batch.inputs)[:, 0]
    loss = regression.objective(model, batch).losses["score"]
    torch.testing.assert_close(loss, ((found - 2.5) ** 2).sum())
    model.rescale(4.0)
    loss = regression.objective(model, batch).losses["score"]
    torch.testing.assert_close(loss, ((found - 2.5) ** 2).sum() / 16)
    assert regression.objective.counts(batch) == {"score": 3}

    several = TASKS["multi-label"]
    model = MODELS["multi-label"](tiny_config(tiny_tokenizer), ["a", "b"]).eval()
    batch = several.collate(
        several.features(
            [TextExample("the man", labels=("b",))], tiny_tokenizer, ["a", "b"], options
        ).features
    )
    assert batch.targets["labels"].tolist() == [[0, 1]]
    p = model(batch.inputs)[0].sigmoid()
    loss = several.objective(model, batch).losses["label"]
    torch.testing.assert_close(loss, -((1 - p[0]).log() + p[1].log()))
    assert several.objective.counts(batch) == {"label": 2}


def test_a_task_head_is_replaced_by_another_tasks_and_kept_for_its_own(
    checkpoint, tmp_path, capsys
):
    rows = [{"text": text, "label": label} for text, label in sentiment_rows(60)]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)))
    others = [{**row, "label": {"glad": "up", "sad": "down"}[row["label"]]} for row in rows]
    (tmp_path / "b.jsonl").write_text("\n".join(map(json.dumps, others)))
    changes = {"epochs": 0.3, "quiet": False}
    first = finetune(tuning(checkpoint, tmp_path / "1", data=str(tmp_path / "a.jsonl"), **changes))
    assert first.head == "fresh"
    kept = finetune(
        tuning(tmp_path / "1", tmp_path / "2", data=str(tmp_path / "a.jsonl"), **changes)
    )
    assert kept.head == "kept"
    assert "it is trained on" in capsys.readouterr().err
    replaced = finetune(
        tuning(tmp_path / "2", tmp_path / "3", data=str(tmp_path / "b.jsonl"), **changes)
    )
    assert replaced.head == "replaced"
    assert "replaced by a fresh one" in capsys.readouterr().err
    assert load_checkpoint(tmp_path / "3").model.labels == ["down", "up"]


def test_a_segmenter_writes_words_that_make_the_text(checkpoint, tmp_path):
    generator = random.Random(0)
    for split, count in (("train", 200), ("dev", 40)):
        lines = [
            "  ".join(generator.choice(["我", "书店", "不好", "他"]) for _ in range(5))
            for _ in range(count)
        ]
        (tmp_path / f"{split}.txt").write_text("\n".join(lines))
    result = finetune(
        tuning(checkpoint, tmp_path / "run", task="segmentation", data=str(tmp_path), epochs=8)
    )
    assert result.metrics["f1"] > 0.9
    model = bertkit.load(tmp_path / "run")
    [prediction] = model.predict(["我 书店不好\x07"])
    assert prediction.words[:3] == ["我", "书店", "不好"]
    assert "".join(prediction.words) == "我书店不好\x07"
    text = " 我 书 店\u3000不好"
    example = model.example(text)
    [prediction] = model.answer([example]).predictions
    assert prediction.words == ["我", "书", "店", "不好"]
    assert model.task.record(example, prediction)["text"] == text


def test_sentences_in_windows_are_told_and_measured_whole(tiny_tokenizer):
    examples = [WordsExample(["man"] * 20, ["O"] * 20), WordsExample(["man"], ["O"])]
    made = TASKS["tagging"].features(examples, tiny_tokenizer, ["O"], TaskOptions(12))
    assert made.whole == [22, 3]
    assert made.notes == [
        "1 of 2 sentences are longer than 12 tokens and read in windows: "
        f"{len(made.features)} sequences in all"
    ]
    short = TASKS["tagging"].features(examples[1:], tiny_tokenizer, ["O"], TaskOptions(12))
    assert short.notes == []


def test_a_sentence_is_read_in_its_documents_context(tiny_tokenizer):
    sentences = [["the", "man"], ["he", "ran"], ["a", "dog"], ["it", "sat"]]
    examples = [
        WordsExample(words, ["O", "O"], document=number // 3)
        for number, words in enumerate(sentences)
    ]
    task = TASKS["tagging"]

    def tokens(length: int) -> list[str]:
        options = TaskOptions(length, document_context=True)
        made = task.features(examples, tiny_tokenizer, ["O"], options)
        return [
            " ".join(tiny_tokenizer.vocabulary[token] for token in unit.ids)
            for unit in made.features
        ]

    assert tokens(6) == [
        "[CLS] the man he ran [SEP]",
        "[CLS] man he ran a [SEP]",
        "[CLS] he ran a dog [SEP]",
        "[CLS] it sat [SEP]",
    ]
    assert tokens(12)[0] == "[CLS] the man he ran a dog [SEP]"
    assert tokens(4)[1] == "[CLS] he ran [SEP]"
    made = task.features(examples, tiny_tokenizer, ["O"], TaskOptions(6, document_context=True))
    assert [unit.asked for unit in made.features] == [[1, 2], [2, 3], [3, 4], [1, 2]]
    bare = [WordsExample(["a"], ["O"])]
    with pytest.raises(UserError, match="mark no documents"):
        task.features(bare, tiny_tokenizer, ["O"], TaskOptions(6, document_context=True))


def test_features_that_are_made_when_asked_for_train_as_those_made_before(tiny_tokenizer):
    from bertkit.tasks.task import FeatureSet

    task = TASKS["classification"]
    examples = [TextExample(text, None, label) for text, label in sentiment_rows(30)]
    made = task.features(examples, tiny_tokenizer, ["glad", "sad"], TaskOptions(32))

    class Lazy:
        def __len__(self) -> int:
            return len(examples)

        def __getitem__(self, number: int) -> Any:
            one = task.features(
                [examples[number]], tiny_tokenizer, ["glad", "sad"], TaskOptions(32)
            )
            return one.features[0]

    lazy = FeatureSet(Lazy(), made.lengths)  # type: ignore[arg-type]
    for step in range(4):
        eager_batches = TrainingSource(made, task.collate, 8, 3, seed=0).step(step)
        lazy_batches = TrainingSource(lazy, task.collate, 8, 3, seed=0).step(step)
        for one, other in zip(eager_batches, lazy_batches, strict=True):
            assert torch.equal(one.inputs.token_ids, other.inputs.token_ids)
            assert torch.equal(one.targets["labels"], other.targets["labels"])


def test_probabilities_of_an_unlabeled_file_come_without_scores(checkpoint, tmp_path, capsys):
    rows = "sentence\tlabel\n" + "\n".join(
        f"{text}\t{int(label == 'glad')}" for text, label in sentiment_rows(80)
    )
    (tmp_path / "train.tsv").write_text(rows)
    (tmp_path / "dev.tsv").write_text(rows)
    (tmp_path / "test.tsv").write_text("index\tsentence\n3\tgood dog\n7\told house\n")
    run = tmp_path / "run"
    finetune(tuning(checkpoint, run, task="sst-2", data=str(tmp_path), epochs=8))
    result = evaluate(
        EvaluateConfig(
            str(run),
            str(tmp_path),
            split="test",
            submission=str(tmp_path / "glue"),
            precision="fp32",
            quiet=True,
        )
    )
    assert result.metrics == {}
    assert "no labels" in str(result)
    assert (tmp_path / "glue" / "SST-2.tsv").read_text() == "index\tprediction\n3\t1\n7\t0\n"
    with pytest.raises(UserError, match="no column 'label'"):
        evaluate(EvaluateConfig(str(run), str(tmp_path / "test.tsv"), quiet=True))
    (tmp_path / "some.tsv").write_text("sentence\tlabel\ngood dog\t1\ngood man\t\nold house\t1\n")
    result = evaluate(
        EvaluateConfig(
            str(run), str(tmp_path / "some.tsv"), submission=str(tmp_path / "some"), quiet=True
        )
    )
    assert (result.examples, result.metrics["accuracy"]) == (3, 0.5)  # of the two with a label
    assert len((tmp_path / "some" / "SST-2.tsv").read_text().splitlines()) == 4
    assert "2 of 3 examples have a label" in capsys.readouterr().err
    named_as_submitted = tmp_path / "SST-2.tsv"
    named_as_submitted.write_text("index\tsentence\n3\tgood dog\n")
    with pytest.raises(UserError, match=r"is the input too.* with --submission"):
        evaluate(
            EvaluateConfig(
                str(run),
                str(named_as_submitted),
                split="test",
                submission=str(tmp_path),
                quiet=True,
            )
        )
    assert named_as_submitted.read_text().endswith("good dog\n")


def test_submissions_are_written_as_the_makers_ask():
    from bertkit.tasks.classification import ClassPrediction

    def said(*labels: str) -> list[ClassPrediction]:
        return [ClassPrediction(label, 1.0, {}) for label in labels]

    examples = [TextExample("a", id="0"), TextExample("b", id="1")]
    cases = {
        "cola": (said("acceptable", "unacceptable"), "CoLA.tsv", ["1", "0"]),
        "mrpc": (said("equivalent", "not_equivalent"), "MRPC.tsv", ["1", "0"]),
        "qqp": (said("duplicate", "not_duplicate"), "QQP.tsv", ["1", "0"]),
        "mnli": (said("neutral", "entailment"), "MNLI-m.tsv", ["neutral", "entailment"]),
        "qnli": (
            said("entailment", "not_entailment"),
            "QNLI.tsv",
            ["entailment", "not_entailment"],
        ),
        "rte": (said("entailment", "not_entailment"), "RTE.tsv", ["entailment", "not_entailment"]),
        "wnli": (said("entailment", "not_entailment"), "WNLI.tsv", ["1", "0"]),
        "ax": (said("neutral", "contradiction"), "AX.tsv", ["neutral", "contradiction"]),
        "sts-b": (
            [ScorePrediction(5.3), ScorePrediction(2.34567)],
            "STS-B.tsv",
            ["5.000", "2.346"],
        ),
    }
    for name, (predictions, file, values) in cases.items():
        submission = TASKS[name].submission
        assert submission is not None
        lines = ["index\tprediction", *(f"{n}\t{value}" for n, value in enumerate(values))]
        assert submission(examples, predictions, "test") == {file: "\n".join(lines) + "\n"}
    mismatched = TASKS["mnli"].submission
    assert mismatched is not None
    assert list(mismatched(examples, said("neutral", "neutral"), "test-mismatched")) == [
        "MNLI-mm.tsv"
    ]
    tnews = TASKS["tnews"].submission
    assert tnews is not None
    [text] = tnews(examples, said("news_car", "news_story"), "test").values()
    assert [json.loads(line) for line in text.splitlines()] == [
        {"id": 0, "label": "107"},
        {"id": 1, "label": "100"},
    ]


def test_mnli_is_scored_on_both_its_dev_sets(checkpoint, tmp_path):
    header = "index\tsentence1\tsentence2\tgold_label\n"
    rows = [("good", "entailment"), ("bad", "contradiction"), ("the", "neutral")]
    body = "".join(f"{n}\t{word}\ta man\t{label}\n" for n, (word, label) in enumerate(rows * 8))
    for name in ("train", "dev_matched", "dev_mismatched"):
        (tmp_path / f"{name}.tsv").write_text(header + body)
    result = finetune(
        tuning(checkpoint, tmp_path / "run", task="mnli", data=str(tmp_path), epochs=1)
    )
    assert result.metrics["accuracy-mismatched"] == result.metrics["accuracy"]
    model = load_checkpoint(tmp_path / "run").model
    assert model.labels == ["contradiction", "entailment", "neutral"]


def test_the_outputs_of_a_batch_do_not_depend_on_its_company(tiny_tokenizer):
    torch.manual_seed(0)
    task = TASKS["multiple-choice"]
    model = MODELS["multiple-choice"](tiny_config(tiny_tokenizer)).eval()
    examples = [
        ChoiceExample("the man", "", ["ran", "sat to the city"]),
        ChoiceExample("a dog", "", ["ran", "sat", "saw it", "in"]),
    ]
    units = task.features(examples, tiny_tokenizer, None, TaskOptions(16)).features
    with torch.inference_mode():
        together = task.outputs(model, task.collate(units), units)
        alone = [task.outputs(model, task.collate([unit]), [unit])[0] for unit in units]
    for one, other in zip(together, alone, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)
        assert one.sum() == pytest.approx(1)
