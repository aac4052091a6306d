"""s3: the gain by hand, the frozen reader, the questions that are trained, and what PPO sees."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from gradus.papers.agents.s3 import GainBeyondRetrieval, PlainFails, PlayerReader, TaskReader, accuracy, s3
from gradus.papers.bases.ppo import ppo
from gradus.recipe.core import changes
from gradus.tasks.text.search_qa import search_qa
from gradus.testing.methods.scripted import scripted_world
from gradus.types import NOT_APPLICABLE, Frozen, Group, Key, Request, UserError
from gradus.types.signals import LogProbs, Values

TASK = replace(search_qa(2, people=200, instruction=False), environment=s3.environment)
STOP = "<search_complete>true</search_complete>"


@dataclass(frozen=True)
class Told:
    """A reader that says the given answers: `plain` to plain retrieval, `own` to an episode. It records its calls."""

    plain: str
    own: str
    calls: list = field(default_factory=list)

    async def read(self, problem, documents, world, tag):
        self.calls.append((tag, tuple(documents)))
        return self.plain if tag == "plain" else self.own


def problems(count: int = 1):
    return TASK.source.draw(range(count), 2, Key(0))


def played(reader, script=(STOP,), count=1, given=None):
    world, policy = scripted_world(TASK, lambda ask: script[min(ask.request.tags[-1], len(script) - 1)], reward=GainBeyondRetrieval(reader))
    groups = asyncio.run(s3.rollout.run([Request(p, count) for p in given or problems()], world))
    return groups, world, policy


def test_the_accuracy_by_hand() -> None:
    assert accuracy("in Paris, France", "Paris") == 1.0
    assert accuracy("the Eiffel Tower!", ["Rome", "eiffel tower"]) == 1.0
    assert accuracy("Tower of Eiffel", "Eiffel Tower") == 0.0
    assert accuracy("Parisian", "Paris") == accuracy("", "Paris") == accuracy("a", "") == 0.0


@pytest.mark.parametrize(("own", "plain", "gain"), [(True, False, 1.0), (True, True, 0.0), (False, True, -1.0), (False, False, 0.0)])
def test_the_gain_by_hand(own, plain, gain) -> None:
    (problem,) = problems()
    said = {True: f"It is {problem.answer}.", False: "no"}
    ((group,), _, _) = played(Told(said[plain], said[own]))
    (one,) = group.trajectories
    assert one.value == gain
    assert (one.components["verified"], one.components["plain"], one.right) == (float(own), float(plain), own)


def test_plain_retrieval_is_read_once_per_question() -> None:
    reader = Told("no", "no")
    groups, _, _ = played(reader, count=3, given=problems(2))
    assert [tag for tag, _ in reader.calls].count("plain") == 2
    assert len(reader.calls) == 2 + 6
    assert len(reader.calls[0][1]) == 8
    assert [len(g.trajectories) for g in groups] == [3, 3]


def test_the_bridge_document_makes_the_program_right() -> None:
    found = 0
    for problem in problems(20):
        (first, second), (_, bridge) = problem.meta["evidence"], problem.meta["queries"]
        assert TASK.reader(problem, [second, first]) == problem.answer
        assert TASK.reader(problem, [first]) in ("unknown", problem.answer)
        ((group,), _, _) = played(TaskReader(), (f"<query>{bridge[0]}</query>", STOP), given=[problem])
        one = group.trajectories[0]
        found += one.components["plain"] == 0.0 and one.value == 1.0
    assert found >= 15  # plain retrieval mostly misses the second hop


def test_a_task_without_a_program_is_refused() -> None:
    world, _ = scripted_world(replace(TASK, reader=None), lambda ask: STOP)
    with pytest.raises(UserError, match="use PlayerReader"):
        asyncio.run(TaskReader().read(problems()[0], [], world, ""))


def test_a_player_reads_documents_and_question() -> None:
    asked = []

    def speak(ask):
        if ask.request.tags[0] == "reader":
            asked.append(ask.request)
            return str(ask.request.problem.answer)
        return STOP

    world, _ = scripted_world(TASK, speak, reward=GainBeyondRetrieval(PlayerReader("policy")))
    (group,) = asyncio.run(s3.rollout.run([Request(problems()[0], 2)], world))
    assert [t.value for t in group.trajectories] == [0.0, 0.0]
    assert len(asked) == 3
    assert all(not r.trained and r.sampling.temperature == 0.0 for r in asked)
    assert str(asked[0].prompt[0]["content"]).endswith(problems()[0].meta["question"])


def test_the_reader_is_a_frozen_copy() -> None:
    assert s3.players["reader"].objective in (None, Frozen())
    assert s3.players["reader"].learns_from != "reader"
    assert {"players.reader", "selection", "reward", "environment", "rollout"} <= set(changes(ppo, s3))


def test_only_questions_that_plain_retrieval_fails_are_kept() -> None:
    (group,), _, _ = played(Told("no", "no"), count=2)
    (problem,) = problems()
    (solved,), _, _ = played(Told(str(problem.answer), "no"), count=2)
    bare = Group("bare", tuple(t.but(components=Frozen()) for t in group.trajectories))
    kept, dropped = PlainFails().keep([group, solved, bare], Key(0))
    assert ([g.key for g in kept], [g.key for g in dropped]) == ([group.key, "bare"], [solved.key])
    assert kept[0] is group
    assert dropped[0] is solved


def test_other_environments_do_not_apply() -> None:
    (group,), world, _ = played(Told("no", "no"))
    world.task = replace(TASK, environment=search_qa(2, people=200).environment)
    ((found,),) = asyncio.run(GainBeyondRetrieval(TaskReader()).score([group], {}, world))
    assert found.reward is NOT_APPLICABLE


def test_where_plain_retrieval_fails_the_credit_is_ppo_s_on_the_verdict() -> None:
    (problem,) = problems()
    rows = [g.trajectories[0].but(id=str(i)) for i, own in enumerate((str(problem.answer), "no")) for g in played(Told("no", own), (STOP, STOP))[0]]
    verdicts = [t.but(reward=t.components["verified"]) for t in rows]
    assert [t.value for t in rows] == [1.0, 0.0]
    even = {t.id: np.full(t.actions, -1.0) for t in rows}
    signals = {LogProbs(): even, LogProbs(player="reference"): even, Values(player="critic"): {t.id: np.linspace(0, 1, t.actions) for t in rows}}
    found, plain = ([c.advantages.tolist() for (c,) in s3.credit.assign([Group(t.id, (t,)) for t in some], signals)] for some in (rows, verdicts))
    assert found == plain
    assert s3.players["critic"].rates == Frozen(trunk=10.0, head=10.0)
    assert (s3.credit.coefficient, s3.credit.rule.lam, s3.environment.top, s3.environment.limit) == (0.001, 1.0, 8, 3)
