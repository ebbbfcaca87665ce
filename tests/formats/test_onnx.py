"""ONNX graphs compute what the model does, at any length and batch size, also in integers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from bertkit.errors import UserError
from bertkit.formats.heads import HEADS, model_outputs
from bertkit.model.batch import FlatBatch
from bertkit.model.bert import MODELS, MaskedLMModel
from tests.formats.test_huggingface import CONFIG, make_model

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from bertkit.formats import onnx as onnx_files
from bertkit.formats.onnx import OnnxModel, padded_inputs, quantize, save_onnx


def random_flat(lengths: Sequence[int], seed: int = 0) -> FlatBatch:
    generator = np.random.default_rng(seed)
    ids = [generator.integers(CONFIG.vocab_size, size=length).tolist() for length in lengths]
    return FlatBatch.from_sequences(ids, [[0] * (n // 2) + [1] * (n - n // 2) for n in lengths])


@pytest.mark.parametrize("head", [head for head in MODELS if head != "bilstm-tagging"])
def test_a_graph_computes_what_the_model_does(head: str, tmp_path: Path) -> None:
    model = make_model(head).eval()
    save_onnx(model, tmp_path / "model.onnx")
    graph = OnnxModel(tmp_path / "model.onnx", threads=1)
    assert (graph.head, graph.labels) == (head, model.labels)
    assert graph.config == model.config
    assert graph.names == list(HEADS[head].outputs)
    for session in (graph.session.get_inputs(), graph.session.get_outputs()):
        assert all(one.shape[0] == "batch" for one in session)
    assert all(one.shape == ["batch", "sequence"] for one in graph.session.get_inputs())
    for lengths in ([40], [1], [1, 2], [3, 40, 17, 1], [7] * 9):
        batch = random_flat(lengths)
        expected, found = model_outputs(model, batch), graph.outputs(batch)
        assert expected.keys() == found.keys()
        for name, value in expected.items():
            assert value.shape == found[name].shape
            assert float((value - found[name]).abs().max()) < 1e-4, (name, lengths)


def test_a_head_that_has_no_graph_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="a bilstm-tagging model has no form as an ONNX graph"):
        save_onnx(make_model("bilstm-tagging"), tmp_path / "model.onnx")
    assert not any(tmp_path.iterdir())


def test_a_graph_stands_in_for_its_model_where_tasks_ask_it(tmp_path: Path) -> None:
    batch = random_flat([3, 17, 1])
    for head in ("multiple-choice", "question-answering", "regression", "multi-label"):
        model = make_model(head).eval()
        if head == "question-answering":
            model.null_threshold = 1.5
        save_onnx(model, tmp_path / "model.onnx")
        graph = OnnxModel(tmp_path / "model.onnx", threads=1)
        torch.testing.assert_close(graph(batch), model(batch), atol=1e-4, rtol=1e-4)
        if head == "question-answering":
            assert graph.null_threshold == 1.5


def test_the_numbers_of_a_regression_are_at_their_own_scale(tmp_path: Path) -> None:
    model = make_model("regression").eval()
    batch = random_flat([3, 17, 1])
    with torch.no_grad():
        before = model(batch)
    model.rescale(64.0)
    save_onnx(model, tmp_path / "model.onnx")
    found = OnnxModel(tmp_path / "model.onnx", threads=1)(batch)
    torch.testing.assert_close(found, before, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(model_outputs(model, batch)["logits"], before)


@pytest.mark.parametrize("activation", ["gelu", "gelu_tanh", "relu"])
def test_every_activation_and_an_output_layer_of_its_own(activation: Any, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = MaskedLMModel(replace(CONFIG, activation=activation, tied=False)).eval()
    save_onnx(model, tmp_path / "model.onnx")
    batch = random_flat([5, 30])
    found = OnnxModel(tmp_path / "model.onnx", threads=1).outputs(batch)["logits"]
    torch.testing.assert_close(found, model_outputs(model, batch)["logits"], atol=1e-4, rtol=1e-4)


def test_what_lies_under_the_padding_changes_nothing(tmp_path: Path) -> None:
    model = make_model("encoder").eval()
    save_onnx(model, tmp_path / "model.onnx")
    graph = OnnxModel(tmp_path / "model.onnx", threads=1)
    feed, mask = padded_inputs(random_flat([4, 30]), CONFIG.pad_id)
    before = graph.session.run(None, feed)[0][mask]
    feed["input_ids"][~mask] = 7
    np.testing.assert_allclose(graph.session.run(None, feed)[0][mask], before, atol=1e-6)


def test_the_operators_are_those_of_an_old_opset(tmp_path: Path) -> None:
    import onnx

    save_onnx(make_model("pretraining"), tmp_path / "model.onnx")
    graph = onnx.load(tmp_path / "model.onnx")
    onnx.checker.check_model(graph, full_check=True)
    assert [entry.version for entry in graph.opset_import] == [17]
    assert all(node.domain == "" for node in graph.graph.node)


def test_large_weights_lie_beside_the_graph(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(onnx_files, "LARGEST_FILE", 1000)
    model = make_model("encoder").eval()
    save_onnx(model, tmp_path / "model.onnx")
    assert (tmp_path / "model.onnx.data").stat().st_size > 10_000
    batch = random_flat([5])
    found = OnnxModel(tmp_path / "model.onnx", threads=1).outputs(batch)
    expected = model_outputs(model, batch)["last_hidden_state"]
    torch.testing.assert_close(found["last_hidden_state"], expected, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("how", ["dynamic", "static"])
def test_integers_keep_near_the_model_and_take_less_room(how: str, tmp_path: Path) -> None:
    model = make_model("classification").eval()
    save_onnx(model, tmp_path / "model.onnx")
    calibration = [random_flat([30, 20, 5], seed) for seed in range(4)] if how == "static" else None
    quantize(tmp_path / "model.onnx", tmp_path / "small.onnx", calibration)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.onnx", "small.onnx"]
    graph = OnnxModel(tmp_path / "small.onnx", threads=1)
    assert (graph.head, graph.labels, graph.config) == ("classification", model.labels, CONFIG)
    batch = random_flat([30, 11])
    difference = (graph(batch) - model_outputs(model, batch)["logits"]).abs().max()
    assert 0 < float(difference) < 1.5
    assert (tmp_path / "small.onnx").stat().st_size < (tmp_path / "model.onnx").stat().st_size


def test_what_is_no_graph_of_ours_is_refused(tmp_path: Path) -> None:
    import onnx

    with pytest.raises(UserError, match="no ONNX model"):
        OnnxModel(tmp_path / "nothing.onnx")
    (tmp_path / "broken.onnx").write_bytes(b"\x08\x07broken")
    with pytest.raises(UserError, match="no ONNX model") as error:
        OnnxModel(tmp_path / "broken.onnx")
    assert "\n" not in str(error.value)
    save_onnx(make_model("encoder"), tmp_path / "model.onnx")
    graph = onnx.load(tmp_path / "model.onnx")
    del graph.metadata_props[:]
    onnx.save(graph, tmp_path / "model.onnx")
    with pytest.raises(UserError, match="does not tell which model it is"):
        OnnxModel(tmp_path / "model.onnx")


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(__import__("sys").modules, "onnxruntime", None)
    with pytest.raises(UserError, match=r'pip install "bertkit\[onnx\]"'):
        save_onnx(make_model("encoder"), tmp_path / "model.onnx")
