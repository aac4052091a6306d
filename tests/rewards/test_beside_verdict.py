"""The verdict stays a component; answers without terms, and failed verdicts, keep the verdict."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from gradus.rewards.beside_verdict import beside_verdict
from gradus.testing.methods import TOY, scripted_world, toy_trajectory
from gradus.types import Failed, Group


def test_the_components_and_the_reward() -> None:
    def verify(problem, completion):
        if completion == "bad":
            raise ValueError("no")
        return float(completion == "b")

    world, _ = scripted_world(replace(TOY, verify=verify), lambda ask: "")
    rows = tuple(toy_trajectory([2], name=f"t/{i}").but(completion=c) for i, c in enumerate(("b", "c", "bad", "none")))
    of = lambda t, verdict: None if t.completion == "none" else (verdict + 2, {"length": len(t.completion)})  # noqa: E731
    ((right, wrong, failed, none),) = asyncio.run(beside_verdict([Group("g", rows)], world, of))
    assert (right.reward, right.components) == (3.0, {"verified": 1.0, "length": 1})
    assert (wrong.reward, wrong.components) == (2.0, {"verified": 0.0, "length": 1})
    assert isinstance(failed.reward, Failed)
    assert (none.reward, none.components) == (0.0, {"verified": 0.0})
