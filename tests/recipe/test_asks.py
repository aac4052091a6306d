"""What parts ask of each other. Every refusal is shown to be right: the combination that it names computes something else than it says."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pytest
import torch

from gradus.credit.groups import ProbeBaseline
from gradus.objectives.corrections import MaskedImportance
from gradus.objectives.ratios import Probability, SequenceRatio, SequenceTokenRatio, TokenRatio
from gradus.objectives.terms import PolicyGradient, TruncatedImportance, ValueLoss
from gradus.objectives.trust import CappedWeight, Clip, DualClip, Shaped, Trust, Unclipped
from gradus.papers.bases.grpo import grpo
from gradus.papers.bases.ppo import ppo
from gradus.papers.bases.remax import remax
from gradus.papers.credit.gigpo import AnchorStates, gigpo
from gradus.papers.objectives.m2po import SecondMoment, SecondMomentClip
from gradus.papers.thinking.delethink import Chunked
from gradus.recipe import registry
from gradus.recipe.asks import check_asks, check_plays
from gradus.recipe.core import Recipe
from gradus.rollouts.auto import Auto
from gradus.rollouts.behaviour_policy import BehaviourPolicy
from gradus.rollouts.dynamic_sampling import DynamicSampling
from gradus.rollouts.episodes import Episodes
from gradus.rollouts.greedy_baseline import WithGreedyBaseline
from gradus.rollouts.mismatched_prompts import MismatchedPrompts
from gradus.rollouts.single_turn import SingleTurn
from gradus.tasks.games.lake_environment import FrozenLake
from gradus.testing.methods import TOY, toy_batch, toy_group, train_toy
from gradus.types import Frozen, UserError
from gradus.types.signals import LogProb
from gradus.updates.only_players import OnlyPlayers
from gradus.updates.reset_weights import ResetWeights

PLAYED = replace(TOY, environment=FrozenLake())


def refused(recipe: Recipe) -> str:
    with pytest.raises(UserError) as caught:
        check_asks(recipe)
    return str(caught.value)


def slopes(term: PolicyGradient, logprobs: list[float], advantages: list[float], old: list[float] | None = None, **more: Any) -> list[float]:
    """The derivative of the term's loss by each log-probability: one group, an answer of one action for each advantage (or `lengths`)."""
    made = toy_batch(toy_group(*advantages, **more), advantages=advantages)
    leaf = torch.tensor(logprobs, dtype=torch.float64, requires_grad=True)
    made = replace(made, old={LogProb(): leaf.detach() if old is None else torch.tensor(old, dtype=torch.float64)})
    term.loss({LogProb(): leaf}, made)[0].backward()
    assert leaf.grad is not None
    return leaf.grad.tolist()


@pytest.mark.parametrize("key", sorted(registry.recipe_modules()))
def test_every_recipe_has_what_its_parts_ask_for(key: str) -> None:
    check_asks(registry.recipe(key))


# Trust regions and ratios


@pytest.mark.parametrize("trust", [Clip(), DualClip(), SecondMoment(), SecondMomentClip()])
def test_bounds_around_one_say_nothing_of_a_probability(trust: Trust) -> None:
    """A bad answer of probability 0.3 keeps all of its gradient while the policy has not moved, and none where the "ratio" is 0.3 itself."""
    assert "does not support the ratio Probability" in refused(grpo.but(objective__policy__trust=trust, objective__policy__ratio=Probability()))
    rare = [float(np.log(0.3))]
    assert slopes(PolicyGradient(TokenRatio(), trust), rare, [-1.0], lengths=[1]) == pytest.approx([1.0])
    assert slopes(PolicyGradient(Probability(), trust), rare, [-1.0], lengths=[1]) == [0.0]


@pytest.mark.parametrize("trust", [Unclipped(), CappedWeight(), Shaped()])
def test_others_hold_for_a_probability(trust: Trust) -> None:
    check_asks(grpo.but(objective__policy__trust=trust, objective__policy__ratio=Probability()))
    assert slopes(PolicyGradient(Probability(), trust), [float(np.log(0.3))], [-1.0], lengths=[1])[0] > 0


def test_what_is_shaped_by_likelihood_asks_for_the_likelihood() -> None:
    """f(r) = r / (r + 0.1): against the old policy a likely and an unlikely action have one slope, 0.1 / 1.1^2; of probabilities the unlikely more."""
    assert "Shaped, which supports only Probability, but the ratio is TokenRatio" in refused(grpo.but(objective__policy__trust=Shaped()))
    likely, rare = float(np.log(0.9)), float(np.log(0.1))
    term = PolicyGradient(TokenRatio(), Shaped())
    assert slopes(term, [likely, rare], [1.0, 1.0], lengths=[1, 1]) == pytest.approx([-0.5 * 0.1 / 1.21] * 2)
    first, second = slopes(PolicyGradient(Probability(), Shaped()), [likely, rare], [1.0, 1.0], lengths=[1, 1])
    assert second / first == pytest.approx((0.1 * 0.1 / 0.2**2) / (0.9 * 0.1 / 1.0**2))  # r f'(r) = r 0.1 / (r + 0.1)^2
    assert second < first < 0


@pytest.mark.parametrize("ratio", [TokenRatio(), SequenceTokenRatio(), SequenceRatio()])
def test_a_masked_token_keeps_no_gradient_unless_its_sequence_passes_it_on(ratio: Any) -> None:
    """Log-ratios 0.1, 0.3 | 0.01, 0.01 and A = 1: the second token is masked, for with it the mean of squares is above 0.015: 0.025 of tokens,
    0.020 of sequences (0.2, 0.2 | 0.01, 0.01; of equal ones the later goes first). The ratio of a sequence moves with all of its tokens."""
    trust = SecondMoment(tau=0.015)
    found = slopes(PolicyGradient(ratio, trust), [-0.9, -0.7, -0.99, -0.99], [1.0, 1.0], [-1.0] * 4, lengths=[2, 2])
    mine = grpo.but(objective__policy__trust=trust, objective__policy__ratio=ratio)
    if isinstance(ratio, SequenceRatio):
        assert found[1] == found[0] < 0
        assert "does not support the ratio SequenceRatio" in refused(mine)
    else:
        assert found[1] == 0 > found[0]
        check_asks(mine)


@dataclass(frozen=True)
class Narrow(Unclipped):
    ratios: ClassVar[tuple[type, ...]] = (TokenRatio, SequenceRatio)


def test_a_part_of_a_user_declares_the_ratios_that_it_holds_for() -> None:
    check_asks(grpo.but(objective__policy__trust=Narrow()))
    check_asks(grpo.but(objective__policy__trust=Narrow(), objective__policy__ratio=SequenceRatio()))
    said = refused(grpo.but(objective__policy__trust=Narrow(), objective__policy__ratio=SequenceTokenRatio()))
    assert said.startswith("`objective.policy.trust` is Narrow (test_asks.py, line ")
    assert said.endswith("supports only TokenRatio and SequenceRatio, but the ratio is SequenceTokenRatio; set --objective.policy.ratio TokenRatio")


@pytest.mark.parametrize("weight", [TruncatedImportance(), MaskedImportance()])
def test_a_correction_beside_a_ratio_that_holds_it_counts_twice(weight: Any) -> None:
    """pi / behaviour = 1.2 where pi / old = 1 and old / behaviour = 1.2: the gradient is 1.2, not 1.44."""
    corrected = PolicyGradient(TokenRatio(), Unclipped(), weight)
    check_asks(grpo.but(objective__policy=corrected))
    said = refused(grpo.but(objective__policy=replace(corrected, ratio=TokenRatio("behaviour"))))
    assert "supports only a ratio with against='old', but TokenRatio has against='behaviour'" in said
    now = [float(np.log(1.2))]  # behaviour log-probabilities are 0
    assert slopes(corrected, now, [1.0], lengths=[1]) == pytest.approx([-1.2])
    assert slopes(replace(corrected, weight=None, ratio=TokenRatio("behaviour")), now, [1.0], lengths=[1]) == pytest.approx([-1.2])
    assert slopes(replace(corrected, ratio=TokenRatio("behaviour")), now, [1.0], lengths=[1]) == pytest.approx([-1.44])


def test_given_answers_have_no_behaviour_to_be_compared_with() -> None:
    term = PolicyGradient(TokenRatio("behaviour"), Unclipped(), source="expert")
    assert "the source `expert` are not sampled; set --objective.given.ratio Probability" in refused(grpo.but(objective__given=term))
    check_asks(grpo.but(objective__given=replace(term, ratio=Probability())))
    check_asks(grpo.but(objective__given=replace(term, ratio=TokenRatio())))
    check_asks(grpo.but(objective__given=replace(term, source="replay")))


# What one part gives another


def test_a_baseline_of_probes_asks_for_probes() -> None:
    """Without one every advantage is zero, and nothing is ever learned."""
    check_asks(remax)
    without = remax.but(rollout=Auto())
    assert refused(without).startswith("`credit` is ProbeBaseline, which needs probes")
    check_asks(without.but(rollout=DynamicSampling(WithGreedyBaseline())))
    rewards: list[float] = []
    train_toy(without, steps=1, watch=lambda run, row, groups: rewards.extend(t.advantages.sum() for g in groups for t in g.trajectories))
    assert rewards
    assert not any(rewards)
    assert not np.any([c.advantages for row in ProbeBaseline().assign([toy_group(1.0, 0.0)], {}) for c in row])


def test_values_ask_for_returns_of_their_own_rule() -> None:
    check_asks(ppo)
    assert "`players.critic.objective.value` is ValueLoss, which needs returns" in refused(ppo.but(credit=grpo.credit))
    assert "needs returns" in refused(ppo.but(players__critic__credit=grpo.credit))  # the policy's rule does not help
    check_asks(ppo.but(players__critic__credit=ppo.credit, credit=grpo.credit))
    with pytest.raises(UserError, match="gives no returns"):
        ValueLoss().loss({ValueLoss().wants[0]: torch.zeros(2)}, replace(toy_batch(toy_group(1.0)), returns=torch.full((2,), float("nan"))))


def test_turns_and_drift_are_asked_for_before_the_first_step() -> None:
    kto = registry.recipe("kto")
    check_asks(kto)
    assert "needs mismatched" in refused(kto.but(rollout=Auto()))
    check_asks(kto.but(rollout=BehaviourPolicy("policy", MismatchedPrompts())))
    check_asks(gigpo)
    assert "AnchorStates, which needs turns, but no other part of the recipe gives turns; set --rollout Episodes" in refused(gigpo.but(rollout=SingleTurn()))


@dataclass(frozen=True)
class Probing(Auto):
    gives: ClassVar[frozenset[str]] = frozenset({"probes"})


@dataclass(frozen=True)
class Hungry(ProbeBaseline):
    asks: ClassVar[Frozen[str]] = Frozen(salt="--rollout Salted")


def test_a_users_part_gives_and_asks_as_well() -> None:
    check_asks(remax.but(rollout=Probing()))
    assert refused(remax.but(credit=Hungry())).startswith("`credit` is Hungry (test_asks.py, line ")


# Tasks of one turn, and those with an environment


@pytest.mark.parametrize(
    ("recipe", "task", "other"),
    [
        (grpo.but(rollout=Episodes()), PLAYED, TOY),
        (grpo.but(rollout=DynamicSampling(Episodes())), PLAYED, TOY),
        (grpo.but(rollout=SingleTurn()), TOY, PLAYED),
        (grpo.but(rollout=Chunked()), TOY, PLAYED),
        (grpo.but(credit=AnchorStates()), PLAYED, TOY),
    ],
)
def test_a_part_for_tasks_of_another_kind(recipe: Recipe, task: Any, other: Any) -> None:
    check_plays(recipe, task)
    with pytest.raises(UserError, match=f'task "{other.name}"'):
        check_plays(recipe, other)


@pytest.mark.parametrize("task", [TOY, PLAYED])
def test_what_suits_every_task(task: Any) -> None:
    check_plays(grpo, task)
    check_plays(remax, task)


# Names of players


@pytest.mark.parametrize(
    ("changes", "where"),
    [
        ({"rollout": BehaviourPolicy("generater")}, "rollout.player of BehaviourPolicy"),
        ({"rollout": DynamicSampling(BehaviourPolicy("gone"))}, "rollout.rollout.player of BehaviourPolicy"),
        ({"rollout": MismatchedPrompts(reference="gone")}, "rollout.reference of MismatchedPrompts"),
        ({"update": OnlyPlayers(("policy", "gone"))}, "update.players of OnlyPlayers"),
        ({"update": ResetWeights(of="gone")}, "update.of of ResetWeights"),
    ],
)
def test_a_player_that_there_is_not(changes: dict[str, Any], where: str) -> None:
    said = refused(grpo.but(**changes))
    assert "unknown player" in said
    assert where in said
    check_asks(grpo.but(rollout=BehaviourPolicy("reference"), update=OnlyPlayers(("policy", "reference"))))
