"""TRPO: a natural-gradient step, as long as a bound on the KL divergence allows.

maximise mean over tokens of rho A  subject to  mean over tokens of KL(pi_old || pi) <= 0.01, rho = pi / pi_old, A = R - mean R of the batch;
s = (F + 0.1)^-1 g by ten conjugate gradients, F the Fisher matrix of the sampled tokens; step sqrt(2 0.01 / s'(F + 0.1)s) s, halved up to
ten times until the objective improves and the KL is within its bound, else no step. Learning rate and optimiser are not used.

The estimate of a token's KL, r - 1 - log r over the sampled tokens, is unbiased and never negative. A batch of equal rewards has no gradient
and changes no weight. Metrics: update_kl, gain (of the objective), update_length (share of the longest step), skipped.

Reference: Schulman et al., Trust Region Policy Optimization, arXiv:1502.05477, eq. 14 (single path), appendix C (conjugate gradient, line
search; F of a tenth of the answers), KL bound 0.01 of its experiments. Damping 0.1, ten iterations and halving as in the released code.
Ours: F is the empirical covariance of the scores (the paper's second estimator; its first needs the whole distribution of every token), the
KL is estimated in the same way, and the batch's mean reward is subtracted from the returns.
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
