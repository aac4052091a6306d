"""DeepVideo-R1: the policy's log-ratios are fitted to the advantages by least squares, and questions that are too easy or too hard are changed.

    loss = 1/N sum_i (A_i - eta (rho_i - mean(rho)))^2 + beta k_3, quad A_i = (r_i - mean(r)) / (std(r))
    rho_i = 1/|o_i| sum_t (log pi(o_(i,t)) - log pi_old(o_(i,t)))
    g = mean(R) - mean(r)

The optimum of a reward under a KL penalty satisfies $r_i = eta log (pi^** / pi_old) + eta log Z$. If both sides are centred in the group of a
question, Z disappears. So the policy learns log-ratios that match the advantages, and there is no ratio to clip. $k_3$ is the KL
estimate of grpo. A token whose probability has already grown keeps its gradient until the log-ratio of its answer has reached its target. At $pi = pi_old$
the gradient is twice the policy gradient; only the gradients of later updates differ from the policy gradient, so each batch is used for two epochs.
`--objective.policy.form standardised` is the paper's form: it divides rho - mean(rho) by the deviation of rho in the group plus 0.01.

The number g is the difficulty of a question: the mean reward R of the last 64 groups minus the mean reward of the question's group. If g < -0.1, the
question's pictures get normal noise; its deviation is 0.5 |g| times the deviation of the pixels. If g > 0.1, the first part of the worked solution follows
the question: the first share 0.5 g of the words. New answers to the changed question replace the answers of the group. Metrics: perturbed and guided
(shares of the groups), fit_error, fit_log_ratio.

Use if: many groups have equal rewards, worked solutions exist, and problems have pictures that noise makes harder.
Avoid if: sampling twice costs too much, or the policy must stay near the sampling policy, because nothing is clipped (see grpo).
Reference: Park et al., DeepVideo-R1: Video Reinforcement Fine-Tuning via Difficulty-aware Regressive GRPO, arXiv:2506.07464, sections 3.2 and 3.3. The
authors' repository (mlvlab/DeepVideoR1) could not be read here.
Departures: Our own choices are eta = 1, the mean over tokens, two epochs, beta 0.01, the bound 0.1 of |g| (the dead zone), both linear scales and the window
of 64 groups. The standardised form has no gradient if all rho are equal, and a steep gradient near this point. The paper changes videos; here the media are
pictures. A question without a picture or a worked solution stays as it is. Both deviations are sample deviations.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, get_args

import numpy as np
import torch
from torch import Tensor

from gradus.credit.groups import GroupRelative
from gradus.objectives.aggregation import pulling
from gradus.objectives.kl import KL
from gradus.objectives.preference import members
from gradus.objectives.scores import trajectory_means
from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim, same_weights
from gradus.rollouts.auto import Auto, rolled
from gradus.types import Group, Key, Message, Request, UserError, unknown
from gradus.types.batch import Batch
from gradus.types.media import Media
from gradus.types.parts import Rollout, World
from gradus.types.prompts import after, prompt_of
from gradus.types.ranges import check_ranges
from gradus.types.signals import LogProb, Signal, Want
from gradus.types.tally import Tally, tally

Form = Literal["scaled", "standardised"]


def fitted_advantages(log_ratios: Tensor, *, form: Form = "scaled", eta: float = 1.0, eps: float = 0.01) -> Tensor:
    """Returns the advantages [G] that correspond to the log-ratios [G] of a group: eta (rho - mean), or (rho - mean) / (deviation of the sample + eps)."""
    centred = log_ratios - log_ratios.mean()
    if form == "scaled":
        return eta * centred
    variance = centred.square().sum() / max(len(centred) - 1, 1)
    return centred / (variance.sqrt() + eps) if bool(variance > 0) else 0.0 * centred


@dataclass(frozen=True)
class AdvantageRegression:
    """The loss: the mean over trajectories of (A - fitted advantage)^2.

    The log-ratio of a trajectory is a mean over its actions, relative to the policy at the start of the update.
    """

    form: Form = "scaled"
    eta: float = 1.0  # factor of the form "scaled", in units of the advantage per nat
    eps: float = 0.01  # this number is added to the deviation of the log-ratios in the form "standardised"
    coefficient: float = 1.0
    source: str = "policy"
    separable: ClassVar[bool] = False  # the trajectories of a group are compared
    unit: ClassVar[str] = "group"
    wants: ClassVar[tuple[Want, ...]] = (LogProb(),)
    needs: ClassVar[tuple[Signal, ...]] = ()

    def __post_init__(self) -> None:
        if self.form not in get_args(Form):
            raise unknown("form", self.form, get_args(Form), "In AdvantageRegression")
        check_ranges(self, eta="(0, inf)", eps="[0, inf)", coefficient="[0, inf)")

    def loss(self, outputs: dict[Want, Tensor], batch: Batch) -> tuple[Tensor, dict[str, Tally]]:
        logprobs = pulling(outputs[LogProb()], batch.weight)
        old = logprobs.detach() if batch.old_logprobs is None else batch.old_logprobs
        ratios, targets = trajectory_means(logprobs - old, batch), trajectory_means(batch.advantages, batch)
        groups = [torch.tensor(ids) for ids in members(batch)]
        errors = torch.cat([targets[ids] - fitted_advantages(ratios[ids], form=self.form, eta=self.eta, eps=self.eps) for ids in groups])
        loss = errors.square().sum() / max(batch.counts[self.source].trajectories, 1)
        return self.coefficient * loss, {"fit_error": tally(errors.abs()), "fit_log_ratio": tally(ratios)}


def noisy(picture: np.ndarray, scale: float, key: Key) -> np.ndarray:
    """Returns the picture uint8 [..., 3] with normal noise; its deviation is `scale` times the deviation of the pixels."""
    return np.rint(picture + scale * picture.std() * key.normal(*picture.shape)).clip(0, 255).astype(np.uint8)


def with_noise(messages: Sequence[Message], scale: float, key: Key) -> tuple[Message, ...]:
    """Returns the messages with noise on every picture and video."""

    def changed(part: Any) -> Any:
        media = part.get("media")
        shown = isinstance(media, Media) and media.kind in ("image", "video")
        return {**part, "media": Media(media.kind, noisy(media.array, scale, key.fold(media.digest)), media.rate)} if shown else part

    return tuple(m if isinstance(m["content"], str) else {**m, "content": tuple(changed(p) for p in m["content"])} for m in messages)


@dataclass(frozen=True)
class DifficultyAdjusted:
    """Replaces groups that are far from the mean reward of recent groups: noise on the pictures of easy questions, guidance for hard questions."""

    rollout: Rollout = Auto()  # gives one judged group per request
    dead_zone: float = 0.1  # a group whose mean reward is at most this far from the recent mean stays; inf: all groups stay
    noise: float = 0.5  # deviation of the noise for a gap of 1, as a share of the deviation of the pixels
    guidance: float = 0.5  # share of the words of the solution for a gap of 1
    window: int = 64  # number of groups in the recent mean
    form: str = "{}"  # the line below a hard question; {} is the first part of its solution

    def __post_init__(self) -> None:
        check_ranges(self, dead_zone="[0, inf]", noise="[0, inf)", guidance="[0, 1]", window="[1, inf)")
        if "{}" not in self.form:
            raise UserError(f'DifficultyAdjusted.form is "{self.form}"; it must contain {{}} at the place of the guidance')

    @property
    def test(self) -> Any:
        return getattr(self.rollout, "test", self.rollout)

    def start(self) -> dict[str, list[float]]:
        return {"recent": []}

    async def run(self, requests: Sequence[Request], world: World, state: dict[str, list[float]]) -> tuple[list[Group], dict[str, list[float]]]:
        """Returns one judged group per request, in order, and the mean rewards of the last groups.

        In the first step the recent mean is the mean reward of the groups of this step.
        """
        groups = await rolled(self.rollout, requests, world)
        means = [float(np.mean(found)) if (found := [t.value for t in g.trajectories if t.failed is None]) else math.nan for g in groups]
        known = [m for m in means if not math.isnan(m)]
        due = float(np.mean(state["recent"] or known)) if known else math.nan
        asked = {i: changed for i, mean in enumerate(means) if (changed := self.adjusted(requests[i], due - mean, world)) is not None}
        again = await rolled(self.rollout, list(asked.values()), world) if asked else []
        for i, new in zip(asked, again, strict=True):
            groups[i] = new.but(pool=(*groups[i].pool, *new.pool))
        for i in range(len(groups)):
            world.note("perturbed", float(i in asked and means[i] > due))
            world.note("guided", float(i in asked and means[i] < due))
        return groups, {"recent": [*state["recent"], *known][-self.window :]}

    def adjusted(self, request: Request, gap: float, world: World) -> Request | None:
        """Returns the changed request for a question with difficulty `gap`, in units of the reward; None if the question stays as it is."""
        if not abs(gap) > self.dead_zone:  # also for NaN
            return None
        prompt, size, problem = prompt_of(request, world.task.system), min(abs(gap), 1.0), request.problem
        if gap > 0:
            words = str(problem.meta.get("solution") or "").split()
            words = words[: math.ceil(self.guidance * size * len(words))]
            return replace(request, prompt=after(prompt, self.form.replace("{}", " ".join(words))), tags=(*request.tags, "guided")) if words else None
        if isinstance(prompt, str) or not problem.media or not self.noise:
            return None
        return replace(request, prompt=with_noise(prompt, self.noise * size, world.key.fold("noise", problem.id)), tags=(*request.tags, "perturbed"))


deepvideo_r1 = grpo.derive(
    "deepvideo_r1",
    "Log-ratios are regressed on advantages without a clip, and questions get noise or guidance until their groups have a spread of rewards.",
    family="objectives",
    rollout=DifficultyAdjusted(),
    credit=GroupRelative(scale="sample"),
    objective__policy=AdvantageRegression(),
    objective__kl=KL(0.01),
    update__epochs=2,
)

claims = (
    same_weights(
        says="If no question is changed, the final weights are those of the same regression without the adjustment of difficulty.",
        source="arXiv:2506.07464, the dead zone without end",
        against="deepvideo_r1 --rollout Auto",
        own={"rollout.dead_zone": "inf"},
        task="shapes",
        fields={"prompts": "4", "group": "8", "study": "none"},
        budget="steps=2",
    ),
    Claim(
        says="On questions about pictures, the mean share of groups with unequal rewards over 20 steps is at least 0.05 higher with changed questions.",
        source="arXiv:2506.07464, the analysis of vanishing advantages; the size, the task and the rate are ours",
        against="deepvideo_r1 --rollout Auto",
        measure="informative:mean",
        better_by=0.05,
        task="shapes",
        options={"level": "2", "kinds": "count,relation"},
        fields={"prompts": "8", "group": "8", "learning_rate": "3e-4", "study": "none"},
        budget="steps=20",
    ),
)
