"""Process reward model: a value head learns the chance that an answer becomes right, after every step of the answer.

    y_k = 1/N sum_(n=1)^N R(x_(1:k), c_n), quad c_n ~ pi("sampler"), quad y_K = R(x_(1:K))
    loss = mean over steps of -y_k log sigmoid(s_k) - (1 - y_k) log(1 - sigmoid(s_k))

The frozen player `sampler` answers each problem. $x_(1:k)$ are the steps 1 to k of an answer, and R is the reward of the whole text. The label $y_k$ is
the mean reward of N = 8 continuations from the end of step k. The label of the whole answer is its own reward. The score $s_k$ is the head's output at
the end of step k. The start of an answer also has a label: the chance of success before the first step.

`--rollout.rollout "CheckedSteps()"` uses exact labels from a task that can check steps: $y_k$ is 1 if the steps 1 to k are all right, else 0. The
reward `StepScores` makes the trained model the judge of another run. `--reward FOLDER_OF_THIS_RUN` uses only the score of the whole answer.

Use if: a later run or a search needs a judge of single steps, and continuations are cheap.
Avoid if: only whole answers are judged (see reward_model), or the steps can be checked exactly in the later run itself (reward SoundSteps).
Reference: Wang et al., Math-Shepherd, arXiv:2312.08935, section 3, soft estimation: N = 8. Uesato et al., arXiv:2211.14275: process feedback.
Departures: Each step is a sentence in the paper; here it is a line, or an equation between blanks. The label of the last step is the verdict, which
needs no continuations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from gradus.credit.step_values import StepChances
from gradus.objectives.chances import ChanceLoss
from gradus.papers.bases.reward_model import reward_model
from gradus.recipe.claim import Claim
from gradus.rollouts.behaviour_policy import BehaviourPolicy
from gradus.rollouts.values import MonteCarloValues
from gradus.selection.filters import Everything
from gradus.types import Frozen, Group, Trajectory, UserError
from gradus.types.parts import Credited, Signals
from gradus.types.signals import Signal


@dataclass(frozen=True)
class StepLabels:
    """The labels of `StepChances`. The answer's own reward is the label of the last action, so the whole answer has a label, too."""

    needs: ClassVar[tuple[Signal, ...]] = ()
    gives: ClassVar[frozenset[str]] = StepChances.gives
    asks: ClassVar[Mapping[str, str]] = StepChances.asks

    def assign(self, groups: Sequence[Group], signals: Signals) -> list[list[Credited]]:
        rows = StepChances().assign(groups, signals)
        return [[_ended(t, c) for t, c in zip(g.trajectories, row, strict=True)] for g, row in zip(groups, rows, strict=True)]


def _ended(trajectory: Trajectory, credited: Credited) -> Credited:
    """Adds the label of the whole answer. If the last step is a single action, this action already has the label of the step before."""
    if not trajectory.actions:
        return credited
    if not 0 <= trajectory.value <= 1:
        raise UserError(f"the model learns probabilities, but answer {trajectory.id} has the reward {trajectory.value:g}; scale the reward to 0 to 1")
    returns, weights = np.array(credited.returns), np.array(credited.weights)
    if not weights[-1]:
        returns[-1], weights[-1] = trajectory.value, 1.0
    return replace(credited, returns=returns, weights=weights)


process_reward_model = reward_model.derive(
    "process_reward_model",
    "A value head learns the chance of a right answer after every step, from continuations or from checked steps.",
    rollout=BehaviourPolicy("sampler", MonteCarloValues(count=8)),
    selection=Everything(),
    credit=StepLabels(),
    objective=Frozen(steps=ChanceLoss()),
)

claims = (
    Claim(
        says="After 40 steps the score of the whole answer puts at least 0.1 more held-out pairs in the right order than at the start.",
        source="arXiv:2312.08935, table 1 (verification of whole solutions); the size of the effect and the task are ours",
        measure="held_out/accuracy:gain",
        better_by=0.1,
        task="arithmetic",
        options={"level": "2"},
        fields={"prompts": "8", "group": "4", "learning_rate": "3e-4", "warmup": "0", "eval_every": "0"},
        budget="steps=40",
    ),
)
