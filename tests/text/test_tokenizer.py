"""The tokenizer: the cache changes nothing, files keep everything, [CLS] and [SEP] are placed."""

from __future__ import annotations

import json
import pickle
import random
from pathlib import Path

import pytest

from bertkit.errors import UserError
from bertkit.text import tokenizer as module
from bertkit.text.tokenizer import Tokenizer, load_vocabulary, truncated_lengths
from bertkit.text.wordpiece import words
from tests.text.plain_tokenizer import hard_texts, plain_tokenize

LETTERS = [chr(code) for code in range(ord("a"), ord("z") + 1)]
ENTRIES = [
    *("[PAD]", "[unused0]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"!\"#$%&'()*+,-./:;<=>?@[]^_`|~"),
    *LETTERS,
    *["##" + letter for letter in LETTERS],
    *("the", "un", "##aff", "##able", "play", "##ing", "mask", "istanbul", "##123", "the"[:2], "5"),
    *("中", "文", "㐀", "\U00020000", "ひ", "한", "\u1112", "##\u1161", "##\u11ab", "😀", "“", "—"),
    *("THE", "Run", "##S", "é", "É", "##é", "e\u0301", "ο", "##δ", "##ο", "##ς", "##σ", "σ"),
]


@pytest.fixture(params=[True, False], ids=["uncased", "cased"])
def hard(request: pytest.FixtureRequest) -> Tokenizer:
    return Tokenizer(ENTRIES, lower_case=request.param)


def small(lower_case: bool = True) -> Tokenizer:
    return Tokenizer(ENTRIES, lower_case)


# ---- the fast path and the exact rules ---------------------------------------------------------


def test_tokens_agree_with_the_reference_on_hard_text(hard: Tokenizer) -> None:
    vocabulary = set(ENTRIES)
    for text in hard_texts(1200, seed=5):
        expected = plain_tokenize(text, vocabulary, hard.lower_case)
        assert hard.tokenize(text) == expected, repr(text)
        assert hard.tokenize(text) == expected, repr(text)  # now from the cache


def test_pieces_have_the_ids_of_the_fast_path(hard: Tokenizer) -> None:
    for text in hard_texts(1200, seed=6):
        assert hard.pieces(text).ids == hard.token_ids(text), repr(text)


@pytest.mark.slow
def test_a_line_of_a_megabyte_of_hard_text_is_tokenized_exactly() -> None:
    text = "".join(random.Random(7).choices(hard_texts(400, seed=7), k=15000)).replace("\n", "")
    assert len(text.encode("utf-8", "surrogatepass")) > 1_000_000
    assert small().tokenize(text) == plain_tokenize(text, set(ENTRIES), True)


def test_a_line_of_a_million_characters_is_tokenized_exactly() -> None:
    tokenizer, count = small(), 1_000_000
    assert tokenizer.tokenize("a" * count) == ["[UNK]"]
    assert tokenizer.tokenize("," * count) == [","] * count
    assert tokenizer.token_ids("中" * count) == [ENTRIES.index("中")] * count
    assert tokenizer.pieces("é" * 100_000).ends == [100_000]


def test_a_full_cache_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CACHE_ENTRIES", 7)
    tokenizer, roomy = small(), small()
    for text in hard_texts(500, seed=8):
        expected = plain_tokenize(text, set(ENTRIES), True)
        assert tokenizer.tokenize(text) == expected
        assert tokenizer.pieces(text).ids == tokenizer.token_ids(text)
        assert len(tokenizer._ids) <= 7
        assert len(tokenizer._offsets) <= 7
    assert roomy.tokenize("playing") == ["play", "##ing"]


def test_long_chunks_are_not_remembered() -> None:
    tokenizer = small()
    tokenizer.token_ids("a," * 1000)
    tokenizer.token_ids("中文" * 1000)
    assert sum(map(len, tokenizer._ids)) == 2  # 中 and 文


def test_tokens_of_all_squad_questions(shared_data: Path) -> None:
    tokenizer = Tokenizer.load(shared_data / "vocab/bert-base-uncased/vocab.txt", lower_case=True)
    golden = shared_data / "golden"
    questions = json.loads((golden / "question_tokens.json").read_text("utf-8"))
    ids = json.loads((golden / "tokenized_questions.json").read_text("utf-8"))
    assert len(questions) == len(ids) == 10570
    texts = [question["original"] for question in questions]
    assert [tokenizer.token_ids(text) for text in texts] == ids
    assert [tokenizer.tokenize(text) for text in texts] == [q["wordpiece"] for q in questions]
    assert [tokenizer.pieces(text).ids for text in texts] == ids


def test_hard_golden_lines_all_agree(shared_data: Path) -> None:
    tokenizers: dict[tuple[str, bool], Tokenizer] = {}
    wrong = []
    with open(shared_data / "golden" / "tokenizer-hard.jsonl", encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    assert len(lines) == 4500
    for number, line in enumerate(lines):
        key = (line["vocab"], line["lower_case"])
        if key not in tokenizers:
            path = shared_data / "vocab" / key[0] / "vocab.txt"
            tokenizers[key] = Tokenizer.load(path, lower_case=key[1])
        tokenizer = tokenizers[key]
        pieces = [tokenizer.vocabulary[i] for i in tokenizer.pieces(line["text"]).ids]
        if not tokenizer.tokenize(line["text"]) == pieces == line["tokens"]:
            wrong.append(number)
    assert wrong == []


# ---- offsets -----------------------------------------------------------------------------------


def test_the_text_at_a_piece_normalizes_to_the_piece(hard: Tokenizer) -> None:
    for text in hard_texts(1200, seed=9):
        pieces = hard.pieces(text)
        assert len(pieces.ids) == len(pieces.starts) == len(pieces.ends)
        for number, start, end in zip(pieces.ids, pieces.starts, pieces.ends, strict=True):
            assert 0 <= start < end <= len(text)
            normal = words(text[start:end], hard.lower_case)
            assert len(normal) == 1, repr(text[start:end])
            token = hard.vocabulary[number]
            if token == "[UNK]":
                continue
            piece = token.removeprefix("##").replace("ς", "σ")
            source = normal[0].replace("ς", "σ")
            # One character, as a syllable of Hangul, can be the source of several pieces.
            assert source == piece or (piece in source and end - start == 1), repr(text)


def test_offsets_point_into_the_untouched_text() -> None:
    text = " Playing\u200b İstanbul,\x00 cafe\u0301 中文"
    encoding = small().encode(text)
    found = [
        (token, text[span[0] : span[1]])
        for token, span in zip(encoding.tokens, encoding.offsets, strict=True)
        if span is not None
    ]
    assert found == [
        ("play", "Play"),
        ("##ing", "ing"),
        ("istanbul", "İstanbul"),
        (",", ","),
        ("c", "c"),
        ("##a", "a"),
        ("##f", "f"),
        ("##e", "e\u0301"),
        ("中", "中"),
        ("文", "文"),
    ]


# ---- special tokens ----------------------------------------------------------------------------


def test_special_tokens_in_raw_text_are_text() -> None:
    assert small().tokenize("[MASK]") == ["[", "mask", "]"]
    assert small().tokenize("[CLS][SEP]")[:2] == ["[", "c"]


def test_special_tokens_stay_whole_when_asked_for() -> None:
    tokenizer = small()
    text = "the [MASK]unaffable[SEP] [mask]"
    assert tokenizer.tokenize(text, special_tokens=True) == [
        *("the", "[MASK]", "un", "##aff", "##able", "[SEP]", "[", "mask", "]")
    ]
    pieces = tokenizer.pieces(text, special_tokens=True)
    assert text[pieces.starts[1] : pieces.ends[1]] == "[MASK]"
    assert text[pieces.starts[2] : pieces.ends[2]] == "un"
    assert tokenizer.encode("[MASK]", special_tokens=True).ids == [
        *(tokenizer.cls_id, tokenizer.mask_id, tokenizer.sep_id)
    ]
    assert tokenizer.token_ids("the the", special_tokens=True) == tokenizer.token_ids("the the")


def test_special_ids_are_those_of_the_vocabulary() -> None:
    tokenizer = small()
    assert [tokenizer.vocabulary[number] for number in sorted(tokenizer.special_ids)] == [
        *("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
    ]
    assert (tokenizer.pad_id, tokenizer.unk_id, tokenizer.mask_id) == (0, 2, 5)
    assert len(tokenizer) == len(ENTRIES)


# ---- the model's input -------------------------------------------------------------------------


def test_a_text_is_between_cls_and_sep() -> None:
    encoding = small().encode("the unaffable")
    assert encoding.tokens == ["[CLS]", "the", "un", "##aff", "##able", "[SEP]"]
    assert encoding.segment_ids == [0] * 6
    assert encoding.offsets == [None, (0, 3), (4, 6), (6, 9), (9, 13), None]


def test_a_pair_has_segment_1_in_its_second_text_and_last_sep() -> None:
    encoding = small().encode("the", "un play")
    assert encoding.tokens == ["[CLS]", "the", "[SEP]", "un", "play", "[SEP]"]
    assert encoding.segment_ids == [0, 0, 0, 1, 1, 1]
    assert encoding.offsets == [None, (0, 3), None, (0, 2), (3, 7), None]


def test_an_empty_text_is_cls_sep() -> None:
    assert small().encode("").tokens == ["[CLS]", "[SEP]"]
    assert small().encode("", "").tokens == ["[CLS]", "[SEP]", "[SEP]"]


def test_a_long_text_loses_its_end() -> None:
    encoding = small().encode("a b c d e f", max_length=5)
    assert encoding.tokens == ["[CLS]", "a", "b", "c", "[SEP]"]
    assert len(small().encode("a " * 600).ids) == 512
    assert len(small().encode("a " * 600, max_length=None).ids) == 602


def test_a_long_pair_loses_tokens_from_the_longer_text() -> None:
    encoding = small().encode("a b c d e f", "x y", max_length=8)
    assert encoding.tokens == ["[CLS]", "a", "b", "c", "[SEP]", "x", "y", "[SEP]"]


def test_truncated_lengths_are_those_of_taking_one_token_at_a_time() -> None:
    for first in range(12):
        for second in range(12):
            for budget in range(14):
                a, b = first, second
                while a + b > budget:
                    if a > b:
                        a -= 1
                    else:
                        b -= 1
                assert truncated_lengths(first, second, budget) == (a, b)


@pytest.mark.parametrize(("pair", "max_length", "least"), [(None, 2, 3), ("x", 4, 5)])
def test_no_room_for_a_token_is_an_error(pair: str | None, max_length: int, least: int) -> None:
    with pytest.raises(UserError, match=f"at least {least}"):
        small().encode("a", pair, max_length=max_length)
    small().encode("a", pair, max_length=least)


# ---- files -------------------------------------------------------------------------------------


def test_a_saved_tokenizer_comes_back(hard: Tokenizer, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    hard.save(tmp_path)
    again = Tokenizer.load(tmp_path)
    assert (again.vocabulary, again.lower_case) == (hard.vocabulary, hard.lower_case)
    assert again.word_limit == 200
    assert (tmp_path / "config.json").read_text() == "{}"
    assert {path.name for path in tmp_path.iterdir()} == {
        *("config.json", "vocab.txt", "tokenizer.json", "tokenizer_config.json"),
        "special_tokens_map.json",
    }


def test_the_word_limit_is_kept(tmp_path: Path) -> None:
    Tokenizer(ENTRIES, True, word_limit=100).save(tmp_path)
    assert Tokenizer.load(tmp_path).tokenize("a" * 101) == ["[UNK]"]


@pytest.mark.parametrize("stored", [True, False])
def test_special_tokens_in_text_are_kept_as_a_setting(tmp_path: Path, stored: bool) -> None:
    Tokenizer(ENTRIES, True, special_tokens=stored).save(tmp_path)
    tokenizer = pickle.loads(pickle.dumps(Tokenizer.load(tmp_path)))
    whole, words_ = ["[MASK]"], ["[", "mask", "]"]
    assert tokenizer.tokenize("[MASK]") == (whole if stored else words_)
    assert tokenizer.pieces("[MASK]").ends == ([6] if stored else [1, 5, 6])
    assert tokenizer.encode("[MASK]").tokens[1:-1] == (whole if stored else words_)
    assert tokenizer.tokenize("[MASK]", special_tokens=True) == whole
    assert tokenizer.tokenize("[MASK]", special_tokens=False) == words_


def test_an_option_given_replaces_the_stored_one(tmp_path: Path) -> None:
    Tokenizer(ENTRIES, True).save(tmp_path)
    for path in (tmp_path, tmp_path / "vocab.txt"):
        other = Tokenizer.load(path, lower_case=True, word_limit=100, special_tokens=True)
        assert (other.word_limit, other.special_tokens) == (100, True)
        same = Tokenizer.load(path, lower_case=True)
        assert (same.word_limit, same.special_tokens) == (200, False)


@pytest.mark.parametrize("limit", [0, -1])
def test_a_word_limit_below_one_is_an_error(limit: int) -> None:
    with pytest.raises(UserError, match="word limit"):
        Tokenizer(ENTRIES, True, word_limit=limit)


def test_a_stored_word_limit_that_is_no_number_is_an_error(tmp_path: Path) -> None:
    small().save(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text(
        '{"do_lower_case": true, "max_input_chars_per_word": "many"}'
    )
    with pytest.raises(UserError, match="max_input_chars_per_word='many'"):
        Tokenizer.load(tmp_path)


def test_a_tokenizer_can_be_sent_to_another_process() -> None:
    tokenizer = small(lower_case=False)
    tokenizer.token_ids("THE play")
    again = pickle.loads(pickle.dumps(tokenizer))
    assert len(again._ids) == 0
    assert again.tokenize("THE play") == ["THE", "play"]


def test_casing_falls_back_to_tokenizer_json(hard: Tokenizer, tmp_path: Path) -> None:
    hard.save(tmp_path)
    (tmp_path / "tokenizer_config.json").unlink()
    assert Tokenizer.load(tmp_path).lower_case == hard.lower_case


def test_unknown_casing_is_an_error_that_says_what_to_pass(tmp_path: Path) -> None:
    small().save(tmp_path)
    (tmp_path / "tokenizer.json").unlink()
    (tmp_path / "tokenizer_config.json").write_text("{}")
    with pytest.raises(UserError, match="lower_case=True"):
        Tokenizer.load(tmp_path)
    with pytest.raises(UserError, match="lower_case=True"):
        Tokenizer.load(tmp_path / "vocab.txt")
    assert Tokenizer.load(tmp_path, lower_case=False).lower_case is False
    assert Tokenizer.load(tmp_path / "vocab.txt", lower_case=True).lower_case is True


def test_casing_that_contradicts_the_stored_one_is_an_error(tmp_path: Path) -> None:
    small().save(tmp_path)
    assert Tokenizer.load(tmp_path, lower_case=True).lower_case
    with pytest.raises(UserError, match="stored as lower-cased"):
        Tokenizer.load(tmp_path, lower_case=False)


@pytest.mark.parametrize(
    ("setting", "message"),
    [({"strip_accents": False}, "strip_accents"), ({"tokenize_chinese_chars": False}, "CJK")],
)
def test_rules_that_are_not_those_of_bert_are_refused(
    tmp_path: Path, setting: dict[str, bool], message: str
) -> None:
    small().save(tmp_path)
    path = tmp_path / "tokenizer_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | setting))
    with pytest.raises(UserError, match=message):
        Tokenizer.load(tmp_path)


def test_a_place_without_vocabulary_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no vocab\.txt"):
        Tokenizer.load(tmp_path)
    with pytest.raises(UserError, match="no tokenizer at"):
        Tokenizer.load(tmp_path / "absent")


def test_broken_settings_are_an_error(tmp_path: Path) -> None:
    small().save(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text("{")
    with pytest.raises(UserError, match="not JSON"):
        Tokenizer.load(tmp_path)


def test_an_entry_s_id_is_its_line_stripped_as_the_reference_does(tmp_path: Path) -> None:
    path = tmp_path / "vocab.txt"
    path.write_bytes("[PAD]\r\n[UNK] \n[CLS]\n[SEP]\n[MASK]\na\u2028\x0bb\n\u2028\n  c".encode())
    assert load_vocabulary(path) == [
        *("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a\u2028\x0bb", "", "c")
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", r"has no \[PAD\], \[UNK\], \[CLS\], \[SEP\], \[MASK\]"),
        (b"[PAD]\n[UNK]\n[CLS]\n[SEP]\na\n", r"has no \[MASK\];"),
        (b"[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\na\n", r"'a' 2 times \(ids 5, 7\)"),
        (b"[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n\n\n\n", r"an empty line 3 times"),
        (b"[PAD]\n\xff\n", "not UTF-8 at byte 6"),
    ],
)
def test_a_vocabulary_that_cannot_be_berts_is_an_error(
    tmp_path: Path, content: bytes, message: str
) -> None:
    path = tmp_path / "vocab.txt"
    path.write_bytes(content)
    with pytest.raises(UserError, match=message) as error:
        Tokenizer.load(path, lower_case=True)
    assert str(path) in str(error.value)


def test_released_vocabularies_load(shared_data: Path) -> None:
    for name, size in (("uncased", 30522), ("cased", 28996), ("chinese", 21128)):
        assert len(load_vocabulary(shared_data / f"vocab/bert-base-{name}/vocab.txt")) == size


# ---- Hugging Face ------------------------------------------------------------------------------

NATURAL = {
    "uncased": [
        "The man went to the store, and bought 2.5 gallons (9.5 l) of milk!",
        "Ünïcödé naïve café — señor Ångström's “résumé” costs $5; don't pay.",
        "He said: 'unaffable'...",
        "",
    ],
    "cased": ["Jim Henson was a puppeteer, in Zürich; the US$ rose 3.7%.", "LOUD É é e\u0301"],
    "chinese": ["北京大学 (PKU) 的学生在2023年写了一本书，《红楼梦》。", "我爱 Straße und café。"],
}


@pytest.mark.parametrize("name", sorted(NATURAL))
def test_transformers_reads_the_same_tokens(shared_data: Path, tmp_path: Path, name: str) -> None:
    transformers = pytest.importorskip("transformers")
    path = shared_data / f"vocab/bert-base-{name}/vocab.txt"
    ours = Tokenizer.load(path, lower_case=name != "cased")
    ours.save(tmp_path)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    assert len(theirs) == len(ours)
    assert theirs.mask_token_id == ours.mask_id
    assert theirs.model_max_length == 512
    for text in NATURAL[name]:
        assert theirs.tokenize(text) == ours.tokenize(text)
        one = ours.encode(text)
        assert theirs(text)["input_ids"] == one.ids
        pair, both = theirs(text, "the end"), ours.encode(text, "the end")
        assert pair["input_ids"] == both.ids
        assert pair["token_type_ids"] == both.segment_ids
    assert (
        theirs("the [MASK] .")["input_ids"] == ours.encode("the [MASK] .", special_tokens=True).ids
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", ["uncased", "cased", "chinese"])
def test_transformers_agrees_on_books_and_news(
    shared_data: Path, tmp_path: Path, name: str
) -> None:
    transformers = pytest.importorskip("transformers")
    path = shared_data / f"vocab/bert-base-{name}/vocab.txt"
    ours = Tokenizer.load(path, lower_case=name != "cased")
    ours.save(tmp_path)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    corpora = shared_data / "corpora"
    source = "novels-en/Eliot_Adam_1859.txt"
    if name == "chinese":
        source = "news-zh/clue-corpus-small-2500-documents.txt"
    lines = (corpora / source).read_text("utf-8").split("\n")[:8000]
    assert theirs(lines, add_special_tokens=False)["input_ids"] == list(map(ours.token_ids, lines))
