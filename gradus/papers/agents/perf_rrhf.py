"""PerfRL: RRHF for faster programs. Candidates of the model and a faster program of the data are ranked by unit tests and by their cost.

    R_i = -1 "if the program is broken", quad -0.3 "if a test fails"
    R_i = 0.3 "if" s_i < 1.1, quad 1 + min(s_i, 4)/4 "otherwise", quad s_i = c_0 / c_i
    loss = mean over problems of [sum_(R_i < R_j) max(0, p_i - p_j) - sum_t log pi(y_t^best)]
    p_i = 1/|y_i| sum_t log pi(y_(i,t))

The prompt is a slow program of cost $c_0$, and $c_i$ is the cost of candidate i. $s_i$ is its speed-up. The candidates are four samples at temperature
0.8, and the worked solution, which is a faster program. The loss treats the worked solution like a sample. All else is as in rrhf: no critic, no
reward model, no ratio and no KL term. Fine-tuning on pairs of a slow and a faster program comes first: `gradus train sft:50,perf_rrhf:50 --task code_speed`.
Metrics: reward/passed, reward/speed_up (0 for a program that fails a test); accuracy is the share of programs that pass all tests and are at least 10 percent
faster.

Use if: pairs of a slow and a faster program exist, programs have tests, and memory allows only one model.
Avoid if: costs are noisy, so that equal programs get different rewards, or all candidates are equal, because equal rewards make no pairs.
Reference: Duan et al., Leveraging Reinforcement Learning and Large Language Models for Code Optimization, arXiv:2312.05657: fine-tuning, samples ranked by
tests and run time, the loss of RRHF, and the bound of 10 percent.
Departures: The numbers of the reward, four samples and temperature 0.8 come from the catalogue of methods. The released code (lostkingdom4/Perf_LLM) gives 0,
1, 1.3 and 2 to a broken, failing, right and faster program. For each problem, that code has two samples at temperature 1, a greedy answer and the faster
program of the data. In that code, a program with any speed-up above 1 counts as faster, the size of the speed-up does not matter, and the imitation term is a
mean over tokens. The task `code_speed` is ours; its cost counts the steps of an interpreter in place of run time. The current policy samples at every step;
the paper has rounds of sampling and training. Two faster programs with speed-ups above 4 have equal rewards. The metrics of training count the worked
solution as well. If a task has no costs, the reward is the verdict.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from gradus.environments.program_cost import Cost, before
from gradus.papers.bases.rrhf import rrhf
from gradus.recipe.claim import Claim, same_weights
from gradus.rewards.beside_verdict import Terms, beside_verdict
from gradus.rewards.combine import Combines
from gradus.rollouts.mixed_policy import MixedPolicy
from gradus.types import Group, Trajectory
from gradus.types.parts import Judgement, Signals, World
from gradus.types.ranges import check_ranges
from gradus.types.signals import Signal


def speed_up(old: Cost, new: Cost) -> float:
    """Returns the cost of the old program divided by the cost of the new one; 0 for a program that fails a test."""
    return old.time / max(1, new.time) if new.right else 0.0


@dataclass(frozen=True)
class SpeedTiers(Combines):
    """The reward of a program by tiers: broken, a failed test, right, and faster by `least` or more. If a task has no costs, the reward is the verdict."""

    least: float = 1.1  # the smallest speed-up of a faster program
    most: float = 4.0  # larger speed-ups count as this number
    name: ClassVar[str] = "tiers"
    needs: ClassVar[tuple[Signal, ...]] = ()

    def __post_init__(self) -> None:
        check_ranges(self, least="[1, inf)", most="(0, inf)")

    def value(self, old: Cost, new: Cost) -> float:
        """Returns the reward of a program with the cost `new` that replaces a program with the cost `old`."""
        if not new.right:
            return -1.0 if new.broken else -0.3
        gain = speed_up(old, new)
        return 0.3 if gain < self.least else 1 + min(gain, self.most) / 4

    async def score(self, groups: Sequence[Group], signals: Signals, world: World) -> list[list[Judgement]]:
        measured = getattr(world.task.verify, "cost", None)

        def terms(t: Trajectory, verdict: float) -> Terms | None:
            if measured is None:
                return None
            old, new = before(t.problem), measured(t.problem, t.completion)
            return self.value(old, new), {"passed": float(new.right), "speed_up": speed_up(old, new)}

        return await beside_verdict(groups, world, terms)


perf_rrhf = rrhf.derive(
    "perf_rrhf",
    "Samples and a faster program of the data are ranked by tests and counted cost, with the loss of RRHF.",
    family="agents",
    rollout=MixedPolicy(source="policy"),
    reward=SpeedTiers(),
    setting__group=5,
    setting__temperature=0.8,
)

claims = (
    same_weights(
        says="Without the faster program of the data, and with the verdict as the reward, the final weights are those of RRHF.",
        source="arXiv:2312.05657, the loss is RRHF's; the limit is ours",
        against="rrhf --temperature 0.8",
        own={"rollout": "Auto"},
    ),
    Claim(
        says="After 16 steps the best of 4 samples is right and at least 10 percent faster for at least 0.05 more held-out programs than after fine-tuning alone.",
        source="arXiv:2312.05657, the share of optimised programs against fine-tuning; the size is the row's; task, start and numbers of steps are ours"
        "; stated again after a look: at a rate of 3e-4 it was below the start in all seeds",
        against="perf_rrhf --learning_rate 0",
        measure="pass@4",
        better_by=0.05,
        task="code_speed",
        options={"level": "1"},
        fields={"prompts": "8", "warmup": "0", "study": "none"},
        own={"learning_rate": "5e-5"},
        budget="steps=16",
        problems=64,
        samples=4,
        seeds=3,
        script="benchmarks.warmed perf_rrhf",
    ),
)
