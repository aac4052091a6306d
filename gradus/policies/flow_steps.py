"""Draws samples from a velocity field, with the log-probabilities of their steps. The module also draws the pairs of flow matching."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from gradus.policies.flow_network import Velocity
from gradus.types import Key, uniforms
from gradus.types.samplers import Step
from gradus.types.tally import check_same_shape

BLOCK = 64  # number of rows of every forward pass in sampling; it is fixed because a row's bits depend on the shape of the product
_PAIRS = np.uint64(Key().fold("matching").value)


@dataclass(frozen=True, eq=False)
class Drawn:
    """Samples [N, d], and the R random steps of each sample.

    `before` and `after` are the points before and after each step, [N, R, d]. `logprobs` are the log-probabilities of the steps, float64 [N, R], in nats.
    """

    samples: Tensor
    before: Tensor
    after: Tensor
    logprobs: Tensor


def draw(network: Velocity, path: Sequence[Step], keys: Sequence[Key], condition: Tensor, dimension: int) -> Drawn:
    """Draws one sample per key along `path`. The key draws the start noise of the sample and the noise of its random steps. `condition` is [N, c].

    Samples do not depend on each other.
    """
    pieces = [_block(network, path, keys[i : i + BLOCK], condition[i : i + BLOCK], dimension) for i in range(0, len(keys), BLOCK)]
    return Drawn(*(torch.cat([getattr(p, name) for p in pieces]) for name in ("samples", "before", "after", "logprobs")))


def _block(network: Velocity, path: Sequence[Step], keys: Sequence[Key], condition: Tensor, dimension: int) -> Drawn:
    count, random = len(keys), sum(step.spread > 0 for step in path)
    noise = np.zeros((1 + random, BLOCK, dimension))
    for row, key in enumerate(keys):
        noise[0, row] = key.fold("start").normal(dimension)
        noise[1:, row] = key.fold("steps").normal(random, dimension)
    x, *left = torch.from_numpy(noise).to(condition).unbind(0)
    padded = torch.cat([condition, condition.new_zeros(BLOCK - count, condition.shape[1])])
    before, after = x.new_zeros(2, BLOCK, random, dimension).unbind(0)
    logprobs = torch.zeros(BLOCK, random, dtype=torch.float64, device=x.device)
    place = 0
    with torch.no_grad():
        for step in path:
            v = network(x, torch.full_like(x[:, 0], step.time), padded).to(x)
            moved = mean = step.pull * x + step.gain * v
            if step.spread > 0:
                moved = mean + step.spread * left[place]
                before[:, place], after[:, place] = x, moved
                spread = logprobs.new_full((BLOCK,), step.spread)
                logprobs[:, place] = transition_logprob(moved.double(), mean.double(), spread)
                place += 1
            x = moved
    return Drawn(x[:count], before[:count], after[:count], logprobs[:count])


def transition_logprob(after: Tensor, mean: Tensor, spread: Tensor) -> Tensor:
    """Computes log N(after; mean, spread^2 I), nats [N], from after and mean [N, d] and spread [N].

    The result is the sum over the d dimensions: -|after - mean|^2 / (2 spread^2) - d log(spread sqrt(2 pi)). Raises: ValueError if after and mean differ
    in shape.
    """
    check_same_shape(after=after, mean=mean)
    error = ((after - mean) / spread[:, None]).square().sum(-1)
    return -error / 2 - after.shape[-1] * (spread.log() + math.log(2 * math.pi) / 2)


def matching_pairs(keys: np.ndarray, draws: int, dimension: int) -> tuple[np.ndarray, np.ndarray]:
    """Draws times [N, draws] in (0, 1) and noise [N, draws, d], float64. Each row depends only on its key (uint64 [N]).

    Times are stratified: (0, 1) is divided into `draws` equal parts, and time k is uniform in part k.
    """
    u = uniforms((keys ^ _PAIRS)[:, None], np.arange(draws * (1 + 2 * dimension)))
    times = (np.arange(draws) + (u[:, :draws] + 2.0**-54)) / draws  # adding half a step of the grid of random numbers excludes time 0
    first, second = u[:, draws:].reshape(len(keys), 2, draws, dimension).swapaxes(0, 1)
    return times, np.sqrt(-2.0 * np.log1p(-first)) * np.cos(2.0 * np.pi * second)
