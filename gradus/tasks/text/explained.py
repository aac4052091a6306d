"""A quiz with explanations: which job, town or animal has this person? An explanation states all facts about the person, in one of several wordings."""

from __future__ import annotations

import random
from collections.abc import Mapping

from gradus.tasks.generated import Draft, generated_task
from gradus.tasks.kinds import verify_exact
from gradus.tasks.text.facts import JOBS, PETS, TOWNS
from gradus.types import Frozen
from gradus.types.parts import Task

NAMES = ("ann", "bob", "cleo", "dan", "eve", "finn", "gus", "hal", "ida", "jon", "kim", "leo")
POOLS: Mapping[str, tuple[str, ...]] = Frozen(job=JOBS, town=TOWNS, pet=PETS)
"""Kind of fact -> its values. No value belongs to two kinds."""
WORDINGS = (
    "{name} is a {job} from {town} with a {pet}",
    "in {town} the {job} {name} keeps one {pet}",
    "this {pet} belongs to {name}, {job} of {town}",
    "{town} {job}, owner of some {pet}: {name}",
)
OPTIONS = "ABCDE"


def explained(level: int = 2) -> Task:
    """A question about `level` + 1 persons, 2 to 5. The option after the last "=" is the verdict; the text before it is the explanation.

    The solution has one of the four wordings of the explanation, at random. `meta["documents"]` has all four, that of the solution first.
    `meta["facts"]` has the job, town and pet of the person, and `meta["pools"]` all jobs, towns and pets.
    """
    return generated_task(
        "explained", _explained, verify_exact, level=level, levels=(1, 4), max_tokens=64, chance=1 / (level + 1), provides=("documents",),
        about='a quiz with explanations: "ann nurse kast owl. bob baker veld cat; bob? A owl B cat" -> "in veld the baker bob keeps one cat=B"; level: persons',
    )  # fmt: skip


def _explained(rng: random.Random, level: int) -> Draft:
    count = level + 1
    names = rng.sample(NAMES, count)
    drawn = {kind: rng.sample(pool, count) for kind, pool in POOLS.items()}
    at, kind = rng.randrange(count), rng.choice(list(POOLS))
    told = [f"{name} {' '.join(values[i] for values in drawn.values())}" for i, name in enumerate(names)]
    shown = rng.sample(drawn[kind], count)
    letter = OPTIONS[shown.index(drawn[kind][at])]
    facts = Frozen({k: values[at] for k, values in drawn.items()})
    texts = tuple(wording.format(name=names[at], **facts) for wording in rng.sample(WORDINGS, len(WORDINGS)))
    asked = f"{'. '.join(told)}; {names[at]}? {' '.join(f'{o} {value}' for o, value in zip(OPTIONS, shown, strict=False))}"
    meta = Frozen(category=kind, documents=texts, facts=facts, pools=POOLS)
    return Draft(asked, letter, f"{texts[0]}={letter}", f"{sorted(told)} {names[at]} {kind}", meta)
