"""Uses the metrics of a run to find whether the run learns nothing.

The possible reasons are: no reward, no group with two different rewards, or weights that hardly change.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import mean, variance
from typing import Any

from gradus.recipe.core import Recipe

FEW = 5  # missing rewards are reported only after this number of steps
LEAST = 20  # an unchanged policy is reported only after this number of steps after the warm-up
STILL = 1e-4  # below this KL to the start, in nats per token, a policy counts as unchanged
NO_PUSH = 1e-6  # if the norm of the gradient is below this number, the advantages have no effect on the weights
TELLING = 0.2  # a policy can learn if at least this share of groups has two different rewards

Row = Mapping[str, Any]


def stuck(metrics: Sequence[Row], recipe: Recipe) -> str | None:
    """Returns a sentence with the cause and the remedy if the run has learned nothing so far.

    Returns None if the run learns, if its reward cannot rise further, or if the run is too short for a decision.
    """
    rows = [row for row in metrics if row.get("reward") is not None and row.get("informative") is not None]
    return without_signal(rows, recipe) or without_movement(rows, recipe)


def without_signal(rows: Sequence[Row], recipe: Recipe) -> str | None:
    """Returns a sentence if there are at least `FEW` steps, no group had two different rewards, and either all rewards are 0 or no gradient is above `NO_PUSH`.

    Returns None if all answers are right, or if the recipe has no advantages and only shows its rewards.
    """
    if len(rows) < FEW or recipe.credit is None or any(row["informative"] for row in rows) or all(row.get("accuracy") == 1 for row in rows):
        return None
    if all(row["reward"] == 0 for row in rows):
        return (
            f"nothing learned: every answer of {len(rows)} steps got the reward 0, so all advantages are 0; give easier problems, a reward with "
            "steps in between, a model that sometimes succeeds, or longer answers (--max_tokens); if the data has worked solutions, imitate them first, as "
            "in gradus train sft:50,grpo:200. To see answers with their rewards, use gradus check"
        )
    if any((row.get("grad_norm") or 0.0) > NO_PUSH for row in rows):
        return None
    return (
        f"nothing learned: in every group of {len(rows)} steps all answers got the same reward, so all advantages are 0; give a reward that "
        "differs between answers, or raise --temperature or --group"
    )


def without_movement(rows: Sequence[Row], recipe: Recipe) -> str | None:
    """Returns a sentence if the policy has not changed although its groups have different rewards.

    Returns None for a recipe without a KL metric. All these conditions must be true: - There were at least `LEAST` steps after the warm-up, and some step had
    a gradient above 0.
    - At least the share `TELLING` of the groups has different rewards.
    - In the last five steps the mean KL to the reference is below `STILL`, and no step clipped more than 0.1 % of the tokens.
    - The reward is flat (see `flat`).
    """
    rule = (recipe.players["policy"].optimizer if "policy" in recipe.players else None) or recipe.optimizer
    warmup = getattr(rule, "warmup", None)
    if len(rows) < LEAST + (recipe.setting.warmup if warmup is None else warmup):
        return None
    late = rows[-5:]
    if any(row.get("kl") is None or not math.isfinite(row["kl"]) for row in late) or not any(row.get("grad_norm") for row in rows):
        return None
    moved = mean(abs(row["kl"]) for row in late) >= STILL or any((row.get("clip_share") or 0.0) > 0.001 for row in late)
    if moved or mean(row["informative"] for row in rows) < TELLING or not flat([row["reward"] for row in rows]):
        return None
    own = getattr(rule, "lr", None)
    field, now = ("--learning_rate", recipe.setting.learning_rate) if own is None else ("--optimizer.lr", own)
    return (
        f"nothing moves: after {len(rows)} steps KL to the reference is {mean(abs(row['kl']) for row in late):.0e} nats per token, no token is clipped, "
        f"and the reward is flat, though {mean(row['informative'] for row in rows):.0%} of the groups have different rewards; multiply {field}, now {now:g}, "
        "by ten, or leave it out for the rate by rule (gradus explain learning_rate)"
    )


def flat(values: Sequence[float]) -> bool:
    """Whether the means of the first and the last third differ by at most three standard errors."""
    third = max(len(values) // 3, 2)
    first, last = values[:third], values[-third:]
    return abs(mean(last) - mean(first)) <= 3 * math.sqrt((variance(first) + variance(last)) / third)
