"""The protocol of policies: the methods that every kind of model must have, because the world, the rollouts and the updates call them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from gradus.types.contexts import Context
from gradus.types.keys import Key
from gradus.types.records import Request, Sampling
from gradus.types.signals import Want
from gradus.types.spaces import Action, Observation, Space

if TYPE_CHECKING:
    from torch import Tensor


class Asked(Protocol):
    """A request to draw one sample.

    The sample continues the first `at` tokens of `parent`. `key` gives the random draws. `version` is the number of weight updates so far.
    """

    @property
    def parent(self) -> Context: ...
    @property
    def at(self) -> int: ...
    @property
    def sampling(self) -> Sampling: ...
    @property
    def key(self) -> Key: ...
    @property
    def version(self) -> int: ...
    @property
    def request(self) -> Request: ...


@runtime_checkable
class Policy(Protocol):
    """A model that acts and is trained. A *piece* is a context without parent that `Context.then` appends to another context."""

    @property
    def network(self) -> Any:
        """The module that is trained and stored."""
        ...

    @property
    def can(self) -> frozenset[str]:
        """The abilities of the policy: fork, text, pack, lora, pause, and the outputs that a `Want` can read (logprobs, entropy, hidden, logits, attention,
        head:NAME, velocity, ...).
        """
        ...

    @property
    def reads(self) -> frozenset[str]:
        """The kinds of input that the policy can read: a subset of text, image, audio and array."""
        ...

    @property
    def context_length(self) -> int:
        """The length of the longest possible sequence, in tokens."""
        ...

    def acts(self, space: Space) -> bool:
        """Whether the policy can act in this space."""
        ...

    def opening(self, prompt: Observation) -> Context:
        """The context before the first action. `prompt` is raw text, messages (the assistant's turn is then opened), or a first observation."""
        ...

    def follow(self, observation: Observation, after: Context) -> Context:
        """The piece that ends the last turn of `after`, shows the observation, and opens the next turn. No token of the piece is marked as chosen."""
        ...

    def told(self, action: Action) -> Context:
        """The piece that contains a given action. The tokens of the piece are marked as chosen; they have no log-probabilities."""
        ...

    def said(self, context: Context, since: int) -> Action:
        """Reads the action from the tokens at index `since` and later. Returns the action in the form that an environment takes."""
        ...

    def text(self, tokens: Sequence[int] | np.ndarray) -> str:
        """The text of the tokens, for users to read; empty if the policy writes no text."""
        ...

    def act(self, asked: Sequence[Any]) -> list[Context]:
        """Samples one context per request, in order. The parent of a sample is the context that it continues.

        A policy with the ability `pause` also takes the argument `pause`, a function. The policy calls this function between two tokens. If the function
        returns True, the policy returns all samples with their tokens so far. An unfinished sample has `Ended.LENGTH` and fewer tokens than its limit.
        """
        ...

    def evaluate(self, contexts: Sequence[Context], wants: Sequence[Want], key: Key | None = None) -> dict[Any, Tensor]:
        """For each `Want`, the rows of every action, in the order of the contexts. The rows have gradients if gradients are enabled."""
        ...

    def micro_batches(self, contexts: Sequence[Context], max_tokens: int) -> list[list[int]]:
        """Divides the contexts into micro-batches (lists of indices) of at most `max_tokens` tokens. A longer context is alone in its micro-batch."""
        ...

    def clone(self) -> Any:
        """A copy with its own weights."""
        ...

    def save(self, folder: Any) -> None:
        """Writes a folder that `load` of this kind of policy reads."""
        ...


