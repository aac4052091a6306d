from __future__ import annotations

import itertools
import random

from gradus.tasks.puzzles.proofs import derived, proof, proofs, proves, verify
from gradus.types import Frozen, Key, Problem
from tests.tasks.contract import check_contract

FACTS, RULES = "ab", (("ab", "c"), ("bc", "d"), ("e", "d"), ("d", "e"), ("f", "g"))


def follows(question: str) -> set[str]:
    """All that follows, by an independent reading of the prompt."""
    told, _, _ = question.partition(";")
    known = {t for t in told.split() if ">" not in t}
    rules = [t.split(">") for t in told.split() if ">" in t]
    for _ in range(30):
        known |= {head for body, head in rules if set(body) <= known}
    return known


def right(question: str, steps: str) -> bool:
    """Whether each letter follows when only it and what came before is there, by the same reading."""
    told, _, goal = question.partition(";")
    known = {t for t in told.split() if ">" not in t}
    for step in steps:
        if not any(t[-1] == step and set(t[:-2]) <= known for t in told.split() if ">" in t):
            return False
        known |= {step}
    return steps.endswith(goal)


def test_contract() -> None:
    check_contract(proofs(), draws=40)


def test_every_proof_is_judged_as_by_brute_force() -> None:
    task = proofs()
    for p in task.source.draw(range(150), 1, Key(0)):
        letters = sorted({c for c in p.question if c.isalpha()})
        said = ["".join(steps) for n in (1, 2, 3) for steps in itertools.product(letters, repeat=n)]
        judged = [verify(p, f"={steps}") for steps in said]
        assert judged == [float(right(p.question, steps)) for steps in said]
        assert (p.answer == "none") == (p.question[-1] not in follows(p.question))
        assert verify(p, "=none") == float(p.answer == "none")


def test_none_is_right_exactly_where_the_goal_does_not_follow() -> None:
    for level in range(2, 7):
        for p in proofs().source.draw(range(60), level, Key(0)):
            assert verify(p, "=none") == float(p.meta["goal"] not in follows(p.question))
            assert p.meta["goal"] not in p.meta["facts"]


def test_a_proof_by_hand() -> None:
    found = derived(FACTS, RULES)
    assert list(found) == ["c", "d", "e"]  # c from a and b, then d from b and c, then e; nothing gives f
    assert proof("e", found) == [("ab", "c"), ("bc", "d"), ("d", "e")]
    assert proof("c", found) == [("ab", "c")]
    assert [proves(FACTS, RULES, steps) for steps in ("c", "cd", "cde", "ccd")] == [True] * 4
    assert [proves(FACTS, RULES, steps) for steps in ("d", "ed", "g", "f", "cg")] == [False] * 5


def test_what_counts_as_the_answer() -> None:
    p = Problem("x", "proofs", answer="cd", meta=Frozen(facts=FACTS, rules=RULES, goal="d"))
    assert [verify(p, t) for t in ("=cd", "ab>c bc>d=cd", "=ccd", "=cded", "=d", "=c", "=none", "cd", "=c d", "=CD")] == [1.0] * 4 + [
        0.0
    ] * 6
    q = Problem("x", "proofs", answer="none", meta=Frozen(facts=FACTS, rules=RULES, goal="g"))
    assert [verify(q, t) for t in ("=none", "=g", "=fg", "=None", "none")] == [1.0, 0.0, 0.0, 0.0, 0.0]


def test_no_blind_guess_is_better_than_chance_says() -> None:
    rng, task = random.Random(0), proofs()
    problems = task.held_out.draw(range(256), None, Key(0))
    # a share of 0.2 of 256 has the standard error 0.025; contents are shared out, not problems, so three of them
    assert abs(sum(verify(p, "=none") for p in problems) / 256 - task.chance) < 0.075
    assert sum(verify(p, f"={p.meta['goal']}") for p in problems) == 0  # two steps at least
    guesses = [rng.choice([head for _, head in p.meta["rules"]]) + p.meta["goal"] for p in problems]
    assert sum(verify(p, f"={guess}") for p, guess in zip(problems, guesses, strict=True)) / 256 < task.chance
