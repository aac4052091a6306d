"""R1-Searcher: the two rewards by hand, the form, the stages, and the limit without the penalty."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import numpy as np
import pytest

from gradus.papers.agents.r1_searcher import FormedAnswer, SearchAct, closed, r1_searcher, short
from gradus.rewards.environment import EnvironmentReturn
from gradus.rewards.overlap import token_f1
from gradus.tasks.text.search_qa import search_qa
from gradus.testing.methods.scripted import scripted_world
from gradus.types import Failed, Group, Key, Request, Trajectory, UserError
from gradus.types.signals import LogProbs

TASK = replace(search_qa(1, people=40, instruction=False), environment=r1_searcher.environment)
(DRAWN,) = TASK.source.draw([0], 1, Key(0))
PROBLEM = replace(DRAWN, answer="red fox")
QUERY = "<search>home of Ann</search>"


def played(reward, *script: str) -> Trajectory:
    world, _ = scripted_world(TASK, lambda ask: script[min(ask.request.tags[-1], len(script) - 1)], reward=reward)
    (group,) = asyncio.run(r1_searcher.rollout.run([Request(PROBLEM, 1)], world))
    return group.trajectories[0]


def test_stage_1_by_hand() -> None:
    act = SearchAct()
    assert played(act, QUERY, "<answer>wrong</answer>").value == 1.0
    assert played(act, QUERY, "<answer>the red fox</answer>").value == 1.0  # the truth does not count
    assert played(act, "<answer>the red fox</answer>").value == 0.5
    assert played(act, "<search>home <answer>red fox</answer>").value == 0.0
    assert played(act, QUERY).value == 0.5  # searches until the limit
    assert played(act, QUERY, "<information>fake</information><answer>x</answer>").value == 0.5


def test_stage_2_by_hand() -> None:
    assert token_f1("the red fox", "red fox") == 1.0
    answer = FormedAnswer()
    assert played(answer, "<answer>the red fox</answer>").value == 1.0  # no search is needed
    assert played(answer, QUERY, "<answer>red dog</answer>").value == 0.5
    assert played(answer, "<search>home <answer>red dog</answer>").value == -1.5
    assert played(answer, QUERY).value == -2.0  # no answer
    assert played(answer, "<search> </information> <answer>red dog</answer>").value == -1.5  # two faults, one penalty
    assert played(FormedAnswer(penalty=1.0), "<search>home <answer>red dog</answer>").value == -0.5


def test_an_answer_of_ten_words_is_short() -> None:
    ten = "red fox " + "x " * 8
    f1 = 2 * 2 / (10 + 2)
    assert played(FormedAnswer(), f"<answer>{ten}</answer>").value == pytest.approx(f1)
    assert played(FormedAnswer(), f"<answer>{ten} x</answer>").value == pytest.approx(2 * 2 / (11 + 2) - 2)
    assert played(SearchAct(), f"<answer>{ten} x</answer>").value == 0.5  # stage 1 does not count words
    assert short("<answer>a <b>c</b></answer>") is False


@pytest.mark.parametrize(
    ("text", "good"),
    [
        ("<answer>a</answer>", True),
        (f"{QUERY}{QUERY}<answer>a</answer>", True),
        ("</search>a<search><answer>b</answer>", False),  # equal counts, wrong order
        ("<answer>a</answer><answer>b</answer>", False),
        ("</answer>a<answer>", False),
        (f"{QUERY}</information><answer>a</answer>", False),
        ("", False),
    ],
)
def test_the_form(text: str, good: bool) -> None:
    assert closed(text) is good


def test_a_failed_episode_stays_failed() -> None:
    one = played(FormedAnswer(), "<answer>red fox</answer>").but(reward=Failed("the sandbox broke"))
    for reward in (SearchAct(), FormedAnswer()):
        ((found,),) = asyncio.run(reward.score([Group("g", (one,))], {}, None))
        assert isinstance(found.reward, Failed)


def test_without_the_penalty_it_is_reinforce_plus_plus_on_the_f1() -> None:
    credited = []
    for reward in (FormedAnswer(penalty=0.0), EnvironmentReturn(), FormedAnswer()):
        scripts = ((QUERY, "<answer>red fox</answer>"), (QUERY,), ("<answer>dog</answer>",))
        rows = [played(reward, *script).but(id=str(i)) for i, script in enumerate(scripts)]
        even = {t.id: np.full(t.actions, -1.0) for t in rows}
        signals = {LogProbs(): even, LogProbs(player="reference"): even}
        credited.append(np.concatenate([c.advantages for c in r1_searcher.credit.assign([Group("g", tuple(rows))], signals)[0]]))
    assert credited[0].tolist() == credited[1].tolist()
    assert not np.allclose(credited[1], credited[2])
    # 2 of 4 pieces answer right with reward 1, the other episodes have 0 or -2
    assert credited[1][0] > 0 > credited[1][-1]


def test_the_stages_and_the_numbers_of_the_paper() -> None:
    stages = r1_searcher.schedule.stages
    assert list(stages) == ["act", "answer"]
    assert stages["act"].changes["reward"] == SearchAct(0.5, 0.5)
    assert not stages["answer"].changes
    assert (r1_searcher.reward.penalty, r1_searcher.reward.most) == (2.0, 10)
    assert (r1_searcher.credit.coefficient, r1_searcher.setting.group, r1_searcher.update.count) == (1e-4, 16, 4)
    with pytest.raises(UserError, match="penalty"):
        FormedAnswer(penalty=-1.0)
    with pytest.raises(UserError, match="form"):
        SearchAct(form=-1.0)
