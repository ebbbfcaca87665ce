"""Sentence splitting: marked English and Chinese text, and the rules one by one."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from bertkit.errors import UserError
from bertkit.text.sentences import MAX_SENTENCE, split_sentences

MARKED = Path(__file__).parent / "data"

# Each line is a paragraph; "‖" marks a boundary inside it. Written beside the rules, to touch each;
# the passages of tests/text/data were marked before any code saw them.
ENGLISH = """\
Mr. and Mrs. Hale moved here in 1999.‖ They had two dogs, a cat and a parrot.
Dr. Osei met Prof. Lindqvist at 9.30 a.m. in Room 4.‖ The talk lasted until 11.15 a.m.‖ It was dull.
J. R. Moreno wrote it.‖ Nobody read it.
The price rose by 3.5 percent to $12.40 a share.‖ Traders shrugged.
"Stop!" she cried.‖ "You will fall."‖ He stopped.
"Are you coming?" asked the driver.‖ "Not today," she said.
"No!" Peter shouted.‖ The door shut.
Use a solvent, e.g. Alcohol or ether, i.e. Nothing watery.‖ Then rinse.
See Fig. 3 and Eq. 12 for details.‖ See also pp. 40 to 45.
The firm Baker & Sons Inc. was sold.‖ Its rival Acme Ltd. was too dear.
He works for the U.S. Navy.‖ She was born in the U.S.‖ They met at sea.
Well... I think so.‖ He paused...‖ Then he spoke.
What?!‖ You paid for that?‖ Yes, I did.
He left (the door stayed open).‖ (Nobody saw him go.)‖ It rained.
The result was clear [see note].‖ "We won," she wrote.[3]‖ Others differ.[12]‖ Who knows?
1. Open the box.‖ 2. Take out the lamp.‖ 3. Switch it on.
The train to St. Albans leaves from platform No. 5.‖ Do not miss it.
She studied art.‖ He studied law.‖ The answer was no.‖ Both were happy.
Visit www.example.org or write to a.b@example.org.‖ We answer within 24 hrs.‖ Thank you.
Version 2.0.1 is out.‖ It needs Python 3.11 or newer.‖ Node.js is not needed.
The meeting is on Mon. 5 Jan. at noon.‖ Please be there.
He sat.‖ Peter stood.‖ The sun was low.‖ Anna slept.
"I came.‖ I saw.‖ I left," he said.
Gen. Ortega and Capt. Blake disagreed.‖ Sgt. Pell did not care.
The vote was Smith vs. Jones.‖ Smith won.
We sell nuts, bolts, screws, etc. to builders.‖ We sell paint, brushes, etc.‖ The shop opens at 8
He said 'It is over.'‖ She nodded.
Was it Kim?‖ "Kim," he said, "never lies."‖ I believed him.
In 1848 the king fled.‖ 12 years later he came back.
"Why?" — "Because I can."‖ They laughed.
The first clause ends here; the second goes on.‖ The third: nothing.
A new line of J. Brown & Co. carriages was shown.‖ They sold well.
It cost 5.‖ Nobody paid.
Smith et al. (2019) disagree.‖ We follow Smith et al.‖ The rest is ours.
Lunch is at 1 p.m.‖ The cook is late, as ever!‖ Mrs. Ito cannot wait.
Lt. Cmdr. A. B. Vance took the 5.40 to Mt. Vernon.‖ He never came back.
Is it true?‖ Yes!‖ And yet... I doubt it.
I asked for tea.‖ Tea came.‖ Coffee did not!
“That,” he said, “is mine.”‖ “Is it?”‖ “Yes.”
“Where is Mr. Dane?” Miss Lowell asked.‖ Nobody knew.
He was a Ph.D. student then.‖ Later he taught.
Read vol. IV, ch. 2, sec. 7.‖ It helps.
The island lies at 12 ft. above the sea.‖ The hill rises 300 ft.‖ The view is fine.
"""

CHINESE = """\
今天天气很好。‖我们去公园散步吧！‖你想去吗？
他说：“我不知道。”‖然后他走了。‖没有人叫他。
“真的吗？”她问。‖“当然是真的！”他笑着回答。
他说“好的”，就走了。‖门没有关。
雨下了一整夜……‖第二天早上，路面全是水。
我想……，还是算了吧。‖明天再说。
什么？！‖你把它卖了？？‖太可惜了！！！
这本书分三章：第一章讲历史；第二章讲方法；第三章讲应用。
『你好！』他喊道。‖「再见。」她轻声说。
（他没有来。）‖会议照常进行。
公司去年的收入增长了3.5%，达到12.4亿元。‖利润也有所提高。
我用的是Python 3.11版。‖它比3.10快。
他读过《怎么办？》这本书。‖我没有读过。
"为什么？"她问。‖"因为下雨了。"他答。
他走了。‖"等等我！"孩子喊。
真的?‖我不信!‖你再说一遍.‖我听着。
北京、上海、广州都很热。‖哈尔滨不热。
小王说：“明天九点开会，别迟到！”，大家都点头。‖会后一起吃饭。
网址是www.example.org。‖请用邮箱a@example.org联系我们。
他大声说：“走吧！”‖大家就走了。
第一，要有耐心；第二，要有方法。
春天来了，花开了，鸟儿也回来了。‖孩子们在草地上放风筝。
“嗯……”‖她没有说下去。‖屋里很安静。
价格：￥25.50（含税）。‖数量：3。‖谢谢惠顾！
下雪了！‖快来看！‖真美啊！
他今年８岁。‖妹妹５岁。
这件事（你知道的。）‖不用再提。
你去不去？‖我去！‖他呢？‖不清楚。
“第一句。‖第二句。‖第三句。”‖他念完了。
他写道：“人生如梦。”‖这句话流传至今。
电影定于8月15日上映；票价为45元。
“快跑！”他一边喊，一边往前冲。‖我们都跟了上去。
这是真的吗？（我不信。）‖他摇了摇头。
（1）打开盖子。‖（2）放入电池。‖（3）按下开关。
张先生（1950年出生）是一位医生。‖他的妻子是一位教师。
她说：「我来了！」‖大家都很高兴。
比分是3:2！‖我们赢了！‖太好了。
温度降到－5.5℃。‖湖面结了冰。
老师问：“谁来回答？”‖没有人举手。
"""


def boundaries(sentences: list[str]) -> set[int]:
    """Ends of sentences, counted in characters that are not white space."""
    ends, total = set(), 0
    for sentence in sentences:
        total += len("".join(sentence.split()))
        ends.add(total)
    return ends


def passages(path: Path) -> Iterator[tuple[str, str]]:
    """The marked paragraphs of a file of tests/text/data, each with its kind of text."""
    for part in path.read_text("utf-8").split("\n== ")[1:]:
        kind, _, text = part.partition("\n")
        for paragraph in text.split("\n\n"):
            if paragraph.strip():
                yield kind, paragraph


def measure(marked: Iterable[tuple[str, str]]) -> tuple[int, float, list[str]]:
    """How many boundaries are marked, F1 of those found, and each that was missed or too many."""
    right = marked_total = found_total = 0
    wrong: list[str] = []
    for kind, paragraph in marked:
        expected = boundaries(paragraph.split("‖"))
        plain = paragraph.replace("‖", "")
        found = boundaries(split_sentences(plain))
        last = max(expected)
        expected, found = expected - {last}, found - {last}  # the paragraph's end is no merit
        right += len(expected & found)
        marked_total += len(expected)
        found_total += len(found)
        flat = "".join(plain.split())
        for place in sorted(expected ^ found):
            what = "missed" if place in expected else "too many"
            before, after = flat[max(0, place - 24) : place], flat[place : place + 12]
            wrong.append(f"{what} ({kind}): {before} ‖ {after}")
    return marked_total, 2 * right / (marked_total + found_total), wrong


@pytest.mark.parametrize(
    ("marked", "least"), [(ENGLISH, 0.97), (CHINESE, 0.98)], ids=["English", "Chinese"]
)
def test_boundaries_that_touch_each_rule_are_found(marked: str, least: float) -> None:
    total, f1, wrong = measure(("", paragraph) for paragraph in marked.splitlines())
    assert total >= 50
    assert f1 >= least, f"F1 {f1:.3f}\n" + "\n".join(wrong)


@pytest.mark.parametrize(("language", "least"), [("en", 0.974), ("zh", 0.968)])
def test_boundaries_marked_beforehand_are_found(language: str, least: float) -> None:
    """Measured: English 0.977, Chinese 0.971; docs/sentences.md lists every miss."""
    total, f1, wrong = measure(passages(MARKED / f"sentences-{language}.txt"))
    assert total >= 300
    assert f1 >= least, f"F1 {f1:.4f}\n" + "\n".join(wrong)


def test_chinese_news_is_split_as_its_publisher_did(shared_data: Path) -> None:
    """The lines of the lent corpus are sentences; joined, most of their ends are found again."""
    path = shared_data / "corpora" / "news-zh" / "clue-corpus-small-2500-documents.txt"
    blocks = path.read_text(encoding="utf-8-sig").split("\n\n")[:600]
    right = expected_total = found_total = 0
    for block in blocks:
        lines = [line.strip() for line in block.splitlines() if line.strip()]
        if not lines:
            continue
        expected, found = boundaries(lines), boundaries(split_sentences("\n".join(lines)))
        right += len(expected & found)
        expected_total += len(expected)
        found_total += len(found)
    assert 2 * right / (expected_total + found_total) > 0.95


LONG = "long enough to reach the margin of the block of lines"
WIDE = "no full stop in a line that is longer than anybody wraps " * 4
WIDE = WIDE.strip()


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("A line\nwrapped here. And\nhere.", ["A line wrapped here.", "And here."]),
        ("春天来\n了。花\r\n开了", ["春天来了。", "花开了"]),
        ("我用 Python\n写程序", ["我用 Python 写程序"]),
        ("A heading\n\nA text. ", ["A heading", "A text."]),
        (f"A heading\nA text {LONG}\nthat goes on.", ["A heading", f"A text {LONG} that goes on."]),
        (f"Cut\nshort {LONG}", [f"Cut short {LONG}"]),
        (f"{WIDE}\n{WIDE}\nOne\nTwo", [WIDE, WIDE, "One", "Two"]),
        ("ANNA. You are late. BORIS. Never.", ["ANNA. You are late.", "BORIS. Never."]),
        ("我问科学家J. Smith先生。他说对。", ["我问科学家J. Smith先生。", "他说对。"]),
        ("“走！”他说。“走！”他知道。", ["“走！”他说。", "“走！”", "他知道。"]),
        ("好啊！😀明天见。", ["好啊！😀", "明天见。"]),
        ("no full stop at all", ["no full stop at all"]),
        ("all small. no capitals anywhere. mr. smith agrees.", None),
        ("he left . then she left .", ["he left .", "then she left ."]),
        ("Wait . . . what? Nothing.", ["Wait . . . what?", "Nothing."]),
        ("...", ["..."]),
        ("。。。", ["。。。"]),
        ("\n \t\n\u3000\n", []),
        ("", []),
        ("😀! 😃? Fine.", ["😀!", "😃?", "Fine."]),
        ("यह घर है। वह नदी है।", ["यह घर है।", "वह नदी है।"]),
    ],
)
def test_lines_and_odd_text(text: str, sentences: list[str] | None) -> None:
    if sentences is None:
        sentences = ["all small.", "no capitals anywhere.", "mr. smith agrees."]
    assert split_sentences(text) == sentences


def test_in_line_mode_every_line_that_is_not_blank_is_a_sentence() -> None:
    text = "One. Two.\r\n\r\n  三。四。 \n\t\nlast"
    assert split_sentences(text, "line") == ["One. Two.", "三。四。", "last"]


@pytest.mark.parametrize("mode", ["auto", "line"])
def test_no_character_is_lost_or_doubled(mode: str) -> None:
    text = "".join(chr(code) for code in range(1, 0x3100)) + ENGLISH + CHINESE
    kept = "".join("".join(split_sentences(text, mode)).split())
    assert kept == "".join(text.split())


@pytest.mark.parametrize("mode", ["auto", "line"])
@pytest.mark.parametrize(
    "unit",
    [
        "word ",
        "字",
        "x",
        "a. ",
        '"." ',
        "(",
        "!",
        "字，",
        "Mr. ",
        '?" A ',
        "e.g.",
        "\u0301",
        "1.5 ",
    ],
)
def test_an_endless_line_is_cut_in_linear_time(unit: str, mode: str) -> None:
    text = unit * (300_000 // len(unit))
    started = time.perf_counter()
    sentences = split_sentences(text, mode)
    assert time.perf_counter() - started < 10
    assert max(map(len, sentences)) <= MAX_SENTENCE
    assert "".join("".join(sentences).split()) == "".join(text.split())


def test_a_long_sentence_is_cut_at_a_space_or_a_comma() -> None:
    words = split_sentences("word " * 3000)
    assert all(set(piece.split()) == {"word"} for piece in words) and len(words) > 1
    clauses = split_sentences("很长的话，" * 1000)
    assert len(clauses) > 1 and all(piece.endswith("，") for piece in clauses)


def test_an_unknown_mode_is_refused() -> None:
    with pytest.raises(UserError, match="auto, line"):
        split_sentences("text", "paragraph")
