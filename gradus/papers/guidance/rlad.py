"""RLAD: one player writes short hints for a problem, and a second one solves the problem with a hint. The first player earns the success of the second.

    z_h ~ pi_abs(z | x), quad y_(h,j) ~ pi_sol(y | x, z_h), quad h = 1, ..., 4, quad j = 1, ..., 8
    r(z_h) = 1/8 sum_j Acc(y_(h,j))
    A_(h,j) = (Acc(y_(h,j)) - mean_j) / (std_j), quad A = 0 "for answers without a hint"
    loss_sol = 1/T sum_t [-min(rho_t A, clip(rho_t, 1 - 0.2, 1 + 0.28) A) + 0.001 k_3]
    loss_abs = -mean log pi_abs(z) quad "of the best hint of a problem, if it beats the success without a hint"

The abstraction generator $pi_abs$ writes hints $z_h$: a fact, a procedure or a pitfall, without the answer. The solver $pi_sol$ answers the problem x with each
hint; the answers to one problem and one hint are a group. The solver also answers x without a hint. Answers without a hint have advantage zero, so
only the KL term acts on them. Such answers keep the solver near its reference on prompts without a hint, and give the solver no reason to ignore
hints. T counts the tokens of all answers.

The reward of a hint is r(z) minus the share of right answers without a hint. A hint that contains the answer is rejected: the solver does not see it, and its
r is 0. The best hint of each problem, one of four, is imitated if its reward is above 0. Both players start from the same model, which was fine-tuned on hints
and on answers with hints, and learn in every step. Evaluation has plain prompts. Metrics: hints/value (mean r), hints/gain (mean of r minus success without
hint), hints/rejected.

Use if: problems share procedures that a short text can name, and a solver uses such a text.
Avoid if: the solver ignores hints, or sampling is the bottleneck, because a step has 4 groups of answers with hints and one group without a hint per problem
(see grpo).
Reference: Qu et al., RLAD: Training LLMs to Discover Abstractions for Solving Reasoning Problems, arXiv:2510.02263: two players, the solver's success as reward of
an abstraction, answers without an abstraction, whose reward is masked, fine-tuning of the generator on good abstractions, KL and clip of the solver.
Departures: No code was found. Our own choices are the group sizes, the imitated share of a quarter, and the rule that finds the answer in a hint (as a word
of the text). Here both players learn in each step; the paper trains them one after the other. Three parts are left out: the warm start by
a stronger model, the curriculum by difficulty, and the split of a test budget between hints and answers. A step makes one update, as in grpo, so the
clip acts only with `--update.count 2` or more. Groups with equal rewards are kept, unlike in dapo.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from gradus.credit.groups import Constant, GroupRelative
from gradus.objectives.aggregation import SequenceMean, TokenMean
from gradus.objectives.terms import Imitation
from gradus.objectives.trust import Clip
from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim, same_weights
from gradus.rollouts.auto import Auto, one_each, rolled
from gradus.rollouts.ids import group_name
from gradus.rollouts.single_turn import one_turn
from gradus.selection.filters import Best
from gradus.types import Frozen, Group, Key, Problem, Request
from gradus.types.parts import Credit, Credited, Rollout, Signals, World
from gradus.types.players import Copy, Player
from gradus.types.prompts import after, prompt_of
from gradus.types.ranges import check_ranges
from gradus.types.returned import assigned
from gradus.types.signals import Signal

ASK = "Write a hint for this problem."
HINT = "hint"  # the link of an answer with a hint: the id of the hint


@dataclass(frozen=True)
class Hinted:
    """Lets `player` write `hints` hints per problem. The policy answers the problem with each hint, and without a hint. The hints and the answers
    with a hint are auxiliary groups."""

    rollout: Rollout = Auto()
    hints: int = 4
    solutions: int = 8  # number of answers per hint
    player: str = "abstractor"
    plays: ClassVar[str] = "answers"
    names_players: ClassVar[tuple[str, ...]] = ("player",)

    def __post_init__(self) -> None:
        check_ranges(self, hints="[0, inf)", solutions="[1, inf)")

    @property
    def test(self) -> Any:
        return getattr(self.rollout, "test", self.rollout)

    async def run(self, requests: Sequence[Request], world: World) -> list[Group]:
        """Returns one judged group of answers without a hint per request."""
        bare = one_each(await rolled(self.rollout, requests, world), requests, self)
        if not self.hints:
            return bare
        wanted = [replace(r, count=self.hints, player=self.player, prompt=after(prompt_of(r, world.task.system), ASK), tags=(*r.tags, "hints")) for r in requests]
        written = [[one_turn(r, i, c, world) for i, c in enumerate(row)] for r, row in zip(wanted, await world.sample(wanted), strict=True)]
        asked = {
            z.id: replace(r, count=self.solutions, prompt=after(prompt_of(r, world.task.system), f"hint: {z.completion.strip()}"), tags=(*r.tags, "with", z.id))
            for r, row in zip(requests, written, strict=True)
            for z in row
            if not reveals(z.completion, r.problem)
        }
        made = one_each(await rolled(self.rollout, list(asked.values()), world), list(asked.values()), self) if asked else []
        solved = dict(zip(asked, made, strict=True))
        world.also([g.but(trajectories=tuple(t.but(links=Frozen({**t.links, HINT: name})) for t in g.trajectories)) for name, g in solved.items()])
        world.also([self._judged(r, row, solved, g.accuracy or 0.0, world) for r, row, g in zip(wanted, written, bare, strict=True)])
        return bare

    def _judged(self, request: Request, hints: Sequence[Any], solved: dict[str, Group], without: float, world: World) -> Group:
        """Returns the group of a problem's hints with their rewards. `without`: the share of right answers without a hint."""
        values = [(solved[z.id].accuracy or 0.0) if z.id in solved else 0.0 for z in hints]
        for z, value in zip(hints, values, strict=True):
            world.note("hints/value", value)
            world.note("hints/gain", value - without)
            world.note("hints/rejected", float(z.id not in solved))
        judged = tuple(z.but(reward=v - without, components=Frozen(hint=v)) for z, v in zip(hints, values, strict=True))
        return Group(group_name(request), judged, pool=tuple(v - without for v in values))


def reveals(hint: str, problem: Problem) -> bool:
    """Returns whether the answer of a problem occurs in the hint as a word, in upper or lower case. A problem without an answer is never revealed.

    >>> reveals("the end is Lanet", Problem("p", "t", text="q", answer="lanet"))
    True
    """
    if problem.reference is None:
        return False
    said, answer = " ".join(hint.split()).casefold(), " ".join(problem.reference.split()).casefold()
    return f" {answer} " in f" {said} "


@dataclass(frozen=True)
class HintedOnly:
    """The advantages of `rule` for answers with a hint, 0 for all other trajectories. Weights and returns come from `rule`."""

    rule: Credit = GroupRelative()

    @cached_property
    def needs(self) -> tuple[Signal, ...]:
        return self.rule.needs

    def assign(self, groups: Sequence[Group], signals: Signals) -> list[list[Credited]]:
        rows = assigned(self.rule, groups, signals)
        return [
            [c if HINT in t.links else replace(c, advantages=np.zeros(t.actions)) for t, c in zip(g.trajectories, row, strict=True)]
            for g, row in zip(groups, rows, strict=True)
        ]


@dataclass(frozen=True)
class UsefulHints:
    """Keeps the best hint of each problem if its reward is above 0, that is, if the hint helps the solver."""

    def keep(self, groups: Sequence[Group], key: Key) -> tuple[list[Group], list[Group]]:
        kept, dropped = [], []
        for group in groups:
            best = [g for g in Best(1).keep([group], key)[0] if g.trajectories[0].value > 0]
            kept += best
            dropped += [] if best else [group]
        return kept, dropped


rlad = grpo.derive(
    "rlad",
    "A player writes hints and earns the success of the solver, which learns from its answers with a hint.",
    family="guidance",
    rollout=Hinted(),
    credit=HintedOnly(),
    objective__policy__trust=Clip(0.2, 0.28),
    objective__policy__average=TokenMean(),
    objective__kl__coefficient=0.001,
    players__abstractor=Player(
        Copy("policy"), Frozen(imitation=Imitation(average=SequenceMean(), source="policy")), credit=Constant(), selection=UsefulHints()
    ),
    setting__group=16,
)

claims = (
    same_weights(
        says="Without hints, and with advantages for answers without a hint, the solver's final weights are those of GRPO.",
        source="arXiv:2510.02263, without the abstraction generator",
        against="grpo --objective.policy.trust.high 0.28 --objective.policy.average TokenMean --objective.kl.coefficient 0.001",
        own={"rollout.hints": "0", "credit": "GroupRelative"},
    ),
    Claim(
        says="In the last of 8 steps, success with generated hints exceeds success without hints by at least 0.05.",
        source=(
            "arXiv:2510.02263, success with and without abstractions; the size of the effect, the task and the sizes are ours. Not seen (0) with an earlier "
            "start model on string functions, which solved almost nothing with a hint; so the claim is stated again with another task. The start model is the "
            "built-in one after 150 steps of supervised fine-tuning on arithmetic with three digits: the answer alone to plain problems, worked solutions if "
            "text follows the problem, such as a hint"
        ),
        measure="hints/gain:last",
        better_by=0.05,
        task="arithmetic",
        options={"level": "3"},
        fields={
            "prompts": "4", "group": "4", "warmup": "0", "study": "none", "learning_rate": "3e-4", "rollout.hints": "4", "rollout.solutions": "4",
        },
        budget="steps=8",
        script="benchmarks.warmed rlad",
    ),
)  # fmt: skip
