"""The measures of a run in a comparison: numbers for each held-out problem, the area under the curve, and any metric of the run."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradus.study.passk import pass_at_k
from gradus.types import UserError, unknown

READINGS = ("first", "last", "mean", "max", "min", "gain", "drop", "variation")
_COSTS = {"tokens": ("spent", "tokens"), "rollouts": ("spent", "rollouts"), "seconds": ("times", "steps"), "memory": ("times", "memory")}
_PLAIN = ("accuracy", "reward", "length", "distinct", "answer_tokens", "auc", "best", *_COSTS)
LOW = ("length", "answer_tokens", "tokens", "steps", "seconds", "memory")
"""Measures for which a lower value is better."""


@dataclass(frozen=True)
class Measure:
    """A measure by its name.

    With one value per problem: accuracy, pass@16, reward, length, distinct (different right answers per problem), accuracy@NAME (of a
    further task).
    With one value: auc, best, worst@COLUMN (accuracy of the worst group of problems), answer_tokens (all tokens per answer of the
    examination, with those that a search discards), METRIC:READING of the run's metrics; and the costs of a run: tokens, rollouts,
    seconds (of its steps), memory (the peak of its process, in bytes).
    """

    name: str

    def __post_init__(self) -> None:
        metric, colon, reading = self.name.rpartition(":")
        if colon:
            if reading not in READINGS or not metric:
                raise unknown("reading", reading, READINGS, f"The measure {self.name} must end in a reading")
        elif self.name not in _PLAIN and not re.fullmatch(r"pass@[1-9]\d*|(accuracy|worst)@.+", self.name):
            known = [*_PLAIN, "pass@16", "accuracy@NAME", "worst@COLUMN", "entropy:last"]
            raise unknown("measure", self.name, known, "A metric of the run is METRIC:READING, as in entropy:last")

    @property
    def sign(self) -> int:
        """1 if a higher value is better, -1 if a lower value is better."""
        return -1 if self.name.partition(":")[0] in LOW or self.name.endswith((":drop", ":variation")) else 1

    @property
    def examined(self) -> bool:
        """Whether the measure belongs to one examination (of the final or of the best weights)."""
        return self.name not in ("auc", "best", *_COSTS) and ":" not in self.name and not self.name.startswith("accuracy@")

    @property
    def samples(self) -> int:
        """The number of answers per problem that the measure needs."""
        return int(self.name.partition("@")[2]) if self.name.startswith("pass@") else 1

    def of(self, result: Mapping[str, Any], which: str = "final") -> np.ndarray:
        """The values of a run: float64 [problems], or [1]. Raises UserError for a metric that the run does not have."""
        name, at, which_one = self.name.partition("@")
        if at and name in ("accuracy", "worst"):
            return _elsewhere(result, which_one) if name == "accuracy" else _worst(result[which], which_one)
        exam = result[which]
        if self.name in ("reward", "length", "distinct"):
            return np.array([np.nan if v is None else v for v in exam[self.name]], dtype=np.float64)
        if self.name == "answer_tokens":
            return np.array([exam["answer_tokens"]])
        if self.name == "accuracy":
            return np.array(exam["right"], dtype=np.float64) / exam["samples"]
        if self.name.startswith("pass@"):
            return np.array([pass_at_k(exam["samples"], right, self.samples) for right in exam["right"]])
        if self.name == "best":
            return np.array(result["best"]["right"], dtype=np.float64) / result["best"]["samples"]
        if self.name == "auc":
            return np.array([result["area"]])
        if self.name in _COSTS:
            kind, unit = _COSTS[self.name]
            return np.array([result[kind][unit]], dtype=np.float64)
        metric, _, reading = self.name.rpartition(":")
        if not result["metrics"].get(metric):
            raise unknown("metric", metric, result["metrics"], f"The measure {self.name} must begin with a metric of the run")
        return np.array([result["metrics"][metric][reading]])


def _elsewhere(result: Mapping[str, Any], name: str) -> np.ndarray:
    """The accuracy on each problem of a further task."""
    if name not in result["elsewhere"]:
        raise unknown("further task", name, result["elsewhere"], f"The measure accuracy@{name} needs this task; add the task with --also")
    exam = result["elsewhere"][name]
    return np.array(exam["right"], dtype=np.float64) / exam["samples"]


def _worst(exam: Mapping[str, Any], column: str) -> np.ndarray:
    """The mean accuracy of the worst group of problems, float64 [1]. A group is all problems with the same value of the column."""
    if column not in exam["columns"]:
        raise unknown("column", column, exam["columns"], f"The measure worst@{column} needs a column of the problems")
    groups: dict[str, list[float]] = {}
    for value, right in zip(exam["columns"][column], exam["right"], strict=True):
        if value is not None:
            groups.setdefault(value, []).append(right / exam["samples"])
    return np.array([min(np.mean(found) for found in groups.values())])


def values(measure: Measure, results: Sequence[Mapping[str, Any]], which: str = "final") -> np.ndarray:
    """The values of several runs of one arm, float64 [seeds, problems].

    If all answers to a problem failed, the problem gets the mean of the other problems.
    """
    rows = np.stack([measure.of(result, which) for result in results])
    lacking = np.isnan(rows)
    if lacking.all():
        raise UserError(f"the measure {measure.name} has no value for any problem, because all answers failed; choose another measure")
    return np.where(lacking, np.nanmean(rows), rows)
