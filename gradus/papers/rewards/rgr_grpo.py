"""RGR-GRPO: criteria of facts and steps give a dense reward, and the criteria that the best answer misses guide a refinement, which joins the group.

    r = (sum_j w_j s_j) / (sum_j w_j)
    A_i = (r_i - mean(r)) / (std(r))
    loss = -1/Z [sum_own min(rho A, clip(rho, 1 - 0.2, 1 + 0.2) A) + sum_refined f(pi(a_t)) A]
    f(x) = x / (x + 0.1)

Each question has criteria of facts (results) and of steps, with weights w. A judge marks each criterion as met (s = 1) or not. A group of 8 begins
with 7 answers. If none of them meets all criteria, the policy refines the best answer: its prompt has the question, this answer and the criteria that
the answer misses. If several answers are equally good, the shortest one is refined. A refinement that scores above the best answer joins the group;
otherwise a further answer of the policy joins it. A refinement is trained under the question alone, without the guidance. The mean and the deviation
are over the whole group. Z counts the tokens of the mini-batch, own and refined. The gradient of f is largest at unlikely tokens and has no clip, as
in luffy. There is no KL term. Metrics: `refined`, the share of groups with a refinement; `refined/kept`, the share of these groups in which a
refinement is kept.

Use if: questions have criteria that can be checked one by one, and the policy can use a list of missing criteria.
Avoid if: a list of missing criteria does not help the policy (look at `refined/kept`), or worked solutions exist (see luffy).
Reference: Bi et al., Reward and Guidance through Rubrics: Promoting Exploration to Improve Multi-Domain Reasoning, arXiv:2511.12344: rubric rewards,
refinement of the best answer by its missing criteria, the mixed policy with shaping. No public code was found.
Departures: gamma = 0.1, one refinement for 7 answers, the choice among equally good answers, and the loss of refinements without a gain are ours.
Criteria of facts and steps are treated alike. The claims use the constraints of the task instructions, with a scripted judge.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from gradus.objectives.aggregation import Joint, TokenMean
from gradus.objectives.ratios import Probability
from gradus.objectives.terms import PolicyGradient
from gradus.objectives.trust import Shaped
from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim, same_weights
from gradus.rewards.checklist import Checklist, checklist_of
from gradus.rewards.judge import WrittenPoints, filled
from gradus.rollouts.auto import Auto, one_each, rolled
from gradus.types import Group, Request, Trajectory, UserError
from gradus.types.parts import Rollout, World
from gradus.types.players import Player
from gradus.types.prompts import after, prompt_of
from gradus.types.ranges import check_ranges


@dataclass(frozen=True)
class GuidedByCriteria:
    """Refines the best answer of a group by the criteria that it misses. A refinement with a higher reward joins the group, with the source "expert".

    A request for n answers gives n - `refinements` answers first, at least one. The places without a kept refinement get further answers of `rollout`.
    """

    rollout: Rollout = Auto()
    refinements: int = 1
    form: str = "Earlier answer: {answer}\nIt misses: {missing}\nWrite a better answer."  # is added to the prompt
    plays: ClassVar[str] = "answers"

    def __post_init__(self) -> None:
        check_ranges(self, refinements="[1, inf)")
        for name in ("answer", "missing"):
            if f"{{{name}}}" not in self.form:
                raise UserError(f"GuidedByCriteria.form does not contain {{{name}}}; add it, because the policy reads only the prompt and this text")

    @property
    def test(self) -> Any:
        return getattr(self.rollout, "test", self.rollout)

    async def run(self, requests: Sequence[Request], world: World) -> list[Group]:
        """Returns one judged group per request, in order."""
        first = [replace(r, count=max(1, r.count - self.refinements)) for r in requests]
        groups = one_each(await rolled(self.rollout, first, world), first, self)
        made = [self.asked(r, f, g, world) for r, f, g in zip(requests, first, groups, strict=True)]
        asked = [(i, request) for i, request in enumerate(made) if request is not None]
        found = one_each(await rolled(self.rollout, [r for _, r in asked], world), [r for _, r in asked], self) if asked else []
        tried = {i: g for (i, _), g in zip(asked, found, strict=True)}
        kept = {i: self.better(groups[i], g, requests[i], world) for i, g in tried.items()}
        for i, group in enumerate(groups):
            world.note("refined", i in tried)
            if i in tried:
                world.note("refined/kept", bool(kept[i]))
            groups[i] = group.but(trajectories=(*group.trajectories, *kept.get(i, ())), pool=(*group.pool, *(tried[i].pool if i in tried else ())))
        rest = {i: r.count - len(g.trajectories) for i, (r, g) in enumerate(zip(requests, groups, strict=True))}
        more = [replace(requests[i], count=n, sample=requests[i].sample + first[i].count) for i, n in rest.items() if n > 0]
        for i, g in zip([i for i, n in rest.items() if n > 0], await rolled(self.rollout, more, world) if more else [], strict=True):
            groups[i] = groups[i].but(trajectories=(*groups[i].trajectories, *g.trajectories), pool=(*groups[i].pool, *g.pool))
        return groups

    def asked(self, request: Request, first: Request, group: Group, world: World) -> Request | None:
        """Returns the request for refinements; None if no place is left, an answer meets all criteria, or the prompt fills half of the player's context."""
        best = best_of(group)
        if best is None or best.value >= 1 or first.count >= request.count:
            return None
        items, grades = checklist_of(request.problem, world.task) or (), best.extra.get("grades", ())
        missing = ", ".join(text for (text, weight), g in zip(items, grades, strict=False) if weight > 0 and g < 1)
        prompt = after(prompt_of(request, world.task.system), filled(self.form, answer=best.completion, missing=missing))
        made = replace(request, count=request.count - first.count, prompt=prompt, sample=0, tags=(*request.tags, "refined"))
        return made if 2 * len(world.opening(prompt, request.player).sequence) <= world.context_length(request.player) else None

    def better(self, group: Group, tried: Group, request: Request, world: World) -> tuple[Trajectory, ...]:
        """Returns the refinements that score above the best answer, as answers to the plain prompt."""
        best = best_of(group)
        return tuple(plain(t, request, world) for t in tried.trajectories if t.failed is None and best is not None and t.value > best.value)


def best_of(group: Group) -> Trajectory | None:
    """Returns the answer with the highest reward, and the shortest of several such answers; None if no answer has a reward."""
    judged = [t for t in group.trajectories if t.failed is None]
    return min(judged, key=lambda t: (-t.value, t.actions), default=None)


def plain(t: Trajectory, request: Request, world: World) -> Trajectory:
    """Returns the refinement as an answer to the plain prompt, without the probabilities with which it was sampled."""
    prompt = world.prompt(request)
    return t.but(contexts=tuple(replace(c, parent=(prompt, len(prompt.sequence)), logprobs=None) for c in t.contexts), source="expert")


rgr_grpo = grpo.derive(
    "rgr_grpo",
    "Criteria give a dense reward, and the criteria that the best answer misses guide a refinement, which joins the group.",
    family="rewards",
    rollout=GuidedByCriteria(),
    reward=Checklist(WrittenPoints()),
    objective__policy__average=Joint(TokenMean()),
    objective__expert=PolicyGradient(ratio=Probability(), trust=Shaped(0.1), average=Joint(TokenMean()), source="expert"),
    objective__kl=None,
    players__reference=None,
    players__judge=Player(),
    requires=frozenset({"checklist"}),
)

_SCRIPT = {"reward.judge": "ScriptedPoints"}
_TERMS = {
    "prompts": "8", "group": "8", "warmup": "0", "learning_rate": "3e-4", "study.reward": "Checklist", "study.reward.judge": "ScriptedPoints",
    "study.problems": "64",
    "study.greedy": "false",
}  # fmt: skip

claims = (
    same_weights(
        says="Without refinements, the final weights are those of GRPO with the same reward, mean over tokens and no KL term.",
        source="arXiv:2511.12344, without guidance",
        against=(
            'grpo --reward Checklist --reward.judge ScriptedPoints --objective.policy.average Joint --objective.kl none '
            "--players.reference none"
        ),
        task="instructions",
        own={**_SCRIPT, "rollout": "Auto"},
    ),
    Claim(
        says="On instructions with three constraints, the share of held-out constraints that are met is after 20 steps 0.02 or more above that without refinements.",
        source="arXiv:2511.12344, comparison with rubric rewards alone; task, judge and the size of the effect are ours",
        against="rgr_grpo --rollout Auto",
        measure="held_out/reward:last",
        better_by=0.02,
        task="instructions",
        options={"level": "2"},
        fields={**_TERMS, **_SCRIPT},
        own={"rollout.form": "{answer} misses {missing}"},
        budget="steps=20",
    ),
)
