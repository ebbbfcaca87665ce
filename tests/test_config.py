"""A configuration's dataclass is its YAML file and its Python signature, with the same checks."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest

from bertkit.config import convert, load, option, options, presets, read, save
from bertkit.errors import UserError


@dataclass
class StageConfig:
    """A stage of the tests' own, with an option of each kind."""

    inputs: list[str] = option(help="texts to read", positional=True)
    output: str = option(help="where the result goes", short="o")
    learning_rate: float = option(1e-4, help="the highest rate")
    precision: Literal["auto", "fp32", "bf16"] = option("auto", help="numbers to compute with")
    bits: Literal[8, 16] = option(16, help="bits of a number")
    steps: int | None = option(None, help="how many steps")
    layers: list[int] = option([-1, -2], help="layers to use")
    weights: dict[str, float] = option({}, help="a weight for each source")
    quiet: bool = option(False, help="print nothing")


EVERYTHING = StageConfig(
    inputs=["a.txt", "书/二.txt"],
    output="out: 1",
    learning_rate=3e-5,
    precision="bf16",
    bits=8,
    steps=1000,
    layers=[-4],
    weights={"news": 0.5},
    quiet=True,
)


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("config", [EVERYTHING, StageConfig(inputs=["no"], output="null")])
def test_a_saved_configuration_is_read_back_the_same(tmp_path: Path, config: StageConfig) -> None:
    save(config, tmp_path / "stage.yaml")
    assert load(StageConfig, tmp_path / "stage.yaml") == config


def test_overrides_go_before_the_file(tmp_path: Path) -> None:
    save(EVERYTHING, tmp_path / "stage.yaml")
    config = load(StageConfig, tmp_path / "stage.yaml", steps=5, output="other")
    assert (config.steps, config.output, config.bits) == (5, "other", 8)


def test_lists_are_not_shared_between_configurations() -> None:
    first, second = (StageConfig(inputs=[], output="") for _ in range(2))
    first.layers.append(0)
    assert second.layers == [-1, -2]


def test_the_options_of_a_dataclass_are_described() -> None:
    described = {entry.name: entry for entry in options(StageConfig)}
    assert list(described) == list(StageConfig.__dataclass_fields__)
    assert described["output"].required and described["output"].short == "o"
    assert described["inputs"].positional and described["inputs"].is_list
    assert described["steps"].base is int and not described["steps"].required
    assert described["learning_rate"].flag == "--learning-rate"


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [
        ("1e-4", float, 1e-4),
        (3, float, 3.0),
        ("1e5", int, 100_000),
        (2.0, int, 2),
        ("10_000", int, 10_000),
        ("9" * 18, int, int("9" * 18)),
        ("-3", int, -3),
        (None, int | None, None),
        ("none", int | None, None),
        ("none", str | None, "none"),
        ("none", list[str] | None, ["none"]),
        ("7", int | None, 7),
        ("16", Literal[8, 16], 16),
        ("a", list[str], ["a"]),
        ("a,b", list[str], ["a,b"]),
        (["-1,-2", "3"], list[int], [-1, -2, 3]),
        ({"a": 1}, dict[str, float], {"a": 1.0}),
        (Path("a"), str, "a"),
        ("a", Path, Path("a")),
        (False, bool, False),
    ],
)
def test_a_value_takes_the_type_of_its_field(value: Any, kind: Any, expected: Any) -> None:
    converted = convert(value, kind, "--x")
    assert converted == expected and type(converted) is type(expected)


@pytest.mark.parametrize(
    ("value", "kind", "message"),
    [
        ("fast", float, "--x must be a number, not 'fast'"),
        ("nan", float, "--x must be a number, not 'nan'"),
        ("inf", float, "--x must be a number, not 'inf'"),
        (True, float, "--x must be a number, not True"),
        ("1.5", int, "--x must be a whole number, not '1.5'"),
        (1.5, int, "--x must be a whole number, not 1.5"),
        ("1e999", int, "--x must be a whole number, not '1e999'"),
        ("²", int, "--x must be a whole number, not '²'"),
        ("", int, "--x must be a whole number, not ''"),
        (None, int, "--x must be a whole number, not None"),
        (True, int, "--x must be a whole number, not True"),
        (10, str, "--x must be text, not 10; put it in quotes"),
        (False, str, "--x must be text, not False; put it in quotes"),
        ("yes", bool, "--x must be true or false, not 'yes'"),
        ("fp16", Literal["auto", "fp32"], "--x must be one of auto, fp32, not 'fp16'"),
        (True, Literal[1, 2], "--x must be one of 1, 2, not True"),
        (["1", "x"], list[int], "--x must be a whole number, not 'x'"),
        ([1], dict[str, int], "--x must be names with values, not [1]"),
        ({"a": 1}, list[str], "--x must be text, not {'a': 1}; put it in quotes"),
    ],
)
def test_a_value_of_another_type_is_refused_in_one_line(
    value: Any, kind: Any, message: str
) -> None:
    with pytest.raises(UserError) as caught:
        convert(value, kind, "--x")
    assert str(caught.value) == message


def test_a_long_wrong_value_is_shown_short() -> None:
    with pytest.raises(UserError) as caught:
        convert("x" * 10_000, int, "--x")
    assert len(str(caught.value)) < 120


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("stepz: 3", "unknown option 'stepz' in .*; did you mean 'steps'"),
        ("zzz: 3", "unknown option 'zzz' in .*; --help lists"),
        ("steps: many", "'steps' in .* must be a whole number, not 'many'"),
        ("output: 2024", "'output' in .* must be text, not 2024; put it in quotes"),
        ("a: [1", r"is not valid YAML in line \d+"),
        ("tabs:\n\t- a", "is not valid YAML in line 2"),
        ("- a\n- b", "is no configuration"),
        ("only words", "is no configuration"),
        ("a: !!python/object:os.system {}", "is not valid YAML"),
    ],
)
def test_a_file_that_does_not_fit_is_refused_in_one_line(
    tmp_path: Path, text: str, message: str
) -> None:
    path = write(tmp_path / "stage.yaml", text)
    with pytest.raises(UserError, match=message) as caught:
        read(StageConfig, path)
    assert "\n" not in str(caught.value) and str(path) in str(caught.value)


def test_a_file_that_is_absent_or_not_text_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"absent\.yaml: no such file"):
        read(StageConfig, tmp_path / "absent.yaml")
    with pytest.raises(UserError, match="is a directory"):
        read(StageConfig, tmp_path)
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UserError, match="not UTF-8"):
        read(StageConfig, tmp_path / "binary.yaml")


def test_names_may_be_written_with_dashes_and_an_empty_file_says_nothing(tmp_path: Path) -> None:
    path = write(tmp_path / "stage.yaml", "\ufefflearning-rate: 1e-3\ninputs: one.txt\n")
    assert read(StageConfig, path) == {"learning_rate": 1e-3, "inputs": ["one.txt"]}
    assert read(StageConfig, write(tmp_path / "empty.yaml", "# nothing\n")) == {}


def test_load_wants_the_required_options_and_no_unknown_ones(tmp_path: Path) -> None:
    path = write(tmp_path / "stage.yaml", "inputs: [a]")
    with pytest.raises(UserError, match=r"stage\.yaml lacks 'output'"):
        load(StageConfig, path)
    with pytest.raises(UserError, match="did you mean 'steps'"):
        load(StageConfig, path, output="o", step=3)
    with pytest.raises(UserError, match="'steps' must be a whole number"):
        load(StageConfig, path, output="o", steps="x")


@presets({"large": {"size": 24, "parts": ["a:1"]}})
@dataclass
class PresetConfig:
    """A stage with a preset."""

    inputs: str = option(help="what to read", positional=True)
    size: int = option(12, help="how large")
    parts: list[str] = option([], help="parts")
    preset: str | None = option(None, help="named defaults")


def test_a_preset_fills_only_what_is_left_out(tmp_path: Path) -> None:
    assert PresetConfig("x").size == 12
    assert PresetConfig("x", preset="large") == PresetConfig("x", 24, ["a:1"], "large")
    assert PresetConfig("x", preset="large", size=12).size == 12  # the default, but given
    assert PresetConfig("x", 12, preset="large").size == 12
    PresetConfig("x", preset="large").parts.append("b:2")
    assert PresetConfig("x", preset="large").parts == ["a:1"]
    save(PresetConfig("x", preset="large", size=7), tmp_path / "x.yaml")
    assert load(PresetConfig, tmp_path / "x.yaml") == PresetConfig("x", 7, ["a:1"], "large")
    with pytest.raises(UserError, match="no preset 'huge'; choose one of large"):
        PresetConfig("x", preset="huge")
