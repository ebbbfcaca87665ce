"""Google's checkpoints: the judges' numbers, there and back bit for bit, and wrong ones refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from bertkit.errors import UserError
from bertkit.formats.assembly import named_tensors
from bertkit.formats.bundle import Bundle, write_bundle
from bertkit.formats.huggingface import load_checkpoint, save_checkpoint
from bertkit.formats.kinds import find_index
from bertkit.formats.tensorflow import (
    GOOGLE_NAMES,
    NAMING,
    google_names,
    load_tensorflow,
    save_tensorflow,
)
from bertkit.model.batch import FlatBatch
from bertkit.model.bert import MODELS, ClassificationModel, PretrainingModel
from bertkit.text.tokenizer import Tokenizer
from tests.formats.test_huggingface import CONFIG, LABELS, make_model
from tests.model.peers import random_batch

FILES = [
    "bert_config.json",
    "bert_model.ckpt.data-00000-of-00001",
    "bert_model.ckpt.index",
    "checkpoint",
]
NAMED = [head for head in MODELS if head != "bilstm-tagging"]
"""The heads that Google's files have names for."""
APPLE = "An apple a day keeps the doctor away."


@pytest.fixture
def pretrained(tmp_path: Path) -> Path:
    save_tensorflow(make_model("pretraining"), tmp_path / "pretrained")
    return tmp_path / "pretrained"


def all_tensors(directory: Path) -> dict[str, Tensor]:
    bundle = Bundle(find_index(directory))
    return {name: bundle.read(name) for name in bundle.entries}


def change_tensors(directory: Path, change: Any) -> None:
    tensors = change(all_tensors(directory))
    write_bundle(directory / "bert_model.ckpt", tensors)


def change_config(directory: Path, **changes: Any) -> None:
    path = directory / "bert_config.json"
    values = json.loads(path.read_text(encoding="utf-8")) | changes
    values = {key: value for key, value in values.items() if value is not None}
    path.write_text(json.dumps(values), encoding="utf-8")


def same(one: dict[str, Tensor], two: dict[str, Tensor]) -> bool:
    return one.keys() == two.keys() and all(torch.equal(one[name], two[name]) for name in one)


@pytest.mark.parametrize(
    ("candidate", "score"),
    [(APPLE, 0.910811), ("An apple a day keeps doctors away.", 0.771989)],
)
def test_a_released_metric_scores_as_published(
    candidate: str, score: float, shared_data: Path
) -> None:
    folder = shared_data / "ckpt" / "bleurt-tiny-tf"
    loaded = load_tensorflow(folder, activation="gelu_tanh")
    assert loaded.missing == []
    assert loaded.unexpected == ["dense/bias", "dense/kernel"]
    assert loaded.left_out == ["global_step"]
    model: Any = loaded.model.eval()
    assert model.head == "encoder"
    encoding = Tokenizer.load(folder / "vocab.txt", lower_case=True).encode(APPLE, candidate)
    batch = FlatBatch.from_sequences([encoding.ids], [encoding.segment_ids])
    bundle = Bundle(find_index(folder))
    with torch.no_grad():
        pooled = model.encoder.pooled(model(batch), batch)
        result = pooled @ bundle.read("dense/kernel") + bundle.read("dense/bias")
    print(f"{candidate!r}: {result.item():.6f}, published {score}")
    assert result.item() == pytest.approx(score, abs=1e-4)


def test_a_checkpoint_of_a_training_run_loads_whole(shared_data: Path) -> None:
    loaded = load_tensorflow(shared_data / "ckpt" / "bert-tiny-random-tf")
    assert isinstance(loaded.model, PretrainingModel)
    assert (loaded.missing, loaded.unexpected) == ([], [])
    assert loaded.model.config.layers == 2 and loaded.model.config.vocab_size == 15
    weights = sum(len(google_names(own)) for own in named_own(loaded.model))
    assert len(loaded.left_out) == 2 * weights + 1
    assert loaded.optimizer == {}


def named_own(model: Any) -> list[str]:
    return [own for own in model.state_dict() if own != "masked_lm.embeddings"]


def test_a_training_run_goes_through_us_byte_for_byte(shared_data: Path, tmp_path: Path) -> None:
    folder = shared_data / "ckpt" / "bert-tiny-random-tf"
    loaded = load_tensorflow(folder, optimizer=True)
    assert loaded.left_out == []
    assert loaded.optimizer["global_step"].dtype == torch.int64
    save_tensorflow(loaded.model, tmp_path, optimizer=loaded.optimizer)
    for file in FILES[1:3]:
        assert (tmp_path / file).read_bytes() == (folder / file).read_bytes()
    save_tensorflow(loaded.model, tmp_path)
    assert "global_step" not in all_tensors(tmp_path)


@pytest.mark.parametrize("head", NAMED)
def test_a_saved_model_comes_back_as_it_was(head: str, tmp_path: Path) -> None:
    model = make_model(head)
    save_tensorflow(model, tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == FILES
    for path in (tmp_path, tmp_path / "bert_model.ckpt", tmp_path / FILES[2]):
        loaded = load_tensorflow(path)
        assert (loaded.missing, loaded.unexpected, loaded.left_out) == ([], [], [])
        assert type(loaded.model) is type(model)
        assert loaded.model.config == model.config
        assert loaded.model.labels == model.labels
        assert same(model.state_dict(), loaded.model.state_dict())


@pytest.mark.parametrize("head", NAMED)
def test_both_formats_hold_the_same_model(head: str, tmp_path: Path) -> None:
    """TensorFlow to Hugging Face to TensorFlow, and the other way, without a bit of difference."""
    save_tensorflow(make_model(head), tmp_path / "google")
    (tmp_path / "face").mkdir()
    save_checkpoint(load_tensorflow(tmp_path / "google").model, tmp_path / "face")
    save_tensorflow(load_checkpoint(tmp_path / "face").model, tmp_path / "again")
    for file in FILES:
        assert (tmp_path / "again" / file).read_bytes() == (tmp_path / "google" / file).read_bytes()
    (tmp_path / "back").mkdir()
    save_checkpoint(load_tensorflow(tmp_path / "again").model, tmp_path / "back")
    for file in ("config.json", "model.safetensors"):
        assert (tmp_path / "back" / file).read_bytes() == (tmp_path / "face" / file).read_bytes()


def test_a_head_without_names_is_refused_and_starts_fresh(pretrained: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no names for the weights of a bilstm-tagging head"):
        save_tensorflow(make_model("bilstm-tagging"), tmp_path / "google")
    assert not (tmp_path / "google").exists()
    options = {"features": "last", "lstm_size": 4}
    loaded = load_tensorflow(pretrained, "bilstm-tagging", ["a", "b"], options)
    assert all(name.startswith("tagger.") for name in loaded.missing)
    assert all(torch.isfinite(value).all() for value in loaded.model.state_dict().values())


def test_answers_of_run_squad_are_found_by_their_variables(tmp_path: Path) -> None:
    """Google's configuration names no head, and its model has a pooler."""
    model = make_model("question-answering")
    save_tensorflow(model, tmp_path)
    path = tmp_path / "bert_config.json"
    values = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({k: v for k, v in values.items() if k != "architectures"}))
    pooler = {f"bert/pooler/dense/{kind}": torch.zeros(2, 2) for kind in ("kernel", "bias")}
    change_tensors(tmp_path, lambda tensors: tensors | pooler)
    assert all_tensors(tmp_path)["cls/squad/output_weights"].shape == (2, 32)
    loaded = load_tensorflow(tmp_path)
    assert loaded.model.head == "question-answering" and loaded.missing == []
    assert same(model.state_dict(), loaded.model.state_dict())
    assert loaded.unexpected == sorted(pooler)


def test_the_table_names_every_parameter_once() -> None:
    owns = {own for head in NAMED for own in named_own(make_model(head))}
    generic = {own.replace(".0.", ".#.").replace(".1.", ".#.") for own in owns}
    assert generic == GOOGLE_NAMES.keys()
    names = [name for names in GOOGLE_NAMES.values() for name in names]
    assert len(names) == len(set(names))
    assert google_names("encoder.blocks.11.qkv.bias") == (
        "bert/encoder/layer_11/attention/self/query/bias",
        "bert/encoder/layer_11/attention/self/key/bias",
        "bert/encoder/layer_11/attention/self/value/bias",
    )


def test_names_and_layouts_are_googles(shared_data: Path) -> None:
    model = load_tensorflow(shared_data / "ckpt" / "bert-tiny-random-tf").model
    mine = named_tensors(model, NAMING)
    theirs = Bundle(find_index(shared_data / "ckpt" / "bert-tiny-random-tf")).entries
    assert all(tuple(mine[name].shape) == theirs[name].shape for name in mine)
    assert theirs["bert/encoder/layer_0/intermediate/dense/kernel"].shape == (4, 16)


def test_transformers_computes_the_same_from_googles_file(tmp_path: Path) -> None:
    """Through a Hugging Face directory, as transformers no longer reads TensorFlow's files."""
    import transformers

    save_tensorflow(make_model("pretraining"), tmp_path / "google")
    model: Any = load_tensorflow(tmp_path / "google").model.eval()
    (tmp_path / "face").mkdir()
    save_checkpoint(model, tmp_path / "face")
    peer = transformers.BertForPreTraining.from_pretrained(
        tmp_path / "face", attn_implementation="eager"
    ).eval()
    batch = random_batch([9, 30, 4], CONFIG.vocab_size)
    with torch.no_grad():
        theirs = peer(**batch.padded, output_hidden_states=True)
        hidden = model.encoder(batch.flat)
    torch.testing.assert_close(hidden, batch.at_tokens(theirs.hidden_states[-1]))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_other_precisions_become_float32(dtype: torch.dtype, pretrained: Path) -> None:
    before = load_tensorflow(pretrained).model.state_dict()
    change_tensors(pretrained, lambda tensors: {n: t.to(dtype) for n, t in tensors.items()})
    after = load_tensorflow(pretrained).model.state_dict()
    assert {tensor.dtype for tensor in after.values()} == {torch.float32}
    assert all(torch.equal(after[name], before[name].to(dtype).float()) for name in before)


def test_a_saved_model_s_variables_are_read(pretrained: Path, tmp_path: Path) -> None:
    before = load_tensorflow(pretrained).model.state_dict()
    (tmp_path / "saved" / "variables").mkdir(parents=True)
    (tmp_path / "saved" / "saved_model.pb").write_bytes(b"")
    write_bundle(tmp_path / "saved" / "variables" / "variables", all_tensors(pretrained))
    shutil.copy(pretrained / "bert_config.json", tmp_path / "saved")
    for path in (tmp_path / "saved", tmp_path / "saved" / "variables"):
        assert same(before, load_tensorflow(path).model.state_dict())
    (tmp_path / "saved" / "assets").mkdir()
    (tmp_path / "saved" / "bert_config.json").rename(tmp_path / "saved/assets/bert_config.json")
    assert same(before, load_tensorflow(tmp_path / "saved").model.state_dict())


def test_another_head_starts_fresh_on_the_same_encoder(pretrained: Path) -> None:
    encoder = load_tensorflow(pretrained).model.encoder.state_dict()  # type: ignore[union-attr]
    loaded = load_tensorflow(pretrained, head="classification", labels=LABELS)
    assert isinstance(loaded.model, ClassificationModel)
    assert loaded.missing == ["output_weights", "output_bias"]
    assert len(loaded.unexpected) == 7
    assert all(name.startswith("cls/") for name in loaded.unexpected)
    assert same(encoder, loaded.model.encoder.state_dict())
    weight = loaded.model.classifier.dense.weight.detach()
    assert 0 < weight.abs().max() <= 2 * CONFIG.initializer_range


def test_googles_classifiers_have_numbered_labels(tmp_path: Path) -> None:
    model = make_model("classification")
    save_tensorflow(model, tmp_path)
    change_config(tmp_path, id2label=None, label2id=None, architectures=None, activation=None)
    loaded = load_tensorflow(tmp_path)
    assert isinstance(loaded.model, ClassificationModel)
    assert loaded.model.labels == ["LABEL_0", "LABEL_1", "LABEL_2"]
    assert loaded.model.config.activation == "gelu", "the released weights were trained with erf"
    assert same(model.state_dict(), loaded.model.state_dict())
    assert load_tensorflow(tmp_path, labels=LABELS).missing == []


def test_every_stranger_is_named(pretrained: Path) -> None:
    strangers = {
        "bert/encoder/layer_2/output/dense/bias": torch.zeros(32),
        "cls/squad/output_weights": torch.zeros(2, 32),
        "bert/pooler/dense/bias/adam_m": torch.zeros(32),
        "global_step": torch.tensor(5),
        "beta1_power": torch.tensor(0.9),
    }
    change_tensors(pretrained, lambda tensors: tensors | strangers)
    loaded = load_tensorflow(pretrained)
    assert loaded.unexpected == list(strangers)[:2]
    assert sorted(loaded.left_out) == sorted(list(strangers)[2:])
    taken = load_tensorflow(pretrained, optimizer=True)
    assert same(taken.optimizer, {name: strangers[name] for name in taken.optimizer})


def test_a_longer_vocabulary_gets_embeddings(pretrained: Path) -> None:
    old: Any = load_tensorflow(pretrained).model
    new: Any = load_tensorflow(pretrained, vocab_size=130).model
    table = new.encoder.embeddings.token
    assert table.shape == (130, 32) and table[120:].any()
    assert torch.equal(table[:120], old.encoder.embeddings.token)
    assert torch.equal(new.masked_lm.bias[:120], old.masked_lm.bias)


def test_files_of_other_names_stay(tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_text("[PAD]\n")
    save_tensorflow(make_model("encoder"), tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*FILES, "vocab.txt"])


def test_a_name_that_is_no_slot_is_not_written(tmp_path: Path) -> None:
    slots = {"bert/pooler/dense/bias": torch.zeros(1)}
    with pytest.raises(UserError, match="'bert/pooler/dense/bias' is no name of an optimizer's"):
        save_tensorflow(make_model("encoder"), tmp_path, optimizer=slots)
    assert not list(tmp_path.iterdir())


def test_googles_own_code_reads_the_configuration(tmp_path: Path) -> None:
    save_tensorflow(make_model("pretraining"), tmp_path)
    values = json.loads((tmp_path / "bert_config.json").read_text(encoding="utf-8"))
    assert values["hidden_act"] == "gelu", "the only GELU that modeling.get_activation knows"
    assert values["activation"] == "gelu_tanh"
    assert values["type_vocab_size"] == 2 and values["num_hidden_layers"] == 2
    assert load_tensorflow(tmp_path, activation="gelu").model.config.activation == "gelu"


def refused(directory: Path, says: str) -> None:
    with pytest.raises(UserError, match=says) as error:
        load_tensorflow(directory)
    assert "\n" not in str(error.value)
    assert str(directory) in str(error.value)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"vocab_size": 121}, r"word_embeddings in .* has shape \[120, 32\], but .* \[121, 32\]"),
        ({"intermediate_size": 65}, r"intermediate/dense/kernel in .* \[32, 64\], .* \[32, 65\]"),
        ({"num_hidden_layers": 3}, r"lacks bert/encoder/layer_2/attention/self/query/kernel of"),
        ({"hidden_size": None}, r"bert_config\.json lacks 'hidden_size'"),
        ({"hidden_size": "32"}, "'hidden_size' in .* is '32', not a int"),
        ({"hidden_act": "swish"}, "names the activation 'swish'"),
        ({"num_attention_heads": 5}, "not a multiple of 5 heads"),
        ({"num_hidden_layers": 10**9}, "lacks bert/encoder/layer_999999999/attention/self/query"),
        ({"hidden_size": 10**12}, "word_embeddings in .* has shape"),
        ({"intermediate_size": 10**12}, "intermediate/dense/kernel in .* has shape"),
        ({"max_position_embeddings": 10**15}, "position_embeddings in .* has shape"),
    ],
)
def test_a_configuration_of_another_model_is_refused(
    changes: dict[str, Any], says: str, pretrained: Path
) -> None:
    change_config(pretrained, activation=None, **changes)
    with pytest.raises(UserError, match=says):
        load_tensorflow(pretrained)


def test_a_missing_configuration_is_named(pretrained: Path) -> None:
    (pretrained / "bert_config.json").unlink()
    refused(pretrained, r"no bert_config\.json in")


def test_a_missing_tensor_of_the_encoder_is_refused_by_name(pretrained: Path) -> None:
    lost = "bert/encoder/layer_1/attention/self/key/bias"
    change_tensors(pretrained, lambda tensors: {n: t for n, t in tensors.items() if n != lost})
    refused(pretrained, rf"lacks {lost} of shape \[32\]")


def test_a_missing_tensor_of_the_head_is_reported(pretrained: Path) -> None:
    lost = "cls/seq_relationship/output_bias"
    change_tensors(pretrained, lambda tensors: {n: t for n, t in tensors.items() if n != lost})
    assert load_tensorflow(pretrained).missing == [lost]


def test_a_changed_byte_of_a_weight_is_noticed(pretrained: Path) -> None:
    path = pretrained / FILES[1]
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    refused(pretrained, "does not agree with its checksum")
