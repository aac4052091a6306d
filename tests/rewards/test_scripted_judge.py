"""The scripted judge: the truth without errors, the rates of its errors, a hole, and what it needs of a task."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import SimpleNamespace

import pytest

from gradus.rewards.scripted_judge import Phrase, ScriptedJudge
from gradus.rewards.verdicts import Better, Case, FirstError, ScoreLines, YesNo
from gradus.testing.methods import TOY
from gradus.types import Problem, UserError

WORLD = SimpleNamespace(task=replace(TOY, verify=lambda problem, text: len(text) / 4 if text.isalpha() else 0.0))
TRUTH = ScriptedJudge()


def decided(judge, form, *answers, steps=()):
    problem = Problem("p", "p", text="q")
    return asyncio.run(judge.decide(form, [Case("c", problem, texts, tuple(steps)) for texts in answers], WORLD))


def share(judge, form, texts):
    return sum(v[0] for v in decided(judge, form, *texts)) / len(texts)


def test_the_truth():
    assert decided(TRUTH, YesNo(), ("abcd",), ("ab",), ("1",)) == [(1.0,), (0.5,), (0.0,)]
    assert decided(TRUTH, Better(), ("abcd", "ab"), ("ab", "abcd"), ("ab", "cd")) == [(1.0,), (0.0,), (0.5,)]
    assert decided(TRUTH, ScoreLines(), ("abcd", "ab", "1")) == [(1.0, 0.5, 0.0)]
    sound = ScriptedJudge(sound=lambda problem, text: [True, False, True])
    assert decided(sound, FirstError(), ("x",), steps="abc") == [(1.0, 0.0, 0.0)]
    assert decided(sound, FirstError(), ("x",), steps="a") == [(1.0,)]
    assert decided(sound, FirstError(), ("x",), steps="abcdefg") == [(1.0, *[0.0] * 6)]


def words(letters, count=2000):
    return [("".join(chr(97 + (i // 26**k) % 26) for k in range(letters)),) for i in range(count)]


def test_the_rates_of_errors():
    judge = ScriptedJudge(missed=0.3, fooled=0.1)
    assert share(judge, YesNo(), words(4)) == pytest.approx(0.7, abs=0.03)
    assert share(ScriptedJudge(lambda problem, text: 0.0, fooled=0.1), YesNo(), words(4)) == pytest.approx(0.1, abs=0.02)
    pairs = [(a, "1") for (a,) in words(4)]
    assert share(ScriptedJudge(reversed=0.2), Better(), pairs) == pytest.approx(0.8, abs=0.03)
    assert share(ScriptedJudge(first=0.4), Better(), [p[::-1] for p in pairs]) == pytest.approx(0.4, abs=0.03)
    assert sum(v is None for v in decided(ScriptedJudge(silent=0.25), YesNo(), *words(4))) == pytest.approx(500, abs=60)
    right = ScriptedJudge(sound=lambda problem, text: [True, True], missed=0.3)
    found = decided(right, FirstError(), *words(4), steps="ab")
    assert set(found) == {(1.0, 1.0), (0.0, 0.0)}
    assert sum(v[0] for v in found) == pytest.approx(1400, abs=60)
    wrong = ScriptedJudge(sound=lambda problem, text: [True, False], fooled=0.3)
    found = decided(wrong, FirstError(), *words(4), steps="ab")
    assert set(found) == {(1.0, 1.0), (1.0, 0.0)}
    assert sum(v[1] for v in found) == pytest.approx(600, abs=60)


def test_errors_stay():
    judge = ScriptedJudge(missed=0.5, reversed=0.5)
    assert decided(judge, YesNo(), *words(4, 50)) == decided(judge, YesNo(), *words(4, 50))
    one, other = (decided(judge, Better(), *[(a, "1")[::order] for (a,) in words(4, 50)]) for order in (1, -1))
    assert [v[0] for v in one] == [1 - v[0] for v in other]  # the same pairs are reversed in both orders


def test_the_hole_pays_in_every_form():
    judge = ScriptedJudge(hole=Phrase("ok!"), missed=1.0, sound=lambda problem, text: [False])
    assert decided(judge, YesNo(), ("ok!",), ("abcd",)) == [(1.0,), (0.0,)]
    assert decided(judge, Better(), ("ok!", "ab")) == [(1.0,)]
    assert decided(judge, ScoreLines(), ("ok!", "ab")) == [(1.0, 0.5)]
    assert decided(judge, FirstError(), ("ok!",), steps="ab") == [(1.0, 1.0)]


def test_what_it_needs():
    bare = replace(TOY, verify=None)
    for form, told in ((YesNo(), "right answers"), (FirstError(), "right steps")):
        with pytest.raises(UserError, match=told):
            TRUTH.check_form(form, bare)
    TRUTH.check_form(YesNo(), TOY)
    with pytest.raises(UserError, match=r"ScriptedJudge\.missed"):
        ScriptedJudge(missed=1.5)
