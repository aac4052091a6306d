"""Scores a given text without sampling: computes the model's log-probability of each token, given the tokens before it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from gradus.policies.decoder import Decoder
from gradus.policies.decoding import Fused, padded
from gradus.policies.jobs import Likely, Stepwise
from gradus.policies.transformers_model import Foreign

_PIECE = 64  # number of rows of logits that are turned into log-probabilities at once


@dataclass(frozen=True, eq=False)
class Scored:
    """The scores of a sequence at temperature 1.

    Every token except the first has a log-probability, float32 [n - 1], and a list of the most likely tokens at its position.
    """

    logprobs: np.ndarray
    likely: list[Likely]


def score(network: Decoder | Fused | Stepwise, tokens: np.ndarray, likely: int = 0) -> Scored:
    """Computes the log-probabilities of int32 tokens [n]. Also finds the most likely tokens at every position; `likely` is their number.

    The result of a sequence is the same, bit for bit, with any other sequences in the batch. A `Fused` network must be prepared for sequences of at least n
    tokens.
    """
    pieces = [np.zeros(0, np.float32)]
    found: list[Likely] = []
    at = 1
    with torch.inference_mode():
        for logits in _logits(network, tokens) if len(tokens) > 1 else ():
            rows = logits.double().log_softmax(-1)
            targets = torch.from_numpy(tokens[at : at + len(rows)].astype(np.int64)).to(rows.device)
            pieces.append(rows.gather(-1, targets.unsqueeze(-1)).squeeze(-1).float().cpu().numpy())
            if likely:
                top = rows.topk(min(likely, rows.shape[-1]), -1)
                found += zip(top.indices.tolist(), top.values.float().tolist(), strict=True)
            at += len(rows)
    return Scored(np.concatenate(pieces), found)


def _logits(network: Decoder | Fused | Stepwise, tokens: np.ndarray) -> Iterable[Tensor]:
    """Yields the logits after every token except the last, in blocks [n, vocab]."""
    if isinstance(network, Decoder):
        return Fused(network, padded(len(tokens))).every_logits(tokens)
    if isinstance(network, Fused):
        return network.every_logits(tokens)
    if isinstance(network, Foreign):
        return network.every_logits(tokens).split(_PIECE)
    return _step_by_step(network, tokens)


def _step_by_step(network: Stepwise, tokens: np.ndarray) -> Iterator[Tensor]:
    logits, state = network.begin(tokens[:1])
    yield logits.unsqueeze(0)
    for token in tokens[1:-1]:
        logits, state = network.advance(state, int(token))
        yield logits.unsqueeze(0)
