"""Who takes part in a race: recipes by name, family or all, their settings, and what the others lack."""

from __future__ import annotations

from fractions import Fraction

import pytest

from gradus.comparison import contestants
from gradus.comparison.contestants import Choice, Entrants, choice_of, entrants_of, factors_of, rate_of, try_of
from gradus.comparison.experiment import Arm, Experiment
from gradus.recipe.registry import recipe, recipe_modules
from gradus.types import UserError

GRPO = Arm("grpo", "grpo")
ONE = (Fraction(1),)


def experiment(*recipes: str, **how) -> Experiment:
    return Experiment(tuple(Arm(name, name) for name in recipes), "arithmetic", **how)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check with the model is left out."""
    monkeypatch.setattr("gradus.comparison.contestants.api.start", lambda *_, **__: None)


def test_recipes_from_words():
    assert {arm.recipe for arm in choice_of([]).recipes} == set(recipe_modules())
    family = {arm.recipe for arm in choice_of([], "credit").recipes}
    assert "gigpo" in family
    assert "grpo" not in family
    assert choice_of(["wide=grpo --group 4"]).recipes == (Arm("wide", "grpo", (("group", "4"),)),)
    with pytest.raises(UserError, match="both name the contestants"):
        choice_of(["grpo"], "credit")
    with pytest.raises(UserError, match=r"unknown family .*did you mean credit"):
        choice_of([], "credits")


def test_factors_and_tries_from_words():
    assert factors_of("1/3, 1, 3") == (Fraction(1, 3), Fraction(1), Fraction(3))
    assert try_of("--group=8, 16") == ("group", ("8", "16"))
    for wrong in ("", "0", "a", "1/0", "1,1", "-1"):
        with pytest.raises(UserError, match="--rates"):
            factors_of(wrong)
    for wrong in ("group", "=3", "group=", "group=8,8", "group=8,"):
        with pytest.raises(UserError, match="--try"):
            try_of(wrong)


def test_every_recipe_has_its_settings(quick):
    tries = (("group", ("8", "16")), ("objective.policy.trust.high", ("0.3",)))
    found = entrants_of(experiment("grpo", "rloo"), Choice((GRPO, Arm("rloo", "rloo")), factors_of("1/3,1,3"), tries))
    names = [arm.name for arm in found.contestants]
    assert names[:2] == ["grpo group=8 objective.policy.trust.high=0.3", "grpo group=16 objective.policy.trust.high=0.3"]
    assert names[2] == "grpo learning_rate=3.3e-05 group=8 objective.policy.trust.high=0.3"
    assert names.count("rloo learning_rate=0.0003 group=16") == 1  # rloo has no trust region
    assert len(names) == 6 + 6
    assert found.misfits == ()


def test_settings_win_over_the_fields_of_every_recipe(quick):
    terms = experiment("grpo", fields=(("learning_rate", "3e-4"), ("group", "2")))
    found = entrants_of(terms, choice_of(["grpo"], rates="1,2", tries=["group=4,8"])).contestants
    plans = [terms.plan(arm, 0).recipe.setting for arm in found]
    assert [(plan.learning_rate, plan.group) for plan in plans] == [(3e-4, 4), (3e-4, 8), (6e-4, 4), (6e-4, 8)]


def test_the_rate_is_the_one_that_the_policy_learns_by():
    assert rate_of(recipe("grpo"), None) == ("learning_rate", 1e-4)
    assert rate_of(recipe("grpo").but(setting__learning_rate=1e-3), None) == ("learning_rate", 1e-3)
    assert rate_of(recipe("grpo").but(optimizer__lr=2e-3), None) == ("optimizer.lr", 2e-3)
    assert rate_of(recipe("training_free_grpo"), None)[0] is None
    assert rate_of(recipe("difficulty_staged_rl"), None)[0] is None


def test_misfits_are_listed_with_what_they_lack(quick):
    found = entrants_of(experiment("grpo", "gigpo", "rloo", "papo"), choice_of(["grpo", "gigpo", "rloo", "papo"], rates="1"))
    assert [arm.name for arm in found.contestants] == ["grpo", "rloo"]
    assert [name for name, _ in found.misfits] == ["gigpo", "papo"]
    assert "has no environment" in found.misfits[0][1]
    assert "needs problems with images" in found.misfits[1][1]
    assert contestants.read(contestants.stored(found)) == found


def test_what_the_model_lacks_is_found_too():
    found = entrants_of(experiment("grpo"), choice_of(["grpo", "gdpo"], rates="1,2"))
    assert [name for name, _ in found.misfits] == ["gdpo"]
    assert isinstance(found, Entrants)


def test_wrong_races_are_refused(quick):
    with pytest.raises(UserError, match=r"needs two contestants or more, but the 2 named recipes give only 1; .*papo: recipe papo needs problems with images"):
        entrants_of(experiment("grpo", "papo"), choice_of(["grpo", "papo"], rates="1"))
    with pytest.raises(UserError, match="--try names the field grouping, but no contestant accepts this field"):
        entrants_of(experiment("grpo"), choice_of(["grpo"], tries=["grouping=3"]))
    with pytest.raises(UserError, match="unknown recipe"):
        entrants_of(experiment("grop"), choice_of(["grop", "grpo"]))
