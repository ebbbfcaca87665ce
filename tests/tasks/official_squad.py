"""The official scripts' rules, restated as plainly as they can be: the judge of `squad_metrics`."""

from __future__ import annotations

import string
from collections.abc import Sequence


def normal(text: str) -> str:
    """Lower, drop ASCII punctuation, then the words a, an, the at word borders, then blanks."""
    text = "".join(char for char in text.lower() if char not in string.punctuation)
    kept: list[str] = []
    word = ""
    for char in text + " ":  # a word is a run of alphanumerics and underscores (punctuation: gone)
        if char.isalnum() or char == "_":
            word += char
            continue
        kept.append(" " if word in ("a", "an", "the") else word)
        kept.append(char)
        word = ""
    return " ".join("".join(kept).split())


def overlap_f1(gold: list[str], found: list[str]) -> float:
    rest = list(gold)
    shared = 0
    for word in found:
        if word in rest:
            rest.remove(word)
            shared += 1
    if shared == 0:
        return 0
    precision, recall = 1.0 * shared / len(found), 1.0 * shared / len(gold)
    return (2 * precision * recall) / (precision + recall)


def version1(golds: dict[str, Sequence[str]], predictions: dict[str, str]) -> tuple[float, float]:
    """EM and F1 in per cent."""
    exact = f1 = 0.0
    for name, answers in golds.items():
        if name not in predictions:
            continue
        found = normal(predictions[name])
        exact += max(found == normal(answer) for answer in answers)
        f1 += max(overlap_f1(normal(answer).split(), found.split()) for answer in answers)
    return 100.0 * exact / len(golds), 100.0 * f1 / len(golds)


def version2(
    golds: dict[str, Sequence[str]],
    predictions: dict[str, str],
    odds: dict[str, float] | None = None,
    cut: float = 1.0,
) -> dict[str, float]:
    """Every number of evaluate-v2.0.py in per cent; `cut` is its --na-prob-thresh."""
    raw: dict[str, dict[str, float]] = {"exact": {}, "f1": {}}
    for name, answers in golds.items():
        if name not in predictions:
            continue
        wanted = [answer for answer in answers if normal(answer)] or [""]
        found = normal(predictions[name])
        pairs = [(normal(answer).split(), found.split()) for answer in wanted]
        raw["exact"][name] = max(int(normal(answer) == found) for answer in wanted)
        raw["f1"][name] = max(overlap_f1(a, b) if a and b else float(a == b) for a, b in pairs)
    result: dict[str, float] = {}
    for metric, scores in raw.items():
        after = {
            name: float(not golds[name]) if odds is not None and odds[name] > cut else score
            for name, score in scores.items()
        }
        result[metric] = 100.0 * sum(after.values()) / len(after)
        for prefix, kind in (("HasAns", True), ("NoAns", False)):
            part = [score for name, score in after.items() if bool(golds[name]) == kind]
            if part:
                result[f"{prefix}_{metric}"] = 100.0 * sum(part) / len(part)
    for metric, scores in raw.items() if odds is not None else ():
        assert odds is not None
        current = best = float(sum(1 for answers in golds.values() if not answers))
        at = 0.0
        for name in sorted(odds, key=lambda name: odds[name]):
            if name not in scores:
                continue
            if golds[name]:
                current += scores[name]
            elif predictions[name]:
                current -= 1
            if current > best:
                best, at = current, odds[name]
        result[f"best_{metric}"] = 100.0 * best / len(scores)
        result[f"best_{metric}_thresh"] = at
    return result
