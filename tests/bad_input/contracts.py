"""Wrong combinations of the wider contracts: arms, stages, schedules, readers, heads, seats, media, actions, transitions."""

from __future__ import annotations

from tests.bad_input.readings import READINGS
from tests.bad_input.row import Row

CONTRACTS: list[Row] = [
    ("{train} --curriculum Bandit", "curriculum is Bandit, which chooses between kinds of problems, but this task names none|a mixture"),
    (
        "train sec --task countdown --curriculum.arms countdown/9 --run run",
        'curriculum.arms names "countdown/9", which the task does not have; take some of countdown/1',
    ),
    *READINGS,
]
