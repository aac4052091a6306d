"""Ring-lite: every update has the same number of tokens, and training begins with the distilled model of middle entropy, not with the best model.

    sum_(i in S) |o_i| = Phi
    loss = 1/Phi sum_(i in S) sum_t [-min(rho_(i,t) A_i, clip(rho_(i,t), 1 - 0.2, 1 + 0.2) A_i) + 0.001 k_3]
    A_i = (r_i - mean(r)) / (std(r))
    H_k < 0.6 H_0

The first three lines are C3PO. All answers of a step are shuffled, and S takes them in this order until they have Phi tokens. The answer at the border
contributes its first tokens; no update uses the answers after it, but they count in the mean and the deviation of their group. Phi = 409600 is also the
divisor, so a token has the same weight in every step. The ratio rho and the estimator $k_3$ are as in GRPO.

Stage `distil` imitates worked solutions. $H_k$ is the mean of -log p over the tokens that the policy samples for held-out problems, after k steps.
The stage ends at the first evaluation with $H_k$ below 0.6 times $H_0$. In the paper, a model of lower entropy explores less, and its reward
collapses sooner in training; a model of higher entropy learns more slowly and ends with less reward. Stage `reinforce` trains the chosen model with
C3PO. Metrics: tokens/train, held_out/entropy.

Use if: lengths of answers differ widely, so that the gradient and the cost of an update change from step to step.
Avoid if: sampling is expensive, because answers beyond the budget are not used (see ring_1t, dapo); or all answers of a step fit into the budget.
Reference: Ling Team, Ring-lite: Scalable Reasoning via C3PO-Stabilized Reinforcement Learning for LLMs, arXiv:2506.14731: eq. 2 and 3 and figure 3
(the budget, the cut at the border after the advantages are computed), section 4.1.1 (512 prompts, 16 answers per prompt, Phi = 409600, KL weight
0.001, learning rate 3e-6), section 4.3.2 (the choice of the checkpoint by entropy).
Departures: The paper chooses among checkpoints after whole epochs of imitation, by an entropy between 0.3 and 0.5; the factor 0.6 and the entropy on
held-out problems are our choices. The paper does not say in which order S takes the answers, and gives no number for the clip; the random order is
our choice, and the clip 0.2 is GRPO's. Each batch has one update, so rho is 1 and the clip does not act; the paper mentions a "minibatch size of 2"
without further explanation. The answers of the paper have about 13000 tokens, so Phi holds only about 32 of 8192 answers; the paper does not say
whether Phi applies to one device or to all. With our option `--selection.border wait`, the answer at the border is left out of this step and comes
first in the next step; then also set `--objective.policy.ratio.against behaviour`. The paper trains on mathematics first, then on code and science;
here, a further stage with its own `task` does this. The paper adds an entropy term of weight 5e-4, and two terms for its mixture of experts. All
three are left out; for the entropy term, set `--objective.entropy EntropyBonus --objective.entropy.coefficient 5e-4`. If a step has fewer tokens than
Phi, the divisor stays Phi.
"""

from gradus.objectives.aggregation import ConstantTotal
from gradus.objectives.kl import KL
from gradus.papers.bases.grpo import grpo
from gradus.papers.bases.sft import sft
from gradus.recipe.claim import Claim, same_weights
from gradus.schedules.stages import Stage, Stages
from gradus.selection.token_budget import TokenBudget
from gradus.study.held_out import HeldOut
from gradus.types import Frozen
from gradus.types.moments import Fallen, Steps

PHI = 409600

ring_lite = grpo.derive(
    "ring_lite",
    "Every update trains on the same number of tokens, and training begins with the distilled model of middle entropy.",
    family="systems",
    selection=TokenBudget(PHI),
    objective__policy__average=ConstantTotal(PHI),
    objective__kl=KL(0.001, average=ConstantTotal(PHI)),
    schedule=Stages(
        Frozen(
            distil=Stage(sft, Fallen("held_out/entropy", to=0.6), changes=Frozen({"setting.eval_every": 5})),
            reinforce=Stage(until=Steps(200)),
        )
    ),
    study=HeldOut(entropy=True),
    setting__group=16,
)

_AVERAGES = {"objective.policy.average.total": "40", "objective.kl.average.total": "40"}
_SMALL = {"prompts": "2", "group": "4", "warmup": "0", "study": "none", "learning_rate": "1e-4"}

claims = (
    same_weights(
        says="With a budget above the tokens of every step, the final weights are those of GRPO with a constant divisor.",
        source="arXiv:2506.14731, C3PO at an unlimited budget",
        against=(
            "grpo --objective.policy.average ConstantTotal --objective.policy.average.total 40 --objective.kl.average ConstantTotal "
            "--objective.kl.average.total 40 --objective.kl.coefficient 0.001"
        ),
        options={"level": "2"},
        fields={"prompts": "4", "group": "4", "warmup": "0", "study": "none", "learning_rate": "1e-4"},
        own={"schedule": "ConstantSchedule", "selection.tokens": "1000000", **_AVERAGES},
        budget="steps=4",
    ),
    Claim(
        says="The number of tokens per update varies less than in GRPO: its deviation, divided by its mean, is at least 0.2 lower.",
        source="arXiv:2506.14731, C3PO (constant tokens per update); the size of the effect and the task are ours",
        against="grpo",
        measure="tokens/train:variation",
        better_by=-0.2,
        task="arithmetic",
        options={"level": "2"},
        fields=_SMALL,
        own={"schedule": "ConstantSchedule", "selection.tokens": "40", **_AVERAGES},
        budget="steps=20",
    ),
    Claim(
        says="The norm of the gradient varies less than in GRPO: its deviation, divided by its mean, is at most 0.8 times as large.",
        source="arXiv:2506.14731, C3PO (stable gradients); the size of the effect and the task are ours",
        against="grpo",
        measure="grad_norm:variation",
        at_most=0.8,
        task="arithmetic",
        options={"level": "2"},
        fields=_SMALL,
        own={"schedule": "ConstantSchedule", "selection.tokens": "40", **_AVERAGES},
        budget="steps=20",
    ),
    Claim(
        says="Training from the distilled model of middle entropy ends at least 2 points above training from the last distilled model.",
        source=(
            "arXiv:2506.14731, choice of the checkpoint by entropy; the size of the effect, the task and the numbers of steps are ours; the "
            "rate is low, so that the entropy falls over many evaluations"
        ),
        against="ring_lite --schedule.stages.distil.until Steps(count=40)",
        measure="accuracy",
        better_by=0.02,
        task="arithmetic",
        options={"level": "4"},
        fields={
            "prompts": "4", "group": "8", "warmup": "0", "learning_rate": "2e-5", "study.problems": "32", "study.greedy": "false", "selection.tokens": "500",
            "objective.policy.average.total": "500", "objective.kl.average.total": "500", "schedule.stages.reinforce.until": "Steps(count=20)",
        },
        own={"schedule.stages.distil.until.most": "40"},
        budget="steps=60",
        problems=100,
        samples=2,
    ),
)  # fmt: skip
