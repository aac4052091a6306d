"""Light-IF: a dense reward for the share of constraints that an answer meets, after thinking, and an entropy term for each token.

    R = met/(all) + 0.5 "if all are met;" 0 "without a closed thinking part"
    A_i = (R_i - mean(R)) / (std(R))
    loss = L_GRPO + 0.001 KL - c 1/N sum_i sum_t w_(i,t) H_(i,t)
    w_(i,t) = min(10 (exp(A_i log p_(i,t))) / (sum_s exp(A_i log p_(i,s))), 5)

Instructions have several constraints that programs check. The paper sorts the prompts by the start model into pass, easy and hard. For pass prompts,
the paper keeps traces that restate the constraints before the draft and check them after the draft. The model learns these traces by Entropy-SFT
(light_if_sft). Then RL (TEA-RL) trains on easy and hard prompts. H is the entropy of the policy at a token, and p is the probability of the token. If A
> 0, w is large at likely tokens; if A < 0, w is large at unlikely tokens. Without the term, the entropy would fall most at these tokens. The ratio is
clipped at 0 and 2, and the loss is constant above ratio 10 if A < 0. A batch is used for four updates.

`Stages(Frozen(cold=Stage(light_if_sft, Steps(100)), rl=Stage()))` trains both stages in one run.

Use if: instructions have several checkable constraints, few answers meet them all, and the policy thinks too little.
Avoid if: instructions have one constraint, or constraints cannot be checked one by one (see grpo).
Reference: Wang et al., Light-IF: Endowing LLMs with Generalizable Reasoning via Preview and Self-Checking for Complex Instruction Following,
arXiv:2508.03178: dense reward, TEA-RL. The released code (Qihoo360/Light-IF) has the token weights with 10 and 5, KL 0.001, the clip 1.0 with the
ceiling 10, groups of 8, four updates per batch (128 problems, 32 per update) and the learning rate 5e-6.
Departures: The released weight uses cov = (A - mean A)(log p - mean log p) in place of A log p. The term mean log p cancels in the softmax. The term
mean A, over the tokens of a micro-batch, is left out; it is 0 if all answers are equally long. p is the probability under the policy at the start of
the update, and the weight has no gradient; the released weight has a gradient. The coefficient c = 0.001 is our own choice. In the released function c is 1,
but the released trainer does not call this function, and the scripts have no other entropy term. The bonus 0.5 is our choice. The released code has three
separate scores: one per constraint, one for all constraints together, and one for the length of the thinking. The last score grows to twice the other scores
at 8192 tokens. The score of the length is left out. The released loss is a mean over tokens. No target entropy was found in the code.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from gradus.objectives.terms import EntropyBonus
from gradus.objectives.trust import DualClip
from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim, same_weights
from gradus.rewards.checklist import Checklist
from gradus.rewards.combine import Combines
from gradus.rewards.judge import Judge, ScriptedPoints
from gradus.types import Frozen, Group
from gradus.types.batch import Batch
from gradus.types.parts import Judgement, Signals, World
from gradus.types.ranges import check_ranges
from gradus.types.signals import Signal


@dataclass(frozen=True)
class DenseInstruction(Combines):
    """The share of the constraints that an answer meets, plus `bonus` if it meets all; 0 for an answer without the text `closes`, which ends the thinking."""

    judge: Judge = ScriptedPoints()  # gives the points of a `Checklist`
    bonus: float = 0.5
    closes: str = "</think>"
    name: ClassVar[str] = "dense"
    needs: ClassVar[tuple[Signal, ...]] = ()
    unmarked: ClassVar[bool] = True  # a reward of 1 or more does not mean "right"

    def __post_init__(self) -> None:
        check_ranges(self, bonus="[0, inf)")

    async def score(self, groups: Sequence[Group], signals: Signals, world: World) -> list[list[Judgement]]:
        found = await Checklist(self.judge).score(groups, signals, world)
        return [[self.judged(t.completion, j) for t, j in zip(g.trajectories, row, strict=True)] for g, row in zip(groups, found, strict=True)]

    def judged(self, completion: str, found: Judgement) -> Judgement:
        if not isinstance(found.reward, int | float):
            return found
        value = found.reward + self.bonus * (found.reward == 1) if self.closes in completion else 0.0
        return Judgement(value, Frozen({self.name: value, "share": found.reward}), extra=found.extra)


def entropy_weights(logprobs: Tensor, advantages: Tensor, trajectory: Tensor, *, scale: float, most: float) -> Tensor:
    """Returns min(scale * softmax(A log p), most), float [A], with the softmax over the actions of each trajectory. `trajectory` [A]: the number of each
    action's trajectory.
    """
    scores = (advantages * logprobs).double()
    count = int(trajectory.max()) + 1 if len(trajectory) else 0
    top = torch.full((count,), -torch.inf, dtype=scores.dtype, device=scores.device).scatter_reduce(0, trajectory, scores, "amax")
    raised = (scores - top[trajectory]).exp()
    total = torch.zeros(count, dtype=scores.dtype, device=scores.device).index_add(0, trajectory, raised)
    return (scale * raised / total[trajectory]).clamp(max=most).to(logprobs)


@dataclass(frozen=True)
class Covariance:
    """A weight for entropy: large at tokens whose probability and advantage would lower the entropy most (see `entropy_weights`)."""

    scale: float = 10.0
    most: float = 5.0

    def __post_init__(self) -> None:
        check_ranges(self, scale="[0, inf)", most="[0, inf)")

    def factors(self, old: Tensor, batch: Batch) -> Tensor:
        return entropy_weights(old, batch.advantages, batch.trajectory, scale=self.scale, most=self.most)


light_if = grpo.derive(
    "light_if",
    "A dense reward for the share of constraints that an answer meets, and an entropy term with a weight for each token.",
    family="rewards",
    reward=DenseInstruction(),
    objective__policy__trust=DualClip(1.0, 1.0, 10.0),
    objective__kl__coefficient=0.001,
    objective__entropy=EntropyBonus(0.001, weight=Covariance()),
    update__count=4,
    requires=frozenset({"checklist"}),
)

_TERMS = {"prompts": "8", "group": "8", "warmup": "0", "study": "none", "learning_rate": "3e-4"}

claims = (
    same_weights(
        says="Without the entropy term and with the task's verdict, the final weights are those of GRPO with the same clip.",
        source="arXiv:2508.03178, without its two changes",
        against='grpo --objective.policy.trust "DualClip(low=1, high=1, ceiling=10)" --objective.kl.coefficient 0.001 --update.count 4',
        task="instructions",
        own={"reward": "Verified", "objective.entropy": "none"},
    ),
    Claim(
        says="On instructions with three constraints, the share of held-out answers that meet all is after 20 steps at least 0.03 above that of the verdict alone.",
        source="arXiv:2508.03178, dense rewards; the task and the size of the effect are ours",
        against="light_if --reward Verified",
        measure="accuracy",
        better_by=0.03,
        task="instructions",
        options={"level": "2"},
        fields=_TERMS,
        own={"reward.closes": "="},
        budget="steps=20",
        problems=60,
        samples=2,
    ),
)
