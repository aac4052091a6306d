import asyncio
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from gradus.rewards.overlong import Overlong
from gradus.rewards.verified import Verified, verdict
from gradus.types import NOT_APPLICABLE, Failed, Frozen, Group, UserError

from .judged import score, task, trajectory


def judged(verify):
    ((judgement,),) = score(Verified(), [trajectory("5", answer=5)], verify=verify)
    assert dict(judgement.components) == {"verified": judgement.reward}
    return judgement.reward


@pytest.mark.parametrize(
    ("value", "reward"),
    [
        (True, 1.0),
        (np.float32(0.5), 0.5),
        (NOT_APPLICABLE, NOT_APPLICABLE),
        (None, NOT_APPLICABLE),
        (Failed("sandbox"), Failed("sandbox")),
        (float("nan"), Failed("returned nan")),
        ("1", Failed("returned the text '1' for a number")),
    ],
)
def test_the_verdict_is_the_reward(value, reward):
    assert judged(lambda problem, completion: value) == reward


def test_problem_and_completion_are_what_is_judged():
    assert judged(lambda problem, completion: float(str(problem.answer) == completion)) == 1.0


def test_a_verifier_that_raises_has_failed():
    reason = judged(lambda problem, completion: problem.meta["absent"]).reason
    assert reason.startswith("the verifier raised KeyError: 'absent' (")


def test_a_judge_sees_the_whole_trajectory_and_goes_before_the_verifier():
    both = replace(task(verify=lambda problem, completion: 0.0), judge=lambda t: t.actions / 4)
    assert verdict(both, trajectory("5", tokens=range(2))) == 0.5
    assert verdict(both, trajectory("5").but(reward=Failed("no tool"))) == Failed("no tool")


def test_a_task_with_an_environment_alone_is_judged_by_it():
    Verified().check(replace(task(), environment=object()))
    world = SimpleNamespace(task=replace(task(), environment=object()))
    played = trajectory()
    played = played.but(contexts=(replace(played.contexts[0], streams=Frozen(turn=np.zeros(1)), rewards=((0, "environment", 0.25),)),))
    ((judgement,),) = asyncio.run(Verified().score([Group("g", (played,))], {}, world))
    assert (judgement.reward, dict(judgement.components)) == (0.25, {"environment": 0.25})


def test_a_task_without_verifier_is_a_sentence():
    with pytest.raises(UserError, match='task p cannot tell right from wrong: its problems have no answers; add a column "answer"'):
        Verified().check(task())
    with pytest.raises(UserError, match="cannot tell right from wrong"):
        score(Verified(), [trajectory()])


def test_it_adds_up_with_a_penalty():
    right = trajectory("5", tokens=range(8))
    ((judgement,),) = score(Verified() + 0.5 * Overlong(max_tokens=10, cache=4), [right], verify=lambda p, c: 1.0)
    assert judgement.reward == 0.75  # 1 + 0.5 * (10 - 4 - 8) / 4
    assert dict(judgement.components) == {"verified": 1.0, "overlong": -0.5}
