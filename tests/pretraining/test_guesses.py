"""The same held-out sentences are guessed at every restart point; odd first losses are told."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from bertkit.corpus.format import Corpus
from bertkit.inference.fill import fill_masks
from bertkit.inference.load import load
from bertkit.journey.config import InspectConfig
from bertkit.journey.inspect import inspect
from bertkit.pretraining.guesses import FEWEST_TOKENS, MOST_TOKENS, choose_sentences
from bertkit.pretraining.objectives import first_step_remarks
from bertkit.pretraining.run import pretrain
from bertkit.report.guesses import read_sentences
from bertkit.text.tokenizer import Tokenizer
from bertkit.training.log import read_log
from tests.pretraining.small_run import configuration, small_corpus


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory, tiny_tokenizer: Tokenizer) -> Path:
    return small_corpus(tmp_path_factory.mktemp("corpus"), tiny_tokenizer)


def test_sentences_and_places_follow_from_the_corpus(corpus: Path) -> None:
    split = Corpus.open(corpus).splits["dev"]
    chosen = choose_sentences(split)
    assert len(chosen) == 10 and chosen == choose_sentences(split)
    for sentence in chosen:
        assert FEWEST_TOKENS <= len(sentence.ids) <= MOST_TOKENS
        assert len(sentence.places) == max(1, round(0.15 * len(sentence.ids)))
        assert all(0 <= place < len(sentence.ids) for place in sentence.places)


def test_each_restart_point_has_guesses_and_a_report_and_the_last_are_the_models_own(
    corpus: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    pretrain(configuration(corpus, run, steps=30))
    records = [record for record in read_log(run) if record["kind"] == "guesses"]
    assert [record["step"] for record in records] == [10, 20, 30]
    sentences = read_sentences(run)
    assert len(sentences) == 10
    texts = []
    for sentence in sentences:
        tokens = list(sentence.tokens)
        for place in sentence.places:
            tokens[place] = "[MASK]"
        texts.append(" ".join(tokens))
    assert not any("##" in text for text in texts)  # so that the words are read back as they were
    filled = fill_masks(load(run), texts, top=1)
    for answer, guesses in zip(filled, records[-1]["guesses"], strict=True):
        assert [mask[0].token for mask in answer.masks] == [token for token, _ in guesses]
        found = [mask[0].probability for mask in answer.masks]
        np.testing.assert_allclose(found, [p for _, p in guesses], atol=2e-4)
    page = (run / "report.html").read_text(encoding="utf-8")
    assert "Held-out sentences" in page and "Padding among" in page
    shown = str(inspect(InspectConfig(path=str(run))))
    assert "held-out sentences with the newest guesses" in shown and "tokens/s" in shown


def test_a_left_to_right_model_guesses_each_token_from_those_before(
    corpus: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    pretrain(configuration(corpus, run, steps=20, objective="ltr"))
    records = [record for record in read_log(run) if record["kind"] == "guesses"]
    for guesses, sentence in zip(records[-1]["guesses"], read_sentences(run), strict=True):
        assert len(guesses) == len(sentence.places)
        assert all(0 < probability <= 1 for _, probability in guesses)


def test_a_report_can_be_read_in_the_middle_of_a_run(corpus: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    seen = []

    def look(self: object, step: int, rank: int, count: int) -> object:
        page = run / "report.html"
        if step == 25:
            seen.append(page.read_text(encoding="utf-8"))
        return real(self, step, rank, count)

    from bertkit.pretraining.phases import PhasedSource

    real = PhasedSource.share
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PhasedSource, "share", look)
        pretrain(configuration(corpus, run, steps=30, workers=0))
    assert "<dd>20</dd>" in seen[0] and "Held-out sentences" in seen[0]


def test_first_losses_near_those_of_blind_guesses_are_not_remarked_on() -> None:
    blind = {"mlm_loss": math.log(30522) + 0.2, "nsp_loss": math.log(2) + 0.05, "loss": 11.2}
    assert first_step_remarks(blind, 30522) == []
    assert first_step_remarks({"ltr_loss": math.log(100)}, 100) == []


def test_odd_first_losses_are_told_with_what_was_expected() -> None:
    (remark,) = first_step_remarks({"mlm_loss": 15.0, "nsp_loss": 0.69}, 30522)
    assert "15.00" in remark and "ln(30,522) = 10.33" in remark
    (remark,) = first_step_remarks({"mlm_loss": 10.3, "sop_loss": 1.5}, 30522)
    assert "sentence order" in remark and "ln(2) = 0.69" in remark


def test_a_run_whose_weights_start_too_large_says_so(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = configuration(
        corpus, tmp_path / "run", steps=2, quiet=False, initializer_range=2.0, evaluate_steps=0
    )
    pretrain(config)
    assert "the first step's masked LM loss is" in " ".join(capsys.readouterr().err.split())
    notes = [record for record in read_log(tmp_path / "run") if record["kind"] == "note"]
    assert any("--initializer-range" in note["text"] for note in notes)
    assert json.dumps(notes)
