"""Predictions come in the input's order, whatever lies beside them in the batch."""

from __future__ import annotations

import io
import json
import random
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

import bertkit
from bertkit import config as configurations
from bertkit.errors import UserError
from bertkit.inference import batching
from bertkit.inference.config import PredictConfig
from bertkit.inference.load import LoadedModel, load, words_of
from bertkit.inference.predict import predict
from bertkit.tasks.config import EvaluateConfig, FinetuneConfig
from bertkit.tasks.evaluate import evaluate
from tests.tasks.tiny import save_tiny

LABELS = ["glad", "sad", "so-so"]
TAGS = ["O", "B-LOC", "I-LOC", "B-PER", "I-PER"]
HARD = [
    "",
    " ",
    "a\u2028b",
    "\x00\x07",
    "naïve Ångström",
    "我是人",
    "😀 x 👩‍👩‍👧",
    "[MASK] [SEP]",
    "x" * 5000,
]


@pytest.fixture(scope="module")
def classifier(tmp_path_factory, tiny_tokenizer) -> Path:
    folder = tmp_path_factory.mktemp("models") / "classifier"
    return save_tiny(folder, tiny_tokenizer, "classification", LABELS)


@pytest.fixture(scope="module")
def tagger(tmp_path_factory, tiny_tokenizer) -> Path:
    folder = tmp_path_factory.mktemp("models") / "tagger"
    return save_tiny(folder, tiny_tokenizer, "tagging", TAGS)


def random_texts(count: int) -> list[str]:
    generator = random.Random(4)
    words = [
        "the",
        "man",
        "went",
        "to",
        "a",
        "big",
        "house",
        "in",
        "new",
        "city",
        ",",
        "unaffable",
        "我",
        "é",
    ]
    return [" ".join(generator.choices(words, k=generator.randrange(1, 30))) for _ in range(count)]


def lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_a_loaded_model_is_a_module_with_its_tokenizer_and_labels(classifier, tiny_tokenizer):
    model = bertkit.load(classifier)
    assert isinstance(model, LoadedModel)
    assert isinstance(model, torch.nn.Module)
    assert model.labels == LABELS
    assert model.head == "classification"
    assert model.tokenizer.vocabulary == tiny_tokenizer.vocabulary
    assert model.sequence_length == 64
    assert not model.training


def test_a_classifier_gives_labels_with_probabilities(classifier):
    model = load(classifier)
    texts = random_texts(20)
    for prediction in model.predict(texts):
        assert list(prediction.probabilities) == LABELS
        assert sum(prediction.probabilities.values()) == pytest.approx(1, abs=1e-5)
        assert prediction.probability == max(prediction.probabilities.values())
        assert prediction.probabilities[prediction.label] == prediction.probability
    pair, single = model.predict([("a man", "a dog"), "a man"])
    assert pair.probabilities != single.probabilities


@pytest.mark.parametrize("budget", [1, 70, 100_000])
def test_a_prediction_does_not_depend_on_its_batch(classifier, tagger, budget):
    texts = random_texts(40) + HARD
    for path in (classifier, tagger):
        model = load(path)
        together = model.predict(texts, batch_tokens=budget)
        for text, found in zip(texts, together, strict=True):
            [alone] = model.predict([text])
            if path == classifier:
                assert alone.probabilities == pytest.approx(found.probabilities, abs=1e-5)
            else:
                assert np.allclose(alone.probabilities, found.probabilities, atol=1e-5)
                assert alone.tags == found.tags


def test_words_of_a_text_are_its_untouched_slices(tiny_tokenizer):
    text = "  The unaffable naïve man-house,\u3000我是 x\x07y"
    example = words_of(text, tiny_tokenizer)
    assert example.words == [
        "The", "unaffable", "naïve", "man", "-", "house", ",", "我", "是", "x\x07y",
    ]  # fmt: skip
    for word, (start, end) in zip(example.words, example.offsets, strict=True):
        assert text[start:end] == word


def test_a_taggers_entities_are_slices_of_the_text(tagger):
    model = load(tagger)
    for text, prediction in zip(HARD, model.predict(HARD), strict=True):
        assert len(prediction.words) == len(prediction.tags)
        for entity in prediction.entities:
            assert text[entity.start : entity.end] == entity.text
            assert entity.label in ("LOC", "PER")
            assert 0 < entity.probability <= 1


def test_a_tagger_takes_words_and_long_sentences(tagger):
    model = load(tagger)
    words = ["the", "man", "went", "to", "a", "big", "house"] * 60
    [prediction] = model.predict([words])
    assert prediction.words == words
    assert min(prediction.probabilities) > 1 / len(TAGS)  # every word was asked


def test_the_length_a_run_was_trained_with_is_the_limit(tmp_path, classifier, tiny_tokenizer):
    run = save_tiny(tmp_path / "run", tiny_tokenizer, "classification", LABELS)
    bertkit.config.save(
        bertkit.FinetuneConfig("x", "classification", "y", sequence_length=16),
        run / "finetune.yaml",
    )
    assert load(run).sequence_length == 16
    assert load(classifier).sequence_length == 64


def test_a_pretrainings_length_is_a_hint_that_another_version_may_lack(tmp_path, tiny_tokenizer):
    run = save_tiny(tmp_path / "run", tiny_tokenizer, "pretraining")
    config = bertkit.PretrainConfig("corpus", "run", sequence_length=32)
    bertkit.config.save(config, run / "pretrain.yaml")
    assert load(run).sequence_length == 32
    with (run / "pretrain.yaml").open("a") as file:
        file.write("option_of_another_version: 1\n")
    assert load(run).sequence_length == 64


@pytest.mark.parametrize("one", ["good", {"question": "a", "context": "b"}])
def test_one_text_alone_is_not_taken_for_its_letters(classifier, one):
    model = load(classifier)
    for call in (model.predict, model.embed, model.fill):
        with pytest.raises(UserError, match=r"takes a list of inputs; put the one in brackets"):
            call(one)
    assert len(model.predict(text for text in ("a man", "the dog"))) == 2


@pytest.mark.parametrize("one", [None, 5, ("a", 5), ("a", "b", "c"), ["a"], b"a"])
def test_what_is_no_text_is_one_line(classifier, tagger, one):
    with pytest.raises(UserError, match=r"classification model takes texts or pairs"):
        load(classifier).predict([one])
    with pytest.raises(UserError, match="vectors are for texts or pairs"):
        load(classifier).embed([one])
    with pytest.raises(UserError, match="tagging model takes texts or lists of words"):
        load(tagger).predict([[1, 2]])


@pytest.mark.parametrize("name", ["in.csv", "run/model.safetensors", "run/log.jsonl"])
def test_an_answer_never_replaces_its_input_or_its_model(tmp_path, tiny_tokenizer, name):
    run = save_tiny(tmp_path / "run", tiny_tokenizer, "classification", LABELS)
    source = tmp_path / "in.csv"
    source.write_text("text,label\na man,sad\n")
    (run / "log.jsonl").write_text("{}\n")
    (tmp_path / "link").symlink_to(tmp_path)  # the same place by another name
    out = str(tmp_path / "link" / name)
    before = (tmp_path / name).read_bytes()
    evaluation = EvaluateConfig(str(run), str(source), "classification", quiet=True)
    calls = [
        lambda: predict(PredictConfig(str(run), str(source), out, quiet=True)),
        lambda: evaluate(replace(evaluation, output=out)),
        lambda: evaluate(replace(evaluation, report=out)),
    ]
    for call in calls:
        with pytest.raises(UserError, match="which would be lost; choose another place"):
            call()
        assert (tmp_path / name).read_bytes() == before
    again = str(run / "answers.jsonl")  # a file of the user's own beside the model may be replaced
    for _ in range(2):
        predict(PredictConfig(str(run), str(source), again, quiet=True))


def test_an_output_that_is_a_folder_is_told_before_the_input_is_read(classifier, tmp_path):
    source = tmp_path / "in.csv"
    source.write_text("neither\n1\n")
    run, out = str(classifier), str(tmp_path)
    evaluation = EvaluateConfig(run, str(source), "cola", quiet=True)
    calls = {
        "output": lambda: predict(PredictConfig(run, str(source), out, quiet=True)),
        " output": lambda: evaluate(replace(evaluation, output=out)),
        "report": lambda: evaluate(replace(evaluation, report=out)),
    }
    for option, call in calls.items():
        message = f"is a folder; name a file in it with --{option.strip()}"
        with pytest.raises(UserError, match=message):
            call()
    with pytest.raises(UserError, match="is a file; name a folder with --submission"):
        evaluate(replace(evaluation, submission=str(source)))


def test_every_line_of_a_text_file_gets_an_answer(classifier, tmp_path):
    source = tmp_path / "in.txt"
    source.write_bytes("\ufeffa man\r\n\n我\u2028x\nlast".encode())
    result = predict(
        PredictConfig(str(classifier), str(source), str(tmp_path / "out.jsonl"), quiet=True)
    )
    assert result.inputs == 4
    found = lines(tmp_path / "out.jsonl")
    assert [one["text"] for one in found] == ["a man", "", "我\u2028x", "last"]
    assert str(result).endswith("4 predictions")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("in.jsonl", '{"text": "a man", "b": "dog"}\n{"text": "", "b": "x"}\n'),
        ("in.csv", 'b,text\ndog,a man\nx,""\n'),
        ("in.tsv", "text\tb\na man\tdog\n\tx\n"),
    ],
)
def test_tables_have_columns_for_the_text_and_the_pair(classifier, tmp_path, name, content):
    source, out = tmp_path / name, tmp_path / "out.jsonl"
    source.write_text(content)
    predict(PredictConfig(str(classifier), str(source), str(out), pair="b", quiet=True))
    model = load(classifier)
    expected = model.predict([("a man", "dog"), ("", "x")])
    for line, prediction in zip(lines(out), expected, strict=True):
        assert line["label"] == prediction.label
        assert line["probability"] == pytest.approx(prediction.probability, abs=1e-5)


def test_standard_input_is_lines_or_jsonl_and_goes_to_standard_output(
    classifier, monkeypatch, capsys
):
    def stdin(content: str) -> None:
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(content.encode())))

    stdin("a man\n\n")
    result = predict(PredictConfig(str(classifier), quiet=True))
    assert [json.loads(line)["text"] for line in capsys.readouterr().out.splitlines()] == [
        "a man",
        "",
    ]
    assert str(result) == ""
    stdin('{"body": "a man"}\n')
    predict(PredictConfig(str(classifier), text="body", quiet=True))
    assert json.loads(capsys.readouterr().out)["text"] == "a man"


def test_standard_input_has_the_trainings_other_column(
    tmp_path, tiny_tokenizer, monkeypatch, capsys
):
    model = save_tiny(tmp_path / "model", tiny_tokenizer, "classification", LABELS)
    tuned = FinetuneConfig(
        checkpoint="c", output="o", task="classification", train="t", text="first", pair="second"
    )
    configurations.save(tuned, model / "finetune.yaml")
    content = b'{"first": "a man", "second": "the city"}\n'
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(content)))
    predict(PredictConfig(str(model), text="first", quiet=True))
    assert json.loads(capsys.readouterr().out)["pair"] == "the city"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda model: model.predict(["a"], long="x"), "long is 'x'; give one of 'windows', 'cut'"),
        (lambda model: model.predict(["a"], window_mean="x"), "window_mean is 'x'"),
        (lambda model: model.predict(["a"], words="x"), "words is 'x'"),
        (lambda model: model.predict(["a"], batch_tokens=-1), "batch_tokens is -1; give 1 or more"),
        (lambda model: model.predict(None), "predict takes a list of inputs, not None"),
        (lambda model: model.embed(["a"], -1), "layers is -1; give a text"),
        (lambda model: model.embed(["a"], pooling="x"), "pooling is 'x'"),
        (lambda model: model.embed(["a"], "weighted-all", weights=[float("nan")] * 3), "finite"),
        (lambda model: load(model.path, precision="fp64"), "precision is 'fp64'"),
    ],
)
def test_an_argument_that_means_nothing_is_one_line(classifier, call, message):
    with pytest.raises(UserError, match=message):
        call(load(classifier))


def test_windows_of_the_input_change_nothing(classifier, tmp_path, monkeypatch):
    source = tmp_path / "in.txt"
    source.write_text("\n".join(random_texts(50)))
    config = PredictConfig(str(classifier), str(source), str(tmp_path / "a.jsonl"), quiet=True)
    predict(config)
    monkeypatch.setattr(batching, "WINDOW_TEXTS", 7)
    config.output = str(tmp_path / "b.jsonl")
    predict(config)
    for one, other in zip(lines(tmp_path / "a.jsonl"), lines(tmp_path / "b.jsonl"), strict=True):
        assert one["text"] == other["text"]
        assert one["probabilities"] == pytest.approx(other["probabilities"], abs=1e-5)


def test_a_window_does_not_divide_what_belongs_together(monkeypatch):
    monkeypatch.setattr(batching, "WINDOW_TEXTS", 3)
    found = batching.in_windows("aabbbbcd", together=lambda one, following: one == following)
    assert ["".join(window) for window in found] == ["aabbbb", "cd"]


@pytest.mark.parametrize("name", ["test.txt", "dev.txt", "a.tsv"])
def test_a_tagger_takes_columns_by_their_tags_and_other_lines_for_text(
    tagger, tmp_path, name, tiny_tokenizer
):
    model = tmp_path / "model"
    save_tiny(model, tiny_tokenizer, "tagging", TAGS)
    source, out = tmp_path / name, tmp_path / "out.jsonl"
    source.write_text("the\tB-PER\nman\tI-PER\n\nhouse\tO\n")
    predict(PredictConfig(str(model), str(source), output=str(out), quiet=True))
    assert [(one["words"], one["gold"]) for one in lines(out)] == [
        (["the", "man"], ["B-PER", "I-PER"]),
        (["house"], ["O"]),
    ]
    if name.endswith(".txt"):
        source.write_text("the man went in\n")
        predict(PredictConfig(str(model), str(source), output=str(out), quiet=True))
        assert [one["text"] for one in lines(out)] == ["the man went in"]
    else:
        source.write_text("id\tsentence\n1\tthe man\n")
        with pytest.raises(UserError, match="no column 'text'"):
            predict(PredictConfig(str(model), str(source), output=str(out), quiet=True))


def test_a_window_ends_at_its_characters_too(monkeypatch):
    monkeypatch.setattr(batching, "WINDOW_CHARACTERS", 10)
    assert list(batching.in_windows(["a" * 30, "b", "c", ("d" * 5, "e" * 5), "f"])) == [
        ["a" * 30],
        ["b", "c", ("ddddd", "eeeee")],
        ["f"],
    ]


def test_long_texts_are_read_in_windows_or_cut_and_that_is_said(
    classifier, tagger, tmp_path, capsys
):
    source, out = tmp_path / "in.txt", tmp_path / "out.jsonl"
    source.write_text("a man\n" + "the man " * 100)
    for path in (classifier, tagger):
        result = predict(PredictConfig(str(path), str(source), str(out)))
        assert (result.windowed, result.truncated) == (1, 0)
        assert "1 of 2 texts are longer than 64 tokens and were read in windows" in (
            capsys.readouterr().err
        )
        # 200 tokens, 62 a window: the second begins after 47, the last ends at the end
        assert [one.get("windows") for one in lines(out)] == [None, 4]
    result = predict(PredictConfig(str(classifier), str(source), str(out), long="cut"))
    assert (result.windowed, result.truncated) == (0, 1)
    assert "1 of 2 texts were cut to 64 tokens" in capsys.readouterr().err
    assert all("windows" not in one for one in lines(out))


def test_a_long_texts_answer_is_the_mean_of_its_windows(classifier):
    model = load(classifier)
    words = random.Random(1).choices(["the", "man", "big", "house", "river", "store"], k=100)
    windows = [words[:62], words[38:]]  # the last window is moved back so that it is full
    by_hand = [model.predict([" ".join(part)])[0].probabilities for part in windows]
    [found] = model.predict([" ".join(words)])
    for label in LABELS:
        mean = (by_hand[0][label] + by_hand[1][label]) / 2
        assert found.probabilities[label] == pytest.approx(mean, abs=1e-5)
    [logits] = model.predict([" ".join(words)], window_mean="logits")
    product = {name: (by_hand[0][name] * by_hand[1][name]) ** 0.5 for name in LABELS}
    for label in LABELS:
        expected = product[label] / sum(product.values())
        assert logits.probabilities[label] == pytest.approx(expected, abs=1e-5)
    [cut] = model.predict([" ".join(words)], long="cut")
    assert cut.probabilities == pytest.approx(by_hand[0], abs=1e-5)


def test_a_long_pair_keeps_its_shorter_text_in_every_window(classifier):
    model = load(classifier)
    long = random.Random(2).choices(["the", "man", "big", "house", "river", "store"], k=90)
    pair = ("a dog", " ".join(long))
    # 61 tokens beside the special ones, two for "a dog": 59 a window
    by_hand = model.predict([("a dog", " ".join(long[:59])), ("a dog", " ".join(long[-59:]))])
    [found] = model.predict([pair])
    for label in LABELS:
        mean = sum(one.probabilities[label] for one in by_hand) / 2
        assert found.probabilities[label] == pytest.approx(mean, abs=1e-5)


def test_evaluation_cuts_as_training_does_unless_windows_are_asked_for(classifier, tmp_path):
    data = tmp_path / "data.tsv"
    data.write_text("text\tlabel\n" + "the man " * 60 + "\tglad\na man\tsad\n")
    config = EvaluateConfig(str(classifier), str(data), precision="fp32", quiet=True)
    result = evaluate(config)
    assert (result.windowed, result.truncated) == (0, 1)
    config.long = "windows"
    result = evaluate(config)
    assert (result.windowed, result.truncated) == (1, 0)
    assert "1 texts were read in windows" in str(result)
    config.output = str(tmp_path / "out.jsonl")
    evaluate(config)
    assert [one.get("windows") for one in lines(tmp_path / "out.jsonl")] == [3, None]
    config.report = str(tmp_path / "." / "out.jsonl")
    with pytest.raises(UserError, match="--output and --report are both"):
        evaluate(config)


def test_text_that_is_cut_already_keeps_its_words(tagger, tmp_path):
    source, out = tmp_path / "in.txt", tmp_path / "out.jsonl"
    source.write_text("U.N. man-made , 我是\n")
    model = load(tagger)
    [prediction] = model.predict(["U.N. man-made , 我是"], words="spaces")
    assert prediction.words == ["U.N.", "man-made", ",", "我是"]
    predict(PredictConfig(str(tagger), str(source), str(out), words="spaces", quiet=True))
    [line] = lines(out)
    assert [one["text"] for one in line["entities"]] == [one.text for one in prediction.entities]


@pytest.mark.parametrize(
    ("name", "content", "changes", "message"),
    [
        ("in.txt", b"ok\n\xff\n", {}, "not UTF-8 at byte 3"),
        ("in.txt", b"ok\n", {"text": "body"}, "plain text and has no columns"),
        ("in.csv", b"a,b\n1,2\n", {}, "no column 'text' .there are: a, b"),
        ("in.jsonl", b"{oops\n", {}, "line 1: not JSON"),
        ("in.txt", b"ok\n", {"sequence_length": 65}, "beyond the model's 64 positions"),
        ("in.txt", b"", {}, "in.txt is empty"),
        ("in.csv", b"text\n", {}, "in.csv is empty"),
        ("in.jsonl", b"\n\n", {}, "in.jsonl is empty"),
        (None, b"", {}, "No such file"),
    ],
)
def test_bad_inputs_are_one_line_and_leave_no_output(
    classifier, tmp_path, name, content, changes, message
):
    source, out = tmp_path / (name or "missing.txt"), tmp_path / "out.jsonl"
    if name:
        source.write_bytes(content)
    with pytest.raises(UserError, match=message):
        predict(PredictConfig(str(classifier), str(source), str(out), quiet=True, **changes))
    assert not out.exists()


def test_a_checkpoint_without_its_heads_weights_gives_no_answers(tmp_path, tiny_tokenizer):
    folder = save_tiny(tmp_path / "torn", tiny_tokenizer, "classification", LABELS)
    tensors = load_file(folder / "model.safetensors")
    kept = {name: value for name, value in tensors.items() if not name.startswith("classifier")}
    save_file(kept, folder / "model.safetensors")
    with pytest.raises(UserError, match="lack the task head"):
        load(folder).predict(["a man"])
    data = tmp_path / "data.tsv"
    data.write_text("text\tlabel\na\tglad\n")
    with pytest.raises(UserError, match="lack the task head"):
        evaluate(EvaluateConfig(str(folder), str(data), quiet=True))


def test_a_model_without_a_task_says_what_to_use(tmp_path, tiny_tokenizer, classifier, tagger):
    pretrained = load(save_tiny(tmp_path / "pretrained", tiny_tokenizer))
    with pytest.raises(UserError, match=r"pre-trained only.*bertkit finetune.*bertkit fill"):
        pretrained.predict(["a man"])
    with pytest.raises(UserError, match="takes texts or pairs"):
        load(classifier).predict([["a", "man", "went"]])
    with pytest.raises(UserError, match="takes texts or lists of words"):
        load(tagger).predict([("a", "man")])
