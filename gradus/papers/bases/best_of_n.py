"""Best of n, distilled: the policy imitates the best of each group of its own answers, so that one sample becomes as good as n.

loss = -(1 / number of tokens of the batch) sum over problems, sum_t log pi(y*_t), y* = the answer with the highest reward, the earliest
of equals. n is the setting's group size. If all rewards of a group are equal, its first answer is imitated, with a mean gradient of zero.

This recipe is for training. At test time, without any change of weights, the same is a search: `--search BestOf` samples n answers to
every problem and keeps the one with the highest reward, `--search Majority` the commonest one. It works with every recipe, and
evaluation then measures policy and search together.

References: Dong et al., RAFT: Reward rAnked FineTuning for Generative Foundation Model Alignment, arXiv:2304.06767, algorithm 1 (best of
each prompt's samples, then supervised fine-tuning); best of n at test time: Stiennon et al., arXiv:2009.01325. Ours: one pass over the kept
answers per step; the paper trains on them to convergence before it samples again.
"""

from gradus.credit.groups import Constant
from gradus.objectives.terms import Imitation
from gradus.papers.bases.reinforce import reinforce
from gradus.recipe.claim import Claim
from gradus.selection.filters import Best
from gradus.types import Frozen

best_of_n = reinforce.derive(
    "best_of_n",
    "The policy imitates the best of each group of its own answers.",
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
