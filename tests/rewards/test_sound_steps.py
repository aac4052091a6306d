"""SoundSteps: the verdict times the share of true steps."""

import pytest

from gradus.rewards.sound_steps import SoundSteps
from gradus.types import NOT_APPLICABLE, Failed, UserError
from tests.rewards.judged import score, task, trajectory


class Checker:
    """A verdict, and the share of true steps: the letters t of an answer."""

    def __init__(self, verdict):
        self.verdict = verdict

    def __call__(self, problem, completion):
        return self.verdict

    def steps(self, problem, completion):
        return completion.count("t") / len(completion)


@pytest.mark.parametrize(("verdict", "said", "reward"), [(1.0, "tt", 1.0), (1.0, "ttff", 0.5), (0.5, "tf", 0.25), (0.0, "tt", 0.0), (1.0, "f", 0.0)])
def test_the_verdict_times_the_share(verdict, said, reward):
    ((judgement,),) = score(SoundSteps(), [trajectory(said)], verify=Checker(verdict))
    assert judgement.reward == reward
    assert dict(judgement.components) == {"verified": verdict, "sound_steps": said.count("t") / len(said)}


@pytest.mark.parametrize("verdict", [NOT_APPLICABLE, Failed("broken")])
def test_a_verdict_that_is_no_number_stays(verdict):
    ((judgement,),) = score(SoundSteps(), [trajectory("t")], verify=Checker(verdict))
    assert judgement.reward == verdict


def test_a_verifier_without_steps_is_refused():
    with pytest.raises(UserError, match="take a task with checked steps, such as flawed"):
        SoundSteps().check(task(verify=lambda problem, completion: 1.0))
    SoundSteps().check(task(verify=Checker(1.0)))
