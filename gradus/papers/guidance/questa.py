"""QuestA: hard problems are trained with the first part of a worked solution in the prompt. This part becomes shorter in stages, and tests have no
hint.

    x' = x + "hint: " + (first floor(p n) words of the solution), quad n = number of its words
    p = 0.5, then 0.25
    loss = -1/Z sum_i sum_t min(rho A_i, clip(rho, 1 - 0.2, 1 + 0.2) A_i), quad A_i = (R_i - mean(R)) / (std(R))

Training uses only problems that the policy solves in at most one of 8 samples. The hint belongs to the prompt, so it is never in the loss. A hint
raises the probability of a right answer, so fewer groups have only wrong answers. The skill that follows the hint transfers, because later the policy
writes the first part itself. Sampling goes on until each group has right and wrong answers; other groups are dropped. Z counts the tokens of the
batch. There is no KL term, and one update per batch, so rho is 1. A stage ends when the held-out accuracy, measured without hints, rises by less than
0.01 in two evaluations.

Use if: worked solutions exist, and most groups of the hard problems have only wrong answers.
Avoid if: most groups are mixed (see grpo), or the solutions themselves should be imitated (see luffy, sft). To give hints only if all answers fail,
see scaf_grpo.
Reference: Li et al., QuestA: Expanding Reasoning Capacity in LLMs via Question Augmentation, arXiv:2507.13266, section 3 (p = 0.5, then 0.25; group of 16).
We read the released code (foreverlasting1202/QuestA).
Departures: The code cuts the solution at a share of its characters, and leaves out hints below 10 characters; here a hint has whole words
(`separator`). In the code a hint has the heading "## Hint.", and the solution is the text after the thoughts. The code computes advantages from
rewards that are whitened over all tokens of the batch (`--credit RewardToGo`), not from the group. The code samples with weights that are up to 4
updates old, and corrects for their age with a ratio of at most 5; here the weights are new. The code keeps groups with a success rate from 0.05 to
0.95; in groups of 16, these are the mixed groups. The learning rate of the code is 2e-5. We did not read the paper. According to a summary the paper
has a wider upper clip, but the released run has 0.2 on both sides. Each stage measures the pass rates again, with the current policy; the paper
chooses the hard problems once. The rule that ends a stage is our choice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from gradus.objectives.aggregation import TokenMean
from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim, same_weights
from gradus.rollouts.auto import Auto, rolled
from gradus.rollouts.demonstrations import answer_text
from gradus.rollouts.dynamic_sampling import DynamicSampling
from gradus.schedules.stages import Stage, Stages
from gradus.selection.filters import Mixed
from gradus.study.screen import Screened
from gradus.types import Frozen, Group, Request, UserError
from gradus.types.moments import Plateau
from gradus.types.parts import Rollout, World
from gradus.types.prompts import after, prompt_of
from gradus.types.ranges import check_ranges


def first_part(solution: str, share: float, separator: str) -> str:
    """Returns the first floor(share * n) of the n pieces of a solution.

    >>> [first_part("7+5=12 4+8+1=13 3+2+1=6 =632", share, " ") for share in (0.5, 0.25, 0.2)]
    ['7+5=12 4+8+1=13', '7+5=12', '']
    """
    pieces = solution.split(separator) if separator else list(solution)
    return separator.join(pieces[: int(share * len(pieces) + 1e-9)])


@dataclass(frozen=True)
class PartialSolution:
    """Adds the first part of the problem's worked solution to each prompt. Evaluation has no hint."""

    rollout: Rollout = Auto()
    share: float = 0.5  # share of the solution; 0: no hint
    separator: str = " "  # text between two pieces of a solution; empty: each character is a piece
    form: str = "hint: {}"  # the line added below the prompt; {} is the part of the solution
    columns: ClassVar[frozenset[str]] = frozenset({"solution"})

    def __post_init__(self) -> None:
        check_ranges(self, share="[0, 1]")
        if "{}" not in self.form:
            raise UserError(f'PartialSolution.form is "{self.form}"; it must contain {{}} at the place of the hint')

    @property
    def test(self) -> Any:
        return getattr(self.rollout, "test", self.rollout)

    async def run(self, requests: Sequence[Request], world: World) -> list[Group]:
        """Returns the groups of `rollout` for the changed requests. Raises UserError if a problem has no solution."""
        return await rolled(self.rollout, [self.changed(r, world.task.system) for r in requests], world)

    def changed(self, request: Request, system: str | None) -> Request:
        """Returns the request with the hint at the end of its prompt; the request itself if the hint is empty."""
        if request.problem.meta.get("solution") is None:
            raise UserError(f'problem {request.problem.id} has no "solution"; add this column to the row of the problem, or leave the problem out')
        part = first_part(answer_text(request.problem, "solution"), self.share, self.separator)
        return replace(request, prompt=after(prompt_of(request, system), self.form.replace("{}", part))) if part else request


HARD = Screened(low=0.0, high=0.125, samples=8)
FLAT = Plateau("held_out/accuracy", gain=0.01, evaluations=2, most=200)
_SHARE = "rollout.rollout.share"

questa = grpo.derive(
    "questa",
    "Hard problems have the first part of a worked solution in the prompt; the part shrinks in stages.",
    family="guidance",
    rollout=DynamicSampling(PartialSolution()),
    selection=Mixed(),
    objective__policy__average=TokenMean(),
    objective__kl=None,
    players__reference=None,
    schedule=Stages(
        Frozen(
            half=Stage(until=FLAT, changes=Frozen({_SHARE: 0.5}), screen=HARD),
            quarter=Stage(until=FLAT, changes=Frozen({_SHARE: 0.25}), screen=HARD),
        )
    ),
    setting__group=16,
    setting__eval_every=10,
    requires=frozenset({"solution"}),
)

_OWN = {"schedule": "ConstantSchedule", "rollout": "PartialSolution"}
_GRPO = "grpo --objective.kl none --players.reference none --objective.policy.average TokenMean --selection Mixed"

claims = (
    same_weights(
        says="Without a hint the final weights are those of GRPO on mixed groups, without a KL term and with a mean over tokens.",
        source="arXiv:2507.13266, the method at p = 0",
        against=_GRPO,
        own={**_OWN, "rollout.share": "0"},
    ),
    Claim(
        says="On hard problems, half of the solution in the prompt raises the share of groups with both kinds of answers by at least 0.5.",
        source=(
            "arXiv:2507.13266, abstract (rewards are no longer sparse); the ground, the measure and the size of the effect are ours. Stated again after a look: "
            "first as three times the trained tokens, which has no value if a run has no mixed group. On this ground two of eight groups are mixed, so three "
            "times as many are 0.5 more"
        ),
        against=_GRPO,
        measure="informative:mean",
        better_by=0.5,
        ground="sparse",
        own=_OWN,
        budget="steps=4",
        seeds=3,
    ),
    Claim(
        says="After as many updates with hints, pass@16 without hints on hard problems is at least 0.03 above that of GRPO.",
        source="arXiv:2507.13266, abstract (capacity, pass@k); the ground, the number of steps and the size of the effect are ours",
        against=_GRPO,
        measure="pass@16",
        better_by=0.03,
        ground="sparse",
        own=_OWN,
        budget="steps=6",
        seeds=3,
    ),
)
