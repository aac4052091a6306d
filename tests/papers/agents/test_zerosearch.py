"""ZeroSearch: the rising noise, the simulated documents, the reward, and no call of the real engine in training."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from gradus.papers.agents.zerosearch import SimulatedSearch, noise, zerosearch
from gradus.rewards.overlap import Matches, f1
from gradus.tasks.text.search_qa import search_qa
from gradus.testing.methods.scripted import scripted_world
from gradus.tools import search
from gradus.types import Frozen, Key, Problem, Request

TASK = replace(search_qa(1, people=40, instruction=False), environment=zerosearch.environment)
(PROBLEM,) = TASK.source.draw([0], 1, Key(0))
SCRIPT = ["<search>home of Ann</search>", f"<answer>{PROBLEM.answer}</answer>"]


def played(tool: SimulatedSearch = SimulatedSearch(), *, progress: float = 0.0, purpose: str = "train", count: int = 1, script: list[str] = SCRIPT):
    task = replace(TASK, environment=replace(zerosearch.environment, tools=Frozen(search=tool)))
    world, policy = scripted_world(task, lambda ask: script[min(ask.request.tags[-1], len(script) - 1)], reward=zerosearch.reward)
    world.progress, world.purpose = progress, purpose
    (group,) = asyncio.run(zerosearch.rollout.run([Request(PROBLEM, count)], world))
    contexts = [t.contexts[0] for t in group.trajectories]
    return group, [policy.text(c.tokens[~c.chosen]) for c in contexts], world


def test_the_probability_by_hand():
    assert [noise(at) for at in (0.0, 0.5, 1.0)] == pytest.approx([0.0, 1 / 6, 0.5])
    assert noise(0.5, start=0.2, end=0.6, base=4.0) == pytest.approx(0.2 + 0.4 / 3)
    constant = sum(noise(step / 16) for step in range(16)) / 16
    assert constant == pytest.approx(0.179, abs=5e-4)  # of the second claim
    assert noise(0.3, base=1.0) == pytest.approx(noise(0.3, base=1 + 1e-9), abs=1e-6) == pytest.approx(0.15)


def test_useful_documents_hold_the_answer_and_noisy_ones_do_not():
    _, (useful,), _ = played(SimulatedSearch(end=0.0))
    assert f"The home of Ann is {PROBLEM.answer}." in useful
    assert useful.count("\n") == 2
    _, (noisy,), world = played(SimulatedSearch(start=1.0, end=1.0))
    assert f"is {PROBLEM.answer}." not in noisy
    assert "The home of Ann is " in noisy
    assert world.notes["noisy"] == 1.0


def test_the_share_of_noise_follows_the_progress():
    for progress, share in ((0.0, 0.0), (1.0, 0.5)):
        _, _, world = played(progress=progress, count=400)
        assert world.notes["noisy"] == pytest.approx(share, abs=0.08)


def test_each_query_of_an_episode_draws_its_own_noise():
    query = SCRIPT[0]
    _, told, _ = played(SimulatedSearch(start=0.5), script=[query, query, SCRIPT[1]], count=40)
    useful = [[f"Ann is {PROBLEM.answer}." in part for part in text.split("<information>")[1:]] for text in told]
    assert {len(parts) for parts in useful} == {2}
    assert {tuple(parts) for parts in useful} == {(True, True), (True, False), (False, True), (False, False)}


def test_training_never_calls_the_real_engine_and_a_test_does(monkeypatch):
    calls = []
    found = search.found
    monkeypatch.setattr(search, "found", lambda *args: calls.append(args[1]) or found(*args))
    played()
    assert calls == []
    _, (told,), _ = played(purpose="evaluate")
    assert calls == ["home of Ann"]
    assert "is" in told


def test_documents_have_no_loss_and_the_reward_is_the_f1():
    group, _, _ = played(script=["<search>x</search>", f"<answer>{PROBLEM.answer} or so</answer>"])
    (context,) = group.trajectories[0].contexts
    assert len(context.logprobs) == context.chosen.sum() < len(context.tokens)
    words = len(str(PROBLEM.answer).split())
    assert group.trajectories[0].reward == pytest.approx(2 * words / (2 * words + 2))
    assert Matches("f1")(Problem("p", "t", answer="red river"), "the red river") == 1.0
    assert f1(2, 3, 2) == pytest.approx(0.8)  # if the article counted
    none, _, _ = played(script=["<search>x</search>"])
    assert none.trajectories[0].reward == 0.0


@pytest.mark.parametrize(("share", "flag"), [(0.0, "useful"), (1.0, "noisy")])
def test_a_player_can_write_the_documents(share, flag):
    tool = SimulatedSearch(start=share, end=share, player="policy")
    task = replace(TASK, environment=replace(zerosearch.environment, tools=Frozen(search=tool)))
    asked = []

    def speak(ask):
        if ask.request.tags[0] == "simulated":
            asked.append(ask.request)
            return "a document"
        return SCRIPT[ask.request.tags[-1]]

    world, policy = scripted_world(task, speak, reward=zerosearch.reward)
    (group,) = asyncio.run(zerosearch.rollout.run([Request(PROBLEM, 1)], world))
    (context,) = group.trajectories[0].contexts
    assert policy.text(context.tokens[~context.chosen]) == "<information>a document\na document\na document</information>"
    assert asked[0].prompt[0]["content"].startswith(f"Write a {flag} document about: home of Ann\n")
    assert str(PROBLEM.answer) in asked[0].prompt[0]["content"]
    assert not asked[0].trained


def test_the_rest_is_grpo():
    assert zerosearch.objective["kl"].coefficient == 0.001
    assert zerosearch.setting.group == 5
    assert zerosearch.environment.limit == 4
    tool = zerosearch.environment.tools["search"]
    assert (tool.start, tool.end, tool.base, tool.docs) == (0.0, 0.5, 4.0, 3)
