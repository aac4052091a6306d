"""MM-UPT: votes by hand, labels that raise when they are read, own questions on the same pictures, and GRPO at the limit."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace

import pytest
import torch

from gradus.objectives.kl import KL
from gradus.papers.bases.grpo import grpo
from gradus.papers.rewards.mm_upt import OwnQuestions, TemplateQuestion, WrittenQuestion, asking, mm_upt
from gradus.rewards.majority import MajorityReward, agreement
from gradus.rewards.verified import Verified
from gradus.tasks.pictures.shapes import shapes
from gradus.testing.methods import TOY, advantages_of, check_micro_batches, scripted_world, toy_group, train_toy, weights_after
from gradus.types import Key, Problem, Request, UserError
from gradus.types.parts import Source


def test_votes_and_advantages_by_hand() -> None:
    assert agreement(["= 3", "see a , b = 3", "= 5", "= 3", "="]) == [1, 1, 0, 1, 0]
    assert agreement(["= 2", "= 4", "= 4", "= 2"]) == [1, 0, 0, 1]
    assert advantages_of(mm_upt.credit, toy_group(1, 1, 1))[0] == [[0.0, 0.0]] * 3  # a unanimous group has only the KL term


@dataclass(frozen=True)
class LockedProblem(Problem):
    """A problem whose label raises when it is read."""

    def __getattribute__(self, name):
        if name == "answer":
            raise AssertionError("the label was read")
        return super().__getattribute__(name)


@dataclass(frozen=True)
class Locked:
    of: Source
    size: int | None = None

    def draw(self, indices, level, key):
        return [LockedProblem(p.id, p.task, p.messages, p.text) for p in self.of.draw(indices, level, key)]


def test_labels_are_never_read_in_training() -> None:
    locked = replace(TOY, source=Locked(TOY.source), provides=frozenset())
    plain = replace(TOY, provides=frozenset())
    one, other = (weights_after(mm_upt, steps=3, task=task)["policy.logits"] for task in (locked, plain))
    assert torch.equal(one, other)
    (problem,) = locked.source.draw([0], None, Key(0))
    with pytest.raises(AssertionError, match="the label was read"):
        problem.answer  # noqa: B018


def test_the_label_changes_with_the_policy() -> None:
    seen: list[float] = []
    train_toy(mm_upt, steps=3, watch=lambda run, metrics, groups: seen.append(metrics["majority_share"]))
    assert len(seen) == 3
    assert all(0 < share <= 1 for share in seen)


def picture(number=0):
    return shapes(2).source.draw([number], None, Key(0))[0]


def test_a_new_question_keeps_the_picture() -> None:
    problem = picture()
    messages = asking(problem, "what now ?")
    made = replace(problem, messages=messages)
    assert (made.media, made.question) == (problem.media, "what now ?")
    assert asking(Problem("p", "t", ({"role": "user", "content": "a"},)), "b") == ({"role": "user", "content": "b"},)


def test_prompts_and_replies_of_the_writers() -> None:
    problem, (world, _) = picture(), scripted_world(TOY, lambda ask: "b")
    assert WrittenQuestion().prompt(problem) == f"{problem.question}\nWrite another question about the picture."
    assert WrittenQuestion("direct").prompt(problem) == "Write a question about the picture."
    assert WrittenQuestion().question(problem, " how  many ? ", world) == "how many ?"
    assert WrittenQuestion().question(problem, "  ", world) is None
    part = TemplateQuestion()
    assert part.prompt(problem) == "list all shapes"
    assert part.question(problem, "red circle", world) == "how many red circles ?"
    assert part.question(problem, "7", world) is None


def test_own_questions_are_answered_without_a_label() -> None:
    prompts: list[str] = []

    def speak(ask):
        shown = policy.text(ask.parent.sequence)
        prompts.append(shown)
        return "new b" if "question" in ask.request.tags else "=b"

    world, policy = scripted_world(TOY, speak, reward=MajorityReward())
    chat = Problem("p", "toy", ({"role": "user", "content": "a"},), answer="b")
    part = OwnQuestions(writer=WrittenQuestion(direct="Write", form="direct"), share=1.0)
    (group,) = asyncio.run(part.run([Request(chat, count=2)], world))
    made = group.trajectories[0].problem
    assert (made.question, made.answer, made.id) == ("new b", None, "p-own")
    assert [t.reward for t in group.trajectories] == [1.0, 1.0]
    assert [any(word in p for p in prompts) for word in ("Write", "new b")] == [True, True]
    (same,) = asyncio.run(OwnQuestions(share=0.0).run([Request(chat, count=2)], world))
    assert same.trajectories[0].problem == chat
    raw = Problem("r", "toy", text="a", answer="b")
    (kept,) = asyncio.run(part.run([Request(raw, count=2)], world))
    assert kept.trajectories[0].problem == raw  # a raw text has no message to ask by
    with pytest.raises(UserError, match=r"OwnQuestions\.share"):
        OwnQuestions(share=2.0)


def test_a_reply_without_a_question_keeps_the_question_of_the_task() -> None:
    def speak(ask):
        if "question" in ask.request.tags:
            return "new b" if ask.request.problem.id == "p" else ""
        return "=b"

    world, _ = scripted_world(TOY, speak, reward=MajorityReward())
    chats = [Problem(name, "toy", ({"role": "user", "content": "a"},), answer="b") for name in "pq"]
    part = OwnQuestions(writer=WrittenQuestion(direct="Write", form="direct"), share=1.0)
    groups = asyncio.run(part.run([Request(chat, count=2) for chat in chats], world))
    assert [g.trajectories[0].problem.question for g in groups] == ["new b", "a"]
    assert world.notes["own_questions"] == 0.5


def test_with_labels_it_is_grpo() -> None:
    base = grpo.but(objective__kl=KL(0.01), update__count=4, setting__temperature=0.7)
    one, other = (weights_after(r, steps=3)["policy.logits"] for r in (mm_upt.but(reward=Verified()), base))
    assert torch.equal(one, other)
    check_micro_batches(mm_upt)
    assert (mm_upt.setting.group, mm_upt.setting.temperature, mm_upt.objective["kl"].coefficient) == (10, 0.7, 0.01)
    assert (mm_upt.reward, mm_upt.study.reward, mm_upt.update.count) == (MajorityReward(), Verified(), 4)
