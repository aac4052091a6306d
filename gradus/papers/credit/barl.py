"""BARL: a belief over candidate answers weighs the progress of each step. Answers that the observed progress contradicts count less.

    Q_i(t) = pi(a_i | s_t), quad d_i(t) = Q_i(t) - Q_i(t - 1)
    b_i(t) prop p_i prod_(u <= t) exp(-beta |d_0(u) - d_i(u)|), quad p_i prop Q_i(0)
    A_t = sum_i b_i(t - 1) d_i(t) + 1{t = T} (1{right} - V(T)), quad V(T) = sum_i b_i(T - 1) Q_i(T)

$a_0$ is the truth; $a_1$ to $a_n$ are distinct wrong answers of the group, at most 5. Each of these answers is a hypothesis about which answer earns the
reward. $s_t$ is the prompt with the first t of T steps. $Q_i(t)$ is the chance of the answer $a_i$ if the thought ended after step t: the geometric mean of
the probabilities of the answer's tokens and of the end token. $Q_i(T)$ is 1 for the answer that the text gives, else 0. $d_i$ is the progress towards answer
i, and the progress towards the truth, $d_0$, is the observed progress. The belief b sums to 1 over the hypotheses; with beta 0 the belief stays the prior p.
All tokens of a step have the advantage $A_t$, whitened over the batch. So a new strategy is rewarded if the observed progress contradicts the answer to which
the old strategy leads.

Use if: answers have only a few tokens, chains have several steps, and the model should learn to switch strategies.
Avoid if: answers are long or can be stated in many ways, or scoring each step for each candidate is too expensive (see grpo, vineppo).
Reference: Zhang et al., Beyond Markovian: Reflective Exploration via Bayes-Adaptive RL for LLM Reasoning, arXiv:2505.20561.
Departures: The code named in the paper (shenao-zhang/BARL) could not be read. The centring of the value, the last term of $A_t$ and the whitening are
our choices. Candidates come from the group itself, not from separate chains. If all chances at the prompt are 0, the prior is uniform.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from gradus.credit.gae import whiten
from gradus.credit.spans import spans_of
from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim, same_weights
from gradus.rollouts.answer_chances import AnswerChances
from gradus.types import Frozen, Group, Trajectory, UserError
from gradus.types.parts import Credited, Signals
from gradus.types.ranges import check_ranges
from gradus.types.signals import Signal


def beliefs(chances: np.ndarray, *, beta: float) -> np.ndarray:
    """Returns b(0), ..., b(T), [T + 1, n + 1], from the chances Q(0), ..., Q(T) of the truth and n hypotheses. Each row sums to 1."""
    progress = np.diff(chances, axis=0, prepend=chances[:1])
    against = np.abs(progress[:, :1] - progress).cumsum(0)
    prior = chances[0] if chances[0].sum() > 0 else np.ones(chances.shape[1])
    weights = prior * np.exp(-beta * against)
    return np.asarray(weights / weights.sum(1, keepdims=True))


def step_advantages(chances: np.ndarray, right: bool, *, beta: float) -> np.ndarray:
    """Returns A [T], before whitening, from the chances Q(0), ..., Q(T), [T + 1, n + 1]. The truth is the first column."""
    before = beliefs(chances, beta=beta)[:-1]
    out = (before * np.diff(chances, axis=0)).sum(1)
    out[-1] += float(right) - (before[-1] * chances[-1]).sum()
    return np.asarray(out)


@dataclass(frozen=True)
class BayesAdaptive:
    """The belief-weighted progress of each step, from the streams `span` and `chance`. Actions without a step get 0."""

    beta: float = 1.0  # with a larger beta, a hypothesis that differs from the observed progress loses weight faster
    whitened: bool = True  # whether advantages are whitened over all actions of the batch
    needs: ClassVar[tuple[Signal, ...]] = ()
    asks: ClassVar[Mapping[str, str]] = Frozen({"answer chances": "--rollout AnswerChances"})

    def __post_init__(self) -> None:
        check_ranges(self, beta="[0, inf)")

    def assign(self, groups: Sequence[Group], signals: Signals) -> list[list[Credited]]:
        rows = [self._of(t) for g in groups for t in g.trajectories]
        flat = iter(whiten(rows) if self.whitened else rows)
        return [[Credited(next(flat)) for _ in g.trajectories] for g in groups]

    def _of(self, trajectory: Trajectory) -> np.ndarray:
        if any(c.actions and "chance" not in c.streams for c in trajectory.contexts):
            raise UserError(f"trajectory {trajectory.id} has no probabilities of the candidate answers; set --rollout AnswerChances")
        spans = spans_of(trajectory)
        steps = list(dict.fromkeys(spans[spans >= 0].tolist()))
        if not steps:
            return np.zeros(len(spans))
        chances = np.concatenate([c.streams["chance"] for c in trajectory.contexts if c.actions])
        firsts = [spans.tolist().index(step) for step in steps]
        states = np.stack([*chances[firsts, 0], chances[firsts[-1], 1]])
        found = dict(zip(steps, step_advantages(states[:, ~np.isnan(states[0])], trajectory.right, beta=self.beta), strict=True))
        return np.array([found.get(step, 0.0) for step in spans.tolist()])


barl = grpo.derive(
    "barl",
    "The progress of each step towards candidate answers is weighted by a belief, which observed progress updates.",
    family="credit",
    rollout=AnswerChances(),
    credit=BayesAdaptive(),
)

claims = (
    same_weights(
        says="With the truth as the only hypothesis the belief has no effect: the final weights do not depend on beta.",
        source="arXiv:2505.20561, the posterior over a single hypothesis",
        against="barl --rollout.hypotheses 0 --credit.beta 0",
        own={"rollout.hypotheses": "0"},
    ),
    Claim(
        says="On arithmetic the mean reward over 20 steps is at least 0.02 above that of GRPO.",
        source="arXiv:2505.20561, main results (above GRPO and a progress reward on mathematics); the task and the size of the effect are ours",
        against="grpo",
        measure="reward:mean",
        better_by=0.02,
        task="arithmetic",
        fields={"prompts": "4", "group": "8", "learning_rate": "1e-4", "study": "none"},
        budget="steps=20",
    ),
)
