"""A verifier that errs by stated shares in training, and never on held-out problems."""

import pytest

from gradus.tasks.data.noisy import NoisyVerify, noisy
from gradus.tasks.maths.arithmetic import arithmetic
from gradus.types import NOT_APPLICABLE, Failed, Frozen, Key, Problem, UserError


def drawn(task, count=400, held_out=False):
    return (task.held_out if held_out else task.source).draw(range(count), None, Key(0))


def shares(task, held_out=False):
    """(right answers called wrong, wrong answers called right), as shares of each kind."""
    problems = drawn(task, held_out=held_out)
    right = [task.verify(p, p.meta["solution"]) for p in problems]
    wrong = [task.verify(p, f"={p.answer + n}") for p in problems for n in (1, 2, 3)]
    return 1 - sum(right) / len(right), sum(wrong) / len(wrong)


def test_errors_have_the_stated_shares():
    missed, fooled = shares(noisy("arithmetic", 2, missed=0.3, fooled=0.1))
    assert missed == pytest.approx(0.3, abs=0.07)  # three standard deviations of 400 verdicts: 3 sqrt(0.21 / 400)
    assert fooled == pytest.approx(0.1, abs=0.026)  # of 1,200: 3 sqrt(0.09 / 1200)
    assert shares(noisy("arithmetic", 2)) == (0.0, 0.0)
    assert shares(noisy("arithmetic", 2, missed=1.0, fooled=1.0)) == (1.0, 1.0)


def test_held_out_verdicts_are_true():
    assert shares(noisy("arithmetic", 2, missed=0.5, fooled=0.5), held_out=True) == (0.0, 0.0)


def test_problems_are_those_of_the_task():
    task, plain = noisy("arithmetic", 2), arithmetic(2)
    assert [p.question for p in drawn(task, 20)] == [p.question for p in drawn(plain, 20)]
    assert drawn(task, 20, held_out=True) == drawn(plain, 20, held_out=True)
    assert all(p.meta["noisy"] for p in drawn(task, 20))
    assert (task.level, task.sampling, task.provides) == (plain.level, plain.sampling, plain.provides)


def test_an_answer_always_gets_the_same_verdict():
    task = noisy("arithmetic", 2, fooled=0.5)
    problem = drawn(task, 1)[0]
    answers = [f"={problem.answer + n}" for n in range(1, 41)]
    first = [task.verify(problem, a) for a in answers]
    assert first == [task.verify(problem, a) for a in answers]
    assert set(first) == {0.0, 1.0}  # and answers to one problem differ
    assert task.verify(problem, "=\ud800") in (0.0, 1.0)  # half of a surrogate pair


def test_a_verdict_that_is_no_number_stays():
    problem = Problem("p", "t", (), answer=1, meta=Frozen(noisy=True))
    for outcome in (Failed("broken"), NOT_APPLICABLE):
        assert NoisyVerify(lambda p, c, outcome=outcome: outcome, 1.0, 1.0)(problem, "=1") is outcome


def test_bad_options_are_refused():
    with pytest.raises(UserError, match=r"`fooled` is 1\.5"):
        noisy(fooled=1.5)
    with pytest.raises(UserError, match="arithmetc"):
        noisy("arithmetc")
    for name in ("noisy", "mixture"):
        with pytest.raises(UserError, match="with of="):
            noisy(name)
    with pytest.raises(UserError, match="must be generated, and its"):
        noisy("frozen_lake")
