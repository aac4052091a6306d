"""Composed string functions, such as reverse(rotate(planet)). The prompt names the functions; they apply from the inside out."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from gradus.tasks.generated import Draft, generated_task
from gradus.types import Frozen, Outcome, Problem, UserError, unknown
from gradus.types.parts import Task

_VOWELS, _CONSONANTS = "aeiou", "bcdfghjklmnpqrstvwxyz"
_TAIL = 512

FUNCTIONS: Mapping[str, Callable[[str], str]] = Frozen(
    reverse=lambda s: s[::-1],  # planet -> tenalp
    upper=lambda s: s.upper(),  # planet -> PLANET
    rotate=lambda s: s[1:] + s[:1],  # planet -> lanetp
    double=lambda s: "".join(c + c for c in s),  # planet -> ppllaanneett
    devowel=lambda s: "".join(c for c in s if c.lower() not in _VOWELS),  # planet -> plnt
    swap=lambda s: s[-1:] + s[1:-1] + s[:1] if len(s) > 1 else s,  # planet -> tlanep
    mirror=lambda s: s + s[::-1],  # planet -> planettenalp
    tail=lambda s: s[1:],  # planet -> lanet
)


def string_ops(level: int = 3, functions: Sequence[str] = tuple(FUNCTIONS), documents: bool = False) -> Task:
    """Makes the task: apply a chain of `level` functions (1 to 8) to a made-up word. `functions`: the functions to draw from.

    `documents`: whether each problem has documents for continued pre-training. There are two: `proof` (the problem and its solution) and `state` (one
    function of the chain, its argument and its value).

    Raises: UserError for an unknown function, or an empty list.
    """
    if not functions:
        raise UserError("task string_ops: `functions` is empty; name at least one function")
    for name in functions:
        if name not in FUNCTIONS:
            raise unknown("string function", name, FUNCTIONS)
    task = generated_task(
        "string_ops",
        partial(_documented if documents else _string_ops, functions=tuple(functions)),
        verify,
        level=level,
        levels=(1, 8),
        max_tokens=8 + 14 * level,
        chance=0.0,
        about='composed string functions: "reverse(tail(rotate(planet)))" -> "lanetp anetp=ptena"; level: how many',
        provides=("documents",) if documents else (),
    )
    return replace(task, proposed=rewritten)


def verify(problem: Problem, completion: str) -> Outcome:
    """Returns 1.0 if the text after the last "=" equals the answer, else 0.0. Spaces at both ends are ignored, but upper and lower case differ."""
    _, marker, last = completion[-_TAIL:].rpartition("=")
    return float(bool(marker) and last.strip() == problem.answer)


def rewritten(problem: Problem, text: str) -> Problem | None:
    """Returns the problem that a rewrite proposes, with the same answer; None if the text is neither "step" nor "twice".

    "step" applies the innermost function, so the new problem has one function fewer; a problem of one function has no such step. "twice" reverses the
    word twice, so the problem is longer.
    """
    *outer, inner, word = problem.question.rstrip(")").split("(")
    if text.strip() == "step" and outer:
        names, start = outer, FUNCTIONS[inner](word)
    elif text.strip() == "twice":
        names, start = [*outer, inner, "reverse", "reverse"], word
    else:
        return None
    question = start
    for name in reversed(names):
        question = f"{name}({question})"
    meta = Frozen({name: value for name, value in problem.meta.items() if name not in ("solution", "difficulty", "functions")})
    named = f"{problem.id}-{text.strip()}"
    return replace(problem, id=named, messages=({"role": "user", "content": question},), meta=meta)


def _string_ops(rng: random.Random, level: int, functions: tuple[str, ...]) -> Draft:
    word = made_up_word(rng)
    names: list[str] = []
    values = [word]
    while len(names) < level:
        fitting = [n for n in functions if _fits(n, values[-1])]
        names.append(rng.choice(fitting or functions))
        values.append(FUNCTIONS[names[-1]](values[-1]))
    question = word
    for name in names:
        question = f"{name}({question})"
    solution = " ".join(values[1:-1]) + f"={values[-1]}"
    return Draft(question, values[-1], solution, question, Frozen(category=names[-1], functions=tuple(names)))


def _documented(rng: random.Random, level: int, functions: tuple[str, ...]) -> Draft:
    """Makes the draft of `_string_ops`, with a column of documents."""
    draft = _string_ops(rng, level, functions)
    names, word = draft.meta["functions"], draft.question.rpartition("(")[2].rstrip(")")
    at = rng.randrange(len(names))
    for name in names[:at]:
        word = FUNCTIONS[name](word)
    told = {"proof": (draft.question, draft.solution), "state": (f"{names[at]}({word})", f"={FUNCTIONS[names[at]](word)}")}
    chats = {kind: ({"role": "user", "content": q}, {"role": "assistant", "content": a}) for kind, (q, a) in told.items()}
    return replace(draft, meta=Frozen({**draft.meta, "documents": Frozen(chats)}))


def _fits(name: str, value: str) -> bool:
    """Returns whether the function changes the value and leaves 2 to 12 letters. So values do not grow without limit or disappear."""
    made = FUNCTIONS[name](value)
    return made != value and 2 <= len(made) <= 12


def made_up_word(rng: random.Random) -> str:
    """Draws a word of 4 to 6 letters. Vowels and consonants alternate, so that the word can be pronounced."""
    start = rng.randint(0, 1)
    return "".join(rng.choice(_VOWELS if i % 2 == start else _CONSONANTS) for i in range(rng.randint(4, 6)))
