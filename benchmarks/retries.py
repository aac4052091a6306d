"""A task for start models that can use feedback: problems of a task, plain, or with more text in the prompt: a failed attempt, the answer, a hint, a request.

Solutions of plain problems are mostly short (the answer alone); with more text they are worked out. So the model answers a plain hard problem mostly wrong, and
can do better with feedback, as a large model that checks its first answer. Some problems ask for a text instead: feedback, a lesson, a hint.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import partial

from gradus.tasks.generated import Draft, generated_task
from gradus.tasks.kinds import chosen
from gradus.training.plan import load_task
from gradus.types import Frozen, Key, Outcome, Problem
from gradus.types.parts import Task
from gradus.types.prompts import filled

FORMS = {
    "critique": "{attempt}\nThis solution is {verdict}. The right answer is {answer}.\nSolve the problem again.",
    "explain": "The answer is {answer}. Derive it step by step.",
    "decompose": "Split the problem into parts, solve each part, then combine them.",
    "correct": "{attempt}\nThis solution is wrong. Find the error, then write a right solution.",
    "check": "{attempt}\nThis attempt may be right or wrong. Check it, then solve the problem.",
    "hint": "hint: {hint}",
}
"""Kind of text after a problem -> its form. The solution is worked out."""

ASKED = {
    "criticise": ("{attempt}\nCriticise this answer, then solve the problem.", " {verdict}; {worked}"),
    "reflect": ("{attempt}\nReflect on this answer, then solve the problem.", " {verdict}; {worked}"),
    "agree": ("{attempt}\nGive reasons if you agree, then solve the problem.", " {verdict}; {worked}"),
    "ask": ("{attempt}\nAsk yourself whether this holds, then solve the problem.", " {verdict}; {worked}"),
    "summarise": ("{attempt}\nThis was {verdict}.\nWrite one general lesson.", "{lesson}"),
    "advise": ("Write a hint for this problem.", "{hint}"),
}
"""Kind of text after a problem that asks for another text -> its form, and the form of the asked text."""

KINDS = ("plain", *FORMS, *ASKED, "lesson")
LESSON = "write every step"
HINTS = {"+": "add the columns", "-": "subtract the columns", "*": "multiply each digit"}


def retries(of: str = "arithmetic", level: int = 3, plain: float = 0.3, short: float = 1.0, kinds: str = "all") -> Task:
    """Makes the task from the training problems of the task `of`.

    `plain`: share of the problems without further text. `short`: share of short solutions among these. `kinds`: "all", or some of the kinds of text.
    """
    names = chosen("retries", kinds, KINDS)
    base = load_task(of)
    make = partial(draft, base=base, plain=plain, short=short, kinds=names)
    return generated_task(
        "retries", make, partial(judged, base=base), level=level, levels=(2, 8), max_tokens=16 + 14 * level, chance=0.0,
        about=f"problems of {of}, plain, or with feedback in the prompt",
    )  # fmt: skip


def judged(problem: Problem, completion: str, base: Task) -> Outcome:
    """Returns the verdict on an answer; of a text that was asked for, whether it is the given one."""
    assert base.verify is not None
    return float(completion == problem.meta["solution"]) if problem.meta["asked"] else base.verify(problem, completion)


def draft(rng: random.Random, level: int, base: Task, plain: float, short: float, kinds: Sequence[str]) -> Draft:
    """Draws a problem of `base` and the text after it."""
    problem, example = base.source.draw([0, 1], level, Key(rng.getrandbits(60)))
    question, worked, meta = problem.question, str(problem.meta["solution"]), problem.meta
    longer = [kind for kind in kinds if kind != "plain"]
    kind = "plain" if not longer or ("plain" in kinds and rng.random() < plain) else rng.choice(longer)
    answered = worked if rng.random() >= short else shortened(worked)
    if kind == "plain":
        return Draft(question, problem.answer, answered, question, Frozen(asked=False))
    if kind == "lesson":
        return Draft(f"lesson: {LESSON}\n{question}", problem.answer, worked, question, Frozen(asked=False))
    right = rng.random() < 0.15
    known = {
        "attempt": answered if right else altered(rng, answered), "verdict": "right" if right else "wrong", "answer": str(problem.answer),
        "hint": HINTS[meta["category"]] if meta["category"] in HINTS else " ".join(meta.get("functions", ())), "worked": worked, "lesson": LESSON,
    }  # fmt: skip
    form, solution = (FORMS[kind], worked) if kind in FORMS else (ASKED[kind][0], filled(ASKED[kind][1], **known))
    if kind == "decompose" and rng.random() < 0.5:
        form = f"example: {example.question}\n{example.meta['solution']}\n{form}"
    return Draft(f"{question}\n{filled(form, **known)}", problem.answer, solution, question, Frozen(asked=kind in ASKED))


def shortened(worked: str) -> str:
    """Returns the answer alone."""
    return "=" + worked.rpartition("=")[2]


def altered(rng: random.Random, attempt: str) -> str:
    """Returns the attempt with another digit or letter at one place of its answer."""
    before, _, answer = attempt.rpartition("=")
    at = rng.choice([i for i, c in enumerate(answer) if c.isalnum()])
    letters = "0123456789" if answer[at].isdigit() else "abcdefghijklmnopqrstuvwxyz"
    return f"{before}={answer[:at]}{rng.choice([c for c in letters if c != answer[at]])}{answer[at + 1 :]}"
