"""Service desk: a document of rules decides which tools to call for a request. The prompt shows only the document's name, or the whole document."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from math import perm

from gradus.tasks.generated import Draft, generated_task
from gradus.tasks.kinds import verify_exact
from gradus.tasks.text.string_ops import made_up_word
from gradus.types import Frozen, Key, UserError
from gradus.types.parts import Task

FIELDS: Mapping[str, tuple[str, str]] = Frozen(
    tier=("silver", "gold"), size=("small", "big"), age=("new", "old"), zone=("near", "far"), risk=("low", "high"), plan=("basic", "full")
)
"""Field of a request -> its value if the request does not state it, and its other value."""
TOOLS = ("refund", "swap", "deny", "mail", "hold", "ship", "void", "fix")
TOPICS = ("return", "delay", "theft", "fault")
ENDINGS = ("thanks", "regards", "cheers", "bye")

Tree = "Choice | tuple[str, ...]"
"""A condition, or the tools of a leaf."""


@dataclass(frozen=True)
class Choice:
    """A condition on one field: `then` applies if the field has the value, else `otherwise`. Both are conditions, or tuples of tools."""

    field: str
    value: str
    then: Choice | tuple[str, ...]
    otherwise: Choice | tuple[str, ...]

    def __str__(self) -> str:
        return f"if {self.field} is {self.value} ({shown(self.then)}) else ({shown(self.otherwise)})"


@dataclass(frozen=True)
class Document:
    """A document: its name, the values that are assumed for fields, the style rules and one tree of conditions per topic."""

    name: str
    assumed: Frozen[str]
    ending: str
    trees: Frozen[Choice]

    @property
    def text(self) -> str:
        """Returns the document, one statement per line: facts, rules, conditions."""
        facts = [f"fact: {field} is {value} unless stated" for field, value in self.assumed.items()]
        rules = ["rule: begin with the topic", f"rule: end with {self.ending}"]
        return "\n".join([f"desk {self.name}", *facts, *rules, *(f"on {topic}: {tree}" for topic, tree in self.trees.items())])

    def reply(self, topic: str, stated: Mapping[str, str]) -> str:
        """Returns the worked reply: the topic, each condition that decides, and the answer."""
        path, tools = walked(self.trees[topic], {**self.assumed, **stated})
        return " ".join([topic, *(f"{field} {value}" for field, value in path), f"={' '.join(tools)} {self.ending}"])


def shown(tree: Choice | tuple[str, ...]) -> str:
    return str(tree) if isinstance(tree, Choice) else " ".join(tree)


def walked(tree: Choice | tuple[str, ...], values: Mapping[str, str]) -> tuple[list[tuple[str, str]], tuple[str, ...]]:
    """Returns the conditions that decide, as pairs of field and value, and the tools of the leaf."""
    path: list[tuple[str, str]] = []
    while isinstance(tree, Choice):
        path.append((tree.field, values[tree.field]))
        tree = tree.then if values[tree.field] == tree.value else tree.otherwise
    return path, tree


def service_desk(
    level: int = 2, topics: int = 2, fields: int = 4, tools: int = 6, steps: int = 1, stated: float = 0.7, seed: int = 0, document: bool = False,
    examples: int | None = None,
) -> Task:
    """Makes the task: reply to requests by the rules of one document. The answer is the tools to call, in order, and the closing word of the desk.

    The document has facts (the values of fields that a request does not state) and rules of style. For each of `topics` topics (1 to 4), the document has
    a tree of conditions of depth `level` (1 to 4). `fields`: fields of a request, from `level` to 6. `tools`: different tools, 2 to 8. `steps`: tools to
    call per request, fewer than `tools`. `stated`: the chance that a request states a field. `seed`: another seed gives another document. `document`:
    whether the prompt shows the whole document; else the prompt shows only its name. `examples`: the number of training requests; None: no limit.

    Each problem has its document in the column `document`.
    Raises: UserError for an option out of range.
    """
    for name, value, least, most in (("topics", topics, 1, 4), ("fields", fields, level, 6), ("tools", tools, 2, 8), ("steps", steps, 1, tools - 1)):
        if not least <= value <= most:
            raise UserError(f"task service_desk: `{name}` is {value}; give a number from {least} to {most}")
    if not 0 <= stated <= 1:
        raise UserError(f"task service_desk: `stated` is {stated}; give a share from 0 to 1")
    dials = partial(made, topics=topics, fields=fields, tools=tools, steps=steps, seed=seed)
    task = generated_task(
        "service_desk", partial(_request, dials=dials, stated=stated, whole=document), verify_exact, level=level, levels=(1, 4),
        max_tokens=32 + 12 * level + 8 * steps, chance=1 / perm(tools, steps), provides=("document",),
        about='requests by the rules of a document: "desk kora\nreturn: tier gold" -> "return tier gold =refund thanks"; level: depth of the conditions',
    )  # fmt: skip
    return task if examples is None else replace(task, source=replace(task.source, size=examples))  # type: ignore[type-var]


@cache
def made(depth: int, topics: int, fields: int, tools: int, steps: int, seed: int) -> Document:
    """Makes the document of a seed."""
    rng = Key(seed).fold("document", depth, topics, fields, tools, steps).random()
    names = list(FIELDS)[:fields]
    trees = {topic: grown(rng, depth, names, TOOLS[:tools], steps) for topic in TOPICS[:topics]}
    assumed = Frozen({name: FIELDS[name][0] for name in names})
    return Document(made_up_word(rng), assumed, rng.choice(ENDINGS), Frozen(trees))  # type: ignore[arg-type]


def grown(rng: random.Random, depth: int, fields: Sequence[str], tools: Sequence[str], steps: int) -> Choice | tuple[str, ...]:
    """Draws a tree: no field occurs twice on a path, and the two leaves of a condition differ."""
    if not depth:
        return tuple(rng.sample(tools, steps))
    field = rng.choice(fields)
    rest = [name for name in fields if name != field]
    then = otherwise = grown(rng, depth - 1, rest, tools, steps)
    while then == otherwise:
        otherwise = grown(rng, depth - 1, rest, tools, steps)
    return Choice(field, FIELDS[field][1], then, otherwise)


def _request(rng: random.Random, level: int, dials: partial[Document], stated: float, whole: bool) -> Draft:
    policy = dials(level)
    topic, name = rng.choice(list(policy.trees)), made_up_word(rng)
    said = {field: rng.choice(FIELDS[field]) for field in rng.sample(list(policy.assumed), len(policy.assumed)) if rng.random() < stated}
    request = f"{name} has a {topic}: {', '.join(f'{field} {value}' for field, value in said.items()) or 'nothing stated'}"
    reply = policy.reply(topic, said)
    opened = f"{policy.text if whole else f'desk {policy.name}'}\n{request}"
    content = " ".join([str(dials.keywords["seed"]), topic, *(f"{field} {value}" for field, value in sorted(said.items()))])
    return Draft(opened, reply.rpartition("=")[2], reply, content, Frozen(document=policy.text, category=topic))
