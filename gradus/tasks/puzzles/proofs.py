"""Proofs from rules: facts are letters, "ab>c" means that a and b give c; a proof lists derived letters, step by step, up to the goal."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import replace

from gradus.tasks.generated import Draft, generated_task
from gradus.tasks.kinds import ending, hints
from gradus.tasks.puzzles.proof_documents import documents as written
from gradus.tasks.puzzles.sat import signature
from gradus.types import Frozen, Outcome, Problem
from gradus.types.parts import Task

_LEVELS = {  # letters, facts, rules, least number of steps of a proof
    1: (7, 2, 5, 2),
    2: (8, 2, 7, 2),
    3: (10, 2, 11, 3),
    4: (13, 3, 18, 4),
    5: (18, 3, 28, 6),
    6: (24, 4, 44, 8),
}
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_NONE = 0.2  # share of the problems whose goal does not follow: the best blind guess

Rule = tuple[str, str]
"""(premises, conclusion)."""


def proofs(level: int = 2, documents: bool = False) -> Task:
    """A problem has up to 5 rules with 7 letters at `level` 1, and up to 44 rules with 24 letters at `level` 6. Most rules do not help.

    `documents`: whether each problem has documents for continued pre-training (`gradus.tasks.puzzles.proof_documents`).
    """
    return generated_task(
        "proofs",
        _documented if documents else _proofs,
        verify,
        level=level,
        levels=(1, 6),
        max_tokens=48 + 24 * level,
        chance=_NONE,
        about='prove the goal: "a b ab>c cb>d;d" -> "ab>c cb>d=cd" (derived letters, in order) or "=none"; level: rules and steps',
        provides=("hints", "documents") if documents else ("hints",),
    )


def verify(problem: Problem, completion: str) -> Outcome:
    """Returns 1.0 if the letters after the last "=" follow one by one from facts, rules and earlier letters, and end in the goal; else 0.0.

    "none" is right if the goal does not follow.
    """
    last = ending(completion, 64)
    facts, goal = problem.meta["facts"], problem.meta["goal"]
    rules: Sequence[Rule] = problem.meta["rules"]
    if last is None or last == "none":
        return float(last == problem.answer)
    return float(re.fullmatch(r"[a-z]{1,26}", last) is not None and last[-1] == goal and proves(facts, rules, last))


def proves(facts: str, rules: Sequence[Rule], steps: str) -> bool:
    """Returns whether every letter of the steps follows by one rule from the facts and earlier letters."""
    known = set(facts)
    for step in steps:
        if not any(head == step and known.issuperset(body) for body, head in rules):
            return False
        known.add(step)
    return True


def derived(facts: str, rules: Sequence[Rule]) -> dict[str, Rule]:
    """Returns all derivable letters, each with the rule that first gives it, in the order of derivation."""
    found: dict[str, Rule] = {}
    while True:
        known = {*facts, *found}
        fresh = {head: (body, head) for body, head in reversed(rules) if head not in known and known.issuperset(body)}
        if not fresh:
            return found
        found |= dict(sorted(fresh.items()))


def proof(goal: str, found: dict[str, Rule]) -> list[Rule]:
    """Returns the rules that derive the goal, in a possible order of application."""
    needed = {goal}
    for head in reversed(found):
        if head in needed:
            needed |= set(found[head][0])
    return [rule for head, rule in found.items() if head in needed]


def _proofs(rng: random.Random, level: int) -> Draft:
    facts, rules, goal, steps = _puzzle(rng, level)
    answer = "".join(head for _, head in steps) or "none"
    shown = " ".join(f"{body}>{head}" for body, head in steps or derived(facts, rules).values())
    solution = f"{shown}={answer}"
    told = [*facts, *(f"{body}>{head}" for body, head in rules)]
    help_ = hints(
        ("ab>c: with a and b there is c", ", a given letter can be used again", ", the last step gives the goal"),
        (f"start from {' '.join(facts)}", f", {len(steps)} steps" if steps else ", no step gives the goal", f", the goal is {goal}"),
        solution,
    )
    meta = Frozen(facts=facts, rules=rules, goal=goal, steps=len(steps), hints=help_, category="proof" if steps else "none")
    # Rules, facts and the negated goal are clauses: "ab>c" is "not a or not b or c".
    content = signature([*facts, *(f"{body.upper()}{head}" for body, head in rules), goal.upper()])
    return Draft(f"{' '.join(told)};{goal}", answer, solution, content, meta)


def _documented(rng: random.Random, level: int) -> Draft:
    """Makes the draft of `_proofs`, with a column of documents. The puzzle is drawn first, so it equals the puzzle without documents."""
    draft = _proofs(rng, level)
    facts, rules, goal = draft.meta["facts"], draft.meta["rules"], draft.meta["goal"]
    found = derived(facts, rules)
    told = written(rng, draft.question, str(draft.solution), facts, rules, goal, proof(goal, found) or list(found.values()))
    return replace(draft, meta=Frozen({**draft.meta, "documents": told}))


def _puzzle(rng: random.Random, level: int) -> tuple[str, tuple[Rule, ...], str, list[Rule]]:
    """Draws facts, rules, a goal, and the steps to the goal (empty if the goal does not follow)."""
    size, given, count, least = _LEVELS[level]
    letters, wanted = rng.sample(_LETTERS, size), rng.random() >= _NONE
    while True:
        facts = "".join(sorted(rng.sample(letters, given)))
        rules = _rules(rng, letters, facts, count, least)
        found = derived(facts, rules)
        heads = {head for _, head in rules}
        if wanted:
            ways = {goal: proof(goal, found) for goal in found}
            goals = [goal for goal, way in ways.items() if len(way) >= least]
        else:  # a goal that only unusable rules give
            goals = sorted(heads - set(facts) - set(found)) if found else []
        if goals:
            goal = rng.choice(goals)
            return facts, rules, goal, proof(goal, found) if wanted else []


def _rules(rng: random.Random, letters: Sequence[str], facts: str, count: int, least: int) -> tuple[Rule, ...]:
    """Draws rules in random order: random rules, and a chain of `least` rules. Each rule of the chain uses the conclusion of the rule before it."""
    rules, known = [], rng.sample(facts, len(facts))
    for head in rng.sample([x for x in letters if x not in facts], least):
        rules.append(("".join(sorted({known[-1], rng.choice(known)})), head))
        known.append(head)
    while len(rules) < count:
        *body, head = rng.sample(list(letters), rng.choices((2, 3, 4), (3, 5, 1))[0])
        rules.append(("".join(sorted(body)), head))
    return tuple(dict.fromkeys(rng.sample(rules, count)))
