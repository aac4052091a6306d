"""Demystifying long CoT: a reward by the cosine of the length keeps thoughts below the limit, and a penalty on repeated n-grams prevents hacking.

    r = b + (a - b) (1 + cos(pi |o| / L)) / 2, quad (a, b) = (2, 1) "if right, else" (-10, 0)
    r = -10 "if" |o| >= L
    p_t = -0.05 "for a token in a repeated n-gram, else" 0
    G_t = r + sum_(s >= t) gamma_p^(s - t) p_s
    A_t = G_t - V(s_t)

A right answer of 0 tokens gets 2, and a right answer just below the limit L gets 1. A wrong answer gets -10 to 0: the longer the better. An answer
that reaches the limit gets -10. So longer thought earns more only if short thought fails. The reward r is not discounted. Without a penalty, the
model fills wrong answers with repeated text. The penalty has its own discount, gamma_p = 0.99, so it acts on the repeated tokens and on the tokens
shortly before them. An n-gram has 40 tokens, and a token in several repeated n-grams has one penalty. One critic fits G, and lambda is 1. One half of the KL
penalty of PPO (coefficient 0.01) is in each of the two sums. Apart from this, the method is PPO. Metrics: reward/length (r), reward/repetition (sum of p),
reward/repeated (share of tokens).

The paper compares start models (base, SFT on short or on long chains), rewards, and noisy verifiers. To fine-tune a start first, add a stage:
`sft:100,demystify_long_cot:200`. The arms of the reward are `--reward Verified`, `--reward.repetition.price 0` and the default.

Use if: chains of thought grow until they are cut off, or wrong answers are too short.
Avoid if: the limit is far above all lengths, because the cosine is then nearly constant (see kimi_k1_5, dapo).
Reference: Yeo et al., Demystifying Long Chain-of-Thought Reasoning in LLMs, arXiv:2502.03373, sections 4.2 to 4.6. The values and the rule of one
penalty per token come from the released code (eddycmu/demystify-long-cot).
Departures: In the code the reward -10 already applies to the last 16 tokens before the limit; `--reward.cosine.margin 16` does this. The default is
0, as in the paper. The code normalises rewards over the run, and has 16 samples of 512 prompts and 2 epochs; here scale and epochs are as in ppo.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from gradus.credit.gae import discounted, whiten
from gradus.credit.kl_penalty import KLPenalty
from gradus.papers.bases.ppo import ppo
from gradus.recipe.claim import Claim, same_weights
from gradus.rewards.combine import Combines
from gradus.rewards.length import CosineLength
from gradus.rewards.repetition import Repetition, repeated, sampled
from gradus.types import Failed, Frozen, Group, NotApplicable, Trajectory
from gradus.types.parts import Credited, Judgement, Signals, Task, World
from gradus.types.ranges import check_ranges
from gradus.types.signals import Signal, Values


@dataclass(frozen=True)
class CosineAndRepetition(Combines):
    """The sum of a length reward and of the penalties on repeated tokens. Components: "repetition"; "repeated", the share of
    repeated tokens; and all components of `cosine`."""

    cosine: CosineLength = CosineLength()
    repetition: Repetition = Repetition()
    name: ClassVar[str] = "cosine_and_repetition"

    @property
    def needs(self) -> tuple[Signal, ...]:
        return self.cosine.needs

    def check(self, task: Task) -> None:
        self.cosine.check(task)

    async def score(self, groups: Sequence[Group], signals: Signals, world: World) -> list[list[Judgement]]:
        judged = await self.cosine.score(groups, signals, world)
        return [[self._priced(t, j) for t, j in zip(g.trajectories, row, strict=True)] for g, row in zip(groups, judged, strict=True)]

    def _priced(self, trajectory: Trajectory, judgement: Judgement) -> Judgement:
        if isinstance(judgement.reward, Failed | NotApplicable):
            return judgement
        priced, marks = self.repetition.judged(trajectory), repeated(sampled(trajectory), self.repetition.n)
        components = Frozen({**judgement.components, **priced.components, "repeated": float(marks.mean()) if len(marks) else 0.0})
        total = judgement.reward + float(priced.reward)  # type: ignore[arg-type]
        return replace(judgement, reward=total, components=components, steps=(*judgement.steps, *priced.steps))


@dataclass(frozen=True)
class TwoDiscounts:
    """A_t = G_t - V_t, where G_t is the sum of two discounted sums: of the rewards in `near` with `gamma_near`, and of all other rewards with `gamma`.

    The rewards of single actions have names. Rewards named in `shared` count half in both sums. All other rewards of an answer are at its last
    action. The critic is fitted to G_t. This is GAE with lambda 1.
    """

    gamma: float = 1.0
    gamma_near: float = 0.99
    near: tuple[str, ...] = ("repetition",)
    shared: tuple[str, ...] = ("kl",)
    whitened: bool = True  # whether advantages are whitened over all actions of the batch
    critic: str = "critic"
    gives: ClassVar[frozenset[str]] = frozenset({"returns"})

    def __post_init__(self) -> None:
        check_ranges(self, gamma="[0, 1]", gamma_near="[0, 1]")

    @property
    def needs(self) -> tuple[Signal, ...]:
        return (Values(player=self.critic),)

    def assign(self, groups: Sequence[Group], signals: Signals) -> list[list[Credited]]:
        trajectories = [t for g in groups for t in g.trajectories]
        returns = [self.returns(t) for t in trajectories]
        rows = [g - signals[Values(player=self.critic)][t.id].astype(np.float64) for t, g in zip(trajectories, returns, strict=True)]
        flat = iter(zip(whiten(rows) if self.whitened else rows, returns, strict=True))
        return [[Credited(*next(flat)) for _ in g.trajectories] for g in groups]

    def returns(self, trajectory: Trajectory) -> np.ndarray:
        """Returns G [A] of a judged trajectory."""
        far, near, start = np.zeros(trajectory.actions), np.zeros(trajectory.actions), 0
        for context in trajectory.contexts:
            for action, name, value in context.rewards:
                share = 1.0 if name in self.near else 0.5 if name in self.shared else 0.0
                near[start + action] += share * value
                far[start + action] += (1 - share) * value
            start += context.actions
        if len(far):
            far[-1] += trajectory.value - far.sum() - near.sum()
        return discounted(far, gamma=self.gamma) + discounted(near, gamma=self.gamma_near)


demystify_long_cot = ppo.derive(
    "demystify_long_cot",
    "Right answers earn more if they are short, wrong answers if they are long. Each repeated token has a penalty at its own place.",
    family="thinking",
    reward=CosineAndRepetition(),
    credit=KLPenalty(TwoDiscounts(), 0.01, "k1"),
)

_SMALL = {"reward.repetition.n": "6", "update.epochs": "1"}

claims = (
    same_weights(
        says="Without a price, and with equal discounts, the final weights are those of PPO with the cosine reward and lambda 1.",
        source="arXiv:2502.03373, PPO with GAE at lambda 1",
        against="ppo --reward CosineLength --credit.rule.lam 1 --credit.coefficient 0.01",
        own={"reward.repetition.price": "0", "credit.rule.gamma_near": "1"},
        within=1e-6,
        options={"level": "2"},
        fields={"prompts": "4", "group": "2", "study": "none", "warmup": "0"},
    ),
    Claim(
        says="After 30 steps, the share of repeated tokens is at most a third of that without a price.",
        source="arXiv:2502.03373, section 4.5 (reward hacking by repetition); the ground, n-grams of 6 tokens and the factor are ours",
        against="demystify_long_cot --reward.repetition.price 0",
        measure="reward/repeated:last",
        at_most=0.34,
        ground="wordy",
        fields=_SMALL,
        budget="steps=30",
    ),
)
