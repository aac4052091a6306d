"""Files of a user's own parts: each maker gives the text of p.py, whose class Mine has the method of a seam with the body given."""

from __future__ import annotations

HEAD = """from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch

from gradus import load_recipe
from gradus.credit.clipped import Clipped
from gradus.credit.groups import GroupRelative, spread
from gradus.objectives.ratios import TokenRatio
from gradus.objectives.trust import Clip, surrogate
from gradus.rewards.verified import Verified
from gradus.rollouts.single_turn import SingleTurn
from gradus.types import Problem, Request
from gradus.types.parts import Credited, Judgement, Task
from gradus.types.signals import EntropyOf, LogProb, LogProbs
from gradus.types.tally import tally
from gradus.updates.minibatches import Minibatches
from gradus.updates.optimizers import AdamW

grpo = load_recipe("grpo")


"""
SIGNATURES = {
    "choose": "choose(self, source, count, world)",
    "learn": "learn(self, groups, dropped, world, state)",
    "run": "run(self, requests, world)",
    "score": "score(self, groups, signals, world)",
    "keep": "keep(self, groups, key)",
    "assign": "assign(self, groups, signals)",
    "loss": "loss(self, outputs, batch)",
    "losses": "losses(self, log_ratio, advantages, batch)",
    "log_ratio": "log_ratio(self, logprobs, old, batch)",
    "factors": "factors(self, old, batch)",
    "coefficients": "coefficients(self, batch, source)",
    "apply": "apply(self, players, batches, step, key)",
    "at": "at(self, now, recipe)",
    "measure": "measure(self, run, recipe, world)",
    "build": "build(self, parameters)",
    "start": "start(self)",
}
AWAITED = ("run", "score", "measure")


def method(name: str, body: str, state: bool = False) -> str:
    """The text of a method; `state`: it takes a state last."""
    signature = SIGNATURES[name].removesuffix(")") + (", state)" if state else ")")
    lines = "".join(f"        {line}\n" for line in body.split("\n"))
    return f"    {'async ' if name in AWAITED else ''}def {signature}:\n{lines}"


def part(name: str, body: str, fields: str = "", start: str | None = None, base: str = "") -> dict[str, str]:
    """p.py with the class Mine. `start`: the body of its `start`, for a part with a state."""
    declared = "".join(f"    {line}\n" for line in fields.split("\n") if line)
    begin = "" if start is None else method("start", start) + "\n"
    return {"p.py": f"{HEAD}@dataclass(frozen=True)\nclass Mine{base}:\n{declared}\n{begin}{method(name, body, start is not None)}"}


def then(files: dict[str, str], text: str) -> dict[str, str]:
    """The file with more text at its end."""
    return {name: f"{content}{text}" for name, content in files.items()}


def instead(files: dict[str, str], old: str, new: str) -> dict[str, str]:
    """The file with a text replaced that it holds."""
    assert all(old in content for content in files.values())
    return {name: content.replace(old, new) for name, content in files.items()}


def credit(body: str, **more: str) -> dict[str, str]:
    return part("assign", body, fields="needs: ClassVar = ()", **more)


def trust(body: str, fields: str = "separable: ClassVar = True") -> dict[str, str]:
    return part("losses", body, fields=fields)


def ratio(body: str) -> dict[str, str]:
    return part("log_ratio", body, fields='against: ClassVar = "old"\nseparable: ClassVar = True')


def term(body: str, source: str = '"policy"', wants: str = "(LogProb(),)") -> dict[str, str]:
    return part("loss", body, fields=f"source: str = {source}\nseparable: ClassVar = True\nneeds: ClassVar = ()\nwants: ClassVar = {wants}")


def rollout(body: str) -> dict[str, str]:
    """`groups` are those of SingleTurn."""
    return part("run", f"groups = await SingleTurn().run(requests, world)\n{body}")


def reward(body: str) -> dict[str, str]:
    """`found` is what Verified says; the recipe `mine` has the reward. What it returns stands at the end of the file."""
    files = part("score", "return judged(groups, await Verified().score(groups, signals, world))", fields="needs: ClassVar = ()")
    return then(files, f'\n\nmine = grpo.derive("mine", "", reward=Mine(), study=None)\n\n\ndef judged(groups, found):\n    {body}\n')


def curriculum(body: str, start: str | None = None) -> dict[str, str]:
    """`problems` are drawn from the source."""
    return part("choose", f"problems = source.draw(list(range(count)), None, world.seed)\n{body}", start=start)
