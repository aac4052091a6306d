"""Omni-Thinker: one policy for tasks with rules and tasks with a judge, trained task by task, from structured to open-ended.

    R = r_k + 0.1 1{"form right"}
    r_k = 1{"right"} quad "for maths, code and questions"
    r_k = 1/2 (w + w'), quad w, w' in {1, 1/2, 0} quad "for writing: win, tie or loss against the reference, in both orders"
    A_i = (R_i - mean(R)) / (std(R))
    "BWT" = 1/(K - 1) sum_(j < K) (S_(K,j) - S_(j,j))

A judge compares a written text with the reference, once in each order, so a preference for the first place cancels. The form is `<think>...</think>` and
`<answer>...</answer>`. Rewards of different tasks need no common scale, because advantages are relative to the answers to the same problem. Questions have no
options, so guessing fails.

$S_(i,j)$ is the score on task j after stage i. BWT, the backward transfer, is negative if later stages make the policy forget. `order` ranks tasks by
the transfers between pairs of tasks. The first tasks are those that are forgotten least and disturb others least: code, maths, questions, writing.
`in_order` makes the stages. The alternatives of the paper are one mixture, `--task code:1,arithmetic:1,multiple_choice:1,stories:1`, which is the
default here, and `Merge` of single models. Metrics: reward/judged_pairs, judged/order.

Use if: one model should learn structured and open-ended tasks, and the model forgets the first tasks while it learns the last tasks.
Avoid if: there is only one kind of task (see grpo), or no judge can be trusted.
Reference: Li et al., Omni-Thinker: Scaling Multi-Task RL in LLMs with Hybrid Reward and Task Scheduling, arXiv:2507.14783: hybrid rewards, both orders, the
order by backward transfer, and the comparison with joint training and merging. No code of the authors was found.
Departures: The weight 0.1 of the form and the KL weight 0.001 are our choices. The judge is the start model of the run, without training; name
another model with `--players.judge.model`. The ranking adds both transfers of a task with equal weights. The prompts of `multiple_choice` keep their
options; for questions without options use the task `facts` or `search_qa`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim, same_weights
from gradus.rewards.by_task import ByTask
from gradus.rewards.judged import JudgedPairs
from gradus.rewards.tags import Tags
from gradus.schedules.stages import Stage, Stages
from gradus.types import Frozen
from gradus.types.moments import Steps
from gradus.types.players import Player


def backward_transfer(scores: Sequence[Sequence[float]]) -> float:
    """Returns the mean, over all tasks except the last, of the score after the last stage minus the score after the task's own stage. `scores` [K,
    K]: stage, task.

    >>> backward_transfer([[60, 0, 0], [55, 50, 0], [50, 48, 70]])
    -6.0
    """
    found = np.asarray(scores, np.float64)
    return float((found[-1] - np.diag(found))[:-1].mean()) if len(found) > 1 else 0.0


def order(transfers: Sequence[Sequence[float]]) -> list[int]:
    """Ranks tasks. Row k of `transfers` [K, K] has the change on every task after training on task k. The score of a task is a sum over all other tasks: the
    effect of the task on them, plus their effect on the task. The task with the largest score comes first.
    """
    found = np.asarray(transfers, np.float64)
    off = found - np.diag(np.diag(found))
    return np.argsort(-(off.sum(0) + off.sum(1)), kind="stable").tolist()


def in_order(tasks: Sequence[str], steps: int = 100) -> Stages:
    """Returns one stage per task, in order."""
    return Stages(Frozen({f"stage_{i}": Stage(task=task, until=Steps(steps)) for i, task in enumerate(tasks, 1)}))


omni_thinker = grpo.derive(
    "omni_thinker",
    "One policy for tasks with rules and tasks with a judge that compares with the reference in both orders.",
    family="rewards",
    reward=ByTask(Frozen(stories=JudgedPairs(against="reference", both_orders=True))) + 0.1 * Tags(),
    objective__kl__coefficient=0.001,
    players__judge=Player(),
    setting__group=16,
)

claims = (
    same_weights(
        says="On a task with a rule and without the form, the final weights are those of GRPO with the same KL weight.",
        source="arXiv:2507.14783, one structured task",
        against="grpo --objective.kl.coefficient 0.001",
        own={"reward": "ByTask(parts={})"},
    ),
    Claim(
        says=(
            "On a mixture of sums and stories, where a scripted judge compares stories with the reference, the mean reward after 12 steps is at "
            "least 0.05 above the start."
        ),
        source="arXiv:2507.14783, one run over rules and a judge; tasks, the scripted judge, sizes and bound are ours",
        against="omni_thinker --setting.learning_rate 0",
        measure="reward:last",
        better_by=0.05,
        task="arithmetic:1,stories:1",
        fields={"prompts": "8", "group": "8", "warmup": "0", "study": "none", "reward.parts.by_task.parts.stories.judge": "ScriptedJudge", "players.judge": "none"},
        own={"setting.learning_rate": "3e-4"},
        budget="steps=12",
    ),
)
