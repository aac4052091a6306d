"""The task beliefs: who moved which thing where, who was there to see it, and where a person thinks the thing is."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

from gradus.tasks.generated import Draft, generated_task
from gradus.tasks.kinds import ending
from gradus.types import Frozen, Outcome, Problem
from gradus.types.parts import Task

NAMES = ("ann", "bob", "cleo", "dan", "eve", "finn", "gus", "hal")
THINGS = ("ball", "key", "ring", "coin", "pen", "cap")
PLACES = ("box", "bag", "jar", "bin", "bed", "car", "hut", "pot")
_TAG = re.compile(r"<answer>(.*?)</answer>", re.DOTALL)
_TAIL = 200  # characters of a completion that are read


def beliefs(level: int = 2) -> Task:
    """Makes the task. `level` 1 to 4: 3 to 6 events, such as "ann ball box" (ann puts the ball in the box), "bob out" and "bob in".

    A question asks where the thing is, or where a person thinks the thing is. A person sees some of the moves, and thinks that the thing is still at the end
    of the last of these moves. The thing moves at least twice, so the answer depends on the order of the events, which `meta["events"]` keeps. The answer is
    in the last `<answer>` tag, or after the last "=". A worked solution has one of three forms, at random: only the answer; the places between `<social>`
    tags and the answer; or the places, a thought between `<think>` tags, and the answer.
    """
    return generated_task(
        "beliefs", _beliefs, verify, level=level, levels=(1, 4), max_tokens=160, chance=0.3,
        about='stories of things that move: "ann ball box. bob out. ann ball bag; bob thinks ball" -> "<answer>box</answer>"; level: events',
    )  # fmt: skip


def last_seen(events: Sequence[tuple[str, ...]], who: str | None) -> str | None:
    """Returns the place of the last move that `who` saw (None: the last move of all); None if there is no such move. A person who moves a thing also sees the
    move.

    >>> last_seen([("ann", "ball", "box"), ("bob", "out"), ("ann", "ball", "bag")], "bob")
    'box'
    """
    there, place = True, None
    for event in events:
        if len(event) == 2:
            there = event[1] == "in" if event[0] == who else there
        elif who is None or there or event[0] == who:
            place = event[2]
    return place


def _beliefs(rng: random.Random, level: int) -> Draft:
    mover, other = rng.sample(NAMES, 2)
    thing, places = rng.choice(THINGS), rng.sample(PLACES, level + 2)
    moves = [(mover, thing, place) for place in places[: 2 + level // 2]]
    at = rng.randint(1, len(moves) - 1)
    events: list[tuple[str, ...]] = [*moves[:at], (other, "out"), *moves[at:]]
    if level >= 2:
        back = rng.randint(at + 1, len(events))
        events.insert(back, (other, "in"))
    if level >= 3:
        events.append((mover, thing, places[-1]))
    who = other if rng.random() < 0.6 else None
    answer = last_seen(events, who)
    told = [" ".join(event) for event in events]
    asked = f"{who} thinks {thing}" if who else f"where {thing}"
    seen = f"<social>{' '.join(e[-1] for e in events)}</social>"
    thought = f"<think>{who or 'all'} {answer}</think>"
    solution = f"{rng.choice(('', seen, seen + thought))}<answer>{answer}</answer>"
    question = f"{'. '.join(told)}; {asked}"
    meta = Frozen(category="belief" if who else "place", events=tuple(told), options=tuple(dict.fromkeys(e[2] for e in events if len(e) == 3)))
    return Draft(question, answer, solution, question, meta)


def verify(problem: Problem, completion: str) -> Outcome:
    """1.0 if the last `<answer>` tag, or without a tag the text after the last "=", is the place; else 0.0."""
    found = _TAG.findall(completion[-_TAIL:])
    said = found[-1].strip() if found else ending(completion, _TAIL)
    return float(said == str(problem.answer))
