"""The course of a run with stages: which recipe, task and weights each leg has. What is refused stands in tests/bad_input/contracts.py."""

from __future__ import annotations

import pytest

from gradus.papers.bases.grpo import grpo
from gradus.papers.bases.ppo import ppo
from gradus.papers.bases.sft import sft
from gradus.recipe.core import PROFILES, Recipe, Setting
from gradus.schedules.constant import ConstantSchedule
from gradus.schedules.harvests import RightAndWrong
from gradus.schedules.stages import Merge, Stage, Stages
from gradus.study.held_out import HeldOut
from gradus.training.course import course, every_stage, every_task, mixed, recipe_of, tasks_of, with_rates
from gradus.training.plan import load_task
from gradus.types import Frozen, UserError
from gradus.types.moments import Plateau, Steps


def several(repeat: int = 1, **stages) -> Recipe:
    return Recipe("several", schedule=Stages(Frozen(stages), repeat), study=HeldOut(problems=7), setting=Setting(group=3, learning_rate=1e-3))


def legs(recipe: Recipe):
    return course(recipe, load_task("arithmetic"), load_task)


def test_a_leg_has_the_stage_s_own_method_and_the_run_s_scale():
    (leg,) = legs(several(a=Stage(grpo.but(setting__prompts=5), Steps(9), changes=Frozen({"credit.scale": "none"}))))
    assert (leg.recipe.key, leg.recipe.credit.scale, leg.recipe.study) == ("grpo", "none", HeldOut(problems=7))
    assert (leg.recipe.setting.prompts, leg.recipe.setting.group, leg.recipe.setting.steps) == (5, 3, 9)


def test_without_a_recipe_it_is_the_run_s():
    whole = grpo.derive("staged", "Stages.", schedule=Stages(Frozen(a=Stage(until=Plateau(most=9), changes=Frozen({"setting.group": 4})))))
    made = recipe_of(whole, "a")
    assert made == grpo.derive("staged", "Stages.", setting__group=4, setting__steps=9)
    assert made.schedule == ConstantSchedule()


def test_a_field_that_both_set_is_the_stage_s():
    assert mixed(Setting(group=4), Setting(group=16, prompts=2)) == Setting(group=4, prompts=2)
    assert mixed(Setting(), PROFILES["paper"]) == PROFILES["paper"]


def test_names_mean_the_newest_leg():
    b, c = Stage(grpo, start="first", makes=RightAndWrong()), Stage(grpo, start="a", task="made:b")
    found = legs(several(2, a=Stage(sft), b=b, c=c, d=Merge(Frozen(a=0.5, c=0.5))))
    assert [leg.name for leg in found] == ["a", "b", "c", "d", "a-2", "b-2", "c-2", "d-2"]
    assert [leg.start for leg in found] == [None, None, "a", "c", "d", None, "a-2", "c-2"]
    assert [leg.reads for leg in found] == [None, None, "b", None, None, None, "b-2", None]
    assert found[7].weights == {"a-2": 0.5, "c-2": 0.5}
    assert {"chosen", "rejected"} <= found[2].task.provides
    assert found[3].recipe == found[2].recipe


def test_players_are_handed_over_by_leg():
    found = legs(several(2, a=Stage(ppo), b=Stage(ppo, players=Frozen(critic="a.critic", reference="a.policy"))))
    assert found[1].players == {"critic": ("a", "critic"), "reference": ("a", "policy")}
    assert found[3].players["critic"] == ("a-2", "critic")


def test_a_change_that_cannot_be_is_told_with_its_stage():
    with pytest.raises(UserError, match='stage a, changes: unknown field "scal"'):
        legs(several(a=Stage(grpo, changes=Frozen({"credit.scal": 1}))))


def test_rates_by_rule_are_stored_and_those_that_are_set_stay():
    whole = Recipe("r", schedule=Stages(Frozen(a=Stage(sft), b=Stage(grpo.but(setting__learning_rate=0.5)), c=Merge(Frozen(a=0.5, b=0.5)))))
    found = tuple(leg if leg.merges else _rated(leg) for leg in legs(whole))
    made = with_rates(whole, found).schedule.stages
    assert made["a"].changes == {"setting.learning_rate": 0.25}
    assert (made["b"].changes, made["c"]) == ({}, whole.schedule.stages["c"])


def _rated(leg):
    from dataclasses import replace

    return replace(leg, recipe=leg.recipe.but(setting__learning_rate=leg.recipe.setting.learning_rate or 0.25))


def test_changes_of_all_stages():
    whole = several(a=Stage(sft, task="b.jsonl"), b=Stage(sft, task="made:a"), c=Stage(grpo))
    assert tasks_of(whole) == ["b.jsonl"]
    assert [s.task for s in every_task(whole, lambda name: f"/home/{name}").schedule.stages.values()] == ["/home/b.jsonl", "made:a", None]
    assert every_task(grpo, str.upper) is grpo
    changed = every_stage(whole, lambda each: each.but(setting__group=2))
    assert ({s.recipe.setting.group for s in changed.schedule.stages.values()}, changed.setting.group) == ({2}, 3)
    mine = grpo.derive("m", "m", schedule=Stages(Frozen(a=Stage())))
    assert every_stage(mine, lambda each: each.but(setting__group=2)).setting.group == 2
