"""The term that fits a value head to probabilities of success. The loss is the cross-entropy of the head's sigmoid."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from gradus.objectives.aggregation import Average, TokenMean, averaged
from gradus.types import Frozen, UserError
from gradus.types.batch import Batch
from gradus.types.signals import Signal, Value, Want
from gradus.types.tally import Tally, check_same_shape, tally


def chance_losses(logits: Tensor, chances: Tensor) -> Tensor:
    """Returns -y log sigmoid(v) - (1 - y) log(1 - sigmoid(v)) per row. This loss is smallest at sigmoid(v) = y.

    Args: `logits` v [A] with gradient; `chances` y [A], each a share of successes.
    """
    check_same_shape(logits=logits, chances=chances)
    return torch.nn.functional.binary_cross_entropy_with_logits(logits, chances, reduction="none")


@dataclass(frozen=True)
class ChanceLoss:
    """Fits the sigmoid of a value head to the returns by cross-entropy. The returns are probabilities of success.

    By default, the average uses the weights of the actions.
    """

    head: str = "value"
    average: Average = TokenMean(counted="weighted")
    coefficient: float = 1.0
    source: str = "policy"
    separable: ClassVar[bool] = True
    needs: ClassVar[tuple[Signal, ...]] = ()
    asks: ClassVar[Mapping[str, str]] = Frozen({"returns": "a credit rule that gives chances as returns, such as StepChances"})

    @property
    def wants(self) -> tuple[Want, ...]:
        return (Value(self.head),)

    def loss(self, outputs: dict[Want, Tensor], batch: Batch) -> tuple[Tensor, dict[str, Tally]]:
        if bool(batch.returns.isnan().any()):
            raise UserError(
                "a head learns probabilities, but its credit rule gives no returns; set a credit rule that gives probabilities as returns, such as StepChances"
            )
        logits = outputs[Value(self.head)]
        losses = chance_losses(logits, batch.returns) * batch.weight
        error = (logits.detach().sigmoid() - batch.returns).square()[batch.weight > 0]
        return self.coefficient * averaged(self.average, losses, batch, self.source), {"chance_error": tally(error)}


@dataclass(frozen=True)
class RewardLikelihood:
    """-log P(R) at every action. R is the trajectory's reward, 0 or 1, and the output of `head` is the logit of P(1)."""

    head: str = "q"
    average: Average = TokenMean()
    coefficient: float = 1.0
    source: str = "policy"
    separable: ClassVar[bool] = True
    needs: ClassVar[tuple[Signal, ...]] = ()

    @property
    def wants(self) -> tuple[Want, ...]:
        return (Value(self.head),)

    def loss(self, outputs: dict[Want, Tensor], batch: Batch) -> tuple[Tensor, dict[str, Tally]]:
        logits = outputs[Value(self.head)]
        each = logits.new_tensor([_label(t.value) for t in batch.trajectories])
        rewards = each.index_select(0, batch.trajectory.to(each.device))
        losses = chance_losses(logits, rewards) * batch.weight
        right = (logits.detach() > 0) == (rewards > 0.5)
        return self.coefficient * averaged(self.average, losses, batch, self.source), {"chance_right": tally(right)}


def _label(reward: float) -> float:
    if reward not in (0.0, 1.0):
        raise UserError(f"the head learns the probability of reward 1, but a reward is {reward}; use a reward function that gives only 0 and 1")
    return reward
