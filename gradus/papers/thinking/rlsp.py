"""RLSP: a small reward for effort, independent of correctness, makes search appear in the chain of thought. The outcome always dominates.

    R = alpha r_c + (1 - alpha) r_e - 0.1 f, quad alpha = 0.8
    r_e = min(|o|, L) / L "if finished and without a loop, else" 0

$r_c$ is the verdict. The effort $r_e$ grows with the number of tokens |o| up to a target L. So a wrong answer gets at most 0.2 and a right answer at
least 0.7: no effort can make a wrong answer better than a right answer. A loop is a block of four tokens that occurs three times in a row; f is the
score of the loop, see `Looped`. An answer with a loop gets a penalty and no reward for effort, so repetition earns nothing. In the last fifth of the
run alpha rises to 1. Apart from this, the method is PPO with lambda 1; the reward is at the last token, and the KL penalty at every token. A stage of
SFT on demonstrations of thinking may come first: `sft:100,rlsp:200`. Metrics: reward/effort, reward/looped.

To measure the effort in another way, use another part: `--reward.parts.effort` takes any reward from 0 to 1, for example `Rubric`. The judge of `Rubric`
checks whether a chain tries other ways, checks itself and goes back.

Use if: the start model usually answers immediately, but sometimes searches, and longer search finds more answers.
Avoid if: answers are already too long (see kimi_k1_5, grpo_lambda_length).
Reference: Ye et al., On the Emergence of Thinking in LLMs I: Searching for the Right Intuition, arXiv:2502.06773: effort in addition to the outcome, the two
measures of effort, 0.8 and 0.2 for the judge's form. The released 8B script (GuanghaoYe/Emergence-of-Thinking) has the KL coefficient 0.05.
Departures: Here the mix of verdict and length has bounds. The released length form adds $-C / |o|$ to the verdict, with C = 1000 and the number |o|
of tokens before the box. In this form a long wrong answer can earn more than a short right answer. The code subtracts another 0.5 from an answer
without a box; here such an answer has no further penalty. Our own choices are the target of 1000 tokens, the penalty for a loop, and the rise of
alpha. The script has temperature 0.7 and learning rates of 2e-7 and 2e-6, and it normalises rewards over the run; here the settings of ppo apply.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from gradus.papers.bases.ppo import ppo
from gradus.recipe.claim import Claim, same_weights
from gradus.rewards.combine import Combines, Sum
from gradus.rewards.repetition import Looped, sampled
from gradus.rewards.verified import Verified
from gradus.schedules.ramp import Ramp
from gradus.types import Ended, Frozen, Group, Trajectory
from gradus.types.parts import Judgement, Signals, World
from gradus.types.ranges import check_ranges
from gradus.types.signals import Signal

_LOOP = Looped(shortest=4, longest=4)


@dataclass(frozen=True)
class LengthEffort(Combines):
    """min(tokens, target) / target for a finished answer without a loop, else 0. The verdict has no effect."""

    target: int = 1000  # an answer with this number of tokens has the effort 1
    loop: Looped = _LOOP
    name: ClassVar[str] = "effort"
    needs: ClassVar[tuple[Signal, ...]] = ()

    def __post_init__(self) -> None:
        check_ranges(self, target="[1, inf)")

    def value(self, trajectory: Trajectory) -> float:
        """Returns the effort of an answer."""
        finished = trajectory.ended in (Ended.STOP, Ended.ENVIRONMENT)
        return min(trajectory.actions, self.target) / self.target if finished and not self.loop.value(sampled(trajectory)) else 0.0

    async def score(self, groups: Sequence[Group], signals: Signals, world: World) -> list[list[Judgement]]:
        found = [[self.value(t) for t in group.trajectories] for group in groups]
        return [[Judgement(value, Frozen({self.name: value})) for value in row] for row in found]


rlsp = ppo.derive(
    "rlsp",
    "A small reward for effort is added to the verdict; the verdict always dominates.",
    family="thinking",
    reward=Sum(Frozen(verified=Verified(), effort=LengthEffort(), looped=_LOOP), Frozen(verified=0.8, effort=0.2, looped=-0.1)),
    credit__coefficient=0.05,
    credit__rule__lam=1.0,
    schedule=Ramp("reward.weights.verified", ((0, 0.8), (0.8, 0.8), (1, 1.0)), over="progress", rest="reward.weights.effort"),
)

claims = (
    same_weights(
        says="With the weights 1, 0 and 0, the final weights are those of PPO with lambda 1 and the same KL penalty.",
        source="arXiv:2502.06773, alpha = 1",
        against="ppo --credit.rule.lam 1 --credit.coefficient 0.05",
        own={"reward.weights.verified": "1", "reward.weights.effort": "0", "reward.weights.looped": "0", "schedule": "ConstantSchedule"},
        options={"level": "2"},
        fields={"prompts": "4", "group": "2", "study": "none", "warmup": "0"},
    ),
    Claim(
        says="After 30 steps, answers are at least 1.5 times as long as without a reward for effort.",
        source="arXiv:2502.06773, section 4 (longer chains with the length form); the task, the target of 60 tokens and the factor are ours",
        against="rlsp --reward.weights.effort 0",
        measure="length",
        at_least=1.5,
        task="arithmetic",
        options={"level": "2"},
        fields={
            "reward.parts.effort.target": "60", "schedule": "ConstantSchedule", "learning_rate": "3e-4", "prompts": "8", "group": "8", "warmup": "0",
            "max_tokens": "60", "update.epochs": "1", "study": "none",
        },
        budget="steps=30",
        problems=60,
        samples=2,
    ),
)  # fmt: skip
