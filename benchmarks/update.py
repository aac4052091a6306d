"""The packed update against a padded one: forward and backward of log-probabilities, and the share of the limit by matrix products.

    python -m benchmarks.update [--width 128] [--pairs 5] [--dtype bfloat16] [--device cuda]

Groups of samples to shared prompts, random tokens. The padded side is transformers on right-padded rows, prompts included, with logits
only at the positions that predict an action. The limit is the time of the products with the weights alone, three for every token that
has to be read (each prompt once, each action once), at the rate measured here.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from benchmarks.peers import CASES, make_model
from gradus.policies.decoder import Decoder
from gradus.policies.lm import LanguageModel
from gradus.types import Context, prompt_context
from gradus.types.signals import LogProb


@dataclass(frozen=True)
class Batch:
    groups: int
    samples: int
    prompt: tuple[int, int]  # tokens, from and to
    answer: tuple[int, int]


BATCHES = (
    Batch(8, 8, (20, 60), (10, 60)),
    Batch(8, 8, (40, 40), (60, 60)),
    Batch(2, 8, (512, 512), (50, 150)),
    Batch(2, 16, (100, 100), (20, 300)),
)


def contexts(batch: Batch, vocabulary: int) -> list[Context]:
    rng = np.random.default_rng(0)
    made = []
    for _ in range(batch.groups):
        prompt = prompt_context(rng.integers(3, vocabulary, rng.integers(batch.prompt[0], batch.prompt[1] + 1)).astype(np.int32))
        for _ in range(batch.samples):
            n = int(rng.integers(batch.answer[0], batch.answer[1] + 1))
            drawn = rng.integers(3, vocabulary, n).astype(np.int32)
            parent = (prompt, len(prompt.tokens))
            made.append(
                Context(tokens=drawn, chosen=np.ones(n, dtype=bool), logprobs=np.zeros(n, np.float32), temperature=1.0, parent=parent)
            )
    return made


def ours(model: LanguageModel, made: list[Context]) -> Callable[[], float]:
    def update() -> float:
        model.trunk.zero_grad()
        loss = -model.evaluate(made, (LogProb(),))[LogProb()].mean()
        loss.backward()
        return loss.item()

    return update


def theirs(folder: Path, made: list[Context], dtype: torch.dtype, device: str) -> Callable[[], float]:
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype).to(device)
    longest = max(len(c.sequence) for c in made)
    ids, seen, learned = (torch.zeros(len(made), longest, dtype=torch.long) for _ in range(3))
    for i, context in enumerate(made):
        n = len(context.sequence)
        ids[i, :n] = torch.from_numpy(context.sequence.astype(np.int64))
        seen[i, :n] = 1
        learned[i, n - len(context.tokens) : n] = 1
    ids, seen, chosen = ids.to(device), seen.to(device), learned[:, 1:].bool().to(device)

    def update() -> float:
        model.zero_grad()
        logits = model(ids, attention_mask=seen, use_cache=False).logits[:, :-1]
        logprobs = torch.log_softmax(logits.float(), -1).gather(-1, ids[:, 1:].unsqueeze(-1)).squeeze(-1)
        loss = -logprobs[chosen].mean()
        loss.backward()
        return loss.item()

    return update


def timed(update: Callable[[], float], device: str) -> float:
    began = time.perf_counter()
    update()
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - began


def rate(network: Decoder, rows: int, device: str) -> float:
    """Multiplications and additions per second in products of `rows` rows with the network's matrices."""
    weights = [p.detach() for p in network.parameters() if p.ndim == 2]
    x = torch.randn(rows, max(w.shape[1] for w in weights), dtype=network.dtype, device=device)
    best = float("inf")
    for _ in range(10):
        began = time.perf_counter()
        for w in weights:
            x[:, : w.shape[1]] @ w.T
        if device == "cuda":
            torch.cuda.synchronize()
        best = min(best, time.perf_counter() - began)
    return 2 * rows * sum(w.numel() for w in weights) / best


def compare(model: LanguageModel, folder: Path, batch: Batch, options: argparse.Namespace) -> str:
    made = contexts(batch, model.trunk.config.vocab_size)  # type: ignore[union-attr]
    assert isinstance(model.trunk, Decoder)
    sides = {"ours": ours(model, made), "theirs": theirs(folder, made, getattr(torch, options.dtype), options.device)}
    losses = {name: update() for name, update in sides.items()}
    assert abs(losses["ours"] - losses["theirs"]) < (1e-4 if options.dtype == "float32" else 0.05), losses
    seconds: dict[str, list[float]] = {"ours": [], "theirs": []}
    for pair in range(options.pairs):
        for name in sorted(sides, reverse=bool(pair % 2)):
            seconds[name].append(timed(sides[name], options.device))
    ratios = [b / a for a, b in zip(seconds["ours"], seconds["theirs"], strict=True)]
    actions = sum(len(c.tokens) for c in made)
    needed = actions + sum(len(c.parent[0].tokens) for c in made[:: batch.samples] if c.parent is not None)
    weights = sum(p.numel() for p in model.trunk.parameters() if p.ndim == 2)
    fastest = statistics.median(seconds["ours"])
    share = 6 * needed * weights / rate(model.trunk, min(needed, 4096), options.device) / fastest
    name = f"{batch.groups} x {batch.samples}, prompt {batch.prompt[0]}-{batch.prompt[1]}, answer {batch.answer[0]}-{batch.answer[1]}"
    spread = f"({min(ratios):.2f}-{max(ratios):.2f})"
    return f"{name:<42} {statistics.median(ratios):6.2f}  {spread:<14} {actions / fastest:13,.0f} {share:20.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--dtype", default="float32", choices=("float32", "bfloat16"))
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    print(f"{options.dtype} on {options.device}, width {options.width}, 4 layers, {options.threads} threads")
    print(f"{'groups x samples, tokens':<42} {'ratio':>6}  {'(range)':<14} {'actions a s':>13} {'share of the limit':>20}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_model(folder, replace(CASES["a"], width=options.width))
        model = LanguageModel.load(folder, dtype=getattr(torch, options.dtype), device=options.device)
        for batch in BATCHES:
            print(compare(model, folder, batch, options), flush=True)


if __name__ == "__main__":
    main()
