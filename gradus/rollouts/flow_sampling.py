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
    """Draws `request.count` samples of each problem and has them judged.

    keep "steps": every random step is an action with its log-probability. keep "sample": the sample is the only action and has no
    log-probability; the size stored does not depend on the number of steps.
    """

    sampler: Sampler = Sde()
    keep: Literal["steps", "sample"] = "steps"
    at_test: Sampler | None = Ode()  # the sampler of evaluation; None: that of training
    opens: ClassVar[frozenset[str]] = frozenset({"drawing"})  # abilities that the policy needs
    gives: ClassVar[frozenset[str]] = frozenset({"drawing"})

    def __post_init__(self) -> None:
        if self.keep not in ("steps", "sample"):
            raise UserError(f'generated: keep is "{self.keep}"; it is "steps" or "sample"')

    @property
    def test(self) -> FlowSampling:
        """The rollout of evaluation: finished samples only."""
        return FlowSampling(self.at_test or self.sampler, "sample", None)

    async def run(self, requests: Sequence[Request], world: World) -> list[Group]:
        """One judged group per request, in order. Raises UserError if steps are kept and the sampler has no random step."""
        if self.keep == "steps" and not any(step.spread > 0 for step in self.sampler.path()):
            raise UserError(
                f"generated: {self.sampler} takes no random step, so there is no action to keep; take a sampler with noise (Sde), "
                'or keep="sample"'
            )
        how = Drawing(self.sampler, self.keep)
        return await SingleTurn().run([replace(request, how=how) for request in requests], world)
