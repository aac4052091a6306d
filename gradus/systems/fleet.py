"""Starts the workers of a recipe's system: processes for samples, and processes for environments and verifiers."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gradus.systems.hosts import Host, Hosts
from gradus.systems.leader import beginning, memory_of, shared
from gradus.systems.link import Link
from gradus.systems.pools import Pool, pooled_environment, pooled_verifiers
from gradus.systems.process_link import ProcessLink
from gradus.types import UserError
from gradus.types.guards import bytes_of
from gradus.types.systems import Ahead, Cluster, Streaming

if TYPE_CHECKING:
    from gradus.training.run import Run

Opener = Callable[[str], Link]
"""Starts a process of the given role and returns the link to it."""


@contextmanager
def working(run: Run, model: str | Path | None, device: str, processes: int = 1) -> Iterator[Run]:
    """A context in which the run has its other processes: training processes (`leader.shared`), and workers of the recipe's system. Yields the run."""
    with shared(run, model, device, processes), hosted(run, model, device):
        yield run


@contextmanager
def hosted(run: Run, model: str | Path | None, device: str) -> Iterator[Run]:
    """A context in which the recipe's system has its worker processes. Yields the run. If the system needs no processes, starts none.

    A process starts when it gets its first question. All processes end at the end of the context.
    """
    system, task = run.recipe.system, run.task
    if run.stages is not None and any(wants_processes(leg.recipe.system) for leg in run.stages.legs):
        raise UserError(
            "a run that has stages can sample only in threads; leave out `workers_in`, `environments` and `verifiers` of --system, or train each stage alone"
        )
    if not isinstance(system, Ahead | Streaming) or not wants_processes(system):
        yield run
        return
    with ExitStack() as stack:
        opened: Opener = ProcessLink
        if isinstance(system, Cluster):
            from gradus.systems.ray_link import Connected

            opened = connected = Connected(system)
            stack.callback(connected.close)
        if system.workers_in == "processes":
            run.hosts = Hosts(rollout_hosts(run, model, device, opened))
            stack.callback(run.hosts.close)
        for count, name, moved in ((system.environments, "environment", pooled_environment), (system.verifiers, "verifier", pooled_verifiers)):
            if count is not None:
                run.task, pool = moved(run.task, partial(task_pool, count, name, opened, say_of(run)))
                stack.callback(pool.close)
        try:
            yield run
        finally:
            run.hosts, run.task = None, task


def wants_processes(system: Any) -> bool:
    """Whether a system needs workers in other processes."""
    return isinstance(system, Ahead | Streaming) and (system.workers_in, system.environments, system.verifiers) != ("threads", None, None)


def task_pool(count: int, name: str, opened: Opener, say: Callable[[str], None], first: Mapping[str, Any]) -> Pool:
    """Returns a pool of `count` processes that get the message `first`."""
    return Pool([Host(f"{name} process {i}", partial(opened, "tasks"), lambda: [("begin", first)], say) for i in range(count)])


def rollout_hosts(run: Run, model: str | Path | None, device: str, opened: Opener) -> list[Host]:
    """Returns one host per rollout worker of the run's system."""
    system = run.recipe.system
    count = getattr(system, "workers", 1)
    cluster = isinstance(system, Cluster)
    memory = (run.recipe.setting.memory and bytes_of(run.recipe.setting.memory)) if cluster else memory_of(run.recipe.setting, device, count + 1)
    told = {**beginning(run.players, run.recipe, run.task, model, run.seed), "memory": memory}

    def first(worker: int) -> list[tuple[str, dict[str, Any]]]:
        own = ("cuda" if system.worker_gpus else "cpu") if isinstance(system, Cluster) else device_of_worker(device, worker)
        return [("begin", {**told, "device": own})]

    say = say_of(run)
    return [Host(f"rollout worker {i}", partial(opened, "players"), partial(first, i), say) for i in range(count)]


def device_of_worker(device: str, worker: int) -> str:
    """Returns the device of a rollout worker. If the run trains on a GPU, the workers share the other GPUs of the machine in turn.

    If there is no other GPU, the workers use the GPU of the run.
    """
    kind, _, first = device.partition(":")
    if kind != "cuda":
        return device
    import torch

    own = int(first or 0)
    others = [gpu for gpu in range(torch.cuda.device_count()) if gpu != own]
    return f"cuda:{others[worker % len(others)]}" if others else f"cuda:{own}"


def say_of(run: Run) -> Callable[[str], None]:
    """Returns the function that shows a sentence to the user of the run."""
    return run.view.message if run.view is not None else partial(print, file=sys.stderr)
