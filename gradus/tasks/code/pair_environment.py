"""Two seats (players) write one program at the same time, one line each. The joint reward has levels."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gradus.environments.mini_python import Ran, run
from gradus.types import Key, Problem
from gradus.types.parts import Turn, World
from gradus.types.ranges import check_ranges

SEATS = ("helper", "main")
SHOWN = 160  # characters of a line or an output that the players see
ASKS: Mapping[str, str] = {"helper": "helper: set a", "main": "main: print with a"}
"""The request to each seat. The problem's question stands before this text."""


@dataclass(frozen=True)
class CodePair:
    """The helper writes the first line of a program, and the main player writes the second line. Both lines are run together.

    The reward is the same for both seats (see `levels`). An episode ends when all levels are reached, or after `limit` turns. In a rollout without seats,
    one player writes both lines.
    """

    limit: int = 1
    seats: tuple[str, ...] = SEATS

    def __post_init__(self) -> None:
        check_ranges(self, limit="[1, inf)")

    def start(self, problem: Problem, key: Key, world: World) -> Pair:
        return Pair(str(problem.answer), self)


class Pair:
    """One episode. Both seats act in every turn."""

    def __init__(self, due: str, settings: CodePair) -> None:
        self.due, self.settings, self.played = due, settings, 0
        self.told, self.state = dict(ASKS), ""
        self.first = Turn("two lines", player=SEATS[0], state="")

    def acting(self) -> Mapping[str, str]:
        """Returns the observation of each seat."""
        return self.told

    async def step(self, action: str) -> Turn:
        """Plays an action of a single player, who writes both lines."""
        return self.play(action)

    def play(self, action: str) -> Turn:
        helper, _, main = action.strip().partition("\n")
        return self._run(helper.strip(), main.strip())

    async def step_all(self, actions: Mapping[str, Any]) -> Turn:
        """Runs the program of both seats."""
        helper, main = (str(actions[seat]).strip() for seat in SEATS)
        return self._run(helper, main)

    def _run(self, helper: str, main: str) -> Turn:
        self.played += 1
        ran = run(f"{helper}\n{main}")
        reached = levels(helper, main, ran, self.due)
        valid, won, late = reached > 0, reached == 4, self.played >= self.settings.limit
        told = "\n".join(text[:SHOWN] for text in (helper, main, ran.stdout.strip() or ran.stderr))
        self.told = {seat: f"{told}\n{ask}" for seat, ask in ASKS.items()}
        self.state = told if valid else self.state
        return Turn(told, reached / 4, terminated=won, truncated=late and not won, player=SEATS[0], state=self.state, valid=valid)


def levels(helper: str, main: str, ran: Ran, due: str) -> int:
    """Returns how many levels a program reaches, 0 to 4. A level counts only if all earlier levels are reached.

    1: the helper sets `a` and the main player prints. 2: the program has no syntax error. 3: it prints `due`. 4: the main player uses `a`, and does more
    than printing it.

    >>> ran = run("a=3+6\\nprint(a*2)")
    >>> levels("a=3+6", "print(a*2)", ran, "18"), levels("a=3+6", "print(18)", run("a=3+6\\nprint(18)"), "18")
    (4, 3)
    """
    structure = re.match(r"a\s*=[^=]", helper) is not None and "print(" in main
    uses = re.search(r"\ba\b", main) is not None and re.fullmatch(r"print\(\s*a\s*\)", main) is None
    reached = 0
    for passed in (structure, ran.stderr != "SyntaxError", not ran.stderr and ran.stdout.strip() == due, uses):
        if not passed:
            break
        reached += 1
    return reached
