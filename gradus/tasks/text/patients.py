"""The task patients: the risk of a made-up patient from a table of measurements, and the measurements that decide it."""

from __future__ import annotations

import random
from functools import lru_cache

import numpy as np

from gradus.tasks.generated import Draft, generated_task
from gradus.tasks.kinds import ending
from gradus.types import Frozen, Outcome, Problem
from gradus.types.parts import Task

FEATURES = "abcdefghijkl"
VISITS = 3
BOUND = 9  # a score above it is a high risk, which about half of the patients have
_TAIL = 64  # characters at the end of a completion that are read
_FITTED = 2000  # patients from which the expert learns

Table = dict[str, tuple[int, ...]]
"""Feature -> one digit per visit."""


def patients(level: int = 2) -> Task:
    """Makes the task. `level` 1 to 4: 6, 8, 10 or 12 features, each with one digit per visit, such as "b147".

    The score is the rise of b from the first to the last visit plus the last values of d and f; all other features have no effect. The risk is high if the score
    is above 9, else low. A worked solution names the features, then works out the score. `meta["salient"]` has all features, the most important feature for
    this patient first. The order comes from an expert: a linear model that was fitted to the labels of other patients.
    """
    return generated_task(
        "patients", _patients, verify, level=level, levels=(1, 4), max_tokens=48, chance=0.5, provides=("salient",),
        about='patients with many features: "a357 b147 ... risk?" -> "b d f: 7-1+2+4=12=high"; level: features',
    )  # fmt: skip


def verify(problem: Problem, completion: str) -> Outcome:
    """Returns 1.0 if the text after the last "=" is the risk, else 0.0."""
    return float(ending(completion, _TAIL) == problem.answer)


def score(table: Table) -> int:
    """Returns the rise of b plus the last values of d and f.

    >>> score({"b": (1, 4, 7), "d": (0, 0, 2), "f": (9, 9, 4)})
    12
    """
    return table["b"][-1] - table["b"][0] + table["d"][-1] + table["f"][-1]


def drawn(rng: random.Random, features: int) -> Table:
    return {name: tuple(rng.randint(0, 9) for _ in range(VISITS)) for name in FEATURES[:features]}


def inputs(table: Table) -> np.ndarray:
    """Returns for every feature the last value minus 4.5, and then for every feature the rise, [2 F]."""
    return np.array([x for row in table.values() for x in (row[-1] - 4.5, row[-1] - row[0])], dtype=np.float64)


@lru_cache(maxsize=4)
def expert(features: int) -> tuple[float, ...]:
    """Returns the weights [2 F] of a linear model, fitted by least squares to the labels 1 and -1 of drawn patients."""
    rng = random.Random(features)
    tables = [drawn(rng, features) for _ in range(_FITTED)]
    x = np.stack([inputs(t) for t in tables])
    y = np.array([1.0 if score(t) > BOUND else -1.0 for t in tables])
    return tuple(np.linalg.solve(x.T @ x + np.eye(x.shape[1]), x.T @ y).tolist())


def salient(table: Table) -> tuple[str, ...]:
    """Returns the features, the most important for this patient first; the importance is the size of the feature's share in the expert's output."""
    shares = np.abs(np.array(expert(len(table))) * inputs(table)).reshape(-1, 2).sum(axis=1)
    return tuple(sorted(table, key=lambda name: -shares[list(table).index(name)]))


def _patients(rng: random.Random, level: int) -> Draft:
    table = drawn(rng, 4 + 2 * level)
    shown = " ".join(name + "".join(map(str, row)) for name, row in table.items())
    value = score(table)
    answer = "high" if value > BOUND else "low"
    b, d, f = table["b"], table["d"], table["f"]
    solution = f"b d f: {b[-1]}-{b[0]}+{d[-1]}+{f[-1]}={value}={answer}"
    return Draft(f"{shown} risk?", answer, solution, shown, Frozen(salient=salient(table), category=answer))
