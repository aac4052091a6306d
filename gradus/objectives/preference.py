"""The preference term. The term compares a better and a worse answer to the same problem. These two trajectories form a group."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
import torch
from torch import Tensor

from gradus.objectives.aggregation import pulling
from gradus.objectives.returned import check_rows
from gradus.objectives.scores import LogRatio, Score, scored
from gradus.types import Trajectory, UserError
from gradus.types.batch import Batch
from gradus.types.ranges import check_ranges
from gradus.types.signals import LogProb, Signal, Want
from gradus.types.tally import Tally, check_same_shape, tally


def preference_losses(chosen: Tensor, rejected: Tensor, *, beta: float, margin: float = 0.0) -> Tensor:
    """Returns the logistic loss per pair: -log sigmoid(beta (chosen - rejected) - margin).

    Args: `chosen`, `rejected` [P]: scores of the better and the worse answer, with gradient. In DPO a score is the sum of log pi - log pi_ref over
    actions.
    Returns: [P], not averaged.  Reference: Rafailov et al., Direct Preference Optimization, arXiv:2305.18290, eq. 7.
    """
    check_same_shape(chosen=chosen, rejected=rejected)
    return -torch.nn.functional.logsigmoid(beta * (chosen - rejected) - margin)


def squared_preference_losses(chosen: Tensor, rejected: Tensor, *, tau: float) -> Tensor:
    """IPO's loss per pair: (chosen - rejected - 1 / (2 tau))^2. The loss is smallest at a finite difference.

    Args: `chosen`, `rejected` [P]: the sum over the answer's actions of log pi - log pi_ref, nats, with gradient. Returns: [P], not averaged.
    Reference: Azar et al., A General Theoretical Paradigm to Understand Learning from Human Preferences, arXiv:2310.12036, eq. 17.
    """
    check_same_shape(chosen=chosen, rejected=rejected)
    return (chosen - rejected - 1 / (2 * tau)).square()


class Link(Protocol):
    """Computes the loss of a pair from its two scores."""

    def losses(self, chosen: Tensor, rejected: Tensor, beta: float) -> Tensor:
        """Returns the losses [P], not averaged."""
        ...


@dataclass(frozen=True)
class Logistic:
    """-log sigmoid(beta (s_better - s_worse) - margin): the loss is small if the scaled difference is above the margin."""

    margin: float = 0.0

    def __post_init__(self) -> None:
        check_ranges(self, margin="[0, inf)")

    def losses(self, chosen: Tensor, rejected: Tensor, beta: float) -> Tensor:
        return preference_losses(chosen, rejected, beta=beta, margin=self.margin)


@dataclass(frozen=True)
class Squared:
    """(s_better - s_worse - 1 / (2 beta))^2: the loss is smallest at a finite difference of the scores."""

    def losses(self, chosen: Tensor, rejected: Tensor, beta: float) -> Tensor:
        return squared_preference_losses(chosen, rejected, tau=beta)


def members(batch: Batch) -> Iterator[list[int]]:
    """Yields for every group of the batch, in ascending order, the ids of its trajectories that have actions in the batch."""
    ids, first = np.unique(batch.trajectory.numpy(), return_index=True)
    owners = batch.group.numpy()[first]
    for owner in np.unique(owners):
        yield ids[owners == owner].tolist()


def pairs_of(batch: Batch) -> tuple[Tensor, Tensor]:
    """Returns for every group the ids [P] of its better and its worse trajectory.

    The link `preferred` decides which trajectory is better. If the link is not set, the reward decides.

    Raises UserError unless each group has two trajectories, and their links or rewards differ.
    """
    better, worse = [], []
    for ids in members(batch):
        place = {i: standing(batch.trajectories[i]) for i in ids}
        pair = sorted(ids, key=place.__getitem__)
        if len(pair) != 2 or place[pair[0]] == place[pair[1]]:
            rewards = ", ".join(f"{batch.trajectories[i].value:g}" for i in pair[:4])
            raise UserError(
                f"a preference compares two trajectories with different rewards, but a group has {len(pair)} trajectories with the rewards "
                f"{rewards}; set --selection BestAndWorst"
            )
        worse.append(pair[0])
        better.append(pair[1])
    return torch.tensor(better), torch.tensor(worse)


def standing(trajectory: Trajectory) -> float:
    """Returns the value by which a trajectory is compared: its link `preferred` if it has one, else its reward."""
    preferred = trajectory.links.get("preferred")
    return trajectory.value if preferred is None else float(preferred)


@dataclass(frozen=True)
class Preference:
    """coefficient * (mean of the pair losses). `link` computes the loss of a pair from the scores of its better and its worse trajectory. The defaults give DPO."""

    beta: float = 0.1  # inverse temperature: the implicit reward is beta * score
    score: Score = LogRatio()
    link: Link = Logistic()
    coefficient: float = 1.0
    source: str = "policy"
    separable: ClassVar[bool] = False  # the loss depends on all actions of two trajectories together
    unit: ClassVar[str] = "group"
    wants: ClassVar[tuple[Want, ...]] = (LogProb(),)

    def __post_init__(self) -> None:
        check_ranges(self, beta="(0, inf)")

    @property
    def needs(self) -> tuple[Signal, ...]:
        return self.score.needs

    def loss(self, outputs: dict[Want, Tensor], batch: Batch) -> tuple[Tensor, dict[str, Tally]]:
        scores = scored(self.score, pulling(outputs[LogProb()], batch.weight), batch)
        better, worse = (scores.index_select(0, ids) for ids in pairs_of(batch))
        losses = self.link.losses(better, worse, self.beta)
        check_rows(self.link, "losses", losses, better.shape, "pair", of=better)
        margin = self.beta * (better - worse)
        scaled = {"chosen": tally(self.beta * better), "rejected": tally(self.beta * worse)}
        metrics = {**scaled, "margin": tally(margin), "preferred": tally((margin.detach().sign() + 1) / 2)}  # a tie counts as one half
        return self.coefficient * losses.sum() / batch.counts[self.source].groups, metrics
