"""CHORD-phi: CHORD with a small constant mu and a weight on every expert token; known tokens and very unlikely tokens have a weight near 0.

    loss = 0.9 L_GRPO + 0.1 L_phi
    L_phi = -1/M sum_y sum_t phi_t log pi(y_t | x, y_(<t))
    phi_t = p_t (1 - p_t), quad p_t = sg[pi(y_t | x, y_(<t))]

$L_GRPO$ is the loss of the policy's own answers (see chord). The symbol y is an expert answer to a problem x, M counts the tokens of all expert
answers, and sg stops the gradient. The weight phi is largest at p = 1/2 (0.25). The weight is near 0 for tokens with p near 1, because further
learning of such tokens lowers the entropy. The weight is also near 0 for very unlikely tokens, because learning them breaks the policy's own
patterns. The factor mu, the weight of the second part, is 0.1 throughout. `--objective.imitation.weight Likelihood` is the paper's ablation with
$p_t$ as the weight.

Use if: expert answers have another style than the policy's answers, and plain imitation of these answers lowers the entropy or harms the policy's
abilities.
Avoid if: all p are near 1, as for expert answers in the policy's own style. Then phi removes the loss (see chord, sft).
Reference: Zhang et al., On-Policy RL Meets Off-Policy Experts: Harmonizing Supervised Fine-Tuning and Reinforcement Learning via Dynamic
Weighting, arXiv:2508.11408, eq. 4 to 6, section 4.3.
Departures: If a batch has several updates, $p_t$ is the probability at the start of the first update. Equation 6 is a sum over an answer's tokens;
the mean over all expert tokens is as in eq. 1 and in the released code. The released code can also bound p from above in the logarithm (off by
default); this bound is left out here.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from gradus.papers.guidance.chord import chord
from gradus.recipe.claim import Claim
from gradus.types.batch import Batch


@dataclass(frozen=True)
class Undecided:
    """The weight p (1 - p), where p is the probability of the action. It is largest at p = 1/2, where the policy is undecided."""

    def factors(self, old: Tensor, batch: Batch) -> Tensor:
        p = old.exp()
        return p * (1 - p)


@dataclass(frozen=True)
class Likelihood:
    """The weight p, the probability of the action."""

    def factors(self, old: Tensor, batch: Batch) -> Tensor:
        return old.exp()


chord_phi = chord.derive(
    "chord_phi",
    "A small constant share of the expert loss, and a weight p (1 - p) on each expert token.",
    family="guidance",
    schedule__points=((0, 0.1),),
    objective__imitation__weight=Undecided(),
)

claims = (
    Claim(
        says=(
            "With the weight p (1 - p) on expert tokens the policy's entropy after 20 steps is at least 0.05 nats higher than without it at the "
            "same constant share of 0.1."
        ),
        source="arXiv:2508.11408, figure of the entropy of CHORD-phi; the size of the effect is ours",
        against="chord_phi --objective.imitation.weight=none",
        measure="entropy:last",
        better_by=0.05,
        task="countdown",
        budget="steps=20",
        seeds=3,
    ),
)
