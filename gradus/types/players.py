"""Players and the relations between their models, as a recipe writes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from gradus.types.errors import UserError
from gradus.types.ranges import check_ranges


@dataclass(frozen=True)
class Copy:
    """Weights copied from another player's when the run starts."""

    of: str = "policy"


@dataclass(frozen=True)
class Head:
    """A scalar value head. `of` a player: its trunk is shared and receives no gradient from the head; `of` a Copy: a network of its own."""

    of: str | Copy = "policy"


@dataclass(frozen=True)
class Adapter:
    """LoRA on frozen weights: W + (alpha / rank) B A. As the model of the policy it trains an adapter of the model that the run was given."""

    of: str | None = None  # another player, whose weights are shared and not copied; None: the model that the run was given
    rank: int = 8
    alpha: float = 16.0
    bits: Literal[8, 4] | None = None  # the frozen weights are kept in so many bits (the extra `quantised`); None: as they were loaded

    def __post_init__(self) -> None:
        check_ranges(self, rank="[1, inf)", alpha="(0, inf)")
        if self.bits not in (None, 8, 4):
            raise UserError(f"Adapter: bits is {self.bits}; it must be 8, 4 or none")
        if self.bits is not None and self.of is not None:
            raise UserError(f"Adapter: bits is {self.bits}, but the weights belong to the player {self.of}; leave `of` or `bits` out")


@dataclass(frozen=True)
class Lagged:
    """Another player's weights as they were `updates` updates ago (those of the start before that).

    Weights are seen after whole steps: where a step has several updates these are the newest that are at least so old.
    """

    of: str = "policy"
    updates: int = 1

    def __post_init__(self) -> None:
        check_ranges(self, updates="[0, inf)")


@dataclass(frozen=True)
class MovingAverage:
    """An exponential moving average of another player's weights: every `every` updates w <- decay w + (1 - decay) w_of.

    Weights are seen after whole steps: where a step has several updates, w_of is for all of them what the step has left.
    """

    of: str = "policy"
    decay: float = 0.99
    every: int = 1
    rise: float | None = None  # after n updates the decay is min(decay, rise * n); None: it is `decay` from the start

    def __post_init__(self) -> None:
        check_ranges(self, decay="[0, 1]", every="[1, inf)", rise="(0, inf)")

    def decay_at(self, updates: int) -> float:
        """The decay of the move after that many updates of the other player, counted from 1."""
        return self.decay if self.rise is None else min(self.decay, self.rise * updates)


Model = str | Copy | Head | Adapter | Lagged | MovingAverage


@dataclass(frozen=True)
class VLLM:
    """Samples come from vLLM in this process (the extra `vllm`, a GPU); updates and scores stay with the model itself."""

    memory: float = 0.4  # share of the GPU's memory for it; the rest is left to the update
    gpus: int = 1  # GPUs that share every layer (tensor parallel)
    tolerance: float = 0.25  # nats a token by which its log-probabilities may differ from the model's own, on average over a sample

    def __post_init__(self) -> None:
        check_ranges(self, memory="(0, 1]", gpus="[1, inf)", tolerance="(0, inf)")


@dataclass(frozen=True)
class VLLMServer:
    """Samples come from a vLLM server. A player that learns needs one started with VLLM_SERVER_DEV_MODE=1, so that it can be given weights.

    An API key is taken from the environment variable VLLM_API_KEY.
    """

    url: str = "http://127.0.0.1:8000"
    name: str | None = None  # of the model, where the server offers several
    folder: str | None = None  # where updated weights are written; the server must see it under the same path. None: a temporary folder
    requests: int = 128  # at most so many at a time
    timeout: float = 600.0  # seconds that one request, or one reload, may take
    retries: int = 3  # of a request that found no server, or a broken answer
    tolerance: float = 0.25  # nats a token by which its log-probabilities may differ from the model's own, on average over a sample

    def __post_init__(self) -> None:
        check_ranges(self, requests="[1, inf)", timeout="(0, inf)", retries="[0, inf)", tolerance="(0, inf)")


@dataclass(frozen=True)
class Player:
    """Whatever has weights. Without objective it is frozen. None for credit or optimizer: the recipe's own."""

    model: Model | None = None  # None: the model that the run was given; a string: a folder
    objective: Any = None
    credit: Any = None
    optimizer: Any = None
    learns_from: str = "own"  # "own": trajectories of this player; "policy" or another name: those of that player
    every: int = 1  # moves at every n-th step
    engine: VLLM | VLLMServer | None = None  # what samples in its name; None: the model itself

    def __post_init__(self) -> None:
        check_ranges(self, every="[1, inf)")
