"""OPRL: a second model learns step rewards online, by DPO on whole episodes. The step advantages from these rewards are added to the advantages of
the episode.

    loss_phi = mean over pairs of -log sigmoid(sum_k r_(w,k) - sum_k r_(l,k)), quad r_(i,k) = beta sum_j [log pi_phi(a_(i,k,j)) - log pi_old(a_(i,k,j))]
    A_(i,k) = (o_i - mean(o)) / (std(o)) + alpha (r_(i,k) - mean(r)) / (std(r))
    loss = mean over episodes of the mean over tokens of -min(rho A, clip(rho, 1 - 0.2, 1 + 0.2) A) + 0.01 k_3

$a_(i,k,j)$ is token j of the action at step k of episode i. The reward model $pi_phi$ starts as the policy, and $pi_old$ is the policy that played. The
policy reads the rewards after the update of the reward model. A pair has two episodes of one problem with outcomes $o_w > o_l$. Mean and deviation of
o are over the group; mean and deviation of r are over all steps of the group. The weight alpha is 1; beta is 0.05, and acts only in the loss of the reward
model. The pairs train the sum of r over an episode, so the step rewards divide a learned preference among the steps. Metrics: prm/preferred,
prm/margin.

Use if: an agent acts over many turns, only the outcome is judged, and the memory is large enough for a second model.
Avoid if: states recur within a group (see gigpo, which needs no second model), or episodes have one turn (see prime, grpo).
Reference: Liu et al., Agentic Reinforcement Learning with Implicit Step Rewards, arXiv:2509.19199 (version 1: Online Process Reward Learning ...):
trajectory DPO, step advantages, their sum. The 8 episodes per problem, beta and alpha are as in the released scripts.
Departures: The KL coefficient and the 4 mini-batches are our choices; the released scripts have no KL term, and the learning rates are 5e-7 (policy)
and 1e-6 (reward model). The scripts take RLOO as the base (`--credit.rule LeaveOneOut --credit.scale none`). The released code compares episodes by
means over steps, and pairs successes with failures only. The released code reads r before the update of the reward model, and takes mean and
deviation of r over one step per episode. In the released code an invalid action costs 0.1. The released reward model reads text in place of the
policy's pictures.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np

from gradus.credit.groups import Constant, GroupRelative, Scale, group_relative
from gradus.credit.turns import turns_of
from gradus.objectives.preference import Preference
from gradus.objectives.scores import LogRatio
from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim, same_weights
from gradus.rewards.environment import EnvironmentReturn
from gradus.rollouts.episodes import Episodes
from gradus.selection.pairs import Higher, RankedPairs
from gradus.types import Frozen, Group
from gradus.types.parts import Credit, Credited, Signals
from gradus.types.players import Copy, Player
from gradus.types.ranges import check_ranges
from gradus.types.returned import assigned
from gradus.types.signals import LogProbs, Signal

ROUNDING = 1e-5  # nats; a smaller log-ratio comes from rounding, and the division by the deviation would make it large


@dataclass(frozen=True)
class ImplicitSteps:
    """Adds alpha times the implicit reward of each step to the advantages of `rule`. These rewards are standardised over all steps of the group."""

    rule: Credit = GroupRelative()  # compares whole episodes
    alpha: float = 1.0
    beta: float = 0.05
    scale: Scale = "population"  # the deviation by which step rewards are divided
    model: str = "prm"
    names_players: ClassVar[tuple[str, ...]] = ("model",)
    asks: ClassVar[Mapping[str, str]] = Frozen({"turns": "--rollout Episodes"})
    plays: ClassVar[str] = "episodes"

    def __post_init__(self) -> None:
        check_ranges(self, alpha="[0, inf)", beta="(0, inf)")

    @cached_property
    def needs(self) -> tuple[Signal, ...]:
        return (*self.rule.needs, LogProbs(player=self.model, fresh=True), LogProbs())

    def assign(self, groups: Sequence[Group], signals: Signals) -> list[list[Credited]]:
        return [self._group(group, row, signals) for group, row in zip(groups, assigned(self.rule, groups, signals), strict=True)]

    def _group(self, group: Group, whole: Sequence[Credited], signals: Signals) -> list[Credited]:
        ours, old = (signals[need] for need in self.needs[-2:])
        episodes = [turns_of(t) for t in group.trajectories]
        ratios = [ours[t.id].astype(np.float64) - old[t.id] for t in group.trajectories]
        rewards = [self.beta * e.sums(np.where(np.abs(r) > ROUNDING, r, 0.0)) for r, e in zip(ratios, episodes, strict=True)]
        each = np.split(group_relative(np.concatenate(rewards), scale=self.scale), np.cumsum([len(r) for r in rewards])[:-1])
        return [replace(c, advantages=c.advantages + self.alpha * e.spread(s)) for c, e, s in zip(whole, episodes, each, strict=True)]


oprl = grpo.derive(
    "oprl",
    "A model learns by DPO on pairs of episodes which steps are good, and its step rewards give each step its own advantage.",
    family="credit",
    rollout=Episodes(),
    reward=EnvironmentReturn(),
    credit=ImplicitSteps(),
    objective__kl__coefficient=0.01,
    players__prm=Player(
        Copy("policy"),
        objective=Frozen(pairs=Preference(beta=0.05, score=LogRatio("policy"))),
        credit=Constant(),
        learns_from="policy",
        selection=RankedPairs(by=(Higher(),)),
        first=True,
    ),
    update__count=4,
)

claims = (
    same_weights(
        says="Without the step advantages the final weights of policy and reference are those of GRPO on the same episodes.",
        source="arXiv:2509.19199, alpha 0",
        against="grpo --rollout Episodes --reward EnvironmentReturn --objective.kl.coefficient 0.01 --update.count 4",
        own={"credit.alpha": "0"},
        task="frozen_lake",
    ),
    Claim(
        says="On sokoban the mean reward over 12 steps is at least 0.02 above that with the advantages of whole episodes alone.",
        source="arXiv:2509.19199, results on WebShop and VisualSokoban (above RLOO and GRPO with fewer steps); the task and the size of the effect are ours",
        against="oprl --credit.alpha 0",
        measure="reward:mean",
        better_by=0.02,
        task="sokoban",
        fields={"prompts": "4", "group": "6", "learning_rate": "1e-4", "study": "none"},
        budget="steps=12",
    ),
    Claim(
        says="On sokoban the reward model gives the better of two fresh episodes the larger sum of step rewards in at least 0.6 of the pairs of 12 steps.",
        source="arXiv:2509.19199, the objective of the reward model; the task and the share are ours (0.5 is chance)",
        measure="prm/preferred:mean",
        better_by=0.6,
        task="sokoban",
        fields={"prompts": "4", "group": "6", "learning_rate": "1e-4", "study": "none"},
        budget="steps=12",
    ),
)
