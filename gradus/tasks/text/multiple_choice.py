"""Multiple choice: a generated question with five options, A to E. The position of the right option, and its rank by size, are random."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from gradus.tasks.generated import Draft, generated_task
from gradus.tasks.kinds import chosen, hints, verify_exact
from gradus.tasks.maths.arithmetic import columns
from gradus.types import Frozen
from gradus.types.parts import Task

OPTIONS = "ABCDE"
_SIZES = {  # digits, names in an order, entries and links of a fact base, steps of a rule, letters of a word
    1: (1, 5, 5, 1, 2, 6),
    2: (2, 5, 5, 1, 3, 9),
    3: (3, 7, 5, 2, 4, 14),
    4: (4, 9, 7, 2, 5, 24),
    5: (5, 12, 9, 3, 6, 40),
    6: (6, 16, 12, 3, 8, 80),
}
_LAYERS = (
    ("kim", "tom", "ann", "bob", "eve", "max", "ida", "leo", "amy", "ben", "sue", "jon", "liz", "ray"),
    ("dog", "cat", "owl", "fox", "hen", "ant", "bat", "cow", "elk", "emu", "pig", "yak", "ape", "ram"),
    ("red", "tan", "sky", "jet", "ash", "rust", "gold", "blue", "plum", "pink", "lime", "teal", "navy", "sand"),
    ("oslo", "rome", "bern", "riga", "lima", "kiev", "cork", "bari", "lyon", "york", "graz", "nice", "bonn", "ulm"),
)
_OFF = (1, 2, 3, 9, 10, 11, 20)  # distances of wrong numbers from the right number


@dataclass(frozen=True)
class Question:
    """A question without its options. `wrong`: at least four wrong answers. The same question in other words has the same `content`."""

    stem: str
    right: str
    wrong: Sequence[str]
    steps: str
    content: str
    rule: tuple[str, ...]
    each: Mapping[str, str] = field(default_factory=Frozen)  # option -> its value; shown before the steps, in the order of the options


def multiple_choice(level: int = 2, kinds: str = "all") -> Task:
    """Makes the task multiple choice at `level` 1 to 6. Numbers, chains and lists grow with the level.

    `kinds`: "all" or a list such as "arithmetic,facts". arithmetic: a sum, difference or product. order: the name at a given position in an order that
    follows from
    comparisons. facts: the end of a chain of facts. rule: a number after some steps of a rule. count: how often a letter occurs in a word. largest: the largest
    of five results. Raises: UserError for an unknown kind.
    """
    return generated_task(
        "multiple_choice",
        partial(_multiple_choice, kinds=chosen("multiple_choice", kinds, KINDS)),
        verify_exact,
        level=level,
        levels=(1, 6),
        max_tokens=64 + 24 * level,
        chance=1 / len(OPTIONS),
        about='five options, one right: "47+38? A86 B75 C85 D84 E95" -> "...85=C"; level: size of numbers, chains and lists',
        provides=("hints",),
    )


def _multiple_choice(rng: random.Random, level: int, kinds: Sequence[str]) -> Draft:
    kind = rng.choice(list(kinds))
    question = KINDS[kind](rng, level)
    place = rng.randrange(len(OPTIONS))
    shown = rng.sample(list(question.wrong), len(OPTIONS) - 1)
    shown.insert(place, question.right)
    letter = OPTIONS[place]
    steps = " ".join([*(question.each[text] for text in shown if question.each), question.steps])
    solution = f"{steps}={letter}"
    asked = f"{question.stem}? {' '.join(o + text for o, text in zip(OPTIONS, shown, strict=True))}"
    plan = ("find the value", ", then its letter", f"; start with {steps.split()[0]}")
    meta = Frozen(category=kind, options=tuple(shown), hints=hints(question.rule, plan, solution))
    return Draft(asked, letter, solution, f"{kind} {question.content}", meta)


def near(rng: random.Random, right: int, scale: int) -> list[str]:
    """Draws four wrong numbers, which are not negative. From 0 to 4 of these numbers are below the right number; all five counts are equally likely, if enough
    such numbers exist."""
    off = sorted({*_OFF, scale})
    below = [right - d for d in off if d <= right]
    fewer = min(rng.randint(0, 4), len(below))
    return [str(n) for n in (*rng.sample(below, fewer), *rng.sample([right + d for d in off], 4 - fewer))]


def _arithmetic(rng: random.Random, level: int) -> Question:
    digits = _SIZES[level][0]
    low, high = (1, 9) if digits == 1 else (10 ** (digits - 1), 10**digits - 1)
    operation, a, b = rng.choice("+-*"), rng.randint(low, high), rng.randint(low, high)
    if operation == "*":
        a, b = rng.randint(low, high), rng.randint(2, 9)
    if operation == "-" and a < b:
        a, b = b, a
    right = {"+": a + b, "-": a - b, "*": a * b}[operation]
    steps = f"{' '.join(columns(a, operation, b))} {right}"
    first, second = sorted((a, b)) if operation == "+" else (a, b)
    rule = ("column by column", ", from the right", ", with the carried digit")
    return Question(
        f"{a}{operation}{b}", str(right), near(rng, right, 10 ** max(1, digits - 1)), steps, f"{first}{operation}{second}", rule
    )


def _order(rng: random.Random, level: int) -> Question:
    count = _SIZES[level][1]
    names = rng.sample("fghijklmnopqrstuvwxyz", count)  # without the letters of the options, in any case
    places = rng.sample(range(count - 1), count - 1)
    told = [f"{names[i]}<{names[i + 1]}" for i in places]
    at = rng.randrange(count)
    wrong = [name for name in names if name != names[at]]
    stem = f"{' '.join(told)};{at + 1}"
    rule = ("a<b: a stands before b", ", the number asks for a place", ", 1 is the first")
    return Question(stem, names[at], wrong, f"{'<'.join(names)} {names[at]}", f"{places} {at}", rule)


def _facts(rng: random.Random, level: int) -> Question:
    _, _, count, links, _, _ = _SIZES[level]
    layers = [rng.sample(layer, count) for layer in _LAYERS[: links + 1]]
    told = [[f"{a}:{b}" for a, b in zip(layers[i], layers[i + 1], strict=True)] for i in range(links)]
    order = rng.sample(range(links * count), links * count)
    flat = [fact for facts in told for fact in facts]
    at, back = rng.randrange(count), rng.random() < 0.5
    walk = [facts[at] for facts in told]
    asked, right = (layers[-1][at], layers[0][at]) if back else (layers[0][at], layers[-1][at])
    ends = layers[0] if back else layers[-1]
    stem = f"{' '.join(flat[i] for i in order)};{asked}"
    steps = f"{' '.join(reversed(walk) if back else walk)} {right}"
    # With several links the content leaves names out: the puzzle is the order of the facts and the question. With one link the content keeps names,
    # because too few puzzles would be left to hold any out.
    seen: dict[int, int] = {}
    places = [(i // count, seen.setdefault(i % count, len(seen))) for i in order]
    content = f"{places} {seen[at]} {back}" if links > 1 else f"{sorted(flat)} {asked}"
    return Question(
        stem, right, [end for end in ends if end != right], steps, content, ("a:b belong together", ", go from one to the next")
    )


def _rule(rng: random.Random, level: int) -> Question:
    count = _SIZES[level][4]
    start, times, plus = rng.randint(1, 9), rng.randint(2, 3 if level < 4 else 5), rng.randint(1, 9)
    sign = rng.choice("+-") if start * (times - 1) > plus else "+"
    values = [start]
    for _ in range(count):
        values.append(values[-1] * times + (plus if sign == "+" else -plus))
    stem = f"{start} *{times}{sign}{plus} {count}x"
    steps = " ".join(map(str, values[1:]))
    return Question(stem, str(values[-1]), near(rng, values[-1], times), steps, stem, ("take the rule step by step", f", {count} times"))


def _count(rng: random.Random, level: int) -> Question:
    length = _SIZES[level][5]
    letter, others = rng.choice("aeiou"), "bcdfghlmnprst"
    share = rng.uniform(0.1, 0.7)
    word = "".join(letter if rng.random() < share else rng.choice(others) for _ in range(length))
    right = word.count(letter)
    steps = " ".join(f"{c}{word[: i + 1].count(letter)}" for i, c in enumerate(word))
    wrong = near(rng, right, 4)
    return Question(
        f"{letter} in {word}",
        str(right),
        wrong,
        f"{steps} {right}",
        f"{letter} {word}",
        ("go letter by letter", ", count the ones asked for"),
    )


def _largest(rng: random.Random, level: int) -> Question:
    about = rng.randint(20, 90) * 10 ** (level // 2)
    terms: dict[int, str] = {}
    while len(terms) < len(OPTIONS):
        # all results are close, so that no operation reveals the largest
        value, other, operation = rng.randint(about - about // 4, about + about // 4), rng.randint(2, 9), rng.choice("+-*")
        part = rng.randint(2, value - 2)
        value -= value % other if operation == "*" else 0
        terms[value] = {"+": f"{value - part}+{part}", "-": f"{value + part}-{part}", "*": f"{value // other}*{other}"}[operation]
    best = max(terms)
    each = Frozen({term: str(value) for value, term in terms.items()})
    wrong = [term for value, term in terms.items() if value != best]
    content = " ".join(sorted(terms.values()))
    return Question("largest", terms[best], wrong, str(best), content, ("work out all five", ", compare them"), each)


KINDS: Mapping[str, Callable[[random.Random, int], Question]] = Frozen(
    arithmetic=_arithmetic, order=_order, facts=_facts, rule=_rule, count=_count, largest=_largest
)
"""Kind -> the function that makes a question of this kind."""
