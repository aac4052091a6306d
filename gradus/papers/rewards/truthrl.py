"""TruthRL: a right answer is worth 1, "I don't know" 0, and a wrong answer -1, so an abstention is worth more than a guess that is probably wrong.

    r_i = 1 "if answer" i "is right," 0 "if it abstains," -1 "otherwise"
    A_i = (r_i - mean(r)) / (std(r))
    T = "Acc" - "Hall"

With a binary reward (1 and -1, abstention -1) an abstention never beats a guess, so the policy guesses. With three values, the advantage of an
abstention is positive in a group of wrong answers, and an answer to a known question still earns more. An answer abstains if its final answer is a
phrase such as "I don't know" or "idk". The KL coefficient is 0.001. The study `Truthfulness` measures the shares of right answers, abstentions and
wrong answers (held_out/accuracy, held_out/uncertain, held_out/hallucination), and the truthfulness T (held_out/truthfulness). Abstentions have the
weight 0 in T. `by` names a column; the share of wrong answers is then also measured for each value of this column. Training has the metrics
reward/verified and reward/uncertain.

The variant with knowledge gives an abstention 1 if the start model does not know the answer: `--reward.unknown 1` for problems whose column `known` is
"no". In the paper the plain form is better than this variant.

Use if: wrong answers do harm, questions are about facts, and the start model abstains in some of its samples.
Avoid if: the start model never abstains, because only two of the three values then occur; first fine-tune on a few abstentions. If every question can
be answered, see grpo.
Reference: Wei et al., TruthRL: Incentivizing Truthful LLMs via Reinforcement Learning, arXiv:2509.25760, sections 2 and 3: the three values, the
binary baseline, the variants, and truthfulness with the weights 1, 0 and 1. The code of the authors was not available.
Departures: The task's verifier judges; the paper has a language model as a judge, because exact comparison makes the policy abstain too often. The
paper takes 256 samples of the start model to find the unknown questions; here a column of the task names them. The variant with a reward for the
reasoning is left out. The deviation is the population deviation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from gradus.objectives.kl import KL
from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim, same_weights
from gradus.rewards.combine import Combines, check_reward
from gradus.rewards.reshaped import by_group, reshaped
from gradus.rewards.verified import Verified
from gradus.study.truthfulness import Truthfulness
from gradus.types import Group, Trajectory
from gradus.types.answers import abstains
from gradus.types.parts import Judgement, Reward, Signals, Task, World
from gradus.types.signals import Signal


@dataclass(frozen=True)
class Ternary(Combines):
    """Gives `right` to a right answer, `abstained` to an abstention, and `wrong` to any other answer."""

    reward: Reward = Verified()  # says which answers are right
    right: float = 1.0
    abstained: float = 0.0
    wrong: float = -1.0
    unknown: float | None = None  # reward of an abstention if the column `known` of the problem is "no"; None: the value of `abstained`
    name: ClassVar[str] = "ternary"

    @property
    def needs(self) -> tuple[Signal, ...]:
        return self.reward.needs

    def check(self, task: Task) -> None:
        """Raises UserError if `reward` does not fit the task."""
        check_reward(self.reward, task)

    async def score(self, groups: Sequence[Group], signals: Signals, world: World) -> list[list[Judgement]]:
        return await reshaped(self.reward, groups, signals, world, by_group(self.paid))

    def paid(self, answers: Sequence[Trajectory]) -> list[tuple[float, Mapping[str, float]]]:
        """Returns the rewards of a group's answers. The component `uncertain` is 1 for an abstention."""
        return [(self.of(t), {"uncertain": float(not t.right and abstains(t.completion))}) for t in answers]

    def of(self, answer: Trajectory) -> float:
        """Returns the reward of a judged answer."""
        if answer.right:
            return self.right
        if not abstains(answer.completion):
            return self.wrong
        return self.unknown if self.unknown is not None and answer.problem.meta.get("known") == "no" else self.abstained


truthrl = grpo.derive(
    "truthrl",
    "A right answer is worth 1, an abstention 0, and a wrong answer -1.",
    family="rewards",
    reward=Ternary(),
    objective__kl=KL(0.001),
    study=Truthfulness(),
)

_TERMS = {"prompts": "16", "group": "8", "warmup": "0", "learning_rate": "2e-4", "eval_every": "0"}

claims = (
    same_weights(
        says="With abstentions worth as little as wrong answers, the final weights are those of GRPO with the binary reward.",
        source="arXiv:2509.25760, the binary baseline",
        against="grpo --objective.kl.coefficient 0.001",
        own={"reward.abstained": "-1"},
        within=1e-5,
    ),
    Claim(
        says="The share of wrong answers to questions that the start model cannot know is at least 0.2 lower than with the binary reward after 15 steps.",
        source="arXiv:2509.25760, abstract (hallucinations from 43.5 to 19.4 percent); task, start, sizes and the size of the effect are ours",
        against="truthrl --reward.abstained -1",
        measure="held_out/hallucination/no:last",
        better_by=-0.2,
        task="facts",
        options={"documents": "40", "known": "0.5"},
        fields=_TERMS,
        budget="steps=15",
        script="benchmarks.warmed truthrl",
    ),
)
