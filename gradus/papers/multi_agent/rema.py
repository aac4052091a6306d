"""ReMA: a meta-thinking agent plans and supervises, a reasoning agent executes. Both learn from the outcome, with one ratio per turn.

    m_k ~ pi_h(. | x, m_1, y_1, ..., y_(k-1)), quad y_k ~ pi_l(. | x, m_1, y_1, ..., m_k)
    rho_k = exp(min(3, 1/|K| sum_(t in K) (log pi(a_t) - log pi_old(a_t))))
    A_i = (R_i - mean(R)) / (std(R))
    loss_k = max(-A rho_k, -A clip(rho_k, 1 - 0.2, 1 + 0.2)), quad "and at most" -3 A "if" A < 0
    loss = mean over dialogues of the mean over turns of loss_k

In turn k of a dialogue on the problem x the meta-thinker h writes $m_k$, and the reasoner l writes $y_k$. Each agent sees the problem and the words of
both. R is the reward of the dialogue i: the outcome, and a reward for the form of the agent's own turns. A dialogue without an end earns no outcome. The
dialogues of an agent on one problem are a group; the advantage $A_i$ belongs to all tokens that this agent wrote. The words of the other agent and the
problem have no loss.

K is the set of the tokens of turn k. All of them share the ratio $rho_k$, the geometric mean of their ratios, so a turn is clipped as a whole. Above the cap
of 3 the mean log-ratio has no gradient. Long and short turns of a dialogue have equal weight. A batch is cut into 4
mini-batches, so the clip acts. One policy plays both agents; `rema_separate` gives each agent a policy, and trains the two policies alternately.

Use if: a problem splits into planning and execution, and turns have several tokens, so that a ratio per token is noisy.
Avoid if: a turn is a single token (the ratio is then the ratio of this token), or one agent solves the problem alone (see grpo).
Reference: Wan et al., ReMA: Learning to Meta-think for LLMs with Multi-Agent Reinforcement Learning, arXiv:2503.09501: the two agents, the shared
outcome, the turn-level ratio. The numbers are from the released script for shared weights (ziyuwan/ReMA-public): 128 problems with 16 dialogues, 30
turns, mini-batches of 512 dialogues, no KL term.
Departures: The team is our choice: the task `sokoban` with `team` has a planner, who names a move, and a checker, who makes the move. So the agents
write no tags to continue or to finish. The reward of the form is the local reward of the task: 0.1 for a legal move or -0.1 for an illegal move, plus
the progress of the move. In the released code a good form adds 0.25 and a bad form subtracts 0.25. The released code divides by the deviation of the
sample plus 1e-6. A group has the dialogues of one agent, so the mean over turns is taken for each agent; the numbers of turns of the two agents
differ by at most one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from gradus.objectives.ratios import Against, SpanRatio
from gradus.objectives.trust import DualClip
from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim, same_weights
from gradus.rewards.environment import EnvironmentReturn
from gradus.rollouts.episodes import Episodes
from gradus.rollouts.seats import Seats
from gradus.types import Frozen, Trajectory
from gradus.types.batch import Batch, segment_sum
from gradus.types.ranges import check_ranges


@dataclass(frozen=True)
class TurnRatio:
    """The log-ratio min(cap, mean over a turn of log r_t), the same number for all tokens of the turn. Above the cap there is no gradient."""

    cap: float = 3.0  # largest mean log-ratio, in nats
    against: Against = "old"
    separable: ClassVar[bool] = True  # a turn lies within one context, and a micro-batch contains whole contexts
    asks: ClassVar[Mapping[str, str]] = Frozen({"turns": "--rollout Episodes"})

    def __post_init__(self) -> None:
        check_ranges(self, cap="(0, inf]")

    def log_ratio(self, logprobs: Tensor, old: Tensor, batch: Batch) -> Tensor:
        return SpanRatio(self.against, stream="turn").log_ratio(logprobs, old, batch).clamp(max=self.cap)


@dataclass(frozen=True)
class TurnMean:
    """All turns of a trajectory have equal weight, and all trajectories have equal weight. An action has the weight 1 / (N * turns of the trajectory *
    actions of the turn)."""

    asks: ClassVar[Mapping[str, str]] = Frozen({"turns": "--rollout Episodes"})

    def coefficients(self, batch: Batch, source: str) -> Tensor:
        pairs = torch.stack([batch.context, batch.stream("turn").long()], 1)
        ids = torch.unique(pairs, dim=0, return_inverse=True)[1]
        inside = segment_sum(torch.ones_like(batch.weight), ids, int(ids.max()) + 1 if len(ids) else 0).index_select(0, ids)
        turns = torch.tensor([float(turns_in(t)) for t in batch.trajectories], dtype=torch.float64).to(batch.weight).index_select(0, batch.trajectory)
        return 1.0 / (inside * turns * max(batch.counts[source].trajectories, 1))


def turns_in(trajectory: Trajectory) -> int:
    """Returns the number of turns of a trajectory. The contexts of a trajectory have no turn in common."""
    return sum(len(set(c.streams["turn"].tolist())) for c in trajectory.contexts if c.actions and "turn" in c.streams)


rema = grpo.derive(
    "rema",
    "A meta-thinking and a reasoning agent learn from one outcome; the ratio, the clip and the mean are per turn.",
    family="multi_agent",
    rollout=Seats(play=Episodes(max_turns=60)),
    reward=EnvironmentReturn(),
    objective__policy__ratio=TurnRatio(),
    objective__policy__trust=DualClip(0.2, 0.2, 3.0),
    objective__policy__average=TurnMean(),
    objective__kl=None,
    players__reference=None,
    update__count=4,
    setting__prompts=128,
    setting__group=16,
)

_TEAM = {"prompts": "8", "group": "4", "learning_rate": "3e-4", "warmup": "0", "study": "none", "rollout.play.max_turns": "12", "update.count": "4"}

claims = (
    same_weights(
        says="With the ratio, the clip and the mean of GRPO, the final weights are those of GRPO on the seats of the team.",
        source="arXiv:2503.09501, the turn-level ratio; the limit is ours",
        against="grpo --rollout Seats --reward EnvironmentReturn --objective.kl none --players.reference none",
        own={"objective.policy.ratio": "TokenRatio", "objective.policy.trust": "Clip", "objective.policy.average": "SequenceMean"},
        task="sokoban",
        options={"team": "true"},
        fields={"prompts": "2", "group": "4", "study": "none", "rollout.play.max_turns": "6", "update.count": "2"},
    ),
    Claim(
        says="With ratios of turns, a share of clipped tokens at least 0.02 lower than with ratios of tokens follows from the same number of updates.",
        source="arXiv:2503.09501, the stability of the turn-level ratio; the measure, the task and the size of the effect are ours",
        against="rema --objective.policy.ratio TokenRatio",
        measure="clip_share:mean",
        better_by=-0.02,
        task="sokoban",
        options={"team": "true"},
        fields=_TEAM,
        budget="steps=6",
    ),
    Claim(
        says="Two agents that learn reach a mean success over 8 steps at least 0.05 above that of the same agents without learning.",
        source="arXiv:2503.09501, the ablation with an untrained agent; both agents are untrained here, and the size of the effect and the task are ours",
        against="rema --setting.learning_rate 0",
        measure="accuracy:mean",
        better_by=0.05,
        task="sokoban",
        options={"team": "true"},
        fields={name: value for name, value in _TEAM.items() if name != "learning_rate"},
        own={"setting.learning_rate": "3e-4"},
        budget="steps=8",
    ),
)
