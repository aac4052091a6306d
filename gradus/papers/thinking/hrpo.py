"""HRPO: while the model thinks, each input mixes the embedding of the sampled token with a summary of the distribution from which it was drawn.

    h = (sum_v p_v E_v) / sqrt(sum_v p_v^2)
    r = sigmoid(W_r e + b_r), quad i = sigmoid(W_i e + b_i)
    a = exp(-c softplus(-lambda) r)
    x = a e + sqrt(1 - a^2) (i h)

e is the embedding of the sampled token, and p is the distribution (at the sampling temperature) from which this token was drawn. $E_v$ is the
embedding of token v, and h is the summary. The gates r and i (with weights W and b), the share a and the next input x are computed per dimension; c
is 8. The start values of lambda are such that a is uniform in [0.99, 0.999] if r = 1. So the input is nearly the plain token, and training opens the gate.
Starting with the token that completes the answer mark, all inputs are plain embeddings.

Tokens are sampled as usual, so the policy is stochastic, and GRPO trains it without examples of such mixed inputs (see grpo for the loss). The update
reads the stored h again, so its log-probabilities equal the log-probabilities of the rollout, and the gradient flows through the gate. The KL to the
start model has the coefficient 0.005. The learning rate of the gate's matrices is 20 times the rate of the adapter, and the rate of lambda is 200
times the rate of the adapter. In the paper the rate of the adapter is 5e-6 (`--learning_rate 5e-6`). The verifier gives the reward, but the reward is
0 if the mark occurs twice or more.

Use if: the model's thinking should contain more than its sampled words, no examples of such thinking exist, and the model accepts vectors as inputs.
Avoid if: the server accepts only tokens as inputs, or thoughts must be readable in full (see grpo).
Reference: Yue et al., Hybrid Latent Reasoning via Reinforcement Learning, arXiv:2505.18454, sections 3 and 4. The released code adds 1e-8 under the
root, as here. All its scripts have 0.99 as the lower end of the range of a. The released code has temperature 0.5 (`--temperature 0.5`), LoRA of rank
32 and alpha 64, and groups of 4 or 8. The released code has one update per batch, so the ratio is 1 and never clipped.
Departures: The reference is the start model with its gate, read on the same inputs as the policy. The standard deviation is the population deviation.
The learning rate is constant, there is no weight decay, and gradients are clipped to norm 1. In the paper an answer earns a reward only if the mark
"####" occurs exactly once (`--reward.parts.mark.required true`). Here an answer without the mark is also judged, because the built-in tasks have such
answers. The mark is an option of the gate and of the reward; both must have the same text. The released code has the sample deviation plus 1e-4, and
AdamW with betas 0.9 and 0.99, weight decay 0.1, a cosine schedule of the learning rate and gradients clipped to norm 0.1. The reference of the
released code is the model without adapter, read on the plain tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from gradus.objectives.kl import KL
from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim
from gradus.rewards.combine import Combines, Product
from gradus.rewards.verified import Verified
from gradus.types import Frozen, Group, UserError
from gradus.types.parts import Judgement, Signals, World
from gradus.types.players import Gated, Player
from gradus.types.signals import Signal


@dataclass(frozen=True)
class MarkedOnce(Combines):
    """1 if the mark occurs once in the answer, 0 if it occurs more often. An answer without a mark gets 0 if `required`, else 1."""

    mark: str = "####"
    required: bool = False
    name: ClassVar[str] = "mark"
    needs: ClassVar[tuple[Signal, ...]] = ()

    def __post_init__(self) -> None:
        if not self.mark:
            raise UserError("MarkedOnce.mark is empty; write the text that comes before the answer, such as ####")

    async def score(self, groups: Sequence[Group], signals: Signals, world: World) -> list[list[Judgement]]:
        allowed = (1,) if self.required else (0, 1)
        return [[Judgement(float(t.completion.count(self.mark) in allowed)) for t in g.trajectories] for g in groups]


hrpo = grpo.derive(
    "hrpo",
    "During thinking each input mixes the sampled token with a summary of its distribution, by a gate that GRPO opens.",
    family="thinking",
    reward=Product(Frozen(verified=Verified(), mark=MarkedOnce())),
    objective__kl=KL(0.005),
    players__policy=Player(Gated(), rates=Frozen(gate=20.0, lam=200.0)),
)

claims = (
    Claim(
        says=(
            "On arithmetic at a fixed level the hybrid policy's held-out accuracy after 30 steps is at least 1 point above that of GRPO with the "
            "same adapter."
        ),
        source=(
            "arXiv:2505.18454, tables 1 and 2: above GRPO on knowledge and mathematics tasks with a 1.5B and a 3B model; here the built-in model, "
            "30 steps, mark ' ='"
        ),
        against=(
            "grpo --players.policy=Player --players.policy.model=Adapter --players.policy.model.rank=32 --players.policy.model.alpha=64 "
            "--objective.kl.coefficient=0.005"
        ),
        measure="held_out/accuracy:last",
        better_by=0.01,
        task="arithmetic",
        fields={"learning_rate": "0.001", "eval_every": "30"},
        own={
            "players.policy.model.mark": " =",
            "reward.parts.mark.mark": " =",
            "players.policy.rates.gate": "1",
            "players.policy.rates.lam": "10",
        },
        budget="steps=30",
        seeds=3,
    ),
)
