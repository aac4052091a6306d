"""Entropy-SFT: the cold start of light_if. The policy imitates traces only at the hardest tokens, so its entropy stays high.

    delta_t = -log pi(y_t) - 0.8 H_t
    loss = 1/(|S|) sum_(t in S) -log pi(y_t)

S contains the 80 % of a mini-batch's tokens with the largest delta, at least one token. H is the entropy of the policy at the token. The other tokens have no
loss, so tokens that the policy already knows do not become sharper. The entropy itself has no gradient.

Use if: imitation precedes RL, and the policy must keep its entropy for RL.
Avoid if: no RL follows (see sft).
Reference: Wang et al., Light-IF: Endowing LLMs with Generalizable Reasoning via Preview and Self-Checking for Complex Instruction Following,
arXiv:2508.03178, Entropy-SFT. Share and coefficient are as in the released setting (Qihoo360/Light-IF); the defaults of its code are 0.2 and 1.
Departures: The traces are the worked solutions of the task. The traces of the paper contain a preview of the constraints and a check at the end; such
a filter belongs to the data.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from gradus.papers.bases.sft import sft
from gradus.recipe.claim import Claim, same_weights
from gradus.study.held_out import HeldOut
from gradus.types.batch import Batch
from gradus.types.ranges import check_ranges
from gradus.types.signals import EntropyOf, LogProb, Signal, Want
from gradus.types.tally import Tally, tally


def hardest(logprobs: Tensor, entropies: Tensor, *, share: float, coefficient: float) -> Tensor:
    """Returns bool [A]: the floor(share * A) actions, at least one, with the largest -logprob - coefficient * entropy. If values are equal, the
    earlier tokens are taken."""
    count = max(int(share * len(logprobs)), 1)
    delta = -logprobs.double() - coefficient * entropies.double()
    chosen = torch.zeros(len(logprobs), dtype=torch.bool, device=logprobs.device)
    chosen[torch.argsort(delta, descending=True, stable=True)[:count]] = True
    return chosen


@dataclass(frozen=True)
class HardImitation:
    """The maximum-likelihood loss on the hardest actions of a source's mini-batch (see `hardest`). Metric: chosen_entropy, the entropy at these actions."""

    share: float = 0.8
    coefficient: float = 0.8  # weight of the entropy in the choice of the tokens
    source: str = "expert"
    separable: ClassVar[bool] = False
    wants: ClassVar[tuple[Want, ...]] = (LogProb(), EntropyOf())
    needs: ClassVar[tuple[Signal, ...]] = ()

    def __post_init__(self) -> None:
        check_ranges(self, share="(0, 1]", coefficient="[0, inf)")

    def loss(self, outputs: dict[Want, Tensor], batch: Batch) -> tuple[Tensor, dict[str, Tally]]:
        logprobs, entropies = outputs[LogProb()], outputs[EntropyOf()].detach()
        chosen = hardest(logprobs.detach(), entropies, share=self.share, coefficient=self.coefficient)
        losses = -logprobs * batch.weight
        return losses[chosen].mean(), {"imitation": tally(-logprobs), "chosen_entropy": tally(entropies[chosen])}


light_if_sft = sft.derive(
    "light_if_sft",
    "The policy imitates only the tokens that are hardest for it, so its entropy stays high before RL.",
    family="rewards",
    objective__imitation=HardImitation(),
    study=HeldOut(entropy=True),
)

claims = (
    same_weights(
        says="With all tokens chosen, the final weights are those of SFT.",
        source="arXiv:2508.03178, Entropy-SFT at a share of 1",
        against="sft",
        own={"objective.imitation.share": "1"},
        within=1e-6,
    ),
    Claim(
        says="After 30 steps on arithmetic of three digits, the entropy of held-out answers is at least 1.2 times that after plain SFT.",
        source="arXiv:2508.03178, entropy kept by Entropy-SFT; the task and the factor are ours",
        against="sft --study.entropy true",
        measure="held_out/entropy:last",
        at_least=1.2,
        task="arithmetic",
        options={"level": "3"},
        fields={"prompts": "8", "group": "8", "warmup": "0", "learning_rate": "3e-4", "study.problems": "64", "study.greedy": "false"},
        budget="steps=30",
    ),
)
