"""The command line: help, errors of one line, exit codes, results as text and JSON."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, get_args, get_type_hints

import pytest

import bertkit
from bertkit.arguments import help_text, parse
from bertkit.cli import COMMANDS, main, run
from bertkit.config import load, option, options, save
from bertkit.errors import Interrupted, UserError


@dataclass
class StageConfig:
    """A stage of the tests' own, so that the line is tested apart from what it starts."""

    model: str = option(help="a checkpoint", positional=True)
    output: str = option(help="where the result goes", short="o")
    inputs: list[str] = option([], help="texts to read", positional=True)
    learning_rate: float = option(1e-4, help="the highest rate")
    precision: Literal["auto", "fp32", "bf16"] = option("auto", help="numbers to compute with")
    steps: int | None = option(None, help="how many steps, 100% of them")
    layers: list[int] = option([-1, -2], help="layers to use")
    quiet: bool = option(False, help="print nothing", short="q")
    shuffle: bool = option(True, help="mix the examples")


@dataclass
class StageResult:
    """What the tests' stage returns: its configuration, and values that JSON finds hard."""

    config: StageConfig
    folder: Path = Path("书")
    loss: float = float("nan")
    scores: dict[str, float] = field(default_factory=lambda: {"f1": float("inf")})

    def __str__(self) -> str:
        return f"done with {self.config.model}"


def parsed(*arguments: str) -> StageConfig:
    """The configuration that a line gives."""
    seen: list[StageConfig] = []

    def stage(config: StageConfig) -> StageResult:
        seen.append(config)
        return StageResult(config)

    assert run("stage", StageConfig, stage, list(arguments)) == 0
    return seen[0]


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line on stderr with which a line is refused, with exit code 2."""
    assert run("stage", StageConfig, StageResult, list(arguments)) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert re.fullmatch(r"bertkit: [^\n]+\n", captured.err)
    return captured.err


def failing(error: BaseException) -> Callable[[Any], Any]:
    def stage(config: Any) -> Any:
        raise error

    return stage


def bertkit_process(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bertkit", *arguments]
    return subprocess.run(command, capture_output=True, text=True, **options)


def test_every_option_is_read_from_the_line() -> None:
    line = "run -o out a.txt --learning-rate 3e-5 --precision bf16 --steps 1e3"
    config = parsed(*line.split(), *["--layers", "-1", "-4", "-q", "--no-shuffle", "b.txt"])
    assert config == StageConfig(
        model="run",
        output="out",
        inputs=["a.txt", "b.txt"],
        learning_rate=3e-5,
        precision="bf16",
        steps=1000,
        layers=[-1, -4],
        quiet=True,
        shuffle=False,
    )


def test_what_the_line_leaves_out_has_its_default() -> None:
    assert parsed("run", "--output", "out") == StageConfig("run", "out")


@pytest.mark.parametrize(
    ("arguments", "name", "value"),
    [
        (["--learning_rate", "1"], "learning_rate", 1.0),
        (["--learning_rate=1"], "learning_rate", 1.0),
        (["--layers", "-1,-2,-3"], "layers", [-1, -2, -3]),
        (["--layers=-3"], "layers", [-3]),
        (["--layers", "-3"], "layers", [-3]),
        (["--steps", "none"], "steps", None),
        (["-"], "inputs", ["-"]),
        (["-1", "- a"], "inputs", ["-1", "- a"]),
        (["--", "--steps", "-x"], "inputs", ["--steps", "-x"]),
        (["书.txt", "a b"], "inputs", ["书.txt", "a b"]),
    ],
)
def test_lines_that_are_easily_misread(arguments: list[str], name: str, value: Any) -> None:
    assert getattr(parsed("run", "-o", "out", *arguments), name) == value


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("run -o out --learning-rate fast", "--learning-rate must be a number, not 'fast'"),
        ("run -o out --precision fp16", "must be one of auto, fp32, bf16, not 'fp16'"),
        ("run -o out --layers", "--layers: expected at least one argument"),
        ("run -o out --layers -1 b.txt", "--layers must be a whole number, not 'b.txt'"),
        ("run -o out --step 3", "unknown option --step; did you mean --steps?"),
        ("run -o out -z", "unknown option -z"),
        ("run", "missing --output"),
        ("", "missing MODEL and --output"),
        ("run --config absent.yaml", "cannot read the configuration absent.yaml"),
    ],
)
def test_a_wrong_line_is_refused_in_one_line(
    capsys: pytest.CaptureFixture[str], arguments: str, message: str
) -> None:
    line = refused(capsys, *arguments.split())
    assert message in line and line.endswith("; see bertkit stage --help\n")


@dataclass
class OneConfig:
    model: str = option(help="a checkpoint", positional=True)


def test_one_argument_too_many_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("stage", OneConfig, str, ["a", "b"]) == 2
    assert "'b' is one argument too many" in capsys.readouterr().err


def test_the_line_goes_before_the_file_and_the_file_before_the_default(tmp_path: Path) -> None:
    path = tmp_path / "stage.yaml"
    path.write_text("model: m\noutput: o\ninputs: [a]\nsteps: 5\nquiet: true\n")
    config = parsed("--config", str(path), "--steps", "7", "--no-quiet")
    assert config == StageConfig("m", "o", inputs=["a"], steps=7)
    assert parsed("other", "b", "c", "--config", str(path)).inputs == ["b", "c"]


def test_a_saved_configuration_starts_the_same_again(tmp_path: Path) -> None:
    first = parsed("m", "-o", "out", "a", "--layers", "-3", "--learning-rate", "1e-5", "-q")
    save(first, tmp_path / "stage.yaml")
    assert parsed("--config", str(tmp_path / "stage.yaml")) == first
    assert load(StageConfig, tmp_path / "stage.yaml") == first


def test_an_unknown_name_in_the_file_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "stage.yaml").write_text("stepz: 5\n")
    line = refused(capsys, "m", "-o", "out", "--config", str(tmp_path / "stage.yaml"))
    assert "unknown option 'stepz'" in line and "did you mean 'steps'?" in line


def test_the_result_is_text_on_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    parsed("run", "-o", "out")
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("done with run\n", "")


def test_json_is_strict_json_with_the_text_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    def no_constant(name: str) -> None:
        raise AssertionError(f"{name} is not JSON")

    parsed("书", "-o", "out", "--json")
    out = capsys.readouterr().out
    result = json.loads(out, parse_constant=no_constant)
    assert result["config"]["model"] == "书" and "书" in out
    assert (result["folder"], result["loss"], result["scores"]) == ("书", None, {"f1": None})


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (UserError("no such thing; try another"), 2, "bertkit: no such thing; try another\n"),
        (Interrupted("saved at step 5", signal.SIGINT), 130, "bertkit: saved at step 5\n"),
        (Interrupted("saved at step 5", signal.SIGTERM), 143, "bertkit: saved at step 5\n"),
        (MemoryError(), 2, "bertkit: the memory is used up; take a smaller --micro-batch-size"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory"), 2, "the memory is used up"),
        (OSError(errno.ENOSPC, "No space left on device"), 2, "bertkit: the disk is full"),
        (
            PermissionError(errno.EACCES, "Permission denied", "a/b"),
            2,
            "cannot use a/b: permission denied; check its permissions",
        ),
        (FileNotFoundError(errno.ENOENT, "No such file", "a/b"), 2, "cannot use a/b: no such file"),
        (ModuleNotFoundError("No module named 'yaml'"), 2, "No module named 'yaml'; install"),
        (KeyError("label"), 1, "this is a bug of bertkit (KeyError: 'label'); --debug shows"),
        (ValueError("two\nlines"), 1, "(ValueError: two); --debug"),
    ],
)
def test_each_end_has_its_line_and_its_exit_code(
    capsys: pytest.CaptureFixture[str], error: Exception, code: int, message: str
) -> None:
    assert run("stage", StageConfig, failing(error), ["m", "-o", "out"]) == code
    captured = capsys.readouterr()
    assert message in captured.err and captured.err.count("\n") == 1 and captured.out == ""


def test_debug_shows_the_traceback_too(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["m", "-o", "out", "--debug"]
    assert run("stage", StageConfig, failing(KeyError("label")), arguments) == 1
    assert run("stage", StageConfig, failing(UserError("wrong")), arguments) == 2
    err = capsys.readouterr().err
    assert err.count("Traceback (most recent call last)") == 2
    assert err.endswith("bertkit: wrong\n")


def test_ctrl_c_is_one_line_and_130(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bertkit.cli, "_main", failing(KeyboardInterrupt()))
    assert main(["vocab"]) == 130
    assert capsys.readouterr().err == "bertkit: stopped\n"


def test_a_reader_that_leaves_early_is_no_error() -> None:
    script = (
        "import sys; from bertkit import cli; "
        "cli._main = lambda arguments: [print('x' * 100) for _ in range(10_000)] and 0; "
        "sys.exit(cli.main([]))"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 128 + signal.SIGPIPE


def test_a_terminal_that_cannot_show_a_text_is_no_error() -> None:
    script = (
        "import sys; from bertkit import cli; "
        "cli._main = lambda arguments: print('书 \\udc80') or 0; sys.exit(cli.main([]))"
    )
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=environment
    )
    assert (done.returncode, done.stdout) == (0, "\\u4e66 \\udc80\n")


def test_help_shows_every_option_with_its_default_and_an_example() -> None:
    shown = help_text("stage", "Do it", ("bertkit stage m -o out",), StageConfig)
    assert shown.startswith("usage: bertkit stage MODEL [INPUTS...] --output OUTPUT [options]\n")
    for expected in (
        "MODEL      a checkpoint (required)",
        "INPUTS...  texts to read (default: none)",
        "-o, --output OUTPUT ",
        "the highest rate (default: 0.0001)",
        "--precision {auto,fp32,bf16}\n",
        "how many steps, 100% of them (default: none)",
        "--layers LAYERS... ",
        "layers to use (default: -1 -2)",
        "-q, --quiet, --no-quiet ",
        "mix the examples (default: yes)",
        "example:\n  bertkit stage m -o out",
    ):
        assert expected in shown


def test_the_overview_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    shown = capsys.readouterr().out
    for name, command in COMMANDS.items():
        assert re.search(rf"^  {name} +{command.summary.split()[0]}", shown, re.MULTILINE)
    assert main([]) == 2
    assert capsys.readouterr().err == shown


def test_help_is_quick_and_loads_neither_torch_nor_numpy() -> None:
    script = (
        "import sys; from bertkit.cli import main; main(['--help']); "
        "print(sorted({'torch', 'numpy', 'rich', 'yaml'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.endswith("[]\n")
    seconds = []
    for _ in range(3):
        started = time.perf_counter()
        assert bertkit_process("--help").returncode == 0
        seconds.append(time.perf_counter() - started)
    assert min(seconds) < 0.7


def test_the_version_is_the_packages(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"bertkit {bertkit.__version__}\n"
    assert version("bertkit") == bertkit.__version__


def test_an_unknown_command_is_refused_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pretain"]) == 2
    assert (
        capsys.readouterr().err
        == "bertkit: no command 'pretain'; did you mean 'bertkit pretrain'?\n"
    )
    assert main(["zzz"]) == 2
    assert capsys.readouterr().err == "bertkit: no command 'zzz'; see bertkit --help\n"


@pytest.mark.parametrize("name", COMMANDS)
def test_each_commands_help_lists_its_options_defaults_and_an_example(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([name, "--help"]) == 0
    shown = capsys.readouterr().out
    for entry in options(COMMANDS[name].config_class):
        place = entry.name.upper() if entry.positional else entry.flag
        assert re.search(rf"^  (-\w, )?{place}\b", shown, re.MULTILINE), entry.name
        assert entry.help, f"{name} {entry.flag} says nothing of itself"
    told = re.findall(r"default:|\(required\)", shown)
    assert len(told) >= len(options(COMMANDS[name].config_class))
    assert re.search(rf"^examples?:\n  .*bertkit {name}\b", shown, re.MULTILINE)
    assert main(["help", name]) == 0
    assert capsys.readouterr().out == shown


@pytest.mark.parametrize("name", COMMANDS)
def test_each_commands_help_loads_no_torch(name: str) -> None:
    script = (
        f"import sys; from bertkit.cli import main; main([{name!r}, '--help']); "
        "print(sorted({'torch', 'numpy'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.endswith("[]\n"), done.stderr


@pytest.mark.parametrize("name", COMMANDS)
def test_each_commands_examples_fit_its_options(name: str) -> None:
    command = COMMANDS[name]
    for example in command.examples:
        words = shlex.split(example.rpartition("| ")[2])
        assert words[:2] == ["bertkit", name]
        parse(command.config_class, words[2:])


@pytest.mark.parametrize("name", COMMANDS)
def test_each_commands_configuration_goes_through_yaml(name: str, tmp_path: Path) -> None:
    command = COMMANDS[name]
    values, _ = parse(command.config_class, shlex.split(command.examples[0])[2:])
    config = command.config_class(**values)
    save(config, tmp_path / f"{name}.yaml")
    assert load(command.config_class, tmp_path / f"{name}.yaml") == config
    again, _ = parse(command.config_class, ["--config", str(tmp_path / f"{name}.yaml")])
    assert command.config_class(**again) == config


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_refuses_what_it_does_not_know(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([name, "--no-such-option", "1"]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and err.endswith(f"; see bertkit {name} --help\n")


@pytest.mark.parametrize("name", COMMANDS)
def test_each_commands_result_is_a_dataclass_with_a_text(name: str) -> None:
    function = COMMANDS[name].function
    hints = get_type_hints(function)
    assert COMMANDS[name].config_class in hints.values()
    for result in get_args(hints["return"]) or (hints["return"],):
        assert dataclasses.is_dataclass(result)
        assert "__str__" in vars(result)
