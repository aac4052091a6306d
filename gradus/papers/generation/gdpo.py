"""GDPO: GRPO for masked diffusion language models with one ratio per sequence, from an ELBO that quadrature integrates over noise levels.

    L(y) = int_0^1 E[1/t sum_(i hidden) log pi(y_i | z_t)] dt
    hat L(y) = sum_(n=1)^3 w_n/t_n sum_(i hidden) log pi(y_i | z_(t_n))
    rho_g = exp((hat L(y_g) - hat L_old(y_g)) / |y_g|), quad A_g = R_g - mean(R)
    loss = 1/N sum_g -min(rho_g A_g, clip(rho_g, 0.5, 1.5) A_g)

At level t each token $y_i$ of the answer y is hidden with probability t; $z_t$ is the answer with its hidden tokens, and E the mean over masks. L is
the ELBO and $hat L$ its estimate; $hat L_old$ is the estimate under the weights at the start of the update. The paper finds that most of the variance
of an estimate with random t comes from t. So t takes the nodes $t_n$ of Gauss-Legendre quadrature on (0, 1). Here the nodes are 0.11270, 0.5 and
0.88730, with weights $w_n$ of 5/18, 8/18 and 5/18. Only masks are drawn, one per node. $y_g$ is answer g of its group; it has $|y_g|$ tokens and the
reward $R_g$. N counts the answers.

The new, the old and the reference policy are evaluated with the same nodes and masks. The expected integrand over masks is a polynomial in t of
degree |y| - 1, so three nodes are exact for answers of up to six tokens. A mask that hides nothing contributes 0 and is not drawn again. A batch is
used for twelve updates, each with its own masks. Differences from grpo: the estimate, the ratio per sequence, no deviation, a wider clip, no KL.
`OneStep` in place of `Quadrature` gives the biased estimate of diffu-GRPO. `DenoisedKL(Quadrature(3), ratio=SequenceRatio(), moves=12)` adds a KL on
the same masks.

Use if: the policy is a masked diffusion language model, the reward judges whole answers, and a batch is used for many updates.
Avoid if: the model writes from left to right (see gspo), or credit per token is wanted (see coupled_grpo).
Reference: Rojas et al., Improving Reasoning for Diffusion Language Models via Group Diffusion Policy Optimization, arXiv:2510.08554. The clip and the
twelve updates are as in the released configuration (KevinRojas1499/GDPO), which has no KL term either.
Departures: In the paper the ratio is the exponential of the difference between the two values of L, and each answer's term is divided by |y|. The
released code and this recipe divide the exponent by |y| instead: the gradient at rho = 1 is equal, and the clip has one scale for all lengths. Masks
are Bernoulli as in the formula; the released code hides exactly floor(t |y|) tokens at a node, which is biased on short answers. Tokens after the
first end token are hidden and do not count; the released code scores the whole canvas, including the tokens after the end. The released code draws
the masks of the old estimate from one seed, so most of these masks differ from the masks of the new estimate. The released code computes the KL from
the sum over the tokens, not from their mean. The released code fills blocks of 32 tokens from left to right, with two tokens per step. Each step
fills the two places whose drawn tokens are most likely. Here there is one block, and each step fills the one place whose best token is most likely.
The temperature is 1; in the released code it is 0.9.
"""

from gradus.credit.groups import GroupRelative
from gradus.objectives.denoised import DenoisedPolicy
from gradus.objectives.ratios import SequenceRatio
from gradus.objectives.trust import Clip
from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim
from gradus.rollouts.unmasking import Unmasking
from gradus.types.masks import Quadrature
from gradus.updates.minibatches import Minibatches

gdpo = grpo.derive(
    "gdpo",
    "GRPO for masked language models with one ratio per sequence, from an ELBO that quadrature integrates over noise levels.",
    family="generation",
    rollout=Unmasking("confidence"),
    credit=GroupRelative(scale="none"),
    objective__policy=DenoisedPolicy(Quadrature(3), SequenceRatio(), Clip(0.5, 0.5)),
    objective__kl=None,
    players__reference=None,
    update=Minibatches(epochs=12),
)

claims = (
    Claim(
        says="On 4 x 4 sudoku, the reward after equal updates is at least 3 points above that of the one-step estimate.",
        source=(
            "GDPO, arXiv:2510.08554, the comparison with diffu-GRPO; the built-in masked model in place of LLaDA-8B. Replaced before any "
            "measurement, with another built-in model: the earlier one had been stopped early, lacked the skill, and learned nothing from rewards "
            "at 3e-4. The rate of both arms is about a sixth of that of coupled_grpo, because the recipe makes twelve updates per batch, not two: "
            "a trial with another seed lost every right answer within two batches at 3e-4, and the paper too asks for a smaller rate than "
            "diffu-GRPO's."
        ),
        against="gdpo --objective.policy.masks=OneStep",
        measure="held_out/accuracy:last",
        better_by=0.03,
        task="sudoku4",
        fields={
            "learning_rate": "3e-5",
            "setting.prompts": "8",
            "setting.group": "8",
            "setting.eval_every": "0",
            "study.problems": "192",
            "study.greedy": "false",
        },
        budget="steps=8",
        seeds=3,
    ),
)
