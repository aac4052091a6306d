"""CHORD: supervised learning from an expert as an auxiliary loss within on-policy RL, with one weight that falls over training (CHORD-mu).

Each step has groups sampled by the policy and expert answers (x, y*) to other problems, a fifth of all answers:

    loss = (1 - mu) L_GRPO + mu L_SFT,   L_SFT = 1/N* sum over expert tokens of -log pi(y*_t | x, y*_<t),  N* their number;
    L_GRPO = 1/N sum over the policy's own tokens of -min(rho A, clip(rho, 0.8, 1.2) A),  N their number, A the reward standardised in the
    group; no KL.

mu falls from 0.9 to 0.05 along a cosine in 200 steps and stays there: mu_t = 0.05 + 0.85 (1 + cos(pi t / 200)) / 2. A warm-up is another
point: `chord.but(schedule__points=((0, 0.0), (200, 0.5), (600, 0.02)), schedule__shape=("linear", "cosine"))`. `chord_phi` weighs each
expert token instead.
One update per batch, the "strict on-policy training" of the paper, so rho is 1 and the clip never binds; `--update.count` sets more updates.

Reference: Zhang et al., On-Policy RL Meets Off-Policy Experts: Harmonizing Supervised Fine-Tuning and Reinforcement Learning via Dynamic
Weighting, arXiv:2508.11408, eq. 1 to 3 and appendix A: 8 answers to each of 32 problems beside 64 expert answers, 0.9 to 0.05 in 200 steps for
mathematics; for the use of tools 30 steps and an expert share of a ninth. The text names no shape of the fall; the cosine is that of the released
code (Trinity-RFT, mix_chord), which counts steps from 1, takes both means per micro-batch and divides by the deviation of the sample plus 1e-6.
Its example file has a warm-up to 0.5 with token weights, close to the paper's appendix B.7 and neither of its two variants. The paper's rewards
also punish wrong formats and endless answers. Ours: the expert answers are the task's worked solutions, of problems drawn like the others.
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
    "Expert answers stand beside the policy's groups; their likelihood is an auxiliary loss whose share falls over training.",
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
