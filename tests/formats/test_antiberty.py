"""A real masked LM over amino acids, pickled by an old transformers with heads of its own."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest
import torch

import bertkit
from bertkit.inference.fill import fill_masks
from bertkit.journey.config import ConvertConfig
from bertkit.model.bert import MaskedLMModel

RESIDUES = (
    "EVQLVQSGPEVKKPGTSVKVSCKASGFTFMSSAVQWVRQARGQRLEW"
    "IGWIVIGSGNTNYAQKFQERVTITRDMSTSTAYMELSSLRSEDTAVYYC"
)
HIDDEN = (5, 30, 60, 90)


@pytest.mark.slow
def test_antiberty_loads_and_fills_blanks_as_transformers_does(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    package = importlib.util.find_spec("antiberty")
    if package is None or package.origin is None:
        pytest.skip("needs the package antiberty==0.1.3, installed with --no-deps")
    folder = Path(package.origin).parent / "trained_models"
    source = folder / "AntiBERTy_md_smooth"
    config = ConvertConfig(
        str(source), str(tmp_path / "antiberty"), vocab=str(folder / "vocab.txt"), quiet=True
    )
    result = bertkit.convert(config)
    assert (result.head, result.missing, result.difference) == ("masked-lm", [], 0.0)
    assert "cls.species.weight" in result.unexpected
    loaded = bertkit.load(tmp_path / "antiberty")
    assert isinstance(loaded.model, MaskedLMModel) and not loaded.tokenizer.lower_case
    words = ["[MASK]" if place in HIDDEN else residue for place, residue in enumerate(RESIDUES)]
    text = " ".join(words)
    [filled] = fill_masks(loaded, [text], top=5)
    peer: Any = transformers.BertForMaskedLM.from_pretrained(source).eval()
    ids = loaded.tokenizer.encode(text, special_tokens=True).ids
    with torch.no_grad():
        chances = peer(torch.tensor([ids])).logits[0].softmax(dim=1)
    for place, candidates in zip(HIDDEN, filled.masks, strict=True):
        best = chances[place + 1].topk(5)
        tokens = [loaded.tokenizer.vocabulary[number] for number in best.indices.tolist()]
        assert [one.token for one in candidates] == tokens
        found = torch.tensor([one.probability for one in candidates])
        torch.testing.assert_close(found, best.values, atol=1e-5, rtol=1e-4)
    assert sum(RESIDUES[place] == m[0].token for place, m in zip(HIDDEN, filled.masks)) >= 3  # noqa: B905
    _, info = transformers.BertForMaskedLM.from_pretrained(
        tmp_path / "antiberty", output_loading_info=True
    )
    assert not info["missing_keys"] and not info["unexpected_keys"]
