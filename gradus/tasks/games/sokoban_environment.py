"""Sokoban with one box: the player P pushes the box B onto the goal G. Each observation shows the whole grid, so it is the full state."""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from gradus.tasks.games.lake_environment import MOVES, Cell, find, parse
from gradus.types import Frozen, Key, Problem
from gradus.types.parts import Turn, World
from gradus.types.ranges import check_ranges
from gradus.types.spaces import Choice

State = tuple[Cell, Cell]  # player, box
SEATS = ("planner", "checker")
LEGAL = 0.1  # local reward of a legal move of a team's seat; an illegal move gets minus this number


@dataclass(frozen=True)
class Sokoban:
    """A game on the map `problem.meta["map"]` (rows of # . P B G). A step is legal if player and box stay on free cells.

    The step that brings the box onto the goal earns 1. Without `team`, one player moves. With `team`, the planner proposes a move; the checker sees the
    proposal and names the actual move. `Turn.rewards` then has the reward of the seat that acted. A legal move gets 0.1 plus its progress. The progress is
    the decrease of the remaining way, divided by the length of the whole way; it is negative if the remaining way gets longer. An illegal move gets -0.1.
    If the box can no longer reach the goal after a legal move, this move gets -0.9 and ends the episode.
    """

    team: bool = False
    limit: int = 20  # largest number of moves; then the episode is truncated
    acts: Choice = Choice(tuple(MOVES))
    forks: bool = True

    def __post_init__(self) -> None:
        check_ranges(self, limit="[1, inf)")

    @property
    def seats(self) -> tuple[str, ...]:
        """The seats that act, in order; ("policy",) without a team."""
        return SEATS if self.team else ("policy",)

    def start(self, problem: Problem, key: Key, world: World) -> Push:
        return Push(tuple(problem.meta["map"]), self)


class Push:
    """One episode on one map."""

    def __init__(self, grid: tuple[str, ...], settings: Sokoban) -> None:
        self.grid, self.settings = grid, settings
        self.state: State = (find(grid, "P"), find(grid, "B"))
        if self.state not in distances(grid):
            raise ValueError(f"the map {'/'.join(grid)} has no solution")
        self.moves, self.whole = 0, distances(grid)[self.state]
        self.proposal: str | None = None
        self.first = self._turn(settings.seats[0])

    def fork(self, key: Key) -> Push:
        """Returns a copy in the same state; nothing here is random."""
        return copy.copy(self)

    async def step(self, action: Any) -> Turn:
        return self.play(action)

    def play(self, action: Any) -> Turn:
        """Returns the turn after an action of the seat that acts."""
        move = move_of(action, self.settings.acts)
        if self.settings.team and self.proposal is None:
            self.proposal = move or "no move"
            return self._turn("checker", rewards=self._local("planner", move))
        local = self._local("checker", move) if self.settings.team else Frozen()
        after = None if move is None else pushed(self.grid, self.state, move)
        self.moves, self.proposal, self.state = self.moves + 1, None, after or self.state
        if self.state[1] == find(self.grid, "G"):
            return Turn("solved", 1.0, terminated=True, state=f"{self.state}", rewards=local)
        if self.state not in distances(self.grid):
            return Turn("stuck", terminated=True, state=f"{self.state}", rewards=local)
        return self._turn(self.settings.seats[0], valid=after is not None, rewards=local)

    def _turn(self, seat: str, *, valid: bool = True, rewards: Mapping[str, float] = Frozen()) -> Turn:
        """Returns the turn with the observation of the seat that acts next."""
        told = shown(self.grid, self.state) + (f"\nplanner: {self.proposal}" if seat == "checker" else "")
        state = f"{self.state} {self.proposal}"
        truncated = self.moves >= self.settings.limit
        return Turn(told, truncated=truncated, player=seat, rewards=rewards, state=state, valid=valid)

    def _local(self, seat: str, move: str | None) -> Mapping[str, float]:
        """Returns the reward of one seat for its move.

        A legal move gets LEGAL plus its progress (see `Sokoban`). A legal move into a dead end gets LEGAL - 1. An illegal move gets -LEGAL.
        """
        after = None if move is None else pushed(self.grid, self.state, move)
        if after is None:
            return Frozen({seat: -LEGAL})
        ways = distances(self.grid)
        gained = (ways[self.state] - ways[after]) / self.whole if after in ways else -1.0
        return Frozen({seat: gained + LEGAL})


def move_of(action: Any, acts: Choice) -> str | None:
    """Returns the direction of an action. The action is an index, or a text; the last word of a text counts. None if the action names no direction."""
    if isinstance(action, str):
        return parse(action)
    index = acts.index(action)
    return None if index is None else acts.names[index]


def pushed(grid: Sequence[str], state: State, move: str) -> State | None:
    """Returns the state after a legal move. None for an illegal move: into a wall, over the edge, or against a box that cannot move on."""
    player, box = state
    to = ahead(player, move)
    if not free(grid, to):
        return None
    if to != box:
        return to, box
    beyond = ahead(box, move)
    return (to, beyond) if free(grid, beyond) else None


def ahead(cell: Cell, move: str) -> Cell:
    """Returns the next cell in a direction."""
    return cell[0] + MOVES[move][0], cell[1] + MOVES[move][1]


def free(grid: Sequence[str], cell: Cell) -> bool:
    """Returns whether a cell lies on the grid and is no wall."""
    return 0 <= cell[0] < len(grid) and 0 <= cell[1] < len(grid[cell[0]]) and grid[cell[0]][cell[1]] != "#"


@lru_cache(maxsize=4096)
def distances(grid: tuple[str, ...]) -> Mapping[State, int]:
    """Returns the number of moves from every state to a solved state. States without a solution are missing."""
    cells = [(r, c) for r, row in enumerate(grid) for c in range(len(row)) if grid[r][c] != "#"]
    goal = find(grid, "G")
    before: dict[State, list[State]] = {}
    for player in cells:
        for box in cells:
            if player != box and box != goal:
                for move in MOVES:
                    if (after := pushed(grid, (player, box), move)) is not None:
                        before.setdefault(after, []).append((player, box))
    found: dict[State, int] = {state: 0 for state in before if state[1] == goal}
    waiting = deque(found)
    while waiting:
        state = waiting.popleft()
        for earlier in before.get(state, ()):
            if earlier not in found:
                found[earlier] = found[state] + 1
                waiting.append(earlier)
    return found


def way(grid: tuple[str, ...]) -> list[str] | None:
    """Returns the moves of a shortest solution; None if there is no solution. If several solutions are shortest, the result is the first in the order up, down,
    left, right."""
    ways, state = distances(grid), (find(grid, "P"), find(grid, "B"))
    if state not in ways:
        return None
    moves: list[str] = []
    while ways[state]:
        steps = ((move, pushed(grid, state, move)) for move in MOVES)
        move, state = next((m, s) for m, s in steps if s is not None and ways.get(s, -1) == ways[state] - 1)
        moves.append(move)
    return moves


def shown(grid: Sequence[str], state: State) -> str:
    """Returns the grid as the player sees it."""
    rows = [list(row.replace("P", ".").replace("B", ".")) for row in grid]
    (r, c), (i, j) = state
    rows[r][c], rows[i][j] = "P", "B"
    return "\n".join("".join(row) for row in rows)
