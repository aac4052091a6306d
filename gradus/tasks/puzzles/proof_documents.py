"""Documents about proofs from rules, for continued pre-training: proofs, translations, states after a step, and repairs of wrong proofs.

A state is the known letters, sorted, and the goal: "abc;d". A step is a rule: "bc>d" gives d if b and c are known.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from gradus.types import Frozen, Message

KINDS = ("proof", "formal", "informal", "state", "reasoned", "repair")
"""The statement and its proof; words to a statement; a statement to words; a state and a step to the next state, without and with reasoning; a
proof with a wrong step, the checker's error, and the right proof."""

Rule = tuple[str, str]


def after(known: str, rule: Rule) -> str | None:
    """Returns the known letters after a step, sorted. Returns None if a premise is missing.

    >>> after("ab", ("ab", "c")), after("a", ("ab", "c"))
    ('abc', None)
    """
    body, head = rule
    return "".join(sorted({*known, head})) if set(body) <= set(known) else None


def reasoned(known: str, rule: Rule) -> str:
    """Returns the reasoning of a step: where each premise is, and the next state's letters after the last "=".

    >>> reasoned("abe", ("ab", "c"))
    'a in abe,b in abe,c is new=abce'
    """
    body, head = rule
    found = after(known, rule)
    if found is None:
        raise ValueError(f"{body}>{head} cannot follow {known}")
    return f"{','.join(f'{letter} in {known}' for letter in body)},{head} is {'known' if head in known else 'new'}={found}"


def in_words(facts: str, rules: Sequence[Rule], goal: str) -> str:
    """Returns a statement in words.

    >>> in_words("ab", [("ab", "c")], "c")
    'given a and b, c if a and b, show c'
    """
    return ", ".join((f"given {' and '.join(facts)}", *(f"{head} if {' and '.join(body)}" for body, head in rules), f"show {goal}"))


def documents(
    rng: random.Random, statement: str, solution: str, facts: str, rules: Sequence[Rule], goal: str, steps: Sequence[Rule]
) -> Mapping[str, tuple[Message, ...]]:
    """Returns one chat per kind. `steps`: the rules that derive letters, in a possible order of application; not empty."""
    at = rng.randrange(len(steps))
    known = facts
    for rule in steps[:at]:
        known = after(known, rule) or known
    words = in_words(facts, rules, goal)
    wrong, error = _wrong(rng, facts, rules, goal)
    step = f"{steps[at][0]}>{steps[at][1]}"
    return Frozen(
        proof=_chat(statement, solution),
        formal=_chat(f"formal: {words}", statement),
        informal=_chat(f"words: {statement}", words),
        state=_chat(f"after {step}: {known};{goal}", f"{after(known, steps[at])};{goal}"),
        reasoned=_chat(f"why after {step}: {known};{goal}", f"{reasoned(known, steps[at])};{goal}"),
        repair=_chat(f"repair {statement} from {wrong}: {error}", solution),
    )


def _wrong(rng: random.Random, facts: str, rules: Sequence[Rule], goal: str) -> tuple[str, str]:
    """Returns a wrong proof and the checker's error. No rule gives the first letter of this proof from the facts alone. If no such letter exists, the proof is
    empty."""
    given = {head for body, head in rules if after(facts, (body, head)) is not None}
    unusable = [rule for rule in rules if rule[1] not in given and rule[1] not in facts]
    if not unusable:
        return "=", "no step"
    body, head = rng.choice(unusable)
    missing = next(letter for letter in body if letter not in facts)
    return f"{body}>{head}={head}{goal if head != goal else ''}", f"{missing} is not known"


def _chat(asked: str, answer: str) -> tuple[Message, ...]:
    return {"role": "user", "content": asked}, {"role": "assistant", "content": answer}
