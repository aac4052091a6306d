"""A reward model trained by one run judges another; folders that hold none are named."""

from __future__ import annotations

import json

import pytest

import gradus
from gradus.papers.bases.grpo import grpo
from gradus.rewards.functions import Function
from gradus.rewards.reward_model import RewardModel
from gradus.rewards.verified import Verified
from gradus.schedules.constant import ConstantSchedule
from gradus.schedules.stages import Stage, Stages
from gradus.training.plan import judged_by, plan
from gradus.types import Frozen, UserError
from gradus.types.moments import Steps
from gradus.types.players import Player
from tests.small_model import save_small_model

SMALL = {"setting__prompts": 2, "setting__group": 4, "setting__max_tokens": 4, "study__problems": 2}


def by_last_letter(completions, **kwargs):
    return [float(ord(text[-1]) % 2) if text else 0.0 for text in completions]


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A small model, and the run of a reward model that was trained from it."""
    folder = tmp_path_factory.mktemp("judging")
    save_small_model(folder / "model")
    (folder / "reward.py").write_text("def odd(completions, **kwargs):\n    return [float(len(c)) for c in completions]\n")
    options = {**SMALL, "study__samples": 4}
    run = gradus.train(
        "reward_model",
        "arithmetic",
        model=str(folder / "model"),
        reward=f"{folder}/reward.py:odd",
        steps=2,
        run=folder / "judge",
        **options,
    )
    assert run.metrics[-1]["step"] == 2
    return folder


def test_the_runs_model_judges_another_run_and_is_found_again_on_resume(home):
    run = gradus.train("grpo", "arithmetic", model=str(home / "model"), reward=str(home / "judge"), steps=2, run=home / "judged", **SMALL)
    assert run.recipe.reward == RewardModel("judge", ("value",))
    assert run.players["judge"].updates == 0
    assert run.metrics[0]["reward/scored"] is not None
    again = gradus.resume(home / "judged", more=3)
    assert again.metrics[:2] == run.metrics[:2]
    assert again.metrics[2]["reward/scored"] is not None


def test_evaluation_can_stay_with_the_verifier(home):
    changed = {**SMALL, "study__reward": Verified()}
    run = gradus.train("grpo", "arithmetic", model=str(home / "model"), reward=str(home / "judge"), steps=0, **changed)
    assert 0.0 <= run.metrics[0]["held_out/reward"] <= 1.0


def test_a_folder_becomes_a_frozen_player_and_anything_else_stays_what_it_is(home):
    made = judged_by(grpo, str(home / "judge"))
    found = {str((home / "judge" / name).resolve()) for name in ("best", "final")}
    assert made.players["judge"] in [Player(path) for path in found]
    assert judged_by(grpo, f"{home}/reward.py:odd").reward == Function(f"{home}/reward.py:odd")
    assert judged_by(grpo, Verified()).reward == Verified()
    assert judged_by(grpo, by_last_letter).players == grpo.players


def test_a_folder_without_a_value_head_is_refused(home):
    with pytest.raises(UserError, match="contains no reward model, because"):
        judged_by(grpo, str(home / "model"))


def test_pairs_alone_train_a_reward_model_that_judges_where_no_verifier_can(home):
    rows = [{"prompt": f"say {i}", "chosen": "yes " * (1 + i % 3), "rejected": "no"} for i in range(20)]
    (home / "pairs.jsonl").write_text("\n".join(map(json.dumps, rows)))
    options = {"model": str(home / "model"), "setting__prompts": 2, "setting__max_tokens": 4}
    run = gradus.train("reward_model", str(home / "pairs.jsonl"), steps=1, run=home / "by pairs", **options)
    assert run.metrics[-1]["held_out/accuracy"] is not None
    assert "tokens/rollout" not in run.metrics[0]
    judged = gradus.train("grpo", str(home / "pairs.jsonl"), reward=str(home / "by pairs"), steps=1, **options, study=None)
    assert judged.metrics[0]["reward/scored"] is not None


def test_steps_count_although_the_schedule_with_stages_is_replaced():
    staged = grpo.but(schedule=Stages(Frozen(one=Stage(until=Steps(10)), two=Stage(until=Steps(30)))))
    for made in (plan(staged, steps=4), plan(staged, budget="steps=4")):
        assert made.recipe.schedule.steps == 4
        assert made.recipe.but(schedule=ConstantSchedule()).setting.steps == 4
