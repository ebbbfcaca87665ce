"""Any encoding: marked, given, declared or detected; and what is no text is known."""

from __future__ import annotations

import random

import pytest

from bertkit.errors import UserError
from bertkit.extraction.encodings import BinaryFile, check_encoding, clean, decode, find_encoding
from bertkit.extraction.records import Mended

CHINESE = "我们在这里看见一个大的国家，他说这是中国的人。今天天气很好，我和他去上学。\n"
TRADITIONAL = "我們在這裡看見一個大的國家，他說這是中國的人。今天天氣很好，我和他去上學。\n"
JAPANESE = "私はこの本を読みました。それは、とても面白い話でした。日本の古い町が出てくる。\n"
KOREAN = "나는 이 책을 읽었다. 그것은 매우 재미있는 이야기였다. 한국의 오래된 도시가 나온다.\n"
FRENCH = "L'été dernier, nous étions à Genève où il a été très content de ses élèves.\n"
RUSSIAN = "Прошлым летом мы были в городе, где он очень хорошо учился и много работал.\n"


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        (CHINESE, "utf-8"),
        (CHINESE, "utf-8-sig"),
        (CHINESE * 5, "gb18030"),
        (CHINESE, "gb2312"),
        (TRADITIONAL * 5, "big5"),
        (JAPANESE * 5, "cp932"),
        (KOREAN * 5, "euc_kr"),
        (FRENCH * 5, "cp1252"),
        (RUSSIAN * 5, "cp1251"),
        (CHINESE * 5, "utf-16"),
        (CHINESE * 20, "utf-16-le"),
        (FRENCH, "utf-16-be"),
        ("Plain English, in wide letters.\n" * 5, "utf-16-le"),
        ("Plain English, in wide letters.\n" * 5, "utf-16-be"),
        (FRENCH, "utf-32"),
        ("plain\n", "ascii"),
        ("", "utf-8"),
    ],
)
def test_an_encoding_is_found(text: str, encoding: str) -> None:
    mended = Mended()
    assert decode(text.encode(encoding), None, mended).removeprefix("\ufeff") == text
    assert mended.bytes == 0


def test_a_declaration_and_the_user_decide_where_bytes_do_not() -> None:
    page = f'<html><head><meta charset="iso-8859-2"></head>{"žluťoučký kůň"}'
    assert "kůň" in decode(page.encode("iso-8859-2"), None, Mended())
    assert decode("kůň".encode("iso-8859-2"), "iso-8859-2", Mended()) == "kůň"
    # UTF-8 that declares otherwise is UTF-8
    wrong = '<meta charset="iso-8859-1">' + CHINESE
    assert CHINESE in decode(wrong.encode(), None, Mended())


@pytest.mark.parametrize("name", ["utf-16", "utf-32"])
@pytest.mark.parametrize("order", ["le", "be"])
@pytest.mark.parametrize("text", [CHINESE * 3, FRENCH, "plain\n"])
def test_the_byte_order_of_a_named_encoding_is_found(name: str, order: str, text: str) -> None:
    if (name, order) == ("utf-16", "be") and text.startswith(CHINESE):
        return  # has no zeros: taken for the common order
    data = text.encode(f"{name}-{order}")
    assert find_encoding(data, name) == f"{name}-{order}"
    assert decode(data, name.upper(), Mended()) == text


def test_a_few_broken_bytes_are_counted_and_many_are_no_text() -> None:
    mended = Mended()
    data = (CHINESE * 9).encode() + b"\xff" + CHINESE.encode()
    assert decode(data, None, mended) == CHINESE * 9 + "\ufffd" + CHINESE
    assert mended.bytes == 1
    with pytest.raises(BinaryFile, match="mistakes"):
        decode(("é" * 50).encode("cp1252"), "utf-8", Mended())


@pytest.mark.parametrize(
    "data",
    [
        b"\x89PNG\r\n\x1a\n" + b"\x00" * 50,
        b"%PDF-1.7 text",
        b"PK\x03\x04rest",
        b"text\x00\x01\x00text" * 20,
        bytes(range(256)) * 40,
        random.Random(0).randbytes(20_000),
        b"\x01\x02\x03\x04\x05\x06" * 30,
    ],
)
def test_a_binary_file_is_no_text(data: bytes) -> None:
    with pytest.raises(BinaryFile):
        decode(data, None, Mended())


def test_an_unknown_encoding_is_refused() -> None:
    assert check_encoding("GB18030") == "gb18030"
    for name in ("utf-9", "base64", "zip"):
        with pytest.raises(UserError, match="no encoding"):
            check_encoding(name)


def test_a_character_cut_at_the_samples_end_is_no_mistake() -> None:
    assert find_encoding("书".encode()[:2]) == "utf-8"


def test_surrogates_and_controls_are_mended_and_counted() -> None:
    mended = Mended()
    assert clean("a\ud800b\x00\x07c\r\nd\re\x0bf\U0001f600", mended) == "a\ufffdbc\nd\nef\U0001f600"
    assert (mended.bytes, mended.characters) == (1, 3)
