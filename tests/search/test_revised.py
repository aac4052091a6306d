"""Revised answers: which answer is kept, which is revised, the prompt of a round, and the metrics."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import pytest

from gradus.rewards.verified import Verified
from gradus.rollouts.feedback import Told
from gradus.search.revised import Revised
from gradus.testing.methods import TOY, scripted_world
from gradus.types import Outcome, Problem, Request, Sampling, UserError
from gradus.types.parts import Task


def length(problem: Problem, completion: str) -> Outcome:
    return min(1.0, len(completion) / 4)


TASK = Task("lengths", TOY.source, TOY.source, verify=length, about="long answers", sampling=Sampling(max_tokens=8))
PROBLEM = Problem("p", "lengths", messages=({"role": "user", "content": "q"},))


@dataclass(frozen=True)
class Again:
    """Repeats the answer; gives no text for the answer x."""

    seen: list[str] = field(default_factory=list)

    async def texts(self, attempts, world):
        self.seen.extend(t.completion for _, t in attempts)
        return [None if t.completion == "x" else f"again {t.completion}" for _, t in attempts]


def played(replies: list[str], **fields):
    feedback = Again()
    answers = iter(replies)
    world, policy = scripted_world(TASK, lambda ask: next(answers), reward=Verified())
    (group,) = asyncio.run(Revised(feedback=feedback, **fields).run([Request(PROBLEM)], world))
    return group.trajectories[0], feedback.seen, policy.batches


def test_the_best_or_the_latest_answer_is_kept_and_revised() -> None:
    replies = ["aa", "b", "ccc", "dd"]
    best, seen, _ = played(replies, keep="best")
    assert (best.completion, seen) == ("ccc", ["aa", "aa", "ccc"])
    latest, seen, _ = played(replies, keep="latest")
    assert (latest.completion, seen) == ("dd", ["aa", "b", "ccc"])
    assert dict(latest.links)["round"] == 3


def test_right_answers_and_answers_without_feedback_are_not_revised() -> None:
    assert played(["aaaa"])[1:] == ([], [1])
    assert played(["aaaa", "bb"], rounds=1, keep="best")[1:] == (["aaaa"], [1, 1])  # a right answer can still become better
    kept, seen, batches = played(["x"], rounds=2)
    assert (kept.completion, seen, batches) == ("x", ["x", "x"], [1])
    assert played(["aa"], rounds=0)[2] == [1]
    with pytest.raises(UserError):
        Revised(rounds=-1)


def test_the_prompt_of_a_round_and_the_metrics() -> None:
    told = Told("more: {attempt}")
    due = {"instead": ["more: a"], "after": ["q", "more: a"]}
    for place, texts in due.items():
        prompts = []

        def speak(ask, prompts=prompts):
            prompts.append(ask.request.prompt)
            return "a" * len(prompts)

        world, _ = scripted_world(TASK, speak, reward=Verified())
        asyncio.run(Revised(rounds=1, feedback=told, place=place).run([Request(PROBLEM)], world))
        assert "\n".join(texts) in "\n".join(m["content"] for m in prompts[1])
        assert len(prompts) == 2
        assert (world.notes["revised/0"], world.notes["revised/1"], world.notes["revised/right/1"]) == (0.25, 0.5, 0.0)


def test_one_problem_one_answer() -> None:
    world, _ = scripted_world(TASK, lambda ask: "aaaa", reward=Verified())
    assert asyncio.run(Revised(feedback=Again()).solve(PROBLEM, world)).right
