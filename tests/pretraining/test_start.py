"""Continued pre-training: heads, vocabulary and positions of a checkpoint on other text."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from bertkit.cli import main
from bertkit.corpus.format import Corpus
from bertkit.errors import UserError
from bertkit.formats.huggingface import load_checkpoint, save_checkpoint
from bertkit.formats.tensorflow import save_tensorflow
from bertkit.model.bert import LABELLED, MODELS
from bertkit.model.config import ModelConfig, model_config
from bertkit.pretraining.config import PretrainConfig
from bertkit.pretraining.dryrun import DryRun
from bertkit.pretraining.objectives import make_objective
from bertkit.pretraining.run import pretrain
from bertkit.pretraining.sources import training_source
from bertkit.pretraining.start import longer_positions, make_start, weights_digest
from bertkit.text.config import VocabConfig
from bertkit.text.tokenizer import Tokenizer
from bertkit.text.vocabulary import learn_vocabulary
from bertkit.training.batch import Batch
from bertkit.training.log import read_log
from tests.model.peers import random_batch
from tests.pretraining.small_run import make_corpus, pretrain_until, write_text

SHARED = ["the", "of", "and", "a", "was", "good"]
GENERAL = [*SHARED, "man", "woman", "dog", "cat", "house", "river", "went", "came", "saw", "ran"]
MEDICAL = [*SHARED, "patient", "fever", "aorta", "stent", "心", "肺", "cardiology", "dose"]
UNUSED, ADDED = 4, 8
"""[unused] entries of the old vocabulary, and tokens that the longer one adds."""


def saved(tokenizer: Tokenizer, folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(folder)
    return folder


def configuration(corpus: Path, run: Path, **changes: object) -> PretrainConfig:
    config = PretrainConfig(
        corpus=str(corpus),
        output=str(run),
        sequence_length=32,
        batch_size=8,
        micro_batch_size=4,
        steps=12,
        learning_rate=3e-3,
        evaluate_steps=30,
        evaluate_examples=16,
        checkpoint_steps=5,
        quiet=True,
    )
    return replace(config, **changes)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def old_tokenizer(tiny_vocabulary: list[str]) -> Tokenizer:
    entries = list(tiny_vocabulary)
    entries[5:5] = [f"[unused{number}]" for number in range(UNUSED)]
    return Tokenizer(entries, lower_case=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("continued")


@pytest.fixture(scope="module")
def corpus(folder: Path, old_tokenizer: Tokenizer) -> Path:
    """Of general text, with the old vocabulary."""
    write_text(folder / "general.txt", 60, GENERAL)
    return make_corpus(folder / "c", folder / "general.txt", saved(old_tokenizer, folder / "v"))


@pytest.fixture(scope="module")
def medical(folder: Path, corpus: Path) -> Path:
    """Of other text, with the vocabulary that `bertkit vocab --extend` made for it."""
    write_text(folder / "medical.txt", 60, MEDICAL)
    config = VocabConfig(
        [str(folder / "medical.txt")],
        str(folder / "longer"),
        extend=str(folder / "v"),
        add=ADDED,
        workers=1,
        quiet=True,
    )
    learn_vocabulary(config)
    return make_corpus(folder / "m", folder / "medical.txt", folder / "longer")


@pytest.fixture(scope="module")
def parent(folder: Path, corpus: Path) -> Path:
    """A finished run with 32 positions."""
    run = folder / "parent"
    pretrain(configuration(corpus, run, model="2x32x2", max_positions=32, steps=40))
    return run


def first_batch(config: PretrainConfig) -> Batch:
    """The first micro-batch of the first step."""
    corpus = Corpus.open(config.corpus)
    source = training_source(
        config, corpus.splits["train"], corpus.tokenizer(), config.sequence_length
    )
    return source.step(0)[0]


def losses(model: nn.Module, config: PretrainConfig, batch: Batch) -> dict[str, float]:
    objective = make_objective(config.objective)
    with torch.inference_mode():
        sums, counts = objective(model.eval(), batch), objective.counts(batch)
    return {name: float(value) / counts[name] for name, value in sums.losses.items()}


def started(config: PretrainConfig) -> Any:
    return make_start(config, Corpus.open(config.corpus).tokenizer()).model


def test_the_first_step_has_the_loss_that_the_checkpoint_has(
    corpus: Path, parent: Path, tmp_path: Path
) -> None:
    config = configuration(
        corpus, tmp_path / "run", from_checkpoint=str(parent), dropout=0.0, steps=3, log_steps=1
    )
    config.micro_batch_size = config.batch_size
    pretrain(config)
    batch = first_batch(config)
    theirs = losses(load_checkpoint(parent).model, config, batch)
    line = read_log(tmp_path / "run")[0]
    assert line["mlm_loss"] == pytest.approx(theirs["mlm"], rel=1e-5)
    assert line["nsp_loss"] == pytest.approx(theirs["nsp"], rel=1e-5)
    assert line["mlm_loss"] < 0.95 * torch.log(torch.tensor(113.0))  # it has learned something


def test_transformers_has_the_same_loss_before_the_first_step(
    corpus: Path, parent: Path, tmp_path: Path
) -> None:
    transformers = pytest.importorskip("transformers")
    config = configuration(corpus, tmp_path / "run", from_checkpoint=str(parent))
    batch = first_batch(config)
    mine = losses(started(config), config, batch)
    peer = transformers.BertForPreTraining.from_pretrained(parent).eval()
    flat = batch.inputs
    bounds = flat.bounds.tolist()
    lengths = [end - begin for begin, end in pairwise(bounds)]
    shape = (len(lengths), max(lengths))
    ids, segments, mask = (torch.zeros(shape, dtype=torch.int64) for _ in range(3))
    labels = torch.full(shape, -100)
    answers = torch.full((flat.tokens,), -100)
    answers[batch.targets["masked"]] = batch.targets["masked_ids"]
    for row, (begin, length) in enumerate(zip(bounds, lengths, strict=False)):
        place = slice(begin, begin + length)
        ids[row, :length] = flat.token_ids[place]
        segments[row, :length] = flat.segment_ids[place]
        labels[row, :length] = answers[place]
        mask[row, :length] = 1
    with torch.inference_mode():
        theirs = peer(
            input_ids=ids,
            token_type_ids=segments,
            attention_mask=mask,
            labels=labels,
            next_sentence_label=batch.targets["next_sentence"],
        )
    assert float(theirs.loss) == pytest.approx(sum(mine.values()), rel=1e-5)


def kinds_of_checkpoints(parent: Path, tmp_path: Path) -> dict[str, Path]:
    """The parent's encoder under each head."""
    made = {}
    for head in MODELS:
        labels = ["a", "b"] if head in LABELLED else None
        options = {"features": "last", "lstm_size": 4} if head == "bilstm-tagging" else None
        place = tmp_path / head
        shutil.copytree(parent, place, ignore=shutil.ignore_patterns("checkpoints", "*.yaml"))
        save_checkpoint(load_checkpoint(parent, head, labels, options).model, place)
        made[head] = place
    return made


@pytest.mark.parametrize("objective", ["mlm+nsp", "mlm", "mlm+sop", "ltr"])
def test_every_objective_starts_from_every_head(
    corpus: Path,
    parent: Path,
    tmp_path: Path,
    objective: Any,
    capsys: pytest.CaptureFixture[str],
) -> None:
    old: Any = load_checkpoint(parent).model
    for head, place in kinds_of_checkpoints(parent, tmp_path).items():
        config = configuration(
            corpus, tmp_path / "run", from_checkpoint=str(place), objective=objective, quiet=False
        )
        model = started(config)
        said = capsys.readouterr().err
        assert model.config.causal == (objective == "ltr")
        assert model.config.hidden_dropout == 0.1
        for name, value in model.encoder.blocks.state_dict().items():
            assert torch.equal(value, old.encoder.blocks.state_dict()[name]), name
        has_masked_lm = head in ("pretraining", "masked-lm", "left-to-right")
        assert ("no masked-LM head" in said) == (not has_masked_lm)
        assert ("cls.predictions.transform.dense.weight" in said) == (not has_masked_lm)
        if has_masked_lm:
            assert torch.equal(model.masked_lm.dense.weight, old.masked_lm.dense.weight)
        else:
            assert model.masked_lm.dense.weight.std() > 0.01
        if objective in ("mlm+nsp", "mlm+sop"):
            assert ("no next-sentence head" in said) == (head != "pretraining")
            no_pooler = ("masked-lm", "left-to-right", "tagging", "question-answering")
            assert ("no pooler" in said) == (head in no_pooler)
            assert "cls.seq_relationship.weight" in said or head == "pretraining"


@pytest.mark.parametrize("objective", ["mlm+nsp", "ltr"])
def test_a_bare_encoder_of_transformers_learns_on(
    corpus: Path, tmp_path: Path, old_tokenizer: Tokenizer, objective: Any
) -> None:
    transformers = pytest.importorskip("transformers")
    sizes = transformers.BertConfig(
        vocab_size=len(old_tokenizer) + 7,  # padded, as some are
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=48,
        max_position_embeddings=40,
    )
    bare = transformers.BertModel(sizes, add_pooling_layer=False)
    bare.save_pretrained(saved(old_tokenizer, tmp_path / "bare"))
    config = configuration(
        corpus,
        tmp_path / "run",
        from_checkpoint=str(tmp_path / "bare"),
        objective=objective,
        steps=40,
    )
    pretrain(config)
    told = [line["loss"] for line in read_log(tmp_path / "run") if line["kind"] == "train"]
    assert told[-1] < told[0]
    kept = load_checkpoint(tmp_path / "run").model.config
    assert isinstance(kept, ModelConfig)
    assert (kept.vocab_size, kept.max_positions) == (len(old_tokenizer) + 7, 40)
    assert (kept.intermediate_size, kept.layers) == (48, 1)


def test_new_tokens_get_rows_as_in_transformers_and_old_ones_keep_theirs(
    medical: Path, parent: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    transformers = pytest.importorskip("transformers")
    longer = Corpus.open(medical).tokenizer()
    old_size = len(longer) - (ADDED - UNUSED)
    config = configuration(medical, tmp_path / "run", from_checkpoint=str(parent), quiet=False)
    model = started(config)
    said = capsys.readouterr().err
    assert "4 tokens behind the checkpoint's vocabulary; 4 embeddings are drawn" in said
    assert f"{UNUSED} tokens take over the embeddings of [unused] entries" in said
    old: Any = load_checkpoint(parent).model
    assert torch.equal(model.encoder.embeddings.token[:old_size], old.encoder.embeddings.token)
    assert torch.equal(model.masked_lm.bias[:old_size], old.masked_lm.bias)
    assert not model.masked_lm.bias[old_size:].any()
    assert 0.01 < model.encoder.embeddings.token[old_size:].std() < 0.03
    peer = transformers.BertForPreTraining.from_pretrained(parent)
    peer.resize_token_embeddings(len(longer), mean_resizing=False)
    save_checkpoint(model, tmp_path)
    mine = load_file(tmp_path / "model.safetensors")
    theirs = peer.state_dict()
    for name, value in mine.items():
        assert value.shape == theirs[name].shape, name
    again = started(config)
    assert torch.equal(again.encoder.embeddings.token, model.encoder.embeddings.token)


def test_rows_that_a_padded_checkpoint_has_are_used_before_new_ones(
    medical: Path, parent: Path, tmp_path: Path
) -> None:
    longer = Corpus.open(medical).tokenizer()
    place = tmp_path / "padded"
    shutil.copytree(parent, place)
    padded: Any = load_checkpoint(parent, vocab_size=len(longer) - 2).model
    save_checkpoint(padded, place)
    model = started(configuration(medical, tmp_path / "run", from_checkpoint=str(place)))
    rows = model.encoder.embeddings.token
    assert len(rows) == len(longer)
    assert torch.equal(rows[:-2], padded.encoder.embeddings.token)


def test_position_embeddings_grow_by_copies_in_order() -> None:
    table = torch.arange(5.0)[:, None]
    assert longer_positions(table, 12, 5).flatten().tolist() == [
        *(0, 1, 2, 3, 4),
        *(1, 2, 3, 4),
        *(1, 2, 3),
    ]
    assert longer_positions(table, 6, 3).flatten().tolist() == [0, 1, 2, 1, 2, 1]
    assert longer_positions(table, 5, 5).equal(table)
    assert longer_positions(table, 4, 2).flatten().tolist() == [0, 1, 1, 1]


def test_longer_sequences_get_positions_and_short_ones_the_same_numbers(
    corpus: Path, parent: Path, tmp_path: Path
) -> None:
    config = configuration(
        corpus, tmp_path / "run", from_checkpoint=str(parent), sequence_length=48
    )
    model = started(config)
    assert model.config.max_positions == model.encoder.config.max_positions == 48
    positions = model.encoder.embeddings.position
    assert positions.requires_grad and positions.shape == (48, 32)
    assert torch.equal(positions[32:], positions[1:17])
    old: Any = load_checkpoint(parent).model
    batch = random_batch([9, 30, 32], 100).flat
    with torch.inference_mode():
        assert torch.equal(model.eval().encoder(batch), old.eval().encoder(batch))
    more = started(replace(config, max_positions=100, learned_positions=20))
    positions = more.encoder.embeddings.position
    assert positions.shape == (100, 32)
    assert torch.equal(positions[20:39], positions[1:20])
    pretrain(replace(config, steps=4))
    assert load_checkpoint(tmp_path / "run").model.config.max_positions == 48  # type: ignore[union-attr]


def test_a_parent_with_shorter_sequences_is_pointed_out(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pretrain(configuration(corpus, tmp_path / "short", model="1x32x2", steps=2, max_positions=64))
    config = configuration(
        corpus, tmp_path / "run", from_checkpoint=str(tmp_path / "short"), quiet=False
    )
    started(config)
    assert "--learned-positions" not in capsys.readouterr().err
    started(replace(config, sequence_length=48))
    assert "--learned-positions 32 starts them as copies" in capsys.readouterr().err
    started(replace(config, sequence_length=48, learned_positions=32))
    assert "positions 32 to 63 start as copies of 1 to 31" in capsys.readouterr().err


@pytest.mark.parametrize("objective", ["mlm+nsp", "mlm+sop", "ltr"])
def test_a_restart_changes_no_bit(
    medical: Path,
    parent: Path,
    tmp_path: Path,
    objective: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    place = tmp_path / "bare"  # so that heads, tokens and positions are all new
    shutil.copytree(parent, place)
    save_checkpoint(load_checkpoint(parent, head="encoder").model, place)
    config = configuration(
        medical,
        tmp_path / "whole",
        from_checkpoint=str(place),
        sequence_length=48,
        phases=["24:0.5"],
        objective=objective,
    )
    pretrain(config)
    cut = replace(config, output=str(tmp_path / "cut"))
    pretrain_until(3, cut, monkeypatch)  # before the first restart point: from the checkpoint again
    pretrain_until(8, cut, monkeypatch)
    assert pretrain(cut).resumed_from == 5
    for name in ("model.safetensors", "checkpoints/step-00000012/optimizer.safetensors"):
        ends = [(tmp_path / run / name).read_bytes() for run in ("whole", "cut")]
        assert ends[0] == ends[1]
    assert pretrain(cut).resumed_from == 12


def test_a_run_remembers_what_it_started_from(corpus: Path, parent: Path, tmp_path: Path) -> None:
    place = tmp_path / "start"
    shutil.copytree(parent, place)
    config = configuration(corpus, tmp_path / "run", from_checkpoint=str(place), steps=5)
    pretrain(config)
    facts = json.loads((tmp_path / "run" / "run.json").read_text())["checkpoint"]
    assert facts["path"] == str(place) and facts["missing"] == []
    assert facts["sha256"] == weights_digest(load_checkpoint(parent))
    moved = place.rename(tmp_path / "moved")
    again = replace(config, from_checkpoint=str(moved))
    assert pretrain(again).resumed_from == 5
    with pytest.raises(UserError, match=f"give it again, with --from-checkpoint {place}"):
        pretrain(replace(config, from_checkpoint=None))
    tensors = load_file(moved / "model.safetensors")
    tensors["cls.seq_relationship.bias"][0] += 1e-6
    save_file(tensors, moved / "model.safetensors", metadata={"format": "pt"})
    for allow in (False, True):
        with pytest.raises(UserError, match=r"are not those that the run in .* was started from"):
            pretrain(replace(again, allow_changes=allow))
    with pytest.raises(UserError, match=r"started with fresh weights; leave --from-checkpoint out"):
        pretrain(
            configuration(
                corpus,
                parent,
                model="2x32x2",
                max_positions=32,
                steps=40,
                from_checkpoint=str(moved),
            )
        )


def test_the_checksum_is_of_the_weights_in_any_file(parent: Path, tmp_path: Path) -> None:
    shutil.copy(parent / "config.json", tmp_path)
    torch.save(load_file(parent / "model.safetensors"), tmp_path / "pytorch_model.bin")
    digests = {weights_digest(load_checkpoint(place)) for place in (parent, tmp_path)}
    assert len(digests) == 1
    save_checkpoint(load_checkpoint(parent, head="encoder").model, tmp_path)
    fresh = []
    for seed in (0, 1):
        torch.manual_seed(seed)
        fresh.append(load_checkpoint(tmp_path, head="pretraining"))
    heads: list[Any] = [loaded.model for loaded in fresh]
    assert not torch.equal(heads[0].next_sentence.dense.weight, heads[1].next_sentence.dense.weight)
    assert weights_digest(fresh[0]) == weights_digest(fresh[1])
    assert weights_digest(fresh[0]) not in digests  # there are fewer weights now


def test_a_dry_run_and_minutes_work_from_a_checkpoint_too(
    corpus: Path, parent: Path, tmp_path: Path
) -> None:
    config = configuration(corpus, tmp_path / "run", from_checkpoint=str(parent), steps=1000)
    result = pretrain(replace(config, dry_run=True))
    assert isinstance(result, DryRun)
    assert not (tmp_path / "run").exists()
    assert result.parameters == sum(p.numel() for p in load_checkpoint(parent).model.parameters())
    assert 1 < pretrain(replace(config, max_minutes=0.1)).steps != 1000


def test_a_restart_point_is_a_checkpoint_too(corpus: Path, parent: Path, tmp_path: Path) -> None:
    point = parent / "checkpoints" / "step-00000035"
    model = started(configuration(corpus, tmp_path / "run", from_checkpoint=str(point)))
    assert torch.equal(
        model.encoder.embeddings.token,
        load_file(point / "model.safetensors")["bert.embeddings.word_embeddings.weight"],
    )


def test_the_size_may_be_named_where_it_agrees(corpus: Path, parent: Path, tmp_path: Path) -> None:
    config = configuration(corpus, tmp_path / "run", from_checkpoint=str(parent), model="2x32x2")
    assert started(config).config.layers == 2
    with pytest.raises(UserError, match=r"--model base is 12x768x12.*or give --model 2x32x2"):
        started(replace(config, model="base"))


def refused(capsys: pytest.CaptureFixture[str], config: PretrainConfig, *more: str) -> str:
    """The one line with which the command refuses, with exit code 2 and no folder left."""
    flags = ["--output", config.output, "--sequence-length", str(config.sequence_length)]
    assert config.from_checkpoint is not None
    flags += ["--from-checkpoint", config.from_checkpoint, "--batch-size", "8", "--steps", "2"]
    assert main(["pretrain", config.corpus, *flags, "--quiet", *more]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert re.fullmatch(r"bertkit: [^\n]+\n", captured.err)
    assert not Path(config.output).exists()
    return captured.err


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--model", "mini"], "--model mini is 4x256x4"),
        (["--model", "giant"], "no model size 'giant'"),
        (["--max-positions", "32", "--sequence-length", "48"], "longer than the model's 32"),
        (["--max-positions", "16", "--sequence-length", "16"], "fewer than the 32 of"),
        (["--learned-positions", "33"], "--learned-positions is 33; give how many of the 32"),
        (["--learned-positions", "1"], "at least 2"),
        (["--position-init", "sinusoidal"], "--position-init says how fresh weights start"),
        (["--initializer-range", "0.04"], "--initializer-range says how fresh weights start"),
        (["--objective", "mlm+sop", "--pairs", "nsp"], "--pairs nsp has nothing"),
    ],
)
def test_what_contradicts_the_checkpoint_is_one_line(
    corpus: Path,
    parent: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    more: list[str],
    message: str,
) -> None:
    config = configuration(corpus, tmp_path / "run", from_checkpoint=str(parent))
    assert message in refused(capsys, config, *more)


def test_another_vocabulary_is_refused_with_its_first_difference(
    corpus: Path,
    medical: Path,
    parent: Path,
    tmp_path: Path,
    old_tokenizer: Tokenizer,
    capsys: pytest.CaptureFixture[str],
) -> None:
    entries = old_tokenizer.vocabulary

    def with_vocabulary(vocabulary: list[str], lower_case: bool = True) -> PretrainConfig:
        place = tmp_path / "other"
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(parent, place, ignore=shutil.ignore_patterns("checkpoints"))
        Tokenizer(vocabulary, lower_case).save(place)
        return configuration(corpus, tmp_path / "run", from_checkpoint=str(place))

    swapped = [*entries[:40], entries[41], entries[40], *entries[42:]]
    line = refused(capsys, with_vocabulary(swapped))
    assert f"entry 40 is {entries[40]!r}, not {entries[41]!r}" in line
    line = refused(capsys, with_vocabulary([*entries, "stent"]))
    assert f"entry {len(entries)} is missing, not 'stent'" in line
    line = refused(
        capsys, with_vocabulary([entry.replace("[unused2]", "书店") for entry in entries])
    )
    assert "is '[unused2]', not '书店'" in line  # the other way round it is an extension
    line = refused(capsys, with_vocabulary(entries, lower_case=False))
    assert "is lower-cased, but the checkpoint" in line and "is cased" in line


def test_a_checkpoint_that_does_not_tell_its_casing_takes_the_corpus(
    corpus: Path, parent: Path, tmp_path: Path
) -> None:
    for name in ("config.json", "model.safetensors", "vocab.txt"):
        shutil.copy(parent / name, tmp_path)
    config = configuration(corpus, tmp_path / "run", from_checkpoint=str(tmp_path))
    assert started(config).config.layers == 2


def test_what_is_no_checkpoint_is_one_line(
    corpus: Path, parent: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = configuration(corpus, tmp_path / "run", from_checkpoint=str(tmp_path / "absent"))
    assert "no checkpoint at" in refused(capsys, config)
    config.from_checkpoint = str(corpus)
    assert "holds no checkpoint" in refused(capsys, config)
    shutil.copytree(parent, tmp_path / "bare")
    for name in ("vocab.txt", "tokenizer.json"):
        (tmp_path / "bare" / name).unlink()
    config.from_checkpoint = str(tmp_path / "bare")
    assert "has no vocab.txt" in refused(capsys, config)
    with pytest.raises(UserError, match="--learned-positions is for --from-checkpoint"):
        pretrain(configuration(corpus, tmp_path / "run", model="1x32x2", learned_positions=8))


def test_a_checkpoint_of_one_segment_takes_single_texts_only(
    corpus: Path,
    tmp_path: Path,
    old_tokenizer: Tokenizer,
    capsys: pytest.CaptureFixture[str],
) -> None:
    place = saved(old_tokenizer, tmp_path / "one")
    sizes = model_config("1x32x2", len(old_tokenizer), segment_types=1)
    save_checkpoint(MODELS["pretraining"](sizes), place)
    config = configuration(corpus, tmp_path / "run", from_checkpoint=str(place))
    assert "--pairs nsp has two segments" in refused(capsys, config)
    assert pretrain(replace(config, objective="mlm", steps=2)).steps == 2


def test_other_text_is_learned_sooner_than_from_nothing(
    medical: Path, parent: Path, tmp_path: Path
) -> None:
    """The parent knows how sentences are made and the words that both texts share."""
    short: dict[str, Any] = {"dropout": 0.0, "objective": "mlm", "steps": 20}
    ends = [
        pretrain(configuration(medical, tmp_path / name, **short, **changes)).dev["mlm_loss"]
        for name, changes in (
            ("on", {"from_checkpoint": str(parent)}),
            ("fresh", {"model": "2x32x2", "max_positions": 32}),
        )
    ]
    assert ends[0] < ends[1]


def test_a_run_starts_from_googles_files_as_from_a_directory(
    corpus: Path, parent: Path, tmp_path: Path
) -> None:
    save_tensorflow(load_checkpoint(parent).model, tmp_path / "google")
    shutil.copy(parent / "vocab.txt", tmp_path / "google")
    states = []
    for place in (parent, tmp_path / "google"):
        config = configuration(corpus, tmp_path / "run", from_checkpoint=str(place))
        states.append(started(config).state_dict())
    assert states[0].keys() == states[1].keys()
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])
