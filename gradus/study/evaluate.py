"""Exams: the policy answers each held-out problem several times. The scores of an exam have intervals over problems."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from gradus.study.held_out import held_out_requests
from gradus.study.intervals import of_numbers, of_shares
from gradus.study.judged import ExamTable, over_optimisation_table
from gradus.study.passk import Interval, majority, pass_at_k
from gradus.types import Group, Request, Trajectory, UserError, without_aside
from gradus.types.answers import answered

_AT_ONCE = 1024  # number of samples that are requested at a time


@dataclass(frozen=True)
class Exam:
    """The results of an exam: means over problems with 95 % intervals (`gradus.study.intervals`). A trajectory without a reward counts as wrong."""

    task: str
    problems: int
    samples: int  # number of samples per problem
    temperature: float
    pass_at: dict[int, Interval]  # empty if the trained model is a judge, which writes no answers
    majority: Interval | None  # accuracy of the majority vote of all samples; None if the policy writes no text
    greedy: Interval | None  # accuracy of one greedy answer; None if the policy writes no text
    reward: Interval | None  # None if no trajectory has a reward
    length: Interval | None  # number of actions of an answer; None if the trained model writes no answers
    failed: int  # number of trajectories without a reward
    chance: float  # accuracy of random guesses
    judged_by: str = ""  # the reward in words
    prompts: str = ""  # the form of the prompts, and the first prompt; '' if the policy reads no text
    tables: tuple[ExamTable, ...] = ()  # the tables about a learned judge: those of the run's study, and the curve of over-optimisation


async def examine(
    run: Any,
    *,
    ks: Sequence[int] = (1,),
    samples: int = 0,
    problems: int = 256,
    reward: Any,
    progress: Callable[[int, int], None] | None = None,
) -> Exam:
    """Lets the run's policy solve the first held-out problems of its task, with the run's sampling settings.

    If the run trained a judge (its study has `of_judge`), the result has the tables of the study, and no pass@k.

    Args: `ks`: every k of pass@k. `samples`: number of answers per problem, at least max(ks) (0: max(ks)). `reward`: judges the answers. `progress`: called
    with the number of finished problems and the number of all problems. Raises: UserError if a k or the number of problems is below 1, or if there are too
    few samples.
    """
    if problems < 1:
        raise UserError(f"--problems is {problems}; it must be 1 or more: the number of held-out problems")
    if samples < 0:
        raise UserError(f"--samples is {samples}; give the number of answers per problem, or 0 for the largest number in --pass-at")
    if getattr(run.recipe.study, "of_judge", False):
        return await _of_judge(run, reward, ks, samples, problems)
    samples = samples or max(ks)
    if min(ks) < 1:
        raise UserError(f"--pass-at names pass@{min(ks)}; give only values of 1 or more")
    if samples < max(ks):
        raise UserError(
            f"pass@{max(ks)} needs at least {max(ks)} samples per problem, but --samples is {samples}; "
            f"raise --samples to {max(ks)} or more, or lower --pass-at"
        )
    recipe, task = run.recipe, run.task
    world = run.world(recipe, "evaluate", reward)
    requests = held_out_requests(task.held_out, problems, samples, task.level)
    writes = "drawing" not in run.players["policy"].policy.can
    groups: list[Group] = []
    greedy: list[Group] = []
    for start in range(0, len(requests), step := max(1, _AT_ONCE // samples)):
        asked = requests[start : start + step]
        groups += await solved(run, world, asked)
        if writes:
            once = [replace(r, count=1, sampling=replace(world.sampling, temperature=0.0), tags=("greedy",)) for r in asked]
            greedy += await solved(run, world, once)
        if progress is not None:
            progress(start + len(asked), len(requests))
    return replace(marked(task.name, groups, greedy, ks, world.sampling.temperature, task.chance), judged_by=in_words(reward))


async def _of_judge(run: Any, reward: Any, ks: Sequence[int], samples: int, problems: int) -> Exam:
    """Returns the exam of a run that trained a judge. Raises UserError for a pass@k."""
    if tuple(ks) != (1,):
        raise UserError(f"the run trained a judge, which writes no answers, so there is no pass@{max(ks)}; leave --pass-at out, or evaluate the sampler's model")
    study = replace(run.recipe.study, problems=problems, samples=samples or run.recipe.study.samples)
    recipe, task = run.recipe, run.task
    world = run.world(recipe, "evaluate", reward)
    shown = min(problems, len(held_out_requests(task.held_out, problems, study.samples, task.level)))
    tables = tuple(await study.tables(run, recipe, world))
    judged = in_words(reward)
    return Exam(task.name, shown, study.samples, world.sampling.temperature, {}, None, None, None, None, 0, task.chance, judged, tables=tables)


async def solved(run: Any, world: Any, requests: Sequence[Request]) -> list[Group]:
    """Answers the requests with the recipe's rollout and state. Returns one group of judged answers per request, without auxiliary groups."""
    return without_aside(await run.memory.answer(run.recipe, requests, world))


async def tables_of(run: Any, rows: Sequence[Mapping[str, Any]] | None) -> tuple[ExamTable, ...]:
    """Returns the tables about a learned judge: the tables of the run's study, and, if a reward model rewards the run, the curve of over-optimisation.

    Args: rows: the metrics of the run's steps; None: another task is examined, so there are no tables.
    """
    if rows is None:
        return ()
    recipe, found = run.recipe, list[ExamTable]()
    if hasattr(recipe.study, "tables"):
        found += await recipe.study.tables(run, recipe, run.world(recipe, "evaluate"))
    if getattr(recipe.reward, "unmarked", False) and (table := over_optimisation_table(rows)) is not None:
        found.append(table)
    return tuple(found)


def verdict_of(run: Any, *, own: bool) -> Any:
    """Returns the reward that judges a run's exam.

    `own`: whether the exam is on the run's own task. If `own` is True, the result is the reward of the evaluations during training. Otherwise the result is
    the verifier of the other task. If the other task has no verifier, or has an environment, the result is the recipe's reward.
    """
    if own:
        return getattr(run.recipe.study, "reward", None) or run.recipe.reward
    if run.task.environment is None and run.task.verify is not None:
        from gradus.rewards.verified import Verified

        return Verified()
    return run.recipe.reward


def in_words(judge: Any) -> str:
    """Describes a reward in words.

    The description is a function's file and name, the parts of a sum with + between them, "the task's verifier", "the environment", or the reward's name.
    """
    from gradus.rewards.combine import Sum, name_of
    from gradus.rewards.environment import EnvironmentReturn
    from gradus.rewards.functions import Function
    from gradus.rewards.verified import Verified

    if isinstance(judge, Sum):
        return " + ".join(map(in_words, judge.parts.values()))
    if isinstance(judge, Function):
        return judge.path.removeprefix(f"{Path.cwd()}/")
    known = {Verified: "the task's verifier", EnvironmentReturn: "the environment"}
    return known.get(type(judge)) or name_of(judge)


def marked(task: str, groups: Sequence[Group], greedy: Sequence[Group], ks: Sequence[int], temperature: float, chance: float = 0.0) -> Exam:
    """Makes the exam from the judged answers, one group per problem. `greedy` has one answer per problem, or is empty."""
    counts = [(len(g.trajectories), sum(t.right for t in g.trajectories)) for g in groups]
    judged = [[t.value for t in g.trajectories if t.failed is None] for g in groups]
    rewards = [float(np.mean(values)) for values in judged if values]
    return Exam(
        task=task,
        problems=len(groups),
        samples=min(n for n, _ in counts),
        temperature=temperature,
        pass_at={k: of_shares([pass_at_k(n, c, k) for n, c in counts]) for k in sorted(set(ks))},
        majority=of_shares([_voted(g) for g in groups]) if greedy else None,
        greedy=of_shares([float(g.trajectories[0].right) for g in greedy]) if greedy else None,
        reward=of_numbers(rewards) if rewards else None,
        length=of_numbers([float(np.mean([t.actions for t in g.trajectories])) for g in groups]),
        failed=sum(t.failed is not None for g in groups for t in g.trajectories),
        chance=chance,
    )


def _voted(group: Group) -> float:
    verdicts = [t.right for t in group.trajectories]
    return majority([vote(t, ok) for t, ok in zip(group.trajectories, verdicts, strict=True)], verdicts)


def vote(trajectory: Trajectory, ok: bool) -> Hashable | None:
    """Returns the vote of a completion. All right completions have the same vote.

    A wrong completion votes for its final answer. A wrong completion without a final answer has the vote None.
    """
    if ok:
        return True
    said = answered(trajectory.completion)
    return None if said is None else ("wrong", said)
