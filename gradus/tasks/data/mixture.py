"""Mixes several tasks into one task, in exact proportions, as in `arithmetic:3,countdown:1`."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from gradus.types import NOT_APPLICABLE, Frozen, Key, Outcome, Problem, UserError, unknown
from gradus.types.parts import Arms, Environment, Episode, Source, Task, Verify, World
from gradus.types.returned import check_drawn
from gradus.types.spaces import Space, Text, described


def split_weights(spec: str) -> list[tuple[str, Fraction]]:
    """Reads the tasks and weights of a mixture such as `a:3,b:1`. The default weight is 1. The list is empty if `spec` is not a mixture.

    Raises UserError for a bad weight.
    """
    pieces = [piece.strip() for piece in spec.split(",")]
    found = []
    for piece in pieces:
        task, _, text = piece.rpartition(":")
        weight = _number(text) if task else None
        if not piece:
            raise UserError(f'the mixture "{spec}" has no task between two commas; write task:weight,task:weight')
        if weight is not None and not 0 < weight <= 1000:
            raise UserError(f'the mixture "{spec}": the weight of {task} is {text}; it must be above 0 and at most 1000')
        found.append((piece, Fraction(1)) if weight is None else (task, weight))
    return found if len(pieces) > 1 or found[0][0] != spec else []


def whole(weights: Sequence[Fraction]) -> list[int]:
    """Rounds the weights to thousandths, and returns the smallest whole numbers in the same proportion: 0.7, 0.3 -> 7, 3."""
    rounded = [max(Fraction(round(w * 1000), 1000), Fraction(1, 1000)) for w in weights]
    scaled = [int(w * math.lcm(*(r.denominator for r in rounded))) for w in rounded]
    return [n // math.gcd(*scaled) for n in scaled]


@dataclass(frozen=True)
class Mixture:
    """Mixes the problems of several sources. Each block of `sum(weights)` problems has exactly `weights[k]` of source k, in a random order.

    Each source is read in order. With `endless` a finite source begins again after its last problem, in a new order each time, and the
    mixture has no end. Without `endless` the mixture ends before a source would repeat a problem.
    """

    parts: Frozen[Task]  # tasks by name; a problem's `task` is that name
    weights: tuple[int, ...]
    held_out: bool  # whether to draw from the held-out sources
    endless: bool

    def sources(self) -> list[Source]:
        return [task.held_out if self.held_out else task.source for task in self.parts.values()]

    @property
    def plain(self) -> bool:
        """Whether at least one source has text prompts that come from data."""
        return any(getattr(source, "plain", False) for source in self.sources())

    @property
    def form(self) -> str | None:
        """The form "raw" if it is set for at least one source; else None."""
        return next((form for source in self.sources() if (form := getattr(source, "form", None)) == "raw"), None)

    def in_form(self, form: str) -> Mixture:
        """Returns the mixture with the text prompts of its data in `form`. Raises UserError for "raw" if its data has no text prompts."""
        if form == "raw" and not self.plain:
            raise UserError(
                f"--task.prompt raw is only for text prompts of a file or a data set, but {' and '.join(self.parts)} have no such prompts; "
                "leave out --task.prompt raw"
            )
        name = "held_out" if self.held_out else "source"
        texts: dict[str, Any] = {n: source for n, source in zip(self.parts, self.sources(), strict=True) if getattr(source, "plain", False)}
        return replace(self, parts=self.parts.replace(**{n: replace(self.parts[n], **{name: s.in_form(form)}) for n, s in texts.items()}))

    @property
    def size(self) -> int | None:
        sizes = [source.size for source in self.sources()]
        finite = [(size // weight, k) for k, (size, weight) in enumerate(zip(sizes, self.weights, strict=True)) if size is not None]
        if self.endless or not finite:
            return None
        block = min(finite)[0]  # the first block in which a source runs out
        for slot in range(sum(self.weights)):
            part, at = self.place(block * sum(self.weights) + slot)
            size = sizes[part]
            if size is not None and at >= size:
                return block * sum(self.weights) + slot
        return (block + 1) * sum(self.weights)

    def place(self, index: int) -> tuple[int, int]:
        """Returns (number of the source, index in that source) for problem `index` of the mixture."""
        block, slot = divmod(index, sum(self.weights))
        part, rank = _dealt(Key().fold("mixture", *self.parts), block, self.weights)
        k = int(part[slot])
        return k, block * self.weights[k] + int(rank[slot])

    def draw(self, indices: Sequence[int], level: float | None, key: Key) -> list[Problem]:
        """Draws the problems at these indices. `level` None: each task uses its own level."""
        places = [self.place(int(i)) for i in indices]
        drawn: dict[tuple[int, int], Problem] = {}
        for part, (source, (name, task)) in enumerate(zip(self.sources(), self.parts.items(), strict=True)):
            wanted = sorted({at for p, at in places if p == part})
            inner = [_again(at, source.size, key.fold("again", name)) for at in wanted]
            problems = source.draw(inner, task.level if level is None else level, key)
            check_drawn(source, problems, inner)
            drawn |= {(part, at): _named(problem, name, task) for at, problem in zip(wanted, problems, strict=True)}
        return [drawn[place] for place in places]


    @property
    def arms(self) -> tuple[str, ...]:
        """The names of the arms of all tasks; each begins with its task's name. A task without arms counts as one arm."""
        return tuple(self._arms())

    def draw_arm(self, arm: str, indices: Sequence[int], level: float | None, key: Key) -> list[Problem]:
        """Draws the problems of one arm at these indices, with the arm's name in `meta`. Raises UserError for an unknown arm."""
        if arm not in (arms := self._arms()):
            raise unknown("arm", arm, arms, "These are the arms of the mixture")
        name, inner = arms[arm]
        task, source = self.parts[name], dict(zip(self.parts, self.sources(), strict=True))[name]
        at = [_again(i, source.size, key.fold("again", name)) for i in indices]
        level = task.level if level is None else level
        drawn = source.draw_arm(inner, at, level, key) if isinstance(source, Arms) else source.draw(at, level, key)
        return [replace(p, meta=Frozen({**p.meta, "arm": arm})) for p in (_named(p, name, task) for p in drawn)]

    def _arms(self) -> dict[str, tuple[str, str]]:
        """Maps the name of each arm to (name of its task, name of the arm in the task's own source)."""
        found: dict[str, tuple[str, str]] = {}
        for name, source in zip(self.parts, self.sources(), strict=True):
            for arm in source.arms if isinstance(source, Arms) else (name,):
                found[arm if arm.partition("/")[0] == name else f"{name}/{arm}"] = (name, arm)
        return found


@dataclass(frozen=True)
class MixtureEnvironment:
    """Starts an episode in the environment of the problem's task."""

    parts: Frozen[Environment]

    @property
    def shows(self) -> frozenset[str]:
        """All kinds of observations that at least one environment shows."""
        return frozenset().union(*(getattr(part, "shows", {"text"}) for part in self.parts.values()))

    @property
    def acts(self) -> Space:
        """The action space that all environments share; text if their spaces differ."""
        return common([getattr(part, "acts", Text()) for part in self.parts.values()])

    @property
    def together(self) -> int | None:
        """The smallest limit `together` of the environments; None if none of them has a limit."""
        return min((most for part in self.parts.values() if (most := getattr(part, "together", None)) is not None), default=None)

    def start(self, problem: Problem, key: Key, world: World) -> Episode | Awaitable[Episode]:
        return self.parts[problem.task].start(problem, key, world)


@dataclass(frozen=True)
class MixtureVerify:
    """Gives the verdict of the problem's task; NOT_APPLICABLE if this task has no verifier."""

    parts: Frozen[Verify | None]

    def all(self) -> list[Verify | None]:
        """Returns the verifiers of all tasks."""
        return list(self.parts.values())

    def of(self, problem: Problem) -> Verify | None:
        """Returns the verifier of a problem's task."""
        return self.parts[problem.task]

    def __call__(self, problem: Problem, completion: str) -> Outcome:
        verify = self.of(problem)
        return NOT_APPLICABLE if verify is None else verify(problem, completion)


def mix_tasks(parts: Sequence[tuple[str, Task, Fraction | float]]) -> Task:
    """Makes one task from several (spec, task, weight). A problem's `task` is the name of its task. If two tasks have the same name, `task` is the spec of
    the task.

    `max_tokens` is the largest of the tasks' limits; None if a task has no limit. The mixture has only the stop texts that all tasks share. All other
    sampling settings come from the first task. Raises UserError for tasks that cannot be mixed: a one-turn task and a task with an environment, tasks for
    different policies, the same task twice.
    """
    names = [task.name for _, task, _ in parts]
    names = names if len(set(names)) == len(names) else [spec for spec, _, _ in parts]
    if len(set(names)) < len(names):
        raise UserError(f"the mixture has {max(names, key=names.count)} twice; write this task once, with the sum of the two weights")
    tasks = Frozen(dict(zip(names, (task for _, task, _ in parts), strict=True)))
    weights = whole([Fraction(w) for _, _, w in parts])
    if len(tasks) == 1:
        return next(iter(tasks.values()))
    _check_together(tasks)
    first = next(iter(tasks.values()))
    environments = {n: t.environment for n, t in tasks.items() if t.environment is not None}
    limits = [t.sampling.max_tokens for t in tasks.values()]
    stops = tuple(s for s in first.sampling.stops if all(s in t.sampling.stops for t in tasks.values()))
    label = ",".join(f"{name}:{weight}" for name, weight in zip(names, weights, strict=True))
    return Task(
        name=label,
        source=Mixture(tasks, tuple(weights), held_out=False, endless=True),
        held_out=Mixture(tasks, tuple(weights), held_out=True, endless=False),
        verify=MixtureVerify(Frozen({n: t.verify for n, t in tasks.items()})) if any(t.verify for t in tasks.values()) else None,
        environment=MixtureEnvironment(Frozen(environments)) if environments else None,
        provides=frozenset.intersection(*(t.provides for t in tasks.values())),
        about=f"a mixture: {'; '.join(f'{n}: {t.about}' for n, t in tasks.items())}",
        sampling=replace(first.sampling, max_tokens=None if None in limits else max(n for n in limits if n is not None), stops=stops),
        policy=first.policy,
        shows=frozenset[str]().union(*(t.shows for t in tasks.values())),
        acts=common([t.acts for t in tasks.values()]),
        chance=sum(w * t.chance for w, t in zip(weights, tasks.values(), strict=True)) / sum(weights),
    )


def _check_together(tasks: Frozen[Task]) -> None:
    playing = [name for name, task in tasks.items() if task.environment is not None]
    if playing and len(playing) < len(tasks):
        single = next(name for name in tasks if name not in playing)
        raise UserError(f"{playing[0]} is played in an environment, but {single} is answered in one turn; mix only tasks of the same kind")
    kinds = {(task.showing, task.acting): name for name, task in tasks.items()}
    if len(kinds) > 1 and not all(task.of_text for task in tasks.values()):
        said = "; ".join(f"{name} shows {', '.join(sorted(shows))} and accepts {described(acts)}" for (shows, acts), name in kinds.items())
        raise UserError(f"the tasks {' and '.join(kinds.values())} are for different policies ({said}); mix only tasks of the same kind")


def common(spaces: Sequence[Space]) -> Space:
    """Returns the space if all of `spaces` are equal; text if they differ."""
    return spaces[0] if all(space == spaces[0] for space in spaces) else Text()


def _named(problem: Problem, name: str, task: Task) -> Problem:
    """Returns the problem with its task's name in `task` and `id`, and with its task's system message, because the mixture has no system message."""
    system = ({"role": "system", "content": task.system},) if task.system and problem.text is None else ()
    id = problem.id if problem.id.startswith(f"{name}/") else f"{name}/{problem.id}"
    return replace(problem, id=id, task=name, messages=(*system, *problem.messages))


def _again(at: int, size: int | None, key: Key) -> int:
    """Returns the index of the problem that draw number `at` takes from a source of `size` problems. The first round uses the source in order; each later
    round has a new order."""
    if size is None or at < size:
        return at
    again, place = divmod(at, size)
    return int(_order(key, again, size)[place])


@lru_cache(maxsize=64)  # neighbouring indices need the same block
def _dealt(key: Key, block: int, weights: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Returns two numbers for every problem of a block: the number of its source, and its rank (from 0) among the block's problems from this source."""
    part = np.repeat(np.arange(len(weights)), weights)[_order(key, block, sum(weights))]
    rank = np.zeros(len(part), dtype=np.int64)
    for k, weight in enumerate(weights):
        rank[part == k] = np.arange(weight)
    return part, rank


@lru_cache(maxsize=16)
def _order(key: Key, number: int, size: int) -> np.ndarray:
    """Returns the order in block or round `number`: a permutation of 0..size-1."""
    return key.fold(number).permutation(size)


def _number(text: str) -> Fraction | None:
    try:
        value = float(text)
        return Fraction(text) if math.isfinite(value) and abs(value) < 1e9 else Fraction(-1)
    except ValueError:
        return None
