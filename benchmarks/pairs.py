"""A task for start models of the two players of code_pair: each lesson is the line of one player.

The main player of a lesson mostly works alone: it computes the whole result and ignores the helper's variable.
"""

from __future__ import annotations

import random
from functools import partial

from gradus.tasks.code.code_pair import make
from gradus.tasks.code.pair_environment import ASKS
from gradus.tasks.generated import Draft, generated_task
from gradus.tasks.kinds import verify_exact
from gradus.types import Frozen
from gradus.types.parts import Task


def pairs(level: int = 1, alone: float = 0.7) -> Task:
    """Makes the task. `alone`: the share of the main player's lessons without the helper's variable."""
    return generated_task(
        "pairs", partial(draft, alone=alone), verify_exact, level=level, levels=(1, 3), max_tokens=24, chance=0.0, about="lines of the players of code_pair"
    )


def draft(rng: random.Random, level: int, alone: float) -> Draft:
    """Draws the line of one player."""
    made = make(rng, level)
    helper, main = made.meta["lines"]
    seat = rng.choice(("helper", "main"))
    line = helper if seat == "helper" else f"print({made.question})" if rng.random() < alone else main
    return Draft(f"{made.question}\n{ASKS[seat]}", line, line, made.content, Frozen())
