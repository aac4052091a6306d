"""Decoding steps as CUDA graphs, which are captured once per shape and then replayed.

A step of a small network consists of hundreds of short kernels. Launching these kernels takes longer than running them. The tests simulate the
capture and do not use a GPU.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import torch
from torch import Tensor

from gradus.policies.cache import Segment

Step: TypeAlias = Callable[[Tensor, Tensor, tuple[Segment, ...]], Tensor]
"""Returns logits. The arguments are the slots' tokens and positions, and the segments to read."""


class Replayed:
    """A step that is captured at its first call with a shape and then replayed.

    The next call of the same shape overwrites the logits. The capture repeats a step with the same tokens and positions, so it writes the same values to the
    same addresses.
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
    """Captures the work of `function`. Returns a function and a tensor. Each call of the function repeats the work in the same memory, and writes the
    result into the tensor.

    See pytorch.org/docs, CUDA semantics, CUDA Graphs.
    """
    aside = torch.cuda.Stream()
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):  # at their first call, libraries choose kernels and allocate memory, which must not be captured
        function()
    torch.cuda.current_stream().wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = function()
    return graph.replay, result


def bucket(places: int, step: int, capacity: int) -> int:
    """Returns the number of positions to read: the smallest step * 2^k that is at least `places`, but at most `capacity`.

    So there are only a few shapes and captures.
    """
    found = step
    while found < places:
        found *= 2
    return min(found, capacity)
