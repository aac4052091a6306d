"""A quiz from memory: which job, town or animal has this person? An explanation states all facts about the person, in one of several wordings."""

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
FACTS: Mapping[str, Mapping[str, str]] = Frozen(
    {name: Frozen(job=JOBS[(5 * i + 1) % 8], town=TOWNS[(3 * i + i // 8) % 8], pet=PETS[(7 * i + 4 + i // 8) % 8]) for i, name in enumerate(NAMES)}
)
"""Name -> the facts about the person. No two persons have the same three facts."""
WORDINGS = (
    "{name} is a {job} from {town} with a {pet}",
    "in {town} the {job} {name} keeps one {pet}",
    "this {pet} belongs to {name}, {job} of {town}",
    "{town} {job}, owner of some {pet}: {name}",
)
OPTIONS = "ABCDEF"


def explained(level: int = 2) -> Task:
    """A question about one of twelve persons, with `level` + 2 options, 3 to 6. The facts about a person are always the same, so the policy can learn them.

    The option after the last "=" is the verdict; the text before it is the explanation. The solution has one of the four wordings of the explanation, at
    random. `meta["documents"]` has all four wordings, first the wording of the solution. `meta["facts"]` has the job, town and pet of the person, and
    `meta["pools"]` all jobs, towns and pets.
    """
    return generated_task(
        "explained", _explained, verify_exact, level=level, levels=(1, 4), max_tokens=64, chance=1 / (level + 2), provides=("documents",),
        about='a quiz from memory, with explanations: "bob? A owl B cat" -> "in veld the baker bob keeps one cat=B"; level: options',
    )  # fmt: skip


def _explained(rng: random.Random, level: int) -> Draft:
    name, kind = rng.choice(NAMES), rng.choice(list(POOLS))
    facts = FACTS[name]
    shown = rng.sample([value for value in POOLS[kind] if value != facts[kind]], level + 1)
    place = rng.randrange(level + 2)
    shown.insert(place, facts[kind])
    texts = tuple(wording.format(name=name, **facts) for wording in rng.sample(WORDINGS, len(WORDINGS)))
    asked = f"{name}? {' '.join(f'{o} {value}' for o, value in zip(OPTIONS, shown, strict=False))}"
    meta = Frozen(category=kind, documents=texts, facts=facts, pools=POOLS)
    return Draft(asked, OPTIONS[place], f"{texts[0]}={OPTIONS[place]}", asked, meta)
