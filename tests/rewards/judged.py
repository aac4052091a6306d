"""Trajectories and a world that are just enough to be judged."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np

from gradus.types import Context, Frozen, Group, Problem, Sampling, Trajectory
from gradus.types.parts import Task


def trajectory(completion="x", *, text=None, plain=False, answer=None, tokens=(), prompt=2, **meta):
    """Context: `prompt` tokens that nobody chose, then `tokens`."""
    messages = () if text is not None else ({"role": "user", "content": "ask"},)
    problem = Problem("p/0", "p", messages, text=text, answer=answer, meta=Frozen(meta), plain=plain)
    all_tokens = np.array([*range(90, 90 + prompt), *tokens], np.int32)
    chosen = np.arange(len(all_tokens)) >= prompt
    return Trajectory(completion, problem, (Context(all_tokens, chosen, np.zeros(len(tokens), np.float32)),), completion=completion)


def groups(*rows):
    return [Group(str(n), tuple(row)) for n, row in enumerate(rows)]


class Problems:
    size = None

    def __init__(self, problem):
        self.problem = problem

    def draw(self, indices, level, key):
        return [self.problem for _ in indices]


def task(problem=None, verify=None):
    source = Problems(problem)
    return Task("p", source, source, verify=verify)


def waiting(what, about=""):
    return nullcontext()


def score(reward, *rows, verify=None, step=0, facts=None, max_tokens=64):
    """The judgements of one call."""
    known = facts if facts is not None else {}
    world = SimpleNamespace(
        steps=9,
        note=lambda name, value: None,
        task=task(verify=verify),
        sampling=Sampling(max_tokens=max_tokens),
        step=step,
        call=str,
        fact=known.get,
        decide=known.__setitem__,
        waiting=waiting,
    )
    return asyncio.run(reward.score(groups(*rows), {}, world))


def rewards(reward, *completions, **more):
    """The combined rewards of one group of plain text problems."""
    (row,) = score(reward, [trajectory(c, plain=True, **more) for c in completions])
    return [judgement.reward for judgement in row]
