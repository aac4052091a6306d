"""Rotary positions: the angle of every pair of a head's dimensions, and the methods that extend the context.

Angles depend only on the position. `DynamicScaling` and `LongScaling` are defined by the length of the longest sequence in a batch. So above some length, a
sequence would depend on the other sequences of its batch. Both kinds of scaling are implemented only up to this length. `LongScaling` shortens the context to
this length.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class LinearScaling:
    """Divides every frequency by `factor`."""

    factor: float


@dataclass(frozen=True)
class DynamicScaling:
    """Scales nothing.

    Dynamic scaling changes the base only for sequences longer than max_position_embeddings, and such sequences are not allowed here.
    """

    factor: float


@dataclass(frozen=True)
class Llama3Scaling:
    """Rotary frequencies of Llama 3.1. The scaling of a frequency depends on its number of turns in the original context.

    Below `low_freq_factor` turns the frequency is divided by `factor`. Above `high_freq_factor` turns the frequency does not change. Between these two
    numbers of turns the frequency is a blend of both values.
    """

    factor: float
    low_freq_factor: float
    high_freq_factor: float
    original_max_position_embeddings: int


@dataclass(frozen=True)
class YarnScaling:
    """The scaling of a frequency depends on its number of turns in the original context.

    Above `beta_fast` turns the frequency does not change. Below `beta_slow` turns the frequency is divided by `factor`. Between these two
    numbers of turns the frequency is a blend of both values.

    Reference: Peng et al., YaRN: Efficient Context Window Extension of Large Language Models, arXiv:2309.00071, section 3.
    """

    factor: float
    original_max_position_embeddings: int
    attention_factor: float  # factor on cos and sin
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    truncate: bool = True  # whether the bounds of the blend are rounded outwards to whole pairs


@dataclass(frozen=True)
class LongScaling:
    """Divides every frequency by its own factor for short sequences. Sequences longer than the original context are not allowed.

    The factors for long sequences are not used, because they would apply to all positions of a sequence. But the tokens of some positions were sampled before
    the sequence was long. So the update could not reproduce the rollout's log-probabilities. Reference: Ding et al., LongRoPE, arXiv:2402.13753.
    """

    short_factor: tuple[float, ...]
    long_factor: tuple[float, ...]
    original_max_position_embeddings: int
    attention_factor: float  # factor on cos and sin


Scaling: TypeAlias = LinearScaling | DynamicScaling | Llama3Scaling | YarnScaling | LongScaling


@dataclass(frozen=True)
class Rope:
    """The rotation of a layer's heads. Only the first `share` of each head's dimensions is rotated."""

    theta: float = 10000.0
    scaling: Scaling | None = None
    share: float = 1.0


def frequencies(rope: Rope, head_dim: int) -> tuple[Tensor, float]:
    """Returns, for every rotated pair, its angle per position in radians, float32 [pairs]. Also returns the factor on cos and sin."""
    import torch

    width = int(head_dim * rope.share)
    turns = 1.0 / rope.theta ** (torch.arange(0, width, 2, dtype=torch.int64).float() / width)
    match rope.scaling:
        case LinearScaling(factor):
            return turns / factor, 1.0
        case Llama3Scaling():
            return _llama3(turns, rope.scaling), 1.0
        case YarnScaling():
            return _yarn(turns, rope.scaling, rope.theta, width), rope.scaling.attention_factor
        case LongScaling(short):
            return turns / torch.tensor(short, dtype=torch.float32), rope.scaling.attention_factor
        case _:
            return turns, 1.0


def _llama3(turns: Tensor, scaling: Llama3Scaling) -> Tensor:
    # Wavelengths below original context / high stay the same, wavelengths above original context / low are stretched, and the others are blended.
    laps = scaling.original_max_position_embeddings * turns / (2 * math.pi)
    keep = ((laps - scaling.low_freq_factor) / (scaling.high_freq_factor - scaling.low_freq_factor)).clamp(0, 1)
    return keep * turns + (1 - keep) * turns / scaling.factor


def _yarn(turns: Tensor, scaling: YarnScaling, theta: float, width: int) -> Tensor:
    import torch

    def pair(laps: float) -> float:
        """Returns the number of the pair that has `laps` turns in the original context. The fastest pair has number 0."""
        return width * math.log(scaling.original_max_position_embeddings / (laps * 2 * math.pi)) / (2 * math.log(theta))

    low, high = pair(scaling.beta_fast), pair(scaling.beta_slow)
    if scaling.truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, width - 1)
    span = high - low if high != low else 0.001
    stretch = ((torch.arange(len(turns), dtype=torch.float32) - low) / span).clamp(0, 1)
    return turns / scaling.factor * stretch + turns * (1 - stretch)
