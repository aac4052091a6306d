from __future__ import annotations

import random
from itertools import permutations

import pytest

from gradus.tasks.puzzles.planning import WORLDS, block_moves, gripper_moves, hanoi_moves, planning, shortest, tile_moves
from gradus.types import Key, Problem, UserError
from tests.tasks.contract import check_contract


def test_contract() -> None:
    check_contract(planning())


class Blocks:
    """What each block stands on."""

    def __init__(self, text: str) -> None:
        self.on = {b: a for stack in text.split() for a, b in zip("_" + stack, stack)}

    def act(self, action: str) -> bool:
        block, target = action
        clear = set(self.on) - set(self.on.values())
        if block not in clear or (target != "_" and target not in clear) or block == target or self.on[block] == target:
            return False
        self.on[block] = target
        return True

    def key(self) -> object:
        return sorted(self.on.items())

    def actions(self) -> list[str]:
        return [a + b for a in self.on for b in [*self.on, "_"]]


class Gripper:
    def __init__(self, text: str) -> None:
        self.room = text[1] if text[0] == "@" else ""
        self.at = {t[0]: t[1] for t in text.split() if t[0] != "@"}

    def act(self, action: str) -> bool:
        verb, what = action
        if verb == "g":
            moved, self.room = self.room != what, what
            return moved
        if verb == "+" and self.at[what] == self.room and list(self.at.values()).count("hand") < 2:
            self.at[what] = "hand"
            return True
        if verb == "-" and self.at[what] == "hand":
            self.at[what] = self.room
            return True
        return False

    def key(self) -> object:
        return sorted(self.at.items())

    def actions(self) -> list[str]:
        return ["g1", "g2", "g3", *(sign + ball for sign in "+-" for ball in self.at)]


class Hanoi:
    """Where each disc lies."""

    def __init__(self, text: str) -> None:
        self.peg = {disc: peg for peg, discs in zip("ABC", text.split()) for disc in discs.replace("-", "")}

    def act(self, action: str) -> bool:
        a, b = action
        movable = min((d for d in self.peg if self.peg[d] == a), default=None)
        if a == b or movable is None or any(self.peg[d] == b and d < movable for d in self.peg):
            return False
        self.peg[movable] = b
        return True

    def key(self) -> object:
        return sorted(self.peg.items())

    def actions(self) -> list[str]:
        return [a + b for a, b in permutations("ABC", 2)]


class Tiles:
    """Row and column of every tile and of the gap."""

    def __init__(self, text: str) -> None:
        self.at = {tile: (r, c) for r, row in enumerate(text.split("/")) for c, tile in enumerate(row)}

    def act(self, action: str) -> bool:
        if abs(self.at[action][0] - self.at["."][0]) + abs(self.at[action][1] - self.at["."][1]) != 1:
            return False
        self.at[action], self.at["."] = self.at["."], self.at[action]
        return True

    def key(self) -> object:
        return sorted(self.at.items())

    def actions(self) -> list[str]:
        return [tile for tile in self.at if tile != "."]


SIMULATED = {"blocks": Blocks, "gripper": Gripper, "hanoi": Hanoi, "tiles": Tiles}


def reaches(question: str, plan: list[str]) -> bool:
    """An independent reading of the prompt, played action by action."""
    kind, _, rest = question.partition(" ")
    start, goal = rest.split(" > ")
    world = SIMULATED[kind](start)
    return all(world.act(action) for action in plan) and world.key() == SIMULATED[kind](goal).key()


def played(kind: str, start: str, plan: list[str]) -> bool:
    world = SIMULATED[kind](start)
    return all(world.act(action) for action in plan)


def fewest(question: str) -> int:
    """Breadth first over the independent worlds."""
    plans: list[list[str]] = [[]]
    kind, _, rest = question.partition(" ")
    start = rest.partition(" > ")[0]
    seen = set()
    for plan in plans:
        world = SIMULATED[kind](start)
        for action in plan:
            world.act(action)
        name = str((world.key(), getattr(world, "room", "")))
        if name in seen:
            continue
        seen.add(name)
        if reaches(question, plan):
            return len(plan)
        plans += [[*plan, action] for action in world.actions() if played(kind, start, [*plan, action])]
    raise AssertionError(question)


def test_a_shortest_plan_is_as_short_as_trying_everything_finds() -> None:
    for kind in WORLDS:
        for p in planning(kinds=kind).source.draw(range(12), 1, Key(1)):
            assert p.meta["shortest"] == fewest(p.question) == len(p.answer.split()), p.question


@pytest.mark.parametrize("level", [1, 2, 4])
def test_plans_count_exactly_if_they_can_be_played(level: int) -> None:
    """Solutions, solutions with an action left out, doubled, exchanged or replaced, and random plans."""
    rng = random.Random(level)
    right = wrong = 0
    task = planning(slack=4)
    for p in task.source.draw(range(200), level, Key(2)):
        plan = p.answer.split()
        i = rng.randrange(len(plan))
        every = SIMULATED[p.meta["category"]](p.meta["start"]).actions()
        tried = [plan, plan[:i] + plan[i + 1 :], plan[: i + 1] + plan[i:], plan[::-1], [*plan[:i], rng.choice(every), *plan[i + 1 :]]]
        tried += [rng.choices(every, k=rng.randint(1, len(plan) + 2)) for _ in range(3)]
        for actions in tried:
            good = reaches(p.question, actions)
            right, wrong = right + good, wrong + (not good)
            assert task.verify(p, "=" + " ".join(actions)) == float(good), (p.question, actions)
    assert right > 200
    assert wrong > 400


def test_a_longer_plan_counts_within_the_slack() -> None:
    (p,) = planning(kinds="tiles").source.draw([0], 2, Key(3))
    plan = p.answer.split()
    longer = [plan[0], plan[0], *plan]  # there and back
    assert [planning(slack=n).verify(p, "=" + " ".join(longer)) for n in (0, 1, 2, 3)] == [0.0, 0.0, 1.0, 1.0]
    assert planning(slack=0).verify(p, "=" + ", ".join(plan)) == 1.0


def test_moves_by_hand() -> None:
    assert block_moves("AB C") == {"B_": "A B C", "BC": "A CB", "CB": "ABC"}
    assert gripper_moves("@1 a1 b2 c* d*") == {
        "g2": "@2 a1 b2 c* d*",
        "g3": "@3 a1 b2 c* d*",
        "-c": "@1 a1 b2 c1 d*",
        "-d": "@1 a1 b2 c* d1",
    }
    assert gripper_moves("@1 a1 b2")["+a"] == "@1 a* b2"
    assert hanoi_moves("31 2 -") == {"AB": "3 21 -", "AC": "3 2 1", "BC": "31 - 2"}
    assert tile_moves("413/.25") == {"4": ".13/425", "2": "413/2.5"}


def test_bounds_never_exceed_what_is_left() -> None:
    for p in planning().source.draw(range(200), 3, Key(4)):
        world, state = WORLDS[p.meta["category"]], p.meta["start"]
        plan = shortest(world, state, p.meta["goal"])
        for done, (_, after) in enumerate(plan):
            assert world.bound(state, p.meta["goal"]) <= len(plan) - done
            state = after
        assert world.bound(state, p.meta["goal"]) == 0


def test_names_make_no_other_problem() -> None:
    blocks, gripper, hanoi = (WORLDS[k].content for k in ("blocks", "gripper", "hanoi"))
    assert blocks("AB C", "A BC") == blocks("XQ F", "QF X")  # A is X, B is Q, C is F
    assert blocks("AB C", "A BC") != blocks("AB C", "AB C")
    assert gripper("@1 a1 b2", "a2 b2") == gripper("@3 a1 b3", "a1 b1")  # room 1 is 3, room 2 is 1, ball a is b
    assert gripper("@1 a1 b2", "a2 b2") != gripper("@2 a1 b2", "a2 b2")
    assert hanoi("21 3 -", "- - 321") == hanoi("3 - 21", "- 321 -")
    assert hanoi("21 3 -", "- - 321") != hanoi("21 3 -", "321 - -")


def test_the_chance_of_random_actions() -> None:
    task, rng, right = planning(), random.Random(0), 0.0
    problems = task.held_out.draw(range(400), None, Key(0))
    for p in problems:
        world, state, before = WORLDS[p.meta["category"]], p.meta["start"], ""
        actions: list[str] = []
        while len(actions) < p.meta["shortest"] + 4 and not world.done(state, p.meta["goal"]):
            free = [(a, s) for a, s in world.moves(state).items() if s != before]
            before, (action, state) = state, rng.choice(free or list(world.moves(state).items()))
            actions.append(action)
        right += task.verify(p, "=" + " ".join(actions))
    assert (
        abs(right / 400 - task.chance) < 0.07
    )  # 0.11; standard error 0.016, and the held-out problems are a few dozen puzzles in many words


def test_what_cannot_be_reached_and_what_is_refused() -> None:
    with pytest.raises(LookupError):
        shortest(WORLDS["tiles"], "213/45.", "123/45.")  # one exchange of two tiles is never undone
    with pytest.raises(UserError, match=r"slack is -1"):
        planning(slack=-1)
    with pytest.raises(UserError, match=r'unknown kind of planning "block"'):
        planning(kinds="block")
    p = Problem("x", "planning", meta={"category": "blocks", "start": "AB C", "goal": "ABC", "shortest": 1})
    assert [planning().verify(p, f"={s}") for s in ("CB", "B_ CA", "CB _", "CBA", "C B", "cb")] == [1.0, 0.0, 0.0, 0.0, 0.0, 0.0]
