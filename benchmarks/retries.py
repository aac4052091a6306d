"""A task for start models that can use feedback: string functions, plain, or with more text in the prompt: a failed attempt, the answer, a hint, an instruction.

Solutions of plain problems are mostly short (the answer alone); with more text they are worked out. So the model answers a plain hard problem mostly wrong, and
can do better with feedback, as a large model that checks its first answer. Some problems ask for a text instead: feedback, a lesson, a hint.
"""

from __future__ import annotations

import random
from functools import partial

from gradus.tasks.generated import Draft, generated_task
from gradus.tasks.text.string_ops import FUNCTIONS, made_up_word, verify
from gradus.types import Frozen, Outcome, Problem
from gradus.types.parts import Task
from gradus.types.prompts import filled

FORMS = {
    "critique": "{attempt}\nThis solution is {verdict}. The right answer is {answer}.\nSolve the problem again.",
    "explain": "The answer is {answer}. Derive it step by step.",
    "decompose": "Split the problem into parts, solve each part, then combine them.",
    "correct": "{attempt}\nThis solution is wrong. Find the error, then write a right solution.",
    "check": "{attempt}\nThis attempt may be right or wrong. Check it, then solve the problem.",
    "hint": "hint: {names}",
}
"""Kind of text after a problem -> its form. The solution is worked out."""

ASKED = {
    "criticise": ("{attempt}\nCriticise this answer, then solve the problem.", " {note}; {worked}"),
    "reflect": ("{attempt}\nReflect on this answer, then solve the problem.", " {note}; {worked}"),
    "agree": ("{attempt}\nGive reasons if you agree, then solve the problem.", " {note}; {worked}"),
    "ask": ("{attempt}\nAsk yourself whether this holds, then solve the problem.", " {note}; {worked}"),
    "summarise": ("{attempt}\nThis was {verdict}.\nWrite one general lesson.", "one function at a time"),
    "advise": ("Write a hint for this problem.", "{names}"),
}
"""Kind of text after a problem that asks for another text -> its form, and the form of the asked text."""


EXAMPLE = "reverse(tail(rotate(mupet)))\nupetm petm=mtep"


def retries(plain: float = 0.3, short: float = 0.97, level: int = 4) -> Task:
    """Makes the task. `plain`: share of the problems without further text. `short`: share of short solutions among these. `level`: most functions."""
    return generated_task(
        "retries", partial(draft, plain=plain, short=short), judged, level=level, levels=(2, 8), max_tokens=8 + 14 * level, chance=0.0,
        about="string functions, plain, or with feedback in the prompt",
    )  # fmt: skip


def judged(problem: Problem, completion: str) -> Outcome:
    """Returns the verdict on an answer; of a text that was asked for, whether it is the given one."""
    return float(completion == problem.meta["solution"]) if problem.meta["asked"] else verify(problem, completion)


def draft(rng: random.Random, level: int, plain: float, short: float) -> Draft:
    """Draws a problem of 2 to `level` functions."""
    names: list[str] = []
    values, count = [made_up_word(rng)], rng.randint(2, level)
    while len(names) < count:
        name = rng.choice(list(FUNCTIONS))
        if 2 <= len(FUNCTIONS[name](values[-1])) <= 12 and FUNCTIONS[name](values[-1]) != values[-1]:
            names.append(name)
            values.append(FUNCTIONS[name](values[-1]))
    question = values[0]
    for name in names:
        question = f"{name}({question})"
    answer, worked = values[-1], " ".join(values[1:-1]) + f"={values[-1]}"
    if rng.random() < plain:
        solution = f"={answer}" if rng.random() < short else worked
        return Draft(question, answer, solution, question, Frozen(asked=False))
    right = rng.random() < 0.15
    attempt = (f"={answer}" if rng.random() < short else worked) if right else failed(rng, values[0], names, short)
    note = "right" if right else "wrong"
    known = {"attempt": attempt, "verdict": note, "answer": answer, "names": " ".join(names), "note": note, "worked": worked}
    kind = rng.choice([*FORMS, *ASKED, "lesson"])
    if kind == "lesson":
        return Draft(f"lesson: one function at a time\n{question}", answer, worked, question, Frozen(asked=False))
    form, solution = (FORMS[kind], worked) if kind in FORMS else (ASKED[kind][0], filled(ASKED[kind][1], **known))
    if kind == "decompose" and rng.random() < 0.5:
        form = f"example: {EXAMPLE}\n{form}"
    return Draft(f"{question}\n{filled(form, **known)}", answer, solution, question, Frozen(asked=kind in ASKED))


def failed(rng: random.Random, word: str, names: list[str], short: float) -> str:
    """Returns an attempt that takes a random function at one place."""
    wrong, said = list(names), [word]
    wrong[rng.randrange(len(wrong))] = rng.choice(list(FUNCTIONS))
    for name in wrong:
        said.append(FUNCTIONS[name](said[-1]))
    return f"={said[-1]}" if rng.random() < short else " ".join(said[1:-1]) + f"={said[-1]}"
