"""Schemes of tags: IOB1, IOB2, IOBES, BMES and BILOU in, IOB2 out, broken tags counted.

    words   Alex  Smith  met  Jim  in  New   York  City
    IOB1    I-PER I-PER  O    I-PER O  I-LOC I-LOC I-LOC     B- only where two of a type meet
    IOB2    B-PER I-PER  O    B-PER O  B-LOC I-LOC I-LOC
    IOBES   B-PER E-PER  O    S-PER O  B-LOC I-LOC E-LOC
    BMES    B-PER E-PER  O    S-PER O  B-LOC M-LOC E-LOC     BILOU: I and L for M and E, U for S

A file's scheme shows in the prefixes it uses. Tags that the scheme does not allow are read as
conlleval reads them (a stray I- begins an entity).
"""

from __future__ import annotations

from collections.abc import Sequence

from bertkit.tasks.metrics import OUTSIDE, split_tag, to_iob2

_PREFIXES = "BIESMLUW"
_SAME_AS = {"M": "I", "L": "E", "U": "S", "W": "S"}
"""Prefixes of BMES, BILOU and BMEWO and what they are in IOBES."""

Broken = tuple[int, int, str]
"""Sentence, word, and what is wrong."""


def iob2_of_sentences(
    sentences: Sequence[Sequence[str]],
) -> tuple[list[list[str]], list[Broken]]:
    """The tags of a file in IOB2, and where they break the scheme that the file uses.

    Tags in small letters (b-per, o) are read as if they were large; of a tag that can be none
    (Z-PER, B- without a type) beside tags with B- or I- is made "O".
    """
    sentences, impossible = _possible(_raised(sentences))
    used = {tag[:2] for tags in sentences for tag in set(tags) if tag[1:2] == "-"}
    prefixes = {one[0] for one in used}
    single = prefixes & {"U", "W"} and prefixes <= set(_PREFIXES) and _all_prefixed(sentences)
    if ("B" in prefixes or single) and prefixes & set(_SAME_AS):
        sentences = [[_as_iobes(tag) for tag in tags] for tags in sentences]
        prefixes = {_SAME_AS.get(one, one) for one in prefixes}
    broken: list[Broken] = []
    if prefixes & {"E", "S"} and "B" in prefixes:
        broken = [
            (number, word, why)
            for number, tags in enumerate(sentences)
            for word, why in _breaks_iobes(tags)
        ]
    elif "I" in prefixes and not _is_iob1(sentences):
        broken = [
            (number, word, f"{tags[word]} after {tags[word - 1] if word else 'the start'}")
            for number, tags in enumerate(sentences)
            for word in _strays(tags)
        ]
    return [to_iob2(tags) for tags in sentences], sorted(impossible + broken)


def _raised(sentences: Sequence[Sequence[str]]) -> Sequence[Sequence[str]]:
    """With large prefixes and "O", where all of a file's are small."""
    used = {tag for tags in sentences for tag in tags}
    small = all(tag == "o" or (tag[1:2] == "-" and tag[0] in "biesmluw") for tag in used)
    if not small or not any(tag.startswith(("b-", "i-")) for tag in used):
        return sentences
    return [[tag[0].upper() + tag[1:] for tag in tags] for tags in sentences]


def _possible(
    sentences: Sequence[Sequence[str]],
) -> tuple[Sequence[Sequence[str]], list[Broken]]:
    """With "O" for what can be no tag of a scheme, and where that was."""
    used = {tag for tags in sentences for tag in tags}
    if not any(tag.startswith(("B-", "I-")) for tag in used):
        return sentences, []
    wrong = {t for t in used if t[1:2] == "-" and (t[0] not in _PREFIXES or not t[2:].strip())}
    found = [
        (number, word, f"'{tag}' is no tag and is read as O")
        for number, tags in enumerate(sentences)
        for word, tag in enumerate(tags)
        if tag in wrong
    ]
    kept = [[OUTSIDE if tag in wrong else tag for tag in tags] for tags in sentences]
    return (kept if wrong else sentences), found


def _all_prefixed(sentences: Sequence[Sequence[str]]) -> bool:
    """Whether each tag is "O" or has a prefix: in a file of one-word entities no B- tells."""
    return all(tag == OUTSIDE or tag[1:2] == "-" for tags in sentences for tag in tags)


def _as_iobes(tag: str) -> str:
    return _SAME_AS[tag[0]] + tag[1:] if tag[1:2] == "-" and tag[0] in _SAME_AS else tag


def _is_iob1(sentences: Sequence[Sequence[str]]) -> bool:
    """Whether every B- stands where IOB1 needs it: behind an entity of its type."""
    return all(
        word > 0 and split_tag(tags[word - 1])[1] == split_tag(tag)[1]
        for tags in sentences
        for word, tag in enumerate(tags)
        if tag.startswith("B-")
    )


def _strays(tags: Sequence[str]) -> list[int]:
    """Words whose I- follows nothing that it could go on with."""
    return [
        word
        for word, tag in enumerate(tags)
        if tag.startswith("I-") and (word == 0 or tags[word - 1] not in (tag, "B" + tag[1:]))
    ]


def _breaks_iobes(tags: Sequence[str]) -> list[tuple[int, str]]:
    """Words where an entity is left open or goes on without a beginning."""
    wrong = []
    previous = OUTSIDE
    for word, tag in enumerate([*tags, OUTSIDE]):
        before, now = split_tag(previous), split_tag(tag)
        opened = before[0] in ("B", "I")
        inside = now[0] in ("I", "E")
        if opened != inside or (opened and before[1] != now[1]):
            wrong.append((min(word, len(tags) - 1), f"{tag} after {previous}"))
        previous = tag
    return wrong
