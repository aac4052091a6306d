"""RGR-GRPO: criteria of facts and steps give a dense reward, and the criteria that the best answer misses guide a refinement, which joins the group.

    r = (sum_j w_j s_j) / (sum_j w_j)
    A_i = (r_i - mean(r)) / (std(r))
    loss = -1/Z [sum_own min(rho A, clip(rho, 1 - 0.2, 1 + 0.2) A) + sum_refined f(pi(a_t)) A]
    f(x) = x / (x + 0.1)

Each question has criteria of facts (results) and of steps, with weights w. A judge marks each criterion as met (s = 1) or not. A group of 8 begins
with 7 answers. If no answer meets all criteria, the policy refines the best answer. The prompt for this has the question, the best answer and the
criteria that this answer misses. If several answers are equally good, the policy refines the shortest of them. A refinement that scores above the
best answer joins the group; otherwise a further answer of the policy joins it. In the loss, the prompt of a refinement is the question alone, without
the guidance. The mean and the deviation are over the whole group. Z counts the tokens of the mini-batch, own and refined. The slope of f is largest
at unlikely tokens, and f has no clip, as in luffy. There is no KL term. A batch is used for two updates, so the clip acts on the policy's own tokens
in the second update.
Metrics: `refined`, the share of groups with a refinement; `refined/kept`, the share of these groups that keep a refinement.

Use if: questions have criteria that can be checked one by one, and the policy can use a list of missing criteria.
Avoid if: a list of missing criteria does not help the policy (look at `refined/kept`), or worked solutions exist (see luffy).
Reference: Bi et al., Reward and Guidance through Rubrics: Promoting Exploration to Improve Multi-Domain Reasoning, arXiv:2511.12344: rubric rewards,
refinement of the best answer by its missing criteria, the mixed policy with shaping. No public code was found.
Departures: Our own choices are gamma = 0.1, one refinement for 7 answers, the choice among equally good answers, the removal of refinements without a gain,
two updates per batch and the missing KL term. Criteria of facts and steps are treated alike. A prompt with guidance that fills more than half of the context
gives no refinement. The claims use the constraints of the task instructions, with a scripted judge.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gradus.objectives.aggregation import Joint, TokenMean
from gradus.objectives.ratios import Probability
from gradus.objectives.terms import PolicyGradient
from gradus.objectives.trust import Shaped
from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim, same_weights
from gradus.rewards.checklist import Checklist, checklist_of
from gradus.rewards.judge import WrittenPoints
from gradus.rollouts.feedback import Attempt
from gradus.rollouts.refine import Refine
from gradus.rollouts.reprompted import Reprompted
from gradus.types import Trajectory, UserError
from gradus.types.parts import World
from gradus.types.players import Player
from gradus.types.prompts import filled


@dataclass(frozen=True)
class MissedCriteria:
    """Fills a form with {answer} and with the criteria that the answer misses, {missing}. An answer that meets all criteria gets no second attempt."""

    form: str = "Earlier answer: {answer}\nIt misses: {missing}\nWrite a better answer."

    def __post_init__(self) -> None:
        for name in ("answer", "missing"):
            if f"{{{name}}}" not in self.form:
                raise UserError(f"MissedCriteria.form does not contain {{{name}}}; add it, because the policy reads only the prompt and this text")

    async def texts(self, attempts: Sequence[Attempt], world: World) -> list[str | None]:
        found = [(t, missed(t, world)) for _, t in attempts]
        return [filled(self.form, answer=t.completion, missing=", ".join(names)) if names else None for t, names in found]


def missed(t: Trajectory, world: World) -> list[str]:
    """Returns the criteria with a positive weight that the answer does not meet in full; none if its reward is 1."""
    graded = zip(checklist_of(t.problem, world.task) or (), t.extra.get("grades", ()), strict=False)
    return [] if t.value >= 1 else [text for (text, weight), grade in graded if weight > 0 and grade < 1]


rgr_grpo = grpo.derive(
    "rgr_grpo",
    "Criteria give a dense reward, and the criteria that the best answer misses guide a refinement, which joins the group.",
    family="rewards",
    rollout=Refine(feedback=MissedCriteria(), of="best", count=1, keep=1, only="better", place="reserved", second=Reprompted(), name="refined"),
    reward=Checklist(WrittenPoints()),
    objective__policy__average=Joint(TokenMean()),
    objective__expert=PolicyGradient(ratio=Probability(), trust=Shaped(0.1), average=Joint(TokenMean()), source="expert"),
    objective__kl=None,
    players__reference=None,
    players__judge=Player(),
    update__count=2,
    requires=frozenset({"checklist"}),
)

_SCRIPT = {"reward.judge": "ScriptedPoints"}
_TERMS: Any = {
    "task": "instructions",
    "options": {"level": "3"},
    "own": {"rollout.feedback.form": "{answer} misses {missing}"},
    "budget": "steps=10",
}
_FIELDS = {"prompts": "8", "group": "8", "warmup": "0", "learning_rate": "3e-4", **_SCRIPT}
_STUDY = {"study.reward": "Checklist", "study.reward.judge": "ScriptedPoints", "study.problems": "64", "study.greedy": "false"}
_START = (
    "The start model is the built-in one after 200 steps of supervised fine-tuning on instructions, with and without a list of missing constraints; the "
    "built-in model alone makes hardly any refinement that scores higher"
)

claims = (
    same_weights(
        says="Without refinements, the final weights are those of GRPO with the same reward, mean over tokens and no KL term.",
        source="arXiv:2511.12344, without guidance",
        against=(
            'grpo --reward Checklist --reward.judge ScriptedPoints --objective.policy.average Joint --objective.kl none '
            "--players.reference none --update.count 2"
        ),
        task="instructions",
        own={**_SCRIPT, "rollout": "Auto"},
    ),
    Claim(
        says="Of the groups without an answer that meets all constraints, at least 10 % keep a refinement that scores above their best answer.",
        source=f"arXiv:2511.12344, guidance gives answers beyond the policy's own best; the share and the task are ours. {_START}",
        measure="refined/kept:mean",
        better_by=0.1,
        fields={**_FIELDS, "study": "none"},
        script="benchmarks.warmed rgr_grpo",
        **_TERMS,
    ),
    Claim(
        says="On instructions with four constraints, the share of held-out constraints that are met is after 10 steps 0.02 or more above that without refinements.",
        source=f"arXiv:2511.12344, comparison with rubric rewards alone; task, judge and the size of the effect are ours. {_START}",
        against="rgr_grpo --rollout Auto",
        measure="held_out/reward:last",
        better_by=0.02,
        fields={**_FIELDS, **_STUDY},
        script="benchmarks.warmed rgr_grpo-reward",
        **_TERMS,
    ),
)
