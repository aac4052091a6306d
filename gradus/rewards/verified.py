"""The reward `Verified`: the verdict of the task's judge, verifier or environment."""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, ClassVar

from gradus.rewards.combine import Combines
from gradus.rewards.environment import EnvironmentReturn
from gradus.rewards.functions import check_limits, in_pool
from gradus.runtime.user_code import Located
from gradus.types import Failed, Frozen, Group, Outcome, Problem, Trajectory, UserError
from gradus.types.packing import packed
from gradus.types.parts import Apart, Judgement, OfSeveral, Signals, Task, Together, Verify, World
from gradus.types.ranges import check_ranges
from gradus.types.signals import Signal
from gradus.workers.call_queue import Limits, Question
from gradus.workers.in_process import one_by_one
from gradus.workers.pool import Pool, pool_of
from gradus.workers.trl_signature import failure_of, outcome, outcomes


@dataclass(frozen=True)
class Verified(Combines):
    """The task's verdict on a trajectory.

    If the task has `judge`, the verdict is `task.judge` of the trajectory. If the task has `verify` and no `judge`, the verdict is `task.verify` of the
    completion. Without `judge` and `verify`, the verdict is the sum of the environment's rewards.

    A verdict has failed if its function raises or exceeds the time limit, or if the verdict is not a finite number. A verifier from a user's file (--task
    FILE.py:NAME, also within a mixture) runs in worker processes, one answer per call. A verifier of the package runs in processes only if the recipe's
    system has processes for verifiers. All other verifiers run in this process, and a timer interrupts them. This includes every verifier given in Python. It
    also includes a file's verifier if its problems have values that JSON cannot represent.
    """

    timeout: float = 60.0  # seconds per answer
    memory: float = 4.0  # GiB that a process of a file's verifier may use in addition to the loaded file; 0: no limit
    retries: int = 1  # repeats for an answer that timed out, ran out of memory or lost its process
    workers: int | None = None  # largest number of processes; None: one per core
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
        whole = [t for g in groups for t in g.trajectories if not isinstance(t.reward, Failed)]
        facts = _Facts(whole, world, self.name)
        for verify, asked in _by_verifier([t for t in whole if t.id not in facts.found], world.task):
            if isinstance(verify, Together):
                facts.found |= dict(zip((t.id for t in asked), await _of_many(verify, asked, world), strict=True))
            elif isinstance(verify, Apart):
                with world.waiting(f"the verifier of task {asked[0].problem.task}", f"{len(asked)} answers, in other processes"):
                    facts.add(asked, await verify.apart(asked, self.timeout, self.retries))
            elif isinstance(verify, Located) and None not in (sent := [_sent(t) for t in asked]):
                facts.add(asked, await self._in_processes(asked, sent, verify, world))
            else:
                facts.add(asked, self._in_this_process(asked, verify, world))
        return [[_judgement(facts.found.get(t.id, t.reward)) for t in g.trajectories] for g in groups]  # type: ignore[arg-type]

    async def _in_processes(self, asked: Sequence[Trajectory], sent: Sequence[Any], verify: Located, world: World) -> list[Outcome]:
        pool, what = _pool_of(verify), f"the verifier of task {asked[0].problem.task}"
        return await in_pool(pool, lambda: _from_pool(pool, asked, sent, self.limits), world, what)

    def _in_this_process(self, asked: Sequence[Trajectory], verify: Verify | None, world: World) -> list[Outcome]:
        task, current = world.task, 0
        if isinstance(verify, Located):
            warnings.warn(
                f"the verifier of task {task.name} is called in this process, without a memory limit and with a time limit that interrupts only Python, "
                "because its problems contain values that JSON cannot represent; give answer and meta as text, numbers, lists and mappings",
                stacklevel=3,
            )

        def begun(number: int) -> None:
            nonlocal current
            current = number

        with world.waiting(f"the verifier of task {task.name}", lambda: f"problem {asked[current].problem.id}, in this process"):
            return one_by_one([partial(verdict, task, t) for t in asked], self.limits, begun)

    def check(self, task: Task) -> None:
        """Raises UserError if the task has no judge, verifier or environment, or if the verifier cannot run on this machine."""
        for verify in task.verify.all() if isinstance(task.verify, OfSeveral) else [task.verify]:
            if isinstance(verify, Together):
                verify.check()
        if task.judge is None and task.verify is None and task.environment is None:
            raise UserError(
                f'task {task.name} has no verifier, no judge and no environment, so nothing judges its answers; add a column "answer" to its data, '
                "or give a reward function with --reward FILE.py:FUNCTION"
            )


def verdicts(task: Task, trajectories: Sequence[Trajectory], limits: Limits) -> list[Outcome]:
    """Returns the task's verdict for each trajectory, computed as in `Verified`.

    This function is used before a run, so it stores nothing for a repeated step.
    """
    found: dict[str, Outcome] = {}
    for verify, asked in _by_verifier(trajectories, task):
        if isinstance(verify, Together):  # it has its own limits
            outcomes = [verdict(task, t) for t in asked]
        elif isinstance(verify, Located) and None not in (sent := [_sent(t) for t in asked]):
            outcomes = _from_pool(_pool_of(verify), asked, sent, limits)
        else:
            outcomes = one_by_one([partial(verdict, task, t) for t in asked], limits)
        found |= dict(zip((t.id for t in asked), outcomes, strict=True))
    return [found[t.id] for t in trajectories]


def verdict(task: Task, trajectory: Trajectory) -> Outcome:
    """Returns the task's verdict for one trajectory. Every exception of the task's judge or verifier is a failure."""
    if isinstance(trajectory.reward, Failed):  # the rollout failed before there was an answer to judge
        return trajectory.reward
    try:
        if task.judge is not None:
            return outcome(task.judge(trajectory))
        assert task.verify is not None
        return outcome(task.verify(trajectory.problem, trajectory.completion))
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a user's verifier may raise anything
        return failure_of(error, who="the verifier ")


async def _of_many(verify: Together, asked: Sequence[Trajectory], world: World) -> list[Outcome]:
    """Returns the outcomes of a verifier that judges many answers together.

    If the verifier raises, each answer is judged alone. Then only the answers that cause the error fail. Exceptions that stop the run, and a lack of
    memory in this process, are raised.
    """
    try:
        found = outcomes(await verify.together(asked, world), len(asked))
    except Exception as error:
        from gradus.runtime.memory import out_of_memory

        if out_of_memory(error):
            raise
        if len(asked) == 1:
            return [failure_of(error, who="the verifier ")]
        return [one for t in asked for one in await _of_many(verify, [t], world)]
    return [found] * len(asked) if isinstance(found, Failed) else found


def _pool_of(verify: Located) -> Pool:
    return pool_of(verify.spec, "task", verify.options)


def _from_pool(pool: Pool, asked: Sequence[Trajectory], sent: Sequence[Any], limits: Limits) -> list[Outcome]:
    questions = [Question(s, 1, f"problem {t.problem.id}") for t, s in zip(asked, sent, strict=True)]
    return [answer if isinstance(answer, Failed) else answer[0] for answer in pool.ask(questions, limits)]


def _by_verifier(trajectories: Sequence[Trajectory], task: Task) -> list[tuple[Verify | None, list[Trajectory]]]:
    """Groups trajectories by verifier. In a mixture, the verifier of a trajectory is the verifier of its problem's task.

    The key None has the trajectories of tasks that have a judge or no verifier.
    """
    found: dict[int, tuple[Verify | None, list[Trajectory]]] = {}
    for t in trajectories:
        verify = None if task.judge is not None else task.verify.of(t.problem) if isinstance(task.verify, OfSeveral) else task.verify
        found.setdefault(id(verify), (verify, []))[1].append(t)
    return list(found.values())


class _Facts:
    """The verdicts by trajectory.

    If a verdict failed because of the time limit or the machine, the failure is stored with the step. A repeated step then has the same failure.
    """

    def __init__(self, asked: Sequence[Trajectory], world: World, name: str) -> None:
        call = world.call(name)
        self.world, self.places = world, {t.id: f"{call}/{n}" for n, t in enumerate(asked)}
        told = {t: world.fact(place) for t, place in self.places.items()}
        self.found: dict[str, Outcome] = {t: Failed.read(fact) for t, fact in told.items() if fact is not None}

    def add(self, asked: Sequence[Trajectory], outcomes: Sequence[Outcome]) -> None:
        for t, found in zip(asked, outcomes, strict=True):
            self.found[t.id] = found
            if isinstance(found, Failed) and found.kind.chance:
                self.world.decide(self.places[t.id], found.told)


def _judgement(value: Outcome) -> Judgement:
    return Judgement(value, Frozen({Verified.name: value}))


def _sent(trajectory: Trajectory) -> dict[str, Any] | None:
    """Returns the trajectory as the JSON object that is sent to the verifier's process; None if JSON cannot represent the trajectory."""
    problem = packed({f.name: getattr(trajectory.problem, f.name) for f in fields(Problem)})
    sent = {"problem": problem, "completion": trajectory.completion}
    try:
        json.dumps(sent)
    except (TypeError, ValueError, RecursionError):  # ValueError: a whole number of more than 4,300 digits, or a list that holds itself
        return None
    return sent
