"""What this machine can do at most, and what share of it one number of tokens a second is.

    python benchmarks/roofline.py
    python benchmarks/roofline.py --size mini --tokens-per-second 3869

Measured are matrix products at the shapes of BERT's layers in float32 and bfloat16, and copies and
triads of memory (bertkit/speed/roofline.py). With a speed of pre-training the arithmetic that a
token needs follows, part by part, and the share of the peak. Last comes one line of JSON.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict

import numpy as np
import torch

from bertkit.model.config import model_config
from bertkit.model.flops import training_flops
from bertkit.speed.roofline import PRODUCT_SECONDS, Roofline, dtype_name, measure_roofline
from bertkit.speed.steps import MASK_RATE, VOCABULARY


def table(machine: Roofline) -> list[str]:
    on = f", {machine.threads} threads" if machine.threads else ""
    lines = [f"{machine.processor}{on}, torch {torch.__version__}"]
    lines.append(f"{'type':<10}{'rows':>6}{'inputs':>8}{'outputs':>9}{'GFLOP/s':>10}")
    for one in machine.products:
        lines.append(
            f"{one.precision:<10}{one.rows:>6}{one.inputs:>8}{one.outputs:>9}"
            f"{one.flops / 1e9:>10,.1f}"
        )
    lines.append(f"copy {machine.copy_bytes / 1e9:.1f} GB/s, triad {machine.triad_bytes / 1e9:.1f}")
    return lines


def arithmetic(size: str, length: int) -> dict[str, float]:
    """Operations of a token in pre-training, forward and backward, by part."""
    sizes, lengths = model_config(size, VOCABULARY), np.full(1, float(length))
    carried = MASK_RATE + 1 / length
    whole = training_flops(sizes, lengths, MASK_RATE, carried)
    encoder = training_flops(sizes, lengths, 0.0, carried)
    attention = 3 * sizes.layers * 4 * sizes.hidden_size * length
    return {
        "layers": encoder - attention,
        "attention": attention,
        "masked LM": whole - encoder,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", default="mini")
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--tokens-per-second", type=float)
    parser.add_argument("--precision", choices=["auto", "fp32", "bf16"], default="auto")
    parser.add_argument("--threads", type=int, default=0, help="0: as many as torch takes")
    parser.add_argument("--seconds", type=float, default=PRODUCT_SECONDS, help="for each product")
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    machine = measure_roofline(device=device, seconds=options.seconds)
    print("\n".join(table(machine)))
    parts = arithmetic(options.size, options.length)
    total = sum(parts.values())
    print(
        f"a token of {options.size} at {options.length} takes {total / 1e6:.2f} MFLOP: "
        + ", ".join(f"{name} {value / total:.0%}" for name, value in parts.items())
    )
    precision = dtype_name(options.precision, device)
    limit = machine.peak(precision) / total
    print(f"the limit in {precision} is {limit:,.0f} tokens/s")
    share = None
    if options.tokens_per_second:
        share = options.tokens_per_second / limit
        print(f"{options.tokens_per_second:,.0f} tokens/s are {share:.0%} of it")
    print(
        json.dumps(
            {
                "benchmark": "roofline",
                **asdict(machine),
                "size": options.size,
                "length": options.length,
                "flops_per_token": parts,
                "limit_tokens_per_second": round(limit, 1),
                "share": share,
            }
        )
    )


if __name__ == "__main__":
    main()
