"""Each [MASK] gets its most probable entries."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from bertkit.errors import UserError
from bertkit.inference.config import FillConfig
from bertkit.inference.fill import fill, fill_masks
from bertkit.inference.load import load
from bertkit.model.batch import FlatBatch
from tests.tasks.tiny import save_tiny


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory, tiny_tokenizer) -> Path:
    return save_tiny(tmp_path_factory.mktemp("models") / "pretrained", tiny_tokenizer)


def test_candidates_are_the_heads_softmax_at_the_mask(pretrained):
    model = load(pretrained)
    text = "the [MASK] went, [MASK] ran"
    [answer] = fill_masks(model, [text], top=3)
    encoding = model.tokenizer.encode(text, special_tokens=True)
    batch = FlatBatch.from_sequences([encoding.ids])
    with torch.inference_mode():
        hidden = model.encoder(batch)
        everything = model.model.masked_lm.logits(hidden).softmax(dim=1)
    places = [n for n, token in enumerate(encoding.tokens) if token == "[MASK]"]
    for place, candidates in zip(places, answer.masks, strict=True):
        best = everything[place].topk(3)
        assert [c.token for c in candidates] == [
            model.tokenizer.vocabulary[i] for i in best.indices
        ]
        assert [c.probability for c in candidates] == pytest.approx(best.values.tolist(), abs=1e-5)


def test_the_filled_text_has_the_best_candidates_in_place(pretrained):
    [answer] = load(pretrained).fill(["  a [MASK]\tb [MASK]!"])
    first, second = (mask[0].token.removeprefix("##") for mask in answer.masks)
    assert answer.filled == f"  a {first}\tb {second}!"


def test_a_text_is_filled_the_same_alone_and_among_others(pretrained):
    model = load(pretrained)
    texts = ["[MASK]", "the man [MASK] " + "to the city " * 9, "我 [MASK] 书 [MASK]", "a [MASK]"]
    for text, found in zip(texts, fill_masks(model, texts), strict=True):
        [alone] = fill_masks(model, [text])
        for one, other in zip(alone.masks, found.masks, strict=True):
            assert [c.token for c in one] == [c.token for c in other]
            assert [c.probability for c in one] == pytest.approx(
                [c.probability for c in other], abs=1e-5
            )


def test_a_long_text_is_cut_to_what_is_around_its_mask(pretrained):
    model = load(pretrained)
    near = "the man went to the city [MASK] a big dog saw the house"
    far = "a " * 300
    [answer] = fill_masks(model, [f"{far}{near} {far}"], sequence_length=15)
    assert answer.masks == fill_masks(model, [near], sequence_length=15)[0].masks
    assert answer.filled.count("[MASK]") == 0
    with pytest.raises(UserError, match="masks of text 1 are 302 tokens apart"):
        fill_masks(model, [f"[MASK] {far} [MASK]"])


def test_one_text_prints_its_candidates(pretrained):
    result = fill(FillConfig(str(pretrained), "the [MASK]", top=2, precision="fp32"))
    assert len(result.answer.masks[0]) == 2
    shown = str(result).splitlines()
    assert shown[0] == result.answer.filled
    assert result.answer.masks[0][0].token in shown[2]
    assert "%" in shown[2]


def test_texts_of_a_file_become_jsonl(pretrained, tmp_path):
    (tmp_path / "in.csv").write_text('id,body\n1,"a [MASK], x"\n2,[MASK]\n')
    result = fill(
        FillConfig(
            str(pretrained),
            input=str(tmp_path / "in.csv"),
            field="body",
            output=str(tmp_path / "out.jsonl"),
            top=1,
            quiet=True,
        )
    )
    assert (result.texts, result.answer) == (2, None)
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [line["text"] for line in lines] == ["a [MASK], x", "[MASK]"]
    assert all(len(line["masks"]) == 1 and len(line["masks"][0]) == 1 for line in lines)


def test_what_cannot_be_filled_is_one_line_for_the_user(pretrained, tmp_path, tiny_tokenizer):
    path = str(pretrained)
    with pytest.raises(UserError, match=r"text 1 has no \[MASK\]: 'a mask'"):
        fill(FillConfig(path, "a mask"))
    with pytest.raises(UserError, match="give a text with"):
        fill(FillConfig(path))
    with pytest.raises(UserError, match="--top is 0; give 1 or more"):
        fill(FillConfig(path, "[MASK]", top=0))
    for given in ({"output": "o.jsonl"}, {"field": "text"}):
        with pytest.raises(UserError, match="--output and --field go with --input"):
            fill(FillConfig(path, "[MASK]", **given))
    (tmp_path / "in.txt").write_text("[MASK]\n[MASK] a\nnone\n")
    with pytest.raises(UserError, match=r"text 3 has no \[MASK\]"):
        fill(
            FillConfig(path, input=str(tmp_path / "in.txt"), quiet=True, output=str(tmp_path / "o"))
        )
    assert not (tmp_path / "o").exists()
    tuned = save_tiny(tmp_path / "tuned", tiny_tokenizer, "classification", ["a", "b"])
    with pytest.raises(
        UserError, match=r"no masked-LM head .it is a model for classification.; use bertkit pred"
    ):
        fill(FillConfig(str(tuned), "[MASK]"))
