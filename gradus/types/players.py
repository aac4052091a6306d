"""Players and the relations between their models, as fields of a recipe."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from gradus.types.errors import UserError
from gradus.types.frozen import Frozen
from gradus.types.ranges import check_ranges
from gradus.types.signals import View


@dataclass(frozen=True)
class Copy:
    """A copy of another player's weights, made when the run starts."""

    of: str = "policy"


@dataclass(frozen=True)
class Head:
    """Heads on a model. `of` a player: the trunk is shared and gets no gradient from the head. `of` a Copy: a network of its own.

    `over` "action": one number per action from the state before it. "vocabulary": one number per token of the vocabulary; `Value(name)` is then
    the number of the action taken.
    """

    of: str | Copy = "policy"
    outputs: tuple[str, ...] = ("value",)  # names of the heads
    over: Literal["action", "vocabulary"] = "action"
    hidden: int = 0  # width of a hidden layer of each head; 0: linear

    def __post_init__(self) -> None:
        check_ranges(self, hidden="[0, inf)")
        if not self.outputs or len(set(self.outputs)) != len(self.outputs) or not all(self.outputs):
            raise UserError(f"Head: outputs is {self.outputs}; it must hold one name or more, each once")


@dataclass(frozen=True)
class Adapter:
    """LoRA on frozen weights: W + (alpha / rank) B A. As the model of the policy it adapts the run's model."""

    of: str | None = None  # another player, whose weights are shared and not copied; None: the run's model
    rank: int = 8
    alpha: float = 16.0
    bits: Literal[8, 4] | None = None  # bits per frozen weight (needs the extra `quantised`); None: as loaded

    def __post_init__(self) -> None:
        check_ranges(self, rank="[1, inf)", alpha="(0, inf)")
        if self.bits not in (None, 8, 4):
            raise UserError(f"Adapter: bits is {self.bits}; it must be 8, 4 or none")
        if self.bits is not None and self.of is not None:
            raise UserError(f"Adapter: bits is {self.bits}, but the weights belong to the player {self.of}; leave `of` or `bits` out")


@dataclass(frozen=True)
class Steering:
    """One trained vector per layer, added to the layer's output; all other weights are frozen. As the model of the policy it steers the run's model."""

    of: str | None = None  # another player, whose weights are shared and not copied; None: the run's model
    layers: tuple[int, ...] = ()  # counted from 0; empty: all
    gate: bool = False  # scale the vector by a trained number per token, sigmoid(w . h + b)


@dataclass(frozen=True)
class Gated:
    """A model that mixes latent vectors into its inputs while it thinks, by a learned gate. `of` an Adapter: its frozen weights are adapted, too.

    Parameters of the gate are under `gate`: token_weight, latent_weight, lam, and biases.
    """

    of: str | Adapter | None = None  # another player, or None: the run's model
    c: float = 8.0
    least: float = 0.99  # at the start the share of the token's embedding is uniform in [least, most] for a fully open gate
    most: float = 0.999
    mark: str = "####"  # the text that ends thinking; later inputs are plain

    def __post_init__(self) -> None:
        check_ranges(self, c="(0, inf)", least="(0, 1)", most="(0, 1)")
        if self.least > self.most:
            raise UserError(f"Gated: least is {self.least} and most is {self.most}; set most to {self.least} or more")
        if not self.mark:
            raise UserError("Gated: mark is empty, so thinking would end at once; write the text that comes before the answer, as in ####")


@dataclass(frozen=True)
class Lagged:
    """Another player's weights of `updates` updates ago; its first weights until then.

    Weights are read after whole steps. If a step has several updates, these are the newest weights of at least that age.
    """

    of: str = "policy"
    updates: int = 1

    def __post_init__(self) -> None:
        check_ranges(self, updates="[0, inf)")


@dataclass(frozen=True)
class MovingAverage:
    """An exponential moving average of another player's weights: every `every` updates w <- decay w + (1 - decay) w_of.

    Weights are read after whole steps. If a step has several updates, w_of is for all of them the weights at its end.
    """

    of: str = "policy"
    decay: float = 0.99
    every: int = 1
    rise: float | None = None  # after n updates the decay is min(decay, rise * n); None: `decay` from the start

    def __post_init__(self) -> None:
        check_ranges(self, decay="[0, 1]", every="[1, inf)", rise="(0, inf)")

    def decay_at(self, updates: int) -> float:
        """The decay after that many updates of the other player, counted from 1."""
        return self.decay if self.rise is None else min(self.decay, self.rise * updates)


@dataclass(frozen=True)
class Fresh:
    """A small network with weights drawn by the run's key. The task's environment gives its sizes: its observations and its actions.

    Weights and biases of a layer with n inputs are uniform within 1 / sqrt(n). A pointer is shown `query` [d] and `candidates` [n, d], and chooses
    candidate i with probability softmax(h(candidate_i) . h(query)) over all n, where h is one linear layer. An array `barred` [n] is optional: a
    candidate with a number above 0 there is not drawn, but its probability is not given to the others, so log-probabilities are under the full softmax.
    """

    kind: Literal["mlp", "cnn", "gru", "pointer"] = "mlp"  # cnn: convolutions of one array [height, width, channels]; gru: remembers; pointer: see below
    hidden: tuple[int, ...] = (64, 64)  # widths of the hidden layers
    outputs: Literal["actions", "q", "value", "number"] = "actions"  # number: one number that no observation changes
    heads: int = 1  # networks of an ensemble of "q", evaluated together
    layer_norm: bool = False  # after every hidden layer, before the ReLU
    number: float = 0.0  # the first value of the outputs "number"

    def __post_init__(self) -> None:
        check_ranges(self, hidden="[1, inf)", heads="[1, inf)")
        for name, known in (("kind", ("mlp", "cnn", "gru", "pointer")), ("outputs", ("actions", "q", "value", "number"))):
            if getattr(self, name) not in known:
                raise UserError(f"Fresh: {name} is {getattr(self, name)!r}; it must be one of {', '.join(known)}")
        if not isinstance(self.hidden, tuple) or not self.hidden:
            raise UserError(f"Fresh: hidden is {self.hidden!r}; it must be one width or more, as in 64,64")
        if self.heads > 1 and self.outputs != "q":
            raise UserError(f"Fresh: heads is {self.heads}, but only outputs q is an ensemble; set heads 1 or outputs q")
        if self.kind == "pointer" and (self.outputs != "actions" or len(self.hidden) != 1 or self.layer_norm):
            given = f"outputs {self.outputs}, hidden {self.hidden}, layer_norm {self.layer_norm}"
            raise UserError(f"Fresh: a pointer is one linear layer that chooses, but it has {given}; set outputs actions, one width and no layer_norm")
        if self.outputs == "q" and self.kind == "gru":
            raise UserError("Fresh: a gru gives no q, because rows of a replay have no past; take an mlp or a cnn")


Model = str | Copy | Head | Adapter | Gated | Steering | Lagged | MovingAverage | Fresh


@dataclass(frozen=True)
class VLLM:
    """Sampling with vLLM in this process (needs the extra `vllm` and a GPU). Updates and scores use the model itself."""

    memory: float = 0.4  # share of the GPU's memory for vLLM; the rest is left to the update
    gpus: int = 1  # GPUs that share every layer (tensor parallel)
    tolerance: float = 0.25  # nats per token: largest mean difference over a sample between the log-probabilities of vLLM and of the model

    def __post_init__(self) -> None:
        check_ranges(self, memory="(0, 1]", gpus="[1, inf)", tolerance="(0, inf)")


@dataclass(frozen=True)
class VLLMServer:
    """Sampling with a vLLM server. For a learning player, start it with VLLM_SERVER_DEV_MODE=1: only then it accepts new weights.

    The API key is read from the environment variable VLLM_API_KEY.
    """

    url: str = "http://127.0.0.1:8000"
    name: str | None = None  # model name, if the server offers several
    folder: str | None = None  # folder for updated weights; the server must see it under the same path. None: a temporary folder
    requests: int = 128  # most requests at a time
    timeout: float = 600.0  # seconds for one request, or one reload
    retries: int = 3  # of a request without connection or with a broken answer
    tolerance: float = 0.25  # nats per token: largest mean difference over a sample between the log-probabilities of vLLM and of the model

    def __post_init__(self) -> None:
        check_ranges(self, requests="[1, inf)", timeout="(0, inf)", retries="[0, inf)", tolerance="(0, inf)")


@dataclass(frozen=True)
class Player:
    """A model with its role in the recipe. Without objective it is frozen. None for credit or optimizer: the recipe's."""

    model: Model | None = None  # None: the run's model; a string: a folder
    objective: Any = None
    credit: Any = None
    optimizer: Any = None
    learns_from: str = "own"  # "own": trajectories of this player; "policy" or another name: those of that player
    every: int = 1  # updated at every n-th step
    engine: VLLM | VLLMServer | None = None  # engine that samples for it; None: the model itself
    trains: tuple[str, ...] = ("",)  # prefixes of the names of the parameters that learn; "" is all of them
    rates: Frozen[float] = Frozen()  # prefix of parameter names (parts joined by "/") -> factor on the learning rate
    selection: Any = None  # what it learns from; None: what the recipe's selection kept
    first: bool = False  # learns before the signals of the other players are read
    sees: View | None = None  # how it sees the contexts that it learns from; None: as sampled

    def __post_init__(self) -> None:
        check_ranges(self, every="[1, inf)")
        if not self.trains:
            raise UserError('Player: trains is empty, so nothing of it learns; write prefixes of names, ("",) for all, or leave its objective out')
        for prefix, factor in self.rates.items():
            if "." in prefix:
                raise UserError(f'Player: rates has the prefix "{prefix}"; write "{prefix.replace(".", "/")}", because a dot begins a path in a recipe')
            if not 0 <= factor < float("inf"):
                raise UserError(f"Player: the rate of {prefix!r} is {factor}; it is a factor on the learning rate, 0 or more")
