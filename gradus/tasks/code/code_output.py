"""The task code_output: predict the output of a short program, or restore a missing line so that the program has a given output. Digits and operators of the
programs are replaced at random."""

from __future__ import annotations

import random
import re
from functools import partial

from gradus.environments.mini_python import run
from gradus.environments.output_blocks import HOLE, scores
from gradus.tasks.generated import Draft, generated_task
from gradus.types import Frozen, Outcome, Problem, UserError
from gradus.types.parts import Task

_LINES = {1: 1, 2: 2, 3: 3, 4: 5, 5: 8}  # level -> lines between the first assignments and the output
_SWAPS = (("+", "-", "*"), ("<", ">"), ("//", "%"))
_TOKEN = re.compile(r"//|\d|[-+*<>%]")


def code_output(level: int = 2, backward: float = 0.25, augment: float = 0.1) -> Task:
    """Makes the task. Programs have 4 lines at `level` 1, and 11 lines at `level` 5; about one in six has one more line, which raises an error.

    `backward`: the share of problems with a missing line; `augment`: the chance that a digit or an operator is replaced.
    Raises: UserError for a share or chance outside of [0, 1].
    """
    for name, value in (("backward", backward), ("augment", augment)):
        if not 0 <= value <= 1:
            raise UserError(f"task code_output: `{name}` is {value}; give a share, a number from 0 to 1")
    return generated_task(
        "code_output",
        partial(_code_output, backward=backward, augment=augment),
        verify,
        level=level,
        levels=(1, 5),
        max_tokens=24 + 16 * level,
        chance=0.02,
        about='output of a program: "a=3|b=a+4|print(b)" -> "...=7!" (errors after "!"), or its line "_": "#b=a+4"; level: lines',
        provides=("code", "stdout", "stderr", "backward"),
    )


def verify(problem: Problem, completion: str) -> Outcome:
    """1.0 if the answer has the same output and errors as the program, else 0.0. A restored line may differ from the original line."""
    return float(scores(completion, problem.meta).right)


def snippet(rng: random.Random, level: int) -> list[str]:
    """Draws the lines of a program. The program prints one value at the end; about one in six programs has an error before that."""
    names, made = "abc", [f"a={rng.randrange(10)}", f"b=[{rng.randrange(10)},{rng.randrange(10)}]"]
    for _ in range(_LINES[level]):
        x, n = rng.choice("ac"), rng.randrange(1, 10)
        made.append(
            rng.choice(
                (
                    f"{x}=a+{n}", f"{x}=a-{n}", f"{x}=a*{rng.randrange(2, 4)}", f"{x}=b[{rng.randrange(2)}]", f"{x}=len(b)+{n}", f"b.append({n})",
                    f"for i in range({rng.randrange(1, 4)}): a+={n}", f"if a>{n}: a=a-{n}", f"{x}=a%{rng.randrange(2, 6)}", f"b[1]=a+{n}", f"{x}=sum(b)",
                )
            )
        )  # fmt: skip
    if rng.random() < 1 / 6:
        made.append(rng.choice(("a=b[7]", "a=a//0", "a=d+1", "a=a+'x'", "a=int('x')")))
    shown = rng.choice([n for n in names if n != "b" and any(line.startswith(f"{n}=") for line in made)])
    return [*made, f"print({shown})"]


def augmented(rng: random.Random, code: str, chance: float) -> str:
    """Replaces each digit and each operator by another of its kind, each with the probability `chance`."""

    def replaced(found: re.Match[str]) -> str:
        text = found.group()
        if rng.random() >= chance:
            return text
        kind = next((k for k in _SWAPS if text in k), tuple("0123456789"))
        return rng.choice([other for other in kind if other != text])

    return _TOKEN.sub(replaced, code)


def _code_output(rng: random.Random, level: int, backward: float, augment: float) -> Draft:
    while True:
        made = augmented(rng, "\n".join(snippet(rng, level)), augment)
        true = run(made)
        if true.stderr not in ("SyntaxError", "LimitError"):
            break
    parts = made.split("\n")
    holes = [i for i in range(1, len(parts) - 1) if run("\n".join(_holed(parts, i, ""))) != true]  # without the line the output differs
    back = rng.random() < backward and bool(holes)
    shown = true.stdout.strip().replace("\n", "|")
    output = f"={shown}!{true.stderr}"
    if back:
        at = rng.choice(holes)
        question, solution = f"{'|'.join(_holed(parts, at))} {output}", f"#{parts[at]}"
    else:
        question, solution = "|".join(parts), f"{parts[-1][6:-1]}{output}"
    code = "|".join(_holed(parts, at)) if back else question
    meta = Frozen(category="backward" if back else "forward", code=code, stdout=true.stdout, stderr=true.stderr, backward=back)
    return Draft(question, solution, solution, made, meta)


def _holed(parts: list[str], at: int, hole: str = HOLE) -> list[str]:
    return [hole if i == at else part for i, part in enumerate(parts)]
