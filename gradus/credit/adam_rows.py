"""A model of Adam for the rows of a large matrix, such as an output layer.

The model stores moments only for rows that had a gradient.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True, eq=False)
class AdamRows:
    """The moments that Adam has for rows of the matrix after `steps` steps.

    `rows` [n]: the row numbers in ascending order; `first` and `second` [n, d]: the moments of these rows, float64.

    Reference: Kingma and Ba, Adam, arXiv:1412.6980, algorithm 1.
    """

    rows: np.ndarray
    first: np.ndarray
    second: np.ndarray
    steps: int = 0

    @classmethod
    def read(cls, state: Mapping[str, Any]) -> AdamRows:
        """Makes a model from the plain state that `stored` returns. An empty mapping gives a model before its first step."""
        return cls(**state) if state else cls(np.zeros(0, np.int64), np.zeros((0, 0)), np.zeros((0, 0)))

    def stored(self) -> dict[str, Any]:
        """Returns the moments as plain state."""
        return {"rows": self.rows, "first": self.first, "second": self.second, "steps": self.steps}

    def of(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns both moments [..., d] of the rows with the numbers `rows` [...]. A row that had no gradient has moments 0.

        The model must have made at least one step.
        """
        place = np.minimum(np.searchsorted(self.rows, rows), len(self.rows) - 1)
        known = (self.rows[place] == rows)[..., None]
        return np.where(known, self.first[place], 0.0), np.where(known, self.second[place], 0.0)

    def advanced(self, rows: np.ndarray, gradients: np.ndarray, betas: tuple[float, float]) -> AdamRows:
        """Returns the model after a step with `gradients` [m, d] on `rows` [m], in ascending order. The moments of other rows do not change."""
        every = np.union1d(self.rows, rows)
        empty = np.zeros((len(every), gradients.shape[1]))
        first, second = self.of(every) if self.steps else (empty, empty.copy())
        at = np.searchsorted(every, rows)
        first[at] = betas[0] * first[at] + (1 - betas[0]) * gradients
        second[at] = betas[1] * second[at] + (1 - betas[1]) * gradients**2
        return AdamRows(every, first, second, self.steps + 1)

    def directions(self, rows: np.ndarray, gradients: np.ndarray, betas: tuple[float, float], eps: float) -> np.ndarray:
        """Returns [..., d]: the step that Adam would make at learning rate 1 for each gradient [..., d] alone.

        `rows` [...] names the row of each gradient. Before the first step of this model of Adam, the results are the gradients themselves.
        """
        if not self.steps:
            return gradients
        first, second = self.of(rows)
        count = self.steps + 1
        m = (betas[0] * first + (1 - betas[0]) * gradients) / (1 - betas[0] ** count)
        v = (betas[1] * second + (1 - betas[1]) * gradients**2) / (1 - betas[1] ** count)
        found: np.ndarray = m / (np.sqrt(v) + eps)
        return found
