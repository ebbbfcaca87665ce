"""Question answering learns, decides by a threshold that travels with it, and writes the files
that the official scripts read."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
import torch

import bertkit
from bertkit.errors import UserError
from bertkit.formats.huggingface import load_checkpoint
from bertkit.model.bert import QuestionAnsweringModel
from bertkit.model.config import model_config
from bertkit.tasks.config import EvaluateConfig, FinetuneConfig
from bertkit.tasks.evaluate import evaluate
from bertkit.tasks.finetune import finetune
from bertkit.tasks.options import default_micro_batch_tokens, task_options
from bertkit.tasks.question_answering import (
    QUESTION_ANSWERING,
    SpanObjective,
    calibrate,
    collate,
    outputs,
    submission,
)
from bertkit.tasks.question_windows import Windowing, make_windows
from bertkit.tasks.readers import require_file
from bertkit.tasks.registry import TASKS, get_task
from bertkit.tasks.search import score_of_chance
from bertkit.tasks.spans import decode_answers
from bertkit.tasks.squad import Answer, QuestionExample, read_squad
from bertkit.tasks.squad_metrics import squad2_scores, squad_scores
from bertkit.tasks.task import Columns, TaskOptions
from tests.tasks.official_squad import version1, version2
from tests.tasks.tiny import tuning

QUESTION_TASKS = [name for name, task in TASKS.items() if task.head == "question-answering"]
THINGS = ("milk", "house", "dog", "city", "store")
OTHERS = ("the", "man", "went", "ran", "big", "old", "cat", "and", "in")


def write_squad(path: Path, count: int, seed: int, unanswerable: float = 0.0) -> Path:
    """What is bought? It is the word after "bought", and nothing where that word is absent."""
    generator = random.Random(seed)
    paragraphs = []
    for number in range(count):
        impossible = generator.random() < unanswerable
        words = generator.choices(OTHERS + THINGS, k=generator.randrange(3, 12))
        answers = []
        if not impossible:
            thing = generator.choice(THINGS)
            words.insert(place := generator.randrange(len(words)), f"bought  {thing}")
            start = len(" ".join([*words[:place], "bought  "]))
            answers = [{"text": thing, "answer_start": start}]
        qa = {"id": f"{seed}-{number}", "question": "what was bought ?", "answers": answers}
        if unanswerable:
            qa["is_impossible"] = impossible
        paragraphs.append({"context": " ".join(words), "qas": [qa]})
    path.write_text(json.dumps({"data": [{"title": "t", "paragraphs": paragraphs}]}))
    return path


def config(pretrained: Path, folder: Path, output: Path, **changes: Any) -> FinetuneConfig:
    given = {"task": "question-answering", "data": str(folder), "epochs": 10, "learning_rate": 3e-3}
    given |= {"sequence_length": 30, "question_tokens": 8, "doc_stride": 8}
    return tuning(pretrained, output, **(given | changes))


@pytest.fixture(scope="module")
def answerable_run(checkpoint, tmp_path_factory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("answerable")
    write_squad(folder / "train.json", 400, 1)
    write_squad(folder / "dev.json", 60, 2)
    finetune(config(checkpoint, folder, folder / "run", task="squad-1.1"))
    return folder, folder / "run"


@pytest.fixture(scope="module")
def unanswerable_run(checkpoint, tmp_path_factory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("unanswerable")
    write_squad(folder / "train.json", 400, 1, unanswerable=0.4)
    write_squad(folder / "dev.json", 80, 2, unanswerable=0.4)
    finetune(config(checkpoint, folder, folder / "run"))
    return folder, folder / "run"


def test_it_learns_and_its_score_is_the_official_scripts(answerable_run):
    folder, run = answerable_run
    metrics = json.loads((run / "metrics.json").read_text())["metrics"]
    assert metrics["exact"] > 0.75
    examples = read_squad(folder / "dev.json")
    lines = [json.loads(line) for line in (run / "predictions.jsonl").open()]
    exact, f1 = version1(
        {e.id: [a.text for a in e.answers] for e in examples},
        {line["id"]: line["answer"] for line in lines},
    )
    assert metrics == pytest.approx({"f1": f1 / 100, "exact": exact / 100})
    for example, line in zip(examples, lines, strict=True):
        assert example.context[line["start"] : line["end"]] == line["answer"] != ""
        assert "null_odds" not in line
    assert load_checkpoint(run).model.null_threshold is None
    again = evaluate(EvaluateConfig(str(run), str(folder), precision="fp32", quiet=True))
    assert again.metrics == pytest.approx(metrics)


def test_the_null_threshold_is_tuned_on_dev_and_stored_and_used(unanswerable_run):
    folder, run = unanswerable_run
    metrics = json.loads((run / "metrics.json").read_text())["metrics"]
    assert metrics["HasAns_f1"] > 0.6 and metrics["NoAns_f1"] > 0.6
    assert metrics["f1"] == pytest.approx(metrics["best_f1"])
    threshold = json.loads((run / "config.json").read_text())["null_threshold"]
    assert load_checkpoint(run).model.null_threshold == threshold
    # another file is decided by the stored threshold, not by one tuned on it
    write_squad(folder / "other.json", 50, 3, unanswerable=0.4)
    result = evaluate(
        EvaluateConfig(
            str(run),
            str(folder / "other.json"),
            output=str(folder / "out.jsonl"),
            precision="fp32",
            quiet=True,
        )
    )
    lines = [json.loads(line) for line in (folder / "out.jsonl").open()]
    assert {line["answer"] == "" for line in lines} == {True, False}
    for line in lines:
        assert (line["answer"] == "") == (line["null_odds"] > threshold)
        assert (line["start"] == line["end"] == 0) == (line["answer"] == "")
    official = version2(
        {e.id: [a.text for a in e.answers] for e in read_squad(folder / "other.json")},
        {line["id"]: line["answer"] for line in lines},
        {line["id"]: line["null_odds"] for line in lines},
        cut=float("inf"),
    )
    ours = {n: v if n.endswith("thresh") else 100 * v for n, v in result.metrics.items()}
    assert ours == pytest.approx(official)
    assert [row["label"] for row in result.table] == ["HasAns", "NoAns"]
    assert "HasAns" in str(result) and "exact" in str(result)


def test_python_and_the_command_line_answer_alike(unanswerable_run, capsys):
    from bertkit.inference.config import PredictConfig
    from bertkit.inference.predict import predict

    folder, run = unanswerable_run
    examples = read_squad(folder / "dev.json")
    model = bertkit.load(run)
    inputs = [{"question": e.question, "context": e.context} for e in examples]
    predictions = model.predict(inputs)
    pairs = model.predict([(e.question, e.context) for e in examples])
    assert [p.answer for p in predictions] == [p.answer for p in pairs]
    for example, prediction in zip(examples, predictions, strict=True):
        chosen = prediction.chosen
        assert example.context[chosen.start : chosen.end] == prediction.answer
        assert 0 < prediction.score <= 1
    rows = folder / "rows.jsonl"
    rows.write_text("".join(json.dumps(one) + "\n" for one in inputs))
    for source in (folder / "dev.json", rows):
        output = folder / "answers.jsonl"
        predict(PredictConfig(str(run), str(source), str(output), precision="fp32", quiet=True))
        lines = [json.loads(line) for line in output.open()]
        assert [line["answer"] for line in lines] == [p.answer for p in predictions]
        assert "gold" not in lines[0]
    assert [line["id"] for line in lines] == [str(n) for n in range(len(lines))]


@pytest.mark.parametrize(
    ("one", "message"),
    [
        ("who?", "not a str"),
        ({"question": "who?"}, "not a dict with the keys question"),
        ({"question": "who?", "context": None}, "not a dict with the keys"),
        (("a", 3), "not a tuple"),
    ],
)
def test_an_input_of_another_kind_is_one_line_for_the_user(answerable_run, one, message):
    with pytest.raises(UserError, match=message):
        bertkit.load(answerable_run[1]).predict([one])


def test_a_file_of_another_kind_is_one_line_for_the_user(answerable_run, tmp_path):
    from bertkit.inference.questions import read_questions

    (tmp_path / "a.txt").write_text("who?")
    with pytest.raises(UserError, match=r"a\.txt is not a file of questions"):
        list(read_questions(str(tmp_path / "a.txt")))
    (tmp_path / "a.csv").write_text("question,text\nwho?,me\n")
    with pytest.raises(UserError, match=r"no column 'context' .*name the right one with --pair"):
        list(read_questions(str(tmp_path / "a.csv")))
    assert list(read_questions(str(tmp_path / "a.csv"), context="text")) == [("who?", "me", "0")]
    (tmp_path / "a.json").write_text('[{"q": "who?", "context": "me"}]')
    named = list(read_questions(str(tmp_path / "a.json"), question="q"))
    assert named == [("who?", "me", "0")]
    (tmp_path / "a.json").write_text('{"data": []}')  # SQuAD's form has no columns
    with pytest.raises(UserError, match=r"no column 'q' .there are: data"):
        list(read_questions(str(tmp_path / "a.json"), question="q"))


def test_the_official_files_are_whole(tiny_tokenizer):
    examples = [
        QuestionExample("a", "who", "the man ran"),
        QuestionExample("b", "who", ""),
        QuestionExample("c", "who", "我 是 人"),
    ]
    windows = make_windows(examples, tiny_tokenizer, Windowing(), False).windows
    generator = torch.Generator().manual_seed(0)
    scores = [torch.randn(w.tokens, 2, generator=generator).numpy() for w in windows]
    always = submission(examples, decode_answers(examples, windows, scores), "dev")
    assert set(always) == {"predictions.json", "nbest_predictions.json"}
    predictions = decode_answers(examples, windows, scores, threshold=0.0)
    files = {
        name: json.loads(text) for name, text in submission(examples, predictions, "d").items()
    }
    assert set(files) == {"predictions.json", "nbest_predictions.json", "null_odds.json"}
    assert files["predictions.json"] == {
        e.id: p.answer for e, p in zip(examples, predictions, strict=True)
    }
    assert files["null_odds.json"]["a"] == predictions[0].null_odds
    for name, candidates in files["nbest_predictions.json"].items():
        assert sum(one["probability"] for one in candidates) == pytest.approx(1), name
        assert set(candidates[0]) == {"text", "probability", "start_logit", "end_logit"}
    assert files["predictions.json"]["b"] == ""


def test_the_loss_is_the_mean_of_start_and_end_and_cls_where_there_is_no_answer(
    checkpoint, tiny_tokenizer, tmp_path
):
    path = write_squad(tmp_path / "a.json", 12, 0, unanswerable=0.5)
    made = make_windows(read_squad(path), tiny_tokenizer, Windowing(40, 8, None, 8), True)
    model = load_checkpoint(checkpoint, head="question-answering").model.eval()
    batch = collate(made.windows)
    objective = SpanObjective()
    sums = objective(model, batch)
    count = objective.counts(batch)["span"]
    assert count == 2 * len(made.windows)
    total = 0.0
    for window, found in zip(made.windows, outputs(model, batch, made.windows), strict=True):
        scores = torch.from_numpy(found.scores)
        start, end = window.target
        terms = torch.log_softmax(scores, dim=0)
        total -= float(terms[start, 0] + terms[end, 1]) / 2
    assert float(sums.losses["span"].detach()) / count == pytest.approx(
        total / len(made.windows), rel=1e-4
    )


def test_without_unanswerable_dev_questions_the_model_always_answers(checkpoint, tiny_tokenizer):
    model = load_checkpoint(checkpoint, head="question-answering").model
    model.null_threshold = -100.0
    calibrate(model, [], [])
    assert model.null_threshold is None


def test_lost_answers_and_windows_are_said_before_training(tiny_tokenizer, tmp_path):
    path = write_squad(tmp_path / "a.json", 5, 0)
    document = json.loads(path.read_text())
    document["data"][0]["paragraphs"][0]["qas"][0]["answers"][0]["answer_start"] += 1
    path.write_text(json.dumps(document))
    examples = read_squad(path)
    options = TaskOptions(40, doc_stride=8, question_tokens=4)
    made = QUESTION_ANSWERING.features(examples, tiny_tokenizer, [], options)
    assert made.notes[0].startswith("1 questions are not trained on")
    assert made.notes[-1] == (
        f"4 questions make {len(made.features)} windows of at most 40 tokens, 8 from start to "
        "start (--doc-stride); 0 take more than one"
    )
    assert list(made.lengths) == [len(window.ids) for window in made.features]
    scored = QUESTION_ANSWERING.features(examples, tiny_tokenizer, None, options)
    assert {window.example for window in scored.features} == set(range(5))
    overlap = TaskOptions(30, doc_overlap=8, question_tokens=4)
    notes = QUESTION_ANSWERING.features(examples, tiny_tokenizer, [], overlap).notes
    assert "8 of them shared by neighbours (--doc-overlap)" in notes[-1]


def test_defaults_are_the_reference_releases(checkpoint, tmp_path):
    options = task_options(FinetuneConfig(str(checkpoint), "out", task="squad-1.1"))
    assert (options.sequence_length, options.question_tokens) == (384, 64)
    assert (options.answer_tokens, options.n_best) == (30, 20)
    from bertkit.tasks.question_answering import windowing

    assert windowing(options) == Windowing(384, step=128, overlap=None, question_tokens=64)
    assert task_options(FinetuneConfig(str(checkpoint), "out", task="sst-2")).sequence_length == 128


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"doc_overlap": 4}, "--doc-stride .* or --doc-overlap"),
        ({"sequence_length": 11}, "use --sequence-length 12 or more"),
        ({"answer_tokens": 0}, "answer tokens is 0"),
        ({"n_best": 0}, "best answers is 0"),
        ({"text": "q"}, "read from context, question and answers"),
        ({"task": "squad-1.1"}, "unanswerable questions .* use --task squad-2.0"),
    ],
)
def test_options_that_cannot_work_are_one_line_for_the_user(checkpoint, tmp_path, changes, message):
    write_squad(tmp_path / "train.json", 20, 1, unanswerable=0.5)
    with pytest.raises(UserError, match=message):
        finetune(config(checkpoint, tmp_path, tmp_path / "run", **changes))


def test_answers_that_all_stand_elsewhere_are_counted_and_named(checkpoint, tmp_path):
    document = json.loads(write_squad(tmp_path / "train.json", 5, 1).read_text())
    for paragraph in document["data"][0]["paragraphs"]:
        for qa in paragraph["qas"]:
            qa["answers"] = [{"text": "zzz", "answer_start": 1}]
    (tmp_path / "train.json").write_text(json.dumps(document))
    with pytest.raises(UserError, match=r"4 questions .*'zzz' is not at 1"):
        finetune(config(checkpoint, tmp_path, tmp_path / "run", dev_share=0.2))


def test_questions_whose_answers_are_unknown_are_for_predict_only(checkpoint, tmp_path):
    document = json.loads(write_squad(tmp_path / "train.json", 5, 1).read_text())
    del document["data"][0]["paragraphs"][2]["qas"][0]["answers"]
    (tmp_path / "train.json").write_text(json.dumps(document))
    task = get_task("squad-1.1")
    with pytest.raises(UserError, match=r"1 questions without 'answers' \(first: 1-2\)"):
        task.read(tmp_path / "train.json", Columns())
    assert len(task.read(tmp_path / "train.json", Columns(unlabeled=True))) == 5


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("squad-1.1", "train-v1.1.json"),
        ("squad-2.0", "train-v2.0.json"),
        ("cmrc-2018", "cmrc2018_train.json"),
        ("drcd", "DRCD_training.json"),
        ("question-answering", "train.json"),
    ],
)
def test_each_data_set_is_found_under_its_makers_file_names(name, file, tmp_path):
    write_squad(tmp_path / file, 3, 1)
    task = get_task(name)
    assert require_file(task, tmp_path, "train").name == file
    assert len(task.read(tmp_path / file, Columns())) == 3
    assert name in QUESTION_TASKS


def test_chinese_data_sets_are_scored_by_characters(tmp_path, tiny_tokenizer):
    context = "他 是 书店 的 人"
    answers = [{"text": "书店", "answer_start": 4}]
    qa = {"id": "DEV_0_QUERY_0", "question": "他 是", "answers": answers}
    document = {"data": [{"id": "DEV_0", "paragraphs": [{"context": context, "qas": [qa]}]}]}
    (tmp_path / "cmrc2018_dev.json").write_text(json.dumps(document, ensure_ascii=False))
    task = get_task("cmrc-2018")
    examples = task.read(tmp_path / "cmrc2018_dev.json", Columns())
    windows = make_windows(examples, tiny_tokenizer, Windowing(), False).windows
    scores = torch.zeros(windows[0].tokens, 2).numpy()
    place = windows[0].offset + 2
    scores[place, 0] = scores[place, 1] = 9.0
    predictions = decode_answers(examples, windows, [scores])
    assert predictions[0].answer == "书"
    metrics = task.metric(examples, predictions).metrics
    assert metrics == pytest.approx({"f1": 2 / 3, "exact": 0.0, "average": 1 / 3})


def test_the_official_numbers_hold_on_the_real_dev_set_of_squad_1(shared_data):
    examples = read_squad(shared_data / "squad" / "dev-v1.1.json")[::4]
    generator = random.Random(0)
    golds = {e.id: [a.text for a in e.answers] for e in examples}
    predictions = {}
    for example in examples:
        words = example.context.split()
        first = generator.randrange(len(words))
        guess = " ".join(words[first : first + 3])
        right = golds[example.id][-1]
        predictions[example.id] = generator.choice([guess, right, f"The {right}.", right[:-2]])
    ours = squad_scores(golds, predictions)
    assert (100 * ours["exact"], 100 * ours["f1"]) == pytest.approx(
        version1(golds, predictions), abs=1e-12
    )


def test_the_official_numbers_hold_on_the_real_half_of_squad_2(shared_data):
    examples = read_squad(shared_data / "squad" / "dev-v2.0-half.json")
    generator = random.Random(0)
    golds = {e.id: [a.text for a in e.answers] for e in examples}
    predictions, odds = {}, {}
    for example in examples:
        words = example.context.split()
        first = generator.randrange(len(words))
        guess = " ".join(words[first : first + 3])
        right = golds[example.id][-1] if example.answers else ""
        predictions[example.id] = generator.choice([guess, right, right.lower(), ""])
        odds[example.id] = generator.gauss(0, 1)
    ours = squad2_scores(golds, predictions, odds)
    official = version2(golds, predictions, odds, cut=float("inf"))
    assert {n: v if n.endswith("thresh") else 100 * v for n, v in ours.items()} == pytest.approx(
        official, abs=1e-9
    )


def test_chance_is_the_share_of_questions_that_have_no_answer(tmp_path):
    some = read_squad(write_squad(tmp_path / "some.json", 40, 0, unanswerable=0.4))
    none = sum(not example.answers for example in some)
    assert 0 < none < len(some)
    task = get_task("squad-2.0")
    assert score_of_chance(task, some, []) == none / len(some)
    [answers] = task.blind(some, [])
    metrics = task.metric(some, answers).metrics
    assert metrics["exact"] == metrics["f1"] == none / len(some)
    assert metrics["NoAns_f1"] == 1.0 and metrics["HasAns_f1"] == 0.0
    assert score_of_chance(get_task("question-answering"), some, []) == none / len(some)
    every = read_squad(write_squad(tmp_path / "every.json", 5, 0))
    for name in QUESTION_TASKS:
        assert score_of_chance(get_task(name), every, []) == 0.0


def test_a_step_is_computed_by_a_budget_of_tokens_and_loses_no_window(tiny_tokenizer, tmp_path):
    from bertkit.tasks.batches import TrainingSource

    path = write_squad(tmp_path / "a.json", 40, 0)
    options = TaskOptions(30, doc_stride=8, question_tokens=8)
    made = QUESTION_ANSWERING.features(read_squad(path), tiny_tokenizer, [], options)
    whole = TrainingSource(made, collate, 32, 32, 0)
    cut = TrainingSource(made, collate, 32, 32, 0, micro_batch_tokens=100)
    for step in range(3):
        [one] = whole.step(step)
        parts = cut.step(step)
        assert len(parts) > 1
        assert all(part.inputs.tokens <= 100 for part in parts)
        assert sum(part.inputs.tokens for part in parts) == one.inputs.tokens
        assert sum(part.inputs.sequences for part in parts) == 32


def test_smaller_models_compute_more_tokens_at_once():
    def tokens(size: str) -> int | None:
        model = QuestionAnsweringModel(model_config(size, 10))
        return default_micro_batch_tokens(QUESTION_ANSWERING, model)

    assert (tokens("6x384x12"), tokens("base"), tokens("1x64x2")) == (16384, 4096, 589824)


def test_ones_own_squad_file_needs_no_task_named(checkpoint, tmp_path):
    from bertkit.tasks.own_data import resolve

    write_squad(tmp_path / "train.json", 5, 1)
    rows = [{"context": "a", "question": "b", "answers": {"text": ["a"], "answer_start": [0]}}]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for data in (tmp_path / "train.json", tmp_path / "rows.jsonl"):
        found = resolve(FinetuneConfig(str(checkpoint), "out", data=str(data), quiet=True))
        assert (found.task, found.train) == ("question-answering", str(data))
        assert QUESTION_ANSWERING.read(data, Columns(found.text, found.pair, found.label))


def test_that_chinese_answers_of_ones_own_are_scored_by_words_is_said(tiny_tokenizer):
    examples = [QuestionExample("a", "我是谁？", "我是人。", (Answer("人", 2),))]
    for name, said in (("question-answering", True), ("cmrc-2018", False), ("squad-1.1", False)):
        made = TASKS[name].features(examples, tiny_tokenizer, [], TaskOptions(96))
        assert any("--task cmrc-2018 scores characters" in note for note in made.notes) == said
    english = [QuestionExample("a", "who?", "the man", (Answer("man", 4),))]
    made = TASKS["question-answering"].features(english, tiny_tokenizer, [], TaskOptions(96))
    assert not any("Chinese" in note for note in made.notes)
