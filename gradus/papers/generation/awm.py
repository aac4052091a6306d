"""AWM: the pre-training loss serves as policy gradient. The flow-matching error of a finished sample is weighted by the sample's advantage.

    A_i = 1/5 clip((R_i - mean(R)) / (std(R)), -5, 5)
    x_t = (1 - t) x_0 + t e, quad delta = 1/d |v(x_t, t) - (e - x_0)|^2, quad l = -t (delta^0.25) / 0.25
    rho = exp(l - l_old)
    loss = mean over pairs of [-min(rho A, clip(rho, 0, 2) A) + 0.001/d |v - v_ref|^2 + 1/d |v - v_ema|^2]

For each finished sample $x_0$ of d dimensions, `draws` pairs (t, e) are drawn; the times t are stratified, and e is noise. The symbol v is the
velocity, and delta its error at a pair. The value l replaces the log-probability; $l_old$ is l at the same pair under the weights before
the update. The loss is a mean over samples and their pairs. R is the reward; its mean and deviation are over the group. $v_ref$ is the velocity
of the start model, and $v_ema$ is the velocity of a moving average of the policy. The decay of this average after n updates is min(0.3, 0.001 n).

With positive A the policy learns $x_0$ by flow matching; with negative A it un-learns $x_0$. The sampler can be random or deterministic. Only $x_0$
is kept, so storage does not grow with the number of the sampler's steps.

Differences from flow_grpo: The loss has no log-probabilities and no denoising steps; rho is the ratio of a pair, not of a step. The KL is a squared
difference of velocities, and a second term of this form keeps the policy near its moving average. Advantages are bounded. Samples take 14 steps of
the ODE. There is one update per batch, as in the released default, so rho is 1 and the clip never acts (`--update.count` sets more updates). If A is
always 1, with `Weighted(0)` and no further terms, the method is plain flow matching; if A is 0, the policy term has no gradient.

Use if: a flow generator learns from a reward, its sampler is deterministic or has many steps, or training should stay close to pre-training.
Avoid if: an exact ratio and KL of each denoising step are wanted (see flow_grpo), or the generator is a masked language model (see gdpo,
coupled_grpo).
Reference: Xue et al., Advantage Weighted Matching: Aligning RL with Pretraining in Diffusion Models, arXiv:2509.25050. The numbers, the power 0.25,
the 1e-10 that is added to the error, the rise of the decay and the bound of the advantage are as in the released code.
Departures: t is continuous and stratified over (0, 1) for each sample. The release draws t from its sampler's grid, with one set of times per
micro-batch. The pairs of a sample stay the same in further updates on its batch. Euler steps replace a higher-order solver. The deviation std is over
the group.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from torch import Tensor

from gradus.credit.clipped import Clipped
from gradus.credit.groups import GroupRelative
from gradus.objectives.aggregation import Average, SequenceMean, averaged
from gradus.objectives.flow_matching import MatchedPolicy, Robust
from gradus.papers.bases.flow_grpo import flow_grpo
from gradus.recipe.claim import Claim
from gradus.rollouts.flow_sampling import FinishedSamples
from gradus.types.batch import Batch
from gradus.types.players import MovingAverage, Player
from gradus.types.samplers import Ode
from gradus.types.signals import MatchedVelocity, MatchingVelocity, Signal, Want
from gradus.types.tally import Tally, check_same_shape, tally


@dataclass(frozen=True)
class VelocityGap:
    """A KL to a frozen player, computed from velocities. The loss is `coefficient` times the average of g: the mean of (v - v_player)^2 over pairs and
    dimensions."""

    coefficient: float = 0.001
    player: str = "reference"
    draws: int = 6  # pairs per sample; if the policy term has the same number, both terms share one forward pass
    average: Average = SequenceMean()
    source: str = "policy"
    separable: ClassVar[bool] = True

    @cached_property
    def wants(self) -> tuple[Want, ...]:
        return (MatchingVelocity(self.draws),)

    @cached_property
    def needs(self) -> tuple[Signal, ...]:
        return (MatchedVelocity(player=self.player, draws=self.draws),)

    def loss(self, outputs: dict[Want, Tensor], batch: Batch) -> tuple[Tensor, dict[str, Tally]]:
        velocity, theirs = outputs[MatchingVelocity(self.draws)], batch.signals[MatchedVelocity(player=self.player, draws=self.draws)]
        check_same_shape(velocity=velocity, theirs=theirs)
        values = (velocity - theirs).square().mean((1, 2))
        return self.coefficient * averaged(self.average, values * batch.weight, batch, self.source), {f"gap/{self.player}": tally(values)}


awm = flow_grpo.derive(
    "awm",
    "Flow matching on finished samples, weighted by their advantage, instead of the policy gradient of the sampler's steps.",
    family="generation",
    rollout=FinishedSamples(Ode(14)),
    credit=Clipped(GroupRelative(), limit=5.0, scale=1.0),
    objective__policy=MatchedPolicy(draws=6, likeness=Robust(0.25)),
    objective__kl=VelocityGap(0.001, "reference", draws=6),
    objective__proximal=VelocityGap(1.0, "average", draws=6),
    players__average=Player(MovingAverage("policy", decay=0.3, rise=0.001)),
    update__count=1,
)

claims = (
    Claim(
        says="With as many samples per step, the mean reward over 20 steps is at least 0.05 above Flow-GRPO's.",
        source="arXiv:2509.25050, abstract (up to 24 times faster); the size of the effect and the task are ours",
        against="flow_grpo",
        measure="reward:mean",
        better_by=0.05,
        task="flow_2d",
        fields={"prompts": "8", "group": "8", "warmup": "0", "study": "none"},
        budget="steps=20",
    ),
)
