"""Each class of problems has a secret sequence of letters. A trace is right if it contains the letters of the sequence in order; other letters may be between them.

A worked solution is the trace of one of several procedures, which put random letters between the letters of the sequence at different rates. So there are many
right traces, and the shortest trace is the best. Source: the didactic task of Setlur et al., Scaling Test-Time Compute Without Verification or RL is
Suboptimal, arXiv:2502.12118.
"""

from __future__ import annotations

import hashlib
import random
from functools import lru_cache, partial

from gradus.tasks.generated import Draft, generated_task
from gradus.tasks.kinds import hints
from gradus.types import Frozen, Outcome, Problem, UserError
from gradus.types.parts import Task

LETTERS = "abcdefghijklmnop"
CLASSES = "qrstuvwxyz"  # one secret sequence each
_SIZES = {1: (2, 8), 2: (3, 16), 3: (4, 24), 4: (5, 32), 5: (6, 64)}  # letters of the sequence, letters of a trace
NOISE = (0.0, 0.5, 0.8)  # rates of random letters of the three procedures


def planted_subsequence(level: int = 2, noise: str = "all") -> Task:
    """Secret sequences of 2 to 6 letters in traces of 8 to 64 letters at `level` 1 to 5.

    `noise`: the rates of random letters in worked solutions, such as "0,0.5"; "all": 0, 0.5 and 0.8. Raises: UserError for a rate outside [0, 1).
    """
    rates = rates_of(noise)
    return generated_task(
        "planted_subsequence",
        partial(_planted, rates=rates),
        verify,
        level=level,
        levels=(min(_SIZES), max(_SIZES)),
        max_tokens=_SIZES.get(level, (0, 0))[1] + 4,
        chance=0.05,
        about='contain the secret sequence of a class: "s kf" -> "amdbce" if the secret of s is adc (kf means nothing); level: letters of the secret and '
        "of a trace",
        provides=("hints",),
    )


def rates_of(noise: str) -> tuple[float, ...]:
    """Returns the rates in a list such as "0,0.5"; "all" gives NOISE. Raises UserError for any other text."""
    if noise.strip() == "all":
        return NOISE
    try:
        rates = tuple(float(one) for one in noise.split(","))
    except ValueError:
        rates = ()
    if not rates or not all(0 <= rate < 1 for rate in rates):
        raise UserError(f'task planted_subsequence: `noise` is "{noise}"; give "all", or rates of at least 0 and below 1, separated by commas, such as 0,0.5')
    return rates


@lru_cache(maxsize=256)
def secret(name: str, size: int) -> str:
    """Returns the secret sequence of a class: `size` different letters, the same on every machine."""
    return "".join(sorted(LETTERS, key=lambda one: hashlib.blake2b(f"{name} {size} {one}".encode(), digest_size=8).digest())[:size])


def solved_at(wanted: str, trace: str) -> int | None:
    """Returns the number of letters of the trace up to the end of the first gapped occurrence of `wanted`; None if `wanted` does not occur.

    >>> solved_at("adc", "amdbce"), solved_at("adc", "acd")
    (5, None)
    """
    at = 0
    for number, letter in enumerate(trace, start=1):
        at += letter == wanted[at]
        if at == len(wanted):
            return number
    return None


def verify(problem: Problem, completion: str) -> Outcome:
    """Returns 1.0 if the trace contains the secret sequence of the problem's class, else 0.0.

    The trace consists of the first letters of the completion, without spaces. A trace with another character than the letters a to p earns 0.
    """
    trace = completion.strip().replace(" ", "")[: problem.meta["length"]]
    return float(set(trace) <= set(LETTERS) and solved_at(secret(problem.meta["kind"], problem.meta["size"]), trace) is not None)


def _planted(rng: random.Random, level: int, rates: tuple[float, ...]) -> Draft:
    (size, length), name = _SIZES[level], rng.choice(CLASSES)
    nonce = "".join(rng.choices(LETTERS, k=3))
    wanted, rate = secret(name, size), rng.choice(rates)
    trace, spare = "", length - size
    for letter in wanted:
        while spare and rng.random() < rate:
            trace, spare = trace + rng.choice(LETTERS), spare - 1
        trace += letter
    told = hints((f"every problem of {name} has the same secret",), ("write the letters of the secret in order", ", as early as possible"), trace)
    meta = Frozen(category=f"{size} letters", kind=name, size=size, length=length, rate=rate, hints=told)
    return Draft(f"{name} {nonce}", wanted, trace, f"{name} {nonce}", meta)
