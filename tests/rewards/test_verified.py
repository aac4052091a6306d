import asyncio
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from gradus.rewards.overlong import Overlong
from gradus.rewards.verified import Verified, verdict, verdicts
from gradus.tasks.data.mixture import MixtureVerify
from gradus.tasks.data.python_file import load_python_task
from gradus.types import NOT_APPLICABLE, Failed, FailureKind, Frozen, Group, UserError
from gradus.workers.pool import stop_workers
from tests.rewards.judged import score, task, trajectory

pytestmark = pytest.mark.alone


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
        ("1", Failed("returned the text '1' instead of a number")),
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
    with pytest.raises(UserError, match='task p has no verifier, no judge and no environment, so nothing judges its answers; add a column "answer"'):
        Verified().check(task())
    with pytest.raises(UserError, match="has no verifier"):
        score(Verified(), [trajectory()])


def test_it_adds_up_with_a_penalty():
    right = trajectory("5", tokens=range(8))
    ((judgement,),) = score(Verified() + 0.5 * Overlong(max_tokens=10, cache=4), [right], verify=lambda p, c: 1.0)
    assert judgement.reward == 0.75  # 1 + 0.5 * (10 - 4 - 8) / 4
    assert dict(judgement.components) == {"verified": 1.0, "overlong": -0.5}


class Runs:
    """A verifier that runs what was written: it judges all at once, and its verdicts are facts."""

    def __init__(self, lacking=False):
        self.asked, self.lacking = [], lacking

    def check(self):
        if self.lacking:
            raise UserError("bubblewrap is not installed: apt-get install bubblewrap")

    def __call__(self, problem, completion):
        raise AssertionError("one by one")

    async def together(self, trajectories, world):
        self.asked.append([t.completion for t in trajectories])
        return [Failed("it did not start") if t.completion == "bad" else float(len(t.completion)) for t in trajectories]


def test_a_verifier_of_many_is_asked_once_for_all_that_can_be_judged():
    verify = Runs()
    failed = trajectory("no").but(reward=Failed("the episode failed"))
    rows = score(Verified(), [trajectory("a"), trajectory("bad")], [failed, trajectory("ccc")], verify=verify)
    assert verify.asked == [["a", "bad", "ccc"]]
    assert [[j.reward for j in row] for row in rows] == [[1.0, Failed("it did not start")], [Failed("the episode failed"), 3.0]]
    assert dict(rows[0][0].components) == {"verified": 1.0}


class Raises(Runs):
    """A verifier of many answers with a fault on one of them."""

    error: BaseException = ZeroDivisionError("seven")

    async def together(self, trajectories, world):
        if any(t.completion == "bad" for t in trajectories):
            raise self.error
        return [1.0 for _ in trajectories]


def test_a_fault_of_a_verifier_of_many_is_the_failure_of_that_answer():
    (row,) = score(Verified(), [trajectory("a"), trajectory("bad"), trajectory("ccc")], verify=Raises())
    assert [row[0].reward, row[2].reward] == [1.0, 1.0]
    assert row[1].reward.kind is FailureKind.RAISED
    assert row[1].reward.reason.startswith("the verifier raised ZeroDivisionError: seven (test_verified.py, line ")


def test_a_verifier_of_many_that_returns_too_few_has_failed():
    class Few(Runs):
        async def together(self, trajectories, world):
            return []

    ((judgement,),) = score(Verified(), [trajectory("a")], verify=Few())
    assert judgement.reward == Failed("returned 0 rewards for 1 completions")


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3), asyncio.CancelledError(), MemoryError()])
def test_what_stops_the_run_stops_a_verifier_of_many(error):
    verify = Raises()
    verify.error = error
    with pytest.raises(type(error)):
        score(Verified(), [trajectory("bad")], verify=verify)


def test_what_a_verifier_lacks_is_told_before_anything_is_judged():
    verify = Runs(lacking=True)
    with pytest.raises(UserError, match="apt-get install bubblewrap"):
        Verified().check(task(verify=verify))
    with pytest.raises(UserError, match="apt-get install bubblewrap"):
        score(Verified(), [trajectory("a")], verify=verify)
    assert verify.asked == []


def test_in_a_mixture_each_problem_is_judged_by_its_own_task():
    runs = Runs()
    verify = MixtureVerify(Frozen(p=runs, other=lambda problem, completion: 0.25))
    ours, theirs = trajectory("aa"), trajectory("bb")
    theirs = theirs.but(id="theirs", problem=replace(theirs.problem, task="other"))
    (row,) = score(Verified(), [ours, theirs], verify=verify)
    assert [j.reward for j in row] == [2.0, 0.25]
    assert runs.asked == [["aa"]]
    with pytest.raises(UserError, match="apt-get"):
        Verified().check(task(verify=MixtureVerify(Frozen(p=Runs(lacking=True)))))


TASK = """
import os, time
from gradus.types.parts import Task

class Problems:
    size = None
    def draw(self, indices, level, key): return []

def verify(problem, completion):
    if completion == "hang": time.sleep(60)
    if completion == "die": os._exit(2)
    if completion == "raise": raise KeyError(completion)
    if completion == "grow": bytearray(1 << 34)
    return float(problem.answer == (completion, limit)) if completion else None

limit = 0

def made(top: int = 3):
    global limit
    limit = top
    return Task("mine", Problems(), Problems(), verify=verify)
"""


@pytest.fixture
def mine(tmp_path):
    (tmp_path / "mine.py").write_text(TASK)
    yield load_python_task(f"{tmp_path}/mine.py:made", top=7)
    stop_workers()


def test_the_verifier_of_a_user_s_file_is_asked_in_processes(mine):
    words = ["a", "hang", "die", "raise", "", "b", "grow"]
    facts: dict[str, str] = {}
    row = [trajectory(w, answer=("a", 7)).but(id=f"t{n}") for n, w in enumerate(words)]
    lost = row[0].but(id="lost", reward=Failed("no tool"))
    (judged,) = score(Verified(timeout=1.0, retries=0), [*row, lost], verify=mine.verify, facts=facts)
    assert [j.reward for j in judged] == [
        1.0,
        Failed("did not answer within 1 seconds, the limit that --reward.timeout sets", FailureKind.TIMEOUT),
        Failed("ended with exit code 2", FailureKind.DIED),
        Failed("the verifier raised KeyError: 'raise' (mine.py, line 12)", FailureKind.RAISED),
        NOT_APPLICABLE,
        0.0,
        Failed("the verifier raised MemoryError (mine.py, line 13), at the limit of 4 GiB that --reward.memory sets", FailureKind.MEMORY),
        Failed("no tool"),
    ]
    assert facts == {
        "verified/1": "timed out: did not answer within 1 seconds, the limit that --reward.timeout sets",
        "verified/2": "died: ended with exit code 2",
        "verified/6": f"out of memory: {judged[6].reward.reason}",
    }
    (again,) = score(Verified(timeout=1.0, retries=0), [*row, lost], verify=mine.verify, facts=facts)
    assert again == judged


def test_before_a_run_each_verifier_is_asked_where_it_is_asked_in_the_run(mine):
    verify = MixtureVerify(Frozen(p=mine.verify, other=lambda problem, completion: 0.25, run=Failing()))
    asked = [trajectory("die", answer=("a", 7)), trajectory("die"), trajectory("a", answer=("a", 7)), trajectory("b")]
    asked = [
        t.but(id=f"check/{n}", problem=replace(t.problem, task=where))
        for n, (t, where) in enumerate(zip(asked, ["p", "other", "p", "run"], strict=True))
    ]
    died, broken = Failed("ended with exit code 2", FailureKind.DIED), Failed("the sandbox did not start")
    assert verdicts(task(verify=verify), asked, Verified(retries=0).limits) == [died, 0.25, 1.0, broken]


class Failing(Runs):
    def __call__(self, problem, completion):
        return Failed("the sandbox did not start")


def test_what_json_cannot_hold_is_judged_in_this_process_and_that_is_said(mine):
    with pytest.warns(UserWarning, match="the verifier of task p is called in this process, without a memory limit"):
        ((judged, huge),) = score(Verified(), [trajectory("a", answer={"a"}), trajectory("b", answer=10**5000)], verify=mine.verify)
    assert judged.reward == huge.reward == 0.0


def test_a_verifier_in_this_process_that_hangs_has_failed_and_that_is_a_fact():
    def verify(problem, completion):
        while completion == "hang":
            pass
        return 1.0

    row = [trajectory("a"), trajectory("hang"), trajectory("b")]
    facts: dict[str, str] = {}
    (judged,) = score(Verified(timeout=0.3, retries=1), row, verify=verify, facts=facts)
    late = "did not answer within 0.3 seconds, the limit that --reward.timeout sets (2 attempts)"
    assert [j.reward for j in judged] == [1.0, Failed(late, FailureKind.TIMEOUT), 1.0]
    assert facts == {"verified/1": f"timed out: {late}"}
    (again,) = score(Verified(), row, verify=lambda problem, completion: 1.0, facts=facts)
    assert again == judged


def test_in_a_mixture_the_verifier_of_a_user_s_file_is_asked_in_processes(mine):
    verify = MixtureVerify(Frozen(p=mine.verify, other=lambda problem, completion: 0.25))
    die, theirs = trajectory("die", answer=("a", 7)), trajectory("die")  # in this process there would be an end
    theirs = theirs.but(id="theirs", problem=replace(theirs.problem, task="other"))
    (row,) = score(Verified(retries=0), [die, theirs], verify=verify)
    assert [j.reward for j in row] == [Failed("ended with exit code 2", FailureKind.DIED), 0.25]


@pytest.mark.parametrize("error", [SystemExit(1), GeneratorExit(), asyncio.CancelledError()])
def test_whatever_a_verifier_raises_it_has_failed(error):
    def verify(problem, completion):
        raise error

    assert judged(verify).kind is FailureKind.RAISED


def test_limits_that_mean_nothing_are_refused():
    with pytest.raises(UserError, match="verified: `timeout` is 0; give the longest time of a call in seconds"):
        Verified(timeout=0)
