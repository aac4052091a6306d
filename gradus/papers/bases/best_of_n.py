"""Best of n, distilled: the policy samples groups of answers and imitates the best of each group, so that one sample becomes as good as the best of n
samples.

    loss = -1/N sum_x sum_t log pi(y_t^best | x, y_(<t)^best)
    y^best = argmax_(y_1, ..., y_n) R(y_i)

The policy samples n answers $y_1$ to $y_n$ to each problem x; n is the setting's group size. R is the reward; if rewards are equal, the earliest
answer wins. N is the number of tokens of the imitated answers of the batch. If all rewards of a group are equal, the first answer of the group is
imitated; the expected gradient is then zero.

This recipe is for training. At test time the same method is a search that changes no weight. `--search BestOf` samples n answers to every problem and
keeps the answer with the highest reward. `--search Majority` keeps the most common answer. The search works with every recipe. Evaluation then
measures policy and search together.

Use if: a reward ranks several answers to a problem, and training should be plain imitation, without ratios, critic or reference.
Avoid if: the policy should also learn from wrong answers. Here only the best answer of a group enters the loss (see grpo, rloo). If several different
right answers to a problem should be kept, see rft and expert_iteration.
Reference: Dong et al., RAFT: Reward rAnked FineTuning for Generative Foundation Model Alignment, arXiv:2304.06767, algorithm 1: the best of each
prompt's samples, then supervised fine-tuning. Best of n at test time is from Stiennon et al., arXiv:2009.01325.
Departures: Each step makes one pass over the kept answers; the paper trains on them to convergence before it samples again.
"""

from gradus.credit.groups import Constant
from gradus.objectives.terms import Imitation
from gradus.papers.bases.reinforce import reinforce
from gradus.recipe.claim import Claim
from gradus.selection.filters import Best
from gradus.types import Frozen

best_of_n = reinforce.derive(
    "best_of_n",
    "The policy samples groups of answers and imitates the best of each group.",
    selection=Best(1),
    credit=Constant(),
    objective=Frozen(imitation=Imitation(source="policy")),
)

claims = (
    Claim(
        says="After 12 steps a single sample is right at least 0.15 more often than one of the start model.",
        source="arXiv:2304.06767, experiments (reward above that of the supervised start); the size of the effect and the task are ours",
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
        budget="steps=12",
    ),
)
