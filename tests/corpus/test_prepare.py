"""Preparing a corpus: the same bytes whatever the workers, clean splits, plain errors."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bertkit import config as configuration
from bertkit.corpus import encode, plan
from bertkit.corpus import prepare as module
from bertkit.corpus.config import PrepareConfig
from bertkit.corpus.format import Corpus
from bertkit.corpus.prepare import prepare
from bertkit.errors import UserError
from bertkit.text.tokenizer import SPECIAL_TOKENS, Tokenizer


def content(folder: str | Path) -> dict[str, bytes]:
    """All files of a corpus but the configuration, which names the output and the workers."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(Path(folder).rglob("*"))
        if path.is_file() and path.name != "prepare.yaml"
    }


def names(folder: str | Path) -> dict[str, list[str]]:
    return {name: list(split.document_ids()) for name, split in Corpus.open(folder).splits.items()}


def documents(corpus: Corpus) -> dict[str, list[tuple[int, ...]]]:
    """The ids of each document, by split."""
    found: dict[str, list[tuple[int, ...]]] = {}
    for name, split in corpus.splits.items():
        bounds = split.document_bounds
        ids, lengths = split.read(bounds[:-1], np.diff(bounds))
        parts = np.split(ids, np.cumsum(lengths)[:-1])
        found[name] = [tuple(part.tolist()) for part in parts]
    return found


def test_the_bytes_are_the_same_for_any_number_of_workers(
    config: PrepareConfig, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    prepare(config)
    first = content(config.output)
    assert sum(name.endswith(".tokens") for name in first) > 4
    for workers, chunk in ((1, 1 << 30), (2, 100), (3, 400)):
        monkeypatch.setattr(plan, "CHUNK_BYTES", chunk)
        monkeypatch.setattr(module, "CHUNK_BYTES", chunk)
        other = replace(config, workers=workers, output=str(tmp_path / f"corpus{workers}"))
        prepare(other)
        assert content(other.output) == first


def test_the_split_does_not_depend_on_order_number_or_place(
    config: PrepareConfig, texts: Path, tmp_path: Path
) -> None:
    prepare(config)
    first = names(config.output)
    assert len(first["dev"]) >= 2 and len(first["train"]) + len(first["dev"]) == 40
    files = sorted(map(str, texts.iterdir()))
    prepare(replace(config, inputs=files[::-1]))
    assert names(config.output) == first
    lines = [json.dumps({"text": Path(path).read_text()}) for path in reversed(files)]
    (tmp_path / "all.jsonl").write_text("\n".join(lines))
    jsonl = replace(config, inputs=[str(tmp_path / "all.jsonl")], output=str(tmp_path / "other"))
    prepare(jsonl)
    by_text = documents(Corpus.open(config.output))
    other = documents(Corpus.open(jsonl.output))
    assert {name: sorted(found) for name, found in other.items()} == {
        name: sorted(found) for name, found in by_text.items()
    }


def test_no_document_and_no_copy_of_it_is_in_two_splits(config: PrepareConfig, texts: Path) -> None:
    for path in list(texts.iterdir()):
        (texts / f"copy-of-{path.name}").write_bytes(path.read_bytes())
    prepare(replace(config, held_out=0.3))
    found = documents(Corpus.open(config.output))
    assert sum(map(len, found.values())) == 80
    assert not set(found["train"]) & set(found["dev"])


def test_named_documents_and_files_are_held_out(config: PrepareConfig, tmp_path: Path) -> None:
    prepare(replace(config, held_out_documents=["03.txt", "20.txt"]))
    assert names(config.output)["dev"] == ["03.txt", "20.txt"]
    for name in ("train.txt", "test.txt"):
        (tmp_path / name).write_text(f"The dog ran in {name}.\n\nShe saw the cat in {name}.\n")
    inputs = [str(tmp_path / name) for name in ("train.txt", "test.txt")]
    lines = replace(config, inputs=inputs, documents="blank-line", held_out_documents=["test.txt"])
    prepare(lines)
    assert names(config.output) == {
        "train": ["train.txt:1", "train.txt:3"],
        "dev": ["test.txt:1", "test.txt:3"],
    }
    with pytest.raises(UserError, match=r"no document or file is named 'none\.txt'"):
        prepare(replace(config, held_out_documents=["none.txt"]))


def test_nothing_is_held_out_with_a_share_of_zero(config: PrepareConfig) -> None:
    result = prepare(replace(config, held_out=0))
    assert list(result.splits) == list(Corpus.open(config.output).splits) == ["train"]


def test_identities_that_repeat_are_made_distinct(config: PrepareConfig, tmp_path: Path) -> None:
    identities = ["a", "b", "a", "a#2", "a"]
    lines = [
        json.dumps({"text": f"The dog saw book {n}.", "id": identity})
        for n, identity in enumerate(identities)
    ]
    (tmp_path / "in.jsonl").write_text("\n".join(lines))
    prepare(replace(config, inputs=[str(tmp_path / "in.jsonl")], held_out=0))
    assert names(config.output)["train"] == ["a", "b", "a#3", "a#2", "a#4"]


def test_counts_agree_with_the_corpus(config: PrepareConfig, texts: Path) -> None:
    (texts / "empty-of-tokens.txt").write_text("\x00\x07 \u200b")
    result = prepare(config)
    corpus = Corpus.open(config.output)
    assert result.empty == 1 and result.shards == len(corpus.manifest["shards"])
    unk = corpus.tokenizer().unk_id
    for name, split in corpus.splits.items():
        counts = result.splits[name]
        assert asdict(counts) == corpus.manifest["splits"][name]
        ids, _ = split.read(split.document_bounds[:-1], np.diff(split.document_bounds))
        assert counts.unknown == (ids == unk).sum()
        assert (counts.documents, counts.sentences, counts.tokens) == (
            split.documents,
            split.sentences,
            len(ids),
        )
    assert result.splits["train"].documents + result.splits["dev"].documents == 40
    table = str(result)
    assert "train" in table and f"{result.splits['train'].tokens:,}" in table


def test_a_shard_may_be_without_any_token(config: PrepareConfig, texts: Path) -> None:
    for number in range(10, 20):
        (texts / f"{number}.txt").write_text("\x00\x07 \u200b")
    result = prepare(replace(config, shard_bytes=20, held_out=0))
    corpus = Corpus.open(config.output)
    corpus.verify()
    assert result.empty == 10 and result.splits["train"].documents == 30
    assert {} in [shard["splits"] for shard in corpus.manifest["shards"]]
    kept = [f"{number:02d}.txt" for number in range(40) if not 10 <= number < 20]
    assert names(config.output) == {"train": kept}


def test_many_unknown_words_are_told(
    config: PrepareConfig, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "in.txt").write_text("ありがとう the\n\nこんにちは dog\n")
    prepare(replace(config, inputs=[str(tmp_path / "in.txt")], quiet=False, held_out=0))
    assert "50 % of the tokens of train are [UNK]" in capsys.readouterr().err


def test_one_document_is_enough_but_that_is_told(
    config: PrepareConfig, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "in.txt").write_text("The dog ran.\nThe cat sat.")
    result = prepare(replace(config, inputs=[str(tmp_path / "in.txt")], quiet=False))
    assert list(result.splits) == ["train"] and result.splits["train"].sentences == 2
    told = capsys.readouterr().err
    assert "none is held out" in told and "masked LM only" in told


def test_a_line_of_five_megabytes_is_no_problem(config: PrepareConfig, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("the good dog saw a cat and ran " * 160_000)
    result = prepare(replace(config, inputs=[str(tmp_path / "in.txt")]))
    assert result.splits["train"].tokens == 8 * 160_000
    lengths = Corpus.open(config.output).splits["train"].sentence_lengths
    assert lengths.max() < 600


def test_a_document_that_is_too_long_is_refused_by_name(
    config: PrepareConfig, texts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan, "LONGEST_DOCUMENT", 1000)
    (texts / "20.txt").write_text("我" * 334)
    with pytest.raises(UserError, match=r"document 20\.txt has .* divide it"):
        prepare(config)
    (texts / "20.txt").write_text("我" * 333)
    prepare(config)


def test_two_inputs_with_one_name_keep_their_documents_apart(
    config: PrepareConfig, tmp_path: Path
) -> None:
    files = []
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        files.append(tmp_path / folder / "x.txt")
        files[-1].write_text(f"The dog saw {folder}.")
    prepare(replace(config, inputs=list(map(str, files)), held_out=0))
    first = content(config.output)
    assert names(config.output)["train"] == ["a/x.txt", "b/x.txt"]
    prepare(replace(config, inputs=list(map(str, files[::-1])), held_out=0))
    assert content(config.output) == first


def test_any_unicode_comes_back(config: PrepareConfig, tmp_path: Path) -> None:
    text = "我是 Café 😀👩‍👧 ﷽ e\u0301 \x00\x01\ufeff \u2028 한국어 ß İ"
    characters = sorted({c for c in text if not c.isspace()} | set("Cafe"))
    vocabulary = [*SPECIAL_TOKENS, *characters, *("##" + c for c in characters)]
    folder = tmp_path / "cased"
    folder.mkdir()
    Tokenizer(vocabulary, lower_case=False).save(folder)
    (tmp_path / "in.jsonl").write_text(json.dumps({"text": text, "id": "名\n\u2028\x00 😀"}))
    changed = replace(config, inputs=[str(tmp_path / "in.jsonl")], vocab=str(folder))
    assert prepare(changed).splits["train"].unknown == 0
    split = Corpus.open(config.output).splits["train"]
    assert split.document_id(0) == next(split.document_ids()) == "名\n\u2028\x00 😀"
    removed = "\x00\x01\ufeff\u200d\u2028 "  # controls, a joiner, spaces
    kept = text.translate(dict.fromkeys(map(ord, removed)))
    assert "".join("".join(split.decode(0, split.sentences)).split()) == kept


def test_in_line_mode_lines_are_sentences(config: PrepareConfig, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("The dog. The cat.\na man\n\nthe city\n")
    result = prepare(
        replace(config, inputs=[str(tmp_path / "in.txt")], sentences="line", held_out=0)
    )
    counts = result.splits["train"]
    assert (counts.documents, counts.sentences) == (2, 3)


def test_the_configuration_is_kept_beside_the_corpus(config: PrepareConfig) -> None:
    prepare(config)
    kept = configuration.load(PrepareConfig, Path(config.output, "prepare.yaml"))
    assert kept == config


def test_a_bare_vocabulary_needs_its_casing(config: PrepareConfig, vocab: Path) -> None:
    bare = replace(config, vocab=str(vocab / "vocab.txt"))
    with pytest.raises(UserError, match="lower"):
        prepare(bare)
    prepare(replace(bare, lower_case=False))
    assert Corpus.open(config.output).tokenizer().lower_case is False


def test_lines_stay_whole_in_the_pieces_of_a_huge_document(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encode, "PIECE_CHARACTERS", 100)
    lines = [f"At 5 p.m. it was said. Line {n}. " * (1 + n % 7) + "\n" for n in range(60)]
    text = "".join(lines) + "without an end"
    parts = list(encode.pieces(text, lines=True))
    assert "".join(parts) == text and len(parts) > 20
    assert all(part.endswith("\n") for part in parts[:-1])
    assert list(encode.pieces("x" * 1000, lines=True)) == ["x" * 1000]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"held_out": 1.0}, "held_out is 1.0"),
        ({"held_out": -0.1}, "held_out is -0.1"),
        ({"workers": 0}, "workers is 0"),
        ({"shard_bytes": 0}, "shard_bytes is 0"),
        ({"shard_bytes": 1 << 32}, "shard_bytes is 4294967296; give 1 to 2147483648"),
        ({"inputs": ["no-such-file"]}, "there is no file or folder"),
        ({"vocab": "no-such-vocab"}, "no tokenizer at"),
        ({"inputs": []}, "no input"),
    ],
)
def test_a_wrong_option_is_refused(
    config: PrepareConfig, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        prepare(replace(config, **changes))
    assert not Path(config.output).exists()


@pytest.mark.parametrize("workers", [1, 2])
def test_a_mistake_late_in_the_input_leaves_nothing_behind(
    config: PrepareConfig, texts: Path, workers: int
) -> None:
    (texts / "zz.txt").write_bytes(b"The dog \xff ran.")
    with pytest.raises(UserError, match=r"zz\.txt is not UTF-8 at byte 8"):
        prepare(replace(config, workers=workers))
    assert not list(Path(config.output).parent.glob("*corpus*"))
    prepare(replace(config, errors="replace", workers=workers))


def test_a_failure_keeps_the_earlier_corpus(
    config: PrepareConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare(config)
    before = content(config.output)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("bertkit.corpus.write._File.write", full)
    with pytest.raises(UserError, match="the disk is full"):
        prepare(replace(config, seed=5))
    assert content(config.output) == before
    assert [path.name for path in Path(config.output).parent.glob("*corpus*")] == ["corpus"]


def test_text_without_any_token_is_refused(config: PrepareConfig, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("\x00\x01\n\n\u200b\u200c\n")
    with pytest.raises(UserError, match="has any token"):
        prepare(replace(config, inputs=[str(tmp_path / "in.txt")]))


def test_a_vocabulary_without_special_tokens_is_refused(config: PrepareConfig, vocab: Path) -> None:
    (vocab / "vocab.txt").write_text("the\ndog\n")
    with pytest.raises(UserError, match=r"\[MASK\]"):
        prepare(config)


def test_foreign_files_are_never_replaced(config: PrepareConfig, texts: Path) -> None:
    Path(config.output).mkdir()
    (Path(config.output) / "thesis.docx").write_text("years of work")
    with pytest.raises(UserError, match=r"thesis\.docx"):
        prepare(config)
    with pytest.raises(UserError, match="inside the input folder"):
        prepare(replace(config, output=str(texts / "corpus")))
    with pytest.raises(UserError, match="is a file"):
        prepare(replace(config, output=f"{config.output}/thesis.docx"))


@pytest.mark.parametrize(
    "change",
    [
        lambda path: path.write_text(path.read_text().replace("milk", "silk")),
        Path.unlink,
        lambda path: path.with_name("zz.txt").write_text("One more."),
    ],
)
def test_changed_inputs_are_noticed(
    config: PrepareConfig,
    texts: Path,
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[Path], Any],
) -> None:
    choose = plan._choose

    def choose_and_change(*arguments: Any) -> Any:
        change(texts / "07.txt")
        return choose(*arguments)

    monkeypatch.setattr(plan, "_choose", choose_and_change)
    with pytest.raises(UserError, match="changed while they were read"):
        prepare(config)


def test_a_worker_that_dies_is_told(config: PrepareConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bertkit.workers._START", "import os; os.kill(os.getpid(), 9)")
    monkeypatch.setattr(module, "CHUNK_BYTES", 100)
    with pytest.raises(UserError, match=r"signal 9.*--workers"):
        prepare(replace(config, workers=2))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_interruption_leaves_no_process_and_no_half_corpus(
    config: PrepareConfig, texts: Path, tmp_path: Path, number: signal.Signals
) -> None:
    (texts / "long.txt").write_text("unaffable and wantwant dogs, good. " * 400_000)
    (texts / "longer.txt").write_text("unaffable and wantwant cats, bad. " * 400_000)
    big = replace(config, workers=2, shard_bytes=64_000_000)
    configuration.save(big, tmp_path / "config.yaml")
    code = (
        "import sys\n"
        "from bertkit import config, prepare, PrepareConfig\n"
        "prepare(config.load(PrepareConfig, sys.argv[1]))"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path / "config.yaml")],
        stderr=subprocess.PIPE,
        start_new_session=True,
        # Where the tests run in the background, Ctrl-C is ignored, and children inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL) and None,
    )
    workers = _wait_for_workers(process.pid)
    assert process.poll() is None, "it finished before it could be interrupted"
    os.kill(process.pid, number)
    process.communicate(timeout=30)
    assert process.returncode != 0
    assert not Path(config.output).exists()
    if number != signal.SIGKILL:  # after which the next run clears up
        assert not list(tmp_path.glob(".corpus*"))
    deadline = time.monotonic() + 60
    while any(_is_alive(worker) for worker in workers):
        assert time.monotonic() < deadline, "a worker outlived its caller"
        time.sleep(0.05)
    if number == signal.SIGKILL:
        for path in ("long.txt", "longer.txt"):
            (texts / path).unlink()
        prepare(config)
        assert [path.name for path in tmp_path.glob("*corpus*")] == ["corpus"]


def _wait_for_workers(parent: int) -> list[int]:
    children = Path(f"/proc/{parent}/task/{parent}/children")
    if not children.exists():
        pytest.skip("needs /proc")
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        found = [
            int(child)
            for task in Path(f"/proc/{parent}/task").iterdir()
            for child in (task / "children").read_text().split()
        ]
        if len(found) == 2:
            return found
        time.sleep(0.01)
    raise AssertionError("no workers came up")


def _is_alive(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


def test_chinese_news_keep_their_documents_and_sentences(
    config: PrepareConfig, shared_data: Path, tmp_path: Path
) -> None:
    path = shared_data / "corpora" / "news-zh" / "clue-corpus-small-2500-documents.txt"
    vocab = shared_data / "vocab" / "bert-base-chinese" / "vocab.txt"
    result = prepare(
        replace(
            config,
            inputs=[str(path)],
            vocab=str(vocab),
            lower_case=True,
            sentences="line",
            shard_bytes=500_000,
            workers=2,
        )
    )
    assert sum(counts.documents for counts in result.splits.values()) == 2500
    assert sum(counts.sentences for counts in result.splits.values()) == 18141
    Corpus.open(config.output).verify()
