"""Terms for controllers that learn from transitions.

The terms are the temporal-difference error, the reparametrised policy, the temperature and conservative values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from gradus.objectives.aggregation import Average, TokenMean, averaged
from gradus.types import Frozen
from gradus.types.batch import Batch
from gradus.types.control import Candidates, Drawn, DrawnAction, LogProbOfDrawn, Number, NumberOf, Q, QGradient, QOfCandidates, QOfUniform
from gradus.types.ranges import check_ranges
from gradus.types.signals import Signal, Want
from gradus.types.tally import Tally, check_same_shape, tally


def td_losses(q: Tensor, returns: Tensor) -> Tensor:
    """Computes the sum over heads of 1/2 (Q_j - y)^2. Args: `q` [A, heads] with gradient; `returns` [A], the targets y. Returns: [A]."""
    return (q - returns[:, None]).square().sum(1) / 2


@dataclass(frozen=True)
class TDError:
    """Fits every head to the target y of the credit rule. The loss is the mean over rows of sum_j 1/2 (Q_j(s, a) - y)^2."""

    average: Average = TokenMean()
    coefficient: float = 1.0
    source: str = "replay"
    separable: ClassVar[bool] = True
    wants: ClassVar[tuple[Want, ...]] = (Q(),)
    needs: ClassVar[tuple[Signal, ...]] = ()
    asks: ClassVar[Mapping[str, str]] = Frozen({"returns": "a credit rule that gives returns, such as SoftBellman"})

    def loss(self, outputs: dict[Want, Tensor], batch: Batch) -> tuple[Tensor, dict[str, Tally]]:
        q = outputs[Q()]
        losses = td_losses(q, batch.returns) * batch.weight
        loss = self.coefficient * averaged(self.average, losses, batch, self.source)
        seen = q.detach()
        return loss, {"q": tally(seen.mean(1)), "td_error": tally((seen - batch.returns[:, None]).square().mean(1))}


def reparametrised_losses(actions: Tensor, logprobs: Tensor, slopes: Tensor, alpha: Tensor) -> Tensor:
    """Computes alpha log pi(a) - a . dQ/da. The gradient equals the gradient of alpha log pi(a) - Q(s, a), if the action a is a function of the weights.

    Args: with gradient `actions` [A, d] and `logprobs` [A]; without gradient `slopes` [A, d], which is dQ/da, and `alpha` [A]. Returns: [A].
    """
    check_same_shape(actions=actions, slopes=slopes)
    return alpha * logprobs - (actions * slopes).sum(1)


@dataclass(frozen=True)
class SoftPolicy:
    """Trains the policy to maximise Q(s, a) - alpha log pi(a), where the policy draws the action a.

    The loss has the gradient of mean(alpha log pi(a) - Q(s, a)), but not the value of this mean. The critic's slope dQ/da is a signal, so no gradient reaches
    the critic.
    Reference: Haarnoja et al., arXiv:1812.05905, eq. 7 to 9.
    """

    critic: str = "critic"
    temperature: str | None = "temperature"  # the player that holds log alpha; None: the field `alpha`
    alpha: float = 0.0
    reduce: Literal["least", "mean"] = "least"  # combines the heads: the smallest value (SAC), or the mean (REDQ)
    average: Average = TokenMean()
    source: str = "replay"
    separable: ClassVar[bool] = True
    wants: ClassVar[tuple[Want, ...]] = (Drawn(), LogProbOfDrawn())
    asks: ClassVar[Mapping[str, str]] = Frozen({"rows": "--selection TransitionReplay"})

    def __post_init__(self) -> None:
        check_ranges(self, alpha="[0, inf)")

    @property
    def needs(self) -> tuple[Signal, ...]:
        return (self._slope, *(() if self.temperature is None else (NumberOf(player=self.temperature),)))

    @property
    def _slope(self) -> QGradient:
        return QGradient(player=self.critic, reduce=self.reduce)

    def loss(self, outputs: dict[Want, Tensor], batch: Batch) -> tuple[Tensor, dict[str, Tally]]:
        logprobs = outputs[LogProbOfDrawn()]
        alpha = torch.full_like(logprobs, self.alpha) if self.temperature is None else batch.signals[NumberOf(player=self.temperature)].exp()
        losses = reparametrised_losses(outputs[Drawn()], logprobs, batch.signals[self._slope], alpha.detach()) * batch.weight
        return averaged(self.average, losses, batch, self.source), {"surprise": tally(-logprobs.detach())}


@dataclass(frozen=True)
class Temperature:
    """Learns the number log alpha. The loss is the mean of -alpha (log pi(a) + least), so alpha rises if the actor's entropy is below `least`.

    Reference: Haarnoja et al., arXiv:1812.05905, eq. 18.
    """

    least: float | None = None  # target entropy in nats; None: minus the number of dimensions of an action
    actor: str = "policy"
    average: Average = TokenMean()
    source: str = "replay"
    separable: ClassVar[bool] = True
    wants: ClassVar[tuple[Want, ...]] = (Number(),)
    names_players: ClassVar[tuple[str, ...]] = ("actor",)

    @property
    def needs(self) -> tuple[Signal, ...]:
        return (DrawnAction(player=self.actor),)

    def loss(self, outputs: dict[Want, Tensor], batch: Batch) -> tuple[Tensor, dict[str, Tally]]:
        drawn = batch.signals[DrawnAction(player=self.actor)]
        least = -float(drawn.shape[1] - 1) if self.least is None else self.least
        alpha = outputs[Number()].exp()
        losses = -alpha * (drawn[:, -1] + least) * batch.weight
        return averaged(self.average, losses, batch, self.source), {"alpha": tally(alpha.detach())}


def soft_maximum(values: Tensor, log_densities: Tensor) -> Tensor:
    """Estimates log integral exp Q by log mean of exp(Q_i) / p_i over n candidates. Candidate i is drawn with density p_i.

    Args: values [A, heads, n] with gradient; log_densities [A, n] in nats.  Returns: [A, heads].
    """
    count = values.shape[-1]
    return (values - log_densities[:, None, :]).logsumexp(-1) - torch.log(torch.tensor(float(count), dtype=values.dtype))


@dataclass(frozen=True)
class Conservative:
    """Lowers the values of actions that are not in the data: weight * sum_j (log integral exp Q_j(s, a) da - Q_j(s, a_data)).

    The integral is estimated by importance sampling with three kinds of actions: uniform actions, the actor's actions in the state, and its actions in the next
    state. Each kind has `candidates` actions. With `floor` (Cal-QL), max(Q_j(s, a), R) replaces the value of an actor's action, where R is the reward-to-go
    of the recorded row. So values are not lowered below the return of the recorded behaviour. If R is larger than Q_j, the action gives no gradient. Uniform
    actions have no floor. References: Kumar et al., Conservative Q-Learning, arXiv:2006.04779, eq. 4 and appendix F; Nakamoto et al., Cal-QL,
    arXiv:2303.05479, section 5.
    """

    weight: float = 5.0
    candidates: int = 4  # number of actions of each of the three kinds
    floor: str | None = None  # stream with a lower bound on the values of the actor's actions, such as "to_go"; None: no bound
    actor: str = "policy"
    average: Average = TokenMean()
    source: str = "replay"
    separable: ClassVar[bool] = True
    names_players: ClassVar[tuple[str, ...]] = ("actor",)

    def __post_init__(self) -> None:
        check_ranges(self, weight="[0, inf)", candidates="[1, inf)")

    @property
    def asks(self) -> Mapping[str, str]:
        given = "--rollout Recorded --rollout.gamma 0.99 (the discount of the target)"
        return Frozen({"rows": "--selection TransitionReplay", **({} if self.floor is None else {self.floor: given})})

    @property
    def streams(self) -> Mapping[str, Signal]:
        """Returns a mapping of names to signals: the streams that the differentiable inputs in `wants` read."""
        return {f"candidates {at}": Candidates(player=self.actor, count=self.candidates, at=at) for at in ("now", "next")}

    @property
    def wants(self) -> tuple[Want, ...]:
        return (Q(), QOfUniform(self.candidates), *(QOfCandidates(name) for name in self.streams))

    @property
    def needs(self) -> tuple[Signal, ...]:
        return tuple(self.streams.values())

    def loss(self, outputs: dict[Want, Tensor], batch: Batch) -> tuple[Tensor, dict[str, Tally]]:
        uniform = outputs[QOfUniform(self.candidates)]
        values = torch.cat([outputs[QOfCandidates(name)] for name in self.streams], -1)
        seen: dict[str, Tally] = {}
        if self.floor is not None:
            floor = batch.stream(self.floor)[:, None, None].to(values)
            seen = {"floored": tally((values.detach() < floor).to(values).mean((1, 2)))}
            values = torch.maximum(values, floor)
        densities = [uniform[:, -1, :], *(batch.signals[signal][..., -1] for signal in self.streams.values())]
        gap = soft_maximum(torch.cat([uniform[..., :-1, :], values], -1), torch.cat(densities, -1)) - outputs[Q()]
        losses = self.weight * gap.sum(1) * batch.weight
        return averaged(self.average, losses, batch, self.source), {"gap": tally(gap.detach().mean(1)), **seen}
