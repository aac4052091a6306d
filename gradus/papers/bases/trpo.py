"""TRPO: takes the longest natural-gradient step that a bound on the KL divergence allows.

    maximise mean over tokens of rho_t A_t subject to mean over tokens of KL(pi_old, pi) <= 0.01
    rho_t = (pi(a_t)) / (pi_old(a_t)), quad A = R - mean(R)
    s = (F + 0.1 I)^-1 g
    step = s sqrt((2 * 0.01) / (s^T (F + 0.1 I) s))
    KL ~~ mean over tokens of rho_t - 1 - log rho_t

The mean of R is over the batch; all tokens $a_t$ of an answer share its advantage A. The symbol g is the gradient, F the Fisher matrix of the
sampled tokens and I the unit matrix. Ten iterations of the conjugate gradient method give s. The step is halved up to ten times until the objective
improves and the KL is within its bound. If no step satisfies both conditions, the batch changes no weight. Learning rate and optimiser are not used.

The last line estimates the KL from the sampled tokens. This estimate is unbiased, and for every token it is at least 0. A batch of equal rewards has
no gradient and changes no weight. Metrics: update_kl, gain (increase of the objective), update_length (length of the step divided by the length before any
halving), skipped.

Use if: a learning rate is hard to find, or if a single step that is too large would ruin the policy.
Avoid if: the model is large, because an update needs a line search and a dozen passes over a share of the answers. The clip of ppo bounds the ratio,
and costs no more than a plain step.
Reference: Schulman et al., Trust Region Policy Optimization, arXiv:1502.05477, eq. 14 (single path), appendix C (conjugate gradient, line search; F
of a tenth of the answers), KL bound 0.01 of its experiments. The damping 0.1, the ten iterations and the halving are as in the released code.
Departures: F is the empirical covariance of the scores, which is the paper's second estimator. The paper's first estimator needs the whole
distribution of every token. The KL is also estimated from the sampled tokens, and the batch's mean reward is subtracted from the returns.
"""

from gradus.objectives.aggregation import TokenMean
from gradus.papers.bases.reinforce import reinforce
from gradus.recipe.claim import Claim
from gradus.updates.trust_region import TrustRegion

trpo = reinforce.derive(
    "trpo",
    "A natural-gradient step with a bound on the KL divergence from the old policy.",
    objective__policy__average=TokenMean(),
    update=TrustRegion(max_kl=0.01),
)

claims = (
    Claim(
        says="At a learning rate that loses a policy without a bound on the step, accuracy at the end is at least 0.2 above REINFORCE's.",
        source="arXiv:1502.05477, steps of bounded KL divergence; the ground and the size of the effect are ours",
        against="reinforce",
        better_by=0.2,
        ground="unstable",
    ),
)
