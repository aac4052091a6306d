"""DPO: learns from pairs of a better and a worse answer with a logistic loss on log-ratios to a reference; no critic, reward model or ratio.

loss = mean over pairs of -log sigmoid(beta (h_w - h_l)), h = sum_t log pi(y_t) - log pi_ref(y_t), beta 0.1, pi_ref the model at the start;
with g = sigmoid(-beta (h_w - h_l)) the gradient of a pair is -beta g (grad log pi(y_w) - grad log pi(y_l)): beta / 2 at the start.

Pairs: a problem with `chosen` and `rejected` gives these two (term `given`). For any other the policy samples a group and its best and worst
answer by reward are compared (term `sampled`); groups with equal rewards are left out. The loss couples all tokens of both answers, so a
pair is never split. Given pairs are the paper's setting; pairs sampled during training are the on-line form.

References: Rafailov et al., Direct Preference Optimization: Your Language Model is Secretly a Reward Model, arXiv:2305.18290, eq. 7; on-line
pairs: Guo et al., arXiv:2402.04792. Ours: best and worst of the group as the pair; in a step with both kinds the two means are added.
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
