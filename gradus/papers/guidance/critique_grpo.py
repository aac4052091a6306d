"""Critique-GRPO: the policy refines each answer after a critique. The best refinement replaces one answer, and its tokens have a shaped weight.

    y'_i ~ pi_old(y | x, y_i, c_i), quad i = 1, ..., G
    A_i = R_i - mean(R)
    loss = -1/(G L) [sum_own rho A + sum_refined f(pi(y'_t | x)) A] - 0.001 H
    f(p) = p / (p + 0.1)
    grad f(p) = (0.1 p) / ((p + 0.1)^2) grad log p

The policy $pi_old$ answers the problem x G times. A verifier judges each answer $y_i$, and the critique $c_i$ gives the verdict and the right answer.
The policy then reads x, $y_i$ and $c_i$, and writes the refinement $y'_i$. The best refinement replaces the first answer of the group, even a right
answer. If several refinements are equally good, the first of them is taken. So a group has G - 1 answers of the policy and one refinement, and the
mean of R is over all G. The policy learns the refinement under the plain prompt x; p is the probability of the refinement under x. There is no ratio:
f gives the most weight to unlikely tokens. The first sum is over the tokens of the policy's answers, with the unclipped ratio rho to $pi_old$. The
second sum is over the tokens of the refinement. L is a constant, and H the entropy.

A group of wrong answers gets a gradient if one refinement is right. A wrong refinement among right answers has a negative advantage, and becomes less likely.
If all rewards of a group are equal, all advantages are 0. There is no KL term. Evaluation has no critiques. Metrics: second/right, second/rescued.

`--rollout.feedback.form` changes the critique. The feedback `Criticised(FirstWrongStep())` names the first wrong step; a script finds this step from
the worked solution. `Criticised(WrittenCritique(player="critic"))` lets a player write the critique.

Use if: most groups have no right answer, and the policy can use a critique or a given answer.
Avoid if: the policy copies a given answer without a derivation, or a small model cannot use the critique (see scaf_grpo, luffy).
Reference: Zhang et al., Critique-GRPO: Advancing LLM Reasoning with Natural Language and Numerical Feedback, arXiv:2506.03106: refinement of all answers, one
refinement per group, shaping with gamma 0.1, no clip, no KL, and no division by the deviation. Critique with the right answer, entropy bonus 0.001, two
updates per batch (128 problems, 64 per update) and L = 6144 are from the released script (zhangxy-2019/critique-GRPO).
Departures: The wording of the critique is our choice. The released script switches the division by the deviation off, but under a name that the
released trainer does not read. So the authors' run divides by the deviation; `--credit.scale sample` does the same. The script leaves the number of
refinements at -1, which would make every answer a refinement; its comments and the paper name one refinement among 8 answers. The released code
encodes the text of the refinement again; here the tokens of the refinement stay unchanged. The released code sums the loss over the answers of a
small batch and divides this sum by L alone. If the policy's answers and refinements are all wrong, a wrong refinement joins the group, as in the
released code; all advantages are then 0.
"""

from typing import Any

from gradus.objectives.aggregation import ConstantLength, Joint
from gradus.objectives.ratios import Probability
from gradus.objectives.terms import EntropyBonus, PolicyGradient
from gradus.objectives.trust import Shaped, Unclipped
from gradus.papers.bases.dr_grpo import dr_grpo
from gradus.recipe.claim import Claim, same_weights
from gradus.rollouts.feedback import Told
from gradus.rollouts.refine import Refine
from gradus.rollouts.reprompted import Reprompted

FORM = "{attempt}\nThis solution is {verdict}. The right answer is {answer}.\nSolve the problem again."

critique_grpo = dr_grpo.derive(
    "critique_grpo",
    "The policy refines each answer after a critique; the best refinement joins the group with a shaped weight.",
    family="guidance",
    rollout=Refine(feedback=Told(FORM), keep=1, second=Reprompted()),
    objective__policy__trust=Unclipped(),
    objective__policy__average=Joint(ConstantLength(6144)),
    objective__expert=PolicyGradient(ratio=Probability(), trust=Shaped(0.1), average=Joint(ConstantLength(6144)), source="expert"),
    objective__entropy=EntropyBonus(0.001),
    update__count=2,
)

_TERMS: Any = {
    "task": "arithmetic",
    "options": {"level": "3"},
    "fields": {"prompts": "8", "group": "8", "warmup": "0", "study": "none", "learning_rate": "3e-4"},
    "budget": "steps=10",
}
_START = (
    "Stated again with another task: the earlier start model, on string functions, hardly used feedback. The start model is the built-in one after 150 "
    "steps of supervised fine-tuning on arithmetic with three digits: the answer alone to plain problems, worked solutions after feedback"
)

claims = (
    same_weights(
        says="If no refinement is kept, the final weights are those of Dr. GRPO without a clip.",
        source="arXiv:2506.03106, without refinements",
        against="dr_grpo --objective.policy.trust Unclipped --objective.policy.average.length 6144 --update.count 2",
        own={"rollout.keep": "0", "objective.entropy": "none"},
    ),
    Claim(
        says="Of the problems without a right first answer, at least 20 % get a right refinement, on average over 10 steps.",
        source=(
            "arXiv:2506.03106, refinements solve problems that initial answers do not; the share and the task are ours. Not seen with an earlier start "
            f"model on string functions: 0.7 % at four functions, 11 % at two. {_START}"
        ),
        measure="second/rescued:mean",
        better_by=0.2,
        script="benchmarks.warmed critique_grpo",
        **_TERMS,
    ),
    Claim(
        says="After 10 steps, accuracy on plain prompts is at least 0.03 above that of Dr. GRPO with as many updates.",
        source=(
            "arXiv:2506.03106, comparison with RL from verdicts alone; the size of the effect and the task are ours. L is the limit of an answer, 48 tokens: with "
            f"6144 the entropy bonus outweighed the gradient of such short answers, and the difference was -0.78. {_START}"
        ),
        against="dr_grpo --update.count 2",
        own={"objective.policy.average.average.length": "48", "objective.expert.average.average.length": "48"},
        measure="accuracy",
        better_by=0.03,
        problems=60,
        samples=2,
        script="benchmarks.warmed critique_grpo-accuracy",
        **_TERMS,
    ),
)
