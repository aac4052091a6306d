"""AR and Lopti: lowers the advantages of unlikely tokens, and updates unlikely and likely tokens in two passes, so that unlikely tokens do not dominate.

    |e(a) - q| in [1 - q_a, sqrt(2) (1 - q_a)]
    A_t = (alpha p_t + 1 - alpha) (r - mean(r)) / (std(r))
    loss_1 = 1/N sum_t 1[p_t < eta] l_t, quad loss_2 = 1/N sum_t 1[p_t >= eta] l_t

The first line gives the reason. The gradient of $log q_a$ with respect to the logits is e(a) - q: the one-hot vector of token a minus the distribution q. So
an unlikely token has a large gradient. $p_t$ is the probability that the token had when it was sampled, without gradient. Advantage
reweighting (AR) is the second line, with alpha = 0.3.

Low-probability token isolation (Lopti) is the third line, with eta = 0.5. First the unlikely tokens are updated, then the likely tokens, each with all
mini-batches and optimizer steps. The first pass also moves likely tokens, as a side effect; the second pass corrects them. $l_t$ is the
token's loss, with clip and KL. N counts all tokens in both passes. The ratio compares with the policy before the first pass. `--update.eta 0` is AR
alone, for which the paper has alpha 0.2 (0.1 in mathematics). `--credit.factor.alpha 0` is Lopti alone, for which the paper has eta 0.4. Metric:
low_share, the share of tokens with $p_t < eta$.

Use if: rewards are sparse and a few unlikely tokens dominate the gradient, as in logic puzzles with long answers.
Avoid if: optimizer steps are the bottleneck, because every batch has two passes (see grpo, dapo).
Reference: Yang et al., Do Not Let Low-Probability Tokens Over-Dominate in RL for LLMs, arXiv:2505.12929. All numbers come from the released scripts
that use both parts together.
Departures: A pass without any token is left out; the released code makes the optimizer steps of such a pass, with a gradient of 0. $p_t$ is the probability
at sampling; the released code computes it again before the update. The released code takes the mean over the tokens of each micro-batch, adds 1e-6 to the
deviation, and samples at temperature 0.7 (`--temperature 0.7`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gradus.credit.groups import GroupRelative
from gradus.credit.probability import ByProbability
from gradus.credit.scaled import Scaled
from gradus.objectives.aggregation import TokenMean
from gradus.objectives.kl import KL
from gradus.objectives.terms import wants_of
from gradus.objectives.trust import DualClip
from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim, same_weights
from gradus.types import Key
from gradus.types.batch import Batch, only
from gradus.types.ranges import check_ranges
from gradus.updates.minibatches import Minibatches, forward


@dataclass(frozen=True)
class UnlikelyFirst:
    """Updates the policy twice on each batch with `update`: on actions with a probability at sampling below `eta`, then on the other actions.

    The ratios of both passes compare with the policy before the first pass. Other players are updated once, on the whole batch.
    """

    eta: float = 0.5
    update: Minibatches = Minibatches(count=2)
    reverse: bool = False  # True: updates the likely tokens first

    def __post_init__(self) -> None:
        check_ranges(self, eta="[0, 1]")

    def apply(self, players: Mapping[str, Any], batches: Mapping[str, Batch], step: int, key: Key) -> dict[str, float]:
        """Updates all players and returns their metrics; the metrics of the policy are means over its passes."""
        out = self.update.apply(players, {name: b for name, b in batches.items() if name != "policy"}, step, key)
        batch = batches.get("policy")
        if batch is None or not batch.actions:
            return out
        player = players["policy"]
        compared = tuple(w for w in wants_of(player.spec.objective) if w.compared)
        read = partial(_read, player.policy, batch, compared, key)
        low = (batch.behaviour_logprobs < float(np.log(self.eta))) if self.eta else torch.zeros_like(batch.group, dtype=torch.bool)
        passes = [m for m in ((~low, low) if self.reverse else (low, ~low)) if bool(m.any())]
        started = replace(batch, old=player.fitting(batch.contexts, read)) if len(passes) > 1 else batch
        seen = [self.update.apply(players, {"policy": only(started, m) if len(passes) > 1 else batch}, step, key) for m in passes]
        names = dict.fromkeys(name for metrics in seen for name in metrics)
        means = {name: float(np.mean([m[name] for m in seen if name in m])) for name in names}
        return {**out, **means, "low_share": float(low.double().mean())}


def _read(policy: Any, batch: Batch, wants: tuple[Any, ...], key: Key, micro_tokens: int) -> Mapping[Any, Tensor]:
    return forward(policy, batch, wants, micro_tokens, key)


ar_lopti = grpo.derive(
    "ar_lopti",
    "Unlikely tokens get smaller advantages, and each batch updates its unlikely tokens first and its likely tokens second.",
    family="objectives",
    credit=Scaled(GroupRelative("sample"), ByProbability()),
    objective__policy__trust=DualClip(low=0.2, high=0.24, ceiling=10.0),
    objective__policy__average=TokenMean(),
    objective__kl=KL(0.001, average=TokenMean()),
    update=UnlikelyFirst(),
)

_PLAIN = "ar_lopti --update Minibatches --update.count 2 --credit GroupRelative --credit.scale sample"

claims = (
    same_weights(
        says="With eta 0 and alpha 0 the final weights are those of one pass with unscaled advantages.",
        source="arXiv:2505.12929, both parts at their limits",
        against=_PLAIN,
        own={"update.eta": "0", "credit.factor.alpha": "0"},
    ),
    Claim(
        says="The mean reward over 30 steps is at least 0.02 above that of one pass with unscaled advantages.",
        source="arXiv:2505.12929, results on logic puzzles; the task and the size of the effect are ours",
        against=_PLAIN,
        measure="reward:mean",
        better_by=0.02,
        task="arithmetic",
        options={"level": "2"},
        fields={"prompts": "8", "group": "8", "learning_rate": "1e-4", "warmup": "0", "study": "none"},
        budget="steps=30",
    ),
)
