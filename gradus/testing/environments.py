"""The contract of an environment: its episodes depend only on the key, do not affect each other, can reach the goal, and accept any action."""

from __future__ import annotations

import asyncio
import inspect
import math
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import is_dataclass, replace
from typing import Any

import numpy as np

from gradus.runtime.user_code import line_of
from gradus.testing.report import Checked, Progress, Report, brief, run_rules, sentences
from gradus.testing.subject import Effort, Subject, Texts, allowed, content, environment_of, of_arrays, some_actions, subject_of
from gradus.testing.watched import Limits, watch
from gradus.types import Frozen, Key, Problem, UserError
from gradus.types.parts import Closing, Environment, Task, Turn

PLAYED = 12  # largest number of hostile actions per episode
OWN = 40  # number of actions per episode, drawn from the action space, if the environment shows arrays
NONSENSE = ("", "nonsense", "?", "-1", "0", "a b c")
KINDS = "biuf"  # the kinds of NumPy numbers that an observation may contain
LONGEST = 10.0  # seconds of processor time that the episodes of one problem may take
GOAL = 1.0  # sum of rewards at which an episode counts as won


def check_environment(
    environment: Environment | Task | str,
    problems: Sequence[Problem] = (),
    *,
    actions: Texts | None = None,
    world: Any = None,
    effort: Effort = Effort(),
    limits: Limits = Limits(),
    only: Iterable[str] | None = None,
    strict: bool = False,
    progress: Progress | None = None,
) -> Report:
    """Tests an environment against its contract.

    Args: `environment`: a task with an environment, the name of such a task, or an environment. `problems`: the problems to play, only needed if
    `environment` is not a task. `actions`: a function that returns the actions that win the episode of a problem (None: the actions of
    `meta["demonstration"]`, else the lines of `meta["solution"]`). `world`: the argument `world` of every episode. `effort`: the number of problems
    and of hostile actions. `limits`: the limits of one episode with up to twelve hostile actions. `only`: the rules to try (None: all rules).
    `strict`: whether a finding raises an error. `progress`: a function that is called with each rule before the rule is tried.
    Raises: UserError if the environment or the problems are missing. With `strict`, any finding raises ContractBroken, an AssertionError.
    """
    more = {"right": actions, "effort": effort, "limits": limits, "world": world, "given": tuple(problems)}
    if isinstance(environment, str | Task):
        subject = subject_of(environment, **more)
    elif not hasattr(environment, "start"):
        raise UserError(
            "a contract test of an environment needs an environment or a task with an environment, but it got an object of type "
            f"{type(environment).__name__}"
        )
    elif not problems:
        raise UserError(f"{type(environment).__name__} needs problems; call check_environment(environment, problems), or give a task with this environment")
    else:
        nothing: Any = None
        subject = Subject(Task(type(environment).__name__, nothing, nothing, environment=environment), **more)
    if subject.task.environment is None:
        raise UserError(f"task {subject.task.name} has no environment; use check_task, which tests tasks without an environment")
    return run_rules(subject, subject.task.name, RULES, only, strict=strict, progress=progress)


def settings(subject: Subject) -> Checked:
    """An environment is a frozen dataclass with only settings, so that it can be stored and compared, and users can set its fields."""
    environment = environment_of(subject)
    frozen = is_dataclass(environment) and type(environment).__dataclass_params__.frozen
    found = () if frozen else (f"{type(environment).__name__} is not a frozen dataclass; write @dataclass(frozen=True) above the class",)
    return Checked("settings", 1, found)


def equal_episodes(subject: Subject) -> Checked:
    """Equal keys and equal actions give equal turns."""

    def differ(problem: Problem) -> str | None:
        asked = content(problem)
        for actions in (winning(subject, problem), [*tried(subject), *winning(subject, problem)]):
            turns = played(subject, problem, actions, Key(3))
            if wrong := next(filter(None, map(malformed, turns)), None):
                return wrong
            if content(problem) != asked:
                return "an episode changes its problem, which other episodes use too; change a copy"
            once, again = told(turns), told(played(subject, problem, actions, Key(3)))
            if once != again:
                turn = next((i for i, (a, b) in enumerate(zip(once, again, strict=False)) if a != b), min(len(once), len(again)))
                return f"turn {turn} differs in a second episode of the same key and actions; draw from the key alone, and keep no state outside the episode"
        return None

    return _each("equal episodes", subject, differ)


def apart(subject: Subject) -> Checked:
    """Two episodes that run at the same time do not affect each other."""

    def touched(problem: Problem) -> str | None:
        actions = winning(subject, problem) or tried(subject)
        alone = told(played(subject, problem, actions, Key(3)))
        beside = told(_loop().run_until_complete(_side_by_side(subject, problem, actions)))
        if beside != alone:
            return "an episode changes while a second one is running; keep state in the episode, not in the environment"
        return None

    return _each("episodes apart", subject, touched)


def reached(subject: Subject) -> Checked:
    """The reference actions reach the goal."""
    if of_arrays(environment_of(subject)) and subject.right is None:
        return Checked("reference actions", skipped='an environment of arrays has no written solution; give "actions" to try some')
    if not any(winning(subject, p) for p in subject.problems):
        return Checked("reference actions", skipped='no problem has reference actions; give them as "actions", or a demonstration in meta')

    def lost(problem: Problem) -> str | None:
        actions = winning(subject, problem)
        turns = played(subject, problem, actions, Key(5))
        if wrong := next(filter(None, map(malformed, turns)), None):
            return wrong
        total, last = math.fsum(t.reward for t in turns), turns[-1]
        if total >= GOAL - 1e-9:
            return None
        how = "terminated" if last.terminated else "was truncated" if last.truncated else "went on"
        return f"its {len(actions)} reference actions earn {total:g}, not {GOAL:g}; the episode {how} after {len(turns) - 1} of them"

    return _each("reference actions", subject, lost)


def hostile_actions(subject: Subject) -> Checked:
    """An episode answers any text with a turn and never runs the text as code."""
    count = -(-subject.effort.texts // PLAYED)

    def play(asked: tuple[Problem, list[Any]]) -> list[str]:
        problem, actions = asked
        return [wrong for turn in played(subject, problem, actions, Key(6)) if (wrong := malformed(turn))]

    def ask(index: int) -> tuple[Problem, list[Any]]:
        if index == 0:  # files and modules that are read only once are already read in this call
            problem = subject.problems[0]
            return problem, [*tried(subject), *winning(subject, problem)][:PLAYED]
        texts = [subject.hostile((index - 1) * PLAYED + i)[1] for i in range(PLAYED)]
        return subject.problems[index % len(subject.problems)], texts

    found: list[str | None] = []
    limits = replace(subject.limits, allow=subject.limits.allow | allowed(environment_of(subject)))
    for call in watch(play, ask, count + 1, limits):
        wrong = call.complaint if call.index else ""
        if wrong or call.value:
            first = (call.index - 1) * PLAYED
            which = (
                f"hostile texts {first} to {first + PLAYED - 1} of seed {subject.effort.seed} as actions" if call.index else "plain actions"
            )
            found += [f"{which}, {brief(str(ask(call.index)[1][0]), 30)} first: {text}" for text in [wrong, *(call.value or [])] if text]
    return Checked("hostile actions", count * PLAYED, sentences(found))


def malformed(turn: Any) -> str | None:
    """Returns the error in the form of a turn, or None if the form is correct."""
    if not isinstance(turn, Turn):
        return f"an answer is {type(turn).__name__}, not a Turn; return gradus.types.parts.Turn(observation, reward)"
    if turn.terminated and turn.truncated:
        return "a turn is both terminated and truncated; set terminated if the rules ended the episode, truncated if it was cut short"
    if not isinstance(turn.reward, int | float) or not math.isfinite(turn.reward):
        return f"a turn's reward is {turn.reward!r}; give a finite number"
    if isinstance(turn.observation, Mapping):
        odd = [name for name, array in turn.observation.items() if not _is_array(name, array)]
        if odd or not turn.observation:
            return f"an observation of arrays contains {brief(str(odd[0])) if odd else 'nothing'}; give finite NumPy numbers by name"
    elif not isinstance(turn.observation, str | tuple):
        return f"a turn's observation is {type(turn.observation).__name__}; give text, a tuple of messages, or arrays by name"
    if isinstance(turn.observation, tuple) and not all("role" in m and "content" in m for m in turn.observation):
        return "a message of an observation lacks role or content; give both"
    if turn.state is not None and not isinstance(turn.state, str):
        return f"a turn's state is {type(turn.state).__name__}; give text that is equal for equal states, or None"
    return None


def _is_array(name: Any, array: Any) -> bool:
    return isinstance(name, str) and isinstance(array, np.ndarray) and array.dtype.kind in KINDS and bool(np.isfinite(array).all())


def tried(subject: Subject, turn: int = 0) -> list[Any]:
    """Returns actions to try in an episode.

    If the environment shows arrays, the actions are drawn from its action space. Otherwise the actions are texts without meaning.

    `turn`: the number of the draw; for another number, other actions are drawn from the space.
    """
    environment = environment_of(subject)
    if of_arrays(environment):
        return some_actions(environment, subject.key.fold("own actions").fold(turn), OWN) or list(NONSENSE)
    return list(NONSENSE)


def winning(subject: Subject, problem: Problem) -> list[Any]:
    """Returns the actions that win, or an empty list if no such actions are known. If the environment shows arrays, the texts of a problem are not
    actions.
    """
    arrays = of_arrays(environment_of(subject))
    if subject.right is not None:
        return [action if arrays else str(action) for action in subject.right(problem)]
    if arrays:
        return []
    demonstration = problem.meta.get("demonstration")
    if demonstration:
        return [str(action) for _, action in demonstration]
    solution = problem.meta.get("solution")
    return solution.splitlines() if isinstance(solution, str) else []


def played(subject: Subject, problem: Problem, actions: Sequence[Any], key: Key) -> list[Turn]:
    """Plays the actions until the episode ends. Returns the first turn and the answers to the actions."""

    async def run() -> list[Turn]:
        async with running(environment_of(subject), problem, key, subject.world) as episode:
            turns = [episode.first]
            for action in actions:
                if over(turns[-1]):
                    break
                turns.append(await answer(episode, action))
            return turns

    return _loop().run_until_complete(run())


async def _side_by_side(subject: Subject, problem: Problem, actions: Sequence[Any]) -> list[Turn]:
    environment = environment_of(subject)
    begun = (running(environment, problem, Key(3), subject.world) for _ in range(2))
    async with next(begun) as one, next(begun) as two:
        turns, other = [one.first], two.first
        foreign = tried(subject, turn=1) if of_arrays(environment) else [NONSENSE[1]]
        for number, action in enumerate(actions):
            if not over(other):
                other = await answer(two, foreign[number % len(foreign)])
            if over(turns[-1]):
                break
            turns.append(await answer(one, action))
        return turns


@asynccontextmanager
async def running(environment: Environment, problem: Problem, key: Key, world: Any) -> AsyncIterator[Any]:
    """Starts an episode, and closes it at the end."""
    episode: Any = environment.start(problem, key, world)
    episode = await episode if inspect.isawaitable(episode) else episode
    try:
        yield episode
    finally:
        if isinstance(episode, Closing):
            await episode.close()


async def answer(episode: Any, action: Any) -> Any:
    """Returns the answer of an episode to an action. Raises TypeError if `step` is not async."""
    asked = episode.step(action)
    if not inspect.isawaitable(asked):
        raise TypeError(f"`step` is not a coroutine; write async def step{line_of(episode)}")
    return await asked


_LOOPS: list[asyncio.AbstractEventLoop] = []


def _loop() -> asyncio.AbstractEventLoop:
    """The event loop of this process. The loop is made only once, because every event loop opens sockets."""
    if not _LOOPS:
        _LOOPS.append(asyncio.new_event_loop())
    return _LOOPS[0]


def over(turn: Any) -> bool:
    """Whether a turn ends its episode. An answer that is not a Turn ends the episode, too."""
    return not isinstance(turn, Turn) or turn.terminated or turn.truncated


def told(turns: Sequence[Turn]) -> list[str]:
    """Returns the turns as text, without `info`, which is only for people. An answer that is not a Turn is written as Python shows it."""
    return [repr(replace(t, info=Frozen(), observation=_whole(t.observation)) if isinstance(t, Turn) else t) for t in turns]


def _whole(observation: Any) -> Any:
    """Returns the observation, but with the kind, shape and bytes of each array instead of the array, because the text of a large array would omit
    numbers.
    """
    if not isinstance(observation, Mapping):
        return observation
    return {n: (a.dtype.str, a.shape, a.tobytes()) if isinstance(a, np.ndarray) else a for n, a in observation.items()}


def _each(rule: str, subject: Subject, judge: Callable[[Problem], str | None]) -> Checked:
    """Tries a rule on every problem, in a separate process. `judge` returns the finding for a problem, or None."""
    problems = subject.problems
    found, hung = [], False
    limits = replace(subject.limits, allow=subject.limits.allow | allowed(environment_of(subject))).freely(LONGEST)
    for call in watch(judge, lambda i: problems[i], len(problems), limits):
        wrong = call.complaint or call.value
        hung = call.late
        rest = "; the rest was not tried" if hung and not call.final and call.index + 1 < len(problems) else ""
        found.append(f"problem {problems[call.index].id}: {wrong}{rest}" if wrong else None)
        if hung:
            break  # if an environment hangs once, it would hang for every problem
    return Checked(rule, len(problems), sentences(found), hung=hung)


RULES = {
    "settings": settings,
    "equal episodes": equal_episodes,
    "episodes apart": apart,
    "reference actions": reached,
    "hostile actions": hostile_actions,
}
"""The rules for every environment, in the order in which they are tried."""
