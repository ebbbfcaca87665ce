"""Checkpoints in Hugging Face's layout: there and back, theirs and ours, whole and broken."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from bertkit.errors import UserError
from bertkit.formats.heads import HEADS
from bertkit.formats.huggingface import load_checkpoint, save_checkpoint
from bertkit.formats.tensorflow import save_tensorflow
from bertkit.model.bert import LABELLED, MODELS, ClassificationModel, PretrainingModel, TaggingModel
from bertkit.model.config import ModelConfig
from tests.model.peers import as_peer, random_batch

CONFIG = ModelConfig(
    vocab_size=120,
    hidden_size=32,
    layers=2,
    heads=4,
    intermediate_size=64,
    max_positions=40,
    activation="gelu_tanh",
    hidden_dropout=0.15,
    attention_dropout=0.05,
    initializer_range=0.3,
    position_init="sinusoidal",
    pad_id=3,
)
LABELS = ["negative", "néutre", "正面"]


def make_model(head: str) -> Any:
    torch.manual_seed(0)
    model: Any = MODELS[head]
    if head == "bilstm-tagging":
        return model(CONFIG, LABELS, features="weighted-all", lstm_size=8)
    return model(CONFIG, LABELS) if head in LABELLED else model(CONFIG)


@pytest.fixture
def pretrained(tmp_path: Path) -> Path:
    directory = tmp_path / "pretrained"
    directory.mkdir()
    save_checkpoint(make_model("pretraining"), directory)
    return directory


def change_config(directory: Path, **changes: Any) -> None:
    path = directory / "config.json"
    values = json.loads(path.read_text(encoding="utf-8")) | changes
    values = {key: value for key, value in values.items() if value is not None}
    path.write_text(json.dumps(values), encoding="utf-8")


def change_tensors(directory: Path, change: Any) -> None:
    tensors = load_file(directory / "model.safetensors")
    save_file(change(tensors), directory / "model.safetensors", metadata={"format": "pt"})


@pytest.mark.parametrize("head", MODELS)
def test_a_saved_model_comes_back_as_it_was(head: str, tmp_path: Path) -> None:
    model = make_model(head)
    save_checkpoint(model, tmp_path)
    loaded = load_checkpoint(tmp_path)
    assert (loaded.missing, loaded.unexpected) == ([], [])
    assert type(loaded.model) is type(model)
    assert loaded.model.config == model.config == replace(CONFIG, causal=head == "left-to-right")
    assert loaded.model.labels == model.labels
    before, after = model.state_dict(), loaded.model.state_dict()
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_saving_twice_writes_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        save_checkpoint(make_model("pretraining"), tmp_path / name)
    for file in ("config.json", "model.safetensors"):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()


def test_the_file_has_the_names_and_shapes_of_hugging_face(pretrained: Path) -> None:
    with safe_open(pretrained / "model.safetensors", "pt") as file:
        assert file.metadata() == {"format": "pt"}
        names = set(file.keys())
        query = file.get_tensor("bert.encoder.layer.1.attention.self.query.weight")
    assert query.shape == (32, 32)
    assert "bert.embeddings.word_embeddings.weight" in names
    assert "cls.predictions.bias" in names and "cls.seq_relationship.weight" in names
    assert "cls.predictions.decoder.weight" not in names, "the tied layer is written once"
    assert len(names) == 5 + 16 * CONFIG.layers + 2 + 5 + 2


def test_config_json_is_that_of_a_bert_config(tmp_path: Path) -> None:
    save_checkpoint(make_model("classification"), tmp_path)
    values = json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))
    assert values["architectures"] == ["BertForSequenceClassification"]
    assert values["model_type"] == "bert"
    assert values["hidden_act"] == "gelu_new"
    assert values["hidden_dropout_prob"] == 0.15
    assert values["attention_probs_dropout_prob"] == 0.05
    assert values["pad_token_id"] == 3
    assert values["tie_word_embeddings"] is True
    assert values["id2label"] == {"0": "negative", "1": "néutre", "2": "正面"}
    assert values["label2id"] == {"negative": 0, "néutre": 1, "正面": 2}
    assert values["problem_type"] == "single_label_classification"


@pytest.mark.parametrize(
    ("head", "labels", "problem"),
    [
        ("regression", ["similarity"], "regression"),
        ("multi-label", LABELS, "multi_label_classification"),
    ],
)
def test_what_a_sequence_classifier_learned_is_its_problem_type(
    head: str, labels: list[str], problem: str, tmp_path: Path
) -> None:
    save_checkpoint(MODELS[head](CONFIG, labels), tmp_path)
    values = json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))
    assert values["problem_type"] == problem
    loaded = load_checkpoint(tmp_path).model
    assert (loaded.head, loaded.labels) == (head, labels)
    assert load_checkpoint(tmp_path, head="classification", labels=labels).missing


def test_one_output_without_a_problem_type_is_a_regression(tmp_path: Path) -> None:
    save_checkpoint(ClassificationModel(CONFIG, ["similarity"]), tmp_path)
    change_config(tmp_path, problem_type=None)
    assert load_checkpoint(tmp_path).model.head == "regression"


def test_transformers_scores_choices_the_same(tmp_path: Path) -> None:
    model = make_model("multiple-choice").eval()
    batch = random_batch([9, 30, 4, 7, 12, 3], CONFIG.vocab_size)
    peer = as_peer(model, tmp_path, "BertForMultipleChoice")
    with torch.no_grad():
        theirs = peer(**{name: value.view(2, 3, -1) for name, value in batch.padded.items()})
        torch.testing.assert_close(model(batch.flat), theirs.logits.view(-1))


@pytest.mark.parametrize(
    ("head", "kinds"),
    [
        ("encoder", ["AutoModel"]),
        ("pretraining", ["AutoModel", "AutoModelForMaskedLM", "BertForPreTraining"]),
        ("masked-lm", ["AutoModelForMaskedLM", "BertForMaskedLM"]),
        ("left-to-right", ["AutoModelForCausalLM", "BertLMHeadModel"]),
        ("classification", ["AutoModel", "AutoModelForSequenceClassification"]),
        ("multi-label", ["AutoModelForSequenceClassification"]),
        ("regression", ["AutoModelForSequenceClassification"]),
        ("multiple-choice", ["AutoModel"]),
        ("tagging", ["AutoModelForTokenClassification"]),
        ("question-answering", ["AutoModelForQuestionAnswering"]),
    ],
)
def test_transformers_finds_every_weight_and_computes_the_same(
    head: str, kinds: list[str], tmp_path: Path
) -> None:
    model = make_model(head).eval()
    batch = random_batch([9, 30, 4], CONFIG.vocab_size)
    for kind in kinds:
        peer = as_peer(model, tmp_path / kind, kind)
        assert peer.config.pad_token_id == 3
        if kind.endswith("Classification"):
            assert peer.config.id2label == dict(enumerate(LABELS))
        with torch.no_grad():
            hidden = (
                peer(**batch.padded, output_hidden_states=True).hidden_states[-1]
                if kind != "AutoModel"
                else peer(**batch.padded).last_hidden_state
            )
            torch.testing.assert_close(batch.at_tokens(hidden), model.encoder(batch.flat))


@pytest.mark.parametrize("head", [head for head in MODELS if head != "bilstm-tagging"])
def test_transformers_finds_nothing_missing_and_nothing_left_over(
    head: str, tmp_path: Path
) -> None:
    transformers = pytest.importorskip("transformers")
    save_checkpoint(make_model(head), tmp_path)
    kind = getattr(transformers, HEADS[head].architecture)
    _, found = kind.from_pretrained(tmp_path, output_loading_info=True)
    assert not any(found.values()), found


@pytest.mark.parametrize(
    ("kind", "head", "missing"),
    [
        ("BertModel", "encoder", []),
        ("BertForPreTraining", "pretraining", []),
        ("BertForMaskedLM", "masked-lm", []),
        ("BertForSequenceClassification", "classification", []),
        ("BertForMultipleChoice", "multiple-choice", []),
        ("BertForTokenClassification", "tagging", []),
        ("BertForQuestionAnswering", "question-answering", []),
        ("BertForNextSentencePrediction", "encoder", []),
    ],
)
def test_what_transformers_writes_is_read(
    kind: str, head: str, missing: list[str], tmp_path: Path
) -> None:
    import transformers

    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=120,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=40,
        num_labels=2 if kind.endswith("QuestionAnswering") else 3,
        attn_implementation="eager",
    )
    peer = getattr(transformers, kind)(config).eval()
    with torch.no_grad():
        for name, parameter in peer.named_parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.1 if "bias" in name else 0.02)
    peer.save_pretrained(tmp_path)
    loaded = load_checkpoint(tmp_path)
    assert loaded.model.head == head
    for part in missing:
        assert any(part in name for name in loaded.missing)
    assert bool(loaded.missing) == bool(missing)
    assert bool(loaded.unexpected) == (kind == "BertForNextSentencePrediction")
    batch = random_batch([9, 30, 4], 120)
    model: Any = loaded.model.eval()
    with torch.no_grad():
        padded = batch.padded
        if head == "multiple-choice":  # one question, its choices
            padded = {name: value[None] for name, value in padded.items()}
        theirs = peer(**padded, output_hidden_states=True)
        torch.testing.assert_close(
            model.encoder(batch.flat),
            batch.at_tokens(theirs.hidden_states[-1]),
            rtol=1e-4,
            atol=1e-5,
        )
        if kind == "BertForMaskedLM":
            logits = model.masked_lm.logits(model.encoder(batch.flat))
            torch.testing.assert_close(logits, batch.at_tokens(theirs.logits), rtol=1e-4, atol=1e-5)
        if head == "classification":
            assert loaded.model.labels == ["LABEL_0", "LABEL_1", "LABEL_2"]
            torch.testing.assert_close(model(batch.flat), theirs.logits, rtol=1e-4, atol=1e-5)


def rename(tensors: dict[str, Tensor], old: str, new: str) -> dict[str, Tensor]:
    return {name.replace(old, new): value for name, value in tensors.items()}


def old_names(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    tensors = rename(tensors, "LayerNorm.weight", "LayerNorm.gamma")
    tensors = rename(tensors, "LayerNorm.bias", "LayerNorm.beta")
    return tensors | {"bert.embeddings.position_ids": torch.arange(40)[None]}


def untied_copies(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """As files written before transformers left tied weights out."""
    table = tensors["bert.embeddings.word_embeddings.weight"].clone()
    bias = tensors.pop("cls.predictions.bias")
    copies = {"cls.predictions.decoder.weight": table, "cls.predictions.decoder.bias": bias}
    return tensors | copies


@pytest.mark.parametrize("change", [old_names, untied_copies])
def test_older_names_are_read(pretrained: Path, change: Any) -> None:
    before = load_checkpoint(pretrained).model.state_dict()
    change_tensors(pretrained, change)
    loaded = load_checkpoint(pretrained)
    assert (loaded.missing, loaded.unexpected) == ([], [])
    after = loaded.model.state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_half_precision_files_become_float32(pretrained: Path) -> None:
    change_tensors(pretrained, lambda tensors: {n: t.half() for n, t in tensors.items()})
    model = load_checkpoint(pretrained).model
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}


def test_pickled_weights_are_read(pretrained: Path) -> None:
    before = load_checkpoint(pretrained).model.state_dict()
    tensors = load_file(pretrained / "model.safetensors")
    torch.save(tensors, pretrained / "pytorch_model.bin")
    (pretrained / "model.safetensors").unlink()
    after = load_checkpoint(pretrained).model.state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)


class Trap:
    """Runs code when it is unpickled without care."""

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return (exec, ("raise SystemExit('the pickle ran')",))


def test_a_pickle_that_would_run_code_is_refused(pretrained: Path) -> None:
    torch.save({"weight": Trap()}, pretrained / "pytorch_model.bin")
    (pretrained / "model.safetensors").unlink()
    with pytest.raises(UserError, match=r"pytorch_model\.bin cannot be read as plain weights"):
        load_checkpoint(pretrained)


def test_sharded_weights_are_read(pretrained: Path) -> None:
    before = load_checkpoint(pretrained).model.state_dict()
    tensors = load_file(pretrained / "model.safetensors")
    (pretrained / "model.safetensors").unlink()
    parts = {
        "model-00001-of-00002.safetensors": dict(list(tensors.items())[:10]),
        "model-00002-of-00002.safetensors": dict(list(tensors.items())[10:]),
    }
    index = {name: file for file, part in parts.items() for name in part}
    for file, part in parts.items():
        save_file(part, pretrained / file)
    (pretrained / "model.safetensors.index.json").write_text(json.dumps({"weight_map": index}))
    after = load_checkpoint(pretrained).model.state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)

    (pretrained / "model-00002-of-00002.safetensors").unlink()
    with pytest.raises(UserError, match=r"names model-00002-of-00002\.safetensors"):
        load_checkpoint(pretrained)


@pytest.mark.parametrize("text", ["{", "[]", '{"weight_map": {"a": "../../secret"}}'])
def test_a_broken_index_is_refused(pretrained: Path, text: str) -> None:
    (pretrained / "model.safetensors").rename(pretrained / "part.safetensors")
    (pretrained / "model.safetensors.index.json").write_text(text)
    with pytest.raises(UserError, match=r"index\.json"):
        load_checkpoint(pretrained)


def test_another_head_starts_fresh_on_the_same_encoder(pretrained: Path) -> None:
    encoder = load_checkpoint(pretrained).model.encoder.state_dict()  # type: ignore[union-attr]
    loaded = load_checkpoint(pretrained, head="classification", labels=LABELS)
    assert isinstance(loaded.model, ClassificationModel)
    assert loaded.model.labels == LABELS
    assert loaded.missing == ["classifier.weight", "classifier.bias"]
    assert all(name.startswith("cls.") for name in loaded.unexpected)
    mine = loaded.model.encoder.state_dict()
    assert all(torch.equal(encoder[name], mine[name]) for name in encoder)


def test_a_fresh_head_starts_as_every_head_does(pretrained: Path) -> None:
    def keep_encoder(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        names = [n for n in tensors if not n.startswith(("cls.", "bert.pooler."))]
        return {name: tensors[name] for name in names}

    change_tensors(pretrained, keep_encoder)
    loaded = load_checkpoint(pretrained)
    assert len(loaded.missing) == 2 + 5 + 2
    model: Any = loaded.model
    fresh = [model.encoder.pooler, model.masked_lm.dense, model.next_sentence.dense]
    for layer in fresh:
        assert 0.5 < float(layer.weight.detach().std()) / CONFIG.initializer_range < 1.2
        assert layer.weight.abs().max() <= 2 * CONFIG.initializer_range
        assert not layer.bias.any()
    assert (model.masked_lm.norm.weight == 1).all()


def test_a_fresh_head_follows_the_seed(pretrained: Path) -> None:
    heads = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        model: Any = load_checkpoint(pretrained, head="tagging", labels=LABELS).model
        heads.append(model.classifier.dense.weight)
    assert torch.equal(heads[0], heads[1]) and not torch.equal(heads[0], heads[2])


@pytest.mark.parametrize(
    ("head", "labels", "fresh"),
    [
        ("classification", LABELS, False),
        ("classification", ["a", "b", "c"], True),
        ("classification", LABELS[::-1], True),
        ("classification", LABELS[:2], True),
        ("tagging", LABELS, True),
        ("encoder", None, False),
    ],
)
def test_a_classifier_is_kept_only_for_its_own_labels(
    head: str, labels: list[str] | None, fresh: bool, tmp_path: Path
) -> None:
    save_checkpoint(make_model("classification"), tmp_path)
    loaded = load_checkpoint(tmp_path, head=head, labels=labels)
    assert bool(loaded.missing) == fresh
    kept = head == "classification" and not fresh
    assert ("classifier.weight" in loaded.unexpected) == (not kept)
    assert loaded.model.labels == (labels or [])


def test_nameless_labels_take_the_names_given(tmp_path: Path) -> None:
    model = ClassificationModel(CONFIG, ["LABEL_0", "LABEL_1"])
    save_checkpoint(model, tmp_path)
    loaded = load_checkpoint(tmp_path, labels=["bad", "good"])
    assert loaded.missing == [] and loaded.model.labels == ["bad", "good"]


def test_a_head_without_labels_asks_for_them(pretrained: Path) -> None:
    with pytest.raises(UserError, match="names no labels for a tagging head"):
        load_checkpoint(pretrained, head="tagging")
    with pytest.raises(UserError, match="no head 'poetry'"):
        load_checkpoint(pretrained, head="poetry")


def test_dropout_comes_from_the_file_and_can_be_changed(pretrained: Path) -> None:
    model: Any = load_checkpoint(pretrained).model
    assert model.encoder.embeddings.dropout.rate == 0.15
    assert model.encoder.blocks[0].attention_dropout.rate == 0.05
    model = load_checkpoint(pretrained, hidden_dropout=0.0).model
    assert model.encoder.blocks[1].feed_forward_dropout.rate == 0.0
    assert model.encoder.blocks[1].attention_dropout.rate == 0.05


@pytest.mark.parametrize("untied", [False, True])
def test_a_longer_vocabulary_gets_embeddings_and_the_old_tokens_keep_theirs(
    pretrained: Path, untied: bool
) -> None:
    if untied:
        change_tensors(pretrained, untied_copies)
    old: Any = load_checkpoint(pretrained).model
    torch.manual_seed(5)
    loaded = load_checkpoint(pretrained, vocab_size=150)
    new: Any = loaded.model
    assert not loaded.missing
    assert not loaded.unexpected
    assert new.config.vocab_size == 150
    rows = new.encoder.embeddings.token
    assert rows.shape == (150, 32)
    assert torch.equal(rows[:120], old.encoder.embeddings.token)
    assert 0.2 < rows[120:].std() < 0.3  # cut at two deviations of 0.3
    assert rows[120:].abs().max() <= 0.6
    assert torch.equal(new.masked_lm.bias[:120], old.masked_lm.bias)
    assert not new.masked_lm.bias[120:].any()
    torch.manual_seed(5)
    again: Any = load_checkpoint(pretrained, vocab_size=150).model
    assert torch.equal(again.encoder.embeddings.token, rows)


def test_a_shorter_vocabulary_is_refused(pretrained: Path) -> None:
    with pytest.raises(UserError, match="word_embeddings"):
        load_checkpoint(pretrained, vocab_size=100)


def refused(directory: Path, says: str) -> None:
    """Loading fails in one line that says so and names a file."""
    with pytest.raises(UserError, match=says) as error:
        load_checkpoint(directory)
    assert "\n" not in str(error.value)
    assert str(directory) in str(error.value)


def test_a_directory_that_is_not_there_is_refused(tmp_path: Path) -> None:
    refused(tmp_path / "nowhere", "no checkpoint at")


def test_a_directory_without_config_is_refused(pretrained: Path) -> None:
    (pretrained / "config.json").unlink()
    refused(pretrained, r"no config\.json in")


def test_a_directory_without_weights_is_refused(pretrained: Path) -> None:
    (pretrained / "model.safetensors").unlink()
    refused(pretrained, "no weights in .* expected model.safetensors")


@pytest.mark.parametrize("text", ["", "{", "[1]", '"bert"', "\udcff", "[" * 100_000])
def test_a_broken_config_is_refused(pretrained: Path, text: str) -> None:
    (pretrained / "config.json").write_bytes(text.encode("utf-8", "surrogateescape"))
    refused(pretrained, r"config\.json")


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"hidden_size": None}, "lacks 'hidden_size'"),
        ({"vocab_size": None}, "lacks 'vocab_size'"),
        ({"num_hidden_layers": "two"}, "'num_hidden_layers' in .* is 'two', not a"),
        ({"layer_norm_eps": [1]}, r"'layer_norm_eps' in .* is \[1\]"),
        ({"model_type": "roberta"}, "a model of type 'roberta'"),
        ({"position_embedding_type": "relative_key"}, "relative positions"),
        ({"is_decoder": True, "add_cross_attention": True}, "decoder with cross-attention"),
        ({"is_decoder": "yes"}, "'is_decoder' in .* is 'yes', not a bool"),
        ({"hidden_act": "silu"}, "the activation 'silu'"),
    ],
)
def test_a_config_of_another_model_is_refused(
    pretrained: Path, changes: dict[str, Any], says: str
) -> None:
    change_config(pretrained, **changes)
    refused(pretrained, says)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        (
            {"vocab_size": 121},
            r"word_embeddings\.weight in .* has shape \[120, 32\], .* \[121, 32\]",
        ),
        ({"intermediate_size": 65}, r"layer\.0\.intermediate\.dense\.weight"),
        ({"num_hidden_layers": 3}, r"lacks bert\.encoder\.layer\.2\..* of shape \[32, 32\]"),
    ],
)
def test_weights_that_do_not_fit_the_config_are_refused_by_name(
    pretrained: Path, changes: dict[str, Any], says: str
) -> None:
    change_config(pretrained, **changes)
    refused(pretrained, says)


def test_surplus_layers_are_named(pretrained: Path) -> None:
    change_config(pretrained, num_hidden_layers=1)
    unexpected = load_checkpoint(pretrained).unexpected
    assert "bert.encoder.layer.1.output.dense.weight" in unexpected


def test_a_missing_tensor_of_the_encoder_is_refused_by_name(pretrained: Path) -> None:
    lost = "bert.encoder.layer.1.attention.self.key.bias"
    change_tensors(pretrained, lambda tensors: {n: t for n, t in tensors.items() if n != lost})
    refused(pretrained, rf"lacks {lost} of shape \[32\]")


def test_a_missing_tensor_of_the_head_is_reported(pretrained: Path) -> None:
    lost = "cls.seq_relationship.bias"
    change_tensors(pretrained, lambda tensors: {n: t for n, t in tensors.items() if n != lost})
    assert load_checkpoint(pretrained).missing == [lost]


@pytest.mark.parametrize("share", [0.0, 0.3, 0.999])
def test_a_truncated_file_is_refused(pretrained: Path, share: float) -> None:
    path = pretrained / "model.safetensors"
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * share)])
    refused(pretrained, r"model\.safetensors is broken or truncated")


def test_a_truncated_pickle_is_refused(pretrained: Path) -> None:
    torch.save(load_file(pretrained / "model.safetensors"), pretrained / "pytorch_model.bin")
    (pretrained / "model.safetensors").unlink()
    path = pretrained / "pytorch_model.bin"
    path.write_bytes(path.read_bytes()[:5000])
    refused(pretrained, r"pytorch_model\.bin (is broken|cannot be read)")


@pytest.mark.parametrize("head", ["pretraining", "masked-lm"])
def test_an_output_layer_of_its_own_is_kept(head: str, tmp_path: Path) -> None:
    """What is not the token embeddings is loaded, saved and read by transformers as it is."""
    torch.manual_seed(5)
    (tmp_path / "tied").mkdir()
    save_checkpoint(make_model(head), tmp_path / "tied")
    decoder = {
        "cls.predictions.decoder.weight": torch.randn(120, 32),
        "cls.predictions.decoder.bias": torch.randn(120),
    }
    change_tensors(tmp_path / "tied", lambda tensors: tensors | decoder)
    loaded = load_checkpoint(tmp_path / "tied")
    assert (loaded.missing, loaded.unexpected) == ([], [])
    model: Any = loaded.model.eval()
    assert not model.config.tied
    state = model.state_dict()
    assert torch.equal(state["masked_lm.embeddings"], decoder["cls.predictions.decoder.weight"])
    assert torch.equal(state["masked_lm.bias"], decoder["cls.predictions.decoder.bias"])
    kind = "BertForMaskedLM" if head == "masked-lm" else "BertForPreTraining"
    peer = as_peer(model, tmp_path / "own", kind)
    again = load_checkpoint(tmp_path / "own").model.state_dict()
    assert all(torch.equal(again[name], state[name]) for name in state)
    batch = random_batch([9, 30, 4], CONFIG.vocab_size)
    with torch.no_grad():
        logits = peer(**batch.padded)[0]
        mine = model.masked_lm.logits(model.encoder(batch.flat))
    torch.testing.assert_close(batch.at_tokens(logits), mine, atol=1e-4, rtol=1e-4)
    assert (
        "cls.predictions.decoder.weight" in load_checkpoint(tmp_path / "own", "encoder").unexpected
    )
    with pytest.raises(UserError, match="no name for"):
        save_tensorflow(model, tmp_path / "google")


def test_a_second_copy_of_the_embeddings_is_none_of_its_own(pretrained: Path) -> None:
    def copy(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        table = tensors["bert.embeddings.word_embeddings.weight"].clone()
        return tensors | {"cls.predictions.decoder.weight": table}

    change_tensors(pretrained, copy)
    loaded = load_checkpoint(pretrained)
    assert (loaded.missing, loaded.unexpected) == ([], [])
    assert loaded.model.config.tied


def test_the_architecture_is_told_by_the_weights_where_no_name_is(pretrained: Path) -> None:
    change_config(pretrained, architectures=None)
    assert isinstance(load_checkpoint(pretrained).model, PretrainingModel)


def test_a_tagger_without_names_of_labels_counts_them(tmp_path: Path) -> None:
    save_checkpoint(make_model("tagging"), tmp_path)
    change_config(tmp_path, id2label=None, label2id=None)
    loaded = load_checkpoint(tmp_path)
    assert isinstance(loaded.model, TaggingModel)
    assert loaded.model.labels == ["LABEL_0", "LABEL_1", "LABEL_2"]
    change_config(tmp_path, id2label={"0": "a", "2": "b", "3": "c"})
    refused(tmp_path, "'id2label' in .* does not number its labels")


def test_weights_that_call_themselves_a_masked_lm_keep_their_next_sentence(
    pretrained: Path,
) -> None:
    """The released weights say BertForMaskedLM and hold both heads."""
    change_config(pretrained, architectures=["BertForMaskedLM"])
    loaded = load_checkpoint(pretrained)
    assert loaded.model.head == "pretraining"
    assert (loaded.missing, loaded.unexpected) == ([], [])


def test_a_language_model_that_is_no_decoder_looks_both_ways(tmp_path: Path) -> None:
    save_checkpoint(make_model("masked-lm"), tmp_path)
    change_config(tmp_path, architectures=["BertLMHeadModel"])
    assert load_checkpoint(tmp_path).model.head == "masked-lm"


def test_a_left_to_right_model_keeps_its_causal_mask_under_another_head(tmp_path: Path) -> None:
    model = make_model("left-to-right").eval()
    save_checkpoint(model, tmp_path)
    values = json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))
    assert values["is_decoder"] is True and values["architectures"] == ["BertLMHeadModel"]
    loaded = load_checkpoint(tmp_path, head="classification", labels=LABELS)
    assert loaded.model.config.causal
    assert any("pooler" in name for name in loaded.missing)
    batch = random_batch([9, 30, 4], CONFIG.vocab_size).flat
    other: Any = loaded.model.eval()
    with torch.no_grad():
        assert torch.equal(other.encoder(batch), model.encoder(batch))


def test_an_encoder_that_looks_both_ways_says_nothing_of_a_decoder(pretrained: Path) -> None:
    values = json.loads((pretrained / "config.json").read_text(encoding="utf-8"))
    assert "is_decoder" not in values


def test_transformers_predicts_the_same_next_tokens(tmp_path: Path) -> None:
    model = make_model("left-to-right").eval()
    peer = as_peer(model, tmp_path / "peer", "BertLMHeadModel")
    batch = random_batch([9, 30, 4], CONFIG.vocab_size)
    with torch.no_grad():
        theirs = batch.at_tokens(peer(**batch.padded).logits)
        torch.testing.assert_close(model.masked_lm.logits(model.encoder(batch.flat)), theirs)


def test_the_null_threshold_travels_in_config_json(tmp_path: Path) -> None:
    model = make_model("question-answering")
    save_checkpoint(model, tmp_path)
    assert "null_threshold" not in json.loads((tmp_path / "config.json").read_text())
    assert load_checkpoint(tmp_path).model.null_threshold is None
    model.null_threshold = -0.1 - 0.2
    save_checkpoint(model, tmp_path)
    assert load_checkpoint(tmp_path).model.null_threshold == -0.1 - 0.2
    # another head has no use for it
    other: Any = load_checkpoint(tmp_path, head="tagging", labels=LABELS)
    assert not hasattr(other.model, "null_threshold")
    assert "qa_outputs.weight" in other.unexpected
    change_config(tmp_path, null_threshold="high")
    with pytest.raises(UserError, match=r"'null_threshold' in .* is 'high', not a number"):
        load_checkpoint(tmp_path)
