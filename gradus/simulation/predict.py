"""Predicts the speed of a configuration of a cluster, and recommends a configuration."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gradus.simulation.rates import Rates
from gradus.simulation.schedules import Model, Trace
from gradus.simulation.work import Item
from gradus.types.systems import Ahead, Streaming

NEAR = 0.95
"""A configuration may be recommended if it has at least this share of the tokens per second of the fastest configuration."""


@dataclass(frozen=True)
class Configuration:
    """The choices before a run: the system, the numbers of GPUs that sample and that train, the problems per step, and the number of GPUs per replica.

    Without a system the same GPUs sample and train, so both numbers are the number of all GPUs.
    """

    system: Ahead | Streaming | None
    sampling: int
    training: int
    prompts: int
    replica: int = 1

    @property
    def shared(self) -> bool:
        return self.system is None

    @property
    def replicas(self) -> int:
        return max(1, self.sampling // self.replica)

    @property
    def gpus(self) -> int:
        return self.training if self.shared else self.sampling + self.training

    @property
    def name(self) -> str:
        if isinstance(self.system, Ahead):
            return f"Ahead({self.system.steps})"
        return f"Streaming({self.system.staleness})" if isinstance(self.system, Streaming) else "lockstep"


@dataclass(frozen=True)
class Prediction:
    """The predicted speed of a configuration. `step`, `tokens` and `age` do not include the first third of the steps; the other numbers include all steps.

    `step`: seconds of a step; `tokens`: sampled tokens per second that training uses; `sampling_idle`, `training_idle`: the share of time that a replica, or
    the training GPUs, are idle (without a system, both are the idle share of all GPUs); `age`: mean steps between the weights of a group and its update;
    `dropped`: the share of sampled groups that are too old.
    """

    configuration: Configuration
    step: float
    tokens: float
    sampling_idle: float
    training_idle: float
    age: float
    dropped: float


def workers(prompts: int, group: int, staleness: int, replicas: int, rates: Rates) -> int:
    """Returns the number of workers of `Streaming`: enough to fill the memory of all replicas, at most the number of admitted groups, and at least one per
    replica.
    """
    return max(replicas, min(replicas * max(1, rates.most // group), prompts * (staleness + 1)))


def predicted(configuration: Configuration, rates: Rates, items: Sequence[Item], steps: int) -> Prediction:
    """Simulates `steps` steps of a run that continues after them. For the numbers, see `Prediction`."""
    c = configuration
    trace = Model(c.system, rates, items, c.prompts, steps, c.replicas, endless=True).run()
    return summary(c, trace)


def summary(configuration: Configuration, trace: Trace) -> Prediction:
    """Returns the prediction that follows from a simulated run."""
    first = len(trace.ends) // 3
    seconds = trace.ends[-1] - (trace.ends[first - 1] if first else 0.0)
    whole, counted = trace.ends[-1], len(trace.ends) - first
    sampling, training = trace.sampling / whole, trace.updating / whole
    idle = (1 - min(1.0, sampling + training),) * 2 if configuration.shared else (1 - min(1.0, sampling), 1 - training)
    groups = len(trace.ends) * configuration.prompts
    return Prediction(
        configuration,
        step=seconds / counted,
        tokens=sum(trace.tokens[first:]) / seconds,
        sampling_idle=idle[0],
        training_idle=idle[1],
        age=sum(trace.ages[first:]) / counted,
        dropped=trace.dropped / (groups + trace.dropped),
    )


def configurations(
    gpus: int, prompts: Sequence[int], ages: Sequence[int], shares: Sequence[float], *, replica: int, training: int, workers_of: Callable[[Configuration], int]
) -> list[Configuration]:
    """Returns the configurations to compare. One kind has no system. The others have `Ahead` or `Streaming` with each age above 0 and each split of the GPUs.

    Args: shares: of the GPUs that sample; replica, training: the GPUs that a replica and the training need; workers_of: the workers of a `Streaming`.
    """
    splits = dict.fromkeys(int(gpus * share) // replica * replica for share in shares)
    found = []
    for count in prompts:
        if gpus >= max(replica, training):
            found += [Configuration(None, gpus, gpus, count, replica)]
        for sampling in splits:
            if sampling < replica or gpus - sampling < training:
                continue
            for age in (age for age in ages if age > 0):
                found.append(Configuration(Ahead(age), sampling, gpus - sampling, count, replica))
                first = Configuration(Streaming(age), sampling, gpus - sampling, count, replica)
                found.append(Configuration(Streaming(age, workers_of(first)), sampling, gpus - sampling, count, replica))
    return found


def recommended(found: Sequence[Prediction]) -> tuple[Prediction, str]:
    """Returns a prediction and the reason for it.

    Only configurations with at least 95 % of the highest speed (tokens per second) are considered. The smallest age decides, then the smallest number of
    problems per step, then the highest speed.
    """
    best = max(found, key=lambda p: p.tokens)
    near = [p for p in found if p.tokens >= NEAR * best.tokens]
    chosen = min(near, key=lambda p: (round(p.age, 2), p.configuration.prompts, -p.tokens))
    plain = max((p for p in found if p.configuration.shared), key=lambda p: p.tokens, default=None)
    if chosen is best:
        reason = "it has the most tokens per second"
    else:
        share = chosen.tokens / best.tokens
        c = best.configuration
        reason = f"it has {share:.0%} of the most tokens per second ({c.name}, {c.sampling}+{c.training} GPUs, {c.prompts} prompts)"
        reason += f", and its groups are {chosen.age:.1f} steps old in place of {best.age:.1f}" if chosen.age < best.age else ""
        reason += ", and fewer prompts per step" if chosen.age >= best.age else ""
    if plain is not None and plain is not chosen:
        reason += f"; it is {chosen.tokens / plain.tokens:.2f} times as fast as lockstep"
    idle = ("sampling", chosen.sampling_idle) if chosen.sampling_idle > chosen.training_idle else ("training", chosen.training_idle)
    if not chosen.configuration.shared:
        reason += f"; the role with more idle time is {idle[0]} ({idle[1]:.0%})"
    return chosen, reason
