"""A report page: sections in, one self-contained HTML file out.

The page needs no network: style and pictures are in it. It reads on a phone, follows the reader's
light or dark setting, and prints. Text is escaped where it enters: helpers take plain strings and
return `Html`; whatever is not `Html` is escaped when it is put into another piece.

No element is made by hand outside this module and chart.py.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bertkit.files import writing

STYLE = """
:root { color-scheme: light dark; --paper: #ffffff; --ink: #1c2024; --soft: #60646c;
  --line: #d9d9e0; --panel: #f7f8fa; --good: #18794e; --good-back: #ddf3e4; --bad: #b42318;
  --bad-back: #fde4e1; --accent: #0b63ce; --c0: #0b63ce; --c1: #c2570c; --c2: #18794e;
  --c3: #7c3aed; --c4: #9a6700; --c5: #be185d; }
@media (prefers-color-scheme: dark) { :root { --paper: #15171a; --ink: #e8eaed; --soft: #a0a6ae;
  --line: #363a40; --panel: #1e2125; --good: #6fd69a; --good-back: #173325; --bad: #ff9a8d;
  --bad-back: #43201c; --accent: #7ab4ff; --c0: #7ab4ff; --c1: #ffa563; --c2: #6fd69a;
  --c3: #b99bff; --c4: #e5c15c; --c5: #ff8fc0; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 62rem; padding: 1.2rem 1rem 4rem; background: var(--paper);
  color: var(--ink); line-height: 1.55; overflow-wrap: break-word;
  font-family: system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "PingFang SC",
    "Hiragino Sans GB", "Microsoft YaHei", "Noto Sans CJK SC", "Noto Sans SC",
    "Source Han Sans SC", "WenQuanYi Micro Hei", sans-serif; }
h1 { font-size: 1.7rem; line-height: 1.25; margin: 0.4rem 0 0.2rem; }
h2 { font-size: 1.2rem; margin: 2.4rem 0 0.6rem; padding-top: 0.9rem;
  border-top: 1px solid var(--line); }
h3 { font-size: 1rem; margin: 1.4rem 0 0.3rem; }
p { margin: 0.5rem 0; max-width: 46rem; }
a { color: var(--accent); }
.lead { font-size: 1.05rem; }
.soft, .gloss, figcaption, caption { color: var(--soft); }
.gloss, figcaption, caption { font-size: 0.88rem; }
.scroll { overflow-x: auto; margin: 0.8rem 0; }
table { border-collapse: collapse; font-size: 0.93rem; }
caption { text-align: left; padding-bottom: 0.4rem; }
th, td { padding: 0.35rem 0.8rem 0.35rem 0; text-align: left; vertical-align: top;
  border-bottom: 1px solid var(--line); }
th { font-weight: 600; }
th.number, td.number { text-align: right; font-variant-numeric: tabular-nums;
  white-space: nowrap; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 21rem), 1fr));
  gap: 1rem 1.4rem; margin: 1rem 0; }
figure { margin: 0; }
figure svg { display: block; width: 100%; height: auto; }
figcaption b { color: var(--ink); }
.legend { display: flex; flex-wrap: wrap; gap: 0 1rem; padding: 0; margin: 0.2rem 0 0;
  list-style: none; font-size: 0.85rem; font-variant-numeric: tabular-nums; }
.legend svg { display: inline; width: 1.6rem; height: 0.7rem; margin-right: 0.35rem; }
.cards { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 26rem), 1fr));
  gap: 0.7rem; margin: 0.8rem 0; }
.card { background: var(--panel); border: 1px solid var(--line); border-radius: 8px;
  padding: 0.6rem 0.9rem; }
.card p { margin: 0.15rem 0; max-width: none; }
.text { font-size: 1.06rem; }
mark { border-radius: 4px; padding: 0 0.2em; background: none; color: inherit; }
mark.good { background: var(--good-back); color: var(--good); }
mark.bad { background: var(--bad-back); color: var(--bad); }
mark.entity { border-bottom: 2px solid var(--accent); border-radius: 0; padding: 0 0.05em; }
mark sub { font-size: 0.65em; margin-left: 0.15em; color: var(--soft); vertical-align: baseline; }
del { color: var(--bad); }
.big { font-size: 1.35rem; font-weight: 600; font-variant-numeric: tabular-nums; }
dl { display: grid; grid-template-columns: max-content minmax(0, 1fr); gap: 0.2rem 1rem;
  margin: 0.6rem 0; }
dt { color: var(--soft); }
dd { margin: 0; }
@media (max-width: 30rem) { dl { grid-template-columns: 1fr; } dd { margin-bottom: 0.4rem; } }
code, pre { font-family: ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace;
  font-size: 0.88em; }
pre { background: var(--panel); border: 1px solid var(--line); border-radius: 6px;
  padding: 0.6rem 0.8rem; overflow-x: auto; margin: 0.4rem 0 0.9rem; }
@media (max-width: 34rem) { thead { display: none; } table, tbody, tr, caption { display: block; }
  tr { padding: 0.5rem 0; border-bottom: 1px solid var(--line); }
  td, td.number { display: flex; justify-content: space-between; gap: 1rem; border: 0;
    padding: 0.05rem 0; text-align: right; }
  td::before { content: attr(data-name); color: var(--soft); text-align: left; }
  td:first-child { font-weight: 600; text-align: left; } td:first-child::before { content: none; }
  td:empty { display: none; } }
@media print { body { max-width: none; } .card, figure, tr { break-inside: avoid; } }
"""


class Html(str):
    """A piece of a page that is markup already; any other string is text and gets escaped."""


@dataclass(frozen=True)
class Section:
    """A heading and what stands under it."""

    heading: str
    body: Sequence[str]


def write_report(path: Path, title: str, lead: str, sections: Iterable[Section]) -> Path:
    """Writes the page to `path` and returns it.

    Args:
        path: the HTML file to write.
        title: heading of the page.
        lead: what the page shows, in a sentence or two.
        sections: in order; one with an empty body is left out.
    """
    head = join(
        Html('<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'),
        Html('<meta name="viewport" content="width=device-width, initial-scale=1">\n'),
        tag("title", title),
        Html(f"\n<style>{STYLE}</style>\n</head>\n<body>\n"),
    )
    parts = [head, tag("h1", title), tag("p", lead, "lead")]
    for section in sections:
        if section.body:
            parts.append(tag("section", join(tag("h2", section.heading), *section.body)))
    parts.append(Html("\n</body>\n</html>\n"))
    with writing(path) as partial:
        partial.write_text(join(*parts), encoding="utf-8")
    return path


def escape(text: str) -> Html:
    """Text as markup; `Html` stays what it is. Control characters become U+FFFD, so that the page
    is valid whatever the text holds."""
    if isinstance(text, Html):
        return text
    clean = "".join(
        c
        if c in "\t\n" or not (ord(c) < 32 or 0x7F <= ord(c) < 0xA0 or 0xD800 <= ord(c) < 0xE000)
        else "\ufffd"
        for c in text
    )
    return Html(html.escape(clean))


def join(*pieces: str) -> Html:
    """Pieces one after the other, text escaped."""
    return Html("".join(map(escape, pieces)))


def tag(name: str, content: str = "", style: str = "") -> Html:
    """An element with its content; `style` is its class."""
    attribute = f' class="{html.escape(style)}"' if style else ""
    return Html(f"<{name}{attribute}>{escape(content)}</{name}>")


def paragraph(*pieces: str) -> Html:
    return tag("p", join(*pieces))


def subheading(text: str) -> Html:
    return tag("h3", text)


def facts(pairs: Iterable[tuple[str, str]]) -> Html:
    """Names and values under each other."""
    return tag("dl", join(*(join(tag("dt", name), tag("dd", value)) for name, value in pairs)))


def command(text: str) -> Html:
    """A command to copy into a terminal."""
    return tag("pre", tag("code", text))


def card(*pieces: str) -> Html:
    """A framed block of lines."""
    return tag("div", join(*pieces), "card")


def cards(*blocks: str) -> Html:
    """Cards beside each other, under each other on a phone; nothing when there is none."""
    return tag("div", join(*blocks), "cards") if blocks else Html("")


def charts(*figures: str) -> Html:
    """Charts beside each other, under each other on a phone."""
    return tag("div", join(*figures), "charts")


def table(
    header: Sequence[str],
    rows: Iterable[Sequence[str]],
    numbers: Iterable[int] = (),
    caption: str = "",
) -> Html:
    """A table; the columns listed in `numbers` (from 0) are set as numbers, to the right."""
    right = set(numbers)

    def cell(name: str, column: int, content: str) -> Html:
        # The name is shown where the style turns rows into blocks (on a phone).
        style = ' class="number"' if column in right else ""
        label = f' data-name="{escape(header[column])}"' if name == "td" else ""
        return Html(f"<{name}{style}{label}>{escape(content)}</{name}>")

    def cells(name: str, row: Sequence[str]) -> Html:
        return tag("tr", join(*(cell(name, column, one) for column, one in enumerate(row))))

    return tag(
        "div",
        tag(
            "table",
            join(
                tag("caption", caption) if caption else Html(""),
                tag("thead", cells("th", header)),
                tag("tbody", join(*(cells("td", row) for row in rows))),
            ),
        ),
        "scroll",
    )


def verdict(text: str, good: bool) -> Html:
    """Text on green for right and on red for wrong, told apart by a sign too."""
    return tag("mark", join("✓ " if good else "✗ ", text), "good" if good else "bad")


def masked_sentence(text: str, answers: dict[int, tuple[str, bool]]) -> Html:
    """A sentence with a guess at each masked place, green or red.

    Args:
        text: the sentence as it is.
        answers: for the offset of each masked character: the guess, and whether it is right.
    """
    pieces: list[str] = []
    for place, character in enumerate(text):
        if place in answers:
            guess, good = answers[place]
            pieces.append(tag("mark", guess, "good" if good else "bad"))
        else:
            pieces.append(character)
    return join(*pieces)


def entity_sentence(text: str, entities: Iterable[tuple[int, int, str]]) -> Html:
    """A sentence with its entities underlined and their types behind them.

    `entities` are (first character, character behind the last, type); they may not overlap.
    """
    pieces: list[str] = []
    place = 0
    for first, behind, kind in sorted(entities):
        pieces += [
            text[place:first],
            tag("mark", join(text[first:behind], tag("sub", kind)), "entity"),
        ]
        place = behind
    return join(*pieces, text[place:])


def decimals(value: float, digits: int) -> str:
    """A number with so many decimals, and one that these would make 0 with three digits."""
    return f"{value:.{digits}f}" if not 0 < abs(value) < 10**-digits else f"{value:.3g}"


def percent(share: float, digits: int = 1) -> str:
    return f"{100 * share:.{digits}f} %"


def count(number: float) -> str:
    """A whole number with thousands set apart by thin spaces."""
    return f"{number:,.0f}".replace(",", "\u2009")


def duration(seconds: float) -> str:
    """Seconds as people say them: 42 s, 5 min 10 s, 2 h 5 min."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
