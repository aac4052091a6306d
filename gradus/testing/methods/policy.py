"""A language model that a person can work out by hand: a table of 8 x 8 logits in float64, with a value a token."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from gradus.types import Context, Ended, Key, following, prompt_context, told_context, uniforms
from gradus.types.media import words
from gradus.types.signals import EntropyOf, LogProb, Value, Want
from gradus.types.spaces import Choice, Space, Text

VOCABULARY = 8  # tokens 0 to 7; token t reads as the letter "abcdefgh"[t]
END = 0
"""The token that ends an answer. It has no text."""


class Bigram(nn.Module):
    """`logits` [8, 8]: the row of a token holds the logits of the next one. `values` [8]: the value head's estimate after a token."""

    def __init__(self, key: Key, dtype: torch.dtype) -> None:
        super().__init__()
        self.logits = nn.Parameter(torch.from_numpy(key.normal(VOCABULARY, VOCABULARY)).to(dtype))
        self.values = nn.Parameter(torch.from_numpy(key.fold("value").normal(VOCABULARY)).to(dtype))


class BigramPolicy:
    """The interface of a policy over `Bigram`: it samples (`act`), gives rows with gradient (`evaluate`), and reads and writes text.

    `micro`: contexts a micro-batch, None for all at once; a result that depends on it is a mistake in an objective.

    >>> from gradus.types import prompt_context
    >>> policy = BigramPolicy()
    >>> policy.opening("b").tokens.tolist(), policy.told("bc").tokens.tolist(), policy.text([1, 2, 0])
    ([1], [1, 2, 0], 'bc')
    """

    can = frozenset({"logprobs", "value", "entropy", "fork"})
    reads = frozenset({"text"})
    context_length = 256

    def __init__(self, key: Key = Key(0), dtype: torch.dtype = torch.float64, micro: int | None = None) -> None:
        self.network = Bigram(key, dtype)
        self.micro = micro

    def clone(self) -> BigramPolicy:
        return copy.deepcopy(self)

    def acts(self, space: Space) -> bool:
        """Whether it can act in the space: it writes text, and the names of choices."""
        return isinstance(space, (Text, Choice))

    def opening(self, prompt: Any) -> Context:
        """A text, or the last message of a chat; one token a character, never the end token."""
        text = prompt if isinstance(prompt, str) else words(prompt[-1])
        return prompt_context([1 + (ord(c) % (VOCABULARY - 1)) for c in text])

    def follow(self, observation: Any, after: Context) -> Context:
        """The piece of an environment's answer."""
        return following(self.opening(observation).tokens, after)

    def told(self, action: Any) -> Context:
        """The piece of a given answer, with the end token."""
        return told_context([*((ord(c) - ord("a")) % VOCABULARY for c in action), END])

    def said(self, context: Context, since: int) -> str:
        """The text of the sequence from token `since` on."""
        return self.text(context.sequence[since:])

    def text(self, tokens: Sequence[int] | np.ndarray) -> str:
        return "".join(chr(ord("a") + int(t)) for t in tokens if t != END)

    def act(self, asks: Sequence[Any]) -> list[Context]:
        """A sampled context for every ask (`gradus.training.world.Ask`). The draws depend on the ask's key alone."""
        return [self._one(ask) for ask in asks]

    def _one(self, ask: Any) -> Context:
        logp = torch.log_softmax(self.network.logits.detach().double() / (ask.sampling.temperature or 1.0), -1).numpy()
        start = ask.parent.sequence[: ask.at]
        out: list[int] = []
        for position in range(len(start), len(start) + ask.sampling.limit):
            row = logp[out[-1] if out else int(start[-1])]
            u = float(uniforms(np.uint64(ask.key.value), np.array(position)))
            drawn = min(int(np.searchsorted(np.exp(row).cumsum(), u, "right")), VOCABULARY - 1)
            out.append(int(row.argmax()) if ask.sampling.temperature == 0 else drawn)
            if out[-1] == END:
                break
        before = [int(start[-1]), *out[:-1]]
        return Context(
            tokens=np.array(out, np.int32),
            chosen=np.ones(len(out), bool),
            logprobs=logp[before, out].astype(np.float32),
            versions=np.full(len(out), ask.version, np.int32),
            temperature=ask.sampling.temperature or 1.0,
            parent=(ask.parent, ask.at),
            ended=Ended.STOP if out[-1] == END else Ended.LENGTH,
        )

    def evaluate(self, contexts: Sequence[Context], wants: Sequence[Want], *, key: Key = Key(0)) -> dict[Want, Tensor]:
        """Rows [A] with gradient, one for every action of the contexts in order: log-probability, entropy, value."""
        before = torch.from_numpy(np.concatenate([c.sequence[c.action_positions - 1] for c in contexts]).astype(np.int64))
        token = torch.from_numpy(np.concatenate([c.sequence[c.action_positions] for c in contexts]).astype(np.int64))
        heat = torch.from_numpy(np.repeat([c.temperature for c in contexts], [c.actions for c in contexts]))[:, None]
        logp = torch.log_softmax(self.network.logits.index_select(0, before) / heat.to(self.network.logits), -1)
        rows = {
            LogProb(): lambda: logp.gather(1, token[:, None])[:, 0],
            EntropyOf(): lambda: -(logp.exp() * logp).sum(-1),
            Value(): lambda: self.network.values.index_select(0, before),
        }
        return {w: rows[w]() for w in wants}

    def micro_batches(self, contexts: Sequence[Context], max_tokens: int) -> list[list[int]]:
        """Indices of the contexts of every micro-batch, in order; `micro` counts, `max_tokens` does not."""
        size = self.micro or max(len(contexts), 1)
        order = list(range(len(contexts)))
        return [order[i : i + size] for i in range(0, len(order), size)]
