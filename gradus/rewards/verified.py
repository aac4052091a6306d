"""The task's own verdict: its judge of whole trajectories, its verifier of completions, or the return of its environment."""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar

from gradus.rewards.calling import failure_of, outcome
from gradus.rewards.combine import Combines
from gradus.rewards.environment import EnvironmentReturn
from gradus.rewards.functions import check_limits, in_pool
from gradus.rewards.pool import Pool, pool_of
from gradus.rewards.round import Limits, Question
from gradus.types import Failed, Frozen, Group, Outcome, Problem, Trajectory, UserError
from gradus.types.packing import packed
from gradus.types.parts import Judgement, OfSeveral, Signals, Task, Together, World
from gradus.types.ranges import check_ranges
from gradus.types.signals import Signal
from gradus.types.user_code import Located


@dataclass(frozen=True)
class Verified(Combines):
    """What the task says: `task.judge` of the trajectory, else `task.verify` of the completion, else the sum of its environment's rewards.

    A verdict that raises, or is anything but a finite number, has failed. A verifier of a user's file (--task FILE.py:NAME) is called in
    worker processes, an answer a call, and one that hangs or takes too much memory has failed; so it is not for problems that hold what
    JSON cannot (sets, objects), whose verifier is called in this process. The tasks that come with the package are judged in this process, too.
    """

    timeout: float = 60.0  # seconds that the verifier of a user's file may take for an answer
    memory: float = 4.0  # GiB that its process may take beside what loading the file took; 0: no limit
    retries: int = 1  # how often an answer is put to it again where it timed out, ran out of memory or its process died
    workers: int | None = None  # processes at most; None: one a core
    name: ClassVar[str] = "verified"
    needs: ClassVar[tuple[Signal, ...]] = ()

    def __post_init__(self) -> None:
        check_limits("verified", self.timeout, self.memory)
        check_ranges(self, retries="[0, inf)", workers="[1, inf)")

    @property
    def limits(self) -> Limits:
        return Limits(self.timeout, int(self.memory * (1 << 30)), self.retries, self.workers)

    async def score(self, groups: Sequence[Group], signals: Signals, world: World) -> list[list[Judgement]]:
        self.check(world.task)
        if world.task.judge is None and world.task.verify is None:
            return await EnvironmentReturn().score(groups, signals, world)
        if world.task.judge is None and isinstance(world.task.verify, Located):
            asked = {t.id: _sent(t) for g in groups for t in g.trajectories if not isinstance(t.reward, Failed)}
            if None not in asked.values():
                return await self._in_processes(groups, asked, world.task.verify, world)
            warnings.warn(
                f"the verifier of task {world.task.name} is called in this process, where nothing can end it, since its problems hold what JSON "
                "cannot; give answer and meta as text, numbers, lists and mappings",
                stacklevel=2,
            )
        found = await _together([t for group in groups for t in group.trajectories], world)
        return [[found[t.id] if t.id in found else _judged(t, world.task) for t in group.trajectories] for group in groups]

    async def _in_processes(
        self, groups: Sequence[Group], asked: dict[str, dict[str, Any] | None], verify: Located, world: World
    ) -> list[list[Judgement]]:
        call = world.call(self.name)
        places = {t: f"{call}/{n}" for n, t in enumerate(asked)}
        found: dict[str, Outcome] = {t: Failed.read(told) for t, place in places.items() if (told := world.fact(place)) is not None}
        new = [t for t in asked if t not in found]
        problems = {t.id: t.problem.id for g in groups for t in g.trajectories}
        questions = [Question(asked[t] or {}, 1, f"problem {problems[t]}") for t in new]
        pool: Pool = pool_of(verify.spec, "task", verify.options)
        answers = await in_pool(pool, lambda: pool.ask(questions, self.limits), world, f"the verifier of task {world.task.name}")
        for t, answer in zip(new, answers, strict=True):
            found[t] = judged = answer if isinstance(answer, Failed) else answer[0]
            if isinstance(judged, Failed) and judged.kind.chance:
                world.decide(places[t], judged.told)
        return [[_judgement(found.get(t.id, t.reward)) for t in g.trajectories] for g in groups]  # type: ignore[arg-type]

    def check(self, task: Task) -> None:
        """Raises UserError where the task has no way to tell, or lacks what its verifier needs of this machine."""
        for verify in task.verify.all() if isinstance(task.verify, OfSeveral) else [task.verify]:
            if isinstance(verify, Together):
                verify.check()
        if task.judge is None and task.verify is None and task.environment is None:
            raise UserError(
                f'task {task.name} cannot tell right from wrong: its problems have no answers; add a column "answer" '
                "or give a reward function (--reward FILE.py:FUNCTION)"
            )


def verdict(task: Task, trajectory: Trajectory) -> Outcome:
    """What the task says of one trajectory; errors of its judge or verifier are failures, whatever they are."""
    if isinstance(trajectory.reward, Failed):  # a rollout may have failed before there was anything to judge
        return trajectory.reward
    try:
        if task.judge is not None:
            return outcome(task.judge(trajectory))
        assert task.verify is not None
        return outcome(task.verify(trajectory.problem, trajectory.completion))
    except (Exception, SystemExit) as error:  # a task's verifier may be a user's
        return failure_of(error, who="the verifier ")


async def _together(trajectories: Sequence[Trajectory], world: World) -> dict[str, Judgement]:
    """Judgements by id, of those whose verifier judges many at once; in a mixture, that of the task that a problem is of."""
    if world.task.judge is not None:
        return {}
    asked: dict[int, tuple[Together, list[Trajectory]]] = {}
    for t in trajectories:
        verify: Any = world.task.verify.of(t.problem) if isinstance(world.task.verify, OfSeveral) else world.task.verify
        if isinstance(verify, Together) and not isinstance(t.reward, Failed):
            asked.setdefault(id(verify), (verify, []))[1].append(t)
    found: dict[str, Judgement] = {}
    for verify, own in asked.values():
        values = await verify.together(own, world)
        found |= {t.id: _judgement(outcome(value)) for t, value in zip(own, values, strict=True)}
    return found


def _judged(trajectory: Trajectory, task: Task) -> Judgement:
    return _judgement(verdict(task, trajectory))


def _judgement(value: Outcome) -> Judgement:
    return Judgement(value, Frozen({Verified.name: value}))


def _sent(trajectory: Trajectory) -> dict[str, Any] | None:
    """What the verifier's process is given; None where JSON has no form for it."""
    problem = packed({f.name: getattr(trajectory.problem, f.name) for f in fields(Problem)})
    sent = {"problem": problem, "completion": trajectory.completion}
    try:
        json.dumps(sent)
    except TypeError:
        return None
    return sent
