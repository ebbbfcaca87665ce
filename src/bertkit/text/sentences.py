"""Sentences: a document's text in, its sentences in order out. English and Chinese by rule.

The paper takes documents apart into "sentences" only to have spans that follow each other; a
boundary too many or too few does little harm, but it must be the same on every machine and fast.
So these are rules without a model, in time linear in the text:

- A blank line ends a sentence. Another line break is a space (nothing between two Chinese
  characters) where lines are hard-wrapped, and ends a sentence where it was meant: behind a line
  much shorter than its neighbours (a heading, an entry of a list), and in text that isn't wrapped.
  In mode "line" every line that is not blank is a sentence.
- 。！？… end a sentence wherever they stand; closing quotes and brackets stay with it. A semicolon
  is inside a sentence, in Chinese too (GB/T 15834).
- . ! ? … end a sentence before white space, unless what stands before (abbreviation, initial,
  list number, a speaker in capitals) or after (a lower-case word, a comma) says otherwise.
- A quotation and the words that say who spoke it are one sentence, in both languages.
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

# end a sentence whatever follows: Chinese and Japanese; Hindi; Arabic and Urdu; Armenian, Amharic,
# Khmer, Burmese
_ALWAYS = "。！？｡।॥؟۔։።។။"
_CLOSERS = "\"'”’»›』」)]}）】〕］｝》〉*_¹²³⁰⁴⁵⁶⁷⁸⁹"
_OPENERS = "\"'“‘«‹「『([{（【〔［｛《〈¿¡—–-*_"
# no space is written between two of these: ideographs, kana, their punctuation, full-width forms
_CJK = "\u2e80-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff00-\uffef\U00020000-\U0002fa1f"

_EMOJI = "\u2600-\u27bf\ufe0f\u200d\U0001f1e6-\U0001f1ff\U0001f300-\U0001faff"

_END = re.compile(
    # marks; closers, footnote numbers and emoji; white space
    rf"([.!?…{_ALWAYS}]+)([{re.escape(_CLOSERS)}]*(?:\[\d{{1,3}}\])*[{_EMOJI}]*)(\s*)"
)
_NEXT = re.compile(rf"[{re.escape(_OPENERS)}]*([^\W_]*)")
_GOES_ON = frozenset(",，、：；;:。！？!?.…)]}）％%")  # no sentence begins with one of these
_ALWAYS_IN, _QUOTES_IN = frozenset(_ALWAYS), frozenset("\"'”’»›』」")
_QUOTES_OPEN = frozenset("“‘«‹「『")
_CJK_CHARACTER = re.compile(rf"[{_CJK}]")
_CLAUSE = re.compile(r"[，、：；,;:]")

# ---- words -----------------------------------------------------------------------------------

# Never the last word of a sentence: a name, a number or an example follows.
_NEVER_LAST = frozenset(
    """
    mr mrs ms messrs mme mlle dr drs prof rev hon capt cpt col gen lt sgt maj cmdr adm sen rep
    gov pres supt insp fr mt sta ste e.g i.e eg ie cf viz vs v c ca approx esp excl incl p.s fig
    figs eq eqs pl sec sect chap ch app vol vols no nos p pp ed eds art op cit
    """.split()  # noqa: SIM905
)
# Of those, the ones that only a number follows ("No. 5", but "He said no. Then he left."), or a
# letter that counts ("App. B").
_ONLY_BEFORE_NUMBER = frozenset(
    "c no nos fig figs eq eqs pl sec sect ch app vol vols p pp art".split()  # noqa: SIM905
)
# May end a sentence: they do when a word follows that often opens one.
_MAYBE_LAST = frozenset(
    """
    inc ltd co corp llc bros jr sr esq dept est univ assn ave blvd rd jan feb mar apr jun jul
    aug sep sept oct nov dec mon tue tues wed thu thur thurs fri sat sun st ph.d al ft hr hrs
    min mins mos oz lb lbs
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
_TITLE = re.compile(r"(?:Mr|Mrs|Ms|Dr|Prof)\b")
# Who said it, behind a quotation: a name or "I". "She said", with a capital, is a new sentence.
_SPEECH = re.compile(
    r"(?!(?:He|She|They|We|You|It)\b)"
    r"(?:(?:Mr|Mrs|Ms|Miss|Dr|Sir|Lady|Lord)\.? )?(?:[^\W\d_][\w’'-]* ){1,3}?"
    r"(?:said|says|asked|asks|cried|replied|answered|whispered|shouted|exclaimed|called|added|"
    r"muttered|murmured|returned|repeated|inquired|enquired|demanded|continued|began|thought|"
    r"screamed|yelled|laughed|sighed)\b"
)
# The same in Chinese: 她问。 那人拱手道， 赛后，赵刚哽咽着说。 but not 他知道。 nor what introduces
# the next quotation: 孙权问：
_CHINESE_SPEECH = re.compile(
    r"[^。！？；…：“”「」『』\"\s]{0,20}?"
    r"(?:(?<![小听聽据據传傳])[说說]|(?<![知街味难難频頻通])道|(?<![疑学學访訪])[问問]|[答喊叫嚷骂罵]|自[语語])"
    r"(?:起[来來]|了一句|[我你他她]们?|着|著)?(?=[，。！？,]|$)"
)
_ACRONYM = re.compile(r"(?:[^\W\d_]\.)+[^\W\d_]")
_ROMAN = re.compile(r"[IVXLC]+\b")
_I = re.compile(r"I\b")
_LIST_NUMBER = re.compile(r"(?:\d{1,3}|[ivxIVX]{1,5}|[A-Za-z])")
_NUMBERED = re.compile(r"\d{1,2}[.)]\s+[^\W\d_]")  # "2. Remove the cover"
_COUNTING = re.compile(r"[A-Z]\b")
_SPEAKER = re.compile(r"[A-Z][A-Z'’-]{2,}")

_BEFORE_WORD = re.compile(r"[—–/]")
_WORD_REACH = 24  # how far back to look for the word before a full stop

_WRAPPED = 160  # columns; text with longer lines than this is not hard-wrapped
_SHORT = 0.75  # of the block's width: a line that ends before was not ended by the wrapping
_UNFINISHED = frozenset(",，、;；:：-—–(（[“「『")  # a line that ends so goes on in the next


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
    for paragraph in _paragraphs(text, caseless):
        for sentence in _split_paragraph(paragraph, caseless):
            _append(sentences, sentence)
    return sentences


def _paragraphs(text: str, caseless: bool) -> Iterator[str]:
    """Blocks between blank lines, hard-wrapped lines joined."""
    block: list[str] = []
    for line in text.splitlines():
        line = line.strip()
        if line:
            block.append(line)
        elif block:
            yield from _joined(block, caseless)
            block = []
    if block:
        yield from _joined(block, caseless)


def _joined(lines: list[str], caseless: bool) -> Iterator[str]:
    """Joins the lines of a block, but where the break after a line was meant."""
    if len(lines) == 1:
        yield lines[0]
        return
    widths = [_width(line) for line in lines]
    # the second longest of three: one long address in hard-wrapped text is no measure
    full = sorted(widths)[-2 if len(lines) > 2 else -1]
    parts = [lines[0]]
    for before, width, line in zip(lines, widths, lines[1:], strict=False):
        small = line[0].islower() and not caseless
        meant = full > _WRAPPED or (width < _SHORT * full and not small)
        if meant and before[-1] not in _UNFINISHED:
            yield "".join(parts)
            parts = [line]
            continue
        touching = _CJK_CHARACTER.match(line) and _CJK_CHARACTER.match(before[-1])
        parts += ("" if touching else " ", line)
    yield "".join(parts)


def _width(line: str) -> int:
    """Columns that a line takes: two for a Chinese character."""
    return len(line) if line.isascii() else len(line) + len(_CJK_CHARACTER.findall(line))


def _split_paragraph(text: str, caseless: bool) -> Iterator[str]:
    start = 0
    quotes = counted = 0  # straight double quotes in text[:counted]
    for match in _END.finditer(text):
        mark, closers, space = match.groups()
        if match.end() == len(text):
            break
        if not space and '"' in closers and _chinese_mark(text, match.start(), mark):
            quotes += text.count('"', counted, match.end(1))
            counted = match.end(1)
            if quotes % 2 == 0:  # none is open, so this one opens the next: 他走了。"为什么？"
                end = text.index('"', counted)
                yield text[start:end]
                start = end
                continue
        if _is_end(text, match, start, caseless):
            end = match.end(2)
            yield text[start:end]
            start = end
    yield text[start:]


def _chinese_mark(text: str, place: int, mark: str) -> bool:
    """Whether the marks at `place` are Chinese ones, or follow a Chinese character."""
    return not mark.isascii() or (place > 0 and bool(_CJK_CHARACTER.match(text, place - 1)))


def _is_end(text: str, match: re.Match[str], start: int, caseless: bool) -> bool:
    """Whether a sentence ends behind the marks and closers of `match`; text follows it."""
    mark, closers, space = match.groups()
    after = match.end()
    following = text[after]
    if following in _GOES_ON or (space and following.islower() and not caseless):
        return False
    if mark.isascii() and following.isascii():
        if not space:
            return False  # 3.14, U.S.A, a.txt
    else:
        if "》" in closers or "〉" in closers:  # 他读《怎么办？》这本书: the mark is a title's
            return False
        quoted = not _QUOTES_IN.isdisjoint(closers)
        if quoted and following in _QUOTES_OPEN:
            return True
        if quoted and _CHINESE_SPEECH.match(text, after):
            return False
        if not _ALWAYS_IN.isdisjoint(mark):
            return True
        if _CJK_CHARACTER.match(following):  # 真的?我不信! needs no space, but 用3.年 is no end
            return mark != "." or bool(space) or _chinese_mark(text, match.start(), mark)
        if not space:
            return False
    if mark == "." and following.isalnum():
        return bool(closers) or _full_stop_ends(text, match.start(), start, after, caseless)
    found = _NEXT.match(text, after)
    word = found[1] if found else ""
    if word[:1].islower() and not caseless:
        return False
    if mark == ".":
        return bool(closers) or _full_stop_ends(text, match.start(), start, after, caseless)
    if "!" not in mark and "?" not in mark:
        return bool(word) and word != "I"  # Well... I think so.
    return _QUOTES_IN.isdisjoint(closers) or not _SPEECH.match(text, after)


def _full_stop_ends(text: str, stop: int, start: int, after: int, caseless: bool) -> bool:
    """Whether the full stop at `stop` ends a sentence, from the words on its two sides.

    The word before it is looked for in the sentence that began at `start`, the word behind it
    at `after`.
    """
    reach = text[max(start, stop - _WORD_REACH) : stop]
    words = reach.split()
    if not words or reach[-1].isspace():  # text with a space before the full stop
        return not (words and words[-1].endswith(".")) or _opens_sentence(text, after)  # . . .
    previous = _BEFORE_WORD.split(words[-1])[-1].lstrip(_OPENERS)
    if not previous.isascii():
        previous = _CJK_CHARACTER.split(previous)[-1]  # 科学家J. Smith
    lower = previous.lower()
    if lower in _NEVER_LAST:
        if lower not in _ONLY_BEFORE_NUMBER:
            return False
        counted = lower not in ("no", "art", "c") and bool(
            _ROMAN.match(text, after) or _COUNTING.match(text, after)
        )
        return not (text[after].isdigit() or counted)
    if len(words) == 1 and stop - start < _WORD_REACH:
        if _LIST_NUMBER.fullmatch(previous):
            return False  # "1. Introduction" opens with its number
        if _SPEAKER.fullmatch(previous):
            return False  # "ANNA. You are late."
    if len(previous) == 1 and previous.isalpha() and (previous.isupper() or caseless):
        return _opens_sentence(text, after) and not _I.match(text, after)  # an initial: J. Smith
    abbreviated = lower in _MAYBE_LAST and (
        caseless or lower not in _CAPITAL or previous[:1].isupper()
    )
    if abbreviated or ("." in previous and _ACRONYM.fullmatch(previous)):
        if _NUMBERED.match(text, after) and _NUMBERED.match(text, start):
            return True  # 1. Wait 30 min. 2. Open it.
        return _opens_sentence(text, after) or bool(_TITLE.match(text, after))
    return True


def _opens_sentence(text: str, place: int) -> bool:
    found = _NEXT.match(text, place)
    return found is not None and found[1].lower() in _STARTERS


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
