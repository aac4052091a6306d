"""The task code_repair: a small module has one fault. The reply repairs it by an edit, or explains the fault and writes the function again."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

from gradus.environments.program_edits import Edit, EditError, asks, block, fix_of, proposed
from gradus.sandbox import Sandbox, isolation_named
from gradus.tasks.code.unit_tests import LIMITS, UnitTests
from gradus.tasks.generated import Draft, generated_task
from gradus.types import Frozen, Problem, unknown
from gradus.types.parts import Task

LEVELS = (1, 4)
_SHAPES = {1: (("f",),), 2: (("f", "g"),), 3: (("f", "g"), ("h", "k")), 4: (("f", "g"), ("h", "k"))}  # level -> functions of each file
_STEPS = {1: 3, 2: 3, 3: 3, 4: 5}  # level -> steps of a function
_INPUTS = (-7, -2, 0, 1, 3, 5, 8, 14)  # inputs of the tests of the function with the fault
_OTHERS = (-3, 6)  # inputs of the tests of every other function


@dataclass(frozen=True)
class Operation:
    """An operation on a number x, as Python with {k} and as a function of x and k. `other`: the operation that a fault puts in its place."""

    code: str
    does: Callable[[int, int], int]
    other: str


OPERATIONS: Mapping[str, Operation] = Frozen(
    add=Operation("x+{k}", lambda x, k: x - -k, "minus"),
    minus=Operation("x-{k}", lambda x, k: x + -k, "add"),
    times=Operation("x*{k}", lambda x, k: sum([x] * k), "mod"),
    mod=Operation("x%{k}", lambda x, k: x - k * (x // k), "times"),
    cap=Operation("min(x,{k})", lambda x, k: x if x < k else k, "floor"),
    floor=Operation("max(x,{k})", lambda x, k: x if x > k else k, "cap"),
)
"""`does` is written differently from `code`, so an error in either becomes visible."""

Step = tuple[str, int]
"""The name of an operation, and its number k."""


def code_repair(
    level: int = 2, form: Literal["edit", "function"] = "edit", reward: Literal["all", "share"] = "all", isolation: str = "bubblewrap"
) -> Task:
    """Makes the task. `level`: 1 for one function of 3 steps, 2 for two functions, 3 for two files with two functions each. At these levels the issue names
    the step that is wrong. At level 4, functions have 5 steps, and the issue names all steps of one function.

    `form` "edit": the prompt is an issue and the files, and the reply has a thought in <think> and SEARCH/REPLACE edits in <solution>. "function": the
    prompt is an issue, a failing test, and the function, and the reply has an explanation in <explanation> and the whole function in <fix>. `reward`: "all"
    (1 if all tests pass) or "share" (the share of tests passed). Hidden tests call all functions in a sandbox; `isolation` as in the task `code`. Raises:
    UserError for an unknown form, reward or isolation.
    """
    if form not in ("edit", "function"):
        raise unknown("form of task code_repair", form, ("edit", "function"))
    if reward not in ("all", "share"):
        raise unknown("reward of task code_repair", reward, ("all", "share"))
    program = repaired if form == "edit" else rewritten
    longest = 150 if form == "edit" else 110
    return generated_task(
        "code_repair",
        partial(draft, form=form),
        UnitTests(share=reward == "share", sandbox=Sandbox(isolation_named(isolation), LIMITS), program=program),
        level=level,
        levels=LEVELS,
        max_tokens=longest + 40 * (level == LEVELS[1]),
        chance=0.0,
        about='repair a program: "f must add 3" and the files -> an edit of the line "x=x+2"; hidden tests in a sandbox; level: size',
        provides=("tests", "files", "explanation"),
    )


def repaired(problem: Problem, completion: str) -> str:
    """Returns the whole module after the edits of a reply; an empty text without usable edits."""
    files = problem.meta["files"]
    try:
        new = proposed(files, completion)
    except EditError:
        return ""
    return "\n".join({**files, **new}.values())


def rewritten(problem: Problem, completion: str) -> str:
    """Returns the module with the function of a reply in place of the old function; an empty text without such a function."""
    fix = fix_of(completion)
    return "\n".join((*problem.meta["files"].values(), fix)) if fix else ""


def draft(rng: random.Random, level: int, form: str = "edit") -> Draft:
    """Draws a module, and plants one fault. Some test fails with the fault, and every other line of the module is right."""
    shape = _SHAPES[level]
    names = [name for file in shape for name in file]
    while True:
        steps = {name: drawn_steps(rng, _STEPS[level]) for name in names}
        asked, kind = rng.choice(names), rng.choice(FAULTS)
        wrong, at = faulty(rng, steps[asked], kind)
        tests = (*_tests(asked, steps[asked], _INPUTS), *(test for name in names if name != asked for test in _tests(name, steps[name], _OTHERS)))
        true, false = ([value(some, x) for x in _INPUTS] for some in (steps[asked], wrong))
        broken, files = ({f"{'ab'[i]}.py": _file(file, which) for i, file in enumerate(shape)} for which in ({**steps, asked: wrong}, steps))
        path = next(f"{'ab'[i]}.py" for i, file in enumerate(shape) if asked in file)
        edit = Edit(path, _lines(wrong[at]), _lines(steps[asked][at]))
        if sum(a != b for a, b in zip(true, false, strict=True)) > 1 and len(set(true)) > 2 and f"{broken[path]}\n".count(f"{edit.search}\n") == 1:
            break
    spec = ", ".join(map(said, steps[asked]))
    label = explained(steps[asked][at], wrong[at])
    due = spec if level == LEVELS[1] else " before ".join(map(said, steps[asked][at]))
    shown, function = f"{asked} must {due}", function_text(asked, wrong)
    if form == "edit":
        question = "\n".join((shown, *(f"### {name}\n{text}" for name, text in broken.items())))
        solution = f"<think>{label}</think><solution>\n{block(edit)}\n</solution>"
    else:
        question = asks(shown, function, feedback(asked, steps[asked], wrong))
        solution = f"<explanation>{label}</explanation><fix>\n{function_text(asked, steps[asked])}\n</fix>"
    meta = Frozen(
        category=kind, files=broken, oracle=files, function=asked, issue=shown, explanation=label, steps=[list(step) for step in steps[asked]],
        fix=function_text(asked, steps[asked]),
    )  # fmt: skip
    return Draft(question, tests, solution, f"{kind} {label} {spec}", meta)


def feedback(name: str, steps: Sequence[Step], wrong: Sequence[Step]) -> str:
    """Returns the result of the first test that fails."""
    x = next(x for x in _INPUTS if value(steps, x) != value(wrong, x))
    return f"{name}({x}) is {value(wrong, x)}, not {value(steps, x)}"


FAULTS = ("number", "operation", "order")
"""A wrong number, a wrong operation, or two steps in the wrong order."""


def faulty(rng: random.Random, steps: Sequence[Step], kind: str) -> tuple[list[Step], slice]:
    """Returns the steps with a fault of this kind, and the place of the fault."""
    at = rng.randrange(len(steps) - (kind == "order"))
    name, k = steps[at]
    if kind == "order":
        return [*steps[:at], steps[at + 1], steps[at], *steps[at + 2 :]], slice(at, at + 2)
    other = (OPERATIONS[name].other, k) if kind == "operation" else (name, rng.choice([n for n in range(2, 10) if n != k]))
    return [*steps[:at], other, *steps[at + 1 :]], slice(at, at + 1)


def drawn_steps(rng: random.Random, count: int) -> list[Step]:
    """Draws the steps of a function. Of three steps, no two have the same operation or the operation that a fault puts in its place."""
    pairs = [name for name, operation in OPERATIONS.items() if name < operation.other]
    kinds = [kind for _ in range(0, count, len(pairs)) for kind in rng.sample(pairs, len(pairs))][:count]
    return [(rng.choice((name, OPERATIONS[name].other)), rng.randint(2, 9)) for name in kinds]


def value(steps: Sequence[Step], x: int) -> int:
    """Returns the value of a function at x."""
    for name, k in steps:
        x = OPERATIONS[name].does(x, k)
    return x


def said(step: Step) -> str:
    """Returns a step in words, such as "add 3"."""
    return f"{step[0]} {step[1]}"


def explained(right: Sequence[Step], wrong: Sequence[Step]) -> str:
    """Returns the sentence that explains a fault."""
    if len(right) == 2:
        return f"{said(right[0])} must come before {said(right[1])}"
    return f"{said(wrong[0])} must be {said(right[0])}"


def function_text(name: str, steps: Sequence[Step]) -> str:
    """Returns the text of a function."""
    return f"def {name}(x):\n{_lines(steps)}\n return x"


def _lines(steps: Sequence[Step]) -> str:
    return "\n".join(f" x={OPERATIONS[name].code.format(k=k)}" for name, k in steps)


def _file(names: Sequence[str], steps: Mapping[str, Sequence[Step]]) -> str:
    return "\n".join(function_text(name, steps[name]) for name in names)


def _tests(name: str, steps: Sequence[Step], inputs: Sequence[int]) -> tuple[str, ...]:
    return tuple(f"assert {name}({x}) == {value(steps, x)}" for x in inputs)
