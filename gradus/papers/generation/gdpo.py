"""GDPO: GRPO for masked diffusion language models with the ratio of sequences, whose ELBO is integrated over noise levels by quadrature.

At level t each token of the answer y is hidden with probability t:

    L(y) = integral over t in (0, 1) of E[ (1/t) sum over hidden i of log pi(y_i | y_t) ] dt

Most of the variance of an estimate with random t comes from t. So t takes the nodes of Gauss-Legendre quadrature on (0, 1), here three,
0.11270, 0.5, 0.88730 with weights 5/18, 8/18, 5/18, and only masks are drawn, one per node:

    L^(y) = sum_n w_n (1/t_n) sum over hidden i of log pi(y_i | y_t_n)
    rho_g = exp((L^_new(y_g) - L^_old(y_g)) / |y_g|);   A_g = R_g - mean R;   loss = mean over answers of -min(rho A, clip(rho, 0.8, 1.2) A)

Nodes and masks are equal for the new, old and reference policy. In expectation over masks the integrand is a polynomial in t of degree L - 1, so
three nodes are exact for answers up to six tokens. A mask that hides nothing contributes 0 and is not drawn again. Differs from grpo: the estimate,
the sequence's ratio, no deviation, no KL. Limit: `OneStep` in place of `Quadrature` is the biased estimate of diffu-GRPO.

Reference: Rojas et al., Improving Reasoning for Diffusion Language Models via Group Diffusion Policy Optimization, arXiv:2510.08554. Ours: two
updates per batch with masks of their own, as rho is 1 in the first; groups as in grpo. `DenoisedKL` of the same masks adds the KL with k3 per sequence.
"""

from gradus.credit.groups import GroupRelative
from gradus.objectives.denoised import DenoisedPolicy
from gradus.objectives.ratios import SequenceRatio
from gradus.objectives.trust import Clip
from gradus.papers.bases.grpo import grpo
from gradus.rollouts.unmasking import Unmasking
from gradus.types.masks import Quadrature
from gradus.updates.minibatches import Minibatches

gdpo = grpo.derive(
    "gdpo",
    "GRPO for masked language models with the ratio of sequences, whose ELBO is a quadrature over noise levels.",
    family="generation",
    rollout=Unmasking(),
    credit=GroupRelative(scale="none"),
    objective__policy=DenoisedPolicy(Quadrature(3), SequenceRatio(), Clip(0.2, 0.2)),
    objective__kl=None,
    players__reference=None,
    update=Minibatches(epochs=2),
)
