"""What a comparison is made of, from words and back."""

from __future__ import annotations

import pytest

from gradus.comparison.experiment import Arm, Experiment, arm_of, folder_name, seeds_of
from gradus.training.budget import Budget
from gradus.types import UserError

TWO = (Arm("grpo", "grpo"), Arm("rloo", "rloo"))


def test_arms_from_words():
    assert arm_of("grpo") == Arm("grpo", "grpo")
    assert arm_of("wide=grpo --objective.policy.trust.high 0.3").fields == (("objective.policy.trust.high", "0.3"),)
    assert arm_of("grpo --group=4").name == "grpo group=4"
    assert arm_of("mine.py:recipe") == Arm("recipe", "mine.py:recipe")


@pytest.mark.parametrize(("text", "said"), [("", "empty"), ("grpo 3", "cannot be read at 3"), ("grpo --group", "--group"), ("'grpo", "cannot be read")])
def test_wrong_arms_are_refused(text, said):
    with pytest.raises(UserError, match=said):
        arm_of(text)


def test_seeds_from_words():
    assert seeds_of("2") == (0, 1)
    assert seeds_of("7,3") == (7, 3)
    for wrong in ("0", "a", "1,-2"):
        with pytest.raises(UserError, match="--seeds"):
            seeds_of(wrong)


def test_an_experiment_is_read_as_it_was_stored():
    made = Experiment(TWO, "countdown", (("level", "3"),), seeds=(4, 9), budget=Budget("tokens", 1e6), fields=(("group", "4"),))
    assert Experiment.read(made.stored()) == made


def test_fields_and_budget_reach_every_plan():
    made = Experiment((*TWO, Arm("small", "grpo", (("group", "2"),))), fields=(("prompts", "3"),), budget=Budget("steps", 7))
    plans = [made.plan(arm, 5) for arm in made.arms]
    assert [(p.recipe.setting.prompts, p.recipe.setting.steps, p.seed) for p in plans] == [(3, 7, 5)] * 3
    assert [p.recipe.setting.group for p in plans] == [8, 8, 2]
    assert made.plan(Arm("own", "grpo", (("prompts", "5"),)), 0).recipe.setting.prompts == 5  # an arm's own field wins


def test_a_field_that_one_recipe_lacks_is_refused_with_its_name():
    with pytest.raises(UserError, match=r"^rloo: .*trust"):
        [Experiment(TWO, fields=(("objective.policy.trust.high", "0.3"),)).plan(arm, 0) for arm in TWO]


def test_empty_or_double_arms_and_seeds_are_refused():
    wrong = [({"arms": ()}, "at least one recipe"), ({"arms": TWO[:1] * 2}, "arm grpo is given twice")]
    wrong += [({"arms": TWO, "seeds": (1, 1)}, "seed 1"), ({"arms": TWO, "seeds": ()}, "at least one seed")]
    for how, said in wrong:
        with pytest.raises(UserError, match=said):
            Experiment(**how)


def test_folders_have_plain_names():
    assert folder_name(Arm("grpo lr=1 / ü", "grpo"), 0) == "grpo_lr=1-seed0"
