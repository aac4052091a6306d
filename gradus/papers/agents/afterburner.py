"""Afterburner: a model reads its earlier program with the measured costs, and improves it. GRPO rewards the measured change of the cost that is asked for.

    R = 0.5 R_imp + 0.2 R_fmt
    R_imp = R_cor + 0.5 tanh(g) "if" R_cor > 0, quad R_cor "otherwise"
    g = clip((b - c)/b, -1, 1)
    A_i = (R_i - mean(R)) / (std(R))

The prompt has the problem, a goal (time, memory, or integral: the sum of the memory over time), and the earlier program with its verdict and its three
costs. b and c are the costs of the earlier and of the new program for the goal; both are at most the cap, and a program that fails has the cap. If b is 0, g
is -1 for any larger c, and 0 for c = 0. $R_cor$ depends on the verdicts before and now: 0.5 for passed and passed, 1 for failed and passed, -1 for passed and
failed, -0.5 for failed and failed. $R_fmt$ is 1 for exactly one <thinking> and one <solution>. The largest R is 0.8904.

A group has 32 answers, and there is no KL term. At test time the model improves the best program so far in 10 rounds. Supervised fine-tuning and DPO on the same
data are other recipes: `gradus train sft --task code_speed --task.form goal`, and dpo. Metrics: reward/gain, reward/passed, and reward/beyond: the share of
collected programs for the problem that are slower than the new program (0 if the new program fails).

Use if: costs can be measured reliably, a program can be improved in several rounds, and tests decide about its correctness.
Avoid if: costs vary between runs, or pairs of slow and fast programs suffice (see perf_rrhf).
Reference: Du et al., Afterburner: Reinforcement Learning Facilitates Self-Improving Code Efficiency Optimization, arXiv:2505.23387: the prompt, the verdicts and
their rewards, the gain, the weights 0.5 and 0.2, groups of 32, no KL, 10 rounds, and the percentile among collected programs.
Departures: The rewards, the weights and the order of the tags are as in the released code (Elfsong/Afterburner, grpo/afterburner_reward_function.py). That
code also runs the program of a reply with a broken form; here such a reply has no program, so it fails. In that code, an earlier program that fails has its
recorded costs, at most the caps; here it has the caps. A length term with weight 0.3 is always 0 in that code, and is left out here. That code has one
percentile for each goal, which also counts programs of equal cost; reward/beyond is for the time only. The task `code_speed` is ours: its programs use a
small part of Python, and an interpreter counts steps and list entries in place of seconds and bytes. The caps are 12,000 steps, 200 entries, and 400,000 for
the integral. The collected programs are the versions of the task. The recipe does not set the paper's learning rate of 10^-6 and its 32 problems per step.
Fine-tuning before the training (the released "cold start") is a separate run. In all rounds at test time, the gain is measured against the first program. If
a task has no costs, the reward is the verdict.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from gradus.environments.program_cost import Cost, asks, before, collected
from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim, same_weights
from gradus.rewards.beside_verdict import Terms, beside_verdict
from gradus.rewards.combine import Combines
from gradus.rewards.tags import in_tags
from gradus.rollouts.feedback import Attempt
from gradus.search.revised import Revised
from gradus.types import Frozen, Group, Trajectory
from gradus.types.parts import Judgement, Signals, World
from gradus.types.signals import Signal

CAPS: Mapping[str, int] = Frozen(time=12_000, memory=200, integral=400_000)
"""The largest cost for each goal. A failing program has this cost."""
ORDER = ("thinking", "solution")


def gain(old: float, new: float) -> float:
    """Returns g, from -1 to 1. If the old cost is 0, g is -1 for a larger new cost, and 0 for a new cost of 0."""
    return max(-1.0, min(1.0, (old - new) / old)) if old else -float(new > 0)


def improvement(old: Cost, new: Cost, goal: str) -> tuple[float, float]:
    """Returns (R_imp, tanh(g)) of a new program for a goal."""
    correct = {(True, True): 0.5, (False, True): 1.0, (True, False): -1.0, (False, False): -0.5}[old.right, new.right]
    b, c = (min(cost.of(goal), CAPS[goal]) if cost.right else CAPS[goal] for cost in (old, new))
    effect = math.tanh(gain(b, c))
    return correct + 0.5 * effect if correct > 0 else correct, effect


def percentile(time: float | None, others: Sequence[float]) -> float:
    """Returns the share of the times `others` that are larger than the time of a program; 0 for a program that fails (None).

    >>> percentile(3, [2, 4, 5, 6]), percentile(None, [2, 4, 5, 6])
    (0.75, 0.0)
    """
    return 0.0 if time is None or not others else sum(other > time for other in others) / len(others)


@dataclass(frozen=True)
class MeasuredChange(Combines):
    """The weighted sum of two terms: the improvement of the cost, and the form. If a task has no costs, the reward is the verdict."""

    improve: float = 0.5
    form: float = 0.2
    name: ClassVar[str] = "change"
    needs: ClassVar[tuple[Signal, ...]] = ()

    async def score(self, groups: Sequence[Group], signals: Signals, world: World) -> list[list[Judgement]]:
        measured = getattr(world.task.verify, "cost", None)

        def terms(t: Trajectory, verdict: float) -> Terms | None:
            if measured is None:
                return None
            meta, new = t.problem.meta, measured(t.problem, t.completion)
            better, effect = improvement(before(t.problem), new, meta["goal"] or "time")
            formed = float(in_tags(t.completion, ORDER))
            beyond = percentile(new.time if new.right else None, collected(t.problem))
            seen = {"gain": effect if new.right else 0.0, "passed": float(new.right), "beyond": beyond}
            return self.improve * better + self.form * formed, seen

        return await beside_verdict(groups, world, terms)


@dataclass(frozen=True)
class NewCosts:
    """Feedback for the next round: the prompt of the task with the new program and its costs. A reply with a broken form gets no feedback."""

    async def texts(self, attempts: Sequence[Attempt], world: World) -> list[str | None]:
        return [self.text(t, world) for _, t in attempts]

    def text(self, t: Trajectory, world: World) -> str | None:
        verify, meta = world.task.verify, t.problem.meta
        program = getattr(verify, "program", lambda _: "")(t.completion)
        return asks(meta["says"], meta["goal"], verify.cost(t.problem, t.completion), program) if program else None  # type: ignore[union-attr]


afterburner = grpo.derive(
    "afterburner",
    "The model reads an earlier program with its costs and improves it; the reward is the change of verdict and cost.",
    family="agents",
    reward=MeasuredChange(),
    objective__kl=None,
    players__reference=None,
    search=Revised(rounds=10, feedback=NewCosts(), keep="best"),
    setting__group=32,
)

_TASK = {"level": "1", "form": "goal", "factor": "0"}

claims = (
    same_weights(
        says="On a task without costs the final weights are those of GRPO without a KL term.",
        source="arXiv:2505.23387, the objective is GRPO's; the limit is ours",
        against="grpo --objective.kl none --players.reference none",
    ),
    Claim(
        says="From the fine-tuned start, 16 steps raise the mean reward on held-out programs by at least 0.03 (a tenth of the cost is about 0.025).",
        source="arXiv:2505.23387, GRPO keeps improving where fine-tuning stalls; measure, size, task, start and numbers of steps are ours"
        "; stated again after a look: at a rate of 3e-4 the reward fell in two of three seeds",
        measure="held_out/reward:gain",
        better_by=0.03,
        task="code_speed",
        options=_TASK,
        fields={
            "prompts": "8", "group": "8", "learning_rate": "1e-4", "warmup": "0", "eval_every": "16", "study.problems": "96", "study.greedy": "false",
        },
        budget="steps=16",
        seeds=3,
        script="benchmarks.warmed afterburner",
    ),
)  # fmt: skip
