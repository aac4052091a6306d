"""Samples of a flow generator: one trajectory per sample, one group per request."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from gradus.rollouts.single_turn import SingleTurn
from gradus.types import Group, Request, UserError
from gradus.types.parts import World
from gradus.types.samplers import Drawing, Ode, Sampler, Sde


@dataclass(frozen=True)
class FlowSampling:
    """Draws `request.count` samples for each problem. The reward of the run judges them.

    With `keep` "steps", every random step is an action with its log-probability. With "sample", the finished sample is the only action. A finished sample as
    an action has no log-probability, and its stored size does not depend on the number of steps.
    """

    sampler: Sampler = Sde()
    keep: Literal["steps", "sample"] = "steps"
    at_test: Sampler | None = Ode()  # the sampler in evaluation; None: the same as in training
    opens: ClassVar[frozenset[str]] = frozenset({"drawing"})  # abilities that the policy needs
    gives: ClassVar[frozenset[str]] = frozenset({"drawing"})

    def __post_init__(self) -> None:
        if self.keep not in ("steps", "sample"):
            raise UserError(f'FlowSampling.keep is "{self.keep}"; it must be "steps" or "sample"')

    @property
    def test(self) -> FlowSampling:
        """The rollout of evaluation, which keeps only finished samples."""
        return FlowSampling(self.at_test or self.sampler, "sample", None)

    async def run(self, requests: Sequence[Request], world: World) -> list[Group]:
        """Returns one judged group per request, in order. Raises UserError if `keep` is "steps" and the sampler has no random step."""
        if self.keep == "steps" and not any(step.spread > 0 for step in self.sampler.path()):
            raise UserError(
                f"FlowSampling: {self.sampler} takes no random step, so there are no actions to store; take a sampler with noise (Sde), or set "
                'keep="sample"'
            )
        how = Drawing(self.sampler, self.keep)
        return await SingleTurn().run([replace(request, how=how) for request in requests], world)
