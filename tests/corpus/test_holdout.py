"""Held-out documents: chosen by what they are, at least one or two, never all."""

from __future__ import annotations

from array import array

import pytest

from bertkit.corpus.holdout import choose_named, choose_share, source_name
from bertkit.errors import UserError
from bertkit.text.documents import Document
from bertkit.text.holdout import split_key


def keys(count: int, seed: int = 0) -> array[int]:
    return array("Q", [split_key(Document("", f"text {n}"), seed) for n in range(count)])


def held(all_keys: array[int], share: float) -> set[int]:
    holdout = choose_share(all_keys, share)
    found = {key for key in all_keys if holdout.holds_out(key)}
    assert holdout.documents == sum(key in found for key in all_keys)
    return found


def test_a_key_is_the_text_unless_the_source_gave_an_identity() -> None:
    assert split_key(Document("a:1", "x"), 0) == split_key(Document("b:9", "x"), 0)
    assert split_key(Document("a:1", "x"), 0) != split_key(Document("a:1", "y"), 0)
    assert split_key(Document("a", "x", True), 0) == split_key(Document("a", "y", True), 0)
    assert split_key(Document("a", "x", True), 0) != split_key(Document("b", "x", True), 0)


def test_the_share_is_kept_and_the_seed_chooses() -> None:
    share = len(held(keys(20_000), 0.1)) / 20_000
    assert 0.09 < share < 0.11
    chosen = []
    for seed in (1, 2):
        all_keys = keys(2000, seed)
        found = held(all_keys, 0.5)
        chosen.append({number for number, key in enumerate(all_keys) if key in found})
    assert 400 < len(chosen[0] & chosen[1]) < 600  # independent choices


@pytest.mark.parametrize(
    ("documents", "number"), [(0, 0), (1, 0), (2, 1), (3, 1), (9, 1), (10, 2), (40, 2)]
)
def test_few_documents_still_give_a_dev_split(documents: int, number: int) -> None:
    assert len(held(keys(documents), 1e-9)) == number
    assert not held(keys(documents), 0)


def test_more_documents_move_none_to_the_other_side() -> None:
    few, many = held(keys(1000), 0.05), held(keys(3000), 0.05)
    assert few == many & set(keys(1000))


@pytest.mark.parametrize("share", [0.01, 0.9999999999])
def test_never_all_documents_are_held_out(share: float) -> None:
    assert not held(array("Q", [5] * 30), share)
    assert held(array("Q", [5] * 30 + [9] * 30), share) == {5}
    assert len(held(keys(3), share)) in (1, 2)


def test_a_place_names_its_file() -> None:
    assert source_name(Document("b/news.txt:12", "")) == "b/news.txt"
    assert source_name(Document("novel.txt", "")) == "novel.txt"
    assert source_name(Document("id:12", "", True)) == "id:12"


def test_named_documents_take_their_copies_with_them() -> None:
    all_keys = array("Q", [1, 2, 3, 2])
    assert choose_named(all_keys, {"b": {2}}).documents == 2
    with pytest.raises(UserError, match="no document or file is named 'x'"):
        choose_named(all_keys, {"b": {2}, "x": set()})
    with pytest.raises(UserError, match="none is left"):
        choose_named(all_keys, {"b": {1, 2, 3}})
