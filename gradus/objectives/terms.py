"""The terms of an objective, and the objective as the sum of its terms.

A term declares its inputs: `wants` (rows with gradient), `needs` (signals) and the `source` of its trajectories. The method `loss` of a term gets only these
rows. A term is `separable` if it is a sum over actions, once the counts of the whole mini-batch are known. A separable term can be evaluated one micro-batch at
a time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Protocol

from torch import Tensor

from gradus.objectives.aggregation import Average, SequenceMean, TokenMean, averaged
from gradus.objectives.ratios import Ratio, TokenRatio
from gradus.objectives.returned import check_loss, check_losses, check_rows, check_unchanged, versions
from gradus.objectives.trust import Clip, Trust
from gradus.types import Frozen, UserError
from gradus.types.batch import Batch
from gradus.types.ranges import check_ranges
from gradus.types.signals import EntropyOf, LogProb, Signal, Value, Values, Want
from gradus.types.tally import Tally, check_same_shape, merge, tally


class Term(Protocol):
    """One summand of an objective."""

    @property
    def wants(self) -> tuple[Want, ...]:
        """Returns the rows that the term reads with gradient."""
        ...

    @property
    def needs(self) -> tuple[Signal, ...]:
        """Returns the signals that the term reads, without gradient."""
        ...

    @property
    def separable(self) -> bool:
        """Whether the loss is a plain sum over actions, once the counts of the whole mini-batch are known."""
        ...

    @property
    def source(self) -> str:
        """Returns the source of the trajectories that the term reads, such as "policy" or "expert"."""
        ...

    def loss(self, outputs: dict[Want, Tensor], batch: Batch) -> tuple[Tensor, dict[str, Tally]]:
        """Computes the loss, a scalar with gradient, and the metrics. `outputs` contains the rows [A] of each `Want`."""
        ...


class Weight(Protocol):
    """Computes a factor on the loss of each action, without gradient. If a weight has `needs`, the batch contains these signals."""

    def factors(self, old: Tensor, batch: Batch) -> Tensor:
        """Returns the factors [A]. `old` [A] are the log-probabilities at the start of the update, in nats."""
        ...


@dataclass(frozen=True)
class TruncatedImportance:
    """min(pi_old / pi_behaviour, cap).

    Corrects the loss if another engine drew the samples, or if their weights are older than the weights at the start of the update.
    """

    cap: float = 2.0
    against: ClassVar[str] = "old"  # a ratio to the behaviour policy already contains this factor

    def __post_init__(self) -> None:
        check_ranges(self, cap="(0, inf]")

    def factors(self, old: Tensor, batch: Batch) -> Tensor:
        return (old - batch.behaviour_logprobs).exp().clamp(max=self.cap)


def needs_of_weight(weight: Weight | None) -> tuple[Signal, ...]:
    """Returns the signals that a weight reads from the batch: the signals in the weight's `needs`, if it has this attribute."""
    return tuple(getattr(weight, "needs", ()))


def factored(weight: Weight | None, losses: Tensor, logprobs: Tensor, batch: Batch) -> Tensor:
    """Multiplies `losses` [A] by the factors that `weight` computes from the log-probabilities at the start of the update.

    Without a weight (None), the losses do not change.
    """
    if weight is None:
        return losses
    factors = weight.factors(logprobs.detach() if batch.old_logprobs is None else batch.old_logprobs, batch)
    check_rows(weight, "factors", factors, batch.weight.shape, "action")
    return losses * factors


@dataclass(frozen=True)
class PolicyGradient:
    """The policy-gradient term. Four parts can be chosen: the ratio, the trust region, a weight, and the average over actions."""

    ratio: Ratio = TokenRatio()
    trust: Trust = Clip()
    weight: Weight | None = None
    average: Average = SequenceMean()
    coefficient: float = 1.0
    source: str = "policy"
    wants: ClassVar[tuple[Want, ...]] = (LogProb(),)

    @property
    def needs(self) -> tuple[Signal, ...]:
        return (*needs_of_weight(self.weight), *getattr(self.trust, "needs", ()))

    @property
    def separable(self) -> bool:
        return self.ratio.separable and self.trust.separable

    def loss(self, outputs: dict[Want, Tensor], batch: Batch) -> tuple[Tensor, dict[str, Tally]]:
        logprobs = outputs[LogProb()]
        old = logprobs.detach() if batch.old_logprobs is None else batch.old_logprobs
        log_ratio = self.ratio.log_ratio(logprobs, old, batch)
        check_rows(self.ratio, "log_ratio", log_ratio, batch.weight.shape, "action", of=logprobs)
        losses, metrics = check_losses(self.trust, self.trust.losses(log_ratio, batch.advantages, batch), log_ratio)
        losses = factored(self.weight, losses * batch.weight, logprobs, batch)
        loss = averaged(self.average, losses, batch, self.source)
        return self.coefficient * loss, {**metrics, "ratio": tally(log_ratio.detach().exp())}


@dataclass(frozen=True)
class EntropyBonus:
    """-coefficient * mean over actions of the entropy of the full distribution."""

    coefficient: float = 0.01
    average: Average = TokenMean()
    source: str = "policy"
    weight: Weight | None = None
    separable: ClassVar[bool] = True

    @property
    def needs(self) -> tuple[Signal, ...]:
        return needs_of_weight(self.weight)

    @property
    def wants(self) -> tuple[Want, ...]:
        return (EntropyOf(),) if self.weight is None else (EntropyOf(), LogProb())

    def loss(self, outputs: dict[Want, Tensor], batch: Batch) -> tuple[Tensor, dict[str, Tally]]:
        entropy = outputs[EntropyOf()]
        weighted = entropy * batch.weight
        if self.weight is not None:
            weighted = factored(self.weight, weighted, outputs[LogProb()], batch)
        return -self.coefficient * averaged(self.average, weighted, batch, self.source), {"entropy": tally(entropy)}


def value_losses(values: Tensor, old_values: Tensor, returns: Tensor, *, clip: float | None) -> Tensor:
    """PPO's value loss per action: 1/2 max((V - R)^2, (V_old + clamp(V - V_old, -clip, clip) - R)^2). If `clip` is None: 1/2 (V - R)^2.

    Reference: Schulman et al., arXiv:1707.06347, eq. 9 with the released code's clipping (openai/baselines ppo2).
    """
    check_same_shape(values=values, old_values=old_values, returns=returns)
    plain = (values - returns).square()
    if clip is None:
        return plain / 2
    held = old_values + (values - old_values).clamp(-clip, clip)
    return plain.maximum((held - returns).square()) / 2


@dataclass(frozen=True)
class ValueLoss:
    """A critic's regression on the returns, with PPO's value clipping."""

    clip: float | None = 0.2  # clip of the value; None: plain squared error
    player: str = "critic"
    average: Average = TokenMean()
    coefficient: float = 1.0
    source: str = "policy"
    separable: ClassVar[bool] = True
    wants: ClassVar[tuple[Want, ...]] = (Value(),)
    asks: ClassVar[Mapping[str, str]] = Frozen({"returns": "a credit rule that gives returns, such as GAE"})

    def __post_init__(self) -> None:
        check_ranges(self, clip="(0, inf]")

    @property
    def needs(self) -> tuple[Signal, ...]:
        return (Values(player=self.player),)

    def loss(self, outputs: dict[Want, Tensor], batch: Batch) -> tuple[Tensor, dict[str, Tally]]:
        values = outputs[Value()]
        if bool(batch.returns.isnan().any()):
            raise UserError(f"{self.player} learns values, but its credit rule gives no returns; set a credit rule that gives returns, such as GAE")
        losses = value_losses(values, batch.signals[Values(player=self.player)], batch.returns, clip=self.clip)
        loss = averaged(self.average, losses * batch.weight, batch, self.source)
        return self.coefficient * loss, {"value_error": tally((values.detach() - batch.returns).square())}


@dataclass(frozen=True)
class Imitation:
    """Maximum likelihood of a source's actions: -mean of w log pi. `weight` computes w from log pi at the start of the update, without gradient."""

    average: Average = TokenMean()
    coefficient: float = 1.0
    source: str = "expert"
    weight: Weight | None = None
    separable: ClassVar[bool] = True
    wants: ClassVar[tuple[Want, ...]] = (LogProb(),)

    @property
    def needs(self) -> tuple[Signal, ...]:
        return needs_of_weight(self.weight)

    def loss(self, outputs: dict[Want, Tensor], batch: Batch) -> tuple[Tensor, dict[str, Tally]]:
        losses = factored(self.weight, -outputs[LogProb()] * batch.weight, outputs[LogProb()], batch)
        return self.coefficient * averaged(self.average, losses, batch, self.source), {"imitation": tally(losses)}


def evaluate(terms: Mapping[str, Term], outputs: dict[Want, Tensor], batch: Batch) -> tuple[Tensor, dict[str, Tally]]:
    """Returns the sum of all terms, and the metrics. Each term is computed from the trajectories of its source; without such trajectories, it adds
    nothing.
    """
    total = batch.weight.new_zeros(())
    metrics: list[dict[str, Tally]] = []
    for name, term in terms.items():
        if term.source not in batch.counts:
            continue
        mine, rows = batch.of(term.source)
        if not mine.actions:
            continue
        read = {w: outputs[w] if rows is None else outputs[w].index_select(0, rows) for w in term.wants}
        before = versions(mine)
        loss, seen = check_loss(term, term.loss(read, mine), list(read.values()))
        check_unchanged(term, mine, before)
        total = total + loss
        metrics.append({**seen, f"loss/{name}": Tally(loss.detach().double(), 0)})
    return total, merge(*metrics)


def wants_of(terms: Mapping[str, Term]) -> tuple[Want, ...]:
    return tuple(dict.fromkeys(w for term in terms.values() for w in term.wants))


def reads_others(terms: Mapping[str, Term] | None) -> bool:
    """Whether a term computes a divergence from another player in the same pass."""
    return any(ability.startswith("divergence:") for want in wants_of(terms or {}) for ability in want.needed)


def needs_of(terms: Mapping[str, Term]) -> tuple[Signal, ...]:
    return tuple(dict.fromkeys(s for term in terms.values() for s in term.needs))


def separable(terms: Mapping[str, Term]) -> bool:
    return all(term.separable for term in terms.values())
