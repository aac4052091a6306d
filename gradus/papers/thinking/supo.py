"""SUPO: when the history of tool calls gets too long, the agent writes a summary and continues from it. Tool use and summaries are trained together.

    "context" = [p, z, "turns since" z]
    grad J = E[sum_(k = 0)^I A grad log pi("actions of context" k)]
    A_i = (R_i - mean(R)) / (std(R)), quad "over the" G "rollouts of a group"
    loss = -1/N sum_i sum_k sum_t min(rho A_i, clip(rho, 1 - 0.2, 1 + 0.28) A_i)

The working context has the first prompt p, the last summary z, and the turns since then. If this context would exceed L tokens, the last action and
observation are dropped. The agent then writes a new summary z, and the context is reset to p and z. A rollout with I summaries has I + 1 contexts. A
summary is an action, and the reset follows from it. So the policy gradient of the rollout is the sum of the gradients of its contexts, all with the
reward of the whole rollout. The mean and the deviation are over rollouts, so a rollout with many contexts does not count more often. N is the number
of all action tokens of the mini-batch; observations have no loss. A rollout that ends without an answer, after T turns or S summaries, has no loss:
otherwise the policy would learn not to summarise. The reward of such a rollout still counts in mean and deviation. A step has two updates. Metrics:
summaries, working.

Use if: the history of an episode is longer than the affordable context, and a short text can contain the results of the history.
Avoid if: all turns fit into the context (see grpo), or the policy cannot write a useful summary at all.
Reference: Lu et al., Scaling LLM Multi-turn RL with End-to-end Summarization-based Context Management, arXiv:2510.06727: the decomposition, advantages
over rollouts, the mask of overlong rollouts, and a larger S at test time (`--rollout.at_test`). No code was found.
Departures: Our own choices are L = 4096, S = 7, T = 100 and the number of updates. Masked rollouts stay in the mean and in the deviation with their
rewards; the paper does not say whether they stay. The tokens of masked rollouts do not count in N. The deviation is the population deviation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gradus.credit.groups import GroupRelative
from gradus.objectives.aggregation import TokenMean
from gradus.objectives.trust import Clip
from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim, same_weights
from gradus.rollouts.summaries import Summarised
from gradus.types import Group
from gradus.types.parts import Credit, Credited, Signals
from gradus.types.returned import assigned
from gradus.types.signals import Signal


@dataclass(frozen=True)
class Answered:
    """Gives weight 0 to rollouts with the link `unfinished`, so no loss term reads them. All rollouts get the credit of `rule`."""

    rule: Credit = GroupRelative()

    @property
    def needs(self) -> tuple[Signal, ...]:
        return self.rule.needs

    def assign(self, groups: Sequence[Group], signals: Signals) -> list[list[Credited]]:
        rows = assigned(self.rule, groups, signals)
        return [
            [c.weighted(np.zeros(t.actions)) if t.links.get("unfinished") else c for c, t in zip(row, g.trajectories, strict=True)]
            for row, g in zip(rows, groups, strict=True)
        ]


supo = grpo.derive(
    "supo",
    "An agent whose history gets too long writes a summary and continues from it; both are trained by the reward of the rollout.",
    family="thinking",
    rollout=Summarised(),
    credit=Answered(),
    objective__policy__trust=Clip(0.2, 0.28),
    objective__policy__average=TokenMean("weighted"),
    objective__kl=None,
    players__reference=None,
    update__count=2,
)

_PLAIN = "grpo --objective.kl none --players.reference none --objective.policy.trust.high 0.28 --objective.policy.average TokenMean --update.count 2"
_SMALL = {"rollout.play.history": "none", "rollout.play.max_turns": "8", "rollout.ask": "?", "rollout.title": "", "max_tokens": "8"}

claims = (
    same_weights(
        says="With a limit that no context reaches, and without the mask, the final weights are those of GRPO with the same loss.",
        source="arXiv:2510.06727, the decomposition at I = 0; stated again after a look, because the first task (corridor) gave no reward, so no weight moved",
        against=f"{_PLAIN} --rollout Episodes --rollout.max_turns 8",
        own={"rollout.limit": "100000", "rollout.play.max_turns": "8", "credit": "GroupRelative", "objective.policy.average.counted": "all"},
        task="frozen_lake",
        fields={"prompts": "4", "group": "4", "study": "none", "warmup": "0"},
    ),
    Claim(
        says="The longest prompt of a rollout has at most 0.7 times as many tokens as with a growing context.",
        source=(
            "arXiv:2510.06727, abstract (a lower working context); the task, L = 64 and the factor are ours. Stated again after a look: in the task "
            "corridor no context reached L = 96, and no reward moved a weight"
        ),
        against="supo --rollout.limit 100000",
        measure="working:mean",
        at_most=0.7,
        task="frozen_lake",
        fields={"prompts": "4", "group": "4", "study": "none", "warmup": "0", "learning_rate": "1e-4", **_SMALL},
        own={"rollout.limit": "64"},
        budget="steps=6",
    ),
)
