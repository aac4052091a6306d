"""The importance ratio of a policy term: of a token or of a sequence, against the weights at the start of the update, those that sampled, or 1."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol

from torch import Tensor

from gradus.types.batch import Batch, segment_sum

Against = Literal["old", "behaviour"]


class Ratio(Protocol):
    separable: ClassVar[bool]

    def log_ratio(self, logprobs: Tensor, old: Tensor, batch: Batch) -> Tensor:
        """[A] log of the ratio that each action is weighted by; gradient flows through `logprobs` alone."""
        ...


@dataclass(frozen=True)
class TokenRatio:
    """log r_t = log pi(a_t) - log pi_old(a_t). `against`: "old" (start of the update) or "behaviour" (as sampled)."""

    against: Against = "old"
    separable: ClassVar[bool] = True

    def log_ratio(self, logprobs: Tensor, old: Tensor, batch: Batch) -> Tensor:
        return logprobs - (batch.behaviour_logprobs if self.against == "behaviour" else old)


@dataclass(frozen=True)
class SequenceRatio:
    """log s_i = mean over the trajectory of log r_t, the same for all of its actions. GSPO, arXiv:2507.18071, eq. 7."""

    against: Against = "old"
    separable: ClassVar[bool] = False  # couples the actions of a trajectory, whose contexts may lie in different micro-batches

    def log_ratio(self, logprobs: Tensor, old: Tensor, batch: Batch) -> Tensor:
        token = TokenRatio(self.against).log_ratio(logprobs, old, batch)
        sums = segment_sum(token, batch.trajectory, len(batch.trajectories))
        return sums.index_select(0, batch.trajectory) / batch.in_trajectory


@dataclass(frozen=True)
class SequenceTokenRatio:
    """log s_it = sg[log s_i] + log pi(a_t) - sg[log pi(a_t)]: the value of the sequence's ratio, the gradient of the token's own.

    For advantages that differ within a trajectory; where they do not, its gradient under SequenceMean is that of SequenceRatio.
    GSPO-token, arXiv:2507.18071, eq. 14.
    """

    against: Against = "old"
    separable: ClassVar[bool] = False  # couples the actions of a trajectory, whose contexts may lie in different micro-batches

    def log_ratio(self, logprobs: Tensor, old: Tensor, batch: Batch) -> Tensor:
        value = SequenceRatio(self.against).log_ratio(logprobs.detach(), old, batch)
        return value + (logprobs - logprobs.detach())


@dataclass(frozen=True)
class Probability:
    """log r_t = log pi(a_t): the ratio to a policy that is sure of the action, for what was written by somebody whose chances are unknown."""

    separable: ClassVar[bool] = True

    def log_ratio(self, logprobs: Tensor, old: Tensor, batch: Batch) -> Tensor:
        return logprobs
