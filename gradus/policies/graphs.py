"""Decoding steps captured once a shape as CUDA graphs, and replayed: a step of a small network is hundreds of kernels that are over before the
next one has been launched. Tried against a stand-in for the capture only; no GPU was at hand.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import torch
from torch import Tensor

from gradus.policies.cache import Segment

Step: TypeAlias = Callable[[Tensor, Tensor, tuple[Segment, ...]], Tensor]
"""Logits from tokens and positions of the slots, and how they are read."""


class Replayed:
    """A step that is replayed for every shape that was seen before. Its logits are overwritten by the next call of that shape.

    A step may be done again with the same tokens and positions, as the capture does: it writes the same values to the same places.
    """

    def __init__(self, step: Step, device: torch.device) -> None:
        self.step, self.device = step, device
        self.captured: dict[tuple[int, tuple[Segment, ...]], tuple[Tensor, Tensor, Callable[[], None], Tensor]] = {}

    def __call__(self, tokens: Tensor, positions: Tensor, read: tuple[Segment, ...]) -> Tensor:
        shape = len(tokens), read
        if shape not in self.captured:
            held = tokens.to(self.device, copy=True), positions.to(self.device, copy=True)
            self.captured[shape] = (*held, *capture(lambda: self.step(*held, read)))
        to_tokens, to_positions, replay, logits = self.captured[shape]
        to_tokens.copy_(tokens)
        to_positions.copy_(positions)
        replay()
        return logits


def capture(function: Callable[[], Tensor]) -> tuple[Callable[[], None], Tensor]:
    """What does the function's work again in the memory that it had, and its result there. See pytorch.org/docs, CUDA semantics, CUDA Graphs."""
    aside = torch.cuda.Stream()
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):  # libraries choose their kernels and take their workspace at a first call, which may not be captured
        function()
    torch.cuda.current_stream().wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = function()
    return graph.replay, result


def bucket(places: int, step: int, capacity: int) -> int:
    """Places to read: the step times a power of two that covers them, or all. Few shapes, so few captures."""
    found = step
    while found < places:
        found *= 2
    return min(found, capacity)
