"""One sub-command's line: its parser and its `--help`, both made from the stage's dataclass.

argparse splits the line; types, defaults and messages come from `bertkit.config`, the same for the
line and for a YAML file. So one place decides what a value may be, and a mistake reads alike
wherever it was made.
"""

from __future__ import annotations

import argparse
import difflib
import re
import shutil
import textwrap
from typing import Any, Literal, NoReturn, get_args, get_origin

from bertkit.config import Option, convert, options, read
from bertkit.errors import UserError

COMMON = [
    ("--config FILE", "read options from a YAML file; those on the line go before it"),
    ("--json", "print the result as JSON"),
    ("--debug", "show where an error came from"),
    ("-h, --help", "show this and exit"),
]


class LineError(UserError):
    """A command line that cannot be understood."""


class Parser(argparse.ArgumentParser):
    """Splits a line into options and the rest; complains with an exception, not by exiting."""

    def error(self, message: str) -> NoReturn:
        raise LineError(message)


def parse(config_class: type, arguments: list[str]) -> tuple[dict[str, Any], argparse.Namespace]:
    """The configuration's values, from the line and the file it names, and the common switches.

    The line goes before the file. Raises UserError for either when it does not fit the dataclass.
    """
    entries = options(config_class)
    parser = Parser(add_help=False, allow_abbrev=False, argument_default=argparse.SUPPRESS)
    parser.add_argument("--config", default=None)
    parser.add_argument("--json", action="store_true", default=False)
    parser.add_argument("--debug", action="store_true", default=False)
    parser.add_argument("places", nargs="*", default=[])
    for entry in entries:
        names = [f"-{entry.short}"] if entry.short else []
        if entry.positional:
            continue
        if entry.base is bool:
            parser.add_argument(
                *names, entry.flag, dest=entry.name, action=argparse.BooleanOptionalAction
            )
        else:
            nargs = "+" if entry.is_list else None
            parser.add_argument(*names, entry.flag, dest=entry.name, nargs=nargs)
    line, unknown = parser.parse_known_intermixed_args(_normal(arguments))
    if unknown:
        flags = [name for action in parser._actions for name in action.option_strings]
        near = difflib.get_close_matches(unknown[0], flags, 1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise LineError(f"unknown option {unknown[0]}{hint}")
    values = read(config_class, line.config) if line.config else {}
    given = {name: value for name, value in vars(line).items() if name in {e.name for e in entries}}
    given |= _placed([entry for entry in entries if entry.positional], line.places)
    for entry in entries:
        if entry.name in given:
            where = _shown(entry) if entry.positional else entry.flag
            values[entry.name] = convert(given[entry.name], entry.type, where)
    missing = [entry for entry in entries if entry.required and values.get(entry.name, []) == []]
    if missing:
        names = [_shown(entry) if entry.positional else entry.flag for entry in missing]
        raise LineError("missing " + " and ".join(names))
    return values, line


def help_text(name: str, summary: str, examples: tuple[str, ...], config_class: type) -> str:
    """What `bertkit NAME --help` prints: each option with its default, and examples."""
    entries = options(config_class)
    placed = [entry for entry in entries if entry.positional]
    named = [entry for entry in entries if not entry.positional]
    usage = ["bertkit", name, *map(_shown, placed)]
    usage += [f"{entry.flag} {_metavar(entry)}" for entry in named if entry.required]
    sections = [f"usage: {' '.join(usage)} [options]", summary + "."]
    for title, rows in (
        ("arguments", [(_shown(entry).strip("[]"), _described(entry)) for entry in placed]),
        ("options", [(_named(entry), _described(entry)) for entry in named]),
        ("every command", COMMON),
    ):
        if rows:
            sections.append(f"{title}:\n" + table(rows))
    title = "example" if len(examples) == 1 else "examples"
    sections.append(f"{title}:\n" + "\n".join(f"  {line}" for line in examples))
    return "\n\n".join(sections)


def table(rows: list[tuple[str, str]]) -> str:
    """Names on the left, their descriptions wrapped on the right."""
    width = max(min(shutil.get_terminal_size().columns, 100), 50)
    indent = min(max(len(left) for left, _ in rows), 26) + 4
    lines = []
    for left, right in rows:
        wrapped = textwrap.wrap(right, width - indent) or [""]
        first = f"  {left}"
        if len(first) + 2 > indent:
            lines.append(first)
            first = ""
        lines.append(f"{first:<{indent}}{wrapped[0]}".rstrip())
        lines += [" " * indent + line for line in wrapped[1:]]
    return "\n".join(lines)


def _normal(arguments: list[str]) -> list[str]:
    """--learning_rate becomes --learning-rate, and `--layers -1,-2` becomes `--layers=-1,-2`."""
    normal: list[str] = []
    for position, argument in enumerate(arguments):
        if argument == "--":
            return normal + arguments[position:]
        if re.fullmatch(r"-\d[\d,.-]*,[\d,.-]*", argument) and normal and normal[-1][:2] == "--":
            normal[-1] += "=" + argument
        elif argument.startswith("--"):
            name, equals, value = argument.partition("=")
            normal.append(name.replace("_", "-") + equals + value)
        else:
            normal.append(argument)
    return normal


def _placed(entries: list[Option], values: list[str]) -> dict[str, Any]:
    """Gives the values without a name to the positional options in order; a list takes the rest."""
    given: dict[str, Any] = {}
    left = list(values)
    for number, entry in enumerate(entries):
        if not left:
            break
        if entry.is_list:
            later = sum(other.required for other in entries[number + 1 :])
            count = max(len(left) - later, 1)
            given[entry.name], left = left[:count], left[count:]
        else:
            given[entry.name] = left.pop(0)
    if left:
        raise LineError(f"'{left[0]}' is one argument too many")
    return given


def _shown(entry: Option) -> str:
    name = entry.name.upper() + ("..." if entry.is_list else "")
    return name if entry.required else f"[{name}]"


def _metavar(entry: Option) -> str:
    if get_origin(entry.base) is Literal:
        return "{" + ",".join(map(str, get_args(entry.base))) + "}"
    return entry.name.rpartition("_")[2].upper() + ("..." if entry.is_list else "")


def _named(entry: Option) -> str:
    short = f"-{entry.short}, " if entry.short else ""
    if entry.base is bool:
        return f"{short}{entry.flag}, --no-{entry.flag[2:]}"
    return f"{short}{entry.flag} {_metavar(entry)}"


def _described(entry: Option) -> str:
    if entry.required:
        return f"{entry.help} (required)"
    default = entry.default
    if isinstance(default, bool):
        default = "yes" if default else "no"
    elif isinstance(default, list):
        default = " ".join(map(str, default))
    if default is None or default == "":
        if "default" in entry.help:  # it says what leaving it out means
            return entry.help
        default = "none"
    return f"{entry.help} (default: {default})"
