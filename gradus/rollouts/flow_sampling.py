"""Samples of a flow generator: one trajectory per sample, one group per request."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from gradus.rollouts.single_turn import SingleTurn
from gradus.types import Group, Request, UserError
from gradus.types.parts import World
from gradus.types.samplers import Drawing, Ode, Sampler, Sde


@dataclass(frozen=True)
class FlowSampling:
    """Draws `request.count` samples for each problem. The reward of the run judges them.

    Every random step is an action with its log-probability.
    """

    sampler: Sampler = Sde()
    at_test: Sampler | None = Ode()  # the sampler in evaluation; None: the same as in training
    opens: ClassVar[frozenset[str]] = frozenset({"drawing"})  # abilities that the policy needs
    gives: ClassVar[frozenset[str]] = frozenset({"drawing"})

    @property
    def test(self) -> FinishedSamples:
        """The rollout of evaluation, which keeps only finished samples."""
        return FinishedSamples(self.at_test or self.sampler, None)

    async def run(self, requests: Sequence[Request], world: World) -> list[Group]:
        """Returns one judged group per request, in order. Raises UserError if the sampler has no random step."""
        if not any(step.spread > 0 for step in self.sampler.path()):
            raise UserError(
                f"FlowSampling: {self.sampler} takes no random step, so there are no actions to store; take a sampler with noise (Sde), or the rollout "
                "FinishedSamples"
            )
        return await drawn(Drawing(self.sampler, "steps"), requests, world)


@dataclass(frozen=True)
class FinishedSamples:
    """Draws `request.count` samples for each problem and lets the world judge them. The finished sample is the only action.

    The action has no log-probability, and its stored size does not depend on the number of steps.
    """

    sampler: Sampler = Ode(14)
    at_test: Sampler | None = Ode()  # the sampler in evaluation; None: the same as in training
    opens: ClassVar[frozenset[str]] = frozenset({"drawing"})
    gives: ClassVar[frozenset[str]] = frozenset({"drawing"})

    @property
    def test(self) -> FinishedSamples:
        """The rollout of evaluation."""
        return FinishedSamples(self.at_test or self.sampler, None)

    async def run(self, requests: Sequence[Request], world: World) -> list[Group]:
        """Returns one judged group per request, in order."""
        return await drawn(Drawing(self.sampler, "sample"), requests, world)


async def drawn(how: Drawing, requests: Sequence[Request], world: World) -> list[Group]:
    """Returns one judged group per request, in order."""
    return await SingleTurn().run([replace(request, how=how) for request in requests], world)
