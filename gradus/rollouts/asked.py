"""Functions of a request in its step: its sampling settings, its prompt, and its division into one request per answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gradus.rollouts.serialise import flat_prompt
from gradus.types import Context, Request, Sampling
from gradus.types.parts import World


def sampling_of(request: Request, world: World) -> Sampling:
    """Returns the sampling settings of a request: its own settings if it has them, else the settings of the step."""
    return request.sampling or world.sampling


def prompt_before(request: Request, world: World) -> Context:
    """Returns the tokens before the answer to a request, as a prompt without a parent."""
    return flat_prompt(world.prompt(request) if request.at is None else world.prompt(request).until(request.at))


def single(requests: Sequence[Request]) -> list[Request]:
    """Returns one request per answer. This division does not change the random draws of an answer."""
    return [replace(request, count=1, sample=request.sample + i) for request in requests for i in range(request.count)]
