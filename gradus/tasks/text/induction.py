"""The task induction: read labelled texts, and write the instruction that explains their labels."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import partial
from typing import Literal

from gradus.tasks.generated import Draft, generated_task
from gradus.tasks.kinds import ending
from gradus.types import Frozen, Outcome, Problem, UserError
from gradus.types.answers import macro_f1
from gradus.types.parts import Task

LABELS = ("red", "blue", "green", "gold", "gray", "pink", "teal", "black")
FILLERS = ("the", "and", "with", "near", "from", "over")
TESTS = 20  # held-out texts of a set

Role = Literal["write", "follow", "both"]
Pair = tuple[str, str]
"""A text and its label."""


def induction(level: int = 3, role: Role = "write") -> Task:
    """Makes the task: write an instruction from examples of a set with `level` labels, 2 to 5.

    A set has one made-up key word per label, and a text has the key word of its label among filler words. The instruction names the label of each
    key word, as in "bek:red sun:blue". The verdict on an instruction is the macro-F1 of the labels that its pairs word:label give to 20 other texts (`questions`).

    `role` "write": problems show examples. "follow": problems show an instruction and one text, and the answer is "=" and the label. "both": half of the
    problems are of each kind. Raises: UserError for an unknown role.
    """
    if role not in ("write", "follow", "both"):
        raise UserError(f'task induction: `role` is "{role}"; give "write", "follow" or "both"')
    return generated_task(
        "induction",
        partial(_induction, role=role),
        verify,
        level=level,
        levels=(2, 5),
        max_tokens=48,
        chance=0.0,
        about='instructions from labelled texts: "rule the bek,red sun over,blue" -> "bek:red sun:blue"; level: labels',
        provides=("questions",) if role == "write" else (),
    )


def _induction(rng: random.Random, level: int, role: Role) -> Draft:
    keys: list[str] = []
    while len(keys) < level:
        word = rng.choice("bdfgklmnprstvz") + rng.choice("aeiou") + rng.choice("bdgklmnprst")
        keys += [word] if word not in keys else []
    rule = dict(zip(keys, rng.sample(LABELS, level), strict=True))
    instruction = " ".join(f"{key}:{label}" for key, label in rule.items())
    shots = [*_texts(rng, keys), *_texts(rng, keys)][: level + rng.randint(1, level)]  # every label occurs
    tests = tuple((text, rule[key]) for text, key in (_text(rng, key) for key in (keys * TESTS)[:TESTS]))
    content = " ".join(sorted(f"{key}:{label}" for key, label in rule.items()))
    if role == "follow" or (role == "both" and rng.random() < 0.5):
        text, label = tests[rng.randrange(len(tests))]
        return Draft(f"{instruction}\n{text}", label, f"={label}", content, Frozen(category="follow"))
    rng.shuffle(shots)
    order = list(dict.fromkeys(key for _, key in shots))
    told = " ".join(f"{key}:{rule[key]}" for key in order)
    question = "rule " + " ".join(f"{text},{rule[key]}" for text, key in shots)
    return Draft(question, told, told, content, Frozen(category="write", questions=tests))


def _texts(rng: random.Random, keys: Sequence[str]) -> list[tuple[str, str]]:
    return [_text(rng, key) for key in keys]


def _text(rng: random.Random, key: str) -> tuple[str, str]:
    """Returns (a text that consists of the key word and a filler word, the key word)."""
    words = [key, rng.choice(FILLERS)]
    rng.shuffle(words)
    return " ".join(words), key


def rules(instruction: str) -> dict[str, str]:
    """Returns the label that an instruction gives to each key word. In a text with "=", only the part after the last "=" is read.

    >>> rules("bek:red sun:blue and so on")
    {'bek': 'red', 'sun': 'blue'}
    """
    return dict(part.split(":") for part in instruction[-200:].rpartition("=")[2].split() if part.count(":") == 1)


def verify(problem: Problem, completion: str) -> Outcome:
    """If the problem shows an instruction, returns 1.0 for an answer with the right label, else 0.0.

    If the problem asks for an instruction, returns the macro-F1 of the labels that the answer's pairs word:label give to the tests of the problem.
    """
    tests = problem.meta.get("questions")
    if tests is None:
        return float(ending(completion, 64) == str(problem.answer))
    said = rules(completion)
    found = [next((said[word] for word in text.split() if word in said), None) for text, _ in tests]
    return macro_f1([label for _, label in tests], found)
