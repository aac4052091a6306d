"""Makes trajectories from the answers that problems contain: worked solutions, demonstrated episodes, pairs of a better and a worse answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gradus.rollouts.auto import Auto, rolled
from gradus.rollouts.ids import group_name, trajectory_name
from gradus.rollouts.turns import acted, begun, instruction, opening
from gradus.types import Context, Frozen, Group, Problem, Request, Trajectory, UserError
from gradus.types.media import words
from gradus.types.parts import Rollout, Task, Turn, World
from gradus.types.spaces import Observation


@dataclass(frozen=True)
class Demonstrations:
    """Gives one trajectory per request without sampling: the problem's worked solution, or its demonstrated episode if the task has an environment.

    If the problem has `errands` (demonstrated episodes of sub-agents, each with role, turn, prompt and demonstration), the errands become auxiliary groups.
    Trajectories have the source "expert" and no log-probabilities. These trajectories are not judged: their reward is 1, stored as the component
    "demonstration". At test time the policy acts.
    """

    @property
    def test(self) -> Auto:
        return Auto()

    def judges(self, task: Task) -> bool:
        """Returns False, because the trajectories never need judging."""
        return False

    async def run(self, requests: Sequence[Request], world: World) -> list[Group]:
        """Returns one group per request, with one trajectory. Raises UserError if a problem has no solution."""
        answers = [given(r, 0, solved(r, world), world, reward=1.0, component="demonstration") for r in requests]
        world.also([handed_over(r, t.id, errand, world) for r, t in zip(requests, answers, strict=True) for errand in r.problem.meta.get("errands", ())])
        return [Group(group_name(r), (t,), pool=(1.0,)) for r, t in zip(requests, answers, strict=True)]


@dataclass(frozen=True)
class DemonstratedPairs:
    """Gives two trajectories for a problem with a better and a worse answer (`chosen`, `rejected`). For other problems, `rollout` samples the answers.

    The given answers have the source "expert" and no log-probabilities. The better answer has the reward 1 and the worse answer 0, stored as the
    component "preferred".
    """

    rollout: Rollout = Auto()

    @property
    def test(self) -> Any:
        return getattr(self.rollout, "test", self.rollout)

    def judges(self, task: Task) -> bool:
        """Whether the trajectories need judging. No trajectory needs judging if every problem has a pair."""
        return not {"chosen", "rejected"} <= task.provides

    async def run(self, requests: Sequence[Request], world: World) -> list[Group]:
        """Returns one group per request, in order, then any further groups of `rollout`. Raises UserError if a pair is not two texts."""
        bare = [r for r in requests if not has_pair(r.problem)]
        sampled = iter(await rolled(self.rollout, bare, world) if bare else ())
        asked = [pair(r, world) if has_pair(r.problem) else next(sampled) for r in requests]
        return [*asked, *sampled]


def has_pair(problem: Problem) -> bool:
    """Whether the problem has a better and a worse answer."""
    return all(problem.meta.get(name) is not None for name in ("chosen", "rejected"))


def pair(request: Request, world: World) -> Group:
    """Returns the group of the problem's two answers, the better one first."""
    prompt = world.prompt(request)
    texts = (answer_text(request.problem, name) for name in ("chosen", "rejected"))
    answers = [told(prompt, text, request, world) for text in texts]
    both = (given(request, i, c, world, reward=1.0 - i, component="preferred") for i, c in enumerate(answers))
    return Group(group_name(request), tuple(both), pool=(1.0, 0.0))


def answer_text(problem: Problem, name: str) -> str:
    """Returns the answer `meta[name]` of a problem: the text, or the text of a chat's last message. Raises UserError for any other value."""
    value = problem.meta[name]
    if isinstance(value, Sequence) and not isinstance(value, str) and value and isinstance(value[-1], Mapping):
        value = words(value[-1]) if value[-1].get("content") is not None else None
    if not isinstance(value, str):
        raise UserError(
            f'problem {problem.id}: "{name}" is a {type(value).__name__}; it must be the text of an answer, or a chat that ends with an answer'
        )
    return value


def solved(request: Request, world: World) -> Context:
    """Returns the context of the problem's worked solution or demonstrated episode. Raises UserError if the problem has neither."""
    meta = request.problem.meta
    wanted = "solution" if world.task.environment is None else "demonstration"
    if meta.get(wanted) is None:
        raise UserError(f'problem {request.problem.id} has no "{wanted}"; add this column to the row of the problem, or leave the problem out')
    if world.task.environment is None:
        return told(world.prompt(request), answer_text(request.problem, wanted), request, world)
    environment: Any = world.task.environment
    if hasattr(environment, "demonstration"):  # the environment shows the demonstration in its own form
        return played(request, environment.demonstration(request.problem), world)
    return played(request, [(str(seen), str(action)) for seen, action in meta[wanted]], world)


def handed_over(request: Request, parent: str, errand: Mapping[str, Any], world: World) -> Group:
    """Returns the group of an errand that the demonstration contains. The group has the same name and links as the group of an errand in a sampled
    episode."""
    role, turn = errand["role"], int(errand["turn"])
    asked = replace(request, prompt=({"role": "user", "content": errand["prompt"]},), tags=(*request.tags, "errand", role, turn))
    context = played(asked, [(str(seen), str(action)) for seen, action in errand["demonstration"]], world)
    made = given(asked, 0, context, world, reward=1.0, component="demonstration")
    return Group(f"{group_name(request)}/errand/{role}", (made.but(links=Frozen(episode=parent, parent=parent, role=role, turn=turn)),), pool=(1.0,))


def told(prompt: Context, text: str, request: Request, world: World) -> Context:
    """Returns `prompt` followed by a given answer and its end token. Raises UserError if the result exceeds the model's context."""
    piece = world.told(text, request.player)
    length, limit = len(prompt.sequence) + len(piece.tokens), world.context_length(request.player)
    if length > limit:
        raise UserError(
            f"problem {request.problem.id}: the prompt and the given answer have {length} tokens, but the model's context has room for {limit} tokens; "
            "shorten the answer, or use a model with a longer context"
        )
    return replace(piece, parent=(prompt, len(prompt.sequence)))


def played(request: Request, turns: Sequence[tuple[Observation, str]], world: World) -> Context:
    """Returns one growing context of an episode with given observations and actions. The context equals that of a sampled episode with the same turns."""
    first = opening(instruction(request, world.task.system), turns[0][0])
    context = begun(world.opening(first, request.player))
    for index, (seen, action) in enumerate(turns):
        if index:
            context = context.then(world.follow(seen, context, request.player))
        after = Turn(turns[index + 1][0] if index + 1 < len(turns) else "")
        piece = told(context, action, request, world)
        if action.endswith(tuple(getattr(world.task.environment, "stops", ()))):  # a sampled action ends with the stop string, without an end token
            piece = without_end(piece, request, world)
        context = acted(context, piece, index, Turn(seen), after)
    return context


def without_end(piece: Context, request: Request, world: World) -> Context:
    """Returns a given action without its end token."""
    return piece.first(piece.actions - 1) if piece.actions > 1 and not world.text(piece.tokens[-1:], request.player) else piece


def given(request: Request, index: int, context: Context, world: World, *, reward: float, component: str) -> Trajectory:
    """Returns a trajectory for a context that was not sampled, with a given reward."""
    return Trajectory(
        id=trajectory_name(world.step, replace(request, sample=0), index),
        problem=request.problem,
        contexts=(context,),
        player=request.player,
        completion=world.text(context.tokens[context.chosen], request.player),
        reward=reward,
        components=Frozen({component: reward}),
        source="expert",
    )
