"""The importance ratio of a policy term, for each token, span or sequence.

The denominator is the policy at the start of the update, the behaviour policy, the current policy, or 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol

import torch
from torch import Tensor

from gradus.types import Frozen
from gradus.types.batch import Batch, segment_sum

Against = Literal["old", "behaviour"]


class Ratio(Protocol):
    separable: ClassVar[bool]

    def log_ratio(self, logprobs: Tensor, old: Tensor, batch: Batch) -> Tensor:
        """Returns [A]: the log of each action's importance ratio. Only `logprobs` has a gradient."""
        ...


@dataclass(frozen=True)
class TokenRatio:
    """log r_t = log pi(a_t) - log pi_old(a_t). `against` names the policy in the denominator: "old" (at the start of the update) or "behaviour" (at sampling)."""

    against: Against = "old"
    separable: ClassVar[bool] = True

    def log_ratio(self, logprobs: Tensor, old: Tensor, batch: Batch) -> Tensor:
        return logprobs - (batch.behaviour_logprobs if self.against == "behaviour" else old)


@dataclass(frozen=True)
class SequenceRatio:
    """log s_i = mean over the trajectory of log r_t, the same number for all its actions. GSPO, arXiv:2507.18071, eq. 7."""

    against: Against = "old"
    separable: ClassVar[bool] = False  # depends on all actions of a trajectory, whose contexts may be in different micro-batches

    def log_ratio(self, logprobs: Tensor, old: Tensor, batch: Batch) -> Tensor:
        token = TokenRatio(self.against).log_ratio(logprobs, old, batch)
        sums = segment_sum(token, batch.trajectory, len(batch.trajectories))
        return sums.index_select(0, batch.trajectory) / batch.in_trajectory


@dataclass(frozen=True)
class SequenceTokenRatio:
    """log s_it = sg[log s_i] + log pi(a_t) - sg[log pi(a_t)], where sg stops the gradient.

    This ratio has the value of the sequence's ratio, and the gradient of the token's ratio.

    Use this ratio if the advantages differ within a trajectory. If all advantages of a trajectory are equal, the gradient under SequenceMean equals
    the gradient of SequenceRatio. GSPO-token, arXiv:2507.18071, eq. 14.
    """

    against: Against = "old"
    separable: ClassVar[bool] = False  # depends on all actions of a trajectory, whose contexts may be in different micro-batches

    def log_ratio(self, logprobs: Tensor, old: Tensor, batch: Batch) -> Tensor:
        value = SequenceRatio(self.against).log_ratio(logprobs.detach(), old, batch)
        return value + (logprobs - logprobs.detach())


@dataclass(frozen=True)
class SpanRatio:
    """log w = mean over a span of log r_t, the same number for all its actions. Actions outside of spans keep their own ratio.

    The stream `span` numbers the spans of a context from 0 (`--rollout WithSpans`). Actions of one context with the same number form a span. If the
    spans are the items of a ranked list, the ratio is the ratio of a rank: Zhu et al., Rank-GRPO, arXiv:2510.20150.
    """

    against: Against = "old"
    stream: str = "span"
    separable: ClassVar[bool] = True  # a span lies within one context, and a micro-batch contains whole contexts
    asks: ClassVar[Mapping[str, str]] = Frozen({"spans": "--rollout WithSpans"})

    def log_ratio(self, logprobs: Tensor, old: Tensor, batch: Batch) -> Tensor:
        token = TokenRatio(self.against).log_ratio(logprobs, old, batch)
        span = batch.stream(self.stream).long()
        alone = torch.arange(len(span)) + int(span.max() if len(span) else 0) + 1  # each action outside of spans has its own number
        pairs = torch.stack([batch.context, torch.where(span >= 0, span, alone)], 1)
        ids = torch.unique(pairs, dim=0, return_inverse=True)[1]
        count = int(ids.max()) + 1 if len(ids) else 0
        sums, sizes = segment_sum(token, ids, count), segment_sum(torch.ones_like(token), ids, count)
        return (sums / sizes).index_select(0, ids)


@dataclass(frozen=True)
class JointRatio:
    """log w = sum over the tokens of one action of log r_t: the ratio of the action's joint probability, the same number for all its tokens.

    `of` "turn": all tokens of a turn (for a chunk of actions: of the chunk). "step": the tokens of each action of a chunk, which have the same number in the
    stream `step`. If all turns have the same number of tokens, the mean loss over tokens is the mean loss over turns. The gradient of this mean with respect
    to the log-probability of each token equals that of a loss with one row per turn.
    """

    of: Literal["turn", "step"] = "turn"
    against: Against = "old"
    separable: ClassVar[bool] = True  # a turn lies within one context, and a micro-batch contains whole contexts
    asks: ClassVar[Mapping[str, str]] = Frozen({"turns": "--rollout Episodes"})

    def log_ratio(self, logprobs: Tensor, old: Tensor, batch: Batch) -> Tensor:
        token = TokenRatio(self.against).log_ratio(logprobs, old, batch)
        columns = [batch.context, batch.stream("turn").long(), *([batch.stream("step").long()] if self.of == "step" else [])]
        ids = torch.unique(torch.stack(columns, 1), dim=0, return_inverse=True)[1]
        count = int(ids.max()) + 1 if len(ids) else 0
        return segment_sum(token, ids, count).index_select(0, ids)


@dataclass(frozen=True)
class Probability:
    """log r_t = log pi(a_t), as if the behaviour policy had probability 1 for the action. Use this ratio for text without behaviour log-probabilities."""

    separable: ClassVar[bool] = True

    def log_ratio(self, logprobs: Tensor, old: Tensor, batch: Batch) -> Tensor:
        return logprobs


@dataclass(frozen=True)
class OnPolicy:
    """log r_t = log pi(a_t) - sg[log pi(a_t)], where sg stops the gradient: the ratio is always 1, and its gradient is the gradient of log pi.

    Use this ratio to treat old tokens as tokens of the current policy. Tokens are old if earlier versions of the weights sampled them. In later updates on
    the same batch, all tokens are old. Du et al., UloRL, arXiv:2507.19766 (pseudo on-policy importance sampling).
    """

    separable: ClassVar[bool] = True

    def log_ratio(self, logprobs: Tensor, old: Tensor, batch: Batch) -> Tensor:
        return logprobs - logprobs.detach()
