"""The task classification: name the class of a text by a rule, such as the parity of ones, a palindrome or the sentiment by a made-up lexicon."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise

from gradus.tasks.generated import Draft, generated_task
from gradus.tasks.kinds import chosen, hints, verify_exact
from gradus.types import Frozen
from gradus.types.parts import Task

_LENGTHS = {1: (4, 7), 2: (6, 10), 3: (11, 16), 4: (20, 30), 5: (40, 60), 6: (80, 120)}  # signs, numbers or words: least, most
_OPEN = {")": "(", "]": "[", "}": "{"}
_CLOSE = {"(": ")", "[": "]", "{": "}"}
_FLIP = "ne"  # turns the sign of the next word


def classification(level: int = 2, kinds: str = "all") -> Task:
    """Makes the task: name the class of a text of 4 to 120 signs, at `level` 1 to 6.

    `kinds`: "all" or a list such as "parity,sentiment". parity: whether the number of ones is "even" or "odd". majority: the more frequent letter, "a" or "b",
    or else "tie". The answer is "yes" or "no" for palindrome, brackets (whether they close), rising (whether each number is above the previous one), divisible
    and contains. sentiment: "good", "bad" or "neutral", by the sum of the values of the words in a made-up lexicon; the word "ne" changes the sign of the next
    word. states: the last state of a machine. Raises: UserError for an unknown kind.
    """
    return generated_task(
        "classification",
        partial(_classification, kinds=chosen("classification", kinds, KINDS)),
        verify_exact,
        level=level,
        levels=(1, 6),
        max_tokens=40 + 9 * _LENGTHS.get(level, (0, 120))[1],
        chance=(6 * 1 / 2 + 3 * 1 / 3) / 9,  # all classes of a kind have equal chance: two classes for six kinds, three for three
        about='classes by rules: "palindrome abcba" -> "aa bb=yes", "parity 0110" -> "0e 1o 1e 0e=even"; level: length',
        provides=("hints",),
    )


Item = tuple[str, str, str, str, tuple[str, ...]]
"""(text of the question, class, steps to it, content for the split, rule in words)."""


def _classification(rng: random.Random, level: int, kinds: Sequence[str]) -> Draft:
    kind = rng.choice(list(kinds))
    shown, label, steps, content, rule = KINDS[kind](rng, rng.randint(*_LENGTHS[level]), level)
    solution = f"{steps}={label}"
    plan = ("sign by sign", f", {len(steps.split())} steps", f", the first is {steps.split()[0]}")
    meta = Frozen(category=kind, hints=hints(rule, plan, solution))
    return Draft(f"{kind} {shown}", label, solution, f"{kind} {content}", meta)


def _renamed(text: str) -> str:
    """Renames the letters of a text in order of first appearance, because abba and baab are the same puzzle."""
    seen = dict.fromkeys(c for c in text if c.isalpha())
    return text.translate({ord(c): chr(ord("a") + i) for i, c in enumerate(seen)})


def _parity(rng: random.Random, length: int, level: int) -> Item:
    bits = "".join(rng.choice("01") for _ in range(length))
    marks = ["eo"[bits[: i + 1].count("1") % 2] for i in range(length)]
    steps = " ".join(f"{bit}{mark}" for bit, mark in zip(bits, marks, strict=True))
    return bits, "odd" if marks[-1] == "o" else "even", steps, bits, ("count the ones", ", e for even, o for odd", ", a 1 changes it")


def _majority(rng: random.Random, length: int, level: int) -> Item:
    label, text = rng.choice(("a", "b", "tie")), ""
    length += length % 2 if label == "tie" else 0
    while not text or label != ("tie" if 2 * text.count("a") == length else "a" if 2 * text.count("a") > length else "b"):
        text = "".join(rng.choice("ab") for _ in range(length))
    leads = [text[: i + 1].count("a") - text[: i + 1].count("b") for i in range(length)]
    steps = " ".join(f"{c}{lead}" for c, lead in zip(text, leads, strict=True))
    return text, label, steps, text, ("are there more a or b", ", add 1 for a", ", take 1 for b", ", 0 is a tie")


def _palindrome(rng: random.Random, length: int, level: int) -> Item:
    half = [rng.choice("abcdefgh"[: 3 + level]) for _ in range((length + 1) // 2)]
    word = half + half[: length // 2][::-1]
    label = rng.choice(("yes", "no"))
    if label == "no":
        i = rng.randrange(length // 2)
        word[i] = rng.choice([c for c in "abcdefgh"[: 3 + level] if c != word[i]])
    pairs = [word[i] + word[-1 - i] for i in range(length // 2)]
    last = next((i for i, pair in enumerate(pairs) if pair[0] != pair[1]), len(pairs) - 1)
    content = min(_renamed("".join(word)), _renamed("".join(word[::-1])))
    return (
        "".join(word),
        label,
        " ".join(pairs[: last + 1]),
        content,
        ("the same from both ends", ": first and last", ", second and last but one"),
    )


def _brackets(rng: random.Random, length: int, level: int) -> Item:
    pairs, label = ["()", "[]", "{}"][: 2 + (level > 2)], rng.choice(("yes", "no"))
    text = _closed(rng, length // 2, pairs)
    while label == "no" and _stacks(text)[-1] == "-":
        i = rng.randrange(len(text))
        text = text[:i] + rng.choice("".join(pairs)) + text[i + 1 :]
    return (
        text,
        label,
        " ".join(_stacks(text)),
        text,
        ("a closing bracket takes away the last open one", ", x where it does not fit", ", - is empty"),
    )


def _closed(rng: random.Random, count: int, pairs: Sequence[str]) -> str:
    """Draws a text of `count` pairs of brackets that all close."""
    if count == 0:
        return ""
    inside = rng.randrange(count)
    pair = rng.choice(pairs)
    return pair[0] + _closed(rng, inside, pairs) + pair[1] + _closed(rng, count - 1 - inside, pairs)


def _stacks(text: str) -> list[str]:
    """Returns the open brackets after each bracket ("-" for none). The list ends with "x" if a bracket does not fit."""
    stack = ""
    found: list[str] = []
    for c in text:
        if c in _CLOSE:
            stack += c
        elif stack.endswith(_OPEN[c]):
            stack = stack[:-1]
        else:
            return [*found, "x"]
        found.append(stack or "-")
    return found


def _rising(rng: random.Random, length: int, level: int) -> Item:
    numbers = sorted(rng.sample(range(1, 10 * length), length))
    label = rng.choice(("yes", "no"))
    if label == "no":
        i = rng.randrange(length - 1)
        numbers[i], numbers[i + 1] = numbers[i + 1], numbers[i]
    signs = [(a, "<" if a < b else ">", b) for a, b in pairwise(numbers)]
    last = next((i for i, (_, sign, _) in enumerate(signs) if sign == ">"), len(signs) - 1)
    shown = " ".join(map(str, numbers))
    return shown, label, " ".join(f"{a}{s}{b}" for a, s, b in signs[: last + 1]), shown, ("compare neighbours", ", one > is enough for no")


def _divisible(rng: random.Random, length: int, level: int) -> Item:
    digits, label = max(2, length // 2), rng.choice(("yes", "no"))
    by = rng.randint(2, 9) if level <= 2 else rng.randint(3, 10 ** min(2, level - 2) + 9)
    number = rng.randrange(10 ** (digits - 1), 10**digits)
    number -= number % by
    number += 0 if label == "yes" else rng.randint(1, by - 1)
    rest, steps = 0, []
    for digit in str(number):
        rest = 10 * rest + int(digit)
        steps.append(f"{rest}>{rest % by}")
        rest %= by
    rule = ("take the digits from the left", ", the rest of each with the next digit", ", yes where the last rest is 0")
    return f"{number} {by}", label, " ".join(steps), f"{number} {by}", rule


def _contains(rng: random.Random, length: int, level: int) -> Item:
    label, text, part = rng.choice(("yes", "no")), "", ""
    while not text or (part in text) != (label == "yes"):
        part = "".join(rng.choice("abc") for _ in range(min(5, 1 + level)))
        text = "".join(rng.choice("abc") for _ in range(length))
        if label == "yes":
            at = rng.randint(0, length - len(part))
            text = text[:at] + part + text[at + len(part) :]
    windows = [text[i : i + len(part)] for i in range(length - len(part) + 1)]
    last = windows.index(part) if label == "yes" else len(windows) - 1
    return f"{text} {part}", label, " ".join(windows[: last + 1]), _renamed(f"{text} {part}"), ("look at every place", ", from the left")


def _sentiment(rng: random.Random, length: int, level: int) -> Item:
    label, sums = rng.choice(("good", "bad", "neutral")), [0]
    lexicon: dict[str, int] = {}
    said: list[str] = []
    while not said or label != _mood(sums[-1]):
        lexicon = _lexicon(rng, 3 + level)
        said = rng.choices(list(lexicon), k=max(2, length // 2))
        if level > 2:
            said = [w for word in said for w in ((_FLIP, word) if rng.random() < 0.25 else (word,))]
        sums = _sums(said, lexicon)
    told = " ".join(f"{word}{value:+d}" for word, value in lexicon.items())
    values = " ".join("~" if word == _FLIP else str(lexicon[word]) for word in said)
    content = f"{list(lexicon.values())} {values}"
    rule = ("add the values of the words", ", above 0 is good", ", below 0 is bad", f', "{_FLIP}" turns the next')
    return f"{told};{' '.join(said)}", label, " ".join(map(str, sums)), content, rule


def _lexicon(rng: random.Random, size: int) -> dict[str, int]:
    """Draws words of three letters with values from -3 to 3, without 0."""
    found: dict[str, int] = {}
    while len(found) < size:
        word = rng.choice("bdfgklmnprstvz") + rng.choice("aeiou") + rng.choice("bdgklmnprst")
        found[word] = rng.choice((-3, -2, -1, 1, 2, 3))
    return found


def _sums(said: Sequence[str], lexicon: Mapping[str, int]) -> list[int]:
    """Computes the running sum after each word that is in the lexicon."""
    sums, sign = [0], 1
    for word in said:
        if word == _FLIP:
            sign = -1
        else:
            sums.append(sums[-1] + sign * lexicon[word])
            sign = 1
    return sums[1:]


def _mood(total: int) -> str:
    return "neutral" if total == 0 else "good" if total > 0 else "bad"


def _states(rng: random.Random, length: int, level: int) -> Item:
    """Draws a question about the last state of a machine with three states."""
    states, signs = "pqr", "ab" if level < 4 else "abc"
    moves = {(state, sign): rng.choice(states) for state in states for sign in signs}
    reachable = {target for (state, _), target in moves.items() if target != state}
    if len(reachable) < 3:
        return _states(rng, length, level)
    label, text, path = rng.choice(states), "", ["p"]
    for _ in range(200):  # some machines cannot end in every state
        text = "".join(rng.choice(signs) for _ in range(length))
        path = ["p"]
        for sign in text:
            path.append(moves[path[-1], sign])
        if path[-1] == label:
            break
    if path[-1] != label:
        return _states(rng, length, level)
    told = " ".join(f"{state}{sign}{target}" for (state, sign), target in moves.items())
    shown = f"{told};{text}"
    return shown, label, "".join(path), shown, ("paq: in p, a leads to q", ", it starts in p", ", one move a sign")


KINDS: Mapping[str, Callable[[random.Random, int, int], Item]] = Frozen(
    parity=_parity,
    majority=_majority,
    palindrome=_palindrome,
    brackets=_brackets,
    rising=_rising,
    divisible=_divisible,
    contains=_contains,
    sentiment=_sentiment,
    states=_states,
)
"""Kind -> the function that makes an item of a length at a level."""
