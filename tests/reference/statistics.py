"""Means, deviations and sums of rewards as plain loops, for the slow references of credit rules."""

from __future__ import annotations

import math

from tests.reference.answers import Answer, Sample


def mean(values: list[float]) -> float:
    return sum(values) / len(values)


def deviation(values: list[float], scale: str) -> float:
    if scale == "none":
        return 1.0
    return math.sqrt(sum((v - mean(values)) ** 2 for v in values) / (len(values) - (scale == "sample")))


def standardised(rewards: list[float], scale: str) -> list[float]:
    if len(rewards) < 2 or len(set(rewards)) == 1:
        return [0.0] * len(rewards)
    return [(r - mean(rewards)) / deviation(rewards, scale) for r in rewards]


def without_one(rewards: list[float]) -> list[float]:
    if len(rewards) < 2:
        return [0.0] * len(rewards)
    return [r - mean(rewards[:i] + rewards[i + 1 :]) for i, r in enumerate(rewards)]


def spread(given: list[list[Sample]], advantages: list[list[float]]) -> list[list[Answer]]:
    return [[[a] * len(s.at) for s, a in zip(members, row, strict=True)] for members, row in zip(given, advantages, strict=True)]


def rewards_of(members: list[Sample]) -> list[float]:
    return [s.reward for s in members]


def whitened(rows: list[list[Answer]]) -> list[list[Answer]]:
    flat = [a for members in rows for row in members for a in row]
    middle, size = mean(flat), deviation(flat, "population")
    return [[[(a - middle) / size for a in row] for row in members] for members in rows]


def onward(rewards: Answer, gamma: float) -> Answer:
    return [sum(gamma ** (k - t) * rewards[k] for k in range(t, len(rewards))) for t in range(len(rewards))]
