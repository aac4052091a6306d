"""Problems that consist of a seed. Each seed gives one start of an environment."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from gradus.tasks.generated import Draft, Generated
from gradus.types import Frozen


@dataclass(frozen=True)
class Seed:
    """Makes a problem whose `meta` contains a `seed` of 31 bits. All seeds have the same question."""

    question: str

    def __call__(self, rng: Random, level: float | None) -> Draft:
        seed = rng.getrandbits(31)
        return Draft(self.question, None, None, str(seed), Frozen(seed=seed))


def seeds(task: str, question: str) -> Generated:
    """Returns an endless source of seeds. A tenth of all seeds is held out."""
    return Generated(task, Seed(question), None, None)
