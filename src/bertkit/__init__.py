"""bertkit: the whole system of the BERT paper, from raw text to answers.

Each command is one function that takes its configuration and returns its result:

    import bertkit
    result = bertkit.vocab(bertkit.VocabConfig(inputs=["docs"], output="vocab"))
    model = bertkit.load("run")
    model.predict(["a text"])

Everything is imported on first use, so that `import bertkit` stays quick and free of torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from bertkit.errors import UserError

if TYPE_CHECKING:
    from bertkit.corpus.config import PrepareConfig as PrepareConfig
    from bertkit.corpus.prepare import prepare as prepare
    from bertkit.extraction.config import ExtractConfig as ExtractConfig
    from bertkit.extraction.extract import extract as extract
    from bertkit.inference.config import EmbedConfig as EmbedConfig
    from bertkit.inference.config import FillConfig as FillConfig
    from bertkit.inference.config import PredictConfig as PredictConfig
    from bertkit.inference.embed import embed as embed
    from bertkit.inference.fill import fill as fill
    from bertkit.inference.load import load as load
    from bertkit.inference.predict import predict as predict
    from bertkit.journey.config import ConvertConfig as ConvertConfig
    from bertkit.journey.config import InspectConfig as InspectConfig
    from bertkit.journey.config import QuickstartConfig as QuickstartConfig
    from bertkit.journey.convert import convert as convert
    from bertkit.journey.inspect import inspect as inspect
    from bertkit.journey.quickstart import quickstart as quickstart
    from bertkit.pretraining.config import PretrainConfig as PretrainConfig
    from bertkit.pretraining.run import pretrain as pretrain
    from bertkit.speed.bench import bench as bench
    from bertkit.speed.config import BenchConfig as BenchConfig
    from bertkit.tasks.config import EvaluateConfig as EvaluateConfig
    from bertkit.tasks.config import FinetuneConfig as FinetuneConfig
    from bertkit.tasks.config import SearchConfig as SearchConfig
    from bertkit.tasks.evaluate import evaluate as evaluate
    from bertkit.tasks.finetune import finetune as finetune
    from bertkit.tasks.search import search as search
    from bertkit.text.config import VocabConfig as VocabConfig
    from bertkit.text.tokenizer import Tokenizer as Tokenizer
    from bertkit.text.vocabulary import learn_vocabulary as vocab  # noqa: F401

__version__ = "0.1.0"

_EXPORTS = {
    "BenchConfig": "bertkit.speed.config:BenchConfig",
    "ConvertConfig": "bertkit.journey.config:ConvertConfig",
    "EmbedConfig": "bertkit.inference.config:EmbedConfig",
    "EvaluateConfig": "bertkit.tasks.config:EvaluateConfig",
    "ExtractConfig": "bertkit.extraction.config:ExtractConfig",
    "FillConfig": "bertkit.inference.config:FillConfig",
    "FinetuneConfig": "bertkit.tasks.config:FinetuneConfig",
    "InspectConfig": "bertkit.journey.config:InspectConfig",
    "PredictConfig": "bertkit.inference.config:PredictConfig",
    "PrepareConfig": "bertkit.corpus.config:PrepareConfig",
    "PretrainConfig": "bertkit.pretraining.config:PretrainConfig",
    "QuickstartConfig": "bertkit.journey.config:QuickstartConfig",
    "SearchConfig": "bertkit.tasks.config:SearchConfig",
    "Tokenizer": "bertkit.text.tokenizer:Tokenizer",
    "VocabConfig": "bertkit.text.config:VocabConfig",
    "bench": "bertkit.speed.bench:bench",
    "convert": "bertkit.journey.convert:convert",
    "embed": "bertkit.inference.embed:embed",
    "evaluate": "bertkit.tasks.evaluate:evaluate",
    "extract": "bertkit.extraction.extract:extract",
    "fill": "bertkit.inference.fill:fill",
    "finetune": "bertkit.tasks.finetune:finetune",
    "inspect": "bertkit.journey.inspect:inspect",
    "load": "bertkit.inference.load:load",
    "predict": "bertkit.inference.predict:predict",
    "prepare": "bertkit.corpus.prepare:prepare",
    "pretrain": "bertkit.pretraining.run:pretrain",
    "quickstart": "bertkit.journey.quickstart:quickstart",
    "search": "bertkit.tasks.search:search",
    "vocab": "bertkit.text.vocabulary:learn_vocabulary",
}
"""Where each name lives: "module:attribute". The imports above say the same to type checkers."""

__all__ = [
    "UserError",
    "__version__",
    *_EXPORTS,
]


def __getattr__(name: str) -> Any:
    if name not in _EXPORTS:
        raise AttributeError(f"module 'bertkit' has no attribute '{name}'")
    module, _, attribute = _EXPORTS[name].partition(":")
    value = getattr(importlib.import_module(module), attribute)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_EXPORTS})
