"""How micro-batches use their budget of tokens: balanced bins, against families in their order (the earlier rule) and whole sequences in bins.

    python -m benchmarks.micro_batches [--seeds 10] [--update]

Answers have a log-normal length, as in reasoning. Per case, the mean over seeds of: the number of micro-batches; their tokens, with every shared prefix
once per micro-batch; the work of two processes that take turns (the sum over pairs of the larger micro-batch). `--update` also measures
the processor time of a forward and backward pass over all micro-batches of four of these prompts with long tails.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from benchmarks.update_memory import decoder
from gradus.policies.logprobs import token_logprobs
from gradus.policies.micro import balanced_bins, micro_batches
from gradus.policies.pack import forward, pack
from gradus.policies.prefix_sharing import families
from gradus.types import Context, prompt_context

Rule = Callable[[Sequence[Context], int], list[list[int]]]
WORDS = 1000
TIMED = "prompts of 30, G = 16, long tails, 2,048"
CASES: dict[str, tuple[Any, ...]] = {  # prompts, samples per prompt, shortest and longest prompt, median answer, deviation of its logarithm, longest answer, budget
    "prompts of 15, G = 8, 1,024": (16, 8, 10, 20, 40, 0.8, 256, 1024),
    "prompts of 300, G = 8, 2,048": (16, 8, 200, 400, 40, 0.8, 256, 2048),
    "prompts of 30, G = 16, long tails, 4,096": (16, 16, 20, 40, 200, 1.0, 2048, 4096),
    TIMED: (16, 16, 20, 40, 200, 1.0, 2048, 2048),
    "one answer per prompt, long tails, 4,096": (128, 1, 20, 40, 200, 1.0, 2048, 4096),
}


def drawn(rng: np.random.Generator, prompts: int, group: int, low: int, high: int, median: float, spread: float, most: int) -> list[Context]:
    made = []
    for _ in range(prompts):
        length = int(rng.integers(low, high + 1))
        prompt = prompt_context(rng.integers(0, WORDS, length).astype(np.int32))
        for _ in range(group):
            new = int(np.clip(round(median * np.exp(spread * rng.normal())), 1, most))
            values: dict[str, Any] = {"tokens": rng.integers(0, WORDS, new).astype(np.int32), "chosen": np.ones(new, bool), "logprobs": np.zeros(new, np.float32)}
            made.append(Context(**values, temperature=1.0, parent=(prompt, length)))
    return made


def in_order(contexts: Sequence[Context], budget: int) -> list[list[int]]:
    """Families in their order. A family goes into the last micro-batch if it fits there, else into one or more new ones."""
    batches: list[list[int]] = [[]]
    used = 0
    for family in families(contexts):
        own = [len(contexts[i].sequence) - family.shared for i in family.members]
        fresh, joined = used > 0 and used + family.shared + sum(own) > budget, False
        for i, length in zip(family.members, own, strict=True):
            cost = length if joined else length + family.shared
            if fresh or (used > 0 and used + cost > budget):
                batches.append([])
                used, cost, fresh = 0, length + family.shared, False
            batches[-1].append(i)
            used, joined = used + cost, True
    return batches


def by_sequence(contexts: Sequence[Context], budget: int) -> list[list[int]]:
    """Bins of whole sequences. The size of a sequence includes its prefix."""
    return balanced_bins([len(c.sequence) for c in contexts], budget)


RULES: dict[str, Rule] = {
    "balanced bins": lambda contexts, budget: micro_batches(contexts, budget, shared=True),
    "in order": in_order,
    "whole sequences": by_sequence,
}


def figures(contexts: Sequence[Context], budget: int, rule: Rule) -> tuple[float, float, float]:
    tokens = [len(pack([contexts[i] for i in batch]).tokens) for batch in rule(contexts, budget)]
    assert all(n <= budget for n, batch in zip(tokens, rule(contexts, budget), strict=True) if len(batch) > 1)
    return len(tokens), sum(tokens), sum(max(tokens[i : i + 2]) for i in range(0, len(tokens), 2))


def seconds(contexts: Sequence[Context], budget: int, rule: Rule) -> float:
    network, began = decoder(WORDS), time.process_time()
    for batch in rule(contexts, budget):
        packed = pack([contexts[i] for i in batch])
        hidden = forward(network, packed)[packed.source]
        token_logprobs(hidden, network.head_weight, packed.targets, torch.ones(len(packed.targets)), entropy=False)[0].sum().backward()
    return time.process_time() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--update", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    print("| case, budget | rule | micro-batches | tokens | tokens of two processes in turns |\n| --- | --- | --- | --- | --- |")
    for name, (*shape, budget) in CASES.items():
        batches = [drawn(np.random.default_rng(seed), *shape) for seed in range(options.seeds)]
        for rule in RULES:
            found = np.mean([figures(contexts, budget, RULES[rule]) for contexts in batches], 0)
            print(f"| {name} | {rule} | {found[0]:.1f} | {found[1]:,.0f} | {found[2]:,.0f} |", flush=True)
    if options.update:
        _, *shape, budget = CASES[TIMED]
        contexts = drawn(np.random.default_rng(0), 4, *shape)
        rounds = [{rule: seconds(contexts, budget, RULES[rule]) for rule in RULES} for _ in range(3)]
        for rule in RULES:
            times = [taken[rule] for taken in rounds]
            print(f"{rule}: {statistics.median(times):.1f} s of processor time ({min(times):.1f}-{max(times):.1f})")


if __name__ == "__main__":
    main()
