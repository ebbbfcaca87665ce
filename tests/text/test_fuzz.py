"""Any text at all: ids and places against the reference release's rules, restated plainly.

Skipped without `hypothesis`. The plain rules ask Python for Unicode, so code points that Unicode
14.0 had not assigned are left out under a Python that has them.
"""

from __future__ import annotations

import sys

import pytest

from bertkit.text.tokenizer import SPECIAL_TOKENS, Tokenizer
from bertkit.text.unicode_tables import category, combining_class, decompose
from bertkit.text.wordpiece import words
from tests.text.plain_tokenizer import HARD_PARTS, as_in_unicode_14, plain_tokenize

hypothesis = pytest.importorskip("hypothesis")
st = hypothesis.strategies

LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"
ENTRIES = [
    *SPECIAL_TOKENS,
    *"!\"#$%&'()*+,-./:;<=>?@[]^_`{|}~",
    *LETTERS,
    *[f"##{letter}" for letter in LETTERS],
    *("the", "##ing", "un", "##aff", "##able", "play", "mask", "istanbul", "οδος", "##ς", "##σ"),
    *("中", "文", "豈", "ひ", "\u1112", "##\u1161", "##\u11ab", "😀", "—", "É", "##é", "Σ"),
    *("\ud800", "##\ud800", "\ue000", "\u0378", "\u302e", "##\u302f", "\U0001d157", "##\U0001d165"),
]
KNOWN = frozenset(ENTRIES)
TOKENIZERS = {
    (lower_case, limit): Tokenizer(ENTRIES, lower_case, limit)
    for lower_case in (True, False)
    for limit in (200, 100)
}


any_character = st.one_of(
    st.integers(0, sys.maxunicode).map(chr),  # surrogates too
    st.integers(0, 0x2FF).map(chr),
    st.integers(0x300, 0x33FF).map(chr),
    st.characters(categories=["Mn", "Mc", "Cf", "Cc", "Zs", "P", "Lu"]),
).filter(as_in_unicode_14)
part = st.one_of(
    st.text(any_character, max_size=12),
    st.sampled_from(HARD_PARTS),
    st.sampled_from(["the", "unaffable", "Playing", " ", ",", "ΟΔΟΣ", "istanbul", "中文"]),
    st.builds(str.__mul__, any_character, st.integers(95, 210)),  # around both word limits
)
any_text = st.lists(part, max_size=12).map("".join)
settings = hypothesis.settings(
    max_examples=400,
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)


@pytest.mark.parametrize(("lower_case", "limit"), TOKENIZERS)
def test_any_text_has_the_tokens_of_the_reference(lower_case: bool, limit: int) -> None:
    tokenizer = TOKENIZERS[lower_case, limit]

    @settings
    @hypothesis.given(any_text)
    def holds(text: str) -> None:
        expected = plain_tokenize(text, KNOWN, lower_case, limit)
        assert tokenizer.tokenize(text) == expected
        assert tokenizer.tokenize(text) == expected  # now remembered
        assert tokenizer.pieces(text).ids == tokenizer.token_ids(text)

    holds()


@pytest.mark.parametrize("lower_case", [True, False], ids=["uncased", "cased"])
def test_the_text_at_the_place_of_any_token_normalizes_to_the_token(lower_case: bool) -> None:
    tokenizer = TOKENIZERS[lower_case, 200]

    @settings
    @hypothesis.given(any_text)
    def holds(text: str) -> None:
        pieces = tokenizer.pieces(text)
        for number, start, end in zip(pieces.ids, pieces.starts, pieces.ends, strict=True):
            assert 0 <= start < end <= len(text)
            normal = words(text[start:end], lower_case)
            assert len(normal) == 1
            token = ENTRIES[number]
            if token == "[UNK]":
                continue
            # which sigma depends on what stands around it
            source = normal[0].replace("ς", "σ")
            piece = token.removeprefix("##").replace("ς", "σ")
            # one character can be the source of several pieces: a syllable, a note with its stem
            assert source == piece or (piece in source and moved_or_one(text[start:end]))

    holds()


def moved_or_one(source: str) -> bool:
    """Whether a place can be shared: of one character, or where canonical order moved marks."""
    kept = [char for char in source if category(char) not in ("Mn", "Cc", "Cf")]
    return len(kept) == 1 or any(map(combining_class, decompose(source)))


@settings
@hypothesis.given(st.lists(st.sampled_from(["[MASK]", "[SEP]", "the", " ", "[", "é\u0301", "中"])))
def test_special_tokens_are_found_whole_and_the_rest_is_text(parts: list[str]) -> None:
    text = "".join(parts)
    pieces = TOKENIZERS[True, 200].pieces(text, special_tokens=True)
    spans = zip(pieces.ids, pieces.starts, pieces.ends, strict=True)
    found = [text[a:b] for number, a, b in spans if ENTRIES[number] in ("[MASK]", "[SEP]")]
    assert found == [part for part in parts if len(part) > 4]
