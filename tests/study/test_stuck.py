"""Runs that learn nothing are told so, and others are not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import gradus
from gradus.recipe.registry import recipe
from gradus.study.stuck import FEW, LEAST, STILL, flat, stuck

GRPO = recipe("grpo").but(setting__warmup=0, setting__learning_rate=1e-9)
WAVE = (0.30, 0.34, 0.31, 0.33)


def rows(count: int, **fields: Any) -> list[dict[str, Any]]:
    """Metrics of a run that does not move, with some fields replaced; a function of the step gives a series."""
    still = {"reward": lambda i: WAVE[i % 4], "accuracy": 0.1, "informative": 0.9, "kl": 1e-9, "clip_share": 0.0, "grad_norm": 2.0}
    return [{"step": i, **{k: v(i) if callable(v) else v for k, v in {**still, **fields}.items()}} for i in range(count)]


def test_a_run_whose_weights_hardly_move_is_told_the_field() -> None:
    said = stuck(rows(LEAST), GRPO) or ""
    assert said.startswith(f"nothing moves: after {LEAST} steps KL to the reference is 1e-09 nats per token")
    assert "90% of the groups have different rewards; multiply --learning_rate, now 1e-09, by ten" in said
    assert "multiply --optimizer.lr, now 1e-08, by ten" in (stuck(rows(LEAST), GRPO.but(optimizer__lr=1e-8)) or "")


@pytest.mark.parametrize(
    "fields",
    [
        {"kl": 2 * STILL},
        {"kl": None},
        {"kl": float("nan")},
        {"clip_share": 0.01},
        {"grad_norm": 0.0},
        {"informative": 0.1},
        {"reward": lambda i: 0.3 + 0.01 * i},
        {"reward": lambda i: 0.6 - 0.01 * i},
        {"reward": 1.0, "accuracy": 1.0, "informative": 0.0, "grad_norm": 0.0, "kl": 0.0},
    ],
)
def test_a_run_that_moves_or_has_nothing_left_to_learn_is_told_nothing(fields: dict[str, Any]) -> None:
    assert stuck(rows(40, **fields), GRPO) is None


def test_a_short_run_is_told_nothing() -> None:
    assert stuck(rows(LEAST - 1), GRPO) is None
    assert stuck(rows(LEAST + 9), GRPO.but(setting__warmup=10)) is None
    assert stuck(rows(LEAST + 9), GRPO.but(setting__warmup=10, optimizer__warmup=9)) is not None
    assert stuck([], GRPO) is None
    nothing = {"reward": 0.0, "informative": 0.0, "grad_norm": 0.0, "kl": 0.0}
    assert stuck(rows(FEW - 1, **nothing), GRPO) is None
    assert stuck(rows(FEW, **nothing), GRPO) is not None


def test_missing_rewards_and_equal_groups_are_told_apart() -> None:
    equal = {"informative": 0.0, "grad_norm": 0.0, "kl": 0.0}
    assert (stuck(rows(6, reward=0.0, **equal), GRPO) or "").startswith("nothing learned: every answer of 6 steps got the reward 0")
    said = stuck(rows(6, reward=0.7, **equal), GRPO) or ""
    assert said.startswith("nothing learned: in every group of 6 steps all answers got the same reward")
    assert stuck(rows(6, reward=0.7, **{**equal, "grad_norm": 1.0}), GRPO) is None  # advantages without comparison
    assert stuck(rows(6, reward=lambda i: float(i == 3), **{**equal, "informative": lambda i: float(i == 3)}), GRPO) is None
    assert stuck(rows(6, reward=0.0, **equal), GRPO.but(credit=None)) is None  # such as imitation: rewards are only shown


def test_flat_means_within_three_standard_errors() -> None:
    assert flat([0.5] * 9)
    assert flat([0.4, 0.6, 0.5, 0.5, 0.5, 0.5, 0.5, 0.7, 0.6])
    assert not flat([0.4, 0.41, 0.42, 0.5, 0.5, 0.5, 0.5, 0.51, 0.52])  # a rise of 0.1, three standard errors are 0.024
    # thirds of 3 with means 0.5 and 0.74 (0.75) and variance 0.01 each: three standard errors are 3 sqrt(0.02 / 3) = 0.2449
    assert flat([0.4, 0.5, 0.6, 0.0, 0.0, 0.0, 0.64, 0.74, 0.84])
    assert not flat([0.4, 0.5, 0.6, 0.0, 0.0, 0.0, 0.65, 0.75, 0.85])


@pytest.mark.parametrize(
    ("reward", "rate", "steps", "said"),
    [
        ("short", 1e-9, 20, "nothing moves: after 20 steps"),
        ("short", 0.0, 20, "nothing moves: after 20 steps"),
        ("short", 1e-2, 20, None),
        ("none", 1e-2, 6, "nothing learned: every answer of 6 steps got the reward 0"),
        ("same", 1e-2, 6, "nothing learned: in every group of 6 steps"),
        ("full", 1e-2, 6, None),
    ],
)
def test_real_runs(reward: str, rate: float, steps: int, said: str | None, tmp_path: Path) -> None:
    from tests.small_model import save_small_model

    rewards = {"short": lambda text: sum(c.islower() for c in text) / 8, "none": lambda text: 0.0, "same": lambda text: 0.7, "full": lambda text: 1.0}
    (tmp_path / "problems.jsonl").write_text("".join(f'{{"prompt": "{i}+1?"}}\n' for i in range(12)))
    run = gradus.train(
        "grpo", str(tmp_path / "problems.jsonl"), model=str(save_small_model(tmp_path / "model")), steps=steps, study=None,
        reward=lambda completions, **columns: [rewards[reward](text) for text in completions],
        setting__learning_rate=rate, setting__prompts=3, setting__group=4, setting__max_tokens=4, setting__warmup=0,
    )  # fmt: skip
    found = stuck(run.metrics, run.recipe)
    assert (found is None) if said is None else (found or "").startswith(said), found
