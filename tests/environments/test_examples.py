"""Drawn examples: the prompt, what is barred, rewards, and refusals."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from gradus.environments.examples import DrawnExamples, question_of
from gradus.papers.agents.prompt_pg import prompt_pg
from gradus.players.build import build_players
from gradus.tasks.maths.tables import tables
from gradus.types import Frozen, Key, Problem, Sampling, UserError


class World:
    """A world in which the worker repeats the last line of its prompt's first example, and a text's hidden state is (3 n, 4 n, 0, 0), n its length."""

    def __init__(self, task, answer="=yes"):
        self.task, self.sampling, self.answer, self.asked, self.notes = task, Sampling(), answer, [], []
        self.scored, self.shared = [], {}

    async def once(self, name, make):
        if name not in self.shared:
            self.shared[name] = await make()
        return self.shared[name]

    def opening(self, prompt, player):
        return SimpleNamespace(text=prompt[0]["content"], then=lambda piece: prompt[0]["content"])

    def told(self, action, player):
        return None

    async def score(self, contexts, want, player):
        self.scored += contexts
        return [np.full((2, 4), np.array([3.0, 4.0, 0.0, 0.0]) * len(text)) for text in contexts]

    async def sample(self, requests):
        self.asked += requests
        return [[SimpleNamespace(tokens=np.arange(3), chosen=np.ones(3, bool))] for _ in requests]

    def text(self, tokens, player):
        return self.answer

    def note(self, name, value):
        self.notes.append((name, value))


SETTINGS = DrawnExamples(candidates=4, shots=2, width=4)
TASK = replace(tables(problems=9), verify=lambda problem, said: float(said == "=yes"))


def begun(problem, **options):
    world = World(TASK, **options)
    return asyncio.run(SETTINGS.start(problem, Key(), world)), world


def test_the_worker_is_asked_greedily_after_the_drawn_examples():
    (problem,) = TASK.source.draw([7], None, Key(4))
    episode, world = begun(problem)
    assert {n: a.shape for n, a in episode.first.observation.items()} == {"query": (4,), "candidates": (4, 4), "barred": (4,)}
    turn = asyncio.run(episode.step(2))
    assert (turn.reward, turn.terminated, turn.observation["barred"].tolist()) == (0.0, False, [0, 0, 1, 0])
    again = asyncio.run(episode.step(2))
    assert (again.valid, again.terminated) == (False, False)
    last = asyncio.run(episode.step(0))
    assert (last.reward, last.terminated) == (1.0, True)
    (asked,) = world.asked
    assert (asked.player, asked.sampling.temperature, asked.trained) == ("worker", 0.0, False)
    drawn = [episode.examples[i] for i in (2, 0)]
    nearest, furthest = (f"{question_of(e)}\n{e.meta['solution']}\n\n" for e in drawn)  # the first one drawn stands nearest to the question
    assert asked.prompt[0]["content"] == furthest + nearest + question_of(problem)
    same = any(e.meta["category"] == problem.meta["category"] for e in drawn)
    assert world.notes == [("same_kind", float(same))]


def test_a_wrong_answer_costs_one():
    episode, _ = begun(TASK.source.draw([7], None, Key(4))[0], answer="=no")
    asyncio.run(episode.step(1))
    assert asyncio.run(episode.step(3)).reward == -1.0


def test_a_question_is_not_its_own_example_and_the_examples_do_not_depend_on_it():
    episode, _ = begun(TASK.source.draw([7], None, Key(4))[0])
    own, _ = begun(episode.examples[1])
    assert own.first.observation["barred"].tolist() == [0, 1, 0, 0]
    assert own.examples == episode.examples


def test_examples_come_from_the_training_problems():
    episode, _ = begun(TASK.held_out.draw([0], None, Key(0))[0])
    held = {question_of(p) for p in TASK.held_out.draw(range(200), None, Key(0))}
    assert not {question_of(p) for p in episode.examples} & held


def test_each_text_is_encoded_once_a_step():
    world, problems = World(TASK), TASK.source.draw([5, 6], None, Key(4))
    first, second, again = (asyncio.run(SETTINGS.start(p, Key(i), world)) for i, p in enumerate([*problems, problems[0]]))
    texts = [question_of(p) for p in (*first.examples, *problems)]
    assert world.scored == texts  # 4 examples and 2 questions, for 3 episodes
    for row in (first.first.observation["query"], *first.first.observation["candidates"]):
        assert row.tolist() == pytest.approx([0.6, 0.8, 0.0, 0.0])  # of length 1
    assert all(np.array_equal(again.first.observation[name], row) for name, row in first.first.observation.items())
    asyncio.run(first.step(1))
    assert not second.barred[1]  # what episodes share is not what they change


def test_an_encoder_is_asked_for_its_width_before_anything_runs():
    players = build_players(prompt_pg, None, replace(TASK, environment=DrawnExamples()), Key(0))
    DrawnExamples().check_players(players)
    with pytest.raises(UserError, match=r"player encoder has 160 numbers, but environment\.width is 96; set --environment\.width 160"):
        DrawnExamples(width=96).check_players(players)
    for field, lacks in (("encoder", "hidden"), ("worker", "logprobs, text")):
        with pytest.raises(UserError, match=rf"environment\.{field} .* is player policy, which is not a language model with all of these abilities: {lacks}; set"):
            DrawnExamples(**{field: "policy"}).check_players(players)


def test_refusals():
    with pytest.raises(UserError, match=r"shots is 4, but DrawnExamples\.candidates is only 4"):
        DrawnExamples(candidates=4, shots=4)
    with pytest.raises(UserError, match="has no verifier"):
        SETTINGS.check_task(replace(TASK, verify=None))
    with pytest.raises(UserError, match="has no column `solution`"):
        SETTINGS.check_task(replace(TASK, provides=frozenset()))
    with pytest.raises(UserError, match=r"has 3 training problems; set --environment\.candidates 3"):
        SETTINGS.check_task(replace(TASK, source=replace(TASK.source, size=3)))
    with pytest.raises(UserError, match="has several messages"):
        question_of(Problem("p", "t", messages=({"role": "user", "content": "a"}, {"role": "user", "content": "b"}), meta=Frozen()))
