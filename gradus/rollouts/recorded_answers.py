"""A rollout for offline learning: it gives recorded answers with their rewards and samples nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, ClassVar

from gradus.rollouts.auto import Auto
from gradus.rollouts.demonstrations import given, told
from gradus.rollouts.ids import group_name
from gradus.types import Group, Problem, Request, UserError
from gradus.types.parts import Task, World

ANSWERS, REWARDS = "answers", "rewards"


@dataclass(frozen=True)
class RecordedAnswers:
    """Gives one trajectory for each of the problem's recorded `answers`. The reward of a trajectory is the number at the same index in `rewards`.
    Nothing is sampled or judged.

    The recorded answers can come from any source: another model, an older policy, people. Trajectories have the source "expert" and no
    log-probabilities. The rewards of the answers are stored as the component "recorded". The number of samples in a request has no effect. At test
    time the policy acts.
    """

    columns: ClassVar[frozenset[str]] = frozenset({ANSWERS, REWARDS})
    plays: ClassVar[str] = "answers"

    @property
    def test(self) -> Auto:
        return Auto()

    def judges(self, task: Task) -> bool:
        """Returns False, because the trajectories never need judging."""
        return False

    async def run(self, requests: Sequence[Request], world: World) -> list[Group]:
        """Returns one group per request. Raises UserError if a problem's `rewards` do not have one number for each text in `answers`."""
        return [_recorded(request, world) for request in requests]


def _recorded(request: Request, world: World) -> Group:
    found = recorded_answers(request.problem)
    prompt = world.prompt(request)
    contexts = [told(prompt, text, request, world) for text, _ in found]
    rewards = tuple(reward for _, reward in found)
    made = [given(request, i, c, world, reward=r, component="recorded") for i, (c, r) in enumerate(zip(contexts, rewards, strict=True))]
    return Group(group_name(request), tuple(made), pool=rewards)


def recorded_answers(problem: Problem) -> list[tuple[str, float]]:
    """Returns the problem's answers with their rewards. Raises UserError if `answers` and `rewards` do not fit each other."""
    texts, rewards = (_listed(problem, name) for name in (ANSWERS, REWARDS))
    if len(texts) != len(rewards):
        raise UserError(f"problem {problem.id} has {len(texts)} answers but {len(rewards)} rewards; give one reward per answer")
    for text, reward in zip(texts, rewards, strict=True):
        if not isinstance(text, str) or isinstance(reward, bool) or not isinstance(reward, int | float) or not isfinite(reward):
            raise UserError(
                f"problem {problem.id} has the answer {text!r} with the reward {reward!r}; an answer must be a text, and a reward must be a "
                "finite number"
            )
    return [(text, float(reward)) for text, reward in zip(texts, rewards, strict=True)]


def _listed(problem: Problem, name: str) -> Sequence[Any]:
    value = problem.meta.get(name)
    if isinstance(value, str) or not isinstance(value, Sequence) or not value:
        raise UserError(f'problem {problem.id}: "{name}" is a {type(value).__name__}; it must be a list with one entry per answer, and must not be empty')
    return value
