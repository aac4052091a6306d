"""Fills in the answers of a masked model step by step. By default a step fills in the most certain hidden token; `Unmask` sets another order or more tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from gradus.policies.blocks import even
from gradus.policies.decoder import Decoder, soften
from gradus.policies.token_sampling import Settings, choose
from gradus.types import Key, Sampling
from gradus.types.masks import Unmask

BLOCK = 8  # number of answers of one length in a pass; the number is fixed, so an answer's bits do not depend on the other answers


@dataclass(frozen=True, eq=False)
class Canvas:
    """An answer to be filled in: `count` hidden tokens after a prompt."""

    prompt: np.ndarray  # int32 [P]
    count: int
    sampling: Sampling
    key: Key
    how: Unmask


@dataclass(frozen=True, eq=False)
class Drawn:
    """The draws of one step for every token of an answer.

    The fields, each [count], are the drawn token, its log-probability, the largest log-probability, and the entropy.
    """

    tokens: np.ndarray
    logprobs: np.ndarray
    surest: np.ndarray
    entropy: np.ndarray


Filled = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Tokens, their log-probabilities when drawn, and their steps, each [count]."""


def unmasked(network: Decoder, mask: int, canvases: Sequence[Canvas]) -> list[Filled]:
    """Returns the answers in order. Answers of equal form are filled in together, in blocks of `BLOCK`."""
    alike: dict[tuple[object, ...], list[int]] = {}
    for i, c in enumerate(canvases):
        alike.setdefault((len(c.prompt), c.count, c.sampling, c.how), []).append(i)
    out: dict[int, Filled] = {}
    for mine in alike.values():
        for start in range(0, len(mine), BLOCK):
            block = mine[start : start + BLOCK]
            out.update(zip(block, _block(network, mask, [canvases[i] for i in block]), strict=True))
    return [out[i] for i in range(len(canvases))]


def _block(network: Decoder, mask: int, canvases: Sequence[Canvas]) -> list[Filled]:
    """Fills in at most `BLOCK` answers of one form."""
    first, size = canvases[0], len(canvases)
    count, settings = first.count, Settings.of([first.sampling], network.device)
    prompts = [canvases[min(i, size - 1)].prompt for i in range(BLOCK)]
    tokens = np.stack([np.append(p, np.full(count, mask)) for p in prompts]).astype(np.int64)
    logprobs, order = np.zeros((size, count)), np.full((size, count), -1)
    step = 0
    while (order < 0).any():
        states = network.hidden(torch.from_numpy(tokens).to(network.device))[:, -count:]
        logits = scores(network, states, mask)
        for i, canvas in enumerate(canvases):
            drawn = _draws(logits[i], settings, canvas, step)
            at = picked(canvas, drawn, order[i], step)
            tokens[i, at - count + tokens.shape[1]] = drawn.tokens[at]
            logprobs[i, at], order[i, at] = drawn.logprobs[at], step
        step += 1
    return [(tokens[i, -count:], logprobs[i], order[i]) for i in range(size)]


def _draws(logits: Tensor, settings: Settings, canvas: Canvas, step: int) -> Drawn:
    uniforms = torch.from_numpy(canvas.key.fold("token", step).uniform(canvas.count)).to(logits.device)
    tokens, logprobs = choose(logits, settings, uniforms)
    wide = logits.double().log_softmax(-1)
    entropy = -torch.where(wide.isfinite(), wide.exp() * wide, 0.0).sum(-1)
    return Drawn(*(t.cpu().numpy() for t in (tokens, logprobs, wide.max(-1).values, entropy)))


def picked(canvas: Canvas, drawn: Drawn, order: np.ndarray, step: int) -> np.ndarray:
    """Returns the positions that a step fills in: the first `per_step` hidden positions in the order of `how`. If two positions have the same rank in this
    order, the earlier position comes first.
    """
    hidden = np.flatnonzero(order < 0)
    rank = {
        "entropy": lambda: drawn.entropy,
        "confidence": lambda: -drawn.surest,
        "random": lambda: canvas.key.fold("place", step).uniform(canvas.count),
        "left": lambda: np.arange(canvas.count),
    }[canvas.how.order]()
    return hidden[np.argsort(rank[hidden], kind="stable")[: canvas.how.per_step]]


def scores(network: Decoder, states: Tensor, mask: int) -> Tensor:
    """Maps states [..., hidden] to logits [..., vocab], in float32 at least; -inf for the mask token."""
    head = network.head_weight
    logits = soften((states @ even(head.T))[..., : len(head)], network.config.logit_cap)
    wide = logits if logits.dtype in (torch.float32, torch.float64) else logits.float()
    hides = torch.zeros(len(head), dtype=torch.bool, device=wide.device)
    hides[mask] = True
    return wide.masked_fill(hides, -torch.inf)
