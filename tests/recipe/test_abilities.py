"""What recipe, task and policy ask of each other, by ability."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import pytest

from gradus.recipe.abilities import check_acting
from gradus.recipe.registry import recipe
from gradus.rollouts.dynamic_sampling import DynamicSampling
from gradus.rollouts.flow_sampling import FlowSampling
from gradus.tasks.flow.flow_2d import flow_2d
from gradus.testing.methods import TOY, TOY_EPISODES, BigramPolicy, toy_flow
from gradus.types import UserError
from gradus.types.spaces import Box, Choice, Space


@dataclass(frozen=True)
class World:
    shows: frozenset[str] = frozenset({"text"})
    acts: Space = Choice(("up", "down"))

    def start(self, problem: Any, key: Any, world: Any) -> Any:
        raise NotImplementedError


def check(made: Any, task: Any, policy: Any) -> None:
    check_acting(made, task, {"policy": SimpleNamespace(policy=policy)})


def in_world(**fields: Any) -> Any:
    return replace(TOY_EPISODES, environment=World(**fields))


def test_what_fits_is_silent() -> None:
    check(recipe("grpo"), TOY, BigramPolicy())
    check(recipe("grpo"), in_world(), BigramPolicy())  # a language model writes the names
    check(recipe("flow_grpo"), flow_2d(), toy_flow())
    check(recipe("awm"), flow_2d(), toy_flow())


@pytest.mark.parametrize(
    ("made", "task", "policy", "sentence"),
    [
        ("grpo", in_world(shows=frozenset({"array"})), BigramPolicy(), r"shows array, but the policy reads only .*text; .*--players.policy.model Fresh"),
        ("grpo", in_world(shows=frozenset({"text", "audio"})), BigramPolicy(), r"shows audio, but the policy reads only .*text; name a model that reads sound"),
        ("grpo", in_world(acts=Box((0.0,), (1.0,))), BigramPolicy(), r"accepts 1 numbers as an action, which this policy cannot produce \(the policy reads"),
        ("grpo", TOY, toy_flow(), "shows text, but the policy reads only condition; name a language model with --model"),
        ("grpo", flow_2d(), BigramPolicy(), "shows condition, but the policy reads only .*text; leave --model out, or name a flow generator"),
        ("flow_grpo", TOY, BigramPolicy(), "`rollout` is FlowSampling, which needs a policy that offers drawing; .* for example flow_2d"),
        ("grpo", flow_2d(), toy_flow(), "task flow_2d needs drawing, but the rollout of recipe grpo does not give drawing; set --rollout FlowSampling"),
    ],
)
def test_what_does_not_fit_says_what_to_add(made: str, task: Any, policy: Any, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        check(recipe(made), task, policy)


def test_a_rollout_within_another_counts() -> None:
    inside = recipe("grpo").but(rollout=DynamicSampling(FlowSampling()))
    check(inside, flow_2d(), toy_flow())
    with pytest.raises(UserError, match=r"`rollout.rollout` is FlowSampling, which needs a policy that offers drawing"):
        check(inside, TOY, BigramPolicy())


def test_a_world_that_shows_itself_in_several_ways_names_the_others() -> None:
    @dataclass(frozen=True)
    class Ways(World):
        ways: tuple[str, ...] = ("text", "array")

    task = replace(TOY_EPISODES, environment=Ways(shows=frozenset({"array"})))
    with pytest.raises(UserError, match=r"or change the input with --task.show text"):
        check(recipe("grpo"), task, BigramPolicy())
