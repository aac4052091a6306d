"""Relations between the actions of a batch: the next action, all later actions, and the actions of one stretch of text."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from gradus.types.batch import Batch
from gradus.types.tally import check_same_shape


def next_rows(values: Tensor, context: Tensor) -> Tensor:
    """Returns, for every action, the row of the next action in its context. The last action of a context gets 0. Args: `values`, `context` (its number) [A].

    >>> next_rows(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([0, 0, 1])).tolist()
    [2.0, 0.0, 0.0]
    """
    check_same_shape(values=values, context=context)
    later = torch.zeros_like(values)
    later[:-1] = torch.where(context[1:] == context[:-1], values[1:], 0.0)
    return later


def sums_from_here(values: Tensor, trajectory: Tensor, position: Tensor) -> Tensor:
    """Returns for every action the sum of `values` over this action and all later actions of its trajectory.

    Args: `values` [A], with gradient; `trajectory`, `position` [A]: the ids of the trajectories, and the positions within the trajectories.

    >>> sums_from_here(torch.tensor([1.0, 2.0, 5.0]), torch.tensor([0, 0, 1]), torch.tensor([0, 1, 0])).tolist()
    [3.0, 2.0, 5.0]
    """
    check_same_shape(values=values, trajectory=trajectory, position=position)
    order = torch.argsort(position, stable=True)
    order = order[torch.argsort(trajectory[order], stable=True)]
    counts = torch.unique_consecutive(trajectory[order], return_counts=True)[1].tolist()
    summed = [piece.flip(0).cumsum(0).flip(0) for piece in values[order].split(counts)]
    return torch.cat(summed)[torch.argsort(order)] if summed else values


def written_stretches(batch: Batch) -> Tensor:
    """Returns int64 [A]: the number of each token's stretch, from 0. A stretch is a run of chosen tokens of one context, without other tokens between them."""
    present = torch.unique_consecutive(batch.context).tolist()  # a batch holds whole contexts
    begins = [np.diff(np.flatnonzero(batch.contexts[i].chosen), prepend=-2) > 1 for i in present]
    return torch.from_numpy(np.cumsum(np.concatenate([np.zeros(0, bool), *begins])) - 1)
