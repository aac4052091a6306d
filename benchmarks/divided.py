"""Memory per process with the systems SequenceParallel and Sharded, against one process.

    python -m benchmarks.divided sequence [--tokens 8192] [--processes 2] [--recompute]
    python -m benchmarks.divided weights [--processes 2]

`sequence`: a random decoder (width 256, 4 layers, 8 heads) and one sequence of `--tokens` tokens, forward and backward. Memory is the peak increase of a
process since before the passes. The rows and the gradients of all parameters are compared.
`weights`: the bytes of the tensors that each process keeps between two steps: weights and moments of AdamW. Required: at most 0.65 and 0.52 of one process.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist

from benchmarks.peers import resident
from gradus.policies.config import DecoderConfig
from gradus.policies.decoder import Decoder
from gradus.policies.lm import LanguageModel
from gradus.policies.sequence import Team, share_of_rows
from gradus.types import Context, Frozen, Key
from gradus.types.signals import EntropyOf, LogProb
from gradus.updates.forward_backward import backward

MOST = {"sequence": 0.65, "weights": 0.52}
WANTS = (LogProb(), EntropyOf())
VOCABULARY = 512


def model(recompute: bool) -> LanguageModel:
    config = DecoderConfig(
        family="llama", vocab_size=VOCABULARY, hidden_size=256, intermediate_size=1024, num_hidden_layers=4, num_attention_heads=8,
        num_key_value_heads=8, head_dim=32, max_position_embeddings=1 << 20, tie_word_embeddings=True,
    )  # fmt: skip
    return LanguageModel(Decoder(config).initialise(Key(0)), None, (2,), recompute=recompute)


def sequence(rank: int, options: argparse.Namespace, size: int) -> dict[str, float]:
    """The peak of this process, and the sums of rows and of absolute gradients."""
    made = model(options.recompute)
    tokens = np.random.default_rng(0).integers(3, VOCABULARY, options.tokens).astype(np.int32)
    whole = Context(tokens=tokens, chosen=np.arange(options.tokens) >= 16, temperature=1.0)
    team = Team(rank, size)

    def work(context: Context) -> torch.Tensor:
        rows = share_of_rows(made, [context], WANTS, Key(), team)[1] if size > 1 else made.evaluate([context], WANTS, Key())
        backward(rows, {w: torch.full_like(r, 1.0 / options.tokens) for w, r in rows.items()})
        return rows[LogProb()].detach()

    work(Context(tokens=tokens[:64], chosen=np.arange(64) >= 16, temperature=1.0))  # kernels, and the memory of gradients
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
    context = Context(tokens=np.arange(3, 67, dtype=np.int32), chosen=np.arange(64) >= 16, temperature=1.0)
    if size == 1:
        backward(rows := learner.policy.evaluate([context], WANTS, Key()), {w: torch.ones_like(r) for w, r in rows.items()})
    else:
        part = Part(learner, mesh_of("cpu", size))
        part.backward(rows := part.rows([context], WANTS, Key()), {w: torch.ones_like(r) for w, r in rows.items()})
    learner.advance(learner.norm(), None)
    kept = sum(t.nbytes for t in learner.tensors().values()) if size == 1 else part.size
    return {"added": kept / 2**20}


def side(options: argparse.Namespace) -> None:
    torch.set_num_threads(1)
    rank, size = options.side
    if size > 1:
        dist.init_process_group("gloo", init_method=options.meet, rank=rank, world_size=size)
    print(json.dumps({"sequence": sequence, "weights": weights}[options.what](rank, options, size)), flush=True)
    if size > 1:
        dist.destroy_process_group()


def measured(options: argparse.Namespace, size: int) -> list[dict[str, float]]:
    """What each of `size` processes measures."""
    with tempfile.TemporaryDirectory() as folder:
        words = [sys.executable, "-m", "benchmarks.divided", options.what, "--tokens", str(options.tokens), "--meet", (Path(folder) / "meet").as_uri()]
        words += ["--recompute"] if options.recompute else []
        sides = [subprocess.Popen([*words, "--side", str(rank), str(size)], stdout=subprocess.PIPE, text=True) for rank in range(size)]
        return [json.loads(side.communicate()[0].splitlines()[-1]) for side in sides]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=sorted(MOST))
    parser.add_argument("--tokens", type=int, default=8192)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--recompute", action="store_true")
    parser.add_argument("--side", type=int, nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--meet", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.side is not None:
        side(options)
        return 0
    (one,), several = measured(options, 1), measured(options, options.processes)
    share = max(found["added"] for found in several) / one["added"]
    each = ", ".join("{:.1f}".format(found["added"]) for found in several)
    print(f"one process: {one['added']:.1f} MiB; {options.processes} processes: {each} MiB")
    if options.what == "sequence":
        pairs = [(found["rows"], found["gradient"]) for found in (one, several[0])]
        print("sum of log-probabilities {:.6f}, norm of the gradient {:.8f}; divided {:.6f}, {:.8f}".format(*pairs[0], *pairs[1]))
    print(f"largest share of one process: {share:.3f} (required: at most {MOST[options.what]})")
    return int(share > MOST[options.what])


if __name__ == "__main__":
    sys.exit(main())
