"""Sampling against transformers' generate, with forced lengths: useful tokens per second, and their share of the limit by matrix products.

    python -m benchmarks.engine [--pairs 5] [--dtype bfloat16] [--device cuda]

16 prompts x 16 samples of a random Qwen2 (4 layers, heads 64 wide). Lengths are geometric with mean 64, at most 256, the same for both;
then all 256. transformers samples all 256 sequences in one batch, until the longest is done; both sample at temperature 1.
The limit is the time that the products with the weights alone would take at the rate measured here for blocks of 256 rows.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.peers import CASES, CHARACTERS, SPECIAL, make_model
from gradus.policies.engine import Job, generate
from gradus.policies.lm import LanguageModel
from gradus.policies.products import Matrix
from gradus.types import Key, Sampling

PROMPTS, GROUP, PROMPT, LONGEST, MEAN = 16, 16, 16, 256, 64


def forced_lengths(kind: str) -> np.ndarray:
    """[PROMPTS * GROUP] number of tokens of every sequence."""
    rng = np.random.default_rng(0)
    count = PROMPTS * GROUP
    return np.full(count, LONGEST) if kind == "equal" else np.minimum(rng.geometric(1 / MEAN, count), LONGEST)


def prompts() -> np.ndarray:
    rng = np.random.default_rng(1)
    return rng.integers(len(SPECIAL), len(SPECIAL) + len(CHARACTERS), (PROMPTS, PROMPT)).repeat(GROUP, 0)


def ours(model: LanguageModel, lengths: Sequence[int]) -> Callable[[], int]:
    jobs = [
        Job(row.astype(np.int32), Sampling(max_tokens=int(n)), Key(i).value)
        for i, (row, n) in enumerate(zip(prompts(), lengths, strict=True))
    ]

    def sample() -> int:
        found = generate(model.trunk, jobs, end_tokens=(), decode_text=model.text, max_context=model.context_length)
        assert [len(s.tokens) for s in found] == list(lengths)
        return sum(len(s.tokens) for s in found)

    return sample


def theirs(folder: Path, lengths: Sequence[int], dtype: torch.dtype, device: str) -> Callable[[], int]:
    from transformers import AutoModelForCausalLM, LogitsProcessor, LogitsProcessorList

    model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype).to(device)
    end = model.config.eos_token_id
    due = torch.tensor(lengths, device=device)

    class Forced(LogitsProcessor):
        """Forces the end token at the given length, and forbids it before."""

        def __call__(self, ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
            last = ids.shape[1] - PROMPT + 1 >= due
            scores = scores.masked_fill(last.unsqueeze(1), -torch.inf)
            scores[:, end] = torch.where(last, 0.0, -torch.inf)
            return scores

    ids = torch.from_numpy(prompts()).to(device)

    def sample() -> int:
        with torch.inference_mode():
            out = model.generate(
                ids, attention_mask=torch.ones_like(ids), do_sample=True, temperature=1.0, top_k=0, max_new_tokens=int(max(lengths)),
                logits_processor=LogitsProcessorList([Forced()]), pad_token_id=0,
            )  # fmt: skip
        assert out.shape[1] == PROMPT + max(lengths)
        return int(np.sum(lengths))

    return sample


def timed(sample: Callable[[], int], device: str) -> float:
    """Useful tokens per second."""
    began = time.perf_counter()
    count = sample()
    if device == "cuda":
        torch.cuda.synchronize()
    return count / (time.perf_counter() - began)


def limit(model: LanguageModel, dtype: torch.dtype, device: str) -> float:
    """Tokens per second if only the products with the weights took time, 256 rows at once."""
    weights = [Matrix(p.detach().t()) for p in model.trunk.parameters() if p.ndim == 2]  # the tied head is one of them
    widest = max(w.shape[0] for w in weights)
    x = torch.randn(256, widest, dtype=dtype, device=device)
    rows = {w.shape[0]: x[:, : w.shape[0]].contiguous() for w in weights}
    best = float("inf")
    for _ in range(20):
        began = time.perf_counter()
        for w in weights:
            rows[w.shape[0]] @ w
        if device == "cuda":
            torch.cuda.synchronize()
        best = min(best, time.perf_counter() - began)
    return 256 / best


def compare(model: LanguageModel, folder: Path, kind: str, options: argparse.Namespace, dtype: torch.dtype) -> dict[str, Any]:
    lengths = forced_lengths(kind).tolist()
    sides = {"ours": ours(model, lengths), "theirs": theirs(folder, lengths, dtype, options.device)}
    for sample in sides.values():
        sample()
    rates: dict[str, list[float]] = {"ours": [], "theirs": []}
    for pair in range(options.pairs):
        for name in sorted(sides, reverse=bool(pair % 2)):
            rates[name].append(timed(sides[name], options.device))
    ratios = [a / b for a, b in zip(rates["ours"], rates["theirs"], strict=True)]
    return {"ratio": statistics.median(ratios), "range": (min(ratios), max(ratios)), **{k: statistics.median(v) for k, v in rates.items()}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--dtype", default="float32", choices=("float32", "bfloat16"))
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    dtype = getattr(torch, options.dtype)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_model(folder, replace(CASES["b"], width=options.width))
        model = LanguageModel.load(folder, dtype=dtype, device=options.device)
        bound = limit(model, dtype, options.device)
        print(
            f"{options.dtype} on {options.device}, width {options.width}, {options.threads} threads; products alone: {bound:,.0f} tokens/s"
        )
        print(
            f"{'lengths':<10} {'ratio':>6}  {'(range)':<13} {'ours, tokens/s':>15} {'transformers':>13} {'share of the limit':>19}   required"
        )
        for kind, asked in (("geometric", 4.0), ("equal", 1.4)):
            row = compare(model, folder, kind, options, dtype)
            low, high = row["range"]
            spread = f"({low:.2f}-{high:.2f})"
            print(
                f"{kind:<10} {row['ratio']:6.2f}  {spread:<13} {row['ours']:15,.0f} {row['theirs']:13,.0f} {row['ours'] / bound:19.2f}   {asked}",
                flush=True,
            )


if __name__ == "__main__":
    main()
