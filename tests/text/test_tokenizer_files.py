"""The tokenizer's files: slow and fast, added tokens, and files that disagree."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bertkit.errors import UserError
from bertkit.text.tokenizer import Tokenizer
from bertkit.text.tokenizer_files import casing_warning, has_capitals, load_vocabulary


@pytest.fixture
def saved(tiny_tokenizer: Tokenizer, tmp_path: Path) -> Path:
    tiny_tokenizer.save(tmp_path)
    return tmp_path


def change(path: Path, edit: Any) -> None:
    values = json.loads(path.read_text(encoding="utf-8"))
    edit(values)
    path.write_text(json.dumps(values, ensure_ascii=False), encoding="utf-8")


def test_the_fast_file_alone_is_enough(saved: Path, tiny_tokenizer: Tokenizer) -> None:
    for name in ("vocab.txt", "tokenizer_config.json", "special_tokens_map.json"):
        (saved / name).unlink()
    loaded = Tokenizer.load(saved)
    assert loaded.vocabulary == tiny_tokenizer.vocabulary and loaded.lower_case
    assert loaded.token_ids("The unaffable 人") == tiny_tokenizer.token_ids("The unaffable 人")


def test_what_transformers_saves_is_read(saved: Path, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    peer = transformers.AutoTokenizer.from_pretrained(saved)
    peer.save_pretrained(tmp_path / "theirs")
    text = "The cat, unaffable, sat in 人店."
    assert Tokenizer.load(tmp_path / "theirs").encode(text).ids == peer(text)["input_ids"]


def test_added_tokens_are_entries_after_the_last(saved: Path, tiny_tokenizer: Tokenizer) -> None:
    count = len(tiny_tokenizer)
    (saved / "added_tokens.json").write_text(json.dumps({"[B]": count + 1, "[A]": count}))
    assert Tokenizer.load(saved).vocabulary[count:] == ["[A]", "[B]"]
    (saved / "added_tokens.json").write_text(json.dumps({"[B]": count + 1}))
    with pytest.raises(UserError, match=r"'\[B\]' of id \d+, with a gap"):
        Tokenizer.load(saved)
    (saved / "added_tokens.json").write_text(json.dumps({"cat": count}))
    with pytest.raises(UserError, match="'cat' 2 times"):
        Tokenizer.load(saved)


def test_slow_and_fast_files_must_agree(saved: Path) -> None:
    text = (saved / "vocab.txt").read_text(encoding="utf-8")
    (saved / "vocab.txt").write_text(text.replace("\ndog\ncat\n", "\ncat\ndog\n"), encoding="utf-8")
    with pytest.raises(UserError, match=r"id \d+ is 'cat' in .*vocab\.txt and 'dog' in tokenizer"):
        Tokenizer.load(saved)


@pytest.mark.parametrize(
    ("edit", "says"),
    [
        (lambda v: v["model"].update(type="BPE"), "a tokenizer of kind 'BPE'"),
        (lambda v: v["model"].update(continuing_subword_prefix="@@"), "with the prefix '@@'"),
        (lambda v: v["model"].update(unk_token="<unk>"), "unknown token '<unk>'"),
        (lambda v: v["model"].update(vocab=[]), "no WordPiece vocabulary"),
        (lambda v: v["model"]["vocab"].update(cat=10**9), "does not number its entries"),
        (lambda v: v["model"]["vocab"].update(cat=True), "does not number its entries"),
        (lambda v: v["normalizer"].update(handle_chinese_chars=False), "CJK characters"),
        (lambda v: v["added_tokens"].append({"id": -1, "content": "x"}), "without a number"),
    ],
)
def test_what_is_no_bert_tokenizer_is_refused(edit: Any, says: str, saved: Path) -> None:
    for name in ("vocab.txt", "tokenizer_config.json"):
        (saved / name).unlink()
    change(saved / "tokenizer.json", edit)
    with pytest.raises(UserError, match=says) as error:
        Tokenizer.load(saved)
    assert "\n" not in str(error.value)


def test_capitals_tell_the_casing_of_the_released_vocabularies(shared_data: Path) -> None:
    for name, cased in (("uncased", False), ("cased", True), ("chinese", False)):
        file = shared_data / "vocab" / f"bert-base-{name}" / "vocab.txt"
        vocabulary = load_vocabulary(file)
        assert has_capitals(vocabulary) is cased
        assert casing_warning(vocabulary, lower_case=not cased) is None
        assert casing_warning(vocabulary, lower_case=cased) is not None


def test_scripts_without_case_have_no_wrong_casing() -> None:
    assert has_capitals(["[PAD]", "人", "##是", "<S>"]) is None
    assert casing_warning(["[PAD]", "人"], lower_case=False) is None
