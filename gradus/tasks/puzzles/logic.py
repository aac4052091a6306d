"""Logic: values and truth tables of formulas, entailment, equivalence, and truth in a small world."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import permutations

from gradus.tasks.generated import Draft, generated_task
from gradus.tasks.kinds import chosen, ending, hints
from gradus.tasks.puzzles.formulas import Formula, World, drawn, letters, negation, rewritten, rows, true_in, true_under
from gradus.types import Frozen, Outcome, Problem
from gradus.types.parts import Task

_LEVELS = {  # letters, connectives, things in a world
    1: (2, 2, 3),
    2: (3, 2, 3),
    3: (3, 4, 4),
    4: (4, 6, 5),
    5: (4, 9, 6),
    6: (5, 14, 7),
}
_LETTERS = "pqrst"
_RULES = ("~ not, & and, | or", ", a>b is 0 for 1>0 alone", ", <> is 1 for equal values", ", Ax for all x, Ex for some x")


def logic(level: int = 2, kinds: str = "all") -> Task:
    """Logic at `level` 1 to 6: two to five letters, about two to fourteen connectives, worlds of three to seven things.

    `kinds`: "all" or a list such as "value,entails". `value`: the value of a formula, given the letters' values. `table`: the values of a formula for the rows
    00, 01, 10, 11. `entails`, `equal`: the answer is "yes", or a row of values as a counterexample. `which`: the things in a world for which a formula is true.
    `sentence`: whether a formula is true in a world. Raises: UserError for an unknown kind.
    """
    return generated_task(
        "logic",
        partial(_logic, kinds=chosen("logic", kinds, KINDS)),
        verify,
        level=level,
        levels=(1, 6),
        max_tokens={1: 80, 2: 120, 3: 160}.get(level, 120 * level),
        chance=0.36,  # success of the most frequent answer per kind; measured on 1,024 problems
        about='logic: "entails p>q,q;p" -> "...=01" (p false, q true: it does not) or "=yes"; value, table, entails, equal, which, sentence',
        provides=("hints",),
    )


def verify(problem: Problem, completion: str) -> Outcome:
    """Returns 1.0 if the text after the last "=" is right, else 0.0.

    For `entails` and `equal`, any counterexample is accepted as right. A counterexample is a row of values. In this row, the premises are true and the conclusion is
    false, or the two formulas differ. If there is no counterexample, "yes" is right. For `which`, the things may have any order. The other kinds have a
    single right answer.
    """
    last = ending(completion, 96)
    if last is None:
        return 0.0
    if problem.meta["category"] in ("entails", "equal"):
        found = problem.meta["against"]
        return float(last in found if found else last == "yes")
    if problem.meta["category"] == "which":
        return float(re.fullmatch(r"[0-9]{1,10}|none", last) is not None and "".join(sorted(last)) == "".join(sorted(problem.answer)))
    return float(last == problem.answer)


def _logic(rng: random.Random, level: int, kinds: Sequence[str]) -> Draft:
    kind = rng.choice(list(kinds))
    return KINDS[kind](rng, level)


def _draft(
    kind: str, asked: str, answer: str, steps: str, planning: Sequence[str], alike: Sequence[str] = (), against: tuple[str, ...] = ()
) -> Draft:
    """Makes the draft of a puzzle. `against`: the counterexamples.

    `alike`: the same puzzle in other orders. The content is the first of these texts in sort order, after the letters are renamed.
    """
    solution = f"{steps}={answer}"
    meta = Frozen(category=kind, hints=hints(_RULES, planning, solution), against=against)
    return Draft(f"{kind} {asked}", answer, solution, f"{kind} {min(map(_renamed, alike or (asked,)))}", meta)


def _renamed(asked: str) -> str:
    """Returns the text with letters renamed in order of first appearance: q>p and p>q are the same puzzle."""
    seen = dict.fromkeys(c for c in asked if c in _LETTERS)
    return asked.translate({ord(c): _LETTERS[i] for i, c in enumerate(seen)})


def _bits(row: Mapping[str, bool]) -> str:
    return "".join(str(int(value)) for value in row.values())


def _value(rng: random.Random, level: int) -> Draft:
    count, size, _ = _LEVELS[level]
    formula = drawn(rng, _LETTERS[:count], size + 1)
    row = {name: rng.random() < 0.5 for name in sorted(letters(formula))}
    answer = str(int(true_under(formula, row)))
    given = "".join(f"{name}{int(value)}" for name, value in row.items())
    steps = _reduced(str(formula), {name: str(int(value)) for name, value in row.items()})
    # the formula comes first, so that renaming in order of first appearance does not depend on the order of the values
    return _draft("value", f"{formula} {given}", answer, " ".join(steps[:-1]), ("put in the values", ", then the innermost brackets"))


def _reduced(text: str, values: Mapping[str, str]) -> list[str]:
    """Returns the formula with its values, and every step of its evaluation from the inside out: ["(0>1)&~1", "1&0", "0"]."""
    steps = ["".join(values.get(c, c) for c in text)]
    while len(steps[-1]) > 1:
        # negated digits are replaced first; if there are none, pairs of digits that stand alone in their brackets
        once = re.sub(r"~([01])", lambda m: str(1 - int(m[1])), steps[-1])
        if once == steps[-1]:
            once = re.sub(r"(?:\(([01])(&|\||<>|>)([01])\)|^([01])(&|\||<>|>)([01])$)", _pair, steps[-1])
        steps.append(once)
    return steps


def _pair(found: re.Match[str]) -> str:
    a, sign, b = (g for g in found.groups() if g is not None)
    x, y = a == "1", b == "1"
    return str(int({"&": x and y, "|": x or y, ">": y or not x, "<>": x == y}[sign]))


def _table(rng: random.Random, level: int) -> Draft:
    count, size, _ = _LEVELS[level]
    formula = drawn(rng, _LETTERS[: min(count, 4)], size)
    while len(letters(formula)) < 2:
        formula = drawn(rng, _LETTERS[: min(count, 4)], size)
    every = rows("".join(sorted(letters(formula))))
    values = [str(int(true_under(formula, row))) for row in every]
    steps = " ".join(f"{_bits(row)}:{value}" for row, value in zip(every, values, strict=True))
    return _draft(
        "table", str(formula), "".join(values), steps, (f"{len(every)} rows", f" from {_bits(every[0])}", f" to {_bits(every[-1])}")
    )


def _entails(rng: random.Random, level: int) -> Draft:
    count, size, _ = _LEVELS[level]
    names, wanted = _LETTERS[:count], rng.random() < 0.4
    while True:
        premises = [drawn(rng, names, (size + 1) // 2) for _ in range(1 + level // 2)]
        goal = drawn(rng, names, size // 2)
        used = "".join(sorted(set(letters(goal)).union(*map(letters, premises))))
        met = [row for row in rows(used) if all(true_under(f, row) for f in premises)]
        against = tuple(_bits(row) for row in met if not true_under(goal, row))
        if met and len(used) > 1 and (not against) == wanted and str(goal) not in map(str, premises):
            break
    asked = f"{','.join(map(str, premises))};{goal}"
    steps = _compared(used, [*premises, goal], against)
    plan = ("a row that makes all before ; true", " and the one after it false", " shows that it does not follow", "; without one it does")
    alike = [f"{','.join(map(str, order))};{goal}" for order in permutations(premises)]
    return _draft("entails", asked, against[0] if against else "yes", steps, plan, alike, against)


def _equal(rng: random.Random, level: int) -> Draft:
    count, size, _ = _LEVELS[level]
    names, wanted = _LETTERS[:count], rng.random() < 0.4
    while True:
        first = drawn(rng, names, size)
        second = rewritten(rng, first, 1 + level)
        if not wanted:
            second = rewritten(rng, _altered(rng, second), level)
        used = "".join(sorted(set(letters(first) + letters(second))))
        against = tuple(_bits(row) for row in rows(used) if true_under(first, row) != true_under(second, row))
        if len(used) > 1 and (not against) == wanted and str(first) != str(second):
            break
    steps = _compared(used, [first, second], against)
    plan = ("a row with different values", " shows that the two are not equal", "; without one they are")
    alike = (f"{first};{second}", f"{second};{first}")
    return _draft("equal", alike[0], against[0] if against else "yes", steps, plan, alike, against)


def _altered(rng: random.Random, formula: Formula) -> Formula:
    """Changes one sign or one negation of a formula, so that the result looks like an equivalent formula."""
    if formula.parts and rng.random() < 0.6:
        i = rng.randrange(len(formula.parts))
        return Formula(formula.sign, tuple(_altered(rng, part) if i == j else part for j, part in enumerate(formula.parts)))
    if formula.sign in ("&", "|", ">"):
        return Formula(rng.choice([s for s in ("&", "|", ">") if s != formula.sign]), formula.parts)
    return negation(formula)


def _compared(names: str, formulas: Sequence[Formula], against: Sequence[str]) -> str:
    """Returns the values of all formulas, row by row, up to the first counterexample: "00:11 01:10"."""
    lines = []
    for row in rows(names):
        lines.append(f"{_bits(row)}:{''.join(str(int(true_under(f, row))) for f in formulas)}")
        if _bits(row) in against:
            break
    return " ".join(lines)


def _world(rng: random.Random, level: int) -> tuple[World, str]:
    """Returns a world and its notation. For example, the world "3 P02 Q1 R01,12" has three things; the things 0 and 2 are P."""
    size = _LEVELS[level][2]
    ones, twos = "PQ", "RS" if level >= 4 else "R"
    facts: dict[str, frozenset[tuple[int, ...]]] = {}
    for name in ones:
        facts[name] = frozenset((i,) for i in rng.sample(range(size), rng.randint(1, size - 1)))
    for name in twos:
        pairs = [(i, j) for i in range(size) for j in range(size)]
        facts[name] = frozenset(rng.sample(pairs, rng.randint(size - 1, size + 1)))
    told = [f"{name}{''.join(str(i) for (i,) in sorted(facts[name]))}" for name in ones]
    told += [f"{name}{','.join(f'{i}{j}' for i, j in sorted(facts[name]))}" for name in twos]
    return World(size, Frozen(facts)), f"{size} {' '.join(told)}"


def _about(rng: random.Random, world: World, known: str, size: int) -> Formula:
    """Returns a random formula with `size` connectives over the known variables. A part may introduce a variable that is related to the last variable."""
    ones = [name for name in world.facts if name in "PQ"]
    twos = [name for name in world.facts if name in "RS"]
    if size == 0:
        if len(known) > 1 and rng.random() < 0.5:
            pair = known[-2:] if rng.random() < 0.7 else known[-1] + known[-2]
            return Formula(rng.choice(twos), variables=pair)
        atom = Formula(rng.choice(ones), variables=rng.choice(known))
        return negation(atom) if rng.random() < 0.3 else atom
    if len(known) < 3 and rng.random() < 0.5:
        new = "xyz"[len(known)]
        edge = Formula(rng.choice(twos), variables=known[-1] + new if rng.random() < 0.6 else new + known[-1])
        more = _about(rng, world, known + new, size - 1)
        while more in (edge, negation(edge)):
            more = _about(rng, world, known + new, size - 1)
        every = rng.random() < 0.5
        return Formula("A" if every else "E", (Formula(">" if every else "&", (edge, more)),), new)
    left = rng.randrange(size)
    first, second = _about(rng, world, known, left), _about(rng, world, known, size - 1 - left)
    while first in (second, negation(second)):
        first, second = _about(rng, world, known, left), _about(rng, world, known, size - 1 - left)
    return Formula(rng.choice("&|>"), (first, second))


def _which(rng: random.Random, level: int) -> Draft:
    world, told = _world(rng, level)
    formula = _about(rng, world, "x", max(1, level - 1))
    lines, found = _tried(formula, world)
    return _draft("which", f"{told} {formula}", found or "none", lines, ("x is each thing once", f", 0 to {world.size - 1}"))


def _tried(formula: Formula, world: World) -> tuple[str, str]:
    """Returns the formula's value for each thing, and the things that make the formula true, for example ("0:1 1:0 2:1", "02")."""
    values = [true_in(formula, world, {"x": thing}) for thing in range(world.size)]
    found = "".join(str(i) for i, value in enumerate(values) if value)
    return " ".join(f"{i}:{int(value)}" for i, value in enumerate(values)), found


def _sentence(rng: random.Random, level: int) -> Draft:
    wanted = rng.random() < 0.5
    while True:
        world, told = _world(rng, level)
        inside = _about(rng, world, "x", max(1, level - 1))
        every = rng.random() < 0.5
        lines, found = _tried(inside, world)
        if (len(found) == world.size if every else found != "") == wanted:
            break
    formula = Formula("A" if every else "E", (inside,), "x")
    need = "all" if every else "one"
    return _draft("sentence", f"{told} {formula}", str(int(wanted)), lines, ("x is each thing once", f", {need} must make it true"))


KINDS: Mapping[str, Callable[[random.Random, int], Draft]] = Frozen(
    value=_value, table=_table, entails=_entails, equal=_equal, which=_which, sentence=_sentence
)
"""Kind -> the function that makes a problem of this kind."""
