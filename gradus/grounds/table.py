"""table: a bandit with known payoffs. Each machine has several best arms, and the optimal policy under a KL penalty keeps them all.

There are eight machines with eight arms each. Four arms of a machine pay 1, and the other four pay 0 to 0.2; an answer is one letter. All expected
rewards are known. The optimum under a penalty of beta KL is also known: pi0 exp(r / beta) / Z. In this optimum the best arms of a machine have the
same proportions as at the start. Without a penalty every distribution over the best arms is optimal. Then the noise of sampling decides, and the
policy loses one arm after another.

The start model is the built-in model after eight steps on random best arms. Eight steps are enough to learn the form of an answer, but not enough to
distinguish machines. So the start model has the entropy of eight equally likely arms: 2.5 nats per answer. Of this entropy, 2.1 nats come from the arm.
`distinct` counts the different best arms among eight answers for one machine. If all eight arms are equally likely, this number is 2.6. If only the
four best arms are drawn, all equally likely, this number is 3.6. For a policy that always gives one best arm, this number is 1. For this collapse to
one arm, 30 steps at a learning rate of 3e-4 are enough.
"""

from gradus.comparison.ground import Ground, Pair, Start
from gradus.types import Frozen

table = Ground(
    name="table",
    about="A bandit with known payoffs and several best arms for each machine: which of the arms does the policy keep?",
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
        "A strong KL term keeps the best arms of a machine at their first shares; with GRPO's default, 0.04, one arm takes all.",
    ),
    seeds=5,
    problems=64,
    samples=8,
)
