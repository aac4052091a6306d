"""The policy's confidence in its own answers, from the log-probabilities at sampling. No forward pass is needed, and no gradient flows through the
confidence."""

from __future__ import annotations

import math

import numpy as np

from gradus.types import Trajectory, UserError


def sampled_logprobs(trajectory: Trajectory) -> np.ndarray:
    """Returns the log-probabilities of all actions at sampling, at the sampling temperature: float64 [A], in nats.

    Raises UserError if an action has no log-probability, because it was not sampled.
    """
    rows = [c.logprobs for c in trajectory.contexts if c.actions]
    if any(row is None for row in rows):
        raise UserError(
            f"answer {trajectory.id} of {trajectory.player} has no log-probabilities from sampling, so its likelihood is unknown; use a policy and a "
            "rollout that sample every answer token by token"
        )
    return np.concatenate([np.zeros(0), *(np.asarray(row, np.float64) for row in rows)])


def mean_logprob(trajectory: Trajectory) -> float:
    """Returns the mean log-probability of an answer's tokens at sampling, in nats; 0 for an answer without a token."""
    found = sampled_logprobs(trajectory)
    return float(found.mean()) if len(found) else 0.0


def confidence(trajectory: Trajectory) -> float:
    """Returns exp(mean log-probability of the tokens): the geometric mean of the tokens' probabilities, in (0, 1]."""
    return math.exp(mean_logprob(trajectory))
