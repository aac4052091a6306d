"""The clock of a training run: rollouts and updates in the order of a system, without models.

The systems are defined in `gradus.types.systems`. Admission, publication, age and assignment are functions of `gradus.training.admission`. The runs call the
same functions.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import Any

from gradus.simulation.rates import Rates
from gradus.simulation.replica import Replica
from gradus.simulation.work import Item
from gradus.training.admission import admitted_until, due, first_finished, next_request, stale_of
from gradus.types.errors import UserError
from gradus.types.systems import Ahead, Streaming

Wait = Generator[Any, Any, None]


@dataclass(frozen=True)
class Trace:
    """The course of a simulated run: the time at which each step ended, the busy seconds of both roles, the ages of the groups, and the number of dropped
    groups.
    """

    ends: tuple[float, ...]
    sampling: float  # mean busy seconds of a replica
    updating: float
    ages: tuple[float, ...]  # the mean age of a step's groups, in steps
    dropped: int
    tokens: tuple[int, ...]  # sampled tokens of the groups of each step


@dataclass(eq=False)
class Model:
    """A simulated run. `items`: the groups of step 0, then the groups of step 1, and so on; each step has `prompts` groups.

    `endless`: whether the run continues after its last step, so that later requests are admitted, too.
    """

    system: Ahead | Streaming | None
    rates: Rates
    items: Sequence[Item]
    prompts: int
    steps: int
    replicas: int = 1
    endless: bool = False
    clock: Any = field(init=False)
    pool: list[Replica] = field(init=False)
    trained: list[tuple[float, float, int]] = field(default_factory=list)  # (end of the step, mean age, tokens)
    updating: float = 0.0
    dropped: int = 0

    def __post_init__(self) -> None:
        if isinstance(self.system, Streaming):
            plain = {"interrupt": False, "unit": "group", "trains_on": "first", "dispatch": "idle"}
            if other := [f"{name} {value}" for name, known in plain.items() if (value := getattr(self.system, name)) != known]:
                raise UserError(f"a simulation supports only whole groups that finish first, but Streaming has {', '.join(other)}; leave these fields out")
        self.clock = _environment()
        self.pool = [Replica(self.clock, self.rates) for _ in range(self.replicas)]

    def run(self) -> Trace:
        """Runs the clock to the end of the last step."""
        course = streaming(self, self.system) if isinstance(self.system, Streaming) else in_order(self, self.system.steps if self.system else 0)
        self.clock.run(self.clock.process(course))
        busy = sum(replica.busy for replica in self.pool) / len(self.pool)
        ends, ages, tokens = zip(*self.trained, strict=True)
        return Trace(ends, busy, self.updating, ages, self.dropped, tokens)

    @property
    def last(self) -> int | None:
        """The last step of the run; None: the run has no end."""
        return None if self.endless else self.steps - 1

    def of(self, number: int) -> Item:
        """Returns the group of a request. The groups are repeated if there are too few."""
        return self.items[number % len(self.items)]

    def update(self, numbers: Sequence[int], ages: Sequence[int]) -> Wait:
        """Updates on the groups of these requests."""
        tokens = sum(self.of(n).tokens for n in numbers)
        seconds = self.rates.update_start + tokens * self.rates.update
        self.updating += seconds
        yield self.clock.timeout(seconds)
        self.trained.append((self.clock.now, sum(ages) / max(len(ages), 1), tokens))


def in_order(model: Model, ahead: int) -> Wait:
    """Rollouts of whole steps, one after another: `Ahead(ahead)`, or a run without a system for 0."""
    tasks: dict[int, Any] = {}
    versions: dict[int, int] = {}
    for step in range(model.steps):
        for later in range(step, admitted_until(step, ahead, model.last) + 1):
            if later not in tasks:
                versions[later] = step
                tasks[later] = model.clock.process(rollout(model, later, step, tasks.get(later - 1)))
        yield tasks[step]
        yield from model.update(range(step * model.prompts, (step + 1) * model.prompts), [step - versions[step]] * model.prompts)


def rollout(model: Model, step: int, version: int, before: Any) -> Wait:
    """Samples the groups of a step on all replicas, and waits for the slowest reward. `before`: the rollout before this rollout; None: there is no
    such rollout."""
    if before is not None:
        yield before
    items = [model.of(n) for n in range(step * model.prompts, (step + 1) * model.prompts)]
    yield model.clock.all_of([model.pool[i % model.replicas].submit(item, version) for i, item in enumerate(items)])
    yield model.clock.timeout(max(item.delay for item in items))


@dataclass(eq=False)
class Stream:
    """The requests of a simulated `Streaming`. The fields have the names of `gradus.training.streaming.Stream`."""

    free: set[int] = field(default_factory=set)  # requests that are admitted but that no worker has yet
    running: dict[int, tuple[float, int]] = field(default_factory=dict)  # request -> (begin, number of workers)
    begun: dict[int, int] = field(default_factory=dict)  # running request -> version
    done: dict[int, int] = field(default_factory=dict)  # request -> version, in the order of the ends
    published: list[int] = field(default_factory=list)
    work: Any = None
    ready: Any = None


def streaming(model: Model, system: Streaming) -> Wait:
    """Groups without a pause: the steps of `gradus.training.streaming.Stream`."""
    stream, admitted = Stream(work=model.clock.event(), ready=model.clock.event()), 0
    for worker in range(system.workers):
        model.clock.process(work(model, system, stream, model.pool[worker % model.replicas]))
    for step in range(model.steps):
        if due(step, stream.published[-1] if stream.published else None, system.publish_every):
            stream.published.append(step)
        until = (admitted_until(step, system.staleness, model.last) + 1) * model.prompts
        stream.free.update(range(admitted, until))
        admitted = max(admitted, until)
        _trigger(stream.work)
        while True:
            for number in stale_of(stream.done, step, system.staleness):
                del stream.done[number]
                stream.free.add(number)
                model.dropped += 1
                _trigger(stream.work)
            if (chosen := first_finished(stream.done, model.prompts)) is not None:
                break
            stream.ready = model.clock.event()
            yield stream.ready
        ages = [step - stream.done.pop(number) for number in chosen]
        yield from model.update(chosen, ages)


def work(model: Model, system: Streaming, stream: Stream, replica: Replica) -> Wait:
    """Samples one group after another, with the newest published weights."""
    while True:
        late = None if system.deadline is None else model.clock.now - system.deadline
        number = next_request(stream.free, stream.running, late) if stream.published else None
        if number is None:
            stream.work = model.clock.event() if stream.work.triggered else stream.work
            yield stream.work if system.deadline is None else stream.work | model.clock.timeout(system.deadline)
            continue
        stream.free.discard(number)
        began, copies = stream.running.get(number, (model.clock.now, 0))
        stream.running[number] = (began, copies + 1)
        version = stream.begun.setdefault(number, stream.published[-1])
        item = model.of(number)
        yield replica.submit(item, version)
        yield model.clock.timeout(item.delay)
        if stream.running.get(number, (-1.0, 0))[0] == began:  # else another worker was faster
            del stream.running[number]
            stream.done[number] = stream.begun.pop(number)
            _trigger(stream.ready)


def _trigger(event: Any) -> None:
    if not event.triggered:
        event.succeed()


def _environment() -> Any:
    """Returns the clock of simpy. Raises UserError if the package is missing."""
    try:
        import simpy
    except ImportError as error:
        raise UserError('gradus simulate needs the package simpy; install it with: pip install "gradus[simulate]"') from error
    return simpy.Environment()
