from __future__ import annotations

import itertools
from collections import Counter, defaultdict

import pytest

from gradus.tasks.puzzles.logic import KINDS, logic, verify
from gradus.types import Frozen, Key, Problem, UserError
from tests.tasks.contract import check_contract


class Reader:
    """An independent reading of a formula: `value(env)` walks the text itself; facts are sets of strings such as "P0" and "R01"."""

    def __init__(self, text: str, env: dict[str, str], facts: set[str] = frozenset(), size: int = 0) -> None:  # type: ignore[assignment]
        self.text, self.env, self.facts, self.size, self.at = text, env, facts, size, 0

    def whole(self) -> bool:
        value = self.pair()
        assert self.at == len(self.text)
        return value

    def take(self, text: str) -> bool:
        if self.text.startswith(text, self.at):
            self.at += len(text)
            return True
        return False

    def pair(self) -> bool:
        a = self.one()
        for sign in ("<>", ">", "&", "|"):
            if self.take(sign):
                b = self.one()
                return {"<>": a is b, ">": b or not a, "&": a and b, "|": a or b}[sign]
        return a

    def one(self) -> bool:
        if self.take("("):
            value = self.pair()
            assert self.take(")")
            return value
        if self.take("~"):
            return not self.one()
        head = self.text[self.at]
        self.at += 1
        if head in "AE":
            name, start, values = self.text[self.at], self.at + 1, []
            for thing in range(self.size):
                self.at, before = start, dict(self.env)
                self.env[name] = str(thing)
                values.append(self.one())
                self.env = before
            return all(values) if head == "A" else any(values)
        if head in "PQRS":
            width = 1 if head in "PQ" else 2
            things = self.text[self.at : self.at + width]
            self.at += width
            return head + "".join(self.env[x] for x in things) in self.facts
        return self.env[head] == "1"


def bits(names: str) -> list[dict[str, str]]:
    return [dict(zip(names, row, strict=True)) for row in itertools.product("01", repeat=len(names))]


def used(text: str) -> str:
    return "".join(sorted({c for c in text if c in "pqrst"}))


def accepted(question: str) -> set[str]:
    """All right answers, by brute force over the prompt."""
    kind, _, asked = question.partition(" ")
    if kind == "value":
        formula, given = asked.split()
        return {str(int(Reader(formula, dict(zip(given[::2], given[1::2], strict=True))).whole()))}
    if kind == "table":
        return {"".join(str(int(Reader(asked, row).whole())) for row in bits(used(asked)))}
    if kind in ("entails", "equal"):
        left, _, right = asked.partition(";")
        found = set()
        for row in bits(used(asked)):
            values, goal = [Reader(f, dict(row)).whole() for f in left.split(",")], Reader(right, dict(row)).whole()
            if (all(values) and not goal) if kind == "entails" else values != [goal]:
                found.add("".join(row.values()))
        return found or {"yes"}
    size, *told, formula = asked.split()
    facts = {t[0] + item for t in told for item in (t[1:].split(",") if t[0] in "RS" else t[1:])}
    if kind == "sentence":
        return {str(int(Reader(formula, {}, facts, int(size)).whole()))}
    return {"".join(str(x) for x in range(int(size)) if Reader(formula, {"x": str(x)}, facts, int(size)).whole()) or "none"}


def test_contract() -> None:
    check_contract(logic())


@pytest.mark.parametrize("kind", list(KINDS))
def test_answers_are_those_of_brute_force(kind: str) -> None:
    task = logic(kinds=kind)
    for level in (1, 2, 3, 5):
        for p in task.source.draw(range(40), level, Key(0)):
            right = accepted(p.question)
            assert p.meta["category"] == kind
            candidates = {"yes", "no", "0", "1", "none", "", *("".join(row.values()) for n in range(1, 5) for row in bits("pqrst"[:n]))}
            candidates |= {"".join(c) for n in range(1, 4) for c in itertools.combinations("0123", n)} | right
            said = {c for c in candidates if verify(p, f"={c}") == 1.0}
            # the things of "which" may stand in any order: 01 and 10 are one answer
            assert said == (right if kind != "which" else {c for c in candidates if c in right or sorted(c) in [sorted(r) for r in right]})
            assert p.answer in right


def test_what_counts_as_the_answer() -> None:
    against = Problem("x", "logic", answer="01", meta=Frozen(category="entails", against=("01", "10")))
    assert [verify(against, t) for t in ("=01", "00:1 =10", "=yes", "=11", "01", "=0 1", "=1")] == [1, 1, 0, 0, 0, 0, 0]
    follows = Problem("x", "logic", answer="yes", meta=Frozen(category="equal", against=()))
    assert [verify(follows, t) for t in ("=yes", "=no", "=01", "=YES")] == [1, 0, 0, 0]
    things = Problem("x", "logic", answer="02", meta=Frozen(category="which", against=()))
    assert [verify(things, t) for t in ("=02", "=20", "=0", "=022", "=none", "=enno")] == [1, 1, 0, 0, 0, 0]


def test_a_worked_value_by_hand() -> None:
    p = next(p for p in logic(kinds="value").source.draw(range(200), 3, Key(0)) if p.question == "value (~(~(r|(r|p))|r)&r)>r p1r0")
    # (~(~(0|(0|1))|0)&0)>0: 0|1 is 1, 0|1 is 1, ~1 is 0, 0|0 is 0, ~0 is 1, 1&0 is 0, 0>0 is 1
    assert p.meta["solution"].endswith("(1&0)>0 0>0=1")


def test_the_best_blind_guess() -> None:
    task = logic()
    problems = task.held_out.draw(range(512), None, Key(0))
    answers = defaultdict(Counter)
    for p in problems:
        answers[p.meta["category"]].update(dict.fromkeys(accepted(p.question), 1))
    best = sum(max(counts.values()) for counts in answers.values()) / 512
    assert set(answers) == set(KINDS)
    assert abs(best - task.chance) < 0.06  # standard error sqrt(0.36 * 0.64 / 512) = 0.021


def test_a_kind_that_is_not_there_is_named() -> None:
    with pytest.raises(UserError, match=r'unknown kind of logic "entail" \(did you mean entails'):
        logic(kinds="value,entail")
