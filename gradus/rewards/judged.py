"""Rewards by a judge: of single answers, of pairs, of lists and of steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import ClassVar, Literal

from gradus.rewards.combine import Combines
from gradus.rewards.player_judge import PlayerJudge
from gradus.rewards.verdicts import Arbiter, Better, Case, FirstError, Form, Kind, ScoreLines, Verdict, YesNo
from gradus.types import NOT_APPLICABLE, Failed, Frozen, Group, Outcome, Trajectory, UserError
from gradus.types.answers import final_answer
from gradus.types.parts import Judgement, Signals, Task, World
from gradus.types.ranges import check_ranges
from gradus.types.signals import Signal
from gradus.types.spans import Separated

Against = Literal["all", "reference"]


@dataclass(frozen=True)
class Judged(Combines):
    """The judge's verdict on each answer alone, from 0 to 1.

    With `final`, the judge reads only the final answer of a completion; a completion without a final answer gets 0, and the judge is not asked. Component:
    judged. Metric: `judged/unread`, the share of cases without a verdict.
    """

    judge: Arbiter = PlayerJudge()
    form: Form = YesNo()
    final: bool = False
    unread: float | None = 0.0  # the value if the judge's text has no verdict; None: the reward failed
    name: ClassVar[str] = "judged"
    needs: ClassVar[tuple[Signal, ...]] = ()

    def __post_init__(self) -> None:
        check_kind(self, self.form, "point")

    def check(self, task: Task) -> None:
        check_judge(self.judge, self.form, task)

    async def score(self, groups: Sequence[Group], signals: Signals, world: World) -> list[list[Judgement]]:
        rows = [[self.case(t) for t in g.trajectories] for g in groups]
        asked = [case for row in rows for case in row if case is not None]
        found = iter(await decided(self.judge, self.form, asked, self.unread, world))
        return [[judgement(self.name, 0.0 if case is None else next(found)) for case in row] for row in rows]

    def case(self, t: Trajectory) -> Case | None:
        """Returns the case of an answer; None if there is no final answer to read."""
        said = final_answer(t.completion).rpartition("=")[2].strip() if self.final else t.completion
        return Case(t.id, t.problem, (said,), completion=t.completion) if said or not self.final else None


@dataclass(frozen=True)
class JudgedPairs(Combines):
    """The share of an answer's comparisons that it wins, from 0 to 1; a tie is half a win. Component: judged_pairs.

    `against` "all": every other answer of the group. "reference": the problem's reference answer. With `both_orders`, each pair is judged in both orders, and
    the mean counts; else the step's key draws the order. Comparisons that fail do not count. The reward does not apply to an answer without a comparison.
    Metrics: `judged/unread`; `judged/order`, the share of pairs whose two orders have contradictory verdicts.
    """

    judge: Arbiter = PlayerJudge()
    form: Form = Better()
    against: Against = "all"
    both_orders: bool = True
    unread: float | None = 0.5
    name: ClassVar[str] = "judged_pairs"
    needs: ClassVar[tuple[Signal, ...]] = ()
    unmarked: ClassVar[bool] = True  # no answer is marked as right

    def __post_init__(self) -> None:
        check_kind(self, self.form, "pair")
        if self.against not in ("all", "reference"):
            raise UserError(f'JudgedPairs.against is "{self.against}"; it must be "all" or "reference"')

    def check(self, task: Task) -> None:
        check_judge(self.judge, self.form, task)

    async def score(self, groups: Sequence[Group], signals: Signals, world: World) -> list[list[Judgement]]:
        matches = [match for g in groups for match in self.matches(g, world)]
        cases = [case for one, other, swapped in matches for case in self.cases(one, other, swapped)]
        found = iter(await decided(self.judge, self.form, cases, self.unread, world))
        won: dict[str, list[float | Failed]] = {t.id: [] for g in groups for t in g.trajectories}
        for one, other, swapped in matches:
            result = outcome([next(found) for _ in range(1 + self.both_orders)], swapped, world)
            won[one.id].append(result)
            if isinstance(other, Trajectory):
                won[other.id].append(result if isinstance(result, Failed) else 1 - result)
        return [[judgement(self.name, value_of(won[t.id])) for t in g.trajectories] for g in groups]

    def matches(self, group: Group, world: World) -> list[tuple[Trajectory, Trajectory | str, bool]]:
        """Returns the pairs of a group, each with True if the judge sees the second answer first."""
        pairs: list[tuple[Trajectory, Trajectory | str]]
        if self.against == "reference":
            pairs = [(t, t.problem.reference) for t in group.trajectories if t.problem.reference is not None]
        else:
            pairs = list(combinations(group.trajectories, 2))
        return [(a, b, not self.both_orders and float(world.key.fold("order", a.id, name_of(b)).uniform()) < 0.5) for a, b in pairs]

    def cases(self, one: Trajectory, other: Trajectory | str, swapped: bool) -> list[Case]:
        texts = (one.completion, other if isinstance(other, str) else other.completion)
        name = f"{one.id} {name_of(other)}"
        orders = (texts, texts[::-1]) if self.both_orders else (texts[::-1] if swapped else texts,)
        return [Case(f"{name} {i}", one.problem, order) for i, order in enumerate(orders)]


@dataclass(frozen=True)
class JudgedLists(Combines):
    """The score of an answer by a judge that reads all answers of the group together. Component: judged_lists. Metric: `judged/unread`."""

    judge: Arbiter = PlayerJudge()
    form: Form = ScoreLines()
    most: int | None = None  # largest number of answers that the judge reads together; None: the whole group
    unread: float | None = None
    name: ClassVar[str] = "judged_lists"
    needs: ClassVar[tuple[Signal, ...]] = ()
    unmarked: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_kind(self, self.form, "list")
        check_ranges(self, most="[2, inf)")

    def check(self, task: Task) -> None:
        check_judge(self.judge, self.form, task)

    async def score(self, groups: Sequence[Group], signals: Signals, world: World) -> list[list[Judgement]]:
        cases = [Case(part[0].id, part[0].problem, tuple(t.completion for t in part)) for g in groups for part in self.parts(g)]
        found = await decided(self.judge, self.form, cases, self.unread, world)
        values = iter([v if isinstance(v, Failed) else v[i] for v, case in zip(found, cases, strict=True) for i in range(len(case.answers))])
        return [[judgement(self.name, next(values)) for _ in g.trajectories] for g in groups]

    def parts(self, group: Group) -> list[Sequence[Trajectory]]:
        """Cuts the answers of a group into lists of at most `most`."""
        size = self.most or max(len(group.trajectories), 1)
        return [group.trajectories[i : i + size] for i in range(0, len(group.trajectories), size)]


@dataclass(frozen=True)
class JudgedSteps(Combines):
    """The judge finds the first wrong step. The value is 1 if no step is wrong, else 0. With `share`, the value is the share of steps before the first wrong
    step.

    `steps` cuts an answer into steps. Component: judged_steps. Logged value: `first_error`, the number of the step, -1 if there is none. Metric:
    `judged/unread`.
    """

    judge: Arbiter = PlayerJudge("detector", max_tokens=2048)
    form: Form = FirstError()
    steps: Separated = Separated()
    share: bool = False
    unread: float | None = 1.0  # the value of an answer without a verdict: all its steps count as right
    name: ClassVar[str] = "judged_steps"
    needs: ClassVar[tuple[Signal, ...]] = ()

    def __post_init__(self) -> None:
        check_kind(self, self.form, "steps")

    def check(self, task: Task) -> None:
        check_judge(self.judge, self.form, task)

    async def score(self, groups: Sequence[Group], signals: Signals, world: World) -> list[list[Judgement]]:
        cases = [self.case(t) for g in groups for t in g.trajectories]
        found = iter(await decided(self.judge, self.form, [c for c in cases if c.steps], self.unread, world))
        rows = iter([self.judgement(next(found) if case.steps else (), case) for case in cases])
        return [[next(rows) for _ in g.trajectories] for g in groups]

    def case(self, t: Trajectory) -> Case:
        text = t.completion
        return Case(t.id, t.problem, (text,), tuple(text[a:b] for a, b in self.steps.regions(text) if text[a:b].strip()))

    def judgement(self, verdict: Verdict | Failed, case: Case) -> Judgement:
        """Returns the judgement. With several texts of the judge, a step is wrong if fewer than half of them call it right."""
        if isinstance(verdict, Failed):
            return judgement(self.name, verdict)
        first = first_error(verdict if len(verdict) == len(case.steps) else verdict * len(case.steps))
        value = 1.0 if first < 0 else first / len(case.steps) if self.share else 0.0
        return Judgement(value, Frozen({self.name: value}), extra=Frozen(first_error=first))


def first_error(verdict: Verdict) -> int:
    """Returns the number of the first wrong step; -1 without a wrong step.

    >>> first_error((1.0, 0.4, 0.0)), first_error((1.0, 1.0)), first_error(())
    (1, -1, -1)
    """
    return next((i for i, right in enumerate(verdict) if right < 0.5), -1)


async def asked(judge: Arbiter, form: Form, cases: Sequence[Case], world: World) -> list[Verdict | Failed | None]:
    """Returns the judge's verdicts; None for a text without a verdict."""
    found = await judge.decide(form, cases, world) if cases else []
    for verdict in found:
        world.note("judged/unread", verdict is None)
    return found


async def decided(judge: Arbiter, form: Form, cases: Sequence[Case], unread: float | None, world: World) -> list[Verdict | Failed]:
    """Returns the judge's verdicts. A text without a verdict gives the verdict `unread`, or a failure if `unread` is None."""
    silent: Verdict | Failed = Failed("the judge's text has no verdict") if unread is None else (unread,)
    return [silent if v is None else v for v in await asked(judge, form, cases, world)]


def outcome(found: Sequence[Verdict | Failed], swapped: bool, world: World) -> float | Failed:
    """Returns the win (1, 0.5 or 0) of the first answer of a pair, by one verdict, or by the mean of the verdicts in both orders."""
    if failed := next((v for v in found if isinstance(v, Failed)), None):
        return failed
    values = [v[0] for v in found]  # type: ignore[index]
    if len(values) == 1:
        return 1 - values[0] if swapped else values[0]
    world.note("judged/order", (values[0] - 0.5) * (0.5 - values[1]) < 0)
    return (values[0] + 1 - values[1]) / 2


def value_of(won: Sequence[float | Failed]) -> Outcome:
    """Returns the mean of the comparisons that did not fail."""
    known = [w for w in won if not isinstance(w, Failed)]
    return sum(known) / len(known) if known else next((w for w in won if isinstance(w, Failed)), NOT_APPLICABLE)


def judgement(name: str, found: Verdict | Outcome) -> Judgement:
    value: Outcome = found[0] if isinstance(found, tuple) else found
    return Judgement(value, Frozen({name: value}))


def name_of(other: Trajectory | str) -> str:
    return "reference" if isinstance(other, str) else other.id


def check_kind(part: object, form: Form, kind: Kind) -> None:
    """Raises UserError if the verdicts of the form are not of this kind."""
    if form.kind != kind:
        raise UserError(f"{type(part).__name__}.form is {type(form).__name__}, whose verdicts are of the kind {form.kind}; give a form of the kind {kind}")


def check_judge(judge: Arbiter, form: Form, task: Task) -> None:
    """Raises UserError if the judge cannot judge the task's answers in this form, or does not answer."""
    if hasattr(judge, "check_form"):
        judge.check_form(form, task)
