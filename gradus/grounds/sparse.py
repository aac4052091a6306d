"""sparse: about one answer in forty is right, so most groups hold no signal.

String functions composed four deep, from the built-in model that was made for three (pass@1 0.03, pass@16 about 0.23). Of eight groups of 16 answers
two or so have both right and wrong answers; the other six say nothing. A method that samples on until every group is mixed trains on eight groups
a step. The budget is a number of steps: sampling on costs that method some four times the rollouts, which the table shows as tokens.

The pair is told apart by the number of tokens that a step trains on, which is what sampling on changes: DAPO stands against itself with one round of sampling.
Accuracy and pass@16 stand beside it. In six steps at the rate 1e-4 they hardly move; sixteen answers to a problem in the examination are for pass@16.
"""

from gradus.comparison.ground import Ground, Pair
from gradus.types import Frozen

sparse = Ground(
    name="sparse",
    about="One answer in forty is right, so most groups hold no signal.",
    task="string_ops",
    options=Frozen(level="4"),
    budget="steps=6",
    fields=Frozen({"learning_rate": "1e-4", "prompts": "8", "group": "16", "warmup": "0", "study.problems": "64", "study.greedy": "false", "eval_every": "6"}),
    measures=("accuracy", "pass@16", "tokens/train:mean"),
    pair=Pair("dapo", "dapo --rollout Auto", "tokens/train:mean", "DAPO samples on until each group is mixed; one round leaves one to three such groups."),
    seeds=4,
    problems=40,
    samples=16,
)
