"""bertkit convert: every way there and back, the proof, and what it refuses."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import torch

import bertkit
from bertkit.errors import UserError
from bertkit.formats.bundle import Bundle
from bertkit.formats.huggingface import load_checkpoint, save_checkpoint
from bertkit.formats.kinds import find_index
from bertkit.formats.tensorflow import save_tensorflow
from bertkit.journey import convert as conversion
from bertkit.journey.config import ConvertConfig
from bertkit.journey.convert import ConvertResult
from bertkit.model.bert import LABELLED, MODELS
from bertkit.model.config import model_config
from bertkit.text.tokenizer import Tokenizer

LABELS = ["good", "bad"]


def make(
    head: str, tokenizer: Tokenizer, vocab_size: int | None = None, positions: int = 32
) -> Any:
    torch.manual_seed(0)
    config = model_config("2x16x2", vocab_size or len(tokenizer), max_positions=positions)
    model: Any = MODELS[head]
    if head == "bilstm-tagging":
        return model(config, LABELS, features="last", lstm_size=4)
    return model(config, LABELS) if head in LABELLED else model(config)


def directory(folder: Path, model: Any, tokenizer: Tokenizer) -> Path:
    folder.mkdir()
    save_checkpoint(model, folder)
    tokenizer.save(folder, 32)
    return folder


def convert(source: Path, output: Path, **options: Any) -> ConvertResult:
    config = ConvertConfig(str(source), str(output), quiet=True, **options)
    return bertkit.convert(config)


@pytest.mark.parametrize("head", [head for head in MODELS if head != "bilstm-tagging"])
def test_every_head_goes_to_tensorflow_and_back_bit_for_bit(
    head: str, tmp_path: Path, tiny_tokenizer: Tokenizer
) -> None:
    source = directory(tmp_path / "source", make(head, tiny_tokenizer), tiny_tokenizer)
    there = convert(source, tmp_path / "google", to="tensorflow")
    back = convert(tmp_path / "google", tmp_path / "back")
    assert (there.difference, back.difference) == (0.0, 0.0)
    assert (there.head, back.head, back.kind) == (head, head, "tensorflow")
    for file in ("model.safetensors", "config.json", "vocab.txt", "tokenizer.json"):
        assert (tmp_path / "back" / file).read_bytes() == (source / file).read_bytes(), file
    convert(tmp_path / "back", tmp_path / "again", to="tensorflow")
    for file in ("bert_model.ckpt.index", "bert_model.ckpt.data-00000-of-00001"):
        assert (tmp_path / "again" / file).read_bytes() == (tmp_path / "google" / file).read_bytes()


def test_a_head_that_only_bertkit_has_goes_to_a_directory_only(
    tmp_path: Path, tiny_tokenizer: Tokenizer
) -> None:
    source = directory(tmp_path / "source", make("bilstm-tagging", tiny_tokenizer), tiny_tokenizer)
    result = convert(source, tmp_path / "copy")
    assert (result.head, result.difference) == ("bilstm-tagging", 0.0)
    for file in ("model.safetensors", "config.json"):
        assert (tmp_path / "copy" / file).read_bytes() == (source / file).read_bytes(), file
    for to, says in (("tensorflow", "have no names for"), ("onnx", "no form as an ONNX graph")):
        with pytest.raises(UserError, match=says):
            convert(source, tmp_path / to, to=to)
        assert not (tmp_path / to).exists()


@pytest.mark.parametrize("head", [head for head in MODELS if head != "bilstm-tagging"])
def test_every_head_has_a_graph(head: str, tmp_path: Path, tiny_tokenizer: Tokenizer) -> None:
    pytest.importorskip("onnxruntime")
    source = directory(tmp_path / "source", make(head, tiny_tokenizer), tiny_tokenizer)
    result = convert(source, tmp_path / "onnx", to="onnx")
    assert result.head == head and result.difference < 1e-5


def test_googles_release_becomes_a_directory(
    tmp_path: Path, tiny_vocabulary: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """A released archive has a vocabulary that says nothing of its casing."""
    tokenizer = Tokenizer(tiny_vocabulary, lower_case=True)
    source = tmp_path / "uncased_L-2_H-16_A-2"
    save_tensorflow(make("pretraining", tokenizer), source)
    (source / "vocab.txt").write_text("\n".join(tiny_vocabulary) + "\n", encoding="utf-8")
    result = bertkit.convert(ConvertConfig(str(source), str(tmp_path / "out")))
    said = capsys.readouterr().err
    assert "is a TensorFlow checkpoint" in said and "becomes a Hugging Face directory" in said
    assert "taken for uncased: by its name" in said
    assert Tokenizer.load(tmp_path / "out").lower_case
    assert result.vocabulary == len(tiny_vocabulary)
    assert "largest difference between both sides: 0" in str(result)
    convert(source, tmp_path / "cased", casing="cased")
    assert not Tokenizer.load(tmp_path / "cased").lower_case


def test_the_metric_of_the_judges_goes_through(shared_data: Path, tmp_path: Path) -> None:
    result = convert(
        shared_data / "ckpt" / "bleurt-tiny-tf", tmp_path / "out", activation="gelu_tanh"
    )
    assert result.unexpected == ["dense/bias", "dense/kernel"] and result.left_out == 1
    assert load_checkpoint(tmp_path / "out").model.config.activation == "gelu_tanh"


def test_an_optimizer_is_taken_along_on_request(shared_data: Path, tmp_path: Path) -> None:
    source = shared_data / "ckpt" / "bert-tiny-random-tf"
    result = convert(source, tmp_path / "out", to="tensorflow", optimizer=True)
    assert result.left_out == 0
    ours, theirs = (Bundle(find_index(path)).entries for path in (tmp_path / "out", source))
    assert ours.keys() == theirs.keys()


def test_a_head_can_be_left_out(tmp_path: Path, tiny_tokenizer: Tokenizer) -> None:
    source = directory(tmp_path / "source", make("pretraining", tiny_tokenizer), tiny_tokenizer)
    result = convert(source, tmp_path / "out", head="encoder")
    assert result.head == "encoder" and "cls.predictions.bias" in result.unexpected
    assert "not taken" in str(result)


def test_a_vocabulary_can_be_given(tmp_path: Path, tiny_tokenizer: Tokenizer) -> None:
    (tmp_path / "source").mkdir()
    save_checkpoint(make("encoder", tiny_tokenizer), tmp_path / "source")
    assert convert(tmp_path / "source", tmp_path / "without").vocabulary is None
    tiny_tokenizer.save(tmp_path)
    result = convert(tmp_path / "source", tmp_path / "with", vocab=str(tmp_path))
    assert result.vocabulary == len(tiny_tokenizer)
    assert Tokenizer.load(tmp_path / "with").vocabulary == tiny_tokenizer.vocabulary


def test_padded_embeddings_pass_and_another_vocabulary_does_not(
    tmp_path: Path, tiny_tokenizer: Tokenizer
) -> None:
    padded = len(tiny_tokenizer) + -len(tiny_tokenizer) % 8 + 8
    model = make("masked-lm", tiny_tokenizer, padded)
    source = directory(tmp_path / "source", model, tiny_tokenizer)
    convert(source, tmp_path / "out")
    answer = bertkit.fill(
        bertkit.FillConfig(str(tmp_path / "out"), "the [MASK] sat", top=10**6)
    ).answer
    assert answer is not None and len(answer.masks[0]) == len(tiny_tokenizer)
    large = make("masked-lm", tiny_tokenizer, 1000)
    other = directory(tmp_path / "other", large, tiny_tokenizer)
    with pytest.raises(UserError, match=r"vocab\.txt has .* too many to be padding"):
        convert(other, tmp_path / "never")
    with pytest.raises(UserError, match="too many to be padding"):
        bertkit.load(other)
    assert not (tmp_path / "never").exists()


def test_a_result_that_differs_is_not_written(
    tmp_path: Path, tiny_tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = directory(tmp_path / "source", make("encoder", tiny_tokenizer), tiny_tokenizer)

    def other(model: Any, folder: Path) -> None:
        with torch.no_grad():
            model.encoder.blocks[0].expand.bias[3] += 0.5
        save_checkpoint(model, folder)

    monkeypatch.setattr(conversion, "save_checkpoint", other)
    with pytest.raises(UserError, match=r"differs from .* nothing was written"):
        convert(source, tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["source"]


def test_a_sentence_directory_stays_one(tmp_path: Path, tiny_tokenizer: Tokenizer) -> None:
    source = directory(tmp_path / "source", make("encoder", tiny_tokenizer), tiny_tokenizer)
    convert(source, tmp_path / "sentence", pooling="max", normalize=True)
    result = convert(tmp_path / "sentence", tmp_path / "again")
    for file in ("modules.json", "1_Pooling/config.json", "sentence_bert_config.json"):
        one, two = (tmp_path / name / file for name in ("sentence", "again"))
        assert json.loads(one.read_text()) == json.loads(two.read_text())
    assert "modules.json" in result.files


def test_onnx_in_integers_is_scored_and_timed(tmp_path: Path, tiny_tokenizer: Tokenizer) -> None:
    pytest.importorskip("onnxruntime")
    source = directory(tmp_path / "source", make("classification", tiny_tokenizer), tiny_tokenizer)
    rows = [{"text": f"the {word} sat", "label": LABELS[k % 2]} for k, word in enumerate("abcdef")]
    data = tmp_path / "dev.jsonl"
    data.write_text("\n".join(map(json.dumps, rows)) + "\n", encoding="utf-8")
    (tmp_path / "texts.txt").write_text("the cat\nthe dog sat\n" * 20, encoding="utf-8")
    for how in ("dynamic", "static"):
        output = tmp_path / how
        result = convert(
            source,
            output,
            to="onnx",
            quantize=how,
            calibration=str(tmp_path / "texts.txt") if how == "static" else None,
            data=str(data),
            max_examples=5,
        )
        assert result.difference < 1e-4
        found = result.quantized
        assert found["examples"] == 5
        assert found["float32"]["metrics"] == found["pytorch"]["metrics"]
        assert set(found["int8"]) == {"bytes", "seconds", "metrics"}
        assert {"model.onnx", "model_int8.onnx", "config.json", "vocab.txt"} <= set(result.files)
        assert "accuracy" in str(result)
        assert "speed: " in str(result) or "this processor gains nothing" in str(result)
        json.dumps(asdict(result))
        assert bertkit.inspect(bertkit.InspectConfig(str(output))).kind == "ONNX model"


def data_of(head: str, path: Path) -> Path:
    """A few labelled examples of a head's family."""
    if head == "question-answering":
        answers = [{"text": "the cat", "answer_start": 0}]
        asked = [{"id": str(k), "question": "who sat", "answers": answers} for k in range(3)]
        paragraphs = [{"context": "the cat sat on the dog", "qas": asked}]
        path.write_text(json.dumps({"data": [{"title": "a", "paragraphs": paragraphs}]}))
        return path
    rows: list[dict[str, Any]] = []
    for k, word in enumerate("abc"):
        label: Any = {"regression": k / 2, "multi-label": LABELS[: k + 1]}.get(head, k % 2)
        rows.append({"text": f"the {word} sat", "label": label})
        if head == "multiple-choice":
            rows[-1]["choices"] = ["the cat", "a dog"]
    path.write_text("\n".join(map(json.dumps, rows)) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize(
    "head", ["regression", "multi-label", "multiple-choice", "question-answering"]
)
def test_a_graph_of_every_family_is_scored_like_its_model(
    head: str, tmp_path: Path, tiny_tokenizer: Tokenizer
) -> None:
    pytest.importorskip("onnxruntime")
    model = make(head, tiny_tokenizer, positions=96)
    source = directory(tmp_path / "source", model, tiny_tokenizer)
    data = data_of(head, tmp_path / ("dev.json" if head == "question-answering" else "dev.jsonl"))
    output = tmp_path / "onnx"
    found = convert(source, output, to="onnx", quantize="dynamic", data=str(data)).quantized
    assert found["examples"] == 3
    assert found["float32"]["metrics"] == pytest.approx(found["pytorch"]["metrics"], abs=1e-4)


def test_the_plain_word_about_speed_follows_the_clock() -> None:
    found: dict[str, Any] = {
        "how": "dynamic",
        "difference": 0.1,
        "gain": 1.05,
        "float32": {"bytes": 4e6, "seconds": 2.0},
        "int8": {"bytes": 1e6, "seconds": 1.0},
    }
    assert "speed: 2.00 times" in conversion.quantized_lines(found)[-1]
    found["int8"]["seconds"] = 2.5
    assert "this processor gains nothing" in conversion.quantized_lines(found)[-1]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"quantize": "dynamic"}, "--quantize needs --to onnx"),
        ({"quantize": "static", "to": "onnx"}, "--calibration FILE"),
        ({"quantize": "dynamic", "to": "onnx", "calibration": "x"}, "is for --quantize static"),
        ({"to": "onnx", "data": "nowhere"}, "give --quantize too"),
        ({"optimizer": True}, "--optimizer needs --to tensorflow"),
        ({"pooling": "mean", "to": "onnx"}, "--pooling makes a sentence-transformers directory"),
        ({"normalize": True}, "give --pooling too"),
        ({"max_examples": 0}, "score at least one"),
        ({"head": "nonsense"}, "no head 'nonsense'"),
        ({"head": "classification"}, "give its labels"),
        ({"vocab": "/no/such"}, "there is no /no/such"),
    ],
)
def test_options_that_make_no_sense_are_refused(
    options: dict[str, Any], says: str, tmp_path: Path, tiny_tokenizer: Tokenizer
) -> None:
    source = directory(tmp_path / "source", make("encoder", tiny_tokenizer), tiny_tokenizer)
    with pytest.raises(UserError, match=says):
        convert(source, tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()


def test_the_source_is_not_written_over(tmp_path: Path, tiny_tokenizer: Tokenizer) -> None:
    source = directory(tmp_path / "source", make("encoder", tiny_tokenizer), tiny_tokenizer)
    with pytest.raises(UserError, match="is the source too"):
        convert(source, tmp_path / "x" / ".." / "source")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("precious")
    with pytest.raises(UserError, match=r"also holds 'thesis\.txt'"):
        convert(source, tmp_path / "mine")
