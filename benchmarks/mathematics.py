"""The mathematics verifier against the package math-verify: agreement on fuzzed pairs of gold and answer, and the speed on the common forms.

    python -m benchmarks.mathematics [--pairs 5000] [--seed 0]
    python -m benchmarks.mathematics --record tests/tasks/maths/mathematics/pairs.jsonl --pairs 400

Needs math-verify 0.9.0 (pip install math-verify). Exit code 1 if agreement is below 99.5 %, if a pair that only Gradus calls right has no
written reason, or if the ratio of the speeds is below 5.
"""

from __future__ import annotations

import argparse
import json
import logging
import re
import statistics
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from benchmarks.mathematics_pairs import COMMON, Pair, pairs
from gradus.tasks.maths.mathematics import verify

LEAST_AGREEMENT, LEAST_RATIO = 0.995, 5.0

REASONS: dict[str, tuple[str, str]] = {
    "binary rounding": (
        r"[0-9]\.[0-9]+\s*(?:\\times|\\cdot|\*)",
        "a decimal times a power of ten is exact here; it rounds in binary: 1.1 x 10^2 is 110",
    ),
    "imaginary unit": (r"i", "i is the imaginary unit here, in every context: i^2 = -1; it is a free variable there"),
    "empty set": (r"\\varnothing", "both signs of the empty set are read"),
    "spaced unit": (
        r"(?:\\[ ,;~]\s*|~)\\(?:text|mathrm)|\\(?:text|mathrm)\{[^}]*\}(?:\^2)? +(?:\\\]|\$\$)",
        "a unit with spaces around it, the end of a display among them, is a unit",
    ),
    "factorials": (r"!", "n!/(n-1)! is n, by value"),
    "bare word": (r"[A-Za-z]{2,}", "letters that spell the gold word are that word, not a product of variables"),
    "reversed chain": (r">.*>|\\ge.*\\ge", "5 > x > 1 is 1 < x < 5"),
    "mixed number": (r"[0-9] [0-9]+/[0-9]", "1 1/2 in plain text is a mixed number"),
}
"""Reasons for pairs that only Gradus calls right: name -> (regex that finds such a pair, reason)."""
KINDS_OF = {
    "binary rounding": {"scientific"},
    "imaginary unit": {"imaginary", "product_of_i"},
    "empty set": {"empty"},
    "spaced unit": {"units", "money"},
    "factorials": {"symbols"}, "bare word": {"word"},
}
"""Reason -> the kinds of pairs for which it holds; a reason that is not listed holds for every kind."""


def theirs(pair: Pair) -> bool:
    from math_verify import parse
    from math_verify import verify as check

    return bool(check(parse(pair.gold), parse(pair.answer)))


def ours(pair: Pair) -> bool:
    return verify(pair.gold, pair.answer)


def reason(pair: Pair) -> str | None:
    """The name of the reason for a pair that only Gradus calls right; None if there is none."""
    for name, (sign, _) in REASONS.items():
        if pair.kind in KINDS_OF.get(name, {pair.kind}) and re.search(sign, pair.gold + " " + pair.answer):
            return name
    return None


def speed(chosen: Sequence[Pair], rounds: int = 5) -> tuple[float, float]:
    """Median pairs per second, ours and theirs, in alternating passes; our gold answers are parsed again in every pass."""
    from gradus.tasks.maths import mathematics

    times: dict[str, list[float]] = {"ours": [], "theirs": []}
    for _ in range(rounds):
        for name, judge in (("ours", ours), ("theirs", theirs)):
            mathematics._read.cache_clear()
            start = time.perf_counter()
            for pair in chosen:
                judge(pair)
            times[name].append(len(chosen) / (time.perf_counter() - start))
    return statistics.median(times["ours"]), statistics.median(times["theirs"])


def record(path: Path, chosen: Sequence[Pair]) -> None:
    """Writes the pairs with the verdicts of math-verify, one JSON object per line."""
    rows = [{"kind": p.kind, "gold": p.gold, "answer": p.answer, "right": theirs(p)} for p in chosen]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    print(f"wrote {len(rows)} pairs to {path}, {sum(bool(r['right']) for r in rows)} of them right")


def compare(chosen: Sequence[Pair]) -> tuple[float, int]:
    """Prints the differences. Returns the share of agreement, and the number of pairs that only Gradus calls right without a reason."""
    told: Counter[str] = Counter()
    verdicts = [(p, ours(p), theirs(p)) for p in chosen]
    for pair, mine, its in verdicts:
        if mine == its:
            continue
        why = reason(pair) or "NO REASON" if mine else "only math-verify calls it right"
        told[why] += 1
        print(f"  {why}: {pair.kind} {pair.gold!r} {pair.answer!r}")
    for name, count in told.most_common():
        print(f"{count:4d} {name}{': ' + REASONS[name][1] if name in REASONS else ''}")
    right = sum(its for _, _, its in verdicts)
    print(f"{len(chosen)} pairs of {len({p.kind for p in chosen})} kinds, {right} right by math-verify")
    return sum(mine == its for _, mine, its in verdicts) / len(chosen), told["NO REASON"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--record", type=Path, help="only write the pairs with math-verify's verdicts to this file")
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)  # the package logs every pair that it cannot read
    chosen = list(pairs(options.pairs, options.seed))
    if options.record:
        record(options.record, chosen)
        return
    agreement, unexplained = compare(chosen)
    common = [p for p in chosen if p.kind in COMMON][:200]
    mine, its = speed(common)
    print(f"agreement {agreement:.2%}; right without a reason: {unexplained}")
    print(f"common forms: {mine:.0f} pairs/s against {its:.0f}: {mine / its:.1f} times")
    sys.exit(agreement < LEAST_AGREEMENT or unexplained > 0 or mine / its < LEAST_RATIO)


if __name__ == "__main__":
    main()
