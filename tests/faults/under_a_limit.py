"""A program for test_out_of_memory: an update under a real limit on the memory of its process. Prints what it found as JSON."""

from __future__ import annotations

import json
import sys

import numpy as np
import torch

from gradus.objectives.aggregation import SequenceMean
from gradus.objectives.ratios import SequenceRatio
from gradus.objectives.terms import PolicyGradient
from gradus.players.learner import Learner
from gradus.policies.lm import LanguageModel
from gradus.recipe.core import Setting
from gradus.runtime.memory import limited, status
from gradus.types import Context, Group, Key, Problem, Trajectory, prompt_context
from gradus.types.batch import Batch, make_batch
from gradus.types.players import Player
from gradus.updates.minibatches import gradient
from gradus.updates.optimizers import AdamW


class Facts(dict):  # type: ignore[type-arg]
    """A record in memory."""

    calls = 0

    def call(self, name: str) -> str:
        self.calls += 1
        return f"{name}/{self.calls}"

    def fact(self, call: str) -> str | None:
        return self.get(call)

    def decide(self, call: str, reason: str) -> None:
        self[call] = reason

    def count(self, purpose: str, player: str, tokens: int) -> None:
        """Tokens are not decisions."""


def made(sequences: int, length: int) -> Batch:
    rng, prompt = np.random.default_rng(0), prompt_context([5, 6, 7])
    trajectories = []
    for i in range(sequences):
        tokens = rng.integers(3, 90, length).astype(np.int32)
        context = Context(tokens, np.ones(length, bool), np.zeros(length, np.float32), np.zeros(length, np.int32), parent=(prompt, 3))
        trajectories.append(Trajectory(f"t{i}", Problem("p", "t", text="a"), (context,), reward=1.0, advantages=rng.normal(size=length)))
    return make_batch([Group("g", tuple(trajectories))])


def main(model: str) -> None:
    torch.set_num_threads(1)
    batch, terms = made(512, 100), {"policy": PolicyGradient(ratio=SequenceRatio(), average=SequenceMean())}
    player = Learner("policy", Player(objective=terms), LanguageModel.load(model), AdamW(), Setting(micro_tokens=65536))

    def grads() -> list[torch.Tensor]:
        found = [p.grad.clone() for p in player.parameters if p.grad is not None]
        player.zero_grad()
        return found

    def work(tokens: int) -> int:
        gradient(player.policy, batch, terms, tokens, Key())
        return tokens

    work(1024)  # what a first pass takes for good
    grads()
    player.record = facts = Facts()
    with limited((status("VmData") or 0) + 80_000_000):
        under = player.fitting(batch.contexts, work)
        split = grads()
        try:
            torch.zeros(100_000_000)
            refused = False
        except RuntimeError:
            refused = True
    player.micro_tokens, player.record = 65536, Facts(facts)
    torch.zeros(100_000_000)  # the limit is gone
    obeyed = player.fitting(batch.contexts, work)
    redone = grads()
    player.micro_tokens, player.record = 65536, None
    alone = player.fitting(batch.contexts, work)
    whole = grads()
    scale = max(float(g.abs().max()) for g in whole)
    worst = max(float((a - b).abs().max()) for a, b in zip(whole, split, strict=True))
    same = all(torch.equal(a, b) for a, b in zip(split, redone, strict=True))
    print(
        json.dumps(
            {
                "alone": alone,
                "under": under,
                "facts": facts,
                "worst": worst,
                "scale": scale,
                "obeyed": obeyed,
                "same": same,
                "refused": refused,
            }
        )
    )


if __name__ == "__main__":
    main(sys.argv[1])
