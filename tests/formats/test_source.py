"""What a path is, and whether a vocabulary belongs to a model."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bertkit.errors import UserError
from bertkit.formats import hub
from bertkit.formats.heads import GOOGLE_HEAD_NAMES, HEAD_NAMES, HEADS, stored_head
from bertkit.formats.huggingface import save_checkpoint
from bertkit.formats.kinds import kind_of
from bertkit.formats.source import check_vocabulary, load_source, probe
from bertkit.formats.tensorflow import save_tensorflow
from bertkit.model.bert import LABELLED, MODELS
from bertkit.model.config import ModelConfig
from tests.formats.test_huggingface import make_model


def sized(vocab_size: int) -> ModelConfig:
    return ModelConfig(vocab_size, 8, 1, 2, 16)


def test_every_head_is_a_row_of_the_table() -> None:
    assert HEADS.keys() == MODELS.keys()
    nameless = {own for own in HEAD_NAMES if own.startswith("tagger.")} | {"masked_lm.embeddings"}
    assert GOOGLE_HEAD_NAMES.keys() == HEAD_NAMES.keys() - nameless
    assert len({(head.architecture, head.problem) for head in HEADS.values()}) == len(HEADS)
    assert {head.name for head in HEADS.values() if head.labelled} == LABELLED


def test_heads_of_one_architecture_are_told_apart_by_their_problem() -> None:
    values: dict[str, Any] = {"architectures": ["BertForSequenceClassification"]}
    for more, head in (
        ({"problem_type": "regression"}, "regression"),
        ({"problem_type": "single_label_classification"}, "classification"),
        ({"problem_type": "multi_label_classification"}, "multi-label"),
        ({"problem_type": "of another world"}, "classification"),
        ({"id2label": {"0": "score"}}, "regression"),
        ({"id2label": {"0": "good", "1": "bad"}}, "classification"),
        ({"id2label": 7}, "classification"),
        ({}, "classification"),
    ):
        assert stored_head(values | more, {}, HEAD_NAMES) == head, more
    one = {"classifier.weight": SimpleNamespace(shape=(1, 8))}
    assert stored_head(values, one, HEAD_NAMES) == "regression"


def test_a_kind_is_found_out(tmp_path: Path) -> None:
    model = make_model("encoder")
    (tmp_path / "face").mkdir()
    save_checkpoint(model, tmp_path / "face")
    save_tensorflow(model, tmp_path / "google")
    assert kind_of(tmp_path / "face") == "huggingface"
    assert kind_of(tmp_path / "google") == "tensorflow"
    assert kind_of(tmp_path / "google" / "bert_model.ckpt") == "tensorflow"
    for name in ("face", "google", "google/bert_model.ckpt.index"):
        assert load_source(tmp_path / name).missing == []


@pytest.mark.parametrize("name", ["nothing", "empty", "empty/bert_model.ckpt", "no/such/place"])
def test_what_is_no_checkpoint_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="checkpoint"):
        kind_of(tmp_path / name)


def test_a_configuration_without_weights_says_so(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(UserError, match=r"no weights; expected model\.safetensors"):
        kind_of(tmp_path)


@pytest.mark.parametrize(("entries", "extra"), [(30522, 6), (30528, 0), (30500, 28)])
def test_padded_embeddings_are_understood(entries: int, extra: int) -> None:
    assert check_vocabulary(entries, sized(30528), Path("vocab.txt")) == extra


@pytest.mark.parametrize(
    ("entries", "embeddings", "says"),
    [
        (30523, 30522, r"vocab\.txt has 30,523 entries, but .* \[30522, 8\] .* be \[30523, 8\]"),
        (30521, 30522, r"\[30522, 8\], too many to be padding of \[30521, 8\]"),
        (21128, 30528, r"too many to be padding of \[21128, 8\]"),
    ],
)
def test_the_vocabulary_of_another_model_is_refused(
    entries: int, embeddings: int, says: str
) -> None:
    with pytest.raises(UserError, match=says):
        check_vocabulary(entries, sized(embeddings), Path("vocab.txt"))


def test_a_probe_suits_the_smallest_model() -> None:
    batch = probe(ModelConfig(5, 8, 1, 2, 16, max_positions=4, segment_types=1))
    assert batch.max_length == 4 and int(batch.segment_ids.max()) == 0
    assert int(batch.token_ids.max()) < 5


class FakeHub:
    """Stands in for huggingface_hub: a model with some files, or no network."""

    def __init__(self, files: list[str] | None, cached: Path | None) -> None:
        self.files, self.cached, self.asked = files, cached, {}

    def HfApi(self) -> Any:  # noqa: N802 - its name there
        return self

    def model_info(self, name: str, timeout: float) -> Any:
        assert timeout <= 30
        if self.files is None:
            raise ConnectionError("Name or service\nnot known")
        return SimpleNamespace(siblings=[SimpleNamespace(rfilename=file) for file in self.files])

    def snapshot_download(
        self, name: str, allow_patterns: list[str], local_files_only: bool
    ) -> str:
        self.asked = {"name": name, "patterns": allow_patterns, "offline": local_files_only}
        if self.cached is None:
            raise FileNotFoundError("not in the cache")
        return str(self.cached)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    def make(files: list[str] | None, cached: Path | None) -> FakeHub:
        made = FakeHub(files, cached)
        monkeypatch.setitem(__import__("sys").modules, "huggingface_hub", made)
        monkeypatch.chdir(tmp_path)
        return made

    return make


def test_a_released_name_is_fetched_without_pickles(fake: Any, tmp_path: Path) -> None:
    made = fake(["config.json", "model.safetensors", "pytorch_model.bin"], tmp_path)
    assert hub.checkpoint_path("bert-base-chinese") == tmp_path
    assert made.asked["name"] == "google-bert/bert-base-chinese"
    assert "model.safetensors" in made.asked["patterns"]
    assert not any("bin" in pattern for pattern in made.asked["patterns"])
    made.files = ["config.json", "pytorch_model.bin"]
    hub.checkpoint_path("owner/name")
    assert "pytorch_model.bin" in made.asked["patterns"]


def test_without_a_network_what_was_fetched_before_is_taken(fake: Any, tmp_path: Path) -> None:
    made = fake(None, tmp_path)
    assert hub.checkpoint_path("bert-tiny-uncased") == tmp_path
    assert made.asked["offline"] and made.asked["name"] == "google/bert_uncased_L-2_H-128_A-2"


def test_without_a_network_and_a_copy_one_line_says_so(fake: Any) -> None:
    fake(None, None)
    with pytest.raises(UserError, match=r"cannot be fetched .*Name or service not known.*network"):
        hub.checkpoint_path("bert-base-uncased")


def test_a_path_is_never_asked_of_the_hub(fake: Any, tmp_path: Path) -> None:
    made = fake(None, None)
    (tmp_path / "runs").mkdir()
    (tmp_path / "bert-base-uncased").mkdir()
    for name in ("runs/mine", "bert-base-uncased", "mine", "./a/b", "/a/b", "a/b/c", "a/../b"):
        assert hub.checkpoint_path(name) == Path(name)
    assert made.asked == {}


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(__import__("sys").modules, "huggingface_hub", None)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=r'pip install "bertkit\[hub\]"'):
        hub.checkpoint_path("bert-base-uncased")
