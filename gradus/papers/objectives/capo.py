"""CAPO: predicts for every token, from the last layer alone, how far its gradient would move the policy, and masks the tokens that would move it too
far.

    s_t = e(a_t) - p_t, quad g_t = A_t s_t h_t^T
    G_t = m_hat_t / (sqrt(v_hat_t) + epsilon), quad u_t = G_t h_t
    m_F = 1/2 eta^2 (s_t^T u_t)^2
    m_H = eta g_t cdot G_t + 1/2 eta^2 A_t ((s_t^T u_t)^2 - sum_a p_t(a) u_t(a)^2 + (sum_a p_t(a) u_t(a))^2)
    M_t = 1 "if" m_F < 0.0001 "and" |m_H| < 0.01, quad "else" 0

$h_t$ is the input of the output layer before token $a_t$, $p_t$ the distribution, and e(a) the one-hot vector of a. $g_t$ is the gradient that the
token alone gives to the output layer. $m_hat$ and $v_hat$ are Adam's corrected moments, advanced by $g_t$, so $G_t$ is Adam's step for this token
alone, at the learning rate eta. $m_F$ is the predicted change of the policy (Fisher, a KL divergence), and $m_H$ the predicted change of the
objective to the second order. The test needs no backward pass, and reads the 50 likeliest tokens and the token itself.

The moments belong to a model of the optimizer, not to the optimizer itself. After each step, the moments of each token of the vocabulary advance
by the mean gradient that the kept tokens give to its row. Before the first step the moments are empty, and G = g, as with `--credit.optimizer sgd`.
The update is GRPO without KL and without the deviation, on the kept tokens only; the mean over answers counts only answers with kept tokens.
`--credit.rate` must be the learning rate of the run. The default is the paper's 1.5e-5, five times a usual rate. Metric: masked_share.

Use if: few samples are affordable, so the learning rate is high and the batch small.
Avoid if: the learning rate is low, because no token is then masked, and the method is GRPO without deviation (see dr_grpo, trpo).
Reference: Melo et al., Stabilizing Policy Gradients for Sample-Efficient Reinforcement Learning in LLM Reasoning, arXiv:2510.00819. The formulas and
thresholds are as in the released code (luckeciano/stable-pg-llm, GRPO with Adam): $m_F$ has the sampled score and the token's own state, the bound
on $m_H$ is symmetric, and each batch is used for one update. The settings of the code for Dr. GRPO are `--credit.policy_bound 0.001
--credit.objective_bound 0.0005`.
Departures: The learning rate of the prediction does not follow warm-up. The released code normalises $p_t$ over the 50 likeliest tokens; here $p_t$
is the probability among all tokens. In the released code $h_t$ is the state at $a_t$ itself, one position after the state that predicts $a_t$. The mean over
answers in the code also counts an answer without kept tokens. `--credit.fisher exact` takes the mean of $(s^T u)^2$ over all actions, not only
the value of the sampled action.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
from torch import Tensor

from gradus.credit.adam_rows import AdamRows
from gradus.credit.groups import GroupRelative
from gradus.objectives.aggregation import SequenceMean
from gradus.objectives.trust import Clip
from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim, same_weights
from gradus.types import Group
from gradus.types.batch import Batch
from gradus.types.parts import Credit, Credited, Signals
from gradus.types.ranges import check_ranges
from gradus.types.readers import LastLayer
from gradus.types.returned import assigned
from gradus.types.signals import Read, Signal
from gradus.types.tally import Tally, tally

CELLS = 1 << 22  # largest number of entries of gradients [tokens, top, d] in memory at the same time


def predicted_changes(
    hidden: np.ndarray, chances: np.ndarray, advantages: np.ndarray, steps: np.ndarray, gradients: np.ndarray, *, rate: float, exact: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Returns (m_F, m_H), each [A]: the predicted changes of policy and objective by the step of each token alone.

    Args: `hidden` [A, d]; `chances` [A, k], in which the first column belongs to the action; `advantages` [A]; `steps`, `gradients` [A, k, d]: G and g.
    `exact`: m_F has the mean of (s^T u)^2 over all actions, not only the value of the sampled action.
    """
    u = np.einsum("akd,ad->ak", steps, hidden)
    along = u[:, 0] - (chances * u).sum(1)
    spread = (chances * u**2).sum(1) - (chances * u).sum(1) ** 2
    policy = 0.5 * rate**2 * (spread if exact else along**2)
    objective = rate * np.einsum("akd,akd->a", gradients, steps) + 0.5 * rate**2 * advantages * (along**2 - spread)
    return policy, objective


@dataclass(frozen=True)
class PredictedChange:
    """Gives weight 0 to actions whose predicted change of policy or objective is not below its bound. Advantages are those of `rule`."""

    rule: Credit = GroupRelative("none")
    policy_bound: float = 1e-4  # bound on m_F, in nats
    objective_bound: float = 0.01  # bound on |m_H|
    rate: float = 1.5e-5  # the learning rate of the run
    optimizer: Literal["adam", "sgd"] = "adam"
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    fisher: Literal["sampled", "exact"] = "sampled"
    top: int = 50  # tokens per position that the prediction reads

    def __post_init__(self) -> None:
        check_ranges(self, policy_bound="(0, inf]", objective_bound="(0, inf]", rate="[0, inf)", eps="(0, inf)", top="[1, inf)", betas="[0, 1)")

    @cached_property
    def reads(self) -> Signal:
        """The signal that contains the reading of the last layer."""
        return Read(reads=LastLayer(self.top, action=True))

    @property
    def needs(self) -> tuple[Signal, ...]:
        return (*self.rule.needs, self.reads)

    def start(self) -> dict[str, Any]:
        return {}

    def assign(self, groups: Sequence[Group], signals: Signals, state: dict[str, Any]) -> tuple[list[list[Credited]], dict[str, Any]]:
        rows = assigned(self.rule, groups, signals)
        model, sums = AdamRows.read(state), dict[int, tuple[Any, int]]()
        out = []
        for row, group in zip(rows, groups, strict=True):
            masks = [self._mask(signals[self.reads][t.id].astype(np.float64), c.advantages, model, sums) for c, t in zip(row, group.trajectories, strict=True)]
            out.append([c.weighted(m) for c, m in zip(row, masks, strict=True)])
        if not sums:
            return out, state
        tokens = sorted(sums)
        means = np.stack([total / count for total, count in (sums[token] for token in tokens)])
        return out, model.advanced(np.array(tokens), means, self.betas).stored()

    def _mask(self, rows: np.ndarray, advantages: np.ndarray, model: AdamRows, sums: dict[int, tuple[Any, int]]) -> np.ndarray:
        """Returns the mask [A] of a trajectory. Adds the gradients of the kept actions to `sums`: (sum, count) by token."""
        masks, few = [np.zeros(0)], max(1, CELLS // (self.top * (rows.shape[1] - 2 * self.top)))
        for at in range(0, len(rows), few):
            hidden, chances, named = np.split(rows[at : at + few], [-2 * self.top, -self.top], axis=1)
            tokens, a = named.astype(np.int64), advantages[at : at + few]
            gradients = a[:, None, None] * (np.eye(1, self.top) - chances)[:, :, None] * hidden[:, None, :]
            steps = gradients if self.optimizer == "sgd" else model.directions(tokens, gradients, self.betas, self.eps)
            policy, objective = predicted_changes(hidden, chances, a, steps, gradients, rate=self.rate, exact=self.fisher == "exact")
            mask = (policy < self.policy_bound) & (np.abs(objective) < self.objective_bound)
            masks.append(mask.astype(np.float64))
            used, mine = tokens[mask], gradients[mask]
            for token in np.unique(used[used >= 0]).tolist():
                total, count = sums.get(token, (0.0, 0))
                sums[token] = (total + mine[used == token].sum(0), count + int((used == token).sum()))
        return np.concatenate(masks)


@dataclass(frozen=True)
class CountingClip(Clip):
    """PPO's clip, and the metric masked_share: the share of actions with weight 0."""

    separable: ClassVar[bool] = True

    def losses(self, log_ratio: Tensor, advantages: Tensor, batch: Batch) -> tuple[Tensor, dict[str, Tally]]:
        losses, metrics = super().losses(log_ratio, advantages, batch)
        return losses, {**metrics, "masked_share": tally(batch.weight == 0)}


capo = grpo.derive(
    "capo",
    "A second-order model of the last layer predicts how far each token's gradient moves the policy; tokens that move it too far are masked.",
    family="objectives",
    credit=PredictedChange(),
    objective__policy__trust=CountingClip(0.2, 0.2),
    objective__policy__average=SequenceMean("weighted"),
    objective__kl=None,
    players__reference=None,
)

claims = (
    same_weights(
        says="With bounds that no token breaks, the final weights are those of the same update without the mask.",
        source="arXiv:2510.00819, the mask at infinite bounds",
        against="capo --credit GroupRelative --credit.scale none",
        own={"credit.policy_bound": "inf", "credit.objective_bound": "inf"},
    ),
    Claim(
        says="At a learning rate ten times the stable one, the accuracy at the end is at least 0.05 above that of the same update without the mask.",
        source="arXiv:2510.00819, results (stable where GRPO collapses); the ground and the size of the effect are ours",
        against="capo --credit.policy_bound inf --credit.objective_bound inf",
        own={"credit.rate": "3e-3"},
        measure="accuracy",
        better_by=0.05,
        ground="unstable",
    ),
)
