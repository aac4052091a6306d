"""A rollout at a terminal. The rollout uses the code of training and evaluation. Every turn of the environment is shown while it is played."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from gradus.lab.folder import RunFolder, is_run
from gradus.lab.live import printable
from gradus.rewards.environment import EnvironmentReturn
from gradus.rewards.verified import Verified
from gradus.rollouts.auto import Auto
from gradus.rollouts.environment_calls import misfit
from gradus.rollouts.episodes import Episodes
from gradus.rollouts.turns import plain
from gradus.training.plan import plan_of
from gradus.training.world import RunWorld
from gradus.types import Ended, Failed, Key, NotApplicable, Outcome, Problem, Request, Sampling, Trajectory
from gradus.types.parts import Closing, Environment, Rollout, Task, Turn, World
from gradus.types.spaces import Action, Observation, Text, in_words

T = TypeVar("T")
Say = Callable[[str], None]
"""Writes a text and a line break."""

Reading = Callable[[Observation], str]
"""An observation as people read it."""

ENDS = {
    Ended.ENVIRONMENT: "the episode is over",
    Ended.TRUNCATED: "the episode was cut",
    Ended.CONTEXT: "the model's context is full",
    Ended.FAILED: "the episode failed",
}


@dataclass(frozen=True)
class Shown:
    """An environment whose episodes are shown while they are played."""

    environment: Environment
    say: Say
    echo: bool = True  # whether actions are shown, too; False if the reader sees them already
    read: Reading = plain

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "environment":
            raise AttributeError(name)
        return getattr(self.environment, name)  # such as shows, acts and together

    async def start(self, problem: Problem, key: Key, world: World) -> Any:
        episode: Any = self.environment.start(problem, key, world)
        episode = await episode if inspect.isawaitable(episode) else episode
        whole = hasattr(episode, "step") and misfit(getattr(episode, "first", None)) is None
        return ShownEpisode(episode, self) if whole else episode  # the rollout refuses any other value


class ShownEpisode:
    """One shown episode."""

    def __init__(self, episode: Any, settings: Shown) -> None:
        self.__wrapped__, self.settings, self.first = episode, settings, episode.first
        settings.say(told(episode.first, settings.read))

    def step(self, action: Action) -> Any:
        if self.settings.echo:
            space = getattr(self.settings.environment, "acts", Text())
            self.settings.say(f"> {in_words(action, space).strip()}")
        answer = self.__wrapped__.step(action)
        return self._shown(answer) if inspect.isawaitable(answer) else answer  # the rollout refuses any other value

    async def close(self) -> None:
        """Closes the episode that is shown."""
        if isinstance(self.__wrapped__, Closing):
            await self.__wrapped__.close()

    async def _shown(self, answer: Awaitable[Turn]) -> Turn:
        turn = await answer
        if misfit(turn) is not None:
            return turn
        if turn.errand is None:
            self.settings.say(told(turn, self.settings.read))
            return turn
        self.settings.say(f"a sub-agent goes on, as {turn.errand.role}: {turn.errand.prompt}")
        return replace(turn, errand=replace(turn.errand, episode=ShownEpisode(turn.errand.episode, self.settings)))


def told(turn: Turn, read: Reading = plain) -> str:
    """A turn as lines of text: observation, an illegal action, a reward other than 0. Empty if the turn has none of these."""
    notes = [*([] if turn.valid else ["(not a legal action)"]), *([f"(reward {turn.reward:g})"] if turn.reward else [])]
    return "\n".join(line for line in (read(turn.observation), *notes) if line)


def verdict(outcome: Outcome | None) -> str:
    """A reward in words."""
    if isinstance(outcome, Failed):
        return f"not judged: {outcome.reason}"
    if outcome is None or isinstance(outcome, NotApplicable):
        return "not judged: the verifier does not apply"
    return f"{'right' if outcome >= 1 else 'wrong' if outcome <= 0 else 'partly right'} ({outcome:g})"


def expected(problem: Problem) -> str:
    """The answer of a problem as the end of a sentence; empty if the problem has no answer, or only a long one."""
    short = isinstance(problem.answer, str | int | float) and problem.reference is not None
    return f", expected {problem.reference}" if short else ""


def ending(trajectory: Trajectory) -> str:
    """The end of an episode as a line: its reason, the number of turns and the sum of the rewards."""
    turns, total = trajectory.links["turns"], trajectory.links["return"]
    return f"{ENDS.get(trajectory.ended, 'the episode ended')}: {turns} {'turn' if turns == 1 else 'turns'}, return {total:g}"


def writer(out: Any) -> Say:
    """A function for writing texts to `out`, without control characters of a terminal. The function writes nothing for an empty text."""
    return lambda text: print(printable(text), file=out, flush=True) if text else None


def rollout_of(model_or_run: str | None, *, trust: bool = False) -> Rollout:
    """For a run that uses `Episodes` or `Auto` at test time, returns this rollout. For any other run, and for a model, returns the default rollout.

    Raises UserError if another user made the run and the run executes Python, unless `trust` is set.
    """
    if model_or_run is None or not is_run(Path(model_or_run)):
        return Auto()
    acting = plan_of(RunFolder.open(model_or_run), trust=trust).recipe.rollout
    acting = getattr(acting, "test", acting)
    return acting if isinstance(acting, Auto | Episodes) else Auto()


@dataclass(eq=False)
class Acting:
    """A policy as a player that does not learn."""

    policy: Any
    updates: int = 0
    most_asks: int | None = None


def played(task: Task, policy: Any, request: Request, rollout: Rollout, *, sampling: Sampling, seed: Key) -> Trajectory:
    """The judged trajectory of a request for one sample. The random draws are the same as in an evaluation of an untrained model with the same seed."""
    players = {"policy": Acting(policy)}
    reward = Verified() if judges(task) else EnvironmentReturn()  # this reward judges no answer
    world = RunWorld(step=0, purpose="evaluate", seed=seed, task=task, players=players, reward=reward, sampling=sampling, group=1)
    (group,) = finished(rollout.run([request], world))
    return group.trajectories[0]


def judges(task: Task) -> bool:
    """Whether the task itself judges answers as right or wrong."""
    return task.environment is not None or task.verify is not None or task.judge is not None


def shown(task: Task, say: Say, *, echo: bool, read: Reading = plain) -> Task:
    """The task with its episodes shown; unchanged for a task without an environment."""
    return task if task.environment is None else replace(task, environment=Shown(task.environment, say, echo, read))


def finished(work: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine. Ctrl-C interrupts the coroutine at once, also while it reads a line. asyncio.run would wait for the next await of the
    coroutine.
    """
    with asyncio.Runner() as runner:  # the end of the block cancels all waiting coroutines
        return runner.get_loop().run_until_complete(work)
