"""Samples of a flow generator: each request is drawn by the sampler that stands here, each sample a trajectory, each request a group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from gradus.rollouts.single_turn import SingleTurn
from gradus.types import Group, Request, UserError
from gradus.types.parts import World
from gradus.types.samplers import Drawing, Ode, Sampler, Sde


@dataclass(frozen=True)
class FlowSampling:
    """Draws `request.count` samples of each problem and has them judged.

    keep "steps": every random step is an action with its log-probability. keep "sample": the sample is the only action, has no
    log-probability, and what is stored does not depend on how many steps were taken.
    """

    sampler: Sampler = Sde()
    keep: Literal["steps", "sample"] = "steps"
    at_test: Sampler | None = Ode()  # the sampler of evaluation; None: that of training

    def __post_init__(self) -> None:
        if self.keep not in ("steps", "sample"):
            raise UserError(f'generated: keep is "{self.keep}"; it is "steps" or "sample"')

    @property
    def test(self) -> FlowSampling:
        """The rollout of evaluation: finished samples alone."""
        return FlowSampling(self.at_test or self.sampler, "sample", None)

    async def run(self, requests: Sequence[Request], world: World) -> list[Group]:
        """One judged group a request, in the order of the requests. Raises UserError where steps are to be kept and none is random."""
        if self.keep == "steps" and not any(step.spread > 0 for step in self.sampler.path()):
            raise UserError(
                f"generated: {self.sampler} takes no random step, so there is no action to keep; take a sampler with noise (Sde), "
                'or keep="sample"'
            )
        how = Drawing(self.sampler, self.keep)
        return await SingleTurn().run([replace(request, how=how) for request in requests], world)
