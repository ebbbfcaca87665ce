"""Bytes in, text out, in whatever encoding: given, marked, declared or detected.

The order of evidence: a byte order mark; what the user gave (`--encoding`); UTF-8, if the bytes are
that, for no other text is UTF-8 by accident; what the file declares (HTML's <meta>, XML's first
line); UTF-16 known by its zeros; and last charset-normalizer's guess from the bytes. GB2312 and
GBK are read as GB18030, which holds both, and Latin-1 as Windows-1252, as browsers do.

Broken bytes become U+FFFD and are counted. A text with many of them, or with many control
characters, is not a text but a binary file.
"""

from __future__ import annotations

import codecs
import re

from bertkit.errors import UserError
from bertkit.extraction.records import Mended
from bertkit.extras import need

MANY_MISTAKES = 0.02
"""Share of characters that are broken from which bytes are not a text of that encoding."""

MANY_CONTROLS = 0.1
"""Share of characters that are control characters from which bytes are no text."""

_SAMPLE = 1 << 18
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # begins like UTF-16's
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_WIDER = {
    "gb2312": "gb18030", "gbk": "gb18030", "hz": "gb18030", "big5": "big5hkscs",
    "ascii": "cp1252", "iso8859-1": "cp1252", "shift_jis": "cp932", "euc_kr": "cp949",
    "iso8859-9": "cp1254",
}  # fmt: skip
_META = re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([\w.:-]+)", re.IGNORECASE)
_XML = re.compile(rb"^\s*<\?xml[^>]{0,200}?encoding\s*=\s*[\"']([\w.:-]+)", re.IGNORECASE)
_CONTROL = re.compile("[\x00-\x08\x0b\x0e-\x1f\x7f-\x84\x86-\x9f\ufdd0-\ufdef\ufffe\uffff]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_MAGIC = (
    b"%PDF", b"\x89PNG", b"GIF8", b"\xff\xd8\xff", b"\x7fELF", b"PK\x03\x04", b"Rar!", b"PAR1",
    b"7z\xbc\xaf\x27\x1c", b"\xd0\xcf\x11\xe0", b"SQLite format 3", b"\xca\xfe\xba\xbe", b"OggS",
    b"ID3", b"RIFF", b"MZ\x90\x00", b"\x93NUMPY", b"wOFF",
)  # fmt: skip


class BinaryFile(ValueError):  # noqa: N818 - a finding
    """These bytes are no text."""


MARKED = "bertkit.marked"
"""The error handler of decoders that puts half a surrogate pair, which no text has, for broken
bytes, so that `mend` finds and counts them in the document that they are in."""


def _marked_error(error: UnicodeError) -> tuple[str | bytes, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return "\udcff", error.end


codecs.register_error(MARKED, _marked_error)


def mend(text: str, mended: Mended) -> str:
    """Text with U+FFFD for each half of a surrogate pair, which are counted in `mended`."""
    if not _SURROGATE.search(text):
        return text
    text, count = _SURROGATE.subn("\ufffd", text)
    mended.bytes += count
    return text


def refuse_noise(broken: int, characters: int, encoding: str) -> None:
    """Raises BinaryFile where too many bytes are broken for a text."""
    if broken > max(1, MANY_MISTAKES * characters):
        raise BinaryFile(
            f"is no text in {encoding}: {broken} mistakes in {characters} characters; "
            "--encoding can name another"
        )


def check_encoding(name: str) -> str:
    """The codec's own name of an encoding; UserError if there is none of that name for text."""
    try:
        found = codecs.lookup(name)
        if not found._is_text_encoding:
            raise LookupError
    except (LookupError, ValueError):
        raise UserError(
            f"there is no encoding {name!r}; utf-8, utf-16, gb18030, big5 and cp1252 are some"
        ) from None
    return found.name


def _wide(name: str) -> str | None:
    """The codec to use for a declared name; None if there is none."""
    try:
        found = codecs.lookup(name)
    except (LookupError, ValueError):
        return None
    return _WIDER.get(found.name, found.name) if found._is_text_encoding else None


def _marked(data: bytes) -> str | None:
    return next((name for mark, name in _MARKS if data.startswith(mark)), None)


def _declared(data: bytes) -> str | None:
    match = _XML.match(data[:1000]) or _META.search(data[:4096])
    name = _wide(match[1].decode("ascii")) if match else None
    # a declaration that was read byte by byte cannot be in an encoding of two or four
    return None if name is None or name.startswith(("utf-16", "utf-32")) else name


def _by_zeros(data: bytes) -> str | None:
    """UTF-16 without a mark: of the two ways to read it, the one that gives common characters."""
    sample = data[: _SAMPLE & ~1]
    if 0 not in sample:
        return None
    best, most = None, 0.1
    for name in ("utf-16-le", "utf-16-be"):
        text = sample.decode(name, "replace")
        broken = text.count("\ufffd") + len(_CONTROL.findall(text))
        common = sum(character in _ANY_COMMON for character in text) / len(text)
        if broken * 100 <= len(text) and common > most:
            best, most = name, common
    return best


def _with_order(name: str, data: bytes) -> str:
    """An encoding; UTF-16 and UTF-32 without a mark with the byte order, which they need to be
    read part by part."""
    if name not in ("utf-16", "utf-32"):
        return name
    if name == "utf-16" and (zeros := _by_zeros(data)):
        return zeros
    size = 4 if name == "utf-32" else 2
    sample = data[: _SAMPLE & ~3]
    big = sample[::size].count(0) > sample[size - 1 :: size].count(0)  # most high bytes are zero
    return f"{name}-{'be' if big else 'le'}"


def _detected(data: bytes) -> str | None:
    """What charset-normalizer takes the bytes for, from up to 64 kB of them that are not ASCII."""
    normalizer = need(
        "charset_normalizer",
        "extract",
        "a file is not UTF-8, and guessing its encoding needs",
        "or name it with --encoding",
    )
    start = max(0, re.search(rb"[\x80-\xff]|\Z", data).start() - 256)  # type: ignore[union-attr]
    sample = data[start : start + (1 << 16)]
    for name in ("gb18030", "big5hkscs", "cp932", "euc_kr"):
        if _reads_as_east_asian(sample, name):
            return name
    matches = list(normalizer.from_bytes(sample, enable_fallback=False))
    if not matches:
        return None
    # of several that fit equally well, the one that most files are in
    equal = {
        name
        for match in matches
        if match.chaos <= matches[0].chaos + 0.01 and match.coherence >= matches[0].coherence - 0.05
        for name in match.could_be_from_charset
    }
    return _wide(next((name for name in _USUAL if name in equal), matches[0].encoding))


_USUAL = ("cp1252", "cp1251", "koi8_r", "cp1250", "cp1253", "cp1254", "cp1255", "cp1256")


_COMMON = {
    "gb18030": "的一是不了在人有我他这个们中来上大为和国地到以说时要就出会也你对生能而子那得于着",
    "big5hkscs": "的一是不了在人有我他這個們中來上大為和國地到以說時要就出會也你對生能而子那",
    "cp932": "のにはをたがでてとしれさいるかもなこうりまだ",
    "euc_kr": "이다는을에의가를고로한은하지도기사어서리아나대",
}  # fmt: skip
"""The most frequent characters of running text."""

_ANY_COMMON = frozenset(" \netaoinsrhldu<>=" + "оеаинтсрвл" + "".join(_COMMON.values()))


def _reads_as_east_asian(sample: bytes, name: str) -> bool:
    """Whether the bytes, so read, hold the most frequent characters of that writing.

    Of running text these are a fifth or more; of text in another encoding, next to none.
    """
    text = sample.decode(name, "ignore")
    letters = [character for character in text if character > "\x7f" and character.isalpha()]
    common = sum(character in _COMMON[name] for character in letters)
    broken = sample[:-4].decode(name, "replace").count("\ufffd")
    return len(letters) >= 4 and common * 8 >= len(letters) and broken * 50 <= len(text)


def find_encoding(data: bytes, given: str | None = None) -> str:
    """The encoding of a text of which `data` is all, or the first part.

    Raises:
        BinaryFile: no text begins like this.
    """
    if marked := _marked(data):
        return marked
    if given:
        return _with_order(check_encoding(given), data)
    if data.startswith(_MAGIC):
        raise BinaryFile("begins like a binary file")
    if zeros := _by_zeros(data):  # before UTF-8: ASCII with a zero at each letter is that, too
        return zeros
    if _is_utf8(data):
        return "utf-8"
    if data.count(0) * 100 > len(data):
        raise BinaryFile("has bytes of zero, as binary files have")
    if declared := _declared(data):
        return declared
    if _is_utf8_with_mistakes(data):
        return "utf-8"
    if detected := _detected(data):
        return detected
    raise BinaryFile("is text in no encoding that could be found; --encoding can name it")


def xml_encoding(head: bytes, given: str | None) -> str:
    """The encoding of XML that begins with `head`: marked, given, declared, or UTF-8."""
    return _marked(head) or given or _declared(head) or _by_zeros(head[:400]) or "utf-8-sig"


def _is_utf8(data: bytes) -> bool:
    try:  # the last character may be cut where `data` is only the first part
        codecs.getincrementaldecoder("utf-8")().decode(data)
    except UnicodeDecodeError:
        return False
    return True


def _is_utf8_with_mistakes(data: bytes) -> bool:
    """Whether far more characters beyond ASCII are right UTF-8 than are broken."""
    text = data[:_SAMPLE].decode("utf-8", "replace")
    broken = text.count("\ufffd")
    return sum(character > "\x7f" for character in text) - broken > 4 * broken


def decode(data: bytes, given: str | None, mended: Mended) -> str:
    """The text of `data`; broken bytes are counted in `mended`.

    Raises:
        BinaryFile: it is no text, or too little of it is.
    """
    encoding = find_encoding(data, given)
    found = Mended()
    text = mend(data.decode(encoding, MARKED), found)
    refuse_noise(found.bytes, len(text), encoding)
    sample = text[:_SAMPLE]
    if len(_CONTROL.findall(sample)) > MANY_CONTROLS * len(sample):
        raise BinaryFile("is full of control characters")
    mended.bytes += found.bytes
    return text


def clean(text: str, mended: Mended) -> str:
    """Text without lone surrogates (U+FFFD instead) and control characters; line ends are "\\n"."""
    text = (
        mend(text, mended)
        .replace("\r\n", "\n")
        .replace("\r", "\n")
        .replace("\x0c", "\n")
        .replace("\x85", "\n")
    )
    text, count = _CONTROL.subn("", text)
    mended.characters += count
    return text.removeprefix("\ufeff")
