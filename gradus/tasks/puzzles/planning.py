"""Planning in four small worlds: blocks, a robot with two hands, towers of discs, sliding tiles. Every plan that reaches the goal is right.
"""

from __future__ import annotations

import operator
import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from heapq import heappop, heappush
from itertools import permutations

from gradus.tasks.generated import Draft, generated_task
from gradus.tasks.kinds import chosen, ending, hints
from gradus.types import Frozen, Outcome, Problem
from gradus.types.parts import Task
from gradus.types.ranges import check_ranges

_LIMITS = {1: 150, 2: 190, 3: 330, 4: 420, 5: 800, 6: 1800}  # level -> characters of the longest worked solution, and some more
_TAIL = 1024
_LEAST = 2  # least number of actions of a shortest plan
_BALLS = "abcdef"


@dataclass(frozen=True)
class World:
    """A planning domain. States are text, as in the prompt. `moves`: action -> next state; every move can be undone.

    `bound`: a lower bound on the number of remaining actions. `note`: the text of a state in a worked solution, without spaces.
    """

    draw: Callable[[random.Random, int], tuple[str, str]]
    moves: Callable[[str], dict[str, str]]
    bound: Callable[[str, str], int]
    content: Callable[[str, str], str]  # equal for two problems that differ only in names
    rule: str
    chance: float  # success at level 2 of random actions that never undo the previous one; measured on 4,000 problems
    done: Callable[[str, str], bool] = operator.eq
    note: Callable[[str], str] = lambda state: state.replace(" ", ",")


@dataclass(frozen=True)
class Planning:
    """The verifier of plans. `slack`: the largest number of actions beyond a shortest plan, 0 or more."""

    slack: int

    def __post_init__(self) -> None:
        check_ranges(self, slack="[0, inf)")

    def verify(self, problem: Problem, completion: str) -> Outcome:
        """Returns 1.0 if the actions after the last "=" can be done in this order, reach the goal, and are few enough for `slack`; else 0.0.

        Spaces or commas separate the actions.
        """
        said = ending(completion, _TAIL)
        if said is None or not said.isascii():
            return 0.0
        actions = said.replace(",", " ").split()
        if len(actions) > problem.meta["shortest"] + self.slack:
            return 0.0
        world = WORLDS[problem.meta["category"]]
        state: str | None = problem.meta["start"]
        for action in actions:
            state = world.moves(state).get(action) if state is not None else None
        return float(state is not None and world.done(state, problem.meta["goal"]))


def planning(level: int = 2, kinds: str = "all", slack: int = 4) -> Task:
    """Plans for 3 to 8 blocks, 2 to 6 balls, 2 to 6 discs, or boards of 2 x 3 to 3 x 3 tiles, at `level` 1 to 6.

    `kinds`: "all" or a list of blocks, gripper, hanoi, tiles. `slack`: the largest number of actions beyond a shortest plan; 0: only a shortest plan
    counts. Raises: UserError for an unknown kind, and for a slack below 0.
    """
    names = chosen("planning", kinds, WORLDS)
    return generated_task(
        "planning",
        partial(_planning, kinds=names),
        Planning(slack).verify,
        level=level,
        levels=(min(_LIMITS), max(_LIMITS)),
        max_tokens=_LIMITS.get(level, 0),
        chance=sum(WORLDS[name].chance for name in names) / len(names),
        about='plans from a state to a goal: "blocks AB C > CBA" (stacks, lowest first; _ is the table) -> "B_:A,B,C BC:A,CB ... =B_ BC AB"; '
        'gripper: "@1 a1 b2 > a2" (room of robot, balls; +a takes, at most two, -a puts down, g2 goes to room 2); '
        "hanoi: pegs A B C, AC moves a disc onto none smaller; tiles: the tile that slides",
        provides=("hints",),
    )


def shortest(world: World, start: str, goal: str) -> list[tuple[str, str]]:
    """Finds a shortest plan by A*. Returns (action, next state) for every step. Raises LookupError if the goal cannot be reached."""
    count = 0
    waiting = [(world.bound(start, goal), 0, 0, start)]
    came: dict[str, tuple[int, str, str]] = {start: (0, "", "")}
    while waiting:
        _, far, _, state = heappop(waiting)
        far = -far
        if world.done(state, goal):
            plan: list[tuple[str, str]] = []
            while state != start:
                _, action, before = came[state]
                plan.append((action, state))
                state = before
            return plan[::-1]
        if far > came[state][0]:
            continue
        for action, other in world.moves(state).items():
            if other not in came or far + 1 < came[other][0]:
                came[other] = (far + 1, action, state)
                count += 1
                heappush(waiting, (far + 1 + world.bound(other, goal), -far - 1, count, other))
    raise LookupError(f"{goal} cannot be reached from {start}")


def block_moves(state: str) -> dict[str, str]:
    """Returns the moves of blocks: "B_" puts B on the table, and "BC" puts B on C. Only the top block of a stack moves."""
    stacks = state.split()
    found = {}
    for one in stacks:
        rest = [stack for stack in stacks if stack is not one]
        left = [one[:-1]] if len(one) > 1 else []
        if left:
            found[one[-1] + "_"] = " ".join(sorted([*rest, *left, one[-1]]))
        for other in rest:
            moved = [stack for stack in rest if stack is not other]
            found[one[-1] + other[-1]] = " ".join(sorted([*moved, *left, other + one[-1]]))
    return found


def _misplaced(state: str, goal: str) -> int:
    """Returns the number of misplaced blocks. A block is misplaced if the block itself or a block below it differs from the goal. All these blocks have to
    move."""
    right = {stack[:i] for stack in goal.split() for i in range(1, len(stack) + 1)}
    return sum(stack[:i] not in right for stack in state.split() for i in range(1, len(stack) + 1))


def _blocks(rng: random.Random, level: int) -> tuple[str, str]:
    names = rng.sample("ABCDEFGHIJKLMNOPQRSTUVWXYZ", level + 2)
    return _stacks(rng, names), _stacks(rng, names)


def _stacks(rng: random.Random, names: list[str]) -> str:
    """Returns random stacks of the blocks, at most four."""
    found: list[str] = []
    for name in rng.sample(names, len(names)):
        i = rng.randint(0, len(found) if len(found) < 4 else 3)
        found[i : i + 1] = [found[i] + name] if i < len(found) else [name]
    return " ".join(sorted(found))


def _block_content(start: str, goal: str) -> str:
    """Returns the problem as text. Blocks are named by their position in the goal. Each order of the goal's stacks gives a text; the first text in sort order
    is
    returned."""
    made = []
    for stacks in permutations(goal.split()):
        renamed = start.translate({ord(name): chr(ord("A") + i) for i, name in enumerate("".join(stacks))})
        made.append(f"{sorted(renamed.split())} {[len(stack) for stack in stacks]}")
    return min(made)


def gripper_moves(state: str) -> dict[str, str]:
    """Returns the moves of the robot: "g2" goes to room 2, "+a" takes ball a (at most two), "-a" puts ball a down. In a state, "a*" is a ball that the robot
    holds."""
    robot, *balls = state.split()
    room, held = robot[1], sum(ball[1] == "*" for ball in balls)
    found = {f"g{other}": " ".join([f"@{other}", *balls]) for other in "123" if other != room}
    for i, ball in enumerate(balls):
        name, place = ball[0], ball[1]
        if place == "*":
            found[f"-{name}"] = " ".join([robot, *balls[:i], name + room, *balls[i + 1 :]])
        elif place == room and held < 2:
            found[f"+{name}"] = " ".join([robot, *balls[:i], name + "*", *balls[i + 1 :]])
    return found


def _to_carry(state: str, goal: str) -> int:
    """Returns a lower bound on the remaining actions: two per misplaced ball (one if it is held), and one per room that the robot has to visit."""
    robot, *balls = state.split()
    wrong = [(ball[1], want[1]) for ball, want in zip(balls, goal.split(), strict=True) if ball != want]
    rooms = {room for pair in wrong for room in pair} - {robot[1], "*"}
    return sum(1 if place == "*" else 2 for place, _ in wrong) + len(rooms)


def _gripper(rng: random.Random, level: int) -> tuple[str, str]:
    balls = _BALLS[: (2, 3, 3, 4, 5, 6)[level - 1]]
    start, goal = (" ".join(ball + rng.choice("123") for ball in balls) for _ in range(2))
    return f"@{rng.choice('123')} {start}", goal


def _gripper_content(start: str, goal: str) -> str:
    """Returns the problem as text, without names of balls. Each way to name the rooms gives a text; the first text in sort order is returned."""
    robot, *balls = start.split()
    made = []
    for rooms in permutations("123"):
        new = dict(zip("123", rooms, strict=True))
        made.append(f"{new[robot[1]]} {sorted(new[a[1]] + new[b[1]] for a, b in zip(balls, goal.split(), strict=True))}")
    return min(made)


def _gripper_note(state: str) -> str:
    """Returns the robot's room and the balls that it holds."""
    robot, *balls = state.split()
    return robot[1] + "".join(ball[0] for ball in balls if ball[1] == "*")


def hanoi_moves(state: str) -> dict[str, str]:
    """Returns the moves of discs: "AC" moves the top disc of peg A to peg C, never onto a smaller disc. "-" is an empty peg."""
    pegs = [peg.strip("-") for peg in state.split()]
    found = {}
    for a, b in permutations(range(3), 2):
        if pegs[a] and (not pegs[b] or pegs[a][-1] < pegs[b][-1]):
            after = list(pegs)
            after[a], after[b] = pegs[a][:-1], pegs[b] + pegs[a][-1]
            found["ABC"[a] + "ABC"[b]] = " ".join(peg or "-" for peg in after)
    return found


def _off_peg(state: str, goal: str) -> int:
    """Returns the number of discs on another peg than in the goal."""
    return sum(disc not in there for peg, there in zip(state.split(), goal.split(), strict=True) for disc in peg.strip("-"))


def _hanoi(rng: random.Random, level: int) -> tuple[str, str]:
    discs = "654321"[-(2, 3, 4, 4, 5, 6)[level - 1] :]
    on = [[rng.randrange(3) for _ in discs] for _ in range(2)]
    first, second = (
        " ".join("".join(d for d, p in zip(discs, places, strict=True) if p == peg) or "-" for peg in range(3)) for places in on
    )
    return first, second


def _hanoi_content(start: str, goal: str) -> str:
    pegs = list(zip(start.split(), goal.split(), strict=True))
    return str(min(permutations(pegs)))


def tile_moves(state: str) -> dict[str, str]:
    """Returns the moves of tiles: the tile above, below, left or right of the gap "." slides into it."""
    width = state.index("/") + 1  # a row and its "/"
    gap = state.index(".")
    found = {}
    for at in (gap - width, gap - 1, gap + 1, gap + width):
        if 0 <= at < len(state) and state[at] != "/":
            found[state[at]] = state.translate({ord("."): state[at], ord(state[at]): "."})
    return found


def _tile_steps(state: str, goal: str) -> int:
    """Returns the sum of the tiles' distances from their goal cells, in rows and columns."""
    width = state.index("/") + 1
    away = 0
    for tile in goal.replace("/", "").replace(".", ""):
        (row, column), (there, across) = divmod(state.index(tile), width), divmod(goal.index(tile), width)
        away += abs(row - there) + abs(column - across)
    return away


def _tiles(rng: random.Random, level: int) -> tuple[str, str]:
    """Returns (start, goal): the goal has the tiles in order and a random gap; the start comes from random moves that never undo the previous move."""
    walk, side = {1: (3, 2), 2: (6, 2), 3: (14, 2), 4: (12, 3), 5: (18, 3), 6: (30, 3)}[level]
    order = [str(i) for i in range(1, 3 * side)]
    order.insert(rng.randrange(3 * side), ".")
    goal = "/".join("".join(order[i : i + 3]) for i in range(0, 3 * side, 3))
    before, state = "", goal
    for _ in range(walk):
        before, state = state, rng.choice([s for s in tile_moves(state).values() if s != before])
    return state, goal


WORLDS: dict[str, World] = {
    "blocks": World(_blocks, block_moves, _misplaced, _block_content, "a block with another on it cannot move", 0.09),
    "gripper": World(
        _gripper,
        gripper_moves,
        _to_carry,
        _gripper_content,
        "two hands hold two balls",
        0.03,
        done=lambda state, goal: state.partition(" ")[2] == goal,
        note=_gripper_note,
    ),
    "hanoi": World(_hanoi, hanoi_moves, _off_peg, _hanoi_content, "a disc never lies on a smaller one", 0.2),
    "tiles": World(_tiles, tile_moves, _tile_steps, lambda start, goal: f"{start} {goal}", "only a tile next to the gap moves", 0.13),
}


def _planning(rng: random.Random, level: int, kinds: tuple[str, ...]) -> Draft:
    name = rng.choice(kinds)
    world = WORLDS[name]
    plan: list[tuple[str, str]] = []
    start = goal = ""
    while len(plan) < _LEAST:
        start, goal = world.draw(rng, level)
        plan = shortest(world, start, goal) if start != goal else []
    actions = [action for action, _ in plan]
    worked = " ".join(f"{action}:{world.note(state)}" for action, state in plan)
    solution = f"{worked} ={' '.join(actions)}"
    knowledge = (world.rule, f"; {len(plan)} actions are enough")
    told = hints(knowledge, (f"begin with {actions[0]}", f", then {actions[1]}", f", end with {actions[-1]}"), solution)
    return Draft(
        question=f"{name} {start} > {goal}",
        answer=" ".join(actions),
        solution=solution,
        content=f"{name} {world.content(start, goal)}",
        meta=Frozen(category=name, start=start, goal=goal, shortest=len(plan), hints=told),
    )
