"""APO: the KL term of a right answer has less weight on hard questions, and a wrong answer has a larger loss if it is longer than right answers.

    k(d) = 1 - exp(-e (1 - d)), quad d = 1 - n_right / G
    A_i = l_i (r_i - mean(r)) / (std(r)), quad l_i = 2 - b^(-x_i), quad x_i = max(0, |o_i| - L)
    loss = 1/N sum_i 1/|o_i| sum_t [-min(rho_(i,t) A_i, clip(rho_(i,t), 1 - 0.2, 1 + 0.2) A_i) + 0.001 k_i KL_(i,t)]

d is the difficulty of a question; $n_right$ of its G answers are right. If 0 < d < 1, an answer with $A_i > 0$ has $k_i$ = k(d). All other answers
have $k_i$ = 1. k(0.25) is 0.87, and k(0.75) is 0.49. So the KL term restrains rare right answers less, and preserves knowledge on easy questions.
$l_i$ is the factor of a wrong answer (a right answer has 1). L is the mean length of the group's right answers in tokens. With b = 1.00001, a surplus
of 10,000 tokens gives the factor 1.0952. For answers of tens of tokens use b = 1.01. KL is the k3 estimate to the start model. With
`--credit.rate inf` and `--credit.rule.factor.base 1` the method is GRPO. Metrics: kl, clip_share.

Use if: wrong answers are longer than right answers, and the model must keep other skills while hard questions are learned.
Avoid if: no verifier marks answers as right, or long answers are wanted even if they are still wrong (see grpo, dapo).
Reference: Hong et al., APO: Enhancing Reasoning Ability of MLLMs via Asymmetric Policy Optimization, arXiv:2506.21655. The script of the released code
(Indolent-Kawhi/View-R1) has 8 answers to each of 128 questions in 16 mini-batches, and the KL coefficient 0.001.
Departures: $k_i$ is the weight of all terms of answer i, and its advantage is $A_i / k_i$; the clipped term is linear in A. The deviation is the population
deviation; in the released code it is the deviation of the sample plus 1e-9. In the released code the policy term is the mean over all tokens of
a micro-batch of two answers. The released reward adds 0.5 for the form of an answer. The integer part of this reward marks right answers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from gradus.credit.groups import GroupRelative
from gradus.credit.scaled import Scaled
from gradus.objectives.kl import KL
from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim, same_weights
from gradus.types import Group
from gradus.types.parts import Credit, Credited, Signals
from gradus.types.ranges import check_ranges
from gradus.types.returned import assigned
from gradus.types.signals import Signal


def divergence_weight(difficulty: float, *, rate: float = math.e) -> float:
    """Returns k(d) = 1 - exp(-rate (1 - d)) for 0 < d < 1, and 1 for d = 0 and d = 1."""
    return 1 - math.exp(-rate * (1 - difficulty)) if 0 < difficulty < 1 else 1.0


@dataclass(frozen=True)
class LongerThanRight:
    """Gives a wrong answer the factor 2 - base^(-x) if x > 0, where x is its length minus the mean length of the group's right answers. Others have 1."""

    base: float = 1.00001  # base of the factor; 1: all factors are 1
    needs: ClassVar[tuple[Signal, ...]] = ()
    asks_right: ClassVar[str] = "Same"  # the part to use instead if no answer is marked as right

    def __post_init__(self) -> None:
        check_ranges(self, base="[1, inf)")

    def factors(self, groups: Sequence[Group], signals: Signals) -> list[list[np.ndarray]]:
        return [self._group(group) for group in groups]

    def _group(self, group: Group) -> list[np.ndarray]:
        lengths = [t.actions for t in group.trajectories if t.right]
        due = float(np.mean(lengths)) if lengths else math.inf
        return [np.full(t.actions, 1.0 if t.right or t.actions <= due else 2 - self.base ** (due - t.actions)) for t in group.trajectories]


@dataclass(frozen=True)
class Divergence:
    """Gives answers with A > 0 the weight k(d) and the advantage A / k(d). The product is A, so k(d) acts only on terms without A, such as KL."""

    rule: Credit = GroupRelative()
    rate: float = math.e  # rate of k(d); inf: all weights are 1
    asks_right: ClassVar[str] = "GroupRelative"

    def __post_init__(self) -> None:
        check_ranges(self, rate="(0, inf]")

    @property
    def needs(self) -> tuple[Signal, ...]:
        return self.rule.needs

    def assign(self, groups: Sequence[Group], signals: Signals) -> list[list[Credited]]:
        rows = assigned(self.rule, groups, signals)
        shares = [1 - np.mean([t.right for t in g.trajectories]) for g in groups]
        return [[self._weighed(c, float(d)) for c in row] for row, d in zip(rows, shares, strict=True)]

    def _weighed(self, credited: Credited, difficulty: float) -> Credited:
        k = np.where(credited.advantages > 0, divergence_weight(difficulty, rate=self.rate), 1.0)
        return replace(credited.weighted(k), advantages=credited.advantages / k)


apo = grpo.derive(
    "apo",
    "Right answers to hard questions get a smaller KL term, and wrong answers that are longer than right answers are pushed down more.",
    family="objectives",
    credit=Divergence(Scaled(GroupRelative(), LongerThanRight(base=1.00001))),
    objective__kl=KL(0.001),
    update__count=16,
)

claims = (
    same_weights(
        says="Without both factors the final weights on questions about pictures are those of GRPO.",
        source="arXiv:2506.21655, both factors at 1",
        against="grpo --objective.kl.coefficient 0.001 --update.count 16",
        own={"credit.rate": "inf", "credit.rule.factor.base": "1"},
        task="shapes",
        fields={"prompts": "4", "group": "8", "study": "none"},
        budget="steps=2",
    ),
    Claim(
        says="If answers repeat their steps, their mean length at the end of 30 steps is at most 0.9 of the length without the factor on long wrong answers.",
        source="arXiv:2506.21655, analysis of lengths (fewer tokens than GRPO); the ground, the base 1.01 for short answers and the size are ours",
        against="apo --credit.rule.factor.base 1",
        own={"credit.rule.factor.base": "1.01"},
        measure="length",
        at_most=0.9,
        ground="wordy",
        fields={"prompts": "4"},
        budget="steps=30",
    ),
    Claim(
        says="On questions about pictures, the entropy of the policy after 30 steps is at least 1.1 times that without a KL term.",
        source="arXiv:2506.21655, abstract (the shaped KL term prevents a sharp fall of entropy); the size is ours, and so is beta 0.04 for 30 steps",
        against="apo --objective.kl.coefficient 0",
        own={"objective.kl.coefficient": "0.04"},
        measure="entropy:last",
        at_least=1.1,
        task="shapes",
        options={"level": "2", "kinds": "count,relation"},
        fields={"prompts": "8", "group": "8", "study": "none"},
        budget="steps=30",
    ),
)
