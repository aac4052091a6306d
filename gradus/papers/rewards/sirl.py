"""SIRL: an optimisation solver verifies models that are written as code. The KL penalty applies to the model and the code only, so the thoughts stay free.

    R_1 = 1{"answer right"} + 1{"code ran"} + 0.5 f
    R_2 = 1{"answer right"} (1 + h) + 1{"code ran"}
    r_t = 1{t = T} R - 0.0005 1{t "in" M} (log pi_old(a_t) - log pi_ref(a_t))
    A_t = (hat R_t - mean(hat R)) / (std(hat R)), quad hat R_t = sum_(s >= t) r_s

An answer is `<think>thoughts</think><model>formulas</model><python>code</python>`. The solver runs the code. The answer is right if the optimal value
v has |v* - v| / (|v*| + 1) < 1e-6, or if the problem and the code both have no solution. f is 2 minus a sum of penalties. The penalty is 1/8 for each
think or model tag that does not occur exactly once, 1/4 for each such python tag, and 1/3 for each of three faults of order. The faults are a thought
that ends after another part begins, a part that ends before it begins, and code that does not come last. h is the share of the best solution's values
that the code also finds.

M is the text from `<model>` to the end; without this tag, the text from `<python>` to the end. If both tags are missing, no token has a penalty. The reward
is $R_1$ in the first phase and $R_2$ in the second. Only a right answer can earn the bonus of $R_2$, so a model that runs but is wrong gets no bonus. The
clip is 0.2 and 0.3, the group has 16 answers, and the rest is REINFORCE++. Metrics: reward/executed, reward/form, reward/overlap.

Use if: a program of the answer can be run and its result compared, and a long free thought comes before it.
Avoid if: the answer is only text, or the code part has nothing to preserve (see reinforce_plus_plus with a small KL).
Reference: Chen et al., Solver-Informed RL: Grounding Large Language Models for Authentic Optimization Modeling, arXiv:2505.11792, and the released
code (Cardinal-Operations/SIRL): stage1_reward_gurobi.py, stage2_reward_gurobi.py, the KL in kl_ppo/ray_trainer.py, and run_partialKL.sh (coefficient
0.0005, 16 answers, clip 0.2 and 0.3, learning rate 1e-6, batch 32). The programs that run the code were not read.
Departures: The released trainer applies the KL from `<python` to the end, or to the whole answer if this text is missing. The released trainer also
changes the mask of the answer, so advantages are normalised over the code, and are 0 before the code. Here the KL applies to model and code, and the
policy learns from all tokens. The authors' run with KL on all tokens has the coefficient 0.001. The form counts `<model>`; the released code counts
`<model`. For h, the values of the reference are rounded, too. If the true optimum is 0, the released code calls every answer wrong; here such an answer can
be right. In the paper, the bonus of phase 2 is for advanced models; the released scorer gives the share h as the bonus. The lengths of the phases are
our choices. The task `optimisation` has a small modelling language that HiGHS runs, not Python. `consistent` chooses labels by agreement on value,
direction and number of integer variables, with our weights; the paper reads these properties from LP files.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from gradus.credit.kl_penalty import KLPenalty
from gradus.credit.reward_to_go import RewardToGo
from gradus.objectives.trust import Clip
from gradus.papers.bases.reinforce_plus_plus import reinforce_plus_plus
from gradus.recipe.claim import Claim, same_weights
from gradus.rewards.beside_verdict import Terms, beside_verdict
from gradus.rewards.combine import Combines
from gradus.rollouts.spans import WithSpans
from gradus.schedules.phases import Phase, Phases
from gradus.types import Frozen, Group, Trajectory
from gradus.types.parts import Credit, Judgement, Signals, World
from gradus.types.ranges import check_ranges
from gradus.types.signals import Signal
from gradus.types.spans import Phrases

_TAGS = ("<think>", "</think>", "<model>", "</model>", "<python>", "</python>")


def form(text: str) -> float:
    """Returns f, from 2 down to 0.

    >>> form("<think>t</think><model>m</model><python>p</python>"), round(form("<think>t</think><model>m</model><python>p"), 4), round(form(""), 4)
    (2.0, 1.4167, 0.6667)
    """
    at = [text.find(tag) for tag in _TAGS]
    counts = sum((0.25 if "python" in tag else 0.125) * (text.count(tag) != 1) for tag in _TAGS)
    faults = (at[1] > min(at[2:5])) + any(at[i] > at[i + 1] for i in (0, 2, 4)) + (at[4] <= max(at[:4]))
    return 2 - counts - faults / 3


def overlap(said: Sequence[float], due: Sequence[float]) -> float:
    """Returns the share of the values `due` that are also in `said`, rounded to 3 digits; 0 if `due` is empty. If a value occurs several times in both, each
    occurrence counts.

    >>> overlap([3, 2, 1], [3, 0, 2])
    0.6666666666666666
    """
    common = Counter(round(x, 3) + 0.0 for x in said) & Counter(round(x, 3) + 0.0 for x in due)
    return common.total() / len(due) if due else 0.0


def consistent(models: Sequence[tuple[float | None, str, int]], direction: float = 0.5, whole: float = 0.5) -> int:
    """Returns the index of the model that agrees most with the others; the first of several such models. Agreement is 1 for an equal value, plus a weight for
    the direction and for the number of integer variables. A model is (value, "max" or "min", number of integer variables).
    """

    def score(one: tuple[float | None, str, int]) -> float:
        return sum((one[0] == other[0]) + direction * (one[1] == other[1]) + whole * (one[2] == other[2]) for other in models)

    return max(range(len(models)), key=lambda i: score(models[i]))


@dataclass(frozen=True)
class SolverReward(Combines):
    """The verdict, plus 1 if the code ran, plus `form` * f, plus `bonus` * h for a right answer. If a task has no solver, the reward is the verdict."""

    form: float = 0.5
    bonus: float = 0.0
    name: ClassVar[str] = "solver"
    needs: ClassVar[tuple[Signal, ...]] = ()

    def __post_init__(self) -> None:
        check_ranges(self, form="[0, inf)", bonus="[0, inf)")

    async def score(self, groups: Sequence[Group], signals: Signals, world: World) -> list[list[Judgement]]:
        ran = getattr(world.task.verify, "ran", None)

        def terms(t: Trajectory, verdict: float) -> Terms | None:
            if ran is None:
                return None
            found, formed = ran(t.completion), form(t.completion)
            h = overlap(found.solution or (), t.problem.meta.get("solution_values", ())) if found is not None else 0.0
            reward = verdict * (1 + self.bonus * h) + (found is not None) + self.form * formed
            return reward, {"executed": float(found is not None), "form": formed, "overlap": h}

        return await beside_verdict(groups, world, terms)


@dataclass(frozen=True)
class PartialKL(KLPenalty):
    """A KL penalty for the actions with a value of 0 or more in the stream `within`."""

    rule: Credit = RewardToGo()
    coefficient: float = 0.0005
    within: str | None = "span"  # None: the penalty applies to all actions

    def costs(self, trajectory: Trajectory, signals: Signals) -> np.ndarray:
        costs = super().costs(trajectory, signals)
        return costs if self.within is None else np.where(trajectory.stream(self.within) >= 0, costs, 0.0)


sirl = reinforce_plus_plus.derive(
    "sirl",
    "An optimisation solver verifies models in code; the KL penalty applies only to the model and the code.",
    family="rewards",
    reward=SolverReward(),
    rollout=WithSpans(marking=Phrases(r"(?s)<(?:model|python)>.*")),
    credit=PartialKL(),
    objective__policy__trust=Clip(0.2, 0.3),
    schedule=Phases((Phase(100), Phase(100, Frozen({"reward.form": 0.0, "reward.bonus": 1.0})))),
    setting__group=16,
)

_SOLVER = {"prompts": "4", "group": "8", "warmup": "0", "study": "none", "learning_rate": "2e-4", "update.count": "2", "credit.coefficient": "0.02"}

claims = (
    same_weights(
        says="With the KL on all tokens and the task's verdict, the final weights are those of REINFORCE++ with the same clip and KL coefficient.",
        source="arXiv:2505.11792, without the solver's rewards and with full KL",
        against="reinforce_plus_plus --credit.coefficient 0.0005 --objective.policy.trust Clip(low=0.2,high=0.3)",
        own={"reward": "Verified", "credit.within": "none", "rollout": "Auto", "schedule": "ConstantSchedule"},
    ),
    Claim(
        says="With a coefficient that acts at this scale, accuracy with the partial KL after 12 steps is at least 0.01 above that with the full KL.",
        source="arXiv:2505.11792, ablation of Partial KL; task, start model, sizes, the coefficient 0.02 and the bound are ours",
        against="sirl --credit.within none",
        measure="accuracy",
        better_by=0.01,
        task="optimisation",
        options={"level": "2"},
        fields=_SOLVER,
        budget="steps=12",
        problems=100,
        script="benchmarks.warmed sirl",
    ),
)
