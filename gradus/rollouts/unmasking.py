"""Answers of a masked model: one trajectory per answer, one group per request."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from gradus.rollouts.single_turn import SingleTurn
from gradus.types import Group, Request
from gradus.types.masks import Unmask
from gradus.types.parts import World


@dataclass(frozen=True)
class Unmasking:
    """Fills in `request.count` answers to each problem. The reward of the run judges them. Each step fills in `per_step` hidden tokens, by `order` (see
    `Unmask`).
    """

    order: Literal["entropy", "confidence", "random", "left"] = "entropy"
    per_step: int = 1
    opens: ClassVar[frozenset[str]] = frozenset({"unmasking"})  # abilities that the policy needs
    plays: ClassVar[str] = "answers"

    def __post_init__(self) -> None:
        Unmask(self.order, self.per_step)  # raises if a value is wrong

    @property
    def how(self) -> Unmask:
        """The rule by which an answer is filled in."""
        return Unmask(self.order, self.per_step)

    async def run(self, requests: Sequence[Request], world: World) -> list[Group]:
        """Returns one judged group per request, in order."""
        return await SingleTurn().run([replace(request, how=self.how) for request in requests], world)
