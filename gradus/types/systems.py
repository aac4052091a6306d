"""Ways to run the parts of a step at the same time: the value of `recipe.system`."""

from __future__ import annotations

from dataclasses import dataclass

from gradus.types.errors import UserError
from gradus.types.ranges import check_ranges


@dataclass(frozen=True)
class Ahead:
    """Samples the rollouts of the next `steps` steps while the current step updates the weights.

    The rollout of step t has the weights that the players had before the update of step t - `steps`. The first `steps` + 1 steps have the first weights. The
    problems of step t are chosen when its rollout begins, so a curriculum that learns has not yet seen the last `steps` steps. No clock decides anything. If
    every step has one update, the result is equal, byte for byte, to that of a run whose rollouts are sampled by a player with `Lagged(updates=steps)`.

    Every player has a second copy of its weights, with which the rollouts are sampled.
    """

    steps: int = 1  # 1: the rollout of the next step runs while this step updates

    def __post_init__(self) -> None:
        check_ranges(self, steps="[1, inf)")


@dataclass(frozen=True)
class Streaming:
    """Samples groups without a pause. Each step trains on the groups that were finished first.

    `workers` workers sample one group each at a time, with the newest weights that were published when the group began. Before the update of step t, the first
    P (t + 1 + `staleness`) requests have been admitted, where P is the number of prompts per step. A group that was sampled more than `staleness` steps before
    the step that would train on it is dropped and sampled again. So no token is older than `staleness` steps.

    With `staleness` 0 the result is equal, byte for byte, to that of a run without a system. Otherwise the order in which groups finish depends on the clock.
    The run writes this order, and the version of the weights of each group, to its facts. A run that repeats a step from its facts has the same result.
    """

    staleness: int = 1  # the largest age of a group's weights, in steps
    workers: int = 2  # groups that are sampled at the same time
    publish_every: int = 1  # steps between two publications of weights
    deadline: float | None = None  # seconds after which an idle worker samples the group of a slow worker too; the first result counts

    def __post_init__(self) -> None:
        check_ranges(self, staleness="[0, inf)", workers="[1, inf)", publish_every="[1, inf)", deadline="(0, inf)")
        if self.publish_every > self.staleness + 1:
            raise UserError(
                f"Streaming: publish_every is {self.publish_every} and staleness is {self.staleness}, so the published weights become too old; set "
                f"publish_every to {self.staleness + 1} or less"
            )


@dataclass(frozen=True)
class Sharded:
    """Divides the weights of every player among the processes of the run, and with them gradients and optimiser moments (FSDP2 of PyTorch).

    `--processes` sets the number of processes n. Each process keeps one n-th of every tensor, and gathers one layer at a time while it computes. To sample,
    every process gathers all weights of a player. The processes share samples and micro-batches, and add up their gradients. Sums of floats have another order
    than in one process, so results agree up to rounding errors. Checkpoints are those of a run in one process, and any number of processes can continue them.

    With one process, the run is that without a system.
    Reference: Zhao et al., PyTorch FSDP, arXiv:2304.11277; Rajbhandari et al., ZeRO, arXiv:1910.02054.
    """


@dataclass(frozen=True)
class SequenceParallel:
    """Divides the tokens of every micro-batch among the processes of the run. Long sequences then need less memory per process.

    `--processes` sets the number of processes n. Each process has the whole weights, and computes an n-th of the packed rows of a micro-batch. For the
    attention, the processes exchange rows for heads (all-to-all), so each process attends with an n-th of the heads over all rows. The log-probability of a
    token belongs to the process that has the row before the token. Samples are shared as without this system.

    With one process, the run is that without a system.
    Reference: Jacobs et al., DeepSpeed Ulysses, arXiv:2309.14509.
    """


System = Ahead | Streaming | Sharded | SequenceParallel
