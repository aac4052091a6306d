"""CHORD: supervised learning from an expert is an auxiliary loss of on-policy RL. The weight of this loss falls during training (CHORD-mu).

    loss = (1 - mu) L_GRPO + mu L_SFT
    L_GRPO = 1/N sum_i sum_t -min(rho_(i,t) A_i, clip(rho_(i,t), 1 - 0.2, 1 + 0.2) A_i)
    L_SFT = -1/M sum_y sum_t log pi(y_t | x, y_(<t))
    mu_k = 0.05 + 0.85/2 (1 + cos((pi k) / 200))

Each step has groups that the policy samples, and expert answers y to other problems x. A fifth of all answers are expert answers. $A_i$ is the reward
standardised in the group, and rho is the ratio of a token to the sampling policy. N counts the policy's own tokens, and M counts the tokens of
the expert answers. There is no KL term.

mu falls from 0.9 to 0.05 along a cosine in 200 steps and stays there; in the last line pi is the number 3.14..., and k is the step. Other points of
the schedule give a warm-up: `chord.but(schedule__points=((0, 0.0), (200, 0.5), (600, 0.02)), schedule__shape=("linear", "cosine"))`. In `chord_phi`
each expert token has its own weight. There is one update per batch, the "strict on-policy training" of the paper. So rho is 1 and the clip never
acts; `--update.count` sets more updates.

Use if: expert answers have another style than the policy's answers, and imitation before RL would harm the policy's own abilities.
Avoid if: no expert answers exist (see grpo), or each expert token should have its own weight (see chord_phi). If each group should contain a solution
of the group's problem, see luffy.
Reference: Zhang et al., On-Policy RL Meets Off-Policy Experts: Harmonizing Supervised Fine-Tuning and Reinforcement Learning via Dynamic Weighting,
arXiv:2508.11408, eq. 1 to 3 and appendix A. For mathematics there are 8 answers to each of 32 problems and 64 expert answers, and mu falls from 0.9
to 0.05 in 200 steps. For tool use there are 30 steps, and a ninth of the answers are expert answers.
Departures: The expert answers are worked solutions of the task; their problems are drawn like all other problems. The paper does not say by which
curve mu falls; the cosine is as in the released code (Trinity-RFT, mix_chord). The released code counts steps from 1, takes both means per
micro-batch and divides by the deviation of the sample plus 1e-6. The example file of the code has a warm-up to 0.5 with token weights. This schedule
is close to the paper's appendix B.7, but it differs from both variants of the paper. The paper's rewards also punish wrong formats and answers without
an end.
"""

from gradus.objectives.aggregation import TokenMean
from gradus.objectives.terms import Imitation
from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim
from gradus.rollouts.beside import Beside
from gradus.rollouts.demonstrations import Demonstrations
from gradus.schedules.ramp import Ramp

chord = grpo.derive(
    "chord",
    "Supervised learning from expert answers is an auxiliary loss, whose share falls during training.",
    family="guidance",
    rollout=Beside(other=Demonstrations(), share=0.2),
    objective__policy__average=TokenMean(),
    objective__imitation=Imitation(),
    objective__kl=None,
    players__reference=None,
    schedule=Ramp("objective.imitation.coefficient", ((0, 0.9), (200, 0.05)), shape="cosine", rest="objective.policy.coefficient"),
    requires=frozenset({"solution"}),
)

claims = (
    Claim(
        says=(
            "On countdown, whose worked solutions are the expert's answers, the held-out accuracy after 20 steps is at least 0.02 above that of "
            "GRPO alone with as many own samples."
        ),
        source="arXiv:2508.11408, table of main results (there against SFT followed by RL); size of the effect and comparison with GRPO are ours",
        against="grpo",
        measure="held_out/accuracy:last",
        better_by=0.02,
        task="countdown",
        own={"schedule.points": "((0,0.9),(15,0.05))"},
        budget="steps=20",
        seeds=3,
    ),
)
