"""A report is one valid page that shows its texts as they are, whatever they hold."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

import pytest

from bertkit.report.page import (
    Html,
    Section,
    card,
    command,
    count,
    duration,
    entity_sentence,
    escape,
    facts,
    join,
    masked_sentence,
    paragraph,
    percent,
    table,
    verdict,
    write_report,
)

HOSTILE = "<script>alert('x')</script> & \"quotes\" \x00\x1b[0m \ud800 中文 é 😀"
VOID = {"meta", "line", "circle", "polyline", "br"}


class Page(HTMLParser):
    """The text, tags and addresses of a page; refuses elements that are not closed in order."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.text, self.tags, self.addresses = "", [], []
        self._open: list[str] = []
        self.feed(source)
        self.close()
        assert not self._open, self._open

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.addresses += [value for name, value in attributes if name in ("src", "href")]
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def written(path: Path, *body: str) -> Page:
    write_report(path, f"A {HOSTILE}", HOSTILE, [Section(HOSTILE, body), Section("Empty", [])])
    return Page(path.read_text(encoding="utf-8"))


def test_hostile_text_is_shown_and_never_markup(tmp_path: Path) -> None:
    page = written(
        tmp_path / "report.html",
        paragraph(HOSTILE),
        HOSTILE,
        table([HOSTILE, "n"], [[HOSTILE, HOSTILE]], numbers=[1], caption=HOSTILE),
        facts([(HOSTILE, HOSTILE)]),
        command(HOSTILE),
        card(verdict(HOSTILE, True), verdict(HOSTILE, False)),
        masked_sentence(HOSTILE, {0: (HOSTILE, False)}),
        entity_sentence(HOSTILE, [(1, 4, HOSTILE)]),
    )
    assert "script" not in page.tags
    assert page.text.count("<script>alert('x')</script> & \"quotes\"") >= 12
    assert "中文 é 😀" in page.text
    assert "\x00" not in page.text and "\x1b" not in page.text
    assert "Empty" not in page.text


def test_the_page_needs_no_network(tmp_path: Path) -> None:
    page = written(tmp_path / "report.html", paragraph("text"))
    assert page.addresses == []
    source = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "url(" not in source and "@import" not in source and "http" not in source
    assert 'name="viewport"' in source and "prefers-color-scheme: dark" in source
    assert "PingFang SC" in source


def test_markup_is_escaped_once() -> None:
    once = escape("a < b")
    assert once == "a &lt; b" == escape(once) == join(once)
    assert isinstance(once, Html)


def test_guesses_stand_in_the_sentence_by_offset() -> None:
    html = masked_sentence("这本书好", {2: ("人", False), 3: ("好", True)})
    assert html == '这本<mark class="bad">人</mark><mark class="good">好</mark>'


def test_entities_are_marked_with_their_types() -> None:
    html = entity_sentence("江泽民在北京", [(4, 6, "LOC"), (0, 3, "PER")])
    assert Page(html).text == "江泽民PER在北京LOC"
    assert html.count("<mark") == 2


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(42.4, "42 s"), (59.7, "1 min 0 s"), (310, "5 min 10 s"), (7500, "2 h 5 min")],
)
def test_durations_read_as_people_say_them(seconds: float, words: str) -> None:
    assert duration(seconds) == words


def test_numbers_read_well() -> None:
    assert percent(0.1234) == "12.3 %"
    assert count(1234567) == "1\u2009234\u2009567"
