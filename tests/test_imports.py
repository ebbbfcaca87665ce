"""The package imports lazily and by layers, and its packaging says what the README says."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import bertkit


def test_import_bertkit_loads_no_torch() -> None:
    script = (
        "import sys, bertkit; dir(bertkit); bertkit.UserError; "
        "print(sorted({'torch', 'numpy', 'rich', 'yaml', 'tokenizers'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout == "[]\n"


def test_a_rooms_configuration_loads_no_torch(root: Path) -> None:
    modules = [
        "bertkit." + path.parent.name + ".config"
        for path in sorted((root / "src" / "bertkit").glob("*/config.py"))
    ]
    assert modules
    script = (
        f"import importlib, sys; [importlib.import_module(name) for name in {modules}]; "
        "print(sorted({'torch', 'numpy'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout == "[]\n", done.stderr


@pytest.mark.parametrize("name", sorted(set(bertkit.__all__) - {"UserError", "__version__"}))
def test_each_public_name_is_there(name: str) -> None:
    assert name in dir(bertkit)
    assert callable(getattr(bertkit, name))


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        bertkit.nothing  # noqa: B018


def test_type_checkers_see_the_names_that_users_see(root: Path) -> None:
    tree = ast.parse((root / "src" / "bertkit" / "__init__.py").read_text(encoding="utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    seen = {
        alias.asname: f"{statement.module}:{alias.name}"
        for statement in block.body
        if isinstance(statement, ast.ImportFrom)
        for alias in statement.names
    }
    assert seen == bertkit._EXPORTS


def test_no_function_shares_its_name_with_a_module(root: Path) -> None:
    package = root / "src" / "bertkit"
    modules = {path.stem for path in package.glob("*.py")}
    modules |= {path.parent.name for path in package.glob("*/__init__.py")}
    assert not modules & set(bertkit._EXPORTS)


def lint_imports(root: Path, package: Path) -> subprocess.CompletedProcess[str]:
    """import-linter's verdict on a copy of the package, by the rules of pyproject.toml."""
    command = [
        shutil.which("lint-imports", path=str(Path(sys.executable).parent)) or "lint-imports"
    ]
    return subprocess.run(
        [*command, "--config", str(root / "pyproject.toml"), "--no-cache"],
        cwd=package.parent,
        env={"PYTHONPATH": str(package.parent), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
    )


@pytest.mark.parametrize(
    ("module", "line", "broken"),
    [
        ("text/documents.py", "import bertkit.cli", "A room imports only"),
        ("text/documents.py", "from bertkit.model import config", "A room imports only"),
        ("tasks/task.py", "import bertkit.pretraining.plan", "A room imports only"),
        ("training/loop.py", "import bertkit.text.tokenizer", "training knows no text"),
        ("report/__init__.py", "import bertkit.training.log", "Reports read"),
        ("text/config.py", "import numpy", "free of torch and NumPy"),
    ],
)
def test_an_import_against_the_layers_is_found(
    root: Path, tmp_path: Path, module: str, line: str, broken: str
) -> None:
    package = tmp_path / "bertkit"
    shutil.copytree(root / "src" / "bertkit", package, ignore=shutil.ignore_patterns("__pycache__"))
    with (package / module).open("a", encoding="utf-8") as file:
        file.write(f"\n{line}\n")
    done = lint_imports(root, package)
    assert done.returncode == 1
    assert re.search(rf"{broken}.*BROKEN", done.stdout), done.stdout


def test_ci_runs_the_test_command_of_the_readme(root: Path) -> None:
    script = (root / ".ci" / "run").read_text(encoding="utf-8")
    command = re.search(r"^test_command='(.+)'$", script, re.MULTILINE)
    assert command is not None
    readme = (root / "README.md").read_text(encoding="utf-8").splitlines()
    assert [line.strip() for line in readme if "pytest" in line and "venv" in line] == [command[1]]
