"""The task recommendation: rank five items of a catalogue for a user who names items that they like.

The items have genres that no prompt shows. A user likes some genres. The items that the user chooses later are held back, and the answer should rank these
items first.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gradus.tasks.generated import Draft, generated_task
from gradus.types import Frozen, Outcome, Problem
from gradus.types.gains import dcg
from gradus.types.parts import Task

GENRES = (
    ("fern", "jazz", "opal", "ruby", "wolf"),
    ("alps", "kite", "lamp", "sage", "tusk"),
    ("bolt", "dune", "iris", "nova", "pine"),
    ("cove", "echo", "gate", "quay", "zinc"),
    ("haze", "mint", "urn", "veil", "yard"),
)
"""The items of each genre, the most popular first. No prompt shows a genre."""
POPULARITY = Frozen({item: len(items) - place for items in GENRES for place, item in enumerate(items)})
"""Item -> its weight when a user chooses an item of a liked genre."""
RANKS = 5  # items of an answer
CHOSEN = 3  # items that the user chooses later
_LONGEST = 400  # characters of a completion that are read


def recommendation(level: int = 2) -> Task:
    """Makes the task: rank five items for a user who likes `level` genres, 1 to 4, as in "liked fern wolf kite sage not bolt".

    The user names two items of each liked genre, and one item of another genre. Later the user chooses three further items of the liked genres; popular items
    are more likely. The verdict is the NDCG of the answer's first five lines: 1 if its first three lines are the three chosen items. Three kinds of items
    do not count: items named by the user, repeated items, and items outside the catalogue.

    The problem's `listed` is the list of another recommender, which does not know the catalogue: some names are misspelt, and popular items come too
    early. The verifier's `hits` shows which ranks of an answer have a chosen item.
    """
    return generated_task(
        "recommendation",
        _user,
        Lists(),
        level=level,
        levels=(1, len(GENRES) - 1),
        max_tokens=40,
        chance=0.0,
        about='rank five items, one per line, for a user: "liked fern wolf kite sage not bolt" -> "opal", "lamp", "alps", "jazz", "ruby"; level: genres',
        provides=("listed",),
    )


def _user(rng: random.Random, level: int) -> Draft:
    own = rng.sample(range(len(GENRES)), level + 1)
    liked = [item for genre in own[:level] for item in rng.sample(GENRES[genre], 2)]
    refused = rng.choice(GENRES[own[level]])
    left = [item for genre in own[:level] for item in GENRES[genre] if item not in liked]
    chosen = _by_popularity(rng, left, CHOSEN)
    others = [item for item in left if item not in chosen]
    others += [item for item in POPULARITY if item not in (*liked, *left, refused)]
    meta = Frozen(category="recommendation", seen=(*liked, refused), listed=_listed(rng, left, others))
    question = f"liked {' '.join(liked)} not {refused}"
    content = " ".join((*sorted(liked), refused))
    return Draft(question, "\n".join(chosen), "\n".join((*chosen, *others[: RANKS - CHOSEN])), content, meta)


def _by_popularity(rng: random.Random, items: Sequence[str], count: int) -> list[str]:
    """Draws `count` different items, one after another, in proportion to their popularity."""
    left, out = list(items), []
    for _ in range(count):
        out.append(rng.choices(left, [POPULARITY[item] for item in left])[0])
        left.remove(out[-1])
    return out


def _listed(rng: random.Random, fitting: Sequence[str], others: Sequence[str]) -> tuple[str, ...]:
    """Returns the list of a recommender with faults: three fitting items and two popular items of other genres, in random order. About two of the five are
    misspelt."""
    popular = sorted((item for item in others if item not in fitting), key=lambda item: -POPULARITY[item])[:6]
    items = [*rng.sample(list(fitting), 3), *rng.sample(popular, 2)]
    rng.shuffle(items)
    return tuple(item[:-1] + rng.choice("bdgk") if rng.random() < 0.4 else item for item in items)


def lines(completion: str) -> list[str]:
    """Returns the first five non-empty lines of a completion. A sign "=" at the start of the completion is ignored.

    >>> lines("=Fern\\n\\n kite \\n")
    ['fern', 'kite']
    """
    found = (line.strip().casefold() for line in completion[:_LONGEST].strip().removeprefix("=").split("\n"))
    return [line for line in found if line][:RANKS]


@dataclass(frozen=True)
class Lists:
    """A verifier of ranked lists: NDCG = sum_k rel_k d_k / (the same sum of the best list), where d_k = 1 / log2(k + 1)."""

    @property
    def catalogue(self) -> Mapping[str, float]:
        """Item -> popularity."""
        return POPULARITY

    def hits(self, problem: Problem, completion: str) -> tuple[float, ...]:
        """Returns rel_k of every rank: 1 if the user chooses the item later and the item is at no earlier rank, else 0."""
        wanted = str(problem.answer).split("\n")
        said = lines(completion)
        new = [float(item in wanted and item not in said[:rank]) for rank, item in enumerate(said)]
        return (*new, *[0.0] * (RANKS - len(new)))

    def fit(self, problem: Problem, item: str) -> float:
        """Returns the fit of an item of the catalogue: the share of the user's liked items with the same genre. The fit is 0 if the user has named the
        item."""
        seen = [str(s) for s in problem.meta["seen"]]
        own = next(genre for genre in GENRES if item in genre)
        return 0.0 if item in seen else sum(s in own for s in seen[:-1]) / (len(seen) - 1)

    def __call__(self, problem: Problem, completion: str) -> Outcome:
        return dcg(self.hits(problem, completion)) / dcg([1.0] * CHOSEN)
