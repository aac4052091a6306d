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
    """Heads on a model. If `of` is a player, the heads share the trunk of its model, and the trunk gets no gradient from the heads. If `of` is a Copy, the
    heads have their own trunk.

    `over` "action": one number per action, computed from the state before the action. "vocabulary": one number per token of the vocabulary;
    `Value(name)` then reads the number of the taken action.
    """

    of: str | Copy = "policy"
    outputs: tuple[str, ...] = ("value",)  # names of the heads
    over: Literal["action", "vocabulary"] = "action"
    hidden: int = 0  # width of a hidden layer of each head; 0: linear
    bias: bool = True  # False: the heads have no bias, so that `gradus export --as classifier` keeps the scores

    def __post_init__(self) -> None:
        check_ranges(self, hidden="[0, inf)")
        if not self.outputs or len(set(self.outputs)) != len(self.outputs) or not all(self.outputs):
            raise UserError(f"Head.outputs is {self.outputs}; give at least one name, and each name only once")


@dataclass(frozen=True)
class Adapter:
    """LoRA on frozen weights: W + (alpha / rank) B A. If the policy's model is an Adapter, it adapts the run's model."""

    of: str | None = None  # another player; its weights are used without a copy. None: the run's model
    rank: int = 8
    alpha: float = 16.0
    bits: Literal[8, 4, "nvfp4"] | None = None  # bits of the frozen weights: 8 or 4 (need the extra `quantised`), or 4-bit floats in NVFP4; None: as loaded
    root: bool = False  # True: the factor is alpha / sqrt(rank) (rank-stabilised LoRA)
    magnitude: bool = False  # True: the norm of each row of the weight is trained separately from the direction of the row (DoRA)

    def __post_init__(self) -> None:
        check_ranges(self, rank="[1, inf)", alpha="(0, inf)")
        if self.bits not in (None, 8, 4, "nvfp4"):
            raise UserError(f'Adapter.bits is {self.bits!r}; it must be 8, 4, "nvfp4" or None')
        if self.bits is not None and self.of is not None:
            raise UserError(f"Adapter.bits is {self.bits}, but the weights belong to the player {self.of}; leave out `of` or `bits`")


@dataclass(frozen=True)
class Steering:
    """One trained vector per layer, added to the layer's output; all other weights are frozen.

    If the policy's model is a Steering, it steers the run's model.
    """

    of: str | None = None  # another player; its weights are used without a copy. None: the run's model
    layers: tuple[int, ...] = ()  # numbers of layers, counted from 0; empty: all layers
    gate: bool = False  # True: a trained number per token, sigmoid(w . h + b), multiplies the vector


@dataclass(frozen=True)
class Gated:
    """A model whose inputs before the answer mark are mixed with latent vectors. A learned gate sets the share of the latent vectors.

    The module `gate` has the gate's parameters: token_weight, latent_weight, lam and biases. If `of` is an Adapter, the model also
    has LoRA matrices on its frozen weights.
    """

    of: str | Adapter | None = Adapter(rank=32, alpha=64.0)  # another player, or None: the run's model
    c: float = 8.0
    least: float = 0.99  # at the start of training, for a fully open gate, the share of the token's embedding in the input is uniform in [least, most]
    most: float = 0.999
    mark: str = "####"  # the text that ends the thinking; after it, no latent vectors are mixed in

    def __post_init__(self) -> None:
        check_ranges(self, c="(0, inf)", least="(0, 1)", most="(0, 1)")
        if self.least > self.most:
            raise UserError(f"Gated.least is {self.least} and Gated.most is {self.most}; set `most` to {self.least} or more")
        if not self.mark:
            raise UserError("Gated.mark is empty, so the thinking ends immediately; set `mark` to the text that precedes the answer, for example ####")


@dataclass(frozen=True)
class Lagged:
    """The weights that another player had `updates` updates ago. Before the other player's update number `updates`, these are its first weights.

    Weights are read only at the end of a step. If a step has several updates, the player uses the newest stored weights that are at least `updates` updates
    old.
    """

    of: str = "policy"
    updates: int = 8

    def __post_init__(self) -> None:
        check_ranges(self, updates="[0, inf)")


@dataclass(frozen=True)
class MovingAverage:
    """An exponential moving average of another player's weights: after every `every` updates, w <- decay w + (1 - decay) w_of.

    Weights are read only at the end of a step. If a step has several updates, w_of is the same in all of them: the weights at the end of the step.
    """

    of: str = "policy"
    decay: float = 0.99
    every: int = 1
    rise: float | None = None  # after n updates the decay is min(decay, rise * n); None: `decay` from the start

    def __post_init__(self) -> None:
        check_ranges(self, decay="[0, 1]", every="[1, inf)", rise="(0, inf)")

    def decay_at(self, updates: int) -> float:
        """The decay at update number `updates` of the other player, counted from 1."""
        return self.decay if self.rise is None else min(self.decay, self.rise * updates)


@dataclass(frozen=True)
class Noisy:
    """Another player's weights, with Gaussian noise on the weights of its RMSNorms. After every step the noise is drawn again, and is added to the clean weights.

    The run is divided into `stages` equal stages. The first stage has no noise. In the later stages the standard deviation of the noise falls exponentially
    from `sigma_start` to `sigma_end`. Huang et al., QeRL, arXiv:2510.11696, section 3.3.
    """

    of: str = "policy"
    sigma_start: float = 0.01  # standard deviation in the second stage; 0: no stage has noise
    sigma_end: float = 0.0001  # standard deviation in the last stage, if there are more than two
    stages: int = 10

    def __post_init__(self) -> None:
        check_ranges(self, sigma_start="[0, inf)", sigma_end="[0, inf)", stages="[2, inf)")

    def sigma_at(self, step: int, steps: int) -> float:
        """The standard deviation at step `step`, counted from 0, of a run with `steps` steps.

        >>> [Noisy().sigma_at(step, 20) for step in (0, 1, 2, 3, 10, 19, 20)]
        [0.0, 0.0, 0.01, 0.01, 0.001, 0.0001, 0.0001]
        """
        later = min(step * self.stages // max(steps, 1), self.stages - 1) - 1  # stages since the second one
        if later < 0 or self.sigma_start == 0:
            return 0.0
        return self.sigma_start * (self.sigma_end / self.sigma_start) ** (later / max(self.stages - 2, 1))


@dataclass(frozen=True)
class Fresh:
    """A small network. The seed of the run determines the first weights of the network. The environment's observations and actions determine the
    sizes of the network's inputs and outputs.

    Weights and biases of a layer with n inputs are uniform between -1 / sqrt(n) and 1 / sqrt(n). A pointer reads `query` [d] and `candidates` [n, d].
    The pointer chooses candidate i with probability softmax(h(candidate_i) . h(query)) over all n candidates; h is one linear layer. An array
    `barred` [n] is optional: a candidate whose number is above 0 is never drawn. The probability of a barred candidate is not given to the other
    candidates, so log-probabilities come from the full softmax.
    """

    kind: Literal["mlp", "cnn", "gru", "pointer"] = "mlp"  # cnn: convolutions of one array [height, width, channels]; gru: has memory; pointer: see the docstring
    hidden: tuple[int, ...] = (64, 64)  # widths of the hidden layers
    outputs: Literal["actions", "q", "value", "number"] = "actions"  # "number": a single number that does not depend on the observation
    heads: int = 1  # number of networks in the ensemble of the outputs "q"
    layer_norm: bool = False  # layer norm after every hidden layer, before the ReLU
    number: float = 0.0  # the first value of the outputs "number"
    bins: int = 0  # for actions in a `Box`: each number of an action is one token, which names one of `bins` equal intervals; 0: the numbers are Gaussian
    each_step: bool = False  # True: a value network gives one value per action of a chunk, in place of one value per chunk

    def __post_init__(self) -> None:
        check_ranges(self, hidden="[1, inf)", heads="[1, inf)", bins="[0, inf)")
        self._check_chunks()
        for name, known in (("kind", ("mlp", "cnn", "gru", "pointer")), ("outputs", ("actions", "q", "value", "number"))):
            if getattr(self, name) not in known:
                raise UserError(f"Fresh.{name} is {getattr(self, name)!r}; it must be one of {', '.join(known)}")
        if not isinstance(self.hidden, tuple) or not self.hidden:
            raise UserError(f"Fresh.hidden is {self.hidden!r}; it must be one or more widths, such as 64,64")
        if self.heads > 1 and self.outputs != "q":
            raise UserError(f'Fresh.heads is {self.heads}, but only a model with `outputs="q"` can have several heads; set `heads` to 1, or `outputs` to "q"')
        if self.kind == "pointer" and (self.outputs != "actions" or len(self.hidden) != 1 or self.layer_norm):
            given = f'`outputs="{self.outputs}"`, `hidden={self.hidden}` and `layer_norm={self.layer_norm}`'
            raise UserError(
                f'Fresh: a pointer is one linear layer for choices, but this pointer has {given}; set `outputs` to "actions", give `hidden` '
                "one width, and leave out `layer_norm`"
            )
        if self.outputs == "q" and self.kind == "gru":
            raise UserError(
                'Fresh: `kind="gru"` does not work with `outputs="q"`, because a replay stores no earlier observations for a row; set `kind` to "mlp" or "cnn"'
            )

    def _check_chunks(self) -> None:
        """Raises UserError if `bins` or `each_step` has no effect with the outputs."""
        if self.bins == 1:
            raise UserError("Fresh.bins is 1, so all actions are equal; give 2 or more bins, or 0 for a Gaussian")
        if self.bins and (self.outputs != "actions" or self.kind == "pointer"):
            raise UserError(
                f'Fresh.bins is {self.bins}, but bins need `outputs="actions"` and a `kind` other than "pointer"; set `bins` to 0, or change `outputs` or `kind`'
            )
        if self.each_step and self.outputs != "value":
            raise UserError(
                f'Fresh.each_step needs `outputs="value"`, but Fresh.outputs is "{self.outputs}"; leave `each_step` out, or set `outputs` to "value"'
            )


Model = str | Copy | Head | Adapter | Gated | Steering | Lagged | MovingAverage | Noisy | Fresh

FOLLOWING = (Lagged, MovingAverage, Noisy)
"""The relations whose weights change with the weights of another player."""


@dataclass(frozen=True)
class VLLM:
    """Samples with vLLM in this process (needs the extra `vllm` and a GPU). Updates and scores use the model itself."""

    memory: float = 0.4  # share of the GPU's memory that vLLM gets; the update uses the rest
    gpus: int = 1  # GPUs that share every layer (tensor parallel)
    tolerance: float = 0.25  # largest mean difference between the log-probabilities of vLLM and of the model, in nats per token

    def __post_init__(self) -> None:
        check_ranges(self, memory="(0, 1]", gpus="[1, inf)", tolerance="(0, inf)")


@dataclass(frozen=True)
class VLLMServer:
    """Samples with a vLLM server. If the player learns, start the server with VLLM_SERVER_DEV_MODE=1; else the server does not accept new weights.

    The environment variable VLLM_API_KEY gives the API key.
    """

    url: str = "http://127.0.0.1:8000"
    name: str | None = None  # model name, if the server has several models
    folder: str | None = None  # folder for updated weights; the server must be able to read it under the same path. None: a temporary folder
    requests: int = 128  # largest number of parallel requests
    timeout: float = 600.0  # seconds for one request, or one reload
    retries: int = 3  # number of further attempts after a request without a connection or with a broken answer
    tolerance: float = 0.25  # largest mean difference between the log-probabilities of vLLM and of the model, in nats per token

    def __post_init__(self) -> None:
        check_ranges(self, requests="[1, inf)", timeout="(0, inf)", retries="[0, inf)", tolerance="(0, inf)")


@dataclass(frozen=True)
class Player:
    """A model and its role in the recipe. A player without an objective is frozen. If `credit` or `optimizer` is None, the player uses the credit
    rule or optimizer of the recipe."""

    model: Model | None = None  # None: the run's model; a string: a folder
    objective: Any = None
    credit: Any = None
    optimizer: Any = None
    learns_from: str = "own"  # "own": trajectories of this player; "policy" or another name: trajectories of the named player
    every: int = 1  # the player is updated at every n-th step
    engine: VLLM | VLLMServer | None = None  # the engine that samples for the player; None: the model itself
    trains: tuple[str, ...] = ("",)  # the parameters that learn, by prefixes of their names; "": all parameters
    rates: Frozen[float] = Frozen()  # prefix of parameter names (parts joined by "/") -> factor on the learning rate
    selection: Any = None  # selects the player's groups; None: the groups that the recipe's selection kept
    first: bool = False  # True: the player learns before the signals of the other players are computed
    sees: View | None = None  # a view of the contexts that the player learns from; None: as sampled

    def __post_init__(self) -> None:
        check_ranges(self, every="[1, inf)")
        if not self.trains:
            raise UserError(
                'Player.trains is empty, so no parameter learns; set `trains` to prefixes of parameter names ("" stands for all parameters), or remove the objective'
            )
        for prefix, factor in self.rates.items():
            if "." in prefix:
                slashed = prefix.replace(".", "/")
                raise UserError(
                    f"""Player.rates has the prefix "{prefix}"; write "{slashed}", because in a recipe's paths a dot separates the names of fields"""
                )
            if not 0 <= factor < float("inf"):
                raise UserError(f"Player: the rate of {prefix!r} is {factor}; it must be finite and at least 0, because it multiplies the learning rate")
