"""Sentences: a document's text in, its sentences in order out. English and Chinese by rule.

The paper takes documents apart into "sentences" only to have spans that follow each other; a
boundary too many or too few does little harm, but it must be the same on every machine and fast.
So these are rules without a model, in time linear in the text:

- A blank line ends a sentence; any other line break is a space, or nothing between two Chinese
  characters (hard-wrapped text). In mode "line" every line that is not blank is a sentence.
- 。！？；… end a sentence wherever they stand; closing quotes and brackets stay with it.
- . ! ? … end a sentence before white space, unless what stands before (abbreviation, initial,
  list number) or after (a lower-case word, a comma, a speech verb) says otherwise.
- A sentence of more than MAX_SENTENCE characters is cut: no sequence of BERT could hold it whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from bertkit.errors import UserError

SENTENCE_MODES = ("auto", "line")

MAX_SENTENCE = 2000
"""Longest sentence in characters: about 512 tokens of English, four sequences of Chinese."""

# ---- characters ------------------------------------------------------------------------------

_ALWAYS = "。！？；｡।॥؟۔"  # end a sentence whatever follows (Chinese, Japanese, Hindi, Arabic)
_QUOTES = "\"'”’»›』」*_"
_CLOSERS = _QUOTES + ")]}）】〕］｝》〉"
_OPENERS = "\"'“‘«‹「『([{（【〔［｛《〈¿¡—–-*_"
# no space is written between two of these: ideographs, kana, their punctuation, full-width forms
_CJK = "\u2e80-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff00-\uffef\U00020000-\U0002fa1f"

_END = re.compile(
    rf"(?P<mark>[.!?…{_ALWAYS}]+)(?P<close>[{re.escape(_CLOSERS)}]*(?:\[\d{{1,3}}\])*)"
    r"(?P<space>\s*)"
)
_NEXT = re.compile(rf"[{re.escape(_OPENERS)}]*(?P<word>[^\W_]*)")
_CJK_CHARACTER = re.compile(rf"[{_CJK}]")
_CLAUSE = re.compile(r"[，、：；,;:]")

# ---- words -----------------------------------------------------------------------------------

# Never the last word of a sentence: a name, a number or an example follows.
_NEVER_LAST = frozenset(
    """
    mr mrs ms messrs mme mlle dr drs prof rev hon capt cpt col gen lt sgt maj cmdr adm sen rep
    gov pres supt insp fr mt e.g i.e eg ie cf viz vs v ca approx fig figs eq eqs sec chap ch
    vol vols no nos p pp ed eds art op cit
    """.split()  # noqa: SIM905
)
# Of those, the ones that only a number follows ("No. 5", but "He said no. Then he left.").
_ONLY_BEFORE_NUMBER = frozenset(
    "no nos fig figs eq eqs sec ch vol vols p pp art".split()  # noqa: SIM905
)
# May end a sentence: they do when a word follows that often opens one.
_MAYBE_LAST = frozenset(
    """
    inc ltd co corp llc bros jr sr esq dept est univ assn ave blvd rd jan feb mar apr jun jul
    aug sep sept oct nov dec mon tue tues wed thu thur thurs fri sat sun st ph.d al ft hrs min
    oz lb lbs
    """.split()  # noqa: SIM905
)
# Of those, the ones that are an abbreviation only with a capital letter: "He sat. Peter stood."
_CAPITAL = frozenset("jan mar jun sep dec mon wed sat sun co est".split())  # noqa: SIM905
_STARTERS = frozenset(
    """
    a after all although an and another any are as at because before both but by did do does
    each even every few first finally for from had has have he her here his how however i if
    in indeed is it its later many maybe meanwhile more moreover most my never next no nobody
    not nothing now of on once one only or our perhaps she since so some somebody someone soon
    still such that the their then there therefore these they this those though thus to today
    tomorrow two under until was we were what when where whether which while who whose why
    will with without would yes yesterday yet you your
    """.split()  # noqa: SIM905
)
_SPEECH = re.compile(
    r"(?:(?:Mr|Mrs|Ms|Miss|Dr|Sir|Lady|Lord)\.? )?(?:[^\W\d_][\w’'-]* ){1,3}?"
    r"(?:said|says|asked|asks|cried|replied|answered|whispered|shouted|exclaimed|called|added|"
    r"muttered|murmured|returned|repeated|inquired|enquired|demanded|continued|began|thought|"
    r"screamed|yelled|laughed|sighed)\b"
)
_ACRONYM = re.compile(r"(?:[^\W\d_]\.)+[^\W\d_]")
_ROMAN = re.compile(r"[IVXLC]+")
_LIST_NUMBER = re.compile(r"(?:\d{1,3}|[ivxIVX]{1,5}|[A-Za-z])")

_BEFORE_WORD = re.compile(r"[\s—–/]")
_WORD_REACH = 24  # how far back to look for the word before a full stop


def split_sentences(text: str, mode: str = "auto") -> list[str]:
    """Splits a document into sentences, without white space around them and none empty.

    Args:
        text: the document.
        mode: "auto" finds the boundaries; "line" takes every line that is not blank.

    Sentences longer than MAX_SENTENCE characters are cut at white space or a comma where there is
    one, in both modes.
    """
    if mode not in SENTENCE_MODES:
        raise UserError(f"sentences is {mode!r}; choose one of {', '.join(SENTENCE_MODES)}")
    sentences: list[str] = []
    if mode == "line":
        for line in text.replace("\r", "\n").split("\n"):
            _append(sentences, line)
        return sentences
    # in text without any capital letter a lower-case word tells nothing
    caseless = text == text.lower()
    for paragraph in _paragraphs(text):
        for sentence in _split_paragraph(paragraph, caseless):
            _append(sentences, sentence)
    return sentences


def _paragraphs(text: str) -> Iterator[str]:
    """Blocks between blank lines, their lines joined."""
    parts: list[str] = []
    for line in text.splitlines():
        line = line.strip()
        if line:
            if parts:
                touching = _CJK_CHARACTER.match(line) and _CJK_CHARACTER.match(parts[-1][-1])
                parts.append("" if touching else " ")
            parts.append(line)
        elif parts:
            yield "".join(parts)
            parts = []
    if parts:
        yield "".join(parts)


def _split_paragraph(text: str, caseless: bool) -> Iterator[str]:
    start = 0
    quotes = 0  # straight double quotes up to `counted`: an odd number means one is open
    counted = 0
    for match in _END.finditer(text):
        close_start, close_end = match.span("close")
        quotes += text.count('"', counted, close_start)
        counted = close_start
        if (
            quotes % 2 == 0
            and not match["space"]
            and not (match["mark"].isascii() and text[close_start - 2 : close_start - 1].isascii())
            and (opening := text.find('"', close_start, close_end)) >= 0
        ):
            # 他走了。"为什么？" : this quote opens the next sentence
            close_end = opening
        if _is_end(text, match, start, close_end, caseless):
            yield text[start:close_end]
            start = close_end
    yield text[start:]


def _is_end(text: str, match: re.Match[str], start: int, close_end: int, caseless: bool) -> bool:
    """Whether a sentence ends behind the marks and closers of `match`."""
    mark, after = match["mark"], match.end()
    if after == len(text) or close_end < match.end("close"):
        return True
    closers = text[match.start("close") : close_end]
    following = text[after]
    if following in ",，、：；;:。！？!?.…)]}）％%":
        return False
    if "》" in closers or "〉" in closers:  # 他读《怎么办？》这本书: the mark belongs to a title
        return False
    if not mark.isascii() and any(character in _ALWAYS for character in mark):
        return True
    if not match["space"]:
        # 真的?我不信! : without a space, only between Chinese; 3.14, U.S.A, a.txt go on
        return bool(_CJK_CHARACTER.match(following)) and (
            mark != "." or bool(_CJK_CHARACTER.match(text[match.start() - 1 : match.start()]))
        )
    if _CJK_CHARACTER.match(following):
        return True
    found = _NEXT.match(text, after)
    assert found is not None
    word = found["word"]
    if word[:1].islower() and not caseless:
        return False
    if mark != ".":
        if "!" not in mark and "?" not in mark and (word == "I" or not word):
            return False  # Well... I think so.
        spoken = any(quote in closers for quote in "\"'”’»")
        return not (spoken and _SPEECH.match(text, after))
    if closers:
        return True
    return _full_stop_ends(text, match.start(), start, word, caseless)


def _full_stop_ends(text: str, stop: int, start: int, following: str, caseless: bool) -> bool:
    """Whether the single full stop at `stop` ends a sentence, from the words on its two sides."""
    reach = text[max(start, stop - _WORD_REACH) : stop]
    if not reach or reach[-1].isspace():
        # pre-tokenized text has a space before the full stop; ". . ." is an ellipsis
        return not reach.rstrip().endswith(".") or following.lower() in _STARTERS - {"i"}
    previous = _BEFORE_WORD.split(reach)[-1].lstrip(_OPENERS)
    lower = previous.lower()
    starter = following.lower() in _STARTERS
    if lower in _NEVER_LAST:
        if lower in _ONLY_BEFORE_NUMBER:
            roman = lower not in ("no", "art") and bool(_ROMAN.fullmatch(following))
            return not (following[:1].isdigit() or roman)
        return False
    if (
        _LIST_NUMBER.fullmatch(previous)
        and reach.strip() == previous
        and stop - start < _WORD_REACH
    ):
        return False  # "1. Introduction" opens with its number
    if len(previous) == 1 and previous.isalpha() and (previous.isupper() or caseless):
        return starter and following != "I"  # an initial: J. Smith
    abbreviated = lower in _MAYBE_LAST and (
        caseless or lower not in _CAPITAL or previous[:1].isupper()
    )
    if abbreviated or _ACRONYM.fullmatch(previous):
        return starter
    return True


def _append(sentences: list[str], sentence: str) -> None:
    """Adds a sentence, in pieces where it is longer than MAX_SENTENCE characters."""
    start = 0
    while len(sentence) - start > MAX_SENTENCE:
        middle, limit = start + MAX_SENTENCE // 2, start + MAX_SENTENCE
        end = max(sentence.rfind(" ", middle, limit), sentence.rfind("\t", middle, limit))
        if end < 0:
            end = max((m.end() for m in _CLAUSE.finditer(sentence, middle, limit)), default=limit)
        if piece := sentence[start:end].strip():
            sentences.append(piece)
        start = end
    if piece := sentence[start:].strip():
        sentences.append(piece)
