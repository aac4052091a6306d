"""Whether recipe, task and parts fit: every built-in recipe does, and what does not is named with its place."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pytest

from gradus.credit.groups import GroupRelative
from gradus.curricula.shuffled_epochs import ShuffledEpochs
from gradus.objectives.aggregation import TokenMean
from gradus.objectives.terms import PolicyGradient, ValueLoss
from gradus.objectives.trust import Clip
from gradus.papers.bases.grpo import grpo
from gradus.papers.bases.ppo import ppo
from gradus.recipe import registry
from gradus.recipe.compatibility import check_fit, check_learning, check_parts, check_problems, check_right
from gradus.recipe.overrides import override_all
from gradus.rewards.reward_model import RewardModel
from gradus.rewards.verified import Verified
from gradus.rollouts.dynamic_sampling import DynamicSampling
from gradus.rollouts.recorded_answers import RecordedAnswers
from gradus.schedules.stages import Stage, Stages
from gradus.study.held_out import HeldOut
from gradus.testing.methods import TOY
from gradus.training.plan import load_task
from gradus.types import Frozen, Key, Problem, UserError
from gradus.types.players import Copy, Head, Player

if TYPE_CHECKING:
    from nowhere import Unknown


@dataclass(frozen=True)
class Own:
    """A trust region of a user's file; the type of a field cannot be resolved."""

    wide: Unknown = 0.2
    separable = True

    def losses(self, log_ratio: Any, advantages: Any, batch: Any) -> Any:
        return -log_ratio * advantages, {}


def test_what_has_the_attributes_fits_whatever_its_class() -> None:
    check_parts(grpo.but(objective__policy__trust=Own()))
    check_parts(grpo.but(players__critic=Player(Head(of=Copy("policy")))))
    check_parts(grpo.but(players__critic=Player("a folder")))
    check_parts(grpo.but(objective__policy__weight=None))


@dataclass(frozen=True)
class Forgetful(Own):
    def start(self) -> dict[str, int]:
        return {}


class Remembering(Verified):
    def start(self) -> dict[str, int]:
        return {}


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"credit": Clip()}, "credit cannot be Clip, which lacks assign"),
        ({"reward": max}, "reward cannot be the function max itself; turn it into a part: gradus.rewards.functions.reward_from(max)"),
        ({"update": 3}, "update cannot be 3, which lacks apply"),
        ({"objective__kl": TokenMean()}, "objective.kl cannot be TokenMean, which lacks wants"),
        ({"objective__policy": PolicyGradient(average=Clip())}, "objective.policy.average cannot be Clip, which lacks coefficients"),  # type: ignore[arg-type]
        ({"objective__policy__ratio": None}, "`objective.policy.ratio` is empty; set a Ratio with --objective.policy.ratio"),
        ({"objective__policy__trust": Own(wide=math.nan)}, "`objective.policy.trust.wide` is nan"),
        ({"players__reference": Copy("policy")}, "players.reference cannot be Copy, which lacks Player"),
        ({"objective__policy__trust": Forgetful()}, "`objective.policy.trust` is Forgetful (test_compatibility.py, line"),
        ({"study": ShuffledEpochs()}, "study cannot be ShuffledEpochs"),
        ({"study": HeldOut(reward=Remembering())}, "`study.reward` is Remembering (test_compatibility.py, line"),
        ({"reward": Remembering()}, "`reward` is Remembering, whose score"),
        ({"system": Clip()}, "system cannot be Clip, which lacks Ahead"),
        ({"players__reference__model": GroupRelative()}, "players.reference.model cannot be GroupRelative, which lacks Copy"),
    ],
)
def test_a_part_at_the_wrong_place_is_named_with_it(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UserError) as caught:
        check_fit(grpo.but(**changes), TOY)
    assert str(caught.value).startswith(sentence)


LEARNS = Player(Head(of=Copy("policy")), objective=Frozen(value=ValueLoss()))


@pytest.mark.parametrize(
    ("recipe", "sentence"),
    [
        (grpo.but(credit=None), "objective trains policy, but recipe grpo has no credit; set a rule with --credit"),
        (
            grpo.but(players__policy=Player(objective=grpo.objective)),
            "players.policy.objective has no effect: the policy uses the recipe's objective",
        ),
        (grpo.but(optimizer=None), "objective trains policy, but recipe grpo has no optimizer"),
        (
            grpo.but(players__critic=LEARNS),
            "players.critic.objective trains critic, but recipe grpo has no players.critic.credit",
        ),
        (grpo.but(players__critic=replace(LEARNS, learns_from="polcy")), 'unknown player "polcy" (did you mean policy?)'),
    ],
)
def test_nobody_learns_from_nothing(recipe: Any, sentence: str) -> None:
    with pytest.raises(UserError) as caught:
        check_learning(recipe)
    assert str(caught.value).startswith(sentence)


@pytest.mark.parametrize(
    ("key", "sentence", "remedy"),
    [
        ("dapo", "`selection` is Mixed, which needs to know the right answers, but RewardModel gives only scores", ("selection", "Informative")),
        ("rft", "`selection` is RightAndDistinct, which", ("selection", "Best")),
        ("vapo", "`objective.imitation` is ImitateRight, which", ("objective.imitation", "none")),
        ("scaf_grpo", "`rollout` is Scaffold, which", ("rollout", "Auto")),
    ],
)
def test_scores_mark_nothing_as_right(key: str, sentence: str, remedy: tuple[str, str]) -> None:
    recipe = registry.recipe(key)
    check_right(recipe)  # judged by its verifier
    check_right(recipe.but(reward=Verified() + RewardModel()))
    scored = recipe.but(reward=RewardModel())
    if key == "dapo":
        scored = override_all(scored, [("rollout.until", "Informative")])  # it refills, too
    with pytest.raises(UserError) as caught:
        check_right(scored)
    assert str(caught.value).startswith(sentence)
    assert f"set --{remedy[0]} {remedy[1]}," in str(caught.value)
    check_right(override_all(scored, [remedy]))


def test_what_a_part_holds_asks_for_right_answers_too() -> None:
    with pytest.raises(UserError, match=r"^`rollout\.until` is Mixed, .* set --rollout\.until Informative,"):
        check_right(grpo.but(reward=0.5 * RewardModel(), rollout=DynamicSampling()))


def test_a_player_may_have_what_the_recipe_lacks() -> None:
    check_learning(grpo.but(credit=None, players__policy=Player(credit=GroupRelative())))
    check_learning(grpo.but(objective=None, credit=None, optimizer=None))
    check_learning(ppo.but(players__critic__credit=None))  # it learns from the policy, whose credit is its own then


@dataclass(frozen=True)
class Source:
    given: Any
    size: int | None = 3

    def draw(self, indices: Sequence[int], level: float | None, key: Key) -> Any:
        return self.given


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        (None, "task toy: its source of problems for evaluation is None, which has no `size`; set a source with `size` and `draw`"),
        (Source([], size=0), "task toy has no problems for evaluation; its source must give at least one"),
        (Source([]), "task toy: its source was asked for one problem for evaluation, and gave []"),
        (Source("ab"), "task toy: its source was asked for one problem for evaluation, and gave 'ab'"),
        (Source([Problem("p", "toy")]), "task toy: problem p has neither text nor messages"),
    ],
)
def test_a_source_without_problems(source: Any, sentence: str) -> None:
    check_problems(TOY)
    with pytest.raises(UserError) as caught:
        check_problems(replace(TOY, held_out=source))
    assert str(caught.value).startswith(sentence)


def test_a_source_is_not_read_to_see_what_it_is():
    task = load_task("gsm8k", {"held_out": "gone.jsonl"})  # its training file is not named: an evaluation does without
    check_fit(grpo.but(players__reference=None, objective__kl=None), task)


def test_the_columns_of_a_part_are_asked_of_the_task_of_its_own_stage_only():
    with pytest.raises(UserError, match="needs problems with answers, rewards, which task toy does not provide"):
        check_fit(grpo.but(rollout=RecordedAnswers()), TOY)
    check_fit(grpo.but(schedule=Stages(Frozen(later=Stage(changes=Frozen(rollout=RecordedAnswers()))))), TOY)
