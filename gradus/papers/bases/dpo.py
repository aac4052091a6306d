"""DPO: learns from pairs of a better and a worse answer by a logistic loss on log-ratios to a reference; no critic, reward model or importance ratio.

    loss = mean over pairs of -log sigmoid(beta (h_w - h_l))
    h = sum_t log pi(y_t) - log pi_ref(y_t)
    grad loss = -beta g (grad log pi(y_w) - grad log pi(y_l))
    g = sigmoid(-beta (h_w - h_l))

$y_w$ is the better answer of a pair, $y_l$ the worse one; beta is 0.1, and $pi_ref$ is the model at the start. At the start of training g is 1/2, so
the gradient of a pair has the factor beta/2.

A problem with `chosen` and `rejected` gives these two answers as a pair (term `given`). For any other problem the policy samples a group, and the
answers with the highest and the lowest reward of the group form the pair (term `sampled`). Groups with equal rewards are left out. The loss couples
all tokens of both answers, so a pair is never split. The paper uses given pairs. Pairs that are sampled during training make the method on-line.

Use if: pairs of a better and a worse answer exist, and no verifier exists.
Avoid if: answers can be judged during training. The policy then learns more from its current samples (see online_dpo, grpo). If preferences are
unanimous, the log-ratios grow without bound (see ipo).
Reference: Rafailov et al., Direct Preference Optimization: Your Language Model is Secretly a Reward Model, arXiv:2305.18290, eq. 7. On-line pairs are
from Guo et al., arXiv:2402.04792.
Departures: The best and the worst answer of a group form the pair. If a step has given and sampled pairs, the means of both kinds are added.
"""

from gradus.credit.groups import Constant
from gradus.objectives.preference import Preference
from gradus.papers.bases.reinforce import reinforce
from gradus.recipe.claim import Claim
from gradus.rollouts.demonstrations import DemonstratedPairs
from gradus.selection.filters import BestAndWorst
from gradus.types import Frozen
from gradus.types.players import Copy, Player

dpo = reinforce.derive(
    "dpo",
    "A logistic loss on pairs of a better and a worse answer, given or sampled, relative to the start model.",
    rollout=DemonstratedPairs(),
    selection=BestAndWorst(),
    credit=Constant(),
    objective=Frozen(sampled=Preference(beta=0.1), given=Preference(beta=0.1, source="expert")),
    players__reference=Player(Copy("policy")),
)

claims = (
    Claim(
        says="Without critic, reward model or ratio, held-out accuracy rises by at least 0.15 within 15 steps of on-line pairs.",
        source="arXiv:2305.18290, experiments; on-line pairs: arXiv:2402.04792; the size of the effect and the task are ours",
        measure="held_out/accuracy:gain",
        better_by=0.15,
        task="arithmetic",
        options={"level": "2"},
        fields={
            "prompts": "8",
            "group": "8",
            "learning_rate": "3e-4",
            "warmup": "0",
            "eval_every": "0",
            "study.problems": "64",
            "study.greedy": "false",
        },
        budget="steps=15",
    ),
)
