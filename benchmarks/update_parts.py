"""Memory and processor time of an update's forward and backward pass: in chunks against checkpointed layers, and with shared against copied prompts.

    python -m benchmarks.update_parts streambp-memory            # prints the figures of one claim
    python -m benchmarks.update_parts streambp-memory --write    # and stores them beside the claim
    python -m benchmarks.update_parts chunks                     # other numbers of chunks, one seed

Claims: streambp-memory, streambp-time, prefix_grouper-memory, prefix_grouper-time. Each seed draws a model's weights and the tokens; each way runs in a process
of its own on one thread. Gradients exist before, and a pass over a short sequence comes first, so the memory is the peak increase by the passes alone. The
time is the median of three passes. The largest difference of the gradients is compared, too.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.peers import resident
from gradus.comparison.claim_runs import judged, record, script_result
from gradus.comparison.claims import known
from gradus.policies import pack
from gradus.policies.config import DecoderConfig
from gradus.policies.decoder import Decoder
from gradus.policies.lm import LanguageModel
from gradus.policies.prefix_sharing import Family
from gradus.types import Context, Key, prompt_context
from gradus.types.signals import LogProb

SIZES = {"streambp": {"width": 512, "inner": 1536, "vocabulary": 4096}, "prefix_grouper": {"width": 256, "inner": 1024, "vocabulary": 4096}}
WAYS = {"streambp": ("8", "1"), "prefix_grouper": ("shared", "copied")}  # the recipe's way, and the other
PASSES = 3


def network(seed: int, width: int, inner: int, vocabulary: int) -> Decoder:
    config = DecoderConfig(
        family="qwen3", vocab_size=vocabulary, hidden_size=width, intermediate_size=inner, num_hidden_layers=4, num_attention_heads=width // 64,
        num_key_value_heads=width // 64, head_dim=64, max_position_embeddings=65536, tie_word_embeddings=True, qk_norm=True,
    )  # fmt: skip
    made = Decoder(config).initialise(Key(seed))
    for p in made.parameters():
        p.grad = torch.zeros_like(p).fill_(0)
    return made


def answers(seed: int, prompt: int, count: int, length: int, vocabulary: int) -> list[Context]:
    rng = np.random.default_rng(seed)
    opening = prompt_context(rng.integers(0, vocabulary, prompt).astype(np.int32))
    values: dict[str, Any] = {"chosen": np.ones(length, bool), "logprobs": np.zeros(length, np.float32), "temperature": 1.0}
    return [Context(tokens=rng.integers(0, vocabulary, length).astype(np.int32), **values, parent=(opening, prompt)) for _ in range(count)]


def side(what: str, way: str, seed: int, tokens: int, grads: str) -> None:
    torch.set_num_threads(1)
    if way == "copied":
        pack.families = lambda contexts: [Family(0, (i,)) for i in range(len(contexts))]
    size = SIZES[what]
    made = network(seed, **size)
    model = LanguageModel(made, None, (), recompute=int(way) if way.isdigit() else 0)
    shape = (8, 1, tokens - 8) if what == "streambp" else (512, 8, 16)
    contexts = answers(seed, *shape, size["vocabulary"])
    rows = model.evaluate(answers(seed, 8, 1, 8, size["vocabulary"]), (LogProb(),))
    rows[LogProb()].mean().backward()
    made.zero_grad(set_to_none=False)
    held = resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")
    taken = []
    for _ in range(PASSES):
        made.zero_grad(set_to_none=False)
        began = time.process_time()
        rows = model.evaluate(contexts, (LogProb(),))
        rows[LogProb()].mean().backward()
        taken.append(time.process_time() - began)
    torch.save([p.grad for p in made.parameters()], grads)
    print(json.dumps({"seconds": statistics.median(taken), "memory": resident("VmHWM") - held}))


def both(what: str, seed: int, tokens: int, ways: tuple[str, ...]) -> dict[str, Any]:
    """The figures of every way, and the largest difference of a gradient from that of the last way, as a share of the largest gradient."""
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        for way in ways:
            words = [sys.executable, "-m", "benchmarks.update_parts", what, "--side", way, str(seed), str(tokens), f"{folder}/{way}"]
            found[way] = json.loads(subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout)
        kept = {way: torch.load(f"{folder}/{way}", weights_only=True) for way in ways}
    largest = max(float(g.abs().max()) for g in kept[ways[-1]])
    for way in ways[:-1]:
        found[way]["apart"] = max(float((a - b).abs().max()) for a, b in zip(kept[way], kept[ways[-1]], strict=True)) / largest
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--side", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.side:
        way, seed, tokens, grads = options.side
        return side(options.what, way, int(seed), int(tokens), grads)
    if options.what == "chunks":
        for way, found in both("streambp", 0, 2048, ("2", "4", "16", "0", "1")).items():
            print(way, json.dumps(found), flush=True)
        return None
    key, measure = options.what.rsplit("-", 1)
    measure = {"time": "seconds"}.get(measure, measure)
    program = f"benchmarks.update_parts {options.what}"
    claim = next(of.claim for of in known([key]) if of.claim.script == program)
    figures = [both(key, seed, 2048, WAYS[key]) for seed in range(claim.seeds)]
    values = [[f[way][measure] for f in figures] for way in WAYS[key]]
    found = judged(claim, *(np.array(v)[:, None] for v in values))
    out = {**record(found), "recipe": [round(v, 3) for v in values[0]], "against": [round(v, 3) for v in values[1]]}
    out["apart"] = max(f[WAYS[key][0]]["apart"] for f in figures)
    print(json.dumps(out))
    if options.write:
        print(script_result(key, program, out))
    return None


if __name__ == "__main__":
    main()
