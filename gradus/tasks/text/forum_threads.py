"""Threads of the forum of a made-up laboratory, and the pipeline that turns a thread into a choice question.

A rule base gives the cause of each symptom for each tool. A thread has a question, perhaps remarks, and perhaps the reply of an expert, who names the
cause. The pipeline strips quotes and signatures, takes the question and the reply, and drops a thread without a reply of an expert.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

TOOLS = ("cutter", "probe", "vector", "gel", "guide", "plate", "pump", "lens", "dye", "clamp")
SYMPTOMS = {"no band": "validation", "weak signal": "validation", "dead cells": "biology", "slow growth": "biology", "red noise": "tools", "leaks": "tools"}
"""Symptom -> category."""
CAUSES = ("old buffer", "cold room", "wrong salt", "low dose", "bad seal", "dry tip", "dim lamp", "high heat", "no oil")
CELLS = ("yeast", "moss", "algae", "liver", "root", "fungus", "spore", "skin", "bone", "leaf", "seed", "nerve")
UNKNOWN = "not known"
_REPLIES = ("It is the {}.", "We had this: {}.", "Check the {} first.", "Most likely {}.", "{}, as with ours.")
_REMARKS = ("Same here.", "Any news?", "Thanks for the post.")
_NAMES = ("Ana", "Bo", "Chen", "Dev", "Eli", "Fay")
EXPERTS = frozenset({"Dr Ito", "Dr Roy"})


@dataclass(frozen=True)
class Thread:
    """A thread: its name, and its messages as pairs (author, text). The first message is the question."""

    id: str
    messages: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Item:
    """A choice question made from a thread, without options. `explanation`: the expert's reply without names."""

    thread: str
    question: str
    right: str
    explanation: str
    category: str


def cause(tool: str, symptom: str) -> str:
    """Returns the cause that the rule base gives for a symptom with a tool.

    >>> cause("cutter", "no band")
    'old buffer'
    """
    return CAUSES[(2 * TOOLS.index(tool) + 5 * list(SYMPTOMS).index(symptom)) % len(CAUSES)]


def draw_thread(rng: random.Random, tools: Sequence[str], answered: float = 0.8, cells: int = 1) -> Thread:
    """Draws a thread about one of the tools and `cells` kinds of cells.

    An expert replies with the probability `answered`, at a random position after the question.
    """
    tool, symptom, cell, asker = rng.choice(tools), rng.choice(list(SYMPTOMS)), rng.choice(CELLS), rng.choice(_NAMES)
    if cells > 1:
        cell = " and ".join([cell, *rng.sample([other for other in CELLS if other != cell], cells - 1)])
    day = rng.randrange(30)
    messages = [(asker, f"{tool} with {cell}: {symptom}\n-- \n{asker}, lab {rng.randrange(90)}")]
    quote = f"> {tool} with {cell}: {symptom}\n"
    after = [(rng.choice(_NAMES), f"{quote}{rng.choice(_REMARKS)}") for _ in range(rng.randrange(3))]
    if rng.random() < answered:
        expert = rng.choice(sorted(EXPERTS))
        after.insert(rng.randint(0, len(after)), (expert, f"{quote}{rng.choice(_REPLIES).format(cause(tool, symptom))}\n-- \n{expert}"))
    return Thread(f"{tool}/{symptom}/{cell}/{day}", (*messages, *after))


def cleaned(text: str) -> str:
    """Returns a message without quoted lines and without the signature, which begins with a line of two hyphens.

    >>> cleaned("> asked\\nDry tip.\\n-- \\nDr Roy")
    'Dry tip.'
    """
    lines: list[str] = []
    for line in text.splitlines():
        if line.rstrip() == "--":
            break
        if not line.startswith(">"):
            lines.append(line)
    return "\n".join(lines).strip()


def item_of(thread: Thread) -> Item | None:
    """Returns the question of a thread; None if no expert replied, or if the reply names no cause or several."""
    question = cleaned(thread.messages[0][1])
    replies = [cleaned(text) for name, text in thread.messages[1:] if name in EXPERTS]
    named = [c for c in CAUSES if any(c in reply for reply in replies)]
    if len(named) != 1:
        return None
    symptom = question.rpartition(": ")[2]
    return Item(thread.id, question, named[0], replies[0], SYMPTOMS[symptom])
