"""table: a bandit with known payoffs. Each machine has several best arms, and the policy of the KL-regularised optimum keeps them all.

Eight machines with eight arms each, four of which pay 1 and four 0 to 0.2; an answer is one letter. All expected rewards are known, so is the optimum
under a penalty of beta KL: pi0 exp(r / beta) / Z, which gives all best arms of a machine the share that they have to each other at the start.
Without a penalty every distribution over the best arms is optimal, and the noise of sampling decides: one arm after another is lost.

The start model is the built-in one after eight steps on random best arms: enough for the form of an answer, so that its entropy is that of eight arms
(2.5 nats an answer, 2.1 for the arm), and too little to tell machines apart. `distinct` counts the different best arms among eight answers to one machine;
from eight equal arms it is 2.6, from the four best ones 3.6, and 1 from a policy that has one answer. 30 steps at 3e-4 are enough for that.
"""

from gradus.comparison.ground import Ground, Pair, Start
from gradus.types import Frozen

table = Ground(
    name="table",
    about="A bandit with known payoffs and several best arms for each machine: which of them does the policy keep?",
    task="bandit",
    options=Frozen(level="3", best="4"),
    budget="steps=30",
    start=Start("sft", "bandit", 8, Frozen(level="3", best="4"), Frozen(prompts="8", group="8", learning_rate="3e-4", warmup="0")),
    fields=Frozen({"learning_rate": "3e-4", "prompts": "16", "group": "8", "warmup": "0", "eval_every": "0", "study.problems": "16"}),
    measures=("distinct", "accuracy", "entropy:last"),
    pair=Pair(
        "kl=grpo --objective.kl.coefficient 0.5",
        "grpo",
        "distinct",
        "A strong KL term holds the best arms of a machine at the shares of the start; with GRPO's own, 0.04, one of them takes all.",
    ),
    seeds=5,
    problems=64,
    samples=8,
)
