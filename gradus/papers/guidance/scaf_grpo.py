"""Scaf-GRPO: if all answers to a problem are wrong, a right answer with the smallest sufficient hint replaces one answer. So the group has a gradient.

    y_l ~ pi_old(y | x, h_l), quad l = 1, ..., 12
    k = min {l : y_l right}, quad o_1 becomes y_k
    A_i = (r_i - mean(r)) / (std(r))
    loss = 1/G sum_i 1/|o_i| sum_t -min(rho_(i,t) A_i, clip(rho_(i,t), 1 - 0.2, 1 + 0.2) A_i)

The hints $h_l$ to a problem x go from abstract to concrete and are added to the prompt. There are three kinds, knowledge, planning and solution, each
in 4 parts: levels 1-4, 5-8, 9-12. A level shows one more part of its kind than the level before: level 6, for example, shows the first two parts of
the kind planning. For a group without a right answer the policy $pi_old$ writes one answer $y_l$ at every level l, and k is the lowest level with a
right answer. $y_k$ replaces the group's first wrong answer $o_1$. Advantages and loss are computed on the new group of G answers $o_i$ with $|o_i|$
tokens: $A_i$ is the advantage of reward $r_i$, and rho the ratio of each token. There is no KL term. The replacing answer keeps the prompt with the
hint from which it was sampled. So the ratio of this answer is 1 before the first update, as for any other sample.

If no level gives a right answer, the group is unchanged and has advantage zero. In the first 15 % of training there are no hints, because the only
fault of early answers is often their form. Evaluation has no hints. An answer whose reward failed is not right and is not replaced. Metrics:
hints/KIND, the share of the hard problems whose lowest solving level is of this kind.

Use if: many problems are never solved by the policy alone, and hints of rising detail exist for them.
Avoid if: most groups already have a right answer (see grpo, dapo). If there are worked solutions but no hints, see luffy or chord.
Reference: Zhang et al., Scaf-GRPO: Scaffolded Group Relative Policy Optimization for Enhancing LLM Reasoning, arXiv:2510.19807. The 15 % without
hints, the three kinds and the four parts are the paper's. Four updates per batch are as in the released script (256 problems, 64 per update), so that
the clip acts. All levels are sampled together, as in the released code, although sampling level by level could stop at k. Every sample has its own
random key, so both ways give the same k and $y_k$.
Departures: The word "hint:" comes before the text. "Wrong" means that the task's verifier gives less than the full reward. In the released code the
first 50 steps have no hints, the mean is over all tokens, and the loss is constant above ratio 3 if A < 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim
from gradus.rollouts.auto import Auto, rolled
from gradus.rollouts.hints import Hint, hinted, ladder
from gradus.types import Frozen, Group, Request, Trajectory, UserError
from gradus.types.parts import Rollout, World


@dataclass(frozen=True)
class Scaffold:
    """If a group has no right answer, replaces a wrong answer by a right answer that was given with the lowest possible level of hints."""

    rollout: Rollout = Auto()  # gives one judged group per request
    exempt: float = 0.15  # share of training, at its start, without hints; 1: there are never hints
    kinds: tuple[str, ...] = ("knowledge", "planning", "solution")  # kinds of hints, from abstract to concrete
    form: str = "hint: {}"  # the line added below the prompt; {} is the hint
    asks_right: ClassVar[str] = "Auto"  # the part to use instead if no answer is marked as right

    def __post_init__(self) -> None:
        if not 0 <= self.exempt <= 1:
            raise UserError(f"Scaffold.exempt is {self.exempt}; it must be a share of the training, from 0 to 1")
        if "{}" not in self.form:
            raise UserError(f'Scaffold.form is "{self.form}"; it must contain {{}} at the place of the hint')

    @property
    def test(self) -> Any:
        return getattr(self.rollout, "test", self.rollout)

    async def run(self, requests: Sequence[Request], world: World) -> list[Group]:
        """Returns one judged group per request, in order. Raises UserError if a hard problem has no hints."""
        groups = await rolled(self.rollout, requests, world)
        if world.progress < self.exempt:
            return groups
        hard = [(i, ladder(r.problem, self.kinds)) for i, (r, g) in enumerate(zip(requests, groups, strict=True)) if g.accuracy == 0.0]
        asked = [hinted(requests[i], hint, self.form, world.task.system) for i, hints in hard for hint in hints]
        answers = iter(await rolled(self.rollout, asked, world)) if asked else iter(())
        for i, hints in hard:
            tried = [(hint, next(answers)) for hint in hints]
            groups[i], found = repaired(groups[i], tried)
            for kind in self.kinds:
                world.note(f"hints/{kind}", float(found is not None and found.kind == kind))
        return groups


def repaired(group: Group, tried: Sequence[tuple[Hint, Group]]) -> tuple[Group, Hint | None]:
    """Replaces the first wrong answer by the right answer of the lowest level. Returns the group and the hint. If there is no right answer, the
    answers stay the same, and the hint is None.

    `tried` has one answer per level, from the lowest. The group's `pool` gets the rewards of all tried answers.
    """
    pool = (*group.pool, *(reward for _, answer in tried for reward in answer.pool))
    for hint, answer in tried:
        (better,) = answer.trajectories
        if better.failed is None and better.right:
            at = next(i for i, t in enumerate(group.trajectories) if t.failed is None)
            return group.but(trajectories=_with(group.trajectories, at, marked(better, hint)), pool=pool), hint
    return group.but(pool=pool), None


def marked(trajectory: Trajectory, hint: Hint) -> Trajectory:
    """Returns the trajectory with `hint` in its links."""
    return trajectory.but(links=Frozen({**trajectory.links, "hint": hint.level, "hint_kind": hint.kind}))


def _with(trajectories: tuple[Trajectory, ...], at: int, new: Trajectory) -> tuple[Trajectory, ...]:
    return (*trajectories[:at], new, *trajectories[at + 1 :])


scaf_grpo = grpo.derive(
    "scaf_grpo",
    "In groups without a right answer, a right answer that needed the smallest hint replaces a wrong answer.",
    family="guidance",
    rollout=Scaffold(),
    objective__kl=None,
    players__reference=None,
    update__count=4,
    requires=frozenset({"hints"}),
)

claims = (
    Claim(
        says=(
            "On countdown at level 3, hints give a gradient to groups without a right answer: over 8 steps the share of groups with a gradient is "
            "at least 0.05 higher."
        ),
        source="arXiv:2510.19807, the learning cliff of groups without a right answer; the size of the effect and the task are ours",
        against="grpo --objective.kl none --players.reference none --update.count 4",
        measure="informative:mean",
        better_by=0.05,
        task="countdown",
        options={"level": "3"},
        fields={"prompts": "4", "group": "4", "warmup": "0", "study": "none", "learning_rate": "3e-4"},
        own={"rollout.exempt": "0.0"},
        budget="steps=8",
    ),
)
