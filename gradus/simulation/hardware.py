"""Estimates rates from the size of a model and the data sheet of a GPU (roofline model). A measured rate is always better."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gradus.recipe.core import specs_of
from gradus.simulation.rates import Rates
from gradus.types.errors import UserError, unknown
from gradus.types.ranges import check_ranges

if TYPE_CHECKING:
    from gradus.recipe.core import Recipe


@dataclass(frozen=True)
class GPU:
    """A GPU as in its data sheet: dense bfloat16 FLOP/s, memory bandwidth and link bandwidth in bytes/s, and memory in bytes."""

    flops: float
    bandwidth: float
    memory: float
    link: float = 50e9  # bandwidth to GPUs of other machines: 400 Gbit/s


GPUS = {
    "A100": GPU(312e12, 2.04e12, 80e9, 25e9),
    "L40S": GPU(362e12, 0.864e12, 48e9, 25e9),
    "H20": GPU(148e12, 4.0e12, 96e9),
    "H100": GPU(989e12, 3.35e12, 80e9),
    "H200": GPU(989e12, 4.8e12, 141e9),
    "B200": GPU(2250e12, 7.7e12, 180e9),
    "MI300X": GPU(1307e12, 5.3e12, 192e9),
}
"""Public data sheets: SXM forms, without sparsity."""


@dataclass(frozen=True)
class Efficiency:
    """The shares of a data sheet's numbers that programs reach. The defaults are usual values, not measurements."""

    training: float = 0.4  # share of the FLOP/s in training
    reading: float = 0.5  # share of the FLOP/s for prompts and scoring
    decoding: float = 0.6  # share of the memory bandwidth in decoding
    step: float = 0.002  # seconds per decoding step for launches of kernels and for communication
    used: float = 0.85  # share of the memory for weights and caches

    def __post_init__(self) -> None:
        check_ranges(self, training="(0, 1]", reading="(0, 1]", decoding="(0, 1]", step="[0, inf)", used="(0, 1]")


@dataclass(frozen=True)
class Shape:
    """The sizes of a dense decoder with this number of parameters: layers L, width 102 L, parameters 12 L width^2, 8 heads of 128 for keys and values."""

    parameters: float

    @property
    def layers(self) -> int:
        return max(1, round((self.parameters / (12 * 102**2)) ** (1 / 3)))

    @property
    def cache(self) -> int:
        """Bytes of keys and values per token, in bfloat16."""
        return 2 * self.layers * 8 * 128 * 2


SCALES = {"": 1.0, "M": 1e6, "B": 1e9, "T": 1e12}


def size_of(text: str) -> float:
    """Returns the number of parameters of a text such as 70B, 1.5B or 500M. Raises UserError for another text."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([MBT]?)", text.strip().upper())
    if found is None or float(found[1]) == 0:
        raise UserError(f'--model is "{text}"; give a number of parameters, such as 70B, 1.5B or 500M')
    return float(found[1]) * SCALES[found[2]]


def gpu_of(name: str) -> GPU:
    """Returns the GPU of this name. Raises UserError for an unknown name."""
    if name.upper() not in GPUS:
        raise unknown("GPU", name, GPUS)
    return GPUS[name.upper()]


def replica_gpus(shape: Shape, gpu: GPU, efficiency: Efficiency = Efficiency()) -> int:
    """Returns the smallest power of two of GPUs with enough memory for the weights in bfloat16 and for caches of the same size."""
    count = 1
    while 2 * 2 * shape.parameters > efficiency.used * count * gpu.memory:
        count *= 2
    return count


@dataclass(frozen=True)
class Costs:
    """The costs of a recipe's update: the number of its models, all with the size of the policy, and the number of passes over the batch."""

    learning: int = 1  # models that learn
    frozen: int = 0  # models that only score every token
    passes: int = 1  # passes over the batch; if there are several updates, the log-probabilities at the start of the step are computed, too
    updates: int = 1

    @property
    def scored(self) -> int:
        """Forward passes without a gradient, per token."""
        return self.frozen + (self.passes * self.updates > 1)


def costs_of(recipe: Recipe) -> Costs:
    """Returns the costs of a recipe. If a player's model is a part of another player's model, it still counts as a separate model."""
    learns = [spec.objective is not None for spec in specs_of(recipe).values()]
    return Costs(sum(learns), len(learns) - sum(learns), getattr(recipe.update, "epochs", 1), getattr(recipe.update, "count", 1))


def training_gpus(shape: Shape, gpu: GPU, costs: Costs = Costs(), efficiency: Efficiency = Efficiency()) -> int:
    """Returns the smallest number of GPUs with enough memory for the training.

    A model that learns needs 18 bytes per parameter (weights, gradients, float32 copies and two moments); a frozen model needs 2 bytes per parameter.
    Activations add a fifth.
    """
    needed = 1.2 * shape.parameters * (18 * costs.learning + 2 * costs.frozen)
    return max(1, math.ceil(needed / (efficiency.used * gpu.memory)))


@dataclass(frozen=True)
class Decoding:
    """Seconds of a decoding step of b sequences on `gpus` GPUs: the time for memory or the time for arithmetic (the longer one), plus a constant.

        max((2 N + b c k) / bandwidth, 2 N b / FLOPs) + step

    N: parameters; c: tokens of a sequence so far, on average; k: bytes of keys and values per token.
    """

    shape: Shape
    gpu: GPU
    gpus: int
    context: float
    efficiency: Efficiency = Efficiency()

    def __call__(self, sequences: int) -> float:
        n, e = self.shape.parameters, self.efficiency
        memory = (2 * n + sequences * self.context * self.shape.cache) / (self.gpus * self.gpu.bandwidth * e.decoding)
        arithmetic = 2 * n * sequences / (self.gpus * self.gpu.flops * e.reading)
        return max(memory, arithmetic) + e.step


def estimated(
    shape: Shape, gpu: GPU, costs: Costs, *, replica: int, training: int, context: float, prompts: float, efficiency: Efficiency = Efficiency()
) -> Rates:
    """Returns rates from data sheets.

    An update needs 6 N FLOPs per token and pass for each learning model. Each forward pass without a gradient needs 2 N FLOPs per token.

    Args: `replica`: GPUs of a sampling replica. `training`: GPUs that update. `context`: tokens of a sequence while it decodes, on average. `prompts`: number
    of prompt tokens per sampled token; an update reads the prompts, too.
    """
    n = shape.parameters
    room = efficiency.used * replica * gpu.memory - 2 * n
    flops = 6 * n * costs.learning * costs.passes / efficiency.training + 2 * n * costs.scored / efficiency.reading
    return Rates(
        decode=Decoding(shape, gpu, replica, context, efficiency),
        prefill=2 * n / (replica * gpu.flops * efficiency.reading),
        update=(1 + prompts) * flops / (training * gpu.flops),
        publish=2 * n / (replica * gpu.link),
        most=max(1, int(room // (2 * context * shape.cache))),
    )
