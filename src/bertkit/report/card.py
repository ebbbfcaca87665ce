"""The model card of a fine-tuning run: RUN's files in, RUN/README.md out.

It opens with the YAML that the Hugging Face hub reads: library, kind of task, metrics, and results
as a model index. Then follow how to use the model, the data, the recipe, the scores and the
versions, all of them read from what the run has written. A README.md without the mark that this
module leaves is a person's own and stays as it is.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Iterable, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import yaml

import bertkit
from bertkit.errors import listed
from bertkit.files import writing
from bertkit.report.finetuning import (
    CONFIGURATION,
    DATA,
    PREDICTIONS,
    metric_name,
    metric_value,
    read_json,
    read_summary,
)
from bertkit.report.log import is_number

CARD = "README.md"
MARK = "<!-- bertkit wrote this card; without this line it leaves the file alone -->"

PIPELINES = {
    "BertForSequenceClassification": "text-classification",
    "BertForTokenClassification": "token-classification",
    "BertForQuestionAnswering": "question-answering",
    "BertForMultipleChoice": "multiple-choice",
    "BertkitBiLstmForTokenClassification": "token-classification",
}
"""A model's class -> the hub's name of what it does."""
EXAMPLES = {
    "token-classification": 'model.predict(["Jim Henson was a puppeteer"])',
    "question-answering": 'model.predict([{"question": "Who?", "context": "Jim Henson did."}])',
    "multiple-choice": ('model.predict([("The sky is", ["blue.", "a verb."])])'),
}
PACKAGES = ("torch", "transformers", "tokenizers", "safetensors", "numpy")
FILES = frozenset({"checkpoint", "data", "train", "dev", "output"})
"""Options that hold places on the machine: only the last part of the name goes into the card."""
UNTOLD = frozenset({"output", "quiet", "checkpoint_steps"})
"""Options that change nothing in the model; nor do `evaluate_steps` unless its best is kept."""
MOST_LABELS = 60


def write_card(run: Path, place: Path | None = None) -> Path:
    """Writes README.md of a finished run, unless a person has written one; returns its path.

    Args:
        place: the folder that the model is in, and is called by, where it is not the run's own.
    """
    place = place or run
    path = place / CARD
    if path.is_file() and MARK not in path.read_text(encoding="utf-8", errors="replace"):
        return path
    with writing(path) as partial:
        partial.write_text(card(run, place.resolve().name), encoding="utf-8")
    return path


def card(run: Path, name: str) -> str:
    """The text of the card for a model of that name."""
    model = read_json(run / "config.json")
    summary = read_summary(run)
    recipe = _yaml(run / CONFIGURATION)
    architecture = str((model.get("architectures") or ["?"])[0])
    pipeline = PIPELINES.get(architecture)
    task = str(summary.get("task", recipe.get("task", "?")))
    base = _named(str(recipe.get("checkpoint", "?")))
    scores = {k: v for k, v in summary.get("metrics", {}).items() if is_number(v)}
    dataset = _dataset(recipe, task)
    own_head = architecture.startswith("Bertkit")
    front: dict[str, Any] = {"library_name": "bertkit" if own_head else "transformers"}
    if pipeline:
        front["pipeline_tag"] = pipeline
    front["tags"] = ["bert", "bertkit", task]
    if dataset[1] is not None:
        front["datasets"] = [dataset[1]]
    if scores:
        front["metrics"] = list(scores)
        front["model-index"] = [{"name": name, "results": [_result(pipeline, dataset, scores)]}]
    parts = [
        "---",
        yaml.safe_dump(front, sort_keys=False, allow_unicode=True).strip(),
        "---",
        "",
        MARK,
        "",
        f"# {name}",
        "",
        f"A BERT model, fine-tuned from `{base}` on the task {task} with bertkit.",
        "",
        *_use(name, pipeline, own_head, _answers_pairs(run)),
        *_labels(model),
        *_data(run, summary),
        *_recipe(recipe),
        *_scores(summary, scores),
        *_versions(),
    ]
    return "\n".join(parts).rstrip() + "\n"


def _result(
    pipeline: str | None, dataset: tuple[str, str | None], scores: dict[str, float]
) -> dict[str, Any]:
    """An entry of the model index, as the hub's evaluation results."""
    return {
        "task": {"type": pipeline or "other"},
        "dataset": {"name": dataset[0], "type": dataset[1] or dataset[0], "split": "dev"},
        "metrics": [
            {"type": key, "value": round(float(value), 6), "name": metric_name(key)}
            for key, value in scores.items()
        ],
    }


def _dataset(recipe: dict[str, Any], task: str) -> tuple[str, str | None]:
    """The data set's name, and its name on the hub where it comes from there."""
    source = str(recipe.get("data") or recipe.get("train") or task)
    if source.startswith("hub:"):
        hub = source.split(":")[1]
        return hub, hub
    own = task in ("classification", "regression", "multi-label", "tagging", "multiple-choice")
    return (_named(source) if own or task == "question-answering" else task), None


def _named(source: str) -> str:
    """The last part of a path, also of "."; what is no path here stays as it is."""
    return Path(source).name or Path(source).resolve().name


def _answers_pairs(run: Path) -> bool:
    """Whether the model was tuned on pairs of texts, as its predictions show."""
    path = run / PREDICTIONS
    if not path.is_file():
        return False
    with path.open(encoding="utf-8") as file:
        first = file.readline()
    return bool(first.strip()) and "pair" in json.loads(first)


def _use(name: str, pipeline: str | None, own_head: bool, pairs: bool) -> list[str]:
    lines = ["## Use", "", "```python", "import bertkit", "", f'model = bertkit.load("{name}")']
    text = '("a text", "its pair")' if pairs else '"a text"'
    lines += [EXAMPLES.get(pipeline or "", f"model.predict([{text}])"), "```", ""]
    lines += [f"Or in a terminal: `bertkit predict {name} FILE`.", ""]
    if own_head:
        lines += [
            "The head is a BiLSTM on frozen features, which transformers does not have: "
            "`AutoModel.from_pretrained` loads the encoder alone.",
            "",
        ]
    elif pipeline and pipeline != "multiple-choice":
        lines += [
            "With transformers:",
            "",
            "```python",
            "from transformers import pipeline",
            "",
            f'pipeline("{pipeline}", "{name}")',
            "```",
            "",
        ]
    return lines


def _labels(model: dict[str, Any]) -> list[str]:
    names = [str(name) for name in (model.get("id2label") or {}).values()]
    if not names:
        return []
    return ["Labels: " + listed(map(_code, names), MOST_LABELS) + ".", ""]


def _data(run: Path, summary: dict[str, Any]) -> list[str]:
    lines = ["## Data", ""]
    rows = [
        (name, f"{summary[key]:,}")
        for key, name in (
            ("examples", "training examples"),
            ("dev_examples", "dev examples"),
            ("truncated", "training examples cut to the sequence length"),
        )
        if is_number(summary.get(key))
    ]
    rows += [
        (name, f"{number:,}")
        for key, name in (
            ("repeated", "training examples that repeat another"),
            ("shared", "dev examples that stand in the training data too"),
        )
        if (number := read_json(run / DATA).get(key))
    ]
    if (run / "dev_rows.json").is_file():
        rows.append(("dev set", "held out from the training file (`dev_rows.json`)"))
    lines += _table(("", ""), rows)
    files = [
        (_code(Path(file).name), _code(digest[:16]))
        for file, digest in read_json(run / "inputs.json").items()
        if isinstance(digest, str)
    ]
    if files:
        lines += _table(("file it started from", "SHA-256 begins"), files)
    return lines


def _recipe(recipe: dict[str, Any]) -> list[str]:
    rows = []
    keeps_best = recipe.get("keep_best") or recipe.get("patience")
    untold = UNTOLD if keeps_best else UNTOLD | {"evaluate_steps"}
    for key, value in recipe.items():
        if value is None or key in untold or (key == "lstm_size" and not recipe.get("features")):
            continue
        if key in FILES and isinstance(value, str) and not value.startswith("hub:"):
            value = _named(value)
        rows.append((key.replace("_", " "), _code(str(value))))
    if not rows:
        return []
    more = ["Options that are not listed were left at their defaults.", ""]
    return ["## Recipe", "", *_table(("option", "value"), rows), *more]


def _scores(summary: dict[str, Any], scores: dict[str, float]) -> list[str]:
    if not scores:
        return []
    lines = ["## Scores on dev", ""]
    lines += _table(
        ("metric", "score"),
        [(metric_name(key), metric_value(key, value)) for key, value in scores.items()],
    )
    table = summary.get("table") or []
    if table and len(table) <= MOST_LABELS:
        keys = [key for key in table[0] if key != "label"]
        rows = [
            (
                _code(str(row["label"])),
                *(
                    metric_value(key, row[key]) if isinstance(row[key], float) else f"{row[key]:,}"
                    for key in keys
                ),
            )
            for row in table
        ]
        lines += _table(("label", *map(metric_name, keys)), rows)
    lines += [
        "The dev set may have chosen the settings or the epoch: scores on other text can be lower. "
        "`report.html` shows the confusions and the worst errors.",
        "",
    ]
    return lines


def _versions() -> list[str]:
    rows = [("bertkit", bertkit.__version__), ("Python", platform.python_version())]
    for package in PACKAGES:
        try:
            rows.append((package, metadata.version(package)))
        except metadata.PackageNotFoundError:
            continue
    rows.append(("machine", f"{platform.system()} {platform.machine()}"))
    return ["## Versions", "", *_table(("", "version"), rows)]


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    body = [f"| {' | '.join(row)} |" for row in rows]
    if not body:
        return []
    return [f"| {' | '.join(header)} |", "|" + "---|" * len(header), *body, ""]


def _code(text: str) -> str:
    """Text as code inside a table: bars and line ends would end the cell."""
    clean = " ".join(text.split()).replace("|", "\\|").replace("`", "'")
    return f"`{clean}`" if clean else "``"


def _yaml(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    values = yaml.safe_load(path.read_text(encoding="utf-8"))
    return values if isinstance(values, dict) else {}
