"""The planted sequence: gapped occurrences, procedures with different noise, the contract."""

from __future__ import annotations

import pytest

from gradus.tasks.puzzles.planted_subsequence import CLASSES, planted_subsequence, rates_of, secret, solved_at
from gradus.testing import Effort, check_task
from gradus.types import Key, UserError
from tests.tasks.contract import check_hostile, check_read_back, check_split


def test_contract() -> None:
    task = planted_subsequence()
    check_task(task, right=lambda p: (p.meta["solution"], "".join(p.meta["hints"]["solution"])), effort=Effort(problems=60), strict=True)
    check_hostile(task, 2)
    check_split(task)
    check_read_back(task)


@pytest.mark.parametrize(("trace", "at"), [("adc", 3), ("aadbcc", 5), ("acd", None), ("", None), ("ad", None), ("cdadc", 5)])
def test_the_first_gapped_occurrence(trace: str, at: int | None) -> None:
    assert solved_at("adc", trace) == at


def test_a_class_has_one_secret_of_different_letters() -> None:
    secrets = {name: secret(name, 5) for name in CLASSES}
    assert len(set(secrets.values())) == len(CLASSES)
    assert all(len(set(one)) == 5 for one in secrets.values())
    assert all(p.answer == secret(p.meta["kind"], 3) for p in planted_subsequence().source.draw(range(40), 2, Key(1)))


def test_letters_after_the_budget_do_not_count() -> None:
    task = planted_subsequence()
    problem = task.source.draw([0], 2, Key(0))[0]
    wanted, length = problem.answer, problem.meta["length"]
    other = next(letter for letter in "abcdefghijklmnop" if letter not in wanted)
    assert task.verify(problem, other * (length - 3) + wanted) == 1.0  # type: ignore[misc]
    assert task.verify(problem, other * (length - 2) + wanted) == 0.0  # type: ignore[misc]


def test_the_procedures_differ_in_their_noise() -> None:
    drawn = planted_subsequence().source.draw(range(300), 3, Key(2))
    by_rate = {rate: [len(p.meta["solution"]) for p in drawn if p.meta["rate"] == rate] for rate in (0.0, 0.5, 0.8)}
    assert set(by_rate[0.0]) == {4}
    means = [sum(lengths) / len(lengths) for lengths in by_rate.values()]
    assert means[0] < means[1] < means[2]
    assert max(by_rate[0.8]) <= 24
    assert {len(p.meta["solution"]) for p in planted_subsequence(noise="0").source.draw(range(40), 3, Key(2))} == {4}


def test_rates() -> None:
    assert rates_of("0, 0.25") == (0.0, 0.25)
    for wrong in ("", "x", "1", "-0.1", "0;0.5"):
        with pytest.raises(UserError, match="`noise` is"):
            rates_of(wrong)
