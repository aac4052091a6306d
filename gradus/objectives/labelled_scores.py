"""A term that fits the scores of a reward model to labels of single answers. A label is a number, a soft label, or one number per head."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from gradus.objectives.chances import chance_losses
from gradus.types import UserError
from gradus.types.batch import Batch
from gradus.types.signals import Signal, Value, Want
from gradus.types.tally import Tally, tally

Fit = Literal["squared", "squared_chance", "cross_entropy"]
_FITS = ("squared", "squared_chance", "cross_entropy")


def score_losses(scores: Tensor, labels: Tensor, fit: Fit) -> Tensor:
    """Returns the loss of each score, [N]. Args: `scores` s with gradient, `labels` y, both [N].

    - "squared": (s - y)^2
    - "squared_chance": (sigmoid(s) - y)^2
    - "cross_entropy": -y log sigmoid(s) - (1 - y) log(1 - sigmoid(s)); y is a probability, so y can be a soft label
    """
    if fit == "cross_entropy":
        return chance_losses(scores, labels)
    return ((scores if fit == "squared" else scores.sigmoid()) - labels).square()


@dataclass(frozen=True)
class LabelledScores:
    """Fits the score of every answer to a label. The loss of a head is the mean of `score_losses` over the answers. The losses of all heads are added.

    The score is the head's output before the last action, as in `BradleyTerry`. The label of a head is the component of the reward with the head's name, or
    the reward itself if there is no such component. If this component does not apply to an answer, the answer has no label for this head, and adds 0.
    """

    heads: tuple[str, ...] = ("value",)
    fit: Fit = "squared"
    coefficient: float = 1.0
    source: str = "policy"
    separable: ClassVar[bool] = True
    needs: ClassVar[tuple[Signal, ...]] = ()

    def __post_init__(self) -> None:
        if self.fit not in _FITS:
            raise UserError(f"LabelledScores.fit is {self.fit!r}; it must be one of {', '.join(_FITS)}")
        if not self.heads:
            raise UserError("LabelledScores.heads is empty; give at least one name of a head")

    @property
    def wants(self) -> tuple[Want, ...]:
        return tuple(Value(name) for name in self.heads)

    def loss(self, outputs: dict[Want, Tensor], batch: Batch) -> tuple[Tensor, dict[str, Tally]]:
        last = (batch.position == batch.in_trajectory - 1).nonzero()[:, 0]
        owners, weight = batch.trajectory.index_select(0, last).tolist(), batch.weight.index_select(0, last)
        count = max(batch.counts[self.source].trajectories, 1)
        total, metrics = weight.new_zeros(()), dict[str, Tally]()
        for want, name in zip(self.wants, self.heads, strict=True):
            scores = outputs[want].index_select(0, last)
            labels = scores.new_tensor([self._label(batch, i, name) for i in owners])
            known = labels.isfinite()
            losses = score_losses(scores[known], labels[known], self.fit)
            total = total + (losses * weight[known]).sum() / count + outputs[want].sum() * 0
            metrics[f"score_loss/{name}"] = tally(losses.detach())
        return self.coefficient * total, metrics

    def _label(self, batch: Batch, owner: int, name: str) -> float:
        """Returns the label of an answer, or NaN if there is no label. If `fit` needs probabilities, raises UserError for any other label."""
        trajectory = batch.trajectories[owner]
        found = trajectory.components.get(name, trajectory.reward)
        label = float(found) if isinstance(found, int | float) else float("nan")
        if self.fit != "squared" and not torch.isnan(torch.tensor(label)) and not 0 <= label <= 1:
            raise UserError(
                f"LabelledScores with the `fit` {self.fit} learns probabilities, but {name} of answer {trajectory.id} is {label:g}; "
                "scale the reward to numbers from 0 to 1, or set `fit` to 'squared'"
            )
        return label
