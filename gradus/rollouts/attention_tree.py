"""A tree of answers: some answers branch at the steps that later steps attend to most."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil, exp
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from gradus.rollouts.asked import sampling_of
from gradus.rollouts.auto import Auto, rolled
from gradus.rollouts.spans import STREAM, check_text, rows_of, streamed
from gradus.types import Context, Frozen, Group, Key, Request, Trajectory, UserError
from gradus.types.parts import Task, World
from gradus.types.ranges import check_ranges
from gradus.types.signals import Opened, Want
from gradus.types.spans import STEPS, Marking


def step_matrix(attention: Tensor, steps: Tensor) -> Tensor:
    """Returns S [heads, n, n]: S[j, k] of a head is the mean attention weight from the tokens of step j to the tokens of step k. `attention` [heads, T, T];
    `steps` [T], 0 to n - 1.
    """
    member = torch.nn.functional.one_hot(steps, int(steps.max()) + 1).to(attention.dtype)
    sizes = member.sum(0).clamp(min=1)
    return member.T @ attention @ member / torch.outer(sizes, sizes)


def later_attention(matrix: Tensor, *, delta: int) -> Tensor:
    """Returns, for each step k, the sum of S[j, k] over j >= k + delta in the head with the largest sum. [n]"""
    at = torch.arange(matrix.shape[-1], device=matrix.device)
    return (matrix * (at.unsqueeze(1) - at >= delta)).sum(-2).amax(0)


@dataclass(frozen=True)
class Influence(Want):
    """For every action, the FCI (`later_attention`) of the action's step, [A], without gradient. In the first step the FCI is 0. Contexts need the stream `span`."""

    delta: int = 4
    opens: ClassVar[frozenset[str]] = frozenset({"attention"})

    def __post_init__(self) -> None:
        check_ranges(self, delta="[0, inf)")

    def rows(self, opened: Opened, key: Key) -> Tensor:
        pairs = zip(opened.attention(range(opened.layers)), opened.contexts, strict=True)
        return torch.cat([self.of(found.flatten(0, 1), c) for found, c in pairs if c.actions])

    def of(self, attention: Tensor, context: Context) -> Tensor:
        """Returns the FCI [A] from the attention weights of all heads of all layers [heads, T, T]. The prompt is step 0."""
        steps = torch.zeros(len(context.sequence), dtype=torch.long)
        steps[torch.from_numpy(context.action_positions)] = torch.from_numpy(context.streams[STREAM].astype(np.int64)) + 1
        found = later_attention(step_matrix(attention, steps.to(attention.device)), delta=self.delta)
        found[:2] = 0
        return found[steps[torch.from_numpy(context.action_positions)].to(found.device)]


def branch_steps(scores: np.ndarray, starts: np.ndarray, *, quantile: float, gap: int, count: int) -> list[int]:
    """Returns at most `count` steps in ascending order, without the first step of the answer.

    Chooses the earliest steps with two properties: the score is at least the quantile, and at least `gap` tokens lie between the step and the step that was
    chosen before it. If there are too few such steps, also chooses the earliest other steps.

    Args: `scores` [S], the FCI of each step; `starts` [S + 1], the number of tokens before each step, then the number of all tokens.
    """
    least = float(np.quantile(scores, quantile))
    if least == 0 and (scores > 0).any():
        least = float(scores[scores > 0].min())
    chosen: list[int] = []
    for k in range(1, len(scores)):
        behind = starts[chosen[-1] + 1] if chosen else 0
        if len(chosen) < count and scores[k] >= least and starts[k] - behind >= gap:
            chosen.append(k)
    rest = [k for k in range(1, len(scores)) if k not in chosen]
    return sorted([*chosen, *rest[: count - len(chosen)]])


def expanded(right: Sequence[bool], worth: bool, key: Key) -> list[int]:
    """Returns the indices of the answers that branch. With `worth`, answers branch even if no answer to the problem is wrong."""
    n, good = len(right), [i for i, r in enumerate(right) if r]
    bad = [i for i in range(n) if i not in good]
    count = ceil(n * exp(-len(good) / n))
    if not good:
        return bad
    if not bad:
        return sorted(drawn(good, count, key)) if worth else []
    few, many = (good, bad) if len(good) < len(bad) else (bad, good)
    return sorted([*few, *drawn(many, max(0, count - len(few)), key)])


def drawn(items: Sequence[int], count: int, key: Key) -> list[int]:
    """Draws `count` different items. If there are fewer items, returns all."""
    return [items[i] for i in key.permutation(len(items))[:count].tolist()]


@dataclass(frozen=True)
class AttentionTree:
    """Samples answers and lets some answers branch at the steps with the largest FCI (`Influence`). Each path of the tree is a trajectory."""

    marking: Marking = STEPS
    branches: int = 2  # number of branches of each answer that branches
    quantile: float = 0.8
    gap: int = 512  # least number of tokens between two chosen steps
    reads: Influence = Influence()
    at: Literal["attention", "random"] = "attention"  # random: random steps, for a comparison
    plays: ClassVar[str] = "answers"

    def __post_init__(self) -> None:
        check_ranges(self, branches="[0, inf)", quantile="[0, 1]", gap="[0, inf)")
        if self.at not in ("attention", "random"):
            raise UserError(f'AttentionTree.at is "{self.at}"; it must be "attention" or "random"')

    @property
    def test(self) -> Auto:
        return Auto()

    def check_task(self, task: Task) -> None:
        """Raises UserError if the player writes no text."""
        check_text(self, task)

    def start(self) -> dict[str, float]:
        return {"total": 0.0, "count": 0.0}

    async def run(self, requests: Sequence[Request], world: World, state: dict[str, float]) -> tuple[list[Group], dict[str, float]]:
        """Returns one judged group per request, and the state. The state covers all problems without a wrong answer: the sum of their mean FCIs, and the
        number of these problems.
        """
        groups = await rolled(Auto(), requests, world)
        marked = [streamed(g, STREAM, {t.id: rows_of(self.marking, t, world) for t in g.trajectories}) for g in groups]
        flat = [t for g in marked for t in g.trajectories]
        scores = dict(zip([t.id for t in flat], await world.score([t.contexts[0] for t in flat], self.reads), strict=True)) if flat else {}
        means = [float(np.mean([step_mean(scores[t.id], t.contexts[0].streams[STREAM]) for t in g.trajectories] or [0.0])) for g in marked]
        solved = [mean for mean, g in zip(means, marked, strict=True) if all(t.right for t in g.trajectories)]
        state = {"total": state["total"] + sum(solved), "count": state["count"] + len(solved)}
        usual, out = state["total"] / max(state["count"], 1), []
        for request, group, mean in zip(requests, marked, means, strict=True):
            chosen = expanded([t.right for t in group.trajectories], mean > usual, world.key.fold("expanded", group.key)) if self.branches else []
            world.note("branched", len(chosen) / max(1, len(group.trajectories)))
            made = [t for i in chosen for t in await self._branches(i, group.trajectories[i], scores[group.trajectories[i].id], request, world)]
            (judged,) = await world.judge([group.but(trajectories=tuple(made))]) if made else (group.but(trajectories=()),)
            roots = [t.but(links=Frozen({**t.links, "origin": i})) for i, t in enumerate(group.trajectories)]
            whole = group.but(trajectories=(*roots, *judged.trajectories), pool=judged.pool if made else group.pool)
            for i in chosen:
                found = {t.reward for t in whole.trajectories if t.links.get("origin") == i}
                world.note("contrast", float(len(found) > 1))
            out.append(whole)
        return out, state

    async def _branches(self, number: int, t: Trajectory, scores: np.ndarray, request: Request, world: World) -> list[Trajectory]:
        (context,) = t.contexts
        spans = context.streams[STREAM]
        first = beginnings(spans)
        places = branch_steps(scores[first], np.append(first, len(spans)), quantile=self.quantile, gap=self.gap, count=self.branches) if len(first) else []
        if self.at == "random" and len(first) > 1:
            key = world.key.fold("random", t.id)
            places = sorted(drawn(range(1, len(first)), self.branches, key))
        return [await self._branch(number, t, int(first[k]), request, world) for k in places]

    async def _branch(self, number: int, t: Trajectory, shared: int, request: Request, world: World) -> Trajectory:
        (context,) = t.contexts
        at, sampling = int(context.action_positions[shared]), sampling_of(request, world)
        limit = replace(sampling, max_tokens=max(1, sampling.limit - shared))
        (piece,) = await world.fork(context, at, 1, problem=t.problem, tags=("branch", t.id), sampling=limit, player=t.player)
        path = begun_until(context, at).then(replace(piece, streams=Frozen()))
        text = world.text(path.sequence[path.action_positions], t.player)
        links = Frozen({"origin": number, "shared": shared})
        return t.but(id=f"{t.id}/branch/{shared}", contexts=(path,), completion=text, reward=None, components=Frozen(), ended=piece.ended, links=links)


def beginnings(spans: np.ndarray) -> np.ndarray:
    """Returns the index of the first token of each step. `spans`: for every token, the number of its step.

    >>> beginnings(np.array([0, 0, 1, 2, 2])).tolist()
    [0, 2, 3]
    """
    return np.flatnonzero(np.diff(spans, prepend=-1) != 0)


def step_mean(scores: np.ndarray, spans: np.ndarray) -> float:
    """Returns the mean score of the steps of an answer. The score of a step is the score of its first token. For an answer without tokens, the mean is 0.

    >>> step_mean(np.array([4.0, 4.0, 1.0]), np.array([0, 0, 1]))
    2.5
    """
    return float(scores[beginnings(spans)].mean()) if len(spans) else 0.0


def begun_until(context: Context, at: int) -> Context:
    """Returns the context cut to the first `at` tokens of its sequence, without streams. Tokens that were actions are still actions."""
    cut = at - len(context.prefix)
    said = int(context.chosen[:cut].sum())
    logprobs, versions = (None if rows is None else rows[:said] for rows in (context.logprobs, context.versions))
    kept = replace(context, tokens=context.tokens[:cut], chosen=context.chosen[:cut], logprobs=logprobs, versions=versions)
    return replace(kept, streams=Frozen(), rewards=())
