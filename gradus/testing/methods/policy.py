"""A language model whose results a person can compute by hand: a table of 8 x 8 logits in float64, with one value per token."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from gradus.policies.divergence import Direction, divergence
from gradus.policies.lockstep import StepwiseRows
from gradus.policies.reading import check_offered, read
from gradus.types import Context, Ended, Key, following, prompt_context, told_context, uniforms
from gradus.types.media import words
from gradus.types.signals import Want
from gradus.types.spaces import Choice, Space, Text

VOCABULARY = 8  # tokens 0 to 7; token t reads as the letter "abcdefgh"[t]
END = 0
"""The token that ends an answer. It has no text."""


class Bigram(nn.Module):
    """The weights of the toy model.

    `logits` [8, 8]: the row of a token contains the logits of the next token. `values` [8]: for each token, the value head's estimate after
    this token. `heads`: further heads by name. A head [8] gives one number after each token, and a head [8, 8] gives one row over the vocabulary after each
    token.
    """

    def __init__(self, key: Key, dtype: torch.dtype) -> None:
        super().__init__()
        self.logits = nn.Parameter(torch.from_numpy(key.normal(VOCABULARY, VOCABULARY)).to(dtype))
        self.values = nn.Parameter(torch.from_numpy(key.fold("value").normal(VOCABULARY)).to(dtype))
        self.heads = nn.ParameterDict()


class Table:
    """A table [8, 8] as a network that decodes one token at a time."""

    def __init__(self, rows: Tensor) -> None:
        self.rows = rows.detach()

    def begin(self, tokens: np.ndarray) -> tuple[Tensor, None]:
        return self.rows[int(tokens[-1])], None

    def advance(self, state: Any, token: int) -> tuple[Tensor, None]:
        return self.rows[token], None


class BigramPolicy:
    """A policy over `Bigram`: it samples (`act`), computes rows with gradient (`evaluate`), and reads and writes text.

    `micro`: contexts per micro-batch; None: one micro-batch for all contexts. If a result depends on `micro`, the objective has a mistake.

    >>> from gradus.types import prompt_context
    >>> policy = BigramPolicy()
    >>> policy.opening("b").tokens.tolist(), policy.told("bc").tokens.tolist(), policy.text([1, 2, 0])
    ([1], [1, 2, 0], 'bc')
    """

    offers = frozenset({"logprobs", "value", "head:value", "entropy", "hidden", "states", "logits", "attention", "fork", "rules", "slots"})
    reads = frozenset({"text"})
    context_length = 256
    vocabulary = VOCABULARY
    end_tokens = (END,)

    def __init__(
        self, key: Key = Key(0), dtype: torch.dtype = torch.float64, micro: int | None = None, reads: frozenset[str] = frozenset({"text"})
    ) -> None:
        """`reads`: the kinds of input that the policy accepts in prompts. The policy ignores the content of a picture."""
        self.network = Bigram(key, dtype)
        self.micro, self.reads = micro, reads
        self.others: dict[str, Any] = {}  # the players of the run, for divergences from them

    @property
    def can(self) -> frozenset[str]:
        """The abilities of the policy."""
        return self.offers | {f"divergence:{way}:{name}" for name in self.others for way in ("reverse", "forward")}

    def clone(self) -> BigramPolicy:
        made = copy.copy(self)
        made.network, made.others = copy.deepcopy(self.network), dict(self.others)
        return made

    def with_heads(self, outputs: Sequence[str], over: str = "action") -> BigramPolicy:
        """Returns a copy with heads that have the names in `outputs`. The head `value`, one number per action, always exists."""
        made = self.clone()
        shape = (VOCABULARY,) if over == "action" else (VOCABULARY, VOCABULARY)
        for name in outputs:
            if name != "value" or over == "vocabulary":
                made.network.heads[name] = nn.Parameter(torch.from_numpy(Key(5).fold(name).normal(*shape)).to(made.network.logits))
        rows = {f"row:{name}" for name in outputs if over == "vocabulary"}
        made.offers = self.offers | {f"head:{name}" for name in outputs} | rows
        return made

    def acts(self, space: Space) -> bool:
        """Whether the policy can act in `space`. The policy can write text and the names of choices."""
        return isinstance(space, (Text, Choice))

    def opening(self, prompt: Any) -> Context:
        """Returns the context of a text, or of the last message of a chat, with one token per character. No token is the end token."""
        text = prompt if isinstance(prompt, str) else words(prompt[-1])
        return prompt_context([1 + (ord(c) % (VOCABULARY - 1)) for c in text])

    def follow(self, observation: Any, after: Context) -> Context:
        """Returns the context that an environment's answer appends to `after`."""
        return following(self.opening(observation).tokens, after)

    def told(self, action: Any) -> Context:
        """Returns the context of a given answer, with the end token."""
        return told_context([*((ord(c) - ord("a")) % VOCABULARY for c in action), END])

    def said(self, context: Context, since: int) -> str:
        """Returns the text of the sequence from token number `since` on."""
        return self.text(context.sequence[since:])

    def text(self, tokens: Sequence[int] | np.ndarray) -> str:
        return "".join(chr(ord("a") + int(t)) for t in tokens if t != END)

    def act(self, asks: Sequence[Any]) -> list[Context]:
        """Samples a context for every request (`gradus.training.world.Ask`). The draws depend only on the key of the request."""
        return [self._one(ask) for ask in asks]

    def lockstep(self, longest: int, head: str | None = None) -> StepwiseRows:
        """Returns the rows for a token rule: the logits, or the rows of a head over the vocabulary."""
        return StepwiseRows(Table(self.network.logits if head is None else self.network.heads[head]))

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

    def evaluate(self, contexts: Sequence[Context], wants: Sequence[Want], key: Key | None = None) -> dict[Want, Tensor]:
        """Returns, for every `Want`, rows [A, ...] with gradient: one row for each action of the contexts, in order."""
        check_offered(wants, self.can, "the toy policy")
        return read(OpenedTable(self.network, contexts, self.others), wants, key or Key())

    def micro_batches(self, contexts: Sequence[Context], max_tokens: int) -> list[list[int]]:
        """Returns the indices of the contexts of every micro-batch, in order: `micro` contexts for each. `max_tokens` has no effect."""
        size = self.micro or max(len(contexts), 1)
        order = list(range(len(contexts)))
        return [order[i : i + size] for i in range(0, len(order), size)]


class OpenedTable:
    """The values of the table for the actions of contexts, in the form that `gradus.policies.reading` reads from any model.

    The hidden state before an action is the row of logits from which the action was drawn. Every token attends only to the token before it.
    """

    layers = 1

    def __init__(self, network: Bigram, contexts: Sequence[Context], others: Mapping[str, Any] | None = None) -> None:
        self.network, self.contexts, self.others = network, contexts, others or {}
        self._before, self._token = (self._tokens(shift) for shift in (-1, 0))

    def _tokens(self, shift: int) -> Tensor:
        return torch.from_numpy(np.concatenate([c.sequence[c.action_positions + shift] for c in self.contexts]).astype(np.int64))

    def _tempered(self) -> Tensor:
        heat = torch.from_numpy(np.repeat([c.temperature for c in self.contexts], [c.actions for c in self.contexts]))[:, None]
        return self.network.logits.index_select(0, self._before) / heat.to(self.network.logits)

    def logprobs(self) -> Tensor:
        return torch.log_softmax(self._tempered(), -1).gather(1, self._token[:, None])[:, 0]

    def entropy(self) -> Tensor:
        logp = torch.log_softmax(self._tempered(), -1)
        return -(logp.exp() * logp).sum(-1)

    def divergence(self, player: str, direction: Direction) -> Tensor:
        with torch.no_grad():
            theirs = OpenedTable(self.others[player].network, self.contexts)._tempered().log_softmax(-1)
        return divergence(self._tempered().log_softmax(-1), theirs.to(self.network.logits), direction)

    def hidden(self, layer: int = -1) -> Tensor:
        return self.network.logits.index_select(0, self._before)

    def states(self, layer: int = -1) -> tuple[Tensor, Tensor]:
        tokens = torch.from_numpy(np.concatenate([c.sequence for c in self.contexts]).astype(np.int64))
        owner = np.repeat(np.arange(len(self.contexts)), [len(c.sequence) for c in self.contexts])
        return self.network.logits.index_select(0, tokens), torch.from_numpy(owner)

    def logits(self) -> Iterator[tuple[slice, Tensor]]:
        yield slice(0, len(self._token)), self._tempered()

    def reduced(self, reduce: Callable[[slice, Tensor], Tensor]) -> Tensor:
        return torch.cat([reduce(part, logits) for part, logits in self.logits()])

    def attention(self, layers: Sequence[int]) -> Iterator[Tensor]:
        for context in self.contexts:
            at = torch.arange(len(context.sequence))
            chain = torch.zeros(len(at), len(at)).index_put((at, (at - 1).clamp(min=0)), torch.ones(()))
            yield chain.expand(len(layers), 1, -1, -1)

    def head(self, name: str) -> Tensor:
        found = self.network.heads[name] if name in self.network.heads else self.network.values  # noqa: SIM401 (a ModuleDict has no get)
        rows = found.index_select(0, self._before)
        return rows if rows.ndim == 1 else rows.gather(1, self._token[:, None])[:, 0]

    def head_row(self, name: str) -> Tensor:
        return self.network.heads[name].index_select(0, self._before)
