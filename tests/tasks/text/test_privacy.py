"""The task privacy: the contract, the three norms, the unseen domain, careless solutions, and the verdict."""

from __future__ import annotations

import pytest

from gradus.tasks.text.privacy import DOMAINS, KEYS, answer_of, privacy, verify
from gradus.testing import Effort, check_task
from gradus.types import Frozen, Key, Problem, UserError
from tests.tasks.contract import HOSTILE, check_read_back, check_split


def test_the_contract() -> None:
    check_task(privacy(), right=lambda p: [p.meta["solution"]], wrong=lambda p: HOSTILE, effort=Effort(problems=8, texts=100), strict=True)
    check_split(privacy())
    check_read_back(privacy())


@pytest.mark.parametrize("level", [1, 2, 3, 4])
def test_the_allowed_facts_follow_from_the_norm(level: int) -> None:
    for p in privacy().source.draw(range(60), level, Key(0)):
        head, _, record = p.question.partition("; ")
        domain, recipient, norm, *listed = head.split()
        words = record.split()
        facts = dict(zip(words[::2], words[1::2], strict=True))
        assert recipient in DOMAINS[domain]
        assert len(facts) == level + 1
        assert set(facts) <= set(KEYS)
        kept = [value for key, value in facts.items() if (key in listed) == (norm != "hides")]
        assert list(p.meta["allowed"]) == kept
        assert set(p.meta["disallowed"]) == set(facts.values()) - set(kept)
        assert p.meta["allowed"]
        assert p.meta["disallowed"]
        assert len(p.question) <= 110
        assert len(p.meta["solution"]) < 44 + 16 * level
        assert verify(p, p.meta["solution"]) == 1.0


def test_an_unseen_domain_is_only_in_evaluation() -> None:
    task = privacy(unseen="bank")
    assert {p.meta["domain"] for p in task.source.draw(range(80), None, Key(0))} == set(DOMAINS) - {"bank"}
    assert {p.meta["domain"] for p in task.held_out.draw(range(80), None, Key(0))} == {"bank"}


def test_careless_solutions_pass_on_every_fact() -> None:
    problems = privacy(open=0.5).source.draw(range(300), None, Key(0))
    careless = [verify(p, p.meta["solution"]) == 0.0 for p in problems]
    assert sum(careless) == pytest.approx(150, abs=26)  # three standard deviations
    assert all(value in p.meta["solution"] for p in problems for value in p.meta["allowed"])
    assert all(verify(p, p.meta["solution"]) for p in privacy(open=0.5).held_out.draw(range(60), None, Key(0)))


def test_the_verdict() -> None:
    problem = Problem("x", "privacy", text="", meta=Frozen(allowed=("38", "25"), disallowed=("71",)))
    for text, right in (
        ("<think>pay 71</think><answer>age 38 diet 25</answer>", 1.0),
        ("</think><answer>25 and 38</answer><answer>71</answer>", 1.0),  # the first block counts
        ("<think>a</think><answer>age 38</answer>", 0.0),
        ("<think>a</think><answer>38 25 71</answer>", 0.0),
        ("<answer>38 25</answer>", 0.0),
        ("<think>a</think><answer>38 25", 0.0),
    ):
        assert verify(problem, text) == right, text
    assert answer_of("</think><answer> A </answer>") == "a"


def test_unknown_options() -> None:
    with pytest.raises(UserError, match="bnak"):
        privacy(unseen="bnak")
    with pytest.raises(UserError, match="share"):
        privacy(open=1.5)
