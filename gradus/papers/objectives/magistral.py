"""Magistral: GRPO with five changes, a bonus for the same language in the whole answer, and weights that change while answers are written.

    loss = 1/G sum_g 1/(sum_i |o_i|) sum_i sum_t -min(rho_(i,t) A_i, clip(rho_(i,t), 1 - 0.2, 1 + 0.28) A_i)
    A_i = (B_i - mean(B)) / (std(B))
    B_i = r_i - mean_g(r)
    rho_(i,t) = (pi(o_(i,t))) / (pi_sampled(o_(i,t)))
    r = f (0.1 + 0.9 v + 0.1 l + 0.1 s)

The five changes are as follows. There is no KL term. The loss of a group is divided by the group's number of tokens $sum_i |o_i|$. The advantage is
the reward minus the group's mean, normalised over the answers of the mini-batch, so it depends on the other groups of the mini-batch. The upper clip
is 0.28. Groups with equal rewards leave the batch first. G is the number of groups of the mini-batch.

The terms f, v and l are 0 or 1, and s is between 0 and -1. The term f is 1 if an answer has one closed block of thoughts, and text after it; else the whole
reward is 0. The term v is 1 if the task's verifier accepts the answer. The term l is 1 if the problem, the thoughts and the answer are in the same language,
after code and formulas are removed. The term s depends on the length: it is 0 up to $l_max - l_cache$ tokens, then it falls linearly to -1 at $l_max$.

Generators never stop. New weights reach the generators in the middle of an answer, so the tokens of one answer come from up to four versions, each
with its own probability $pi_sampled$. Each batch is cut into two mini-batches. Metric: clip_share.

The paper's data are problems that are solved in some of 16 tries, but not in all. The answers come first from a weak model, then from a model that this
method trained. `gradus screen` measures a task in this way. In later stages the paper raises the difficulty and the limit of tokens: `--schedule Ramp
--schedule.path setting.max_tokens --schedule.points ((0,40960),(1000,49152)) --schedule.shape step`.

Use if: long thoughts are trained at scale, generation is the bottleneck, and answers must keep the user's language.
Avoid if: the run has few steps, because the first steps train on few groups or on none (see dapo), or nearly all rewards are equal (see sec).
Reference: Mistral-AI, Magistral, arXiv:2506.10910, sections 2 (loss, reward) and 3 (generators). Magistral Medium has the clip 0.28 (0.26 to 0.28),
and Magistral Small has 0.3. No code is public.
Departures: An answer without any tag is judged by its text alone, because the built-in tasks have no thoughts; `--reward.first.required true` is the
paper's rule, with `--reward.first.answer "boxed or code"`. The language is the script of most letters, not the verdict of a trained classifier, so
languages with the same script count as one language; `--reward.then.parts.language.alphabets` names other sets of letters. No problem is translated.
When new weights arrive, the generators here read the whole answer again; in the paper they keep their old keys and values. The reward includes the
length only if the format is right.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from torch import Tensor

from gradus.credit.groups import GroupRelative
from gradus.objectives.aggregation import GroupMean
from gradus.objectives.ratios import TokenRatio
from gradus.objectives.trust import Clip
from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim, same_weights
from gradus.rewards.language import SameLanguage
from gradus.rewards.levels import GatedReward
from gradus.rewards.overlong import Overlong
from gradus.rewards.tags import Tags, answered
from gradus.rewards.verified import Verified
from gradus.rollouts.in_flight import InFlight
from gradus.selection.filters import Informative
from gradus.types.batch import Batch
from gradus.types.tally import Tally


def normalised(advantages: Tensor, batch: Batch) -> Tensor:
    """Normalises the advantages [A] by the mean and the deviation of the mean advantages of all answers of the mini-batch; returns zeros if all are equal."""
    each = np.array([float(np.mean(t.advantages)) for t in batch.trajectories if t.advantages is not None])
    deviation = float(each.std())
    if deviation <= 1e-12 * float(np.abs(each).max(initial=0.0)):
        return advantages * 0.0
    return (advantages - float(each.mean())) / deviation


@dataclass(frozen=True)
class NormalisedClip(Clip):
    """PPO's clip with advantages that are normalised over the answers of the mini-batch."""

    separable: ClassVar[bool] = True  # mean and deviation are known from the answers of the whole mini-batch

    def losses(self, log_ratio: Tensor, advantages: Tensor, batch: Batch) -> tuple[Tensor, dict[str, Tally]]:
        return super().losses(log_ratio, normalised(advantages, batch), batch)


@dataclass(frozen=True)
class OptionalTags(Tags):
    """The form of the tags; a completion that has none of the tags gets 1 if its whole text is of the kind `answer`."""

    def value(self, text: str) -> float:
        tagged = any(mark in text for name in self.order for mark in (f"<{name}>", f"</{name}>"))
        return super().value(text) if tagged else float(answered(text, self.answer))


magistral = grpo.derive(
    "magistral",
    "No KL, mini-batch normalisation, a wider upper clip, a reward gated by format with a bonus for one language, and new weights during generation.",
    family="objectives",
    rollout=InFlight(parts=4),
    reward=GatedReward(OptionalTags(("think",), answer="any"), 0.9 * Verified() + 0.1 * SameLanguage() + 0.1 * Overlong() + 0.1),
    selection=Informative(),
    credit=GroupRelative("none"),
    objective__policy__ratio=TokenRatio(against="behaviour"),
    objective__policy__trust=NormalisedClip(low=0.2, high=0.28),
    objective__policy__average=GroupMean(),
    objective__kl=None,
    players__reference=None,
    update__count=2,
)

claims = (
    same_weights(
        says="With one mini-batch, the final weights are those of advantages that are normalised over the batch.",
        source="arXiv:2506.10910, section 2, at one mini-batch per batch; the tolerance is that of rounding",
        against="magistral --update.count 1 --credit BatchRelative --objective.policy.trust Clip --objective.policy.trust.high 0.28",
        own={"update.count": "1"},
        within=1e-5,
        fields={"prompts": "4", "group": "4", "study": "none", "rollout.parts": "1"},
    ),
    Claim(
        says="The wider upper clip keeps the entropy of the policy at least 0.005 nats higher after 20 steps with weights in flight.",
        source="arXiv:2506.10910, section 2 (clip-higher keeps the entropy); the size of the effect and the task are ours",
        against="magistral --objective.policy.trust.high 0.2",
        measure="entropy:last",
        better_by=0.005,
        task="arithmetic",
        options={"level": "2"},
        fields={"prompts": "8", "group": "8", "warmup": "0", "study": "none", "learning_rate": "3e-4"},
        budget="steps=20",
    ),
)
