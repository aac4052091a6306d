"""A memory of attempts: for each problem, it has the question and the policy's newest attempts with their rewards. Some rollouts have such a memory as their
state.

A memory is {id of the problem: [question, [[completion, reward], ...]]}. The oldest problem is first, and the oldest attempt of a problem is first.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gradus.types import Trajectory

Attempts = Mapping[str, Sequence[Any]]


def remembered(memory: Attempts, trajectories: Iterable[Trajectory], *, attempts: int, problems: int) -> dict[str, Any]:
    """Adds these trajectories to the memory. Keeps at most `problems` problems, and the `attempts` newest attempts at each problem.

    A problem with a new attempt becomes the newest problem. The oldest problems are removed first.
    """
    kept = dict(memory)
    for t in trajectories:
        _, earlier = kept.pop(t.problem.id, ("", ()))
        kept[t.problem.id] = [t.problem.question, [*earlier, [t.completion, t.value]][-attempts:]]
    return dict(list(kept.items())[-problems:])


def attempts_at(memory: Attempts, problem: str) -> list[tuple[str, float]]:
    """Returns the attempts (completion, reward) at a problem, the oldest first; an empty list for an unknown problem."""
    return [(text, reward) for text, reward in memory.get(problem, ("", ()))[1]]


def newest_of_others(memory: Attempts, problem: str) -> list[tuple[str, str, float]]:
    """Returns the newest attempt (question, completion, reward) at each other problem, the oldest problem first."""
    return [(question, *earlier[-1]) for name, (question, earlier) in memory.items() if name != problem]


def similarities(question: str, questions: Sequence[str]) -> list[float]:
    """Returns the cosine of the TF-IDF vectors of words between a text and each other text. Equal texts have the value 1, and texts without a common
    word have the value 0.

    >>> [round(x, 2) for x in similarities("7 plus 5", ["7 plus 5", "3 minus 1"])]
    [1.0, 0.0]
    """
    words = [Counter(re.findall(r"\w+|[^\w\s]", text.lower())) for text in (question, *questions)]
    seen = Counter(word for row in words for word in row)
    rare = {word: math.log((1 + len(words)) / (1 + n)) + 1 for word, n in seen.items()}
    vectors = [{word: n * rare[word] for word, n in row.items()} for row in words]
    lengths = [math.sqrt(sum(v * v for v in row.values())) or 1.0 for row in vectors]
    own, size = vectors[0], lengths[0]
    return [sum(own.get(word, 0.0) * v for word, v in row.items()) / (length * size) for row, length in zip(vectors[1:], lengths[1:], strict=True)]


def nearest(question: str, questions: Sequence[str], count: int, *, floor: float = 0.0) -> list[int]:
    """Returns the indices of the `count` nearest texts by `similarities`, the nearest first. Texts below the similarity `floor` are left out.

    If texts are equally near, the earlier text comes first.

    >>> nearest("7 plus 5", ["3 minus 1", "7 plus 8", "7 times 5"], 2)
    [1, 2]
    """
    near = similarities(question, questions)
    return [i for i in sorted(range(len(near)), key=lambda i: -near[i]) if near[i] >= floor][:count]
