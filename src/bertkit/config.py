"""Configurations: the dataclass of a stage is its command line, YAML file and Python signature.

A stage declares its dataclass with `option(...)` for each field, in a module that imports no
torch. This module reads, checks and writes such dataclasses and knows none of them. The values of
a YAML file and of the command line pass through the same `convert`, so that they meet the same
checks; a field may be a text, a number, a boolean, a choice (`Literal`), a list or dictionary of
these, or `None` besides.
"""

from __future__ import annotations

import copy
import dataclasses
import difflib
import functools
import math
import types
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from bertkit.errors import UserError
from bertkit.files import writing

T = TypeVar("T")


def option(
    default: Any = dataclasses.MISSING,
    *,
    help: str,
    short: str | None = None,
    positional: bool = False,
) -> Any:
    """A field of a configuration.

    Args:
        default: its value when the user gives none; without one the option is required. A list
            or dictionary is copied for each instance.
        help: one sentence for `--help`; the default is added to it.
        short: a one-letter name, as `o` for `-o`.
        positional: given by place, not by name. A list takes one or more.
    """
    metadata = {"help": help, "short": short, "positional": positional}
    if isinstance(default, (list, dict)):
        return dataclasses.field(default_factory=default.copy, metadata=metadata)
    if default is dataclasses.MISSING:
        return dataclasses.field(metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def presets(named: dict[str, dict[str, Any]]) -> Callable[[type[T]], type[T]]:
    """Decorates a configuration whose option `preset` names defaults; what is given goes first.

    On the command line, in a YAML file and in Python alike: the defaults of a preset fill only
    the fields that the caller leaves out.
    """

    def decorate(config_class: type[T]) -> type[T]:
        plain = config_class.__init__
        names = [field.name for field in dataclasses.fields(config_class)]  # type: ignore[arg-type]

        @functools.wraps(plain)
        def init(self: Any, *arguments: Any, **given: Any) -> None:
            by_place = dict(zip(names, arguments, strict=False))
            name = (by_place | given).get("preset")
            if name is not None and name not in named:
                raise UserError(f"no preset '{name}'; choose one of {', '.join(named)}")
            chosen = named[name] if name is not None else {}
            copies = {key: value for key, value in chosen.items() if key not in by_place}
            plain(self, *arguments, **(copy.deepcopy(copies) | given))

        config_class.__init__ = init  # type: ignore[method-assign]
        return config_class

    return decorate


@dataclasses.dataclass(frozen=True)
class Option:
    """What the command line needs to know of one field; `default` is MISSING when required."""

    name: str
    type: Any
    default: Any
    help: str
    short: str | None
    positional: bool

    @property
    def required(self) -> bool:
        return self.default is dataclasses.MISSING

    @property
    def flag(self) -> str:
        return "--" + self.name.replace("_", "-")

    @property
    def base(self) -> Any:
        """The type without `None`."""
        return _without_none(self.type)

    @property
    def is_list(self) -> bool:
        return get_origin(self.base) is list


def options(config_class: type) -> list[Option]:
    """The fields of a configuration's dataclass, in order, with their types resolved."""
    hints = get_type_hints(config_class)
    found = []
    for field in dataclasses.fields(config_class):
        default = field.default
        if field.default_factory is not dataclasses.MISSING:
            default = field.default_factory()
        metadata = field.metadata
        found.append(
            Option(
                name=field.name,
                type=hints[field.name],
                default=default,
                help=metadata.get("help", ""),
                short=metadata.get("short"),
                positional=metadata.get("positional", False),
            )
        )
    return found


def convert(value: Any, kind: Any, where: str) -> Any:
    """`value` as the type `kind` of a field; numbers may also be given as text.

    `where` names the option in the error: UserError when the value is not of that type.
    """
    arguments = get_args(kind)
    if get_origin(kind) in (Union, types.UnionType):
        if type(None) in arguments and (value is None or _says_none(value, kind)):
            return None
        return convert(value, _without_none(kind), where)
    if get_origin(kind) is Literal:
        matching = [choice for choice in arguments if value == choice or value == str(choice)]
        if isinstance(value, bool) or not matching:
            raise _wrong(where, "one of " + ", ".join(map(str, arguments)), value)
        return matching[0]
    if get_origin(kind) is list:
        items = value if isinstance(value, (list, tuple)) else [value]
        if arguments[0] in (int, float):  # `--layers=-1,-2` is as good as `--layers -1 -2`
            items = [part for item in items for part in _at_commas(item)]
        return [convert(item, arguments[0], where) for item in items]
    if get_origin(kind) is dict:
        if not isinstance(value, dict):
            raise _wrong(where, "names with values", value)
        return {str(name): convert(item, arguments[1], where) for name, item in value.items()}
    return _scalar(value, kind, where)


def check_names(names: Iterable[str], config_class: type, where: str) -> None:
    """Raises UserError, with the nearest right name, for a name that is no field."""
    known = [entry.name for entry in options(config_class)]
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f"did you mean '{near[0]}'?" if near else "--help lists the known ones"
            raise UserError(f"unknown option '{name}' in {where}; {hint}")


def read(config_class: type, path: str | Path) -> dict[str, Any]:
    """The checked options that a YAML file gives; those it leaves out are not in the result.

    Raises UserError for a file that cannot be read, an unknown name or a value of a wrong type.
    """
    import yaml

    try:
        content = yaml.safe_load(Path(path).read_text(encoding="utf-8-sig"))
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise UserError(f"cannot read the configuration {path}: {reason}") from error
    except UnicodeDecodeError as error:
        raise UserError(f"the configuration {path} is not UTF-8 text; save it as UTF-8") from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f" in line {mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or "it cannot be parsed"
        raise UserError(f"{path} is not valid YAML{place}: {problem}") from error
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise UserError(f"{path} is no configuration; write one 'name: value' on each line")
    values = {str(name).replace("-", "_"): value for name, value in content.items()}
    check_names(values, config_class, str(path))
    return {
        entry.name: convert(values[entry.name], entry.type, f"'{entry.name}' in {path}")
        for entry in options(config_class)
        if entry.name in values
    }


def load(config_class: type[T], path: str | Path, **overrides: Any) -> T:
    """The configuration in a YAML file, with `overrides` in place of what it says.

    Raises UserError for what `--config` would refuse: unknown names, wrong types, missing options.
    """
    check_names(overrides, config_class, f"the arguments beside {path}")
    values = read(config_class, path)
    for entry in options(config_class):
        if entry.name in overrides:
            value = overrides[entry.name]
            values[entry.name] = convert(value, entry.type, f"'{entry.name}'")
        elif entry.required and entry.name not in values:
            raise UserError(f"{path} lacks '{entry.name}', which is required; add it")
    return config_class(**values)


def to_dict(config: Any) -> dict[str, Any]:
    """The fields of a configuration as plain values for YAML and JSON."""
    return dataclasses.asdict(config)


def save(config: Any, path: str | Path) -> None:
    """Writes a configuration as YAML, readable by `--config`."""
    import yaml

    with writing(path) as partial:
        partial.write_text(
            yaml.safe_dump(to_dict(config), sort_keys=False, allow_unicode=True), encoding="utf-8"
        )


def _scalar(value: Any, kind: Any, where: str) -> Any:
    if kind is bool:
        if isinstance(value, bool):
            return value
        raise _wrong(where, "true or false", value)
    if kind is str:
        if isinstance(value, str):
            return value
        if isinstance(value, Path):
            return str(value)
        raise _wrong(where, "text", value, "; put it in quotes")
    if kind is Path and isinstance(value, (str, Path)):
        return Path(value)
    if (
        kind in (int, float)
        and isinstance(value, (int, float, str))
        and not isinstance(value, bool)
    ):
        try:
            # YAML reads 1e-4, without a dot, as text; and 1e5 is a fine number of steps.
            number = float(value)
            exact = int(value) if isinstance(value, int) or _is_digits(value) else None
        except (ValueError, OverflowError):
            number, exact = math.nan, None
        if kind is float and math.isfinite(number):
            return number
        if kind is int and (exact is not None or number.is_integer()):
            return exact if exact is not None else int(number)
    names = {int: "a whole number", float: "a number", Path: "a path"}
    raise _wrong(where, names.get(kind, str(kind)), value)


def _is_digits(value: Any) -> bool:
    return isinstance(value, str) and value.strip().lstrip("+-").replace("_", "").isdigit()


def _at_commas(item: Any) -> list[Any]:
    return [part for part in item.split(",") if part] if isinstance(item, str) else [item]


def _says_none(value: Any, kind: Any) -> bool:
    base = _without_none(kind)
    texts = base is str or (get_origin(base) is list and get_args(base)[0] is str)
    return isinstance(value, str) and value.lower() == "none" and not texts


def _without_none(kind: Any) -> Any:
    if get_origin(kind) not in (Union, types.UnionType):
        return kind
    left = [part for part in get_args(kind) if part is not type(None)]
    if len(left) != 1:
        raise TypeError(f"an option has one type and perhaps None, not {kind}")
    return left[0]


def _wrong(where: str, expected: str, value: Any, hint: str = "") -> UserError:
    shown = repr(value) if len(repr(value)) <= 60 else repr(value)[:57] + "..."
    return UserError(f"{where} must be {expected}, not {shown}{hint}")
