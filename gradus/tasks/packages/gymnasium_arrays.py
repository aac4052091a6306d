"""Converts the spaces of gymnasium for controllers: observations become named arrays, and actions become a `Choice` or a `Box`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gradus.types import UserError
from gradus.types.spaces import Action, Box, Choice


def acts_of(full: str, space: Any) -> Choice | Box:
    """Returns the actions of a space: a Choice of numbers for Discrete, a Box for a bounded Box of one dimension. Raises UserError for any other space."""
    kind = type(space).__name__
    if kind == "Discrete":
        return Choice(tuple(str(int(space.start) + i) for i in range(int(space.n))))
    if kind == "Box" and len(space.shape) == 1 and np.isfinite(space.low).all() and np.isfinite(space.high).all():
        return Box(tuple(map(float, space.low)), tuple(map(float, space.high)))
    raise UserError(
        f"{full} needs actions from {space!s:.60}, which no controller can produce; take an environment with Discrete actions, or with a "
        "bounded Box of one dimension"
    )


def taken(space: Any, acts: Choice | Box, action: Action) -> Any:
    """Returns the action in the form that the environment expects; None if the action cannot have this form. Numbers beyond the bounds of a Box are
    clipped."""
    if isinstance(acts, Choice):
        index = acts.index(action)
        return None if index is None else index + int(space.start)
    if isinstance(action, str):
        return None
    given = np.asarray(action, space.dtype).reshape(space.shape)
    return np.clip(given, space.low, space.high)


def named(full: str, space: Any, observation: Any) -> Mapping[str, np.ndarray]:
    """Returns an observation as named arrays. The names are the keys of a Dict space, or else "state".

    The value of a Discrete space becomes a one-hot array. Pictures stay uint8.

    Raises UserError for a space that is not a Dict, Discrete, MultiBinary or Box, such as a Text.
    """
    kind = type(space).__name__
    if kind == "Dict":
        found = [named(full, space[name], observation[name]) for name in space]
        return {f"{name}.{inner}".removesuffix(".state"): array for name, part in zip(space, found, strict=True) for inner, array in part.items()}
    if kind == "Discrete":
        return {"state": (np.arange(int(space.n)) == int(observation) - int(space.start)).astype(np.float32)}
    if kind == "MultiBinary":
        return {"state": np.asarray(observation, np.float32)}
    if kind == "Box":
        array = np.asarray(observation)
        return {"state": array.copy() if array.dtype == np.uint8 else array.astype(np.float32)}
    raise UserError(f"{full} shows {space!s:.60}, which is not an array; take an environment whose observations are numbers")
