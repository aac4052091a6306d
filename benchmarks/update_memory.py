"""Memory and time of an update's log-probabilities over a wide vocabulary, against the plain path through whole logits.

    python -m benchmarks.update_memory [--tokens 8192] [--vocabulary 150000] [--pairs 3]

A random decoder (width 256, 4 layers, tied head) and 8,192 actions, forward and backward. Each way runs in a process of its own, in turns.
Memory is the peak increase since before the passes; the gradients of all parameters are compared. The plain path holds logits, their
log-softmax and its gradient: about 12 bytes per token and word, 15 GB at the default sizes.
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
from gradus.policies.config import DecoderConfig
from gradus.policies.decoder import Decoder
from gradus.policies.logprobs import token_logprobs
from gradus.policies.pack import forward, pack
from gradus.types import Context, Key, prompt_context

LENGTH, PROMPT = 256, 8  # actions per sequence, tokens per prompt


def decoder(vocabulary: int) -> Decoder:
    config = DecoderConfig(
        family="llama", vocab_size=vocabulary, hidden_size=256, intermediate_size=1024, num_hidden_layers=4, num_attention_heads=4,
        num_key_value_heads=4, head_dim=64, max_position_embeddings=1024, tie_word_embeddings=True,
    )  # fmt: skip
    return Decoder(config).initialise(Key(0))


def contexts(tokens: int, vocabulary: int) -> list[Context]:
    rng = np.random.default_rng(0)
    made = []
    for _ in range(tokens // LENGTH):
        prompt = prompt_context(rng.integers(0, vocabulary, PROMPT).astype(np.int32))
        drawn = rng.integers(0, vocabulary, LENGTH).astype(np.int32)
        chosen = np.ones(LENGTH, dtype=bool)
        made.append(Context(tokens=drawn, chosen=chosen, logprobs=np.zeros(LENGTH, np.float32), temperature=1.0, parent=(prompt, PROMPT)))
    return made


def logprobs(way: str, network: Decoder, hidden: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    if way == "chunked":
        return token_logprobs(hidden, network.head_weight, targets, torch.ones(len(targets)), entropy=False)[0]
    return torch.log_softmax(hidden @ network.head_weight.T, -1).gather(1, targets.unsqueeze(1)).squeeze(1)


def side(way: str, options: argparse.Namespace) -> None:
    """Waits for a line, does a pass, reports it; writes the gradients at the end."""
    torch.set_num_threads(options.threads)
    network = decoder(options.vocabulary)
    packed = pack(contexts(options.tokens, options.vocabulary))
    held = resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")
    for line in sys.stdin:
        if line.strip() != "go":
            torch.save([p.grad for p in network.parameters()], line.strip())
            break
        network.zero_grad()
        began = time.perf_counter()
        found = logprobs(way, network, forward(network, packed)[packed.source], packed.targets)
        found.mean().backward()
        print(json.dumps({"seconds": time.perf_counter() - began, "added": resident("VmHWM") - held}), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=8192)
    parser.add_argument("--vocabulary", type=int, default=150_000)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--side", choices=("chunked", "plain"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.side:
        return side(options.side, options)
    sizes = ["--tokens", str(options.tokens), "--vocabulary", str(options.vocabulary), "--threads", str(options.threads)]
    told: dict[str, list[dict[str, float]]] = {"chunked": [], "plain": []}
    gradients: dict[str, list[Any]] = {}
    with tempfile.TemporaryDirectory() as folder:
        processes = {
            way: subprocess.Popen(
                [sys.executable, "-m", "benchmarks.update_memory", "--side", way, *sizes], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
            for way in told
        }  # fmt: skip
        for pair in range(1 + options.pairs):
            for way, process in sorted(processes.items(), reverse=bool(pair % 2)):
                assert process.stdin is not None
                assert process.stdout is not None
                process.stdin.write("go\n")
                process.stdin.flush()
                told[way].append(json.loads(process.stdout.readline()))
        for way, process in processes.items():
            process.communicate(f"{folder}/{way}\n")
            gradients[way] = torch.load(f"{folder}/{way}", weights_only=True)
    ratios = [a["seconds"] / b["seconds"] for a, b in zip(told["chunked"][1:], told["plain"][1:], strict=True)]
    peak = {way: max(t["added"] for t in rows) for way, rows in told.items()}
    largest = max(float(b.abs().max()) for b in gradients["plain"])
    apart = max(float((a - b).abs().max()) for a, b in zip(gradients["chunked"], gradients["plain"], strict=True))
    print(f"{options.tokens} tokens, vocabulary {options.vocabulary}, {options.threads} threads")
    print(
        f"memory added: chunked {peak['chunked']:.0f} MiB, plain {peak['plain']:.0f} MiB: 1/{peak['plain'] / peak['chunked']:.1f} (required: 1/5)"
    )
    print(f"time: chunked / plain {statistics.median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f}; required: at most 1.3)")
    print(f"gradients: largest difference {apart:.1e}, largest gradient {largest:.1e} (required: 1e-5)")
    return None


if __name__ == "__main__":
    main()
