"""KL between the Gaussian steps of two flow generators. Both steps have the same spread, so the KL depends only on the distance of their means."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from torch import Tensor

from gradus.objectives.aggregation import Average, SequenceMean, averaged
from gradus.types.batch import Batch
from gradus.types.signals import Prediction, Signal, Velocity, Want
from gradus.types.tally import Tally, check_same_shape, tally


def transition_kl(velocity: Tensor, reference: Tensor, gain: Tensor, spread: Tensor) -> Tensor:
    """KL(N(m, s^2 I) || N(m_ref, s^2 I)) = |m - m_ref|^2 / (2 s^2), nats [A], with m - m_ref = gain (v - v_ref) and s = spread.

    Args: `velocity` v [A, d] with gradient; `reference` v_ref [A, d]; `gain` and `spread` [A] of the sampler's step. Raises: ValueError if the
    velocities differ in shape. Reference: Flow-GRPO, arXiv:2505.05470, section 4.2 (its s is sigma_t sqrt(dt)).
    """
    check_same_shape(velocity=velocity, reference=reference)
    return ((gain / spread)[:, None] * (velocity - reference)).square().sum(-1) / 2


@dataclass(frozen=True)
class TransitionKL:
    """coefficient * average of a KL over the noise steps. The KL compares the step of the policy with the step of a frozen player from the same point."""

    coefficient: float = 0.04
    player: str = "reference"
    average: Average = SequenceMean()
    source: str = "policy"
    separable: ClassVar[bool] = True
    wants: ClassVar[tuple[Want, ...]] = (Velocity(),)

    @cached_property
    def needs(self) -> tuple[Signal, ...]:
        return (Prediction(player=self.player),)

    def loss(self, outputs: dict[Want, Tensor], batch: Batch) -> tuple[Tensor, dict[str, Tally]]:
        reference = batch.signals[Prediction(player=self.player)]
        values = transition_kl(outputs[Velocity()], reference, batch.stream("gain"), batch.stream("spread"))
        return self.coefficient * averaged(self.average, values * batch.weight, batch, self.source), {"kl": tally(values)}
