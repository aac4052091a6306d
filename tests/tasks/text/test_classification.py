from __future__ import annotations

import re
from collections import Counter

import pytest

from gradus.tasks.text.classification import KINDS, classification
from gradus.types import Key, UserError
from tests.tasks.contract import check_contract

LABELS = {"parity": {"even", "odd"}, "majority": {"a", "b", "tie"}, "sentiment": {"good", "bad", "neutral"}, "states": set("pqr")}


def brackets(text: str) -> bool:
    """Closed, by striking out neighbours that belong together."""
    while (shorter := re.sub(r"\(\)|\[\]|\{\}", "", text)) != text:
        text = shorter
    return text == ""


def sentiment(shown: str) -> str:
    told, _, said = shown.partition(";")
    values = {word[:3]: int(word[3:]) for word in told.split()}
    total = sum(-values[w] if flip else values[w] for flip, w in re.findall(r"(ne )?(\w{3})", said))
    return ["neutral", "good", "bad"][(total > 0) - (total < 0)]


def states(shown: str) -> str:
    told, _, text = shown.partition(";")
    moves, at = {m[:2]: m[2] for m in told.split()}, "p"
    for sign in text:
        at = moves[at + sign]
    return at


def yes(value: bool) -> str:
    return "yes" if value else "no"


def label(question: str) -> str:
    """The class, by an independent reading of the prompt."""
    kind, _, shown = question.partition(" ")
    first, *rest = shown.split()
    if kind == "majority":
        return {0: "tie", 1: "a", -1: "b"}[(shown.count("a") > shown.count("b")) - (shown.count("a") < shown.count("b"))]
    if kind == "rising":
        return yes([int(x) for x in shown.split()] == sorted({int(x) for x in shown.split()}))
    return {
        "parity": lambda: ["even", "odd"][sum(map(int, first)) % 2],
        "palindrome": lambda: yes(first == "".join(reversed(first))),
        "brackets": lambda: yes(brackets(first)),
        "divisible": lambda: yes(int(first) % int(rest[0]) == 0),
        "contains": lambda: yes(first.count(rest[0]) > 0),
        "sentiment": lambda: sentiment(shown),
        "states": lambda: states(shown),
    }[kind]()


def test_contract() -> None:
    check_contract(classification(), draws=100)


@pytest.mark.parametrize("kind", list(KINDS))
def test_classes_are_those_of_an_independent_reading(kind: str) -> None:
    task, found = classification(kinds=kind), Counter()
    labels = LABELS.get(kind, {"yes", "no"})
    for level in range(1, 7):
        for p in task.source.draw(range(100 if level < 5 else 20), level, Key(0)):
            assert p.meta["category"] == kind
            assert p.answer == label(p.question), p
            assert {x for x in labels | {"maybe", "YES", ""} if task.verify(p, f"={x}") == 1.0} == {p.answer}
            found[p.answer] += 1
    assert set(found) == labels
    # classes are drawn alike: 440 draws of chance 1/3 or 1/2 have standard errors of 0.022 and 0.024 of a share
    assert all(abs(count / 440 - 1 / len(labels)) < 0.1 for count in found.values())


def test_worked_steps_by_hand() -> None:
    found = {}
    for p in classification().source.draw(range(400), 2, Key(0)):
        found.setdefault(p.meta["category"], (p.question, p.meta["solution"]))
    question, solution = found["divisible"]
    _, number, by = question.split()
    rest = [int(step.partition(">")[2]) for step in solution.partition("=")[0].split()]
    assert rest == [int(number[: i + 1]) % int(by) for i in range(len(number))]
    question, solution = found["parity"]
    bits = question.split()[1]
    assert solution.startswith(" ".join(f"{b}{'eo'[bits[: i + 1].count('1') % 2]}" for i, b in enumerate(bits)))


def test_chance_is_the_mean_over_the_kinds() -> None:
    shares = [1 / len(LABELS.get(kind, {"yes", "no"})) for kind in KINDS]
    assert classification().chance == pytest.approx(sum(shares) / len(shares))


def test_a_kind_that_is_not_there_is_named() -> None:
    with pytest.raises(UserError, match=r'unknown kind of classification "party" \(did you mean parity'):
        classification(kinds="party")
