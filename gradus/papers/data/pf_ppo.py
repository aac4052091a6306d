"""PF-PPO: PPO that trains only on chosen ranks of each prompt's answers, because a learned reward is most reliable at its extremes.

    w = (1, 0, ..., 0), quad w = (1/2, 1/(2(N-1)), ..., 1/(2(N-1))), quad w = (1/2, 0, ..., 0, 1/2)
    R^2 = 1 - (sum_b (s_b - hat s_b)^2) / (sum_b (s_b - bar s)^2), quad hat s_b = a + c r_b

The N answers to a prompt are sorted by the learned reward; rank 1 is the best. A filter keeps some ranks with the shares w: the best answer alone
(best of N), the best answer and a random other answer, or the best answer and the worst answer. PPO then trains policy and critic on the kept answers
alone. The filter is chosen before training, by a high $R^2$ (see `r_squared`). On held-out prompts with true scores the filtered answers are put into
bins by their reward. $r_b$ and $s_b$ are the mean reward and the mean true score of bin b, and $hat s_b$ is the value at $r_b$ of the line fitted to
all bins. In the paper $R^2$ is high for the filters with a random other answer and with the worst answer.

Use if: a learned reward judges, its middle values tell little about the true score, and sampling is cheap enough to sample more answers than are used.
Avoid if: a verifier judges, because then every answer has its true score (see ppo, grpo). If the judge's highest values are wrong, every filter keeps
them.
Reference: Shen and Zhang, Policy Filtration in RLHF to Fine-Tune LLM for Code Generation, arXiv:2409.06957, section 4: N = 5, KL coefficient 0.01,
learning rates 5e-7 (policy) and 9e-6 (critic). The released scripts make one pass over 1,024 answers in mini-batches of 256.
Departures: The released code first whitens the advantages of all answers. Then it draws answers with replacement from the whole buffer, with these shares.
(The weights of the random filter are 0.4 and 0.1, which are the same shares for five answers.) Here the filter keeps two different answers of each prompt,
and whitens the advantages of the kept answers. So every prompt has equal weight, and the shares are right on average. The released scripts normalise
rewards; here they are not normalised, because the advantages are whitened. The critic has the learning rate of the policy; with a large model
set `--players.critic.optimizer AdamW --players.critic.optimizer.lr 9e-6`. Our own choices are the ten bins with equal numbers of answers, and the fit
by least squares.
"""

from __future__ import annotations

import numpy as np

from gradus.papers.bases.ppo import ppo
from gradus.recipe.claim import Claim, same_weights
from gradus.selection.filters import KeptByRank
from gradus.types import UserError


def r_squared(rewards: np.ndarray, truths: np.ndarray, *, bins: int = 10) -> float:
    """Computes R^2 of the line from the mean reward to the mean true score of bins of answers. R^2 is 0 if all bins have equal rewards or equal
    scores.

    Args: rewards [n], truths [n] of filtered answers, n at least 1; bins: the number of bins (n if it is above n). Sorted by reward, the answers are
    cut into bins of nearly equal size.
    """
    if rewards.shape != truths.shape or rewards.ndim != 1 or not len(rewards):
        raise UserError(
            f"r_squared got rewards of shape {list(rewards.shape)} and true scores of shape {list(truths.shape)}; give two "
            "one-dimensional arrays of the same length, with at least one number each"
        )
    order = np.argsort(rewards, kind="stable")
    parts = np.array_split(order, min(bins, len(order)))
    reward, truth = (np.array([values[part].mean() for part in parts], np.float64) for values in (rewards, truths))
    spread, total = float(np.square(reward - reward.mean()).sum()), float(np.square(truth - truth.mean()).sum())
    if spread < 1e-12 or total < 1e-12:
        return 0.0
    shared = float(((reward - reward.mean()) * (truth - truth.mean())).sum())
    return shared**2 / (spread * total)


pf_ppo = ppo.derive(
    "pf_ppo",
    "Trains on the best answer and another one of each prompt, because a learned reward is most reliable at its extremes.",
    family="data",
    credit__coefficient=0.01,
    selection=KeptByRank(),
    update__epochs=1,
    update__count=4,
    setting__group=5,
)

claims = (
    same_weights(
        says="If all ranks are kept, the final weights are those of PPO with as many updates.",
        source="arXiv:2409.06957, equal weights of all ranks",
        against="ppo --credit.coefficient 0.01 --update.epochs 1 --update.count 4",
        own={"selection.rule": "all"},
    ),
    Claim(
        says=(
            "With a reward model from noisy pairs as the judge, the true accuracy at the end is at least 0.05 higher with the best and a random other answer than "
            "with all answers, after as many updates."
        ),
        source="arXiv:2409.06957, tables 2 and 3 (BR above PPO); the size of the effect, the ground and its budget are ours",
        against="pf_ppo --selection.rule all",
        measure="accuracy",
        better_by=0.05,
        ground="gold_proxy",
        fields={"group": "5", "prompts": "12"},
    ),
    Claim(
        says="With the best and the worst answer the true accuracy at the end is at least 0.05 higher than with all answers, after as many updates.",
        source="arXiv:2409.06957, tables 2 and 3 (BW above PPO); the size of the effect, the ground and its budget are ours",
        against="pf_ppo --selection.rule all",
        measure="accuracy",
        better_by=0.05,
        ground="gold_proxy",
        fields={"group": "5", "prompts": "12"},
        own={"selection.rule": "best_and_worst"},
    ),
)
