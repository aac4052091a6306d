"""Ways to run the parts of a step at the same time: the value of `recipe.system`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from gradus.types.errors import UserError, unknown
from gradus.types.ranges import check_ranges

PLACES = ("threads", "processes")
"""The places where workers sample: threads of the training process, or one process per worker."""


@dataclass(frozen=True)
class Ahead:
    """Samples the rollouts of the next `steps` steps while the current step updates the weights.

    The rollout of step t uses the weights from before the update of step t - `steps`. The first `steps` + 1 steps have the first weights. The problems of
    step t are chosen when its rollout begins, so a curriculum that learns has not yet seen the last `steps` steps. The clock has no influence. A run without
    this system has the same result, byte for byte, if every step has one update and a player with `Lagged(updates=steps)` samples.

    Every player has a second copy of its weights for the rollouts.
    """

    steps: int = 1  # 1: the rollout of the next step runs while this step updates
    workers_in: Literal["threads", "processes"] = "threads"  # where samples are drawn; a process that ends is started again, and its samples are drawn again
    environments: int | None = None  # processes that run the task's environment; None: the environment runs in the training process
    verifiers: int | None = None  # processes that run the verifiers of the package; None: these verifiers run in the training process

    def __post_init__(self) -> None:
        check_ranges(self, steps="[1, inf)", environments="[1, inf)", verifiers="[1, inf)")
        check_place(self)


@dataclass(frozen=True)
class Streaming:
    """Samples groups without a pause. Each step trains on the groups that were finished first.

    `workers` workers sample one group each at a time, with the newest weights that were published when the group began. Before the update of step t, workers
    may sample the first P * (t + 1 + `staleness`) requests; P is the number of prompts per step. A group becomes too old if more than `staleness` steps
    lie between its sampling and its training. Such a group is dropped and sampled again. So no trained token is older than `staleness` steps.

    With `unit` "answer", a worker samples one answer or episode at a time, with the weights that are newest when the answer begins.
    When all answers of a group are finished, the group is judged and released. So a slow answer occupies only one worker, and the other workers continue. A
    group may then have answers of several versions. Only an answer that is too old is sampled again. The rollout must sample each answer independently of the
    others: SingleTurn, Episodes or Auto.
    Reference: Li et al., DART, arXiv:2509.23866 (rollout-wise sampling).

    With `dispatch` "speed", the tokens per second of each worker are measured. An idle worker leaves a request to a busy worker if the busy worker is faster
    and is expected to finish the request earlier.

    With `interrupt`, a worker does not wait for the end of its group. The worker stops between two tokens, takes the new weights, reads its unfinished
    answers again, and continues them. Each token keeps its log-probability and the version of its weights. The age of a group is then the age of its
    oldest token, so the limit applies to each token. Reference: Fu et al., AReaL, arXiv:2505.24298, sections 4.1 and 5.1.

    With `staleness` 0 the result is equal, byte for byte, to the result of a run without a system. Otherwise the order in which groups finish depends
    on the clock. The run writes this order, and the version of the weights of each group, to its facts. A run that repeats a step from its facts has
    the same result.
    """

    staleness: int = 1  # the largest age of a group's weights, in steps
    workers: int = 2  # groups, or answers, that are sampled at the same time (see `unit`)
    publish_every: int = 1  # steps between two publications of weights
    trains_on: Literal["first", "newest"] = "first"  # a step trains on the groups that finished first, or on the finished groups with the newest weights
    dispatch: Literal["idle", "speed"] = "idle"  # who gets a request: the first idle worker, or the worker that is expected to finish it first
    unit: Literal["group", "answer"] = "group"  # the samples that a worker takes at a time: a whole group, or one answer or episode
    interrupt: bool = False  # True: a worker takes newly published weights between two tokens, and continues its answers
    deadline: float | None = None  # after this number of seconds, an idle worker also samples the group of a slow worker; the first result counts
    workers_in: Literal["threads", "processes"] = "threads"  # where samples are drawn; a process that ends is started again, and its samples are drawn again
    environments: int | None = None  # processes that run the task's environment; None: the environment runs in the training process
    verifiers: int | None = None  # processes that run the verifiers of the package; None: these verifiers run in the training process

    def __post_init__(self) -> None:
        check_ranges(self, staleness="[0, inf)", workers="[1, inf)", publish_every="[1, inf)", deadline="(0, inf)")
        check_ranges(self, environments="[1, inf)", verifiers="[1, inf)")
        check_place(self)
        for name, known in (("trains_on", ("first", "newest")), ("dispatch", ("idle", "speed")), ("unit", ("group", "answer"))):
            if getattr(self, name) not in known:
                raise unknown("value", getattr(self, name), known, f"In {name} of Streaming")
        if self.unit == "answer" and self.trains_on == "newest":
            raise UserError(
                'Streaming: if `unit` is "answer", a step always trains on the groups that finish first; set `trains_on` to "first", or `unit` to "group"'
            )
        if self.publish_every > self.staleness + 1:
            raise UserError(
                f"Streaming.publish_every is {self.publish_every} and Streaming.staleness is {self.staleness}, so the published weights become too old; set "
                f"`publish_every` to {self.staleness + 1} or less"
            )


@dataclass(frozen=True)
class Cluster(Streaming):
    """`Streaming` whose workers run on the machines of a Ray cluster.

    Ray chooses the machines of the processes. If a process or its machine is lost, another process starts. The weights are trained in the process that
    started the
    run. The processes get the same messages as processes on one machine, so the result is the same if all machines round in the same way.
    """

    workers_in: Literal["threads", "processes"] = "processes"  # "processes": each rollout worker is a Ray actor; "threads": only pool processes are actors
    address: str | None = None  # the running Ray cluster: "auto" on one of its machines, or HOST:PORT; None: Ray starts on this machine alone
    worker_cpus: float = 1.0  # CPU cores that Ray reserves for a rollout worker
    worker_gpus: float = 0.0  # GPUs that Ray reserves for a rollout worker; 0: it samples on the CPU
    worker_resource: str | None = None  # a Ray resource: workers run only on machines that offer it, and each takes 1; None: on any machine
    pool_cpus: float = 1.0  # CPU cores that Ray reserves for a process of the environments and verifiers
    pool_resource: str | None = None  # as `worker_resource`, but for the processes of the environments and verifiers
    patience: float = 600.0  # seconds that the run waits until Ray finds a place for a process

    def __post_init__(self) -> None:
        super().__post_init__()
        check_ranges(self, worker_cpus="[0, inf)", worker_gpus="[0, inf)", pool_cpus="[0, inf)", patience="(0, inf)")
        if self.interrupt and self.workers_in == "processes":
            raise UserError("Cluster: actors of Ray cannot take new weights between two tokens; set `interrupt` to False, or take the system Streaming")


@dataclass(frozen=True)
class Sharded:
    """Divides the weights, gradients and optimiser moments of every player among the processes of the run (FSDP2 of PyTorch).

    `--processes` sets the number of processes n. Each process keeps one n-th of every tensor, and gathers one layer at a time while it computes. To sample,
    every process gathers all weights of a player. The processes share samples and micro-batches, and add up their gradients. Floats are added in another
    order than in one process, so the results agree only up to rounding errors. Checkpoints are the same as in a run with one process, and any number of
    processes
    can continue them.

    With one process, the run is the same as without a system.
    Reference: Zhao et al., PyTorch FSDP, arXiv:2304.11277; Rajbhandari et al., ZeRO, arXiv:1910.02054.
    """


@dataclass(frozen=True)
class SequenceParallel:
    """Divides the tokens of every micro-batch among the processes of the run. Long sequences then need less memory per process.

    `--processes` sets the number of processes n. Each process has the whole weights, and computes an n-th of the packed rows of a micro-batch. For the
    attention, the processes exchange data (all-to-all). After this exchange, each process has all rows for an n-th of the heads. The log-probability of a
    token belongs to the process that has the row before the token. Samples are shared as without this system.

    With one process, the run is the same as without a system.
    Reference: Jacobs et al., DeepSpeed Ulysses, arXiv:2309.14509.
    """


def check_place(system: Ahead | Streaming) -> None:
    """Raises UserError if the workers are in an unknown place."""
    if system.workers_in not in PLACES:
        raise unknown("place", system.workers_in, PLACES, f"In workers_in of {type(system).__name__}")


System = Ahead | Streaming | Cluster | Sharded | SequenceParallel
