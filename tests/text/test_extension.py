"""Extending a vocabulary: old ids stay, [unused] entries are filled first, new text is shorter."""

from __future__ import annotations

from pathlib import Path

import pytest

from bertkit.errors import UserError
from bertkit.text.config import VocabConfig
from bertkit.text.extension import extended, learn_additions, unused_ids
from bertkit.text.learning import list_words
from bertkit.text.tokenizer import SPECIAL_TOKENS, Tokenizer, load_vocabulary
from bertkit.text.vocabulary import learn_vocabulary

LETTERS = [*"abcdefghijklmnopqrstuvwxyz", *("##" + one for one in "abcdefghijklmnopqrstuvwxyz")]


def old_tokenizer(unused: int = 3, lower_case: bool = True) -> Tokenizer:
    free = [f"[unused{number}]" for number in range(unused)]
    return Tokenizer(["[PAD]", *free, *SPECIAL_TOKENS[1:], *LETTERS, "play", "##ing"], lower_case)


def test_new_tokens_take_the_unused_entries_and_then_the_end() -> None:
    old = old_tokenizer(2).vocabulary
    assert unused_ids(old) == [1, 2]
    longer, filled = extended(old, ["one", "two", "three"])
    assert filled == 2
    assert longer == [old[0], "one", "two", *old[3:], "three"]
    assert extended(old, ["one"]) == ([old[0], "one", *old[2:]], 1)
    assert extended(old, []) == (old, 0)


def test_words_that_the_old_vocabulary_splits_most_often_are_learned() -> None:
    words = list_words({"replaying": 20, "play": 900, "gene": 30, "zz": 1}.items())
    assert learn_additions(old_tokenizer(), words, 2) == ["gene", "replaying"]


def test_a_piece_that_larger_ones_have_absorbed_is_left_out() -> None:
    words = list_words({"gene": 30, "genes": 10}.items())
    tokens = learn_additions(old_tokenizer(), words, 10)
    assert tokens == ["gene", "genes"]  # not "ge", "gen", "##en"
    words = list_words({"gene": 30, "gent": 10}.items())
    assert learn_additions(old_tokenizer(), words, 10, min_frequency=2) == ["gene", "gent"]
    assert learn_additions(old_tokenizer(), words, 1, min_frequency=2) == ["gene"]
    assert learn_additions(old_tokenizer(), words, 2, min_frequency=20) == ["gene"]


def test_no_old_entry_is_learned_again() -> None:
    old = Tokenizer([*SPECIAL_TOKENS, *LETTERS, "un", "##able", "unable", "una", "##ble"], True)
    words = list_words({"xunable": 9, "unables": 9, "unable": 50}.items())
    tokens = learn_additions(old, words, 50)
    assert tokens
    assert not set(tokens) & set(old.vocabulary)
    Tokenizer(extended(old.vocabulary, tokens)[0], True)  # which refuses an entry twice


def test_characters_that_the_old_vocabulary_lacks_come_first_and_are_half_at_most() -> None:
    words = list_words({"5μg": 40, "→": 30, "é": 20, "gene": 100, "5": 1}.items())
    old = old_tokenizer()
    assert learn_additions(old, words, 4) == ["5", "##μ", "gene", "5μg"]
    assert learn_additions(old, words, 4, alphabet=1) == ["5", "gene"]
    assert learn_additions(old, words, 8)[:4] == ["5", "##μ", "→", "é"]
    assert learn_additions(old, words, 8, min_frequency=25)[:3] == ["5", "##μ", "→"]


def test_numbers_below_one_are_errors() -> None:
    words = list_words({"gene": 30}.items())
    for options in ({"min_frequency": 0}, {"alphabet": 0}, {"min_pair_frequency": 0}):
        with pytest.raises(UserError, match="1 or more"):
            learn_additions(old_tokenizer(), words, 5, **options)
    with pytest.raises(UserError, match="add is 0"):
        learn_additions(old_tokenizer(), words, 0)


# ---- from files to files -----------------------------------------------------------------------


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    folder = tmp_path / "texts"
    folder.mkdir()
    for number in range(40):
        text = f"The Genome of the {'mouse' if number % 2 else 'human'} is replaying genes.\n"
        (folder / f"{number}.txt").write_text(text * 3 + chr(97 + number % 26))
    return folder


def test_an_extension_changes_no_old_id_and_shortens_new_text(texts: Path, tmp_path: Path) -> None:
    old = old_tokenizer(3)
    old.special_tokens = True
    (tmp_path / "old").mkdir()
    old.save(tmp_path / "old")
    config = VocabConfig(
        [str(texts)],
        str(tmp_path / "new"),
        extend=str(tmp_path / "old"),
        add=5,
        held_out=0.2,
        quiet=True,
    )
    result = learn_vocabulary(config)
    new = Tokenizer.load(tmp_path / "new")
    assert new.lower_case and new.special_tokens
    for number, entry in enumerate(old.vocabulary):
        assert new.vocabulary[number] == entry or entry.startswith("[unused")
    assert result.extension is not None
    assert (result.extension.into_unused, result.extension.appended) == (3, 2)
    assert result.size == len(new) == len(old) + 2
    assert not unused_ids(new.vocabulary)
    assert 0 < result.held_out_documents < 40
    assert result.documents + result.held_out_documents == 40
    assert result.pieces_per_word < result.extension.before.pieces_per_word
    sentence = "the genome of the mouse"
    assert len(new.token_ids(sentence)) < len(old.token_ids(sentence))
    assert "3 tokens in [unused] entries, 2 appended" in str(result)
    assert "2 more token embeddings" in str(result)


def test_without_a_number_the_unused_entries_are_filled(texts: Path, tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    old_tokenizer(4, lower_case=False).save(tmp_path / "old")
    config = VocabConfig(
        [str(texts)], str(tmp_path / "new"), extend=str(tmp_path / "old"), quiet=True
    )
    result = learn_vocabulary(config)
    assert not result.lower_case  # the old casing
    assert result.extension is not None
    assert (result.extension.into_unused, result.extension.appended) == (4, 0)
    config.extend = config.output
    config.output = str(tmp_path / "newer")
    with pytest.raises(UserError, match=r"no \[unused\] entries.*--add"):
        learn_vocabulary(config)


def test_a_bare_vocabulary_needs_its_casing(texts: Path, tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    old_tokenizer().save(tmp_path / "old")
    bare = tmp_path / "bare.txt"
    bare.write_bytes((tmp_path / "old" / "vocab.txt").read_bytes())
    config = VocabConfig([str(texts)], str(tmp_path / "new"), extend=str(bare), quiet=True)
    with pytest.raises(UserError, match="lower"):
        learn_vocabulary(config)
    config.lower_case = True
    assert learn_vocabulary(config).lower_case
    config.extend, config.lower_case = str(tmp_path / "old"), False
    with pytest.raises(UserError, match="stored as lower-cased"):
        learn_vocabulary(config)


def test_options_that_contradict_an_extension_are_errors(texts: Path, tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    old_tokenizer().save(tmp_path / "old")
    old, new = str(tmp_path / "old"), str(tmp_path / "new")
    for options, message in (
        ({"extend": old, "unused": 5}, "--unused"),
        ({"extend": old, "layout": "release"}, "--layout"),
        ({"add": 5}, "--extend"),
        ({"extend": old, "add": 5, "size": 77}, "not --size"),
        ({"extend": old, "add": 0}, "1 or more"),
        ({"extend": str(tmp_path / "absent")}, "no tokenizer"),
    ):
        with pytest.raises(UserError, match=message):
            learn_vocabulary(VocabConfig([str(texts)], new, quiet=True, **options))
    with pytest.raises(UserError, match="replace the old vocabulary"):
        learn_vocabulary(VocabConfig([str(texts)], old, extend=old, quiet=True))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["old", "texts"]


def test_a_released_vocabulary_learns_german(shared_data: Path, tmp_path: Path) -> None:
    released = shared_data / "vocab" / "bert-base-uncased" / "vocab.txt"
    text = tmp_path / "german.txt"
    sentence = "Die Wortschatzerweiterung verändert keine alten Nummern der Wortstücke.\n\n"
    text.write_text("".join(sentence + f"Absatz {n}.\n\n" for n in range(30)), encoding="utf-8")
    config = VocabConfig(
        [str(text)],
        str(tmp_path / "new"),
        extend=str(released),
        lower_case=True,
        add=20,
        quiet=True,
    )
    result = learn_vocabulary(config)
    old, new = load_vocabulary(released), load_vocabulary(tmp_path / "new" / "vocab.txt")
    assert [number for number in range(len(old)) if old[number] != new[number]] == [
        *range(1, result.extension.into_unused + 1)  # type: ignore[union-attr]
    ]
    assert "wortschatzerweiterung" in new[1:21]
