"""Difficulty-staged RL: levels from sampled fail rates, a second stage measured with the model of that moment, and groups that carry a gradient."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import numpy as np
import pytest

import gradus
from gradus.api import plan, start
from gradus.credit.groups import GroupRelative, group_relative
from gradus.credit.uncut import Uncut
from gradus.papers.bases.grpo import grpo
from gradus.papers.data.difficulty_staged_rl import HARD, MEDIUM, difficulty_staged_rl, level
from gradus.recipe.core import changes
from gradus.schedules.stages import Stage, Stages
from gradus.study.screen import Screened, measure
from gradus.training.course import recipe_of
from gradus.types import Frozen, Key
from gradus.types.moments import Steps


@pytest.mark.parametrize(
    ("right", "d", "named"),
    [(8, 0.0, "always solved"), (6, 0.25, "easy"), (3, 0.625, "medium"), (1, 0.875, "hard"), (0, 1.0, "unsolved")],
)
def test_levels_of_correct_counts(right: int, d: float, named: str) -> None:
    assert 1 - right / 8 == d
    assert level(right, 8) == named
    assert (MEDIUM.keeps(right / 8), HARD.keeps(right / 8)) == (named == "medium", named == "hard")


def test_the_cuts_belong_to_the_easier_level_up_to_fifty_samples() -> None:
    # d = 1 - 7/10 is 0.30000000000000004 in binary; as a pass rate 7/10 is 0.7, so easy, and 3/10 is medium
    assert (level(7, 10), level(3, 10)) == ("easy", "medium")
    for samples in range(2, 51):
        for right in range(samples + 1):
            named = level(right, samples)
            assert (MEDIUM.keeps(right / samples), HARD.keeps(right / samples)) == (named == "medium", named == "hard"), (right, samples)


def test_it_is_grpo_in_two_stages() -> None:
    found = sorted(changes(grpo, difficulty_staged_rl))
    assert found == ["objective.entropy", "objective.kl.coefficient", "schedule", "setting.eval_every"]
    # one stage on all problems, GRPO's KL and no entropy: grpo
    one = difficulty_staged_rl.but(schedule=Stages(Frozen(all=Stage(until=Steps(2)))), objective__kl__coefficient=0.04, objective__entropy=None)
    small = {"setting__prompts": 2, "setting__group": 4, "setting__eval_every": 0, "study__problems": 2, "study__by": ()}
    runs = [gradus.train(made, task="arithmetic", **{**small, **more}) for made, more in ((grpo, {"setting__steps": 2}), (one, {}))]
    assert runs[0].metrics == [{k: v for k, v in row.items() if k != "stage"} for row in runs[1].metrics]


def test_the_second_stage_has_longer_answers_no_entropy_bonus_and_no_loss_from_cut_answers() -> None:
    first, second = (recipe_of(difficulty_staged_rl, name) for name in ("medium", "hard"))
    assert (first.setting.max_tokens, second.setting.max_tokens) == (64, 96)  # 16k and 24k in the paper
    assert (first.objective["entropy"].coefficient, second.objective["entropy"].coefficient) == (0.001, 0.0)
    assert (first.objective["kl"].coefficient, second.objective["kl"].coefficient) == (0.001, 0.001)
    assert (first.credit, second.credit) == (GroupRelative(), Uncut(GroupRelative()))
    assert first.update.count == second.update.count == 1


def test_the_second_stage_is_drawn_with_the_new_model(tmp_path: Path) -> None:
    quick = {"schedule__stages__medium__until": Steps(6), "schedule__stages__hard__until": Steps(1)}
    for stage, band in (("medium", MEDIUM), ("hard", HARD)):
        screen = Screened(band.low, band.high, samples=8, problems=64)
        quick[f"schedule__stages__{stage}__screen"] = screen  # type: ignore[assignment]
    gradus.train(
        difficulty_staged_rl, task="arithmetic", task_options={"level": "2"}, run=tmp_path / "run", setting__prompts=8, setting__eval_every=0,
        setting__learning_rate=1e-3, study__problems=4, **quick,
    )  # fmt: skip
    kept = {name: _rows(tmp_path / "run" / "screened" / f"{name}.jsonl") for name in ("medium", "hard")}
    assert all(0.3 <= rate < 0.7 for rate in kept["medium"].values())
    assert all(0 < rate < 0.3 for rate in kept["hard"].values())

    def rates(model: str | None) -> dict[str, float]:
        run = start(plan("grpo", "arithmetic", model=model, task_options={"level": "2"}))
        run.step = 6  # the draws of a screening depend on the step
        recipe = run.recipe.but(setting__max_tokens=96)
        return {p.id: r for p, r in asyncio.run(measure(run, recipe, run.world(recipe, "screen"), screen, run.task.source)).rates}

    now = rates(str(tmp_path / "run" / "stages" / "medium"))
    assert kept["hard"] == {name: rate for name, rate in now.items() if 0 < rate < 0.3}  # d of the new checkpoint
    solved = [name for name in kept["medium"] if now[name] == 1.0]
    assert solved  # the stage has acted: problems of it are now solved 8 of 8
    assert not set(solved) & set(kept["hard"])


def _rows(path: Path) -> dict[str, float]:
    rows = map(json.loads, path.read_text().splitlines())
    return {row["problem"]["id"]: row["pass_rate"] for row in rows}


def test_medium_problems_carry_more_gradient() -> None:
    # chance of two different rewards among 8: 1 - p^8 - (1 - p)^8 = 0.992 at p = 1/2, 0.337 at 0.05 and 0.95, 0 at 0 and 1.
    # all problems: (2 x 0.992 + 2 x 0.337) / 8 = 0.332, the medium ones alone 0.992, so 3.0 times as many
    truth = np.array([1.0, 1.0, 0.95, 0.5, 0.5, 0.05, 0.0, 0.0] * 8)

    def answered(purpose: str) -> np.ndarray:
        return Key(3).fold(purpose).uniform(len(truth), 8) < truth[:, None]

    measured = answered("measured").mean(1)
    groups = answered("trained").astype(np.float64)
    informative = np.array([bool(np.abs(group_relative(rewards, scale="population")).sum()) for rewards in groups])
    medium = np.array([MEDIUM.keeps(rate) for rate in measured])
    assert 8 <= medium.sum() <= 20
    assert informative[medium].mean() >= 1.5 * informative.mean() > 0
