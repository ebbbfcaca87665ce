"""Every scheme of tags becomes IOB2 with the same entities; what breaks it is counted."""

from __future__ import annotations

import random

import pytest

from bertkit.tasks.metrics import Chunk, chunks
from bertkit.tasks.schemes import iob2_of_sentences
from bertkit.tasks.task import Columns
from bertkit.tasks.word_readers import read_columns, words_of_bmes

SCHEMES = {
    # beginning, inside, end, single
    "IOB2": "BIIB",
    "IOBES": "BIES",
    "BMES": "BMES",
    "BILOU": "BILU",
}


def random_entities(generator: random.Random, words: int) -> list[Chunk]:
    found, place = [], 0
    while place < words:
        length = generator.randrange(1, 5)
        if generator.random() < 0.6 and place + length <= words:
            found.append(Chunk(generator.choice(("PER", "LOC")), place, place + length - 1))
        place += length
    return found


def tags_of(entities: list[Chunk], words: int, scheme: str) -> list[str]:
    tags = ["O"] * words
    previous: Chunk | None = None
    for entity in entities:
        label, first, last = entity
        for word in range(first, last + 1):
            if scheme == "IOB1":
                touches = previous is not None and previous.last == first - 1
                same = touches and previous is not None and previous.label == label
                prefix = "B" if word == first and same else "I"
            elif first == last:
                prefix = SCHEMES[scheme][3]
            else:
                place = 0 if word == first else 2 if word == last else 1
                prefix = SCHEMES[scheme][place]
            tags[word] = f"{prefix}-{label}"
        previous = entity
    return tags


@pytest.mark.parametrize("scheme", [*SCHEMES, "IOB1"])
def test_a_scheme_becomes_iob2_with_the_same_entities(scheme):
    generator = random.Random(4)
    sizes = [generator.randrange(1, 14) for _ in range(200)]
    entities = [random_entities(generator, size) for size in sizes]
    given = [tags_of(one, size, scheme) for one, size in zip(entities, sizes, strict=True)]
    tags, broken = iob2_of_sentences(given)
    assert broken == []
    assert [chunks(one) for one in tags] == entities
    assert tags == [tags_of(one, size, "IOB2") for one, size in zip(entities, sizes, strict=True)]


@pytest.mark.parametrize(
    ("tags", "broken"),
    [
        ([["B-PER", "O", "I-PER"], ["B-LOC"]], [(0, 2, "I-PER after O")]),
        ([["O", "B-PER", "I-LOC"]], [(0, 2, "I-LOC after B-PER")]),
        ([["I-PER", "B-PER"]], []),  # IOB1
        ([["B-PER", "O"], ["S-PER"]], [(0, 1, "O after B-PER")]),
        ([["B-PER", "I-PER"], ["S-PER"]], [(0, 1, "O after I-PER")]),
        ([["B-PER", "E-LOC"], ["S-PER"]], [(0, 1, "E-LOC after B-PER")]),
        ([["NN", "VB"]], []),
    ],
)
def test_tags_that_break_their_scheme_are_found(tags, broken):
    assert iob2_of_sentences(tags)[1] == broken


def test_broken_tags_are_counted_with_their_lines_and_read_as_conlleval_does(tmp_path, capsys):
    path = tmp_path / "a.conll"
    path.write_text("a B-PER\nb O\nc I-PER\n\n" * 5)
    examples = read_columns(path, Columns())
    assert examples[0].tags == ["B-PER", "O", "B-PER"]
    said = " ".join(capsys.readouterr().err.split())
    assert "5 tags break their scheme" in said
    assert "line 1, word 3: I-PER after O; line 5, word 3" in said
    assert "and 2 more" in said


def test_documents_are_numbered_where_the_file_marks_them(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("-DOCSTART- O\n\na O\n\nb B-PER\n\n-DOCSTART- O\n\nc O\n")
    assert [example.document for example in read_columns(path, Columns())] == [0, 0, 1]
    path.write_text("a O\n\nb B-PER\n")
    assert [example.document for example in read_columns(path, Columns())] == [None, None]


def test_words_come_back_from_their_tags_and_broken_tags_lose_no_character():
    assert words_of_bmes(list(zip("希望的新世纪", "BESSBE", strict=True))) == [
        "希望",
        "的",
        "新",
        "世纪",
    ]
    generator = random.Random(0)
    for _ in range(200):
        tags = generator.choices("BMES", k=generator.randrange(1, 9))
        text = "abcdefgh"[: len(tags)]
        assert "".join(words_of_bmes(list(zip(text, tags, strict=True)))) == text


def test_what_can_be_no_tag_is_outside_and_counted():
    tags, broken = iob2_of_sentences([["B-PER", "I-PER", "Z-PER", "O"], ["B-", "B-LOC"]])
    assert tags == [["B-PER", "I-PER", "O", "O"], ["O", "B-LOC"]]
    assert [(number, word) for number, word, _ in broken] == [(0, 2), (1, 0)]
    assert broken[0][2] == "'Z-PER' is no tag and is read as O"
    bare = [["X-Y", "NN"], ["W-", "NN"]]  # parts of speech may look so
    assert iob2_of_sentences(bare) == (bare, [])


def test_small_letters_are_read_as_large_ones():
    tags, broken = iob2_of_sentences([["b-per", "i-per", "o"], ["o", "b-loc"]])
    assert (tags, broken) == ([["B-per", "I-per", "O"], ["O", "B-loc"]], [])


@pytest.mark.parametrize("single", ["S", "U", "W"])
def test_a_file_of_one_word_entities_alone_has_a_scheme_too(single):
    tags, broken = iob2_of_sentences([[f"{single}-PER", "O", f"{single}-LOC"]])
    assert (tags, broken) == ([["B-PER", "O", "B-LOC"]], [])


@pytest.mark.parametrize("tags", [["U-x", "NN"], ["W-x", "Z-x"]])
def test_names_that_only_look_like_prefixes_are_names(tags):
    assert iob2_of_sentences([tags]) == ([tags], [])
