"""Each mistake in a part is found and named with class, method, file and line; a sound method has no fault."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from gradus import load_recipe
from gradus.objectives.terms import Imitation
from gradus.objectives.trust import Unclipped
from gradus.recipe.core import Recipe
from gradus.rewards.functions import Function
from gradus.rollouts.auto import Auto
from gradus.testing.methods import Fault, diagnose
from gradus.types import Frozen
from gradus.types.moments import Moment
from tests.testing.methods import mistakes as m

PLAIN: Recipe = load_recipe("dr_grpo").but(update__count=1)
"""GRPO without a KL term, one update per batch: nothing else hides a mistake."""
TRUST = "objective__policy__trust"


def line_of(cls: type, method: str) -> str:
    """Where a method begins, as a finding says it."""
    return rf"{cls.__name__}\.{method} \(mistakes\.py, line {vars(cls)[method].__code__.co_firstlineno}\)"


@pytest.mark.parametrize(
    ("changes", "where", "says", "remedy"),
    [
        ({TRUST: m.Whitened()}, (m.Whitened, "losses"), "depends on the micro-batch, though it declares separable = True", "batch.counts"),
        (
            {"objective__policy__average": m.MeanOfThePiece()},
            (m.MeanOfThePiece, "coefficients"),
            "depends on the micro-batch",
            "separable = False",
        ),
        ({TRUST: m.Detached()}, (m.Detached, "losses"), "gradient", "detach"),
        ({TRUST: m.Nothing()}, (m.Nothing, "losses"), "is zero at every action, so nothing is learned", "coefficient of 0"),
        ({TRUST: m.LogOfZero()}, (m.LogOfZero, "losses"), "the loss .* is nan", "log or sqrt of 0"),
        ({TRUST: m.MaskedRoot()}, (m.MaskedRoot, "losses"), "gradient .* is not finite, though its loss is", "masked"),
        ({TRUST: m.NoNumber()}, (m.NoNumber, "losses"), "the metric spread .* is no finite number", "tally"),
        ({TRUST: m.Largest()}, (m.Largest, "losses"), "the metric largest .* over micro-batches and .* on the whole batch", "one value per action"),
        ({"credit": m.Zeros()}, (m.Zeros, "assign"), "gives every action the advantage 0, though rewards within a group differ", "spread"),
        ({"selection": m.DropsAll()}, (m.DropsAll, "keep"), "keeps no trajectory in any of several toy steps", r"\(kept, dropped\)"),
        ({"update": m.Leftover()}, (m.Leftover, "apply"), "moves policy.logits differently with micro-batches of one context", "add up gradients"),
    ],
    ids=lambda value: value[0].__name__ if isinstance(value, tuple) else "",
)
def test_a_mistake_is_found_and_named(changes: dict[str, Any], where: tuple[type, str], says: str, remedy: str) -> None:
    found = diagnose(PLAIN.but(**changes))
    assert [f.verdict for f in found] == ["warning" if "selection" in changes else "wrong"]
    assert re.search(line_of(*where), found[0].says), found[0].says
    assert re.search(says, found[0].says), found[0].says
    assert re.search(remedy, f"{found[0].says}; {found[0].remedy}")


@pytest.mark.parametrize("part", [m.Short(), m.Upright(), m.Misspelt()], ids=lambda part: type(part).__name__)
def test_a_wrong_shape_and_what_is_raised_are_found_where_they_stand(part: Any) -> None:
    (found,) = diagnose(PLAIN.but(**{TRUST: part}))
    first = vars(type(part))["losses"].__code__.co_firstlineno
    assert found.verdict == "wrong"
    assert re.search(rf"{type(part).__name__}\.losses \(mistakes\.py, line ({first}|{first + 1})\)", found.says)
    assert found.remedy


def test_advantages_for_one_trajectory_in_a_group_are_found() -> None:
    (found,) = diagnose(PLAIN.but(credit=m.OneForAll()))
    assert found.verdict == "wrong"
    assert re.search(r"OneForAll\.assign.*mistakes\.py, line", found.says)


def test_advantages_without_effect_are_found() -> None:
    for changed in (PLAIN.but(**{TRUST: m.Deaf()}), PLAIN.but(objective=Frozen(imitation=Imitation(source="policy")))):
        (found,) = diagnose(changed)
        assert found.verdict == "wrong"
        assert re.match(r"the advantages of GroupRelative\.assign \(groups\.py, line \d+\) have no effect", found.says)
        assert "--credit Constant" in found.remedy


def test_a_critic_may_ignore_advantages_but_not_returns() -> None:
    assert diagnose(load_recipe("ppo")) == []


def test_what_says_that_it_is_not_separable_is_right() -> None:
    found = diagnose(PLAIN.but(**{TRUST: m.HonestlyWhitened()}))
    assert [f.verdict for f in found] == ["note"]


def test_a_trust_that_cannot_act_is_a_note_and_no_error() -> None:
    (found,) = diagnose(PLAIN)
    assert found == Fault(
        "note",
        "the ratio is 1 in every update, because one update follows each fresh batch: Clip never acts",
        "keep it if this is intended; else set --update.epochs 2 or --update.count 2",
    )
    assert diagnose(PLAIN.but(update__epochs=2)) == []
    assert diagnose(PLAIN.but(update__count=2)) == []
    assert diagnose(PLAIN.but(**{TRUST: Unclipped()})) == []


def test_a_term_that_is_only_measured_is_a_note() -> None:
    found = diagnose(load_recipe("grpo").but(objective__kl__coefficient=0.0, update__epochs=2))
    assert [(f.verdict, f.says) for f in found] == [("note", "objective.kl.coefficient is 0, so the term is measured and trains nothing")]


def test_a_reward_that_toy_answers_do_not_tell_apart_is_a_note() -> None:
    (found,) = diagnose(PLAIN.but(reward=m.Flat(), **{TRUST: Unclipped()}))
    assert found.verdict == "note"
    assert re.match(line_of(m.Flat, "score") + " gives all toy answers to a problem the same reward", found.says)
    (found,) = diagnose(load_recipe("dapo").but(reward=m.Flat()))  # its rollout drops such groups
    assert found.verdict == "not checked"


def test_a_reward_that_fails_now_and_then_is_no_fault() -> None:
    assert diagnose(PLAIN.but(reward=m.SometimesFailed(), **{TRUST: Unclipped()})) == []


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"requires": frozenset({"tests"})}, "needs problems with tests"),
        ({"optimizer": None}, "has no optimizer"),
    ],
)
def test_what_toys_do_not_bring_is_not_checked(changed: dict[str, Any], says: str) -> None:
    (found,) = diagnose(replace(PLAIN, **changed) if "requires" in changed else PLAIN.but(**changed))
    assert found.verdict == "not checked"
    assert says in found.says


@dataclass(frozen=True)
class Maze:
    def start(self, problem: Any, key: Any, world: Any) -> Any:
        raise AssertionError("is not asked")


def test_an_environment_of_ones_own_is_not_tried_on_toys() -> None:
    (found,) = diagnose(replace(PLAIN, environment=Maze()))
    assert (found.verdict, "Maze has its own problems" in found.says) == ("not checked", True)


def test_a_rule_that_needs_turns_is_tried_on_episodes() -> None:
    gigpo = load_recipe("gigpo")
    assert diagnose(gigpo.but(rollout=Auto())) == []


def test_a_reward_function_of_a_file_is_left_to_the_check_of_rewards(tmp_path: Path) -> None:
    assert diagnose(PLAIN.but(reward=Function(path=str(tmp_path / "absent.py:score")), **{TRUST: Unclipped()})) == []


@dataclass(frozen=True)
class Rate:
    """A schedule of a field that is read only at the start."""

    def at(self, now: Moment, recipe: Recipe) -> Recipe:
        return recipe.but(setting__steps=9)


@dataclass(frozen=True)
class Thirds:
    """A schedule with a number of samples that is no whole number."""

    def at(self, now: Moment, recipe: Recipe) -> Recipe:
        return recipe.but(setting__group=8 / 3)


@pytest.mark.parametrize(
    ("schedule", "says"),
    [(Rate(), "the schedule changes setting.steps at step 0"), (Thirds(), "Setting.group is 2.66")],
)
def test_what_training_refuses_is_wrong(schedule: Any, says: str) -> None:
    (fault,) = diagnose(PLAIN.but(schedule=schedule))
    assert fault.verdict == "wrong"
    assert says in fault.says


def test_a_class_in_place_of_a_part_is_wrong() -> None:
    (fault,) = diagnose(PLAIN.but(schedule=Rate))
    assert (fault.verdict, "`schedule` is the class Rate" in fault.says) == ("wrong", True)
