r"""WirelessMathLM: GRPO from a base model on formulas of wireless channels, with a program that compares formulas, and no supervised start.

    R = 1{"answer equivalent"} + 0.1 dot 1{"exactly one box"}
    A_i = (R_i - mean(R)) / (std(R))
    loss = GRPO with beta = 0.001

A problem has background text and asks for an option, for the hidden terms of an equation, or for the whole equation. The answer is in `\boxed{}`. A
formula is right if its difference from the stored formula is 0: a program decides this, not a model. The source of a problem is a paper. All problems
of a paper are either in training or held out, so no formula is in both. Apart from this, the method is GRPO. Metrics: reward/verified,
reward/one_box.

Use if: answers are formulas or options that a program can compare, and the base model already writes some right answers.
Avoid if: the base model never writes a right answer (then begin with sft), or answers are free text.
Reference: Li et al., WirelessMathLM: Teaching Mathematical Reasoning for LLMs in Wireless Communications with Reinforcement Learning,
arXiv:2509.23219: a binary verifier, GRPO directly from base models of 0.5, 3 and 7 billion parameters, and a benchmark of 4,027 problems from 970
papers with choices, masked equations and whole equations. The public repositories (LiXin97) have data and pages, but no training code.
Departures: The weight 0.1 of the form, beta, and the comparison at five random points with a relative tolerance of 1e-6 are our choices; formulas are
not simplified before the comparison, because a simplification may never end. A text that is no formula is wrong; the paper asks a model here. The
formulas of the task `channels` are generated. In place of the paper, the source of a problem is the name of the formula with its symbols.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim, same_weights
from gradus.rewards.combine import Combines
from gradus.rewards.verified import Verified
from gradus.types import Frozen, Group
from gradus.types.answers import boxed
from gradus.types.parts import Judgement, Signals, World
from gradus.types.signals import Signal


def one_box(completion: str) -> float:
    r"""Returns 1.0 if the completion has exactly one \boxed{...} and it is closed, else 0.0.

    >>> [one_box(text) for text in (r"\boxed{a}", r"\boxed{a} \boxed{a}", r"\boxed{a", "a")]
    [1.0, 0.0, 0.0, 0.0]
    """
    return float(completion.count("\\boxed{") == 1 and boxed(completion) is not None)


@dataclass(frozen=True)
class OneBox(Combines):
    """The reward is 1 for a completion with exactly one closed box, and otherwise 0."""

    name: ClassVar[str] = "one_box"
    needs: ClassVar[tuple[Signal, ...]] = ()

    async def score(self, groups: Sequence[Group], signals: Signals, world: World) -> list[list[Judgement]]:
        found = [[one_box(t.completion) for t in g.trajectories] for g in groups]
        return [[Judgement(value, Frozen({self.name: value})) for value in row] for row in found]


wirelessmath_lm = grpo.derive(
    "wirelessmath_lm",
    "GRPO from a base model on formulas, which a program compares, and a small reward for exactly one box.",
    family="rewards",
    reward=Verified() + 0.1 * OneBox(),
    objective__kl__coefficient=0.001,
)

claims = (
    same_weights(
        says="Without the reward for the box, the final weights are those of GRPO with the same KL coefficient.",
        source="arXiv:2509.23219, the binary verifier alone",
        against="grpo --objective.kl.coefficient 0.001",
        own={"reward": "Verified"},
    ),
    Claim(
        says="From a model that was shown a few solutions, held-out accuracy rises by at least 0.1 over 15 steps.",
        source="arXiv:2509.23219, abstract (accuracy rises by 11, 103 and 81 % at three sizes); task, start model, sizes and the bound are ours",
        measure="held_out/accuracy:gain",
        better_by=0.1,
        task="channels",
        options={"level": "2"},
        fields={
            "prompts": "8", "group": "8", "learning_rate": "3e-4", "warmup": "0", "eval_every": "0", "study.problems": "100", "study.greedy": "false",
        },
        budget="steps=15",
        script="benchmarks.warmed wirelessmath_lm",
    ),
)  # fmt: skip
