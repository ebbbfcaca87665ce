"""The command line: `bertkit COMMAND ...`, one sub-command for each stage and no logic of its own.

A command is an entry of `COMMANDS`; its options are the fields of its configuration's dataclass
(`bertkit.config`), its work is the function of the same name in Python. Only the chosen command's
modules are imported, and torch only when its work begins. What ends a command early becomes one
line on stderr and an exit code: 2 for what the user can mend, 128 + signal after an interruption,
1 for a mistake of bertkit's.
"""

from __future__ import annotations

import dataclasses
import difflib
import errno
import json
import math
import os
import re
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import bertkit
from bertkit.arguments import help_text, parse, table
from bertkit.errors import Interrupted, UserError
from bertkit.files import explain
from bertkit.interrupts import interrupting


@dataclasses.dataclass(frozen=True)
class Command:
    """A sub-command: its function is `bertkit.NAME`, its configuration `bertkit.NAMEConfig`."""

    name: str
    summary: str
    examples: tuple[str, ...]

    @property
    def config_class(self) -> type:
        config_class: type = getattr(bertkit, f"{self.name.capitalize()}Config")
        return config_class

    @property
    def function(self) -> Callable[[Any], Any]:
        function: Callable[[Any], Any] = getattr(bertkit, self.name)
        return function

    def help(self) -> str:
        return help_text(self.name, self.summary, self.examples, self.config_class)


COMMANDS = {
    name: Command(name, summary, tuple(examples))
    for name, summary, *examples in (
        (
            "quickstart",
            "Go the whole way in a few minutes, on real text from an installed package",
            "bertkit quickstart",
        ),
        (
            "extract",
            "Make documents from Wikipedia dumps, EPUB, HTML, text and tables",
            "bertkit extract enwiki-pages-articles.xml.bz2 -o wiki.jsonl.zst",
            "bertkit extract books/ -o books.jsonl --language en --deduplicate near",
        ),
        (
            "vocab",
            "Learn a WordPiece vocabulary from text",
            "bertkit vocab texts/ -o my-vocab",
        ),
        (
            "prepare",
            "Turn text into a corpus of token ids on disk, once for all runs",
            "bertkit prepare texts/ --vocab my-vocab -o my-corpus",
        ),
        (
            "pretrain",
            "Pre-train an encoder on a corpus: masked LM and next sentence",
            "bertkit pretrain my-corpus -o my-bert --model tiny",
            "bertkit pretrain my-corpus -o my-bert --preset paper-base --dry-run",
            "bertkit pretrain my-corpus -o my-bert --from-checkpoint old-bert",
        ),
        (
            "finetune",
            "Fine-tune a checkpoint on a task",
            "bertkit finetune my-bert --task sst-2 --data data/SST-2 -o my-sentiment",
            "bertkit finetune my-bert --task conll-2003 --data data/conll --features "
            "concat-last-four -o my-tagger",
        ),
        (
            "search",
            "Fine-tune with a grid of options and several seeds, and keep the best model",
            "bertkit search my-bert --task sst-2 --data data/SST-2 -o my-sentiment --seeds 5",
            "bertkit search my-bert --task sst-2 --data data/SST-2 -o my-sentiment "
            "--learning-rate 5e-5,2e-5 --epochs 3 --batch-size 32 --workers 4",
        ),
        (
            "evaluate",
            "Score a fine-tuned model on a task's data",
            "bertkit evaluate my-sentiment --task sst-2 --data data/SST-2 --report dev.html",
        ),
        (
            "predict",
            "Answer with a fine-tuned model, one JSON object a line",
            "bertkit predict my-sentiment sentences.txt",
            "bertkit predict my-sentiment reviews.csv --text body -o answers.jsonl",
            "echo 'A fine film.' | bertkit predict my-sentiment -",
        ),
        (
            "fill",
            "Guess the [MASK] words of a text",
            "bertkit fill my-bert 'The cat sat on the [MASK].'",
        ),
        (
            "embed",
            "Write the vectors that an encoder gives to texts",
            "bertkit embed my-bert sentences.txt -o vectors.npy",
            "bertkit embed my-bert sentences.txt -o words.npz --unit word --layers=-1,-2",
        ),
        (
            "convert",
            "Turn a checkpoint into another kind: TensorFlow, Hugging Face, sentences, ONNX",
            "bertkit convert uncased_L-12_H-768_A-12 my-bert",
            "bertkit convert my-bert for-google --to tensorflow",
            "bertkit convert my-sentiment for-onnx --to onnx --quantize dynamic --data data/SST-2",
        ),
        (
            "inspect",
            "Tell what a corpus, vocabulary, run or checkpoint is and whether it is whole",
            "bertkit inspect my-corpus",
            "bertkit inspect my-bert",
            "bertkit inspect base",
        ),
        (
            "bench",
            "Measure how fast this machine trains and answers, beside what it could do at most",
            "bertkit bench",
            "bertkit bench --size base --batch-size 8 --no-peer",
        ),
    )
}


def main(arguments: list[str] | None = None) -> int:
    """Runs one command line and returns its exit code."""
    arguments = sys.argv[1:] if arguments is None else arguments
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # text that the terminal cannot show is no error
            stream.reconfigure(errors="backslashreplace")
    try:
        code = _main(arguments)
        sys.stdout.flush()
        return code
    except BrokenPipeError:  # the reader, `head` perhaps, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    except KeyboardInterrupt:
        return _fail("stopped", 128 + signal.SIGINT)


def _main(arguments: list[str]) -> int:
    if not arguments:
        print(overview(), file=sys.stderr)
        return 2
    name, rest = arguments[0], arguments[1:]
    if name in ("-h", "--help", "help"):
        command = COMMANDS.get(rest[0]) if rest else None
        print(overview() if command is None else command.help())
        return 0
    if name == "--version":
        print(f"bertkit {bertkit.__version__}")
        return 0
    if name not in COMMANDS:
        near = difflib.get_close_matches(name, COMMANDS, 1)
        hint = f"did you mean 'bertkit {near[0]}'?" if near else "see bertkit --help"
        return _fail(f"no command '{name}'; {hint}", 2)
    command = COMMANDS[name]
    if {"-h", "--help"} & set(rest[: rest.index("--")] if "--" in rest else rest):
        print(command.help())
        return 0
    return run(name, command.config_class, lambda config: command.function(config), rest)


def run(name: str, config_class: type, function: Callable[[Any], Any], arguments: list[str]) -> int:
    """Parses the `arguments` of command `name`, calls `function` and prints its result."""
    debug = "--debug" in arguments
    try:
        try:
            values, switches = parse(config_class, arguments)
        except UserError as error:
            return _fail(f"{error}; see bertkit {name} --help", 2)
        with interrupting(signal.SIGTERM, message="stopped"):  # trainings have their own ways
            result = function(config_class(**values))
        if switches.json:
            text = json.dumps(_plain(dataclasses.asdict(result)), ensure_ascii=False, indent=2)
        else:
            text = str(result)
        if text and _speaks():
            print(text)
        return 0
    except BrokenPipeError:
        raise
    except Interrupted as error:
        return _fail(str(error), 128 + error.signal)
    except Exception as error:
        if debug:
            traceback.print_exc()
        return _explain(error)


def _speaks() -> bool:
    """Whether this is the only process, or the first of those that torchrun started together."""
    return os.environ.get("WORLD_SIZE", "1") == "1" or os.environ.get("RANK", "0") == "0"


def overview() -> str:
    """What `bertkit --help` prints."""
    commands = [(command.name, command.summary) for command in COMMANDS.values()]
    return "\n\n".join(
        [
            "usage: bertkit COMMAND ...",
            "BERT from raw text to answers: vocabulary, corpus, pre-training, tasks.",
            "commands:\n" + table(commands),
            "`bertkit COMMAND --help` shows the options of a command; `bertkit --version` the "
            "version.",
            "example:\n  bertkit quickstart",
        ]
    )


def _plain(value: Any) -> Any:
    """A value as JSON can say it: paths as text, what is not a finite number as null."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return str(value) if isinstance(value, Path) else value


def _explain(error: Exception) -> int:
    if isinstance(error, UserError):
        return _fail(str(error), 2)
    if isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError)
        and re.search("out of memory|can't allocate memory", str(error))
    ):
        advice = "take a smaller --micro-batch-size, --batch-size or --sequence-length"
        return _fail(f"the memory is used up; {advice}, or a smaller model", 2)
    if isinstance(error, OSError):
        place = error.filename if error.filename is not None else "the output"
        reason = (error.strerror or str(error)).lower()
        if error.errno in (errno.EACCES, errno.EPERM):  # of an input; of outputs `files` tells
            return _fail(f"cannot use {place}: {reason}; check its permissions", 2)
        return _fail(explain(error, place) or f"cannot use {place}: {reason}", 2)
    if isinstance(error, ImportError):
        return _fail(f"a package is missing or broken: {error}; install bertkit again", 2)
    kind = f"{type(error).__name__}: {error}".splitlines()[0]
    return _fail(f"this is a bug of bertkit ({kind}); --debug shows where it is", 1)


def _fail(message: str, code: int) -> int:
    print("bertkit: " + " ".join(message.split()), file=sys.stderr, flush=True)
    return code
