"""Samples a token from logits: temperature, top-k, top-p, min-p, and one uniform number per row. Rows are independent.

All row operations are kernels over the last dimension, so a row's position and the other rows have no effect on the row's bits. The operations use float64.
Some
devices have no float64, such as Apple's GPUs. For such a device the operations run on the CPU with a copy of the logits, and the result is the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from gradus.types import Sampling

_WITHOUT_FLOAT64 = ("mps",)  # kinds of devices without float64
_FIRST = 256  # at first, only this number of most likely tokens is ranked; if this is not enough for a row, the whole vocabulary is ranked


@dataclass(frozen=True)
class Settings:
    """The sampling settings of every row. Each tensor is [rows]. A greedy row has scale 1."""

    scale: Tensor  # float32, the temperature
    greedy: Tensor  # bool
    top_k: Tensor  # int64; 0: no limit
    top_p: Tensor  # float64
    min_p: Tensor  # float64
    some_greedy: bool
    narrow: bool  # whether at least one row excludes tokens
    alike: bool = False  # whether all rows have equal settings, which are then stored as one row

    @staticmethod
    def of(samplings: Sequence[Sampling], device: torch.device | str = "cpu") -> Settings:
        """Makes one row for each element of `samplings`, or a single row if all are equal.

        The rows are on the device that draws (`drawn_on`).
        """
        device = drawn_on(device)
        said = [(s.temperature, s.top_k, s.top_p, s.min_p) for s in samplings]
        alike = len(set(said)) == 1
        samplings = samplings[:1] if alike else samplings

        def column(values: list[float], dtype: torch.dtype) -> Tensor:
            return torch.tensor(values, dtype=dtype, device=device)

        return Settings(
            scale=column([s.temperature or 1.0 for s in samplings], torch.float32),
            greedy=column([s.temperature == 0 for s in samplings], torch.bool),
            top_k=column([s.top_k for s in samplings], torch.int64),
            top_p=column([s.top_p for s in samplings], torch.float64),
            min_p=column([s.min_p for s in samplings], torch.float64),
            some_greedy=any(s.temperature == 0 for s in samplings),
            narrow=any(s.top_k or s.top_p < 1 or s.min_p for s in samplings),
            alike=alike,
        )

    def rows(self, index: Tensor) -> Settings:
        """Returns the rows at `index` int64 [n], in the order of `index`. If all rows are equal, the settings do not change."""
        if self.alike:
            return self
        index = index.to(self.scale.device)
        columns = {name: getattr(self, name)[index] for name in ("scale", "greedy", "top_k", "top_p", "min_p")}
        return replace(self, **columns)

    def limits(self, rows: int) -> tuple[Tensor, Tensor, Tensor]:
        """Returns top_k, top_p and min_p, each [rows]."""
        k, p, least = (t.expand(rows) if self.alike else t for t in (self.top_k, self.top_p, self.min_p))
        return k, p, least


def drawn_on(device: torch.device | str) -> torch.device:
    """Returns the device itself, or the CPU if the device has no float64."""
    found = torch.device(device)
    return torch.device("cpu") if found.type in _WITHOUT_FLOAT64 else found


def choose(logits: Tensor, settings: Settings, uniforms: Tensor) -> tuple[Tensor, Tensor]:
    """Draws tokens int64 [rows] from logits [rows, vocab] with uniforms float64 [rows] in [0, 1). Also returns their log-probabilities.

    The drawn token is the first token, in the order of the vocabulary, whose cumulative probability in float64 exceeds uniform * total. So the draw uses the
    inverse of the distribution function. The log-probability, float32 [rows], comes from softmax(logits / temperature) before top-k, top-p and min-p.
    A greedy row gives the most likely token and its log-probability at temperature 1. If several tokens are equally likely, the first of them is
    taken.

    Logits and uniforms may be on another device than the settings; the results are on the device of the logits.
    """
    home = logits.device
    logits, uniforms = logits.to(settings.scale.device), uniforms.to(settings.scale.device)
    tempered = logits.float() / settings.scale.unsqueeze(-1)
    p = tempered.double().softmax(-1)
    allowed = p * kept(p, *settings.limits(len(p))) if settings.narrow else p
    cumulative = allowed.cumsum(-1)
    total = cumulative[:, -1:]
    # uniform * total may round up to total, and then no token would be drawn. The next smaller number draws the last token with a probability above 0.
    target = torch.minimum(uniforms.unsqueeze(-1) * total, total.nextafter(torch.zeros_like(total)))
    tokens = torch.searchsorted(cumulative, target, right=True).clamp_(max=logits.shape[-1] - 1)
    if settings.some_greedy:
        tokens = torch.where(settings.greedy.unsqueeze(-1), tempered.argmax(-1, keepdim=True), tokens)
    # The probability is never 0: a greedy token has a probability of at least 1 / vocab, and a drawn token has a probability above 0.
    return tokens.squeeze(-1).to(home), p.gather(-1, tokens).squeeze(-1).log_().float().to(home)


def most_likely(logits: Tensor, settings: Settings, count: int) -> list[tuple[list[int], list[float]]]:
    """Returns, for every row, the `count` most likely tokens and their log-probabilities, in the distribution of `choose`.

    For a greedy row the temperature is 1.
    """
    logits = logits.to(settings.scale.device)
    tempered = logits.float() / settings.scale.unsqueeze(-1)
    found = tempered.double().log_softmax(-1).topk(min(count, logits.shape[-1]), -1)
    return list(zip(found.indices.tolist(), found.values.float().tolist(), strict=True))


def kept(p: Tensor, top_k: Tensor, top_p: Tensor, min_p: Tensor) -> Tensor:
    """Returns which tokens may be drawn, bool [rows, vocab], from probabilities p [rows, vocab].

    There are three steps. Each step keeps some of the tokens that are left. The first step keeps the `top_k` most likely tokens (0: all tokens). The second
    step renormalises, and keeps the smallest number of most likely tokens whose probabilities sum to at least `top_p`. The third step keeps all tokens with p
    >= min_p * max p. A token that is as likely as the last kept token is kept, too. So the result never depends on the order of equally likely tokens.
    """
    vocab = p.shape[-1]
    k = torch.where(top_k == 0, vocab, top_k).clamp(max=vocab)
    least = p.amax(-1) * min_p
    rows = ((k < vocab) | (top_p < 1)).nonzero().squeeze(-1)
    for width in (min(vocab, _FIRST), vocab):
        floor, told = _floor(p[rows], k[rows], top_p[rows], width)
        least[rows] = torch.where(told, torch.maximum(least[rows], floor), least[rows])
        rows = rows[~told]
        if not len(rows):
            break
    return p >= least.unsqueeze(-1)


def _floor(p: Tensor, k: Tensor, top_p: Tensor, width: int) -> tuple[Tensor, Tensor]:
    """Returns the smallest probability that top-k and top-p keep, [rows].

    Also returns whether the `width` most likely tokens were enough to find this probability, bool [rows].
    """
    vocab = p.shape[-1]
    ranked = p.topk(width, -1).values
    ranked = ranked * (torch.arange(width, device=p.device) < k.unsqueeze(-1))
    cumulative = ranked.cumsum(-1)
    whole = torch.where(k < vocab, cumulative[:, -1], 1.0)  # without top-k the probabilities sum to 1 for any width
    outside = (cumulative - ranked >= (top_p * whole).unsqueeze(-1)) & (top_p < 1).unsqueeze(-1)
    count = torch.minimum((~outside).sum(-1), k)
    told = (k <= width) | ((k == vocab) & (count < width))
    return ranked.gather(-1, (count - 1).clamp(0, width - 1).unsqueeze(-1)).squeeze(-1), told
