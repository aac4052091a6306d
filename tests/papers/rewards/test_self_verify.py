"""Self-verify: balanced verification problems, rewards of verdicts, the buffer, weighted votes, and GRPO at share 0."""

from __future__ import annotations

import asyncio

import pytest
import torch

from gradus.papers.bases.grpo import grpo
from gradus.papers.rewards.self_verify import TrueVerdicts, WithVerification, balanced_items, self_verify
from gradus.rewards.verified import Verified
from gradus.search.self_verdicts import CHECKS, SelfVerdicts, says_yes, verification
from gradus.testing.methods import (
    TOY,
    check_different_update,
    check_micro_batches,
    check_resumes,
    scripted_world,
    weights_after,
)
from gradus.types import Key, Problem, Request, UserError


def item(question, answer, right, step=0):
    return {"id": question, "task": "toy", "question": question, "raw": True, "answer": answer, "solution": f"x={answer}", "right": right, "step": step}


def made(questions, rights, wrongs, step=0):
    return [item(f"q{q}", f"{q}{i}", i < rights, step) for q in range(questions) for i in range(rights + wrongs)]


def test_a_balanced_batch_by_hand() -> None:
    """Four questions with three right answers and one wrong answer each give four right and four wrong items."""
    found = balanced_items(made(4, 3, 1), 8, Key(0))
    assert [i["right"] for i in found].count(True) == 4
    assert [i["right"] for i in found].count(False) == 4
    assert sorted(i["id"] for i in found) == sorted([f"q{q}" for q in range(4)] * 2)
    problems = [verification(i, "check {problem} {answer}", n) for n, i in enumerate(found)]
    assert sum(p.answer == "yes" for p in problems) / 8 == 0.5  # a constant yes earns a half
    assert len({p.id for p in problems}) == 8


def test_questions_with_one_kind_of_answer_and_old_steps() -> None:
    assert balanced_items(made(3, 4, 0), 8, Key(0)) == []
    assert balanced_items(made(3, 0, 4), 8, Key(0)) == []
    both = [*made(1, 1, 1, step=1), *made(2, 1, 1, step=2)]
    assert {i["step"] for i in balanced_items(both, 4, Key(0))} == {2}  # the newest first
    assert len(balanced_items(both, 99, Key(0))) == 6
    assert len(balanced_items(both, 5, Key(0))) == 4  # whole pairs
    assert balanced_items(both, 0, Key(0)) == []
    drawn = {balanced_items(made(1, 3, 1), 2, Key(k))[0]["answer"] for k in range(20)}
    assert drawn == {"00", "01", "02"}


def test_the_problem_shows_the_answer_and_asks_for_a_verdict() -> None:
    problem = verification(item("12+30", "43", False), "check {problem} {answer}", 3)
    assert (problem.text, problem.answer, problem.id, problem.meta[CHECKS]) == ("check 12+30 43", "no", "12+30-check-3", True)
    assert verification(item("a", "b", True), "{solution}", 0).text == "x=b"
    chat = verification({**item("a", "b", True), "raw": False}, "check {problem} {answer}", 0)
    assert (chat.question, chat.text) == ("check a b", None)
    assert [says_yes(t) for t in ("12+30=42=yes", "=No.", "yes", "=42", "")] == [True, False, True, None, None]


def played(speak, requests, rollout, state=None, step=0):
    world, _ = scripted_world(TOY, speak, reward=TrueVerdicts(Verified()))
    world.step = step

    async def whole():
        groups, after = await rollout.run(requests, world, rollout.start() if state is None else state)
        return groups, after, await world.aside()

    return asyncio.run(whole()), world


def asked(count=4, letters="ab"):
    return [Request(Problem(f"p{x}", "toy", text=x, answer=chr(ord(x) + 1)), count=count) for x in letters]


def by_turns(ask):
    """Answers to questions are right in turn; every verdict is yes."""
    if "verification" in ask.request.tags:
        return "=yes"
    by_turns.count += 1
    return "=" + (str(ask.request.problem.answer) if by_turns.count % 2 else "z")


def test_verdicts_are_judged_by_their_truth() -> None:
    by_turns.count = 0
    (groups, state, beside), world = played(by_turns, asked(), WithVerification())
    assert [g.accuracy for g in groups] == [0.5, 0.5]
    assert [len(g.trajectories) for g in beside] == [4, 4]  # two of four groups: share 0.5
    assert all(g.aside for g in beside)
    values = sorted((g.trajectories[0].problem.answer, g.trajectories[0].reward) for g in beside)
    assert values == [("no", 0.0), ("yes", 1.0)]
    assert len(state["buffer"]) == 8
    assert world.notes["verdicts"] == 0.5
    assert world.notes["verified_items"] == 2


def test_the_buffer_forgets_and_the_warmup_waits() -> None:
    by_turns.count = 0
    old = {"buffer": [*made(1, 1, 1, step=0), *made(1, 1, 1, step=3), *made(1, 1, 1, step=4)]}
    (_, state, beside), _ = played(by_turns, asked(letters="a"), WithVerification(steps=2), old, step=5)
    assert {i["step"] for i in state["buffer"]} == {4, 5}
    assert beside == []  # one group of answers allows one item, which is no pair
    (_, _, later), _ = played(by_turns, asked(), WithVerification(warmup=6), step=5)
    assert later == []
    (_, _, none), _ = played(by_turns, asked(), WithVerification(share=0.0))
    assert none == []


def test_at_share_0_it_is_grpo_and_else_it_is_not() -> None:
    one, other = (weights_after(r, steps=3)["policy.logits"] for r in (self_verify.but(rollout__share=0.0), grpo))
    assert torch.equal(one, other)
    check_different_update(self_verify, grpo, steps=4, group=8)
    check_resumes(self_verify, group=8)
    check_micro_batches(self_verify)


def test_what_is_refused_and_the_numbers() -> None:
    for wrong in ({"share": 1.0}, {"steps": 0}, {"warmup": -1}):
        with pytest.raises(UserError, match="WithVerification"):
            WithVerification(**wrong)
    assert (self_verify.rollout.share, self_verify.rollout.steps, SelfVerdicts().samples) == (0.5, 2, 4)
