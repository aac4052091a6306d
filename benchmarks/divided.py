"""Memory per process with the systems SequenceParallel and Sharded, against one process; and the time that kept encodings of frames save.

    python -m benchmarks.divided sequence [--tokens 8192] [--frames 0] [--processes 2] [--recompute]
    python -m benchmarks.divided weights [--processes 2]
    python -m benchmarks.divided frames [--frames 64]

`sequence`: a random decoder (width 256, 4 layers, 8 heads) and one sequence of `--tokens` tokens, forward and backward. Memory is the peak increase of a
process since before the passes. The rows and the gradients of all parameters are compared. With `--frames` the first tokens are those of pictures (16 each),
and the gradient reaches their tower.
`weights`: the bytes of the tensors that each process keeps between two steps: weights and moments of AdamW. Required: at most 0.65 and 0.52 of one process.
`frames`: eight answers of 16 tokens to a prompt with `--frames` pictures, and their log-probabilities without gradient. The time with kept encodings is
divided by the time without. Required: at most 0.6.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from benchmarks.peers import resident
from gradus.policies.config import DecoderConfig
from gradus.policies.decoder import Decoder
from gradus.policies.lm import LanguageModel
from gradus.policies.pictures import Preparation
from gradus.policies.sequence import Team, share_of_rows
from gradus.policies.sighted import Encoded, Sighted, SightedConfig
from gradus.policies.tower import ProjectorConfig, TowerConfig
from gradus.systems.messages import Errand
from gradus.types import Context, Frozen, Key, Sampling, Seen, prompt_context
from gradus.types.signals import EntropyOf, LogProb
from gradus.updates.forward_backward import backward

MOST = {"sequence": 0.65, "weights": 0.52, "frames": 0.6}
WANTS = (LogProb(), EntropyOf())
VOCABULARY, PLACE, ROWS = 512, 3, 16  # PLACE: the token of a picture's placeholders; ROWS: tokens per picture


def model(recompute: bool, frames: int = 0) -> LanguageModel:
    config = DecoderConfig(
        family="llama", vocab_size=VOCABULARY, hidden_size=256, intermediate_size=1024, num_hidden_layers=4, num_attention_heads=8,
        num_key_value_heads=8, head_dim=32, max_position_embeddings=1 << 20, tie_word_embeddings=True,
    )  # fmt: skip
    if not frames:
        return LanguageModel(Decoder(config).initialise(Key(0)), None, (2,), recompute=recompute)
    tower = TowerConfig(hidden_size=256, intermediate_size=1024, layers=4, heads=8, image_size=48, patch_size=12)
    network = Sighted(SightedConfig(config, tower, ProjectorConfig(), PLACE), Preparation(side=48, exact=(48, 48)))
    no_text: Any = SimpleNamespace(text=lambda tokens: "", end=None)  # answers are not read
    return LanguageModel(network.initialise(Key(0)), no_text, (2,), recompute=recompute)


def context(tokens: int, frames: int, *, answer: bool = True) -> Context:
    """Random tokens. The first are those of `frames` pictures; the other tokens, except the first 16, are actions."""
    rng = np.random.default_rng(0)
    drawn = rng.integers(4, VOCABULARY, tokens).astype(np.int32)
    drawn[: frames * ROWS] = PLACE
    pictures = rng.integers(0, 256, (frames, 48, 48, 3), dtype=np.uint8)
    at = np.arange(frames, dtype=np.int32) * ROWS
    seen = (Seen("image", "image", pictures, at, np.full(frames, ROWS, np.int32)),) if frames else ()
    if not answer:
        return prompt_context(drawn, seen)
    return Context(tokens=drawn, chosen=np.arange(tokens) >= frames * ROWS + 16, temperature=1.0, seen=seen)


def sequence(rank: int, options: argparse.Namespace, size: int) -> dict[str, float]:
    """The peak of this process, and the sums of rows and of absolute gradients."""
    made = model(options.recompute, options.frames)
    whole = context(options.tokens, options.frames)
    team = Team(rank, size)

    def work(context: Context) -> torch.Tensor:
        rows = share_of_rows(made, [context], WANTS, Key(), team)[1] if size > 1 else made.evaluate([context], WANTS, Key())
        backward(rows, {w: torch.full_like(r, 1.0 / options.tokens) for w, r in rows.items()})
        return rows[LogProb()].detach()

    work(context(64, 1 if options.frames else 0))  # kernels, and the memory of gradients
    for p in made.network.parameters():
        p.grad = None
    Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here
    before = resident("VmRSS")
    found = work(whole)
    added = resident("VmHWM") - before
    gradient = torch.cat([p.grad.flatten() for p in made.network.parameters() if p.grad is not None])
    total = found.double().sum()
    if size > 1:
        dist.all_reduce(gradient)
        dist.all_reduce(total)
    return {"added": added, "rows": float(total), "gradient": float(gradient.double().norm())}


def weights(rank: int, options: argparse.Namespace, size: int) -> dict[str, float]:
    """The bytes of this process's weights and moments after a step."""
    from gradus.players.learner import Learner
    from gradus.recipe.core import Setting
    from gradus.systems.divided import Part, mesh_of
    from gradus.types.players import Player
    from gradus.updates.optimizers import AdamW

    learner = Learner("policy", Player(objective=Frozen()), model(False), AdamW(), Setting())
    some = context(64, 0)
    if size == 1:
        backward(rows := learner.policy.evaluate([some], WANTS, Key()), {w: torch.ones_like(r) for w, r in rows.items()})
    else:
        part = Part(learner, mesh_of("cpu", size))
        part.backward(rows := part.rows([some], WANTS, Key()), {w: torch.ones_like(r) for w, r in rows.items()})
    learner.advance(learner.norm(), None)
    kept = sum(t.nbytes for t in learner.tensors().values()) if size == 1 else part.size
    return {"added": kept / 2**20}


def frames(rank: int, options: argparse.Namespace, size: int) -> dict[str, float]:
    """Seconds of eight answers and their log-probabilities. `size` 1: every picture is encoded anew for every answer; 2: kept encodings."""
    made: Any = model(False, options.frames)
    prompt = context(options.frames * ROWS + 16, options.frames, answer=False)
    kept = Encoded.get
    if size == 1:
        Encoded.get = lambda self, digest, weights: None  # type: ignore[method-assign]
    best = float("inf")
    for _ in range(3):
        made.trunk.encoded.clear()
        began = time.perf_counter()
        answers = made.act([Errand(prompt, len(prompt.sequence), Sampling(max_tokens=16), Key(i)) for i in range(8)])
        with torch.no_grad():
            made.evaluate(answers, WANTS, Key())
        best = min(best, time.perf_counter() - began)
    Encoded.get = kept  # type: ignore[method-assign]
    return {"added": best, "count": made.trunk.encoded.count / 3}


def side(options: argparse.Namespace) -> None:
    torch.set_num_threads(1)
    rank, size = options.side
    together = size > 1 and options.what != "frames"
    if together:
        dist.init_process_group("gloo", init_method=options.meet, rank=rank, world_size=size)
    print(json.dumps({"sequence": sequence, "weights": weights, "frames": frames}[options.what](rank, options, size)), flush=True)
    if together:
        dist.destroy_process_group()


def measured(options: argparse.Namespace, size: int) -> list[dict[str, float]]:
    """Returns the measurements of all `size` processes."""
    with tempfile.TemporaryDirectory() as folder:
        words = [sys.executable, "-m", "benchmarks.divided", options.what, "--tokens", str(options.tokens), "--meet", (Path(folder) / "meet").as_uri()]
        words += ["--frames", str(options.frames)]
        words += ["--recompute"] if options.recompute else []
        ranks = range(1 if options.what == "frames" else size)
        sides = [subprocess.Popen([*words, "--side", str(rank), str(size)], stdout=subprocess.PIPE, text=True) for rank in ranks]
        return [json.loads(side.communicate()[0].splitlines()[-1]) for side in sides]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=sorted(MOST))
    parser.add_argument("--tokens", type=int, default=8192)
    parser.add_argument("--frames", type=int, default=None)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--recompute", action="store_true")
    parser.add_argument("--side", type=int, nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--meet", help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.frames = (64 if options.what == "frames" else 0) if options.frames is None else options.frames
    if options.side is not None:
        side(options)
        return 0
    (one,), several = measured(options, 1), measured(options, options.processes)
    share = max(found["added"] for found in several) / one["added"]
    each = ", ".join("{:.1f}".format(found["added"]) for found in several)
    if options.what == "frames":
        print(f"encoded anew: {one['added']:.2f} s, {one['count']:.0f} pictures; kept: {each} s, {several[0]['count']:.0f} pictures")
    else:
        print(f"one process: {one['added']:.1f} MiB; {options.processes} processes: {each} MiB")
    if options.what == "sequence":
        pairs = [(found["rows"], found["gradient"]) for found in (one, several[0])]
        print("sum of log-probabilities {:.6f}, norm of the gradient {:.8f}; divided {:.6f}, {:.8f}".format(*pairs[0], *pairs[1]))
    print(f"share: {share:.3f} (required: at most {MOST[options.what]})")
    return int(share > MOST[options.what])


if __name__ == "__main__":
    sys.exit(main())
