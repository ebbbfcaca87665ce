"""Wikitext of one article in, its running text out: paragraphs divided by a blank line.

As in the paper (3.1), which takes "only the text passages and ignores lists, tables, and headers".
mwparserfromhell reads the markup; this module decides what each piece of it says to a reader:

- What MediaWiki takes out of the text first (comments, <ref>, <math>, <gallery> ...) goes first.
- Templates go, but for those whose text is a part of the sentence (templates.py). One that left a
  hole is known by the spaces around it: "weighs {{x}} and" has one, "weighs it{{x}} and" has not.
- Files, categories and links to other languages go; other links leave their text.
- Lists, tables, headings and lines of table markup that has lost its table go, and the sections
  that are no text ("See also", "References" ...) with all that is in them.
- Holes are mended: "Foo ( ; born 1950)" is "Foo (born 1950)"; a sentence whose formula went goes
  too, and a paragraph that only led to a list or formula ("The members are:").
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Sequence
from typing import Any

from bertkit.extraction.templates import known_template
from bertkit.text.sentences import split_sentences

# Marks in the flat text; wikitext cannot hold them, for XML forbids these characters.
_LIST = "\x01"  # a line that begins with it is a list's
_HEADING = "\x02"
_PREFORMATTED = "\x0f"  # MediaWiki shows such lines as they are: code, figures
_HOLE = "\x03"  # here was something that the sentence needs

# ---- before parsing --------------------------------------------------------------------------

_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_NOWIKI = re.compile(r"<nowiki\s*>(.*?)</nowiki\s*>|<nowiki\s*/>", re.DOTALL | re.IGNORECASE)
_NEEDED = ("math", "chem", "ce", "hiero", "score")
_EXTENSIONS = [
    "ref",
    "references",
    "gallery",
    "timeline",
    "syntaxhighlight",
    "source",
    "pre",
    "imagemap",
    "graph",
    "mapframe",
    "maplink",
    "templatedata",
    "templatestyles",
    "categorytree",
    "inputbox",
    "indicator",
    "includeonly",
    "section",
    "poem",
]
_CLOSED = re.compile(
    rf"<({'|'.join([*_NEEDED, *_EXTENSIONS])})\b((?:[^<>\"']|\"[^\"<>]*\"|'[^'<>]*')*?)"
    r"(/>|>(?:.*?)</\1\s*>)",
    re.DOTALL | re.IGNORECASE,
)
_LEFT = re.compile(
    rf"</?(?:{'|'.join([*_NEEDED, *_EXTENSIONS])}|noinclude|onlyinclude)\b[^<>]*>", re.IGNORECASE
)
_PREFORMATTED_LINE = re.compile(r"^ +(?=[^\s|!{}<\[*#:;=])", re.MULTILINE)
_SWITCH = re.compile(r"__[A-Z]{3,}__")
_VARIANT = re.compile(r"-\{(?:([A-Za-z-]+)\|)?([^{}]*)\}-")
_MARKUP = str.maketrans({character: f"&#{ord(character)};" for character in "[]{}|'<>*#:;=!-"})


_LINK_MARK = re.compile(r"\[\[|\]\]")


def _without_files(text: str, files: frozenset[str]) -> str:
    """Text without [[File:name|thumb|caption]], whatever unbalanced markup the caption has."""
    kept, start, position = [], 0, 0
    while (position := text.find("[[", position)) >= 0:
        prefix = text[position + 2 : position + 40].partition(":")
        if not prefix[1] or prefix[0].strip().lower() not in files:
            position += 2
            continue
        depth = 0
        for mark in _LINK_MARK.finditer(text, position):
            depth += 1 if mark[0] == "[[" else -1
            if not depth:
                break
        else:  # no end: a caption has no blank line
            mark = re.compile(r"\n\s*\n|\Z").search(text, position)  # type: ignore[assignment]
        kept.append(text[start:position])
        start = position = mark.end()
    return "".join([*kept, text[start:]])


def _prepare(text: str, files: frozenset[str]) -> str:
    text = _PREFORMATTED_LINE.sub(_PREFORMATTED, text)
    text = _COMMENT.sub("", text)
    text = _NOWIKI.sub(lambda match: (match[1] or "").translate(_MARKUP), text)
    text = _CLOSED.sub(lambda match: _HOLE if match[1].lower() in _NEEDED else "", text)
    text = _LEFT.sub("", text)
    text = _SWITCH.sub("", text)
    text = _without_files(text, files)
    return _VARIANT.sub(_variant, text)


def _variant(match: re.Match[str]) -> str:
    """Chinese: -{zh-hans:计算机;zh-hant:電腦}- is the first of them; -{R|text}- is text."""
    if match[1] and match[1] in "ATDH-":  # rules for the page, nothing to read
        return ""
    choices = dict(
        (part.split(":", 1)[0].strip(), part.split(":", 1)[1].strip())
        for part in match[2].split(";")
        if re.match(r"\s*zh(-\w+)?\s*:", part)
    )
    for name in ("zh-hans", "zh-cn", "zh", "zh-hant", "zh-tw"):
        if name in choices:
            return choices[name]
    return next(iter(choices.values()), match[2])


# ---- the tree of the markup to flat text -----------------------------------------------------

_SOFT = "\x04"  # a template went here; whether that left a hole depends on what stands around it

_POWER = re.compile(r"[-−–+]?\d+")
_INVERSE = re.compile(r"[-−–]\d+")
_SOUND = "\x0e"  # a pronunciation went here; outside brackets a sentence is whole without it
_PRONUNCIATIONS = ("ipa-", "ipac-", "respell", "pron")
_BLOCK_TAGS = frozenset("p div center blockquote section article poem".split())  # noqa: SIM905
_DROPPED_TAGS = frozenset(
    "table tr td th ul ol dl li dt dd hr caption h1 h2 h3 h4 h5 h6 ref math".split()  # noqa: SIM905
)
_LANGUAGE_LINK = re.compile(r"^:?[a-z]{2,3}(-[a-z-]+)?:\S")
_FILES = """
    file image category media datei bild kategorie fichier catégorie archivo imagen categoría
    文件 图像 圖像 檔案 分类 分類 ファイル 画像 カテゴリ файл изображение категория
""".split()  # noqa: SIM905


class _Flattener:
    """Writes what a reader sees of a tree; `files` are the wiki's names for files, categories."""

    def __init__(self, files: frozenset[str]) -> None:
        from mwparserfromhell import nodes

        self.files = files
        self.out: list[str] = []
        self.write_node: dict[type, Callable[[Any], None]] = {
            nodes.Text: lambda node: self.out.append(str(node.value)),
            nodes.Wikilink: self._link,
            nodes.ExternalLink: self._external,
            nodes.Tag: self._tag,
            nodes.Template: self._template,
            nodes.Heading: self._heading,
            nodes.HTMLEntity: lambda node: self.out.append(html.unescape(str(node))),
            nodes.Argument: lambda node: None,
            nodes.Comment: lambda node: None,
        }

    def write(self, code: Any) -> None:
        for node in code.nodes:
            self.write_node[type(node)](node)

    def text_of(self, code: Any) -> str:
        outer, self.out = self.out, []
        self.write(code)
        inner, self.out = "".join(self.out), outer
        return inner

    def _link(self, node: Any) -> None:
        title = str(node.title).strip()
        prefix = title.partition(":")[0].strip().lower() if ":" in title else ""
        if prefix in self.files or (_LANGUAGE_LINK.match(title) and node.text is None):
            return
        if node.text is None:
            self.out.append(self.text_of(node.title).lstrip(":").partition("#")[0] or title)
        else:
            shown = self.text_of(node.text)
            # [[Foo (bar)|]] shows "Foo"
            self.out.append(shown or re.sub(r"\s*\([^()]*\)$", "", title.rpartition(":")[2]))

    def _external(self, node: Any) -> None:
        self.out.append(_SOFT if node.title is None else self.text_of(node.title))

    def _tag(self, node: Any) -> None:
        name = str(node.tag).strip().lower()
        if node.wiki_markup and name in ("li", "dt", "dd"):
            self.out.append(_LIST)
        elif name == "br":
            self.out.append(" ")
        elif name in _DROPPED_TAGS:
            self.out.append(f"\n{_LIST}\n")
        elif name == "sup" and self.out and node.contents is not None:
            power = self.text_of(node.contents)  # 10<sup>7</sup> is not 107, nor m<sup>-2</sup> m-2
            digit = self.out[-1][-1:].isdigit()
            is_power = (_POWER if digit else _INVERSE).fullmatch(power)
            self.out.append(f"^{power}" if is_power else power)
        elif node.contents is not None:
            block = name in _BLOCK_TAGS
            self.out.append("\n\n" if block else "")
            self.write(node.contents)
            self.out.append("\n\n" if block else "")

    def _heading(self, node: Any) -> None:
        self.out.append(f"\n{_HEADING}{node.level}{self.text_of(node.title).strip()}\n")

    def _template(self, node: Any) -> None:
        name = " ".join(self.text_of(node.name).replace("_", " ").split()).lower()
        if name.startswith(_PRONUNCIATIONS):
            self.out.append(_SOUND)
            return
        shown = known_template(name)
        if shown is None:
            self.out.append(_SOFT)
            return
        values = {
            self.text_of(parameter.name).strip(): self.text_of(parameter.value).strip()
            for parameter in node.params
        }
        self.out.append(shown(values))


# ---- flat text to paragraphs -----------------------------------------------------------------

_NO_TEXT_SECTIONS = frozenset(
    name.strip()
    for name in """
    see also|references|notes|footnotes|external links|further reading|bibliography|sources
    citations|works cited|notes and references|references and notes|gallery|literature
    primary sources|secondary sources|general references|explanatory notes|selected bibliography
    publications|参见|參見|参考文献|參考文獻|外部链接|外部連結|注释|註釋|注釋|相关条目|相關條目
    延伸阅读|延伸閱讀|参考资料|參考資料|注脚|註腳|关联项目|外部連接|参考|出典|脚注|関連項目
    外部リンク|参考書籍|literatur|weblinks|einzelnachweise|siehe auch|quellen|anmerkungen
    voir aussi|références|notes et références|liens externes|bibliographie|annexes
    articles connexes|véase también|referencias|enlaces externos|notas|bibliografía|literatura
    примечания|литература|ссылки|см. также|источники
    """.replace("\n", "|").split("|")
)
_TABLE_LINE = ("{|", "|", "!", _LIST)
_LEFTOVER = re.compile(r"\[\[|\]\]|\{\{+|\}\}+|'{2,}|</?[A-Za-z][^<>\n]{0,200}>|\{\|.*|\|\}")
_HOLE_BEFORE = re.compile(rf"(?<=[^\s.!?。！？{_SOFT}])([  ]+){_SOFT}+(?=[  ]*\S)")
_HOLE_AT_START = re.compile(rf"^{_SOFT}+(?= +[a-z])")
_BRACKETS = re.compile(r"[(（]([^()（）]*)[)）]")
_INSIDE_START = re.compile(r"^[\s,;:/•·、，；：–—-]+(?=\S)|^[\s,;:/、，；：–—-]+$")
_INSIDE_MIDDLE = re.compile(r"([,;，；、])\s*(?=[,;，；、])")
_INSIDE_END = re.compile(r"[\s,;:，；：、/–-]+$")
_PARTS = re.compile(r"([,;，；、])")
_FEW_WORDS = 4
_LEADS_ON = re.compile(
    r"\b(?:(?<!days )following(?! (?:year|day|month|week|season|decade|century|morning))"
    r"|below(?! (?:the\b|a\b|\d)))\b"
    "|以下|如下|下列",
    re.IGNORECASE,
)
_LEADING = re.compile(
    r"(?:e\.g|i\.e|cf|see|see also|see e\.g|via)\.?|(?:\w+ ){0,3}(?:at|by|from|of)", re.IGNORECASE
)
_BEFORE_MARK = re.compile(r" +([,.;:!?)\]’”](?![^\s\d]*\w)|[,;)\]])")
_INVISIBLE = re.compile("[\u00ad\u200b\u200e\u200f\u2028\u2029\u2060\ufeff]")
_SENTENCE_END = re.compile(r"[.!?。！？…؟।][\"'”’»」』)）\]\s]*$")


_DONE = str.maketrans("()（）", "\x05\x06\x07\x08")  # brackets that are mended
_DONE_BACK = {after: before for before, after in _DONE.items()}


def wikitext_to_text(text: str, files: Sequence[str] = ()) -> str:
    """The running text of one page's wikitext, paragraphs divided by a blank line, or "".

    `files` are the wiki's own names, in lower case, of the namespaces of files and categories.
    """
    import mwparserfromhell

    names = frozenset((*_FILES, *files))
    flattener = _Flattener(names)
    flattener.write(mwparserfromhell.parse(_prepare(text, names)))
    return "\n\n".join(_paragraphs("".join(flattener.out)))


def _paragraphs(flat: str) -> list[str]:
    found: list[str] = []
    lines: list[str] = []
    skipped_level = 0  # of the heading under which everything goes; 0: none
    after_gap = False  # whether a list or table stood before the paragraph

    def close() -> None:
        nonlocal after_gap
        paragraph = _mend(" ".join(lines))
        if lines and not paragraph:  # a formula that stood alone
            lines.clear()
            close_before_gap()
            after_gap = True
            return
        lines.clear()
        if after_gap and paragraph[:1].islower():  # "where x is ...": its beginning went
            paragraph = _join(_sentences(paragraph)[1:])
        if paragraph and not _SENTENCE_END.search(paragraph) and paragraph[-1] not in ":：":
            paragraph = _join(_sentences(paragraph)[:-1])
        if any(map(str.isalpha, paragraph)):
            found.append(paragraph)
            after_gap = False

    def close_before_gap(heading: bool = False) -> None:
        """Takes away the sentences that led to what goes: "The members are:", "See below."."""
        close()
        while found and not after_gap:
            *others, last = _sentences(found[-1])
            if not last.endswith((":", "：")) and (heading or not _LEADS_ON.search(last)):
                return
            found[-1:] = [_join(others)] if others else []

    for line in flat.split("\n"):
        if line.startswith(_HEADING):
            close_before_gap(heading=True)
            after_gap = False
            level, title = int(line[1]), line[2:].strip().lower()
            if not skipped_level or level <= skipped_level:
                skipped_level = level if title in _NO_TEXT_SECTIONS else 0
        elif skipped_level:
            continue
        elif line.lstrip(" \t" + _SOFT).startswith(_TABLE_LINE):
            close_before_gap()
            after_gap = True
        elif not line.strip(" \t" + _SOFT):
            close()
        elif line.startswith(_PREFORMATTED):
            close_before_gap()
            after_gap = True
        else:
            lines.append(line)
    close_before_gap(heading=True)
    return found


def _mend(text: str) -> str:
    """A paragraph without what removed markup leaves: holes, empty brackets, doubled spaces."""
    text = _LEFTOVER.sub("", text)
    text = _INVISIBLE.sub("", text)
    text = " ".join(text.split())
    count = 1
    while count:  # from the innermost brackets outwards
        text, count = _BRACKETS.subn(_mend_brackets, text)
    text = text.translate(_DONE_BACK).replace(_SOUND, "").replace(_PREFORMATTED, "")
    text = _HOLE_AT_START.sub(_HOLE, text)
    text = _HOLE_BEFORE.sub(rf"\1{_HOLE}", text).replace(_SOFT, "")
    if _HOLE in text:
        text = _without_holes(text)
    text = _BEFORE_MARK.sub(r"\1", text)
    return " ".join(text.split())


def _mend_brackets(match: re.Match[str]) -> str:
    """Brackets without what hangs on a hole: "(named {{x}}, plural As; {{y}})" is "(plural As)"."""
    whole, inside = match[0], match[1]
    if _HOLE in inside:
        return ""
    if _SOFT in inside or _SOUND in inside:
        parts = _PARTS.split(inside)  # part, mark, part, mark, part
        for number in range(0, len(parts), 2):
            words = parts[number].replace(_SOUND, _SOFT).split(_SOFT)
            few = len(" ".join(words).split()) < _FEW_WORDS
            parts[number] = "" if len(words) > 1 and few else "".join(words)
        inside = "".join(parts)
    inside = _INSIDE_MIDDLE.sub("", inside)
    inside = _INSIDE_START.sub("", inside)
    inside = _INSIDE_END.sub("", inside)
    if not inside.strip() or _LEADING.fullmatch(inside):
        return ""
    return f"{whole[0]}{inside}{whole[-1]}".translate(_DONE)


def _without_holes(text: str) -> str:
    return _join([sentence for sentence in _sentences(text) if _HOLE not in sentence])


def _sentences(text: str) -> list[str]:
    """The sentences with the white space behind them, so that joined they are the text."""
    found, start = [], 0
    for sentence in split_sentences(text)[:-1]:
        end = text.index(sentence, start) + len(sentence)
        while end < len(text) and text[end] == " ":
            end += 1
        found.append(text[start:end])
        start = end
    return [*found, text[start:]]


def _join(sentences: list[str]) -> str:
    return "".join(sentences).strip()
