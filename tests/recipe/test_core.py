"""Recipes as records: replacing at a path, the smallest difference, combining, the JSON form; and what holds for every recipe there is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gradus.credit.groups import GroupRelative, LeaveOneOut
from gradus.objectives.aggregation import TokenMean
from gradus.objectives.trust import Clip, DualClip
from gradus.papers.bases.dapo import dapo
from gradus.papers.bases.grpo import grpo
from gradus.papers.bases.ppo import ppo
from gradus.papers.bases.reinforce import reinforce
from gradus.papers.bases.rloo import rloo
from gradus.recipe.core import Recipe, changes, describe, get, parent_of, put
from gradus.recipe.overrides import override
from gradus.recipe.registry import recipe_modules
from gradus.recipe.serialise import from_json, to_json
from gradus.types import Frozen, UserError
from gradus.types.players import Copy, Player

ALL = sorted(recipe_modules())


def applied(base: Recipe, differences: dict) -> Recipe:
    for path, value in differences.items():
        base = put(base, path, value)
    return base


def test_but_replaces_at_a_path_and_nothing_else():
    made = grpo.but(objective__policy__trust__high=0.3, setting__group=2)
    assert made.objective["policy"].trust == Clip(0.2, 0.3)
    assert made.setting.group == 2
    assert changes(grpo, made) == {"objective.policy.trust.high": 0.3, "setting.group": 2}
    assert grpo.objective["policy"].trust == Clip(0.2, 0.2)


def test_none_removes_an_entry_of_a_mapping():
    made = grpo.but(objective__kl=None, players__reference=None)
    assert list(made.objective) == ["policy"]
    assert "reference" not in made.players
    assert changes(grpo, made) == {"players.reference": None, "objective.kl": None}
    assert applied(grpo, changes(grpo, made)) == made


def test_a_new_entry_of_a_mapping_is_added():
    made = grpo.but(players__judge=Player(Copy("policy")))
    assert list(made.players) == [*grpo.players, "judge"]


def test_a_field_of_what_a_player_shares_with_the_recipe_becomes_its_own():
    made = ppo.but(optimizer__eps=1e-6).but(players__critic__optimizer__lr=1e-3)
    assert made.players["critic"].optimizer == replace(ppo.optimizer, eps=1e-6, lr=1e-3)
    assert made.optimizer == replace(ppo.optimizer, eps=1e-6)
    assert override(ppo, "players.critic.optimizer.lr", "1e-3") == ppo.but(players__critic__optimizer__lr=1e-3)
    assert ppo.but(players__critic__credit__coefficient=0.5).players["critic"].credit == replace(ppo.credit, coefficient=0.5)
    with pytest.raises(UserError, match=r'unknown field "lrr" \(did you mean lr\?\)'):
        override(ppo, "players.critic.optimizer.lrr", "1")
    with pytest.raises(UserError, match=r'unknown field "critc" \(did you mean critic\?\)'):
        override(ppo, "players.critc.optimizer.lr", "1")


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("learning_rate", r'"learning_rate" is a field of the setting: write setting__learning_rate'),
        ("objectiv", r'unknown field "objectiv" \(did you mean objective\?\)'),
        ("objective__polcy__trust", r'unknown field "polcy" \(did you mean policy\?\).*In "objective" \(Frozen\)'),
        ("objective__policy__trust__hihg", r'unknown field "hihg" \(did you mean high.*In "objective.policy.trust" \(Clip\)'),
        ("environment__size", r'"environment" is empty in this recipe'),
        ("objective__policy__trust__high__more", r'"objective.policy.trust.high" is 0.2, which has no fields'),
    ],
)
def test_a_path_that_does_not_exist_is_named(path, message):
    with pytest.raises(UserError, match=message):
        grpo.but(**{path: 1})


def test_get_reads_what_stands_at_a_path():
    assert get(grpo, "objective.kl.coefficient") == 0.04
    with pytest.raises(UserError, match="unknown field"):
        get(grpo, "objective.kl.beta")


def test_parts_of_one_class_differ_by_their_fields_and_others_as_a_whole():
    assert changes(grpo, grpo.but(objective__policy__trust=Clip(0.2, 0.5))) == {"objective.policy.trust.high": 0.5}
    assert changes(grpo, grpo.but(objective__policy__trust=DualClip())) == {"objective.policy.trust": DualClip()}
    assert changes(grpo, grpo) == {}
    assert changes(grpo, grpo.derive("other", "says more")) == {}  # names are no difference


def test_numbers_of_another_type_are_a_difference():
    assert changes(grpo, grpo.but(objective__policy__trust__high=1))["objective.policy.trust.high"] == 1


def test_plus_applies_the_changes_of_each_to_its_base():
    long = grpo.derive("long", "", objective__policy__average=TokenMean())
    loose = grpo.derive("loose", "", objective__policy__trust__high=0.4)
    both = grpo.plus(_registered(long), _registered(loose))
    assert both.key == "grpo+long+loose"
    assert both.base == "grpo"
    assert changes(grpo, both) == {"objective.policy.average": TokenMean(), "objective.policy.trust.high": 0.4}


def test_plus_carries_changes_to_another_base():
    assert reinforce.plus(rloo).credit == LeaveOneOut()
    assert grpo.plus(rloo).credit == LeaveOneOut()
    assert grpo.plus(rloo).objective == grpo.objective


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"objective__policy__trust__high": 0.3}, {"objective__policy__trust__high": 0.4}),
        ({"objective__policy__trust": DualClip()}, {"objective__policy__trust__high": 0.4}),
        ({"objective__policy__trust__high": 0.3}, {"objective__policy__trust": DualClip()}),
    ],
)
def test_plus_refuses_two_that_set_one_path_differently(one, other):
    a, b = grpo.derive("a", "", **one), grpo.derive("b", "", **other)
    with pytest.raises(UserError, match=r"a and b both change objective\.policy\.trust"):
        grpo.plus(a, b)


def test_plus_agrees_where_both_set_the_same():
    a, b = (grpo.derive(k, "", objective__policy__average=TokenMean()) for k in "ab")
    assert grpo.plus(a, b).objective["policy"].average == TokenMean()


def test_a_recipe_without_base_has_no_changes_to_combine():
    with pytest.raises(UserError, match="reinforce has no base"):
        grpo.plus(reinforce)


def _registered(made: Recipe) -> Recipe:
    assert made.base in ALL
    return made


def test_describe_lists_every_field_with_its_path():
    rows = dict(describe(grpo))
    assert rows["objective.policy.trust"] == "Clip"
    assert rows["objective.policy.trust.low"] == 0.2
    assert rows["players.reference.model.of"] == "policy"
    assert rows["setting.group"] == 8


def test_json_of_what_has_no_such_form_is_refused():
    with pytest.raises(UserError, match="cannot be stored"):
        to_json(grpo.but(credit=lambda: 0))


def test_json_of_a_part_from_elsewhere_is_refused():
    document = to_json(GroupRelative())
    document["part"] = "elsewhere.module:Thing"
    with pytest.raises(UserError, match="no installed package offers this part"):
        from_json(document)


@pytest.mark.parametrize(
    "document",
    [
        {"part": "gradus.training.export:shutil.rmtree", "path": "kept"},  # what a module imports is not its own
        {"part": "gradus.workers.process:subprocess.Popen", "args": ["touch", "made"]},
        {"part": "gradus.lab.atomic_files:remove", "path": "kept"},  # a function is no part
        {"function": "gradus.training.export:shutil.rmtree"},
        {"function": "gradus.recipe.registry:TASKS"},
    ],
)
def test_json_cannot_call_what_is_no_part(document, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kept").mkdir()
    with pytest.raises(UserError, match=r"has no (part|function) of this name"):
        from_json(document)
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


def test_dapo_says_in_one_map_what_it_changed():
    assert set(changes(grpo, dapo)) == {
        "players.reference",
        "rollout",
        "reward",
        "selection",
        "objective.policy.trust.high",
        "objective.policy.average",
        "objective.kl",
        "update.count",
    }


def test_a_name_with_dots_in_a_mapping_is_taken_whole():
    """As in the changes of a stage, whose names are paths themselves."""
    made = Frozen({"changes": Frozen({"setting.group": 4, "setting": Frozen(group=2)})})
    assert get(made, "changes.setting.group") == 4
    assert parent_of(made, "changes.setting.group") == ("changes", "setting.group")
    assert get(put(made, "changes.setting.group", 5), "changes") == Frozen({"setting.group": 5, "setting": Frozen(group=2)})
    assert parent_of(made, "changes") == ("", "changes")
