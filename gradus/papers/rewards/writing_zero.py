"""Writing-Zero: a judge compares every answer with one random answer of its group. An answer that wins earns 1, any other answer -1.

    r_i = 1 "if" s_i > s_u, "else" -1, quad i != u
    A_i = r_i, quad A_u = 0
    loss = 1/N sum_i 1/(|o_i|) sum_t -min(rho_(i,t) A_i, clip(rho_(i,t), 1 - 0.2, 1 + 0.2) A_i)
    "a group counts if" |1/(G-1) sum_(i != u) r_i| <= 0.8

This is Bootstrapped Relative Policy Optimization (BRPO). Each step draws a new answer u, with equal chances for all answers of the group. The judge, a
pairwise generative reward model, states principles for the query, criticises both answers, and gives each a score s from 0 to 10. A tie counts as a loss.
The two answers are shown in random order. The advantage is the reward itself, without mean and deviation. Without ties its expectation is 0, because
u comes from the same policy. A group is dropped if the other answers have a mean above 0.8 or below -0.8, because u is then far worse or better than the
other answers. There is no KL term, and the training starts from a base model.

The judge learns in two stages. In the first stage, the judge imitates critiques with the right preference. In the second stage, the judge learns by RL with
the reward `preferred`. If the preferred text has the higher score, this reward is 1, plus 0.1 for each point of the gap up to 3 points; else it is -1.

Use if: quality has no verifier, and a judge of pairs is more reliable than single scores, which the policy exploits, for example by length.
Avoid if: answers can be verified (see grpo), or ties are frequent.
Reference: Jia et al., Writing-Zero: Bridge the Gap Between Non-verifiable Tasks and Verifiable Rewards, arXiv:2506.00103: the judge, BRPO and the
filter. No code is public.
Departures: Our own choices are the bound 0.8, the bonus for the gap, 8 answers per group, the clip 0.2, one update per batch (so the clip never acts)
and the missing KL term, because no numbers were found in the paper. The paper can also take the majority of several texts of the judge
(`--reward.pairs.judge.samples`). The two stages of the judge are not recipes here; its reward is `preferred`. If the judge's text has no scores, chance
decides, so the expectation of A stays 0. In the claims, the judge is scripted: it knows the hidden rules and errs in a tenth of the pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from gradus.credit.groups import BatchBaseline
from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim
from gradus.rewards.combine import Combines, check_reward
from gradus.rewards.judged import asked, check_judge, check_kind, judgement, outcome
from gradus.rewards.player_judge import PlayerJudge
from gradus.rewards.verdicts import Arbiter, Case, Form, Kind, ScoreLines, Verdict, won
from gradus.types import NOT_APPLICABLE, Frozen, Group, Key, Trajectory
from gradus.types.parts import Judgement, Signals, Task, World
from gradus.types.players import Player
from gradus.types.ranges import check_ranges
from gradus.types.signals import Signal


@dataclass(frozen=True)
class ScoredPair:
    """Compares two answers by scores: the judge writes a line "NUMBER: SCORE" for each answer, and the higher score wins."""

    template: str = (
        "Query:\n{problem}\n\n{answers}\n\nState the principles by which this query should be answered. Criticise each answer. End with a score from 0 to 10 for "
        "each answer, on lines such as 1: 7\n"
    )
    kind: ClassVar[Kind] = "pair"

    @property
    def scores(self) -> ScoreLines:
        """The form of the two scores."""
        return ScoreLines(self.template)

    def prompt(self, case: Case) -> str:
        return self.scores.prompt(case)

    def read(self, text: str, case: Case) -> Verdict | None:
        found = self.scores.read(text, case)
        return None if found is None else (won(*found),)


FORM = ScoredPair()


def preferred(text: str, first: bool) -> float:
    r"""Returns the reward of the judge for its text about two answers. People prefer the first answer if `first` is set, else the second answer.

    >>> round(preferred("1: 8\n2: 6", True), 6), preferred("1: 8\n2: 1", True), preferred("1: 8\n2: 8", True), preferred("none", False)
    (1.2, 1.3, -1.0, -1.0)
    """
    scores = FORM.scores.read(text, Case("", None, ("", "")))  # type: ignore[arg-type]
    gap = 0.0 if scores is None else (scores[0] - scores[1]) * FORM.scores.high * (1 if first else -1)
    return 1 + 0.1 * min(gap, 3.0) if gap > 1e-9 else -1.0


@dataclass(frozen=True)
class DrawnPairs(Combines):
    """The score is 1 for an answer that beats the drawn answer of its group, 0.5 for a tie and for the drawn answer, and 0 for a loss.

    The step's key draws the answer u, and the order of the two answers in each pair. If the judge's text has no scores, the key decides the pair.
    The reward does not apply to a group of one. Metric: `judged/unread`.
    """

    judge: Arbiter = PlayerJudge("judge", max_tokens=1024)
    form: Form = FORM
    name: ClassVar[str] = "judged_pairs"
    needs: ClassVar[tuple[Signal, ...]] = ()
    unmarked: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_kind(self, self.form, "pair")

    def check(self, task: Task) -> None:
        check_judge(self.judge, self.form, task)

    def drawn(self, group: Group, world: World) -> Trajectory | None:
        """Returns the answer that all other answers are compared with; None in a group of one."""
        count = len(group.trajectories)
        return group.trajectories[int(world.key.fold("compared with", group.key).uniform() * count)] if count > 1 else None

    async def score(self, groups: Sequence[Group], signals: Signals, world: World) -> list[list[Judgement]]:
        drawn = [self.drawn(g, world) for g in groups]
        pairs = [(t, u) for g, u in zip(groups, drawn, strict=True) if u is not None for t in g.trajectories if t is not u]
        swapped = [float(world.key.fold("order", t.id, u.id).uniform()) < 0.5 for t, u in pairs]
        cases = [
            Case(f"{t.id} {u.id} 0", t.problem, (u.completion, t.completion) if last else (t.completion, u.completion))
            for (t, u), last in zip(pairs, swapped, strict=True)
        ]
        found = [coin(c, world) if v is None else v for c, v in zip(cases, await asked(self.judge, self.form, cases, world), strict=True)]
        won = {t.id: outcome([v], last, world) for (t, _), v, last in zip(pairs, found, swapped, strict=True)}
        return [
            [judgement(self.name, 0.5 if t is u else won.get(t.id, NOT_APPLICABLE)) for t in g.trajectories] for g, u in zip(groups, drawn, strict=True)
        ]


def coin(case: Case, world: World) -> Verdict:
    """Returns 0 or 1 with equal chances."""
    return (float(world.key.fold("coin", case.id).uniform() < 0.5),)


@dataclass(frozen=True)
class Bootstrapped(Combines):
    """The reward is 1 for an answer that beats the drawn answer of its group, 0 for the drawn answer, and -1 for any other answer."""

    pairs: DrawnPairs = DrawnPairs()
    name: ClassVar[str] = "bootstrapped"
    unmarked: ClassVar[bool] = True  # a win marks no answer as right

    @property
    def needs(self) -> tuple[Signal, ...]:
        return self.pairs.needs

    def check(self, task: Task) -> None:
        check_reward(self.pairs, task)

    async def score(self, groups: Sequence[Group], signals: Signals, world: World) -> list[list[Judgement]]:
        found = await self.pairs.score(groups, signals, world)
        drawn = [self.pairs.drawn(g, world) for g in groups]
        return [
            [self.judged(j, t is u) for j, t in zip(row, g.trajectories, strict=True)] for row, g, u in zip(found, groups, drawn, strict=True)
        ]

    def judged(self, found: Judgement, drawn: bool) -> Judgement:
        if not isinstance(found.reward, int | float):
            return found
        value = 0.0 if drawn else 1.0 if found.reward > 0.5 else -1.0
        return replace(found, reward=value, components=Frozen({self.name: value}))


@dataclass(frozen=True)
class NotOneSided:
    """Keeps groups whose rewards have a mean within [-most, most]. The drawn answer, with the reward 0, does not count."""

    most: float = 0.8

    def __post_init__(self) -> None:
        check_ranges(self, most="[0, 1)")

    def keep(self, groups: Sequence[Group], key: Key) -> tuple[list[Group], list[Group]]:
        kept = [g for g in groups if self.keeps(g)]
        return kept, [g for g in groups if g not in kept]

    def keeps(self, group: Group) -> bool:
        decided = group.rewards[group.rewards != 0]
        return len(decided) > 0 and abs(float(decided.mean())) <= self.most


writing_zero = grpo.derive(
    "writing_zero",
    "A judge compares every answer with one random answer of its group, and the win or loss is the advantage.",
    family="rewards",
    reward=Bootstrapped(),
    selection=NotOneSided(),
    credit=BatchBaseline("none"),
    objective__kl=None,
    players__reference=None,
    players__judge=Player(),
)

claims = (
    Claim(
        says="Judged in pairs, with a tenth of the pairs reversed, the held-out verdict of the hidden rules of stories rises by at least 0.1 in 40 steps.",
        source="arXiv:2506.00103, main results; task, judge and the size of the effect are ours",
        measure="held_out/reward:gain",
        better_by=0.1,
        task="stories",
        model="gradus/policies/tiny/words",
        fields={
            "setting.prompts": "8", "setting.group": "8", "warmup": "0", "learning_rate": "3e-4", "reward.pairs.judge": "ScriptedJudge(reversed=0.1)",
            "study.reward": "Verified", "study.greedy": "false", "study.problems": "64",
        },
        budget="steps=40",
        seeds=3,
    ),
)  # fmt: skip
