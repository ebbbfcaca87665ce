"""How long does each command take until it speaks, and until its work begins?

    python benchmarks/startup.py

For each command, in processes of their own: `bertkit COMMAND --help`, and the import of the modules
that its work needs, with which of torch and NumPy come along. Times are processor seconds, the
least of a few, so that other work on the machine counts little. Last comes one line of JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys

import bertkit
from bertkit.cli import COMMANDS

WORK = """
import sys
import bertkit
getattr(bertkit, sys.argv[1])
print(" ".join(sorted({"torch", "numpy"} & set(sys.modules))))
"""


def processor_seconds(command: list[str]) -> tuple[float, str]:
    """Of a process from start to end, and what it prints."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    printed = process.stdout.read()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{' '.join(command)} failed")
    return used.ru_utime + used.ru_stime, printed.strip()


def least(command: list[str], rounds: int) -> tuple[float, str]:
    return min(processor_seconds(command) for _ in range(rounds))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--command", nargs="+", default=list(COMMANDS), choices=list(COMMANDS))
    options = parser.parse_args()
    rows = []
    overview, _ = least([sys.executable, "-m", "bertkit", "--help"], options.rounds)
    torch_alone, _ = least([sys.executable, "-c", "import torch"], options.rounds)
    print(
        f"bertkit {bertkit.__version__} --help: {overview:.2f} s; import torch: {torch_alone:.2f}"
    )
    print(f"{'':<12}{'--help':>8}{'modules':>9}")
    for name in options.command:
        told, _ = least([sys.executable, "-m", "bertkit", name, "--help"], options.rounds)
        ready, loaded = least([sys.executable, "-c", WORK, name], options.rounds)
        rows.append({"command": name, "help": round(told, 3), "modules": round(ready, 3)})
        print(f"{name:<12}{told:>8.2f}{ready:>9.2f}  {loaded}", flush=True)
    facts = {"overview": round(overview, 3), "torch": round(torch_alone, 3)}
    print(json.dumps({"benchmark": "startup", **facts, "rows": rows}))


if __name__ == "__main__":
    main()
