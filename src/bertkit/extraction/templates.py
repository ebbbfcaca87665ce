"""Wikitext templates whose text is a part of the sentence: their arguments in, that text out.

{{convert|10|mi|km}} is "10 miles", {{lang|fr|mot}} is "mot". A wiki has thousands of templates, and
what they show is known to the wiki only; these are the common ones of the English Wikipedia, of
which other wikis have many too. All others are left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable

Values = dict[str, str]
"""A template's arguments by name; those without a name are "1", "2" ..."""


def known_template(name: str) -> Callable[[Values], str] | None:
    """What a template shows, from its arguments; None if it is not known.

    `name` is in lower case, with spaces for underscores.
    """
    return _TEMPLATES.get(name) or (_argument("1") if name.startswith("lang-") else None)


def _argument(*names: str) -> Callable[[Values], str]:
    """The first of these arguments that is there."""
    return lambda values: next((values[name] for name in names if values.get(name)), "")


def _all(separator: str) -> Callable[[Values], str]:
    """All arguments without a name."""
    return lambda values: separator.join(
        value for name, value in values.items() if name.isdigit() and value
    )


def _after(words: str, separator: str = "–") -> Callable[[Values], str]:
    return lambda values: f"{words}{_all(separator)(values)}".strip()


def _text(text: str) -> Callable[[Values], str]:
    return lambda values: text


# ---- numbers and units -----------------------------------------------------------------------

_RANGES = {
    "-": "–", "–": "–", "and": " and ", "to": " to ", "x": " × ", "×": " × ", "by": " by ",
    "or": " or ", "to(-)": " to ", "and(-)": " and ", "+/-": " ± ", "±": " ± ",
}  # fmt: skip
_UNITS = {
    "sqmi": "square miles", "sqkm": "km²", "km2": "km²", "m2": "m²", "m3": "m³", "km3": "km³",
    "cuft": "cubic feet", "sqft": "square feet", "acre": "acres", "mi": "miles", "ft": "feet",
    "in": "inches", "yd": "yards", "nmi": "nautical miles", "C": "°C", "F": "°F", "kn": "knots",
    "C-change": "°C", "F-change": "°F", "cm3": "cm³", "g/cm3": "g/cm³", "m3/s": "m³/s",
    "impgal": "imperial gallons", "usgal": "US gallons", "U.S.gal": "US gallons", "ha": "hectares",
    "/sqkm": "per km²", "/km2": "per km²", "PD/sqkm": "per km²", "PD/km2": "per km²",
    "/sqmi": "per square mile", "PD/sqmi": "per square mile", "long ton": "long tons",
    "short ton": "short tons", "carat": "carats", "oilbbl": "barrels",
    "oilbbl/d": "barrels per day",
}  # fmt: skip
_POWERS = {"e3": "thousand ", "e6": "million ", "e9": "billion ", "k": "thousand ", "M": "million "}
_NUMBER = re.compile(r"[-−+]?[\d.,/+e]*\d\.?")


def _convert(values: Values) -> str:
    """{{convert|5|to|7|kg|lb}} is "5 to 7 kg", {{convert|6|ft|2|in|m}} "6 feet 2 inches"."""
    shown = ""
    for number in range(1, 9):
        value = values.get(str(number), "")
        if value in _RANGES and shown:
            shown += _RANGES[value]
        elif _NUMBER.fullmatch(value):
            shown += _number(value)
        elif not value or not shown:
            break
        else:
            unit = _unit(value)
            if values.get("adj") in ("on", "mid"):
                unit = {"feet": "foot", "inches": "inch"}.get(unit, unit.removesuffix("s"))
                return f"{shown}-{unit}"
            shown += f" {unit}"
            if value not in ("ft", "lb", "st") or not _is_smaller(values, number):
                break
            shown += " "
    return shown


def _number(value: str) -> str:
    """1234 is "1,234" and -5 "−5", as the template writes them."""
    if value.isdecimal() and len(value) > 3:
        return f"{int(value):,}"
    return value.replace("-", "−")


def _unit(name: str) -> str:
    """The unit in words where its code is none: "koilbbl/d" is "thousand barrels per day"."""
    if name in _UNITS:
        return _UNITS[name]
    for prefix, word in _POWERS.items():
        rest = name.removeprefix(prefix)
        if rest != name and (rest in _UNITS or prefix.startswith("e")):
            return word + _UNITS.get(rest, rest)
    return name


def _is_smaller(values: Values, number: int) -> bool:
    """Whether a smaller unit follows the one at `number`: 6|ft|2|in."""
    return _NUMBER.fullmatch(values.get(str(number + 1), "")) is not None and values.get(
        str(number + 2), ""
    ) in ("in", "oz", "lb")


def _fraction(values: Values) -> str:
    found = [values[name] for name in "123" if values.get(name)]
    if len(found) == 3:
        return f"{found[0]} {found[1]}/{found[2]}"
    return "/".join(found) if len(found) == 2 else "1/" + "".join(found)


def _quantity(values: Values) -> str:
    """{{val|6.02|0.01|e=23|u=mol}}."""
    unit = values.get("ul") or values.get("u") or ""
    error = f" ± {values['2']}" if values.get("2") else ""
    power = f"×10^{values['e']}" if values.get("e") else ""
    return f"{values.get('1', '')}{error}{power} {unit}".strip()


def _money(sign: str) -> Callable[[Values], str]:
    return lambda values: f"{sign}{values.get('1', '')}"


# ---- dates and quotations --------------------------------------------------------------------

_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September",
    "October", "November", "December",
)  # fmt: skip


def _date(values: Values) -> str:
    """{{birth date|1912|6|23}} is "23 June 1912"."""
    year, month, day = (values.get(name, "") for name in "123")
    if month.isdecimal() and 1 <= int(month) <= 12:
        month = _MONTHS[int(month) - 1]
    return " ".join(part for part in (day, month, year) if part)


def _as_of(values: Values) -> str:
    words = "since" if values.get("since") else "as of"
    start = words if values.get("lc") else words.capitalize()
    return values.get("alt") or f"{start} {_date(values)}".strip()


def _quotation(values: Values) -> str:
    text = _argument("text", "quote", "1", "content")(values)
    return f"\n\n{text}\n\n" if text else ""


def _either(*names: str, shown: Callable[[Values], str]) -> dict[str, Callable[[Values], str]]:
    return dict.fromkeys(names, shown)


_FIRST = """
    nowrap nobr small smaller big larger large sc smallcaps sic nobold noitalic vanchor sup sub em
    strong mvar angbr unicode polytonic nihongo2 zh-hans zh-hant zh-cn zh-tw mono code tt key
    keypress abbr tooltip linktext var samp kbd strike bigger nts formatnum iast nobreak midsize
    angle_bracket visible_anchor script/arabic script/hebrew flagu railgauge track_gauge chem2
    format_price ipa ipa_link ipaslink ipablink
""".split()  # noqa: SIM905

_TEMPLATES: dict[str, Callable[[Values], str]] = {
    **{name.replace("_", " "): _argument("1") for name in _FIRST},
    **_either("convert", "cvt", shown=_convert),
    **_either("lang", "wikt-lang", shown=_argument("2", "text")),
    **_either("transl", "transliteration", shown=_argument("3", "2")),
    **_either("color", "font color", shown=_argument("2", "1")),
    **_either("ill", "interlanguage link", shown=_argument("lt", "1")),
    **_either("nihongo", shown=_argument("1", "3")),
    **_either("flag", "flagcountry", shown=_argument("name", "1")),
    **_either("quote", "blockquote", "cquote", "quotation", "bquote", shown=_quotation),
    **_either("frac", "fraction", "sfrac", shown=_fraction),
    **_either("as of", "asof", shown=_as_of),
    **_either("birth date", "death date", "start date", "end date", "dts", shown=_date),
    **_either("circa", "c.", "ca.", shown=_after("c. ")),
    **_either("floruit", "fl.", shown=_after("fl. ")),
    **_either("reign", "r.", shown=_after("r. ")),
    **_either("ndash", "–", "en dash", shown=_text("–")),
    **_either("mdash", "em dash", "—", shown=_text("—")),
    **_either("spaced ndash", "snd", "spnd", "sndash", "spaced en dash", shown=_text(" – ")),
    **_either("nbsp", "space", "spaces", "thinsp", "pad", shown=_text(" ")),
    **_either("·", "dot", "middot", "•", "bullet", shown=_text(" · ")),
    **_either("'", "-'", "okina", "hamza", shown=_text("'")),
    **_either("pipe", "!", shown=_text("|")),
    **_either("simplenuclide2", "simplenuclide", "nuclide", "nuclide2", shown=_all("-")),
    **_either("us$", "usd", shown=_money("US$")),
    **_either("gbp", "£", shown=_money("£")),
    **_either("eur", "euro", "€", shown=_money("€")),
    **_either("inr", "inrconvert", shown=_money("₹")),
    "'s": _text("'s"),
    '"': _text('"'),
    "=": _text("="),
    "val": _quantity,
    "e": lambda values: f"×10^{values.get('1', '')}",
    "chem": _all(""),
    "date": _argument("1"),
    "hlist": _all(", "),
    "uss": _after("USS ", " "),
    "hms": _after("HMS ", " "),
    "inflation": _argument("3"),
}
