"""Actions of a controller as tokens: every number of a `Box` is one of several equal intervals (bins).

An action of a `Box` with chunk C and d numbers per step is C d tokens, step after step. One pass of the network gives the distributions of all these
tokens, and the tokens of an action are independent of each other. The number of a bin is the middle of its interval. The stream `step` gives, for each token,
the index of its step within the chunk.

References: the intervals come from Brohan et al., RT-1, arXiv:2212.06817 (256 per number). One pass for all tokens of a chunk: Kim et al., OpenVLA-OFT,
arXiv:2502.19645.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from torch import Tensor

from gradus.types import Context, Frozen, Key, UserError

if TYPE_CHECKING:
    from gradus.policies.controller_network import ControllerConfig


def bounds(config: ControllerConfig) -> tuple[np.ndarray, np.ndarray]:
    """Returns the lower bound and the width of the range of every number of an action, float64 [C d]."""
    low, high = (np.tile(np.asarray(side, np.float64), config.chunk) for side in (config.acts.low, config.acts.high))  # type: ignore[union-attr]
    return low, high - low


def nearest_bins(action: np.ndarray, config: ControllerConfig) -> np.ndarray:
    """Returns the bins that contain the numbers of an action, int32 [C d]. A number outside the bounds gets the bin at the bound."""
    low, width = bounds(config)
    count = config.fresh.bins
    return np.clip(np.floor((np.asarray(action, np.float64).reshape(-1) - low) / width * count), 0, count - 1).astype(np.int32)


def middles(tokens: np.ndarray, config: ControllerConfig) -> np.ndarray:
    """Returns the numbers of the bins `tokens` [C d]: the middles of the intervals, float32 [1, C d]."""
    low, width = bounds(config)
    return (low + width * (np.asarray(tokens, np.float64) + 0.5) / config.fresh.bins).astype(np.float32)[None]


def drawn_bins(outputs: Tensor, config: ControllerConfig, temperature: float, key: Key) -> tuple[np.ndarray, np.ndarray]:
    """Draws a bin for every number of an action. `outputs`: the network's row for the action, [C d * bins].

    Returns the tokens, int32 [C d], and their log-probabilities at `temperature`, float32 [C d]. At temperature 0 the likeliest bins are taken, and
    the log-probabilities are computed at temperature 1.
    """
    logits = outputs.double().reshape(config.tokens, config.fresh.bins)
    logprobs = (logits / (temperature or 1.0)).log_softmax(-1).cpu().numpy()
    if temperature:
        below = np.exp(logprobs).cumsum(-1) <= key.uniform(config.tokens)[:, None]
        tokens = np.minimum(below.sum(-1), config.fresh.bins - 1)
    else:
        tokens = logits.argmax(-1).cpu().numpy()
    return tokens.astype(np.int32), logprobs[np.arange(config.tokens), tokens].astype(np.float32)


def chunk_context(tokens: np.ndarray, config: ControllerConfig) -> Context:
    """Returns one action as a context to append: its tokens, which are all marked as chosen, and the stream `step`."""
    step = (np.arange(config.tokens) // (config.actions // config.chunk)).astype(np.int32)
    return Context(np.asarray(tokens, np.int32), np.ones(config.tokens, bool), streams=Frozen(step=step))


def slots(positions: np.ndarray) -> np.ndarray:
    """Returns the index of every action token within its block of neighbouring action tokens. `positions`: ascending positions in a sequence, int64 [A].

    >>> slots(np.array([1, 2, 3, 5, 6])).tolist()
    [0, 1, 2, 0, 1]
    """
    count = np.arange(len(positions))
    begins = np.append(True, np.diff(positions) != 1) if len(positions) else np.zeros(0, bool)
    return count - np.maximum.accumulate(np.where(begins, count, 0)) if len(positions) else count


def check_slots(found: np.ndarray, config: ControllerConfig) -> None:
    """Raises UserError if an action has more tokens than an action of the controller."""
    if len(found) and int(found.max()) >= config.actions:
        raise UserError(
            f"an action has {int(found.max()) + 1} tokens, but an action of this environment has only {config.actions} numbers; use the environment for which the "
            "controller was made, or train a new controller with `Fresh.bins` set to 2 or more"
        )
