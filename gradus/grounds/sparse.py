"""sparse: about one answer in forty is right, so most groups have no signal. The task is four nested string functions. The built-in model was trained
on three nested functions, so pass@1 is 0.03, and pass@16 is about 0.23. Of eight groups of 16 answers, about two have both right and wrong answers;
the other six give no signal. A method that continues to sample until every group has right and wrong answers trains on eight groups per step. The
budget is a number of steps, so further sampling costs this method about four times the rollouts, which the table shows as tokens. The pair compares
DAPO with a DAPO that has only one round of sampling. The measure is the number of tokens that a step trains on, because further sampling changes this
number. The table also shows accuracy and pass@16. In six steps at a learning rate of 1e-4 these two numbers hardly change. The examination asks for
sixteen answers per problem because of pass@16."""

from gradus.comparison.ground import Ground, Pair
from gradus.types import Frozen

sparse = Ground(
    name="sparse",
    about="One answer in forty is right, so most groups have no signal.",
    task="string_ops",
    options=Frozen(level="4"),
    budget="steps=6",
    fields=Frozen({"learning_rate": "1e-4", "prompts": "8", "group": "16", "warmup": "0", "study.problems": "64", "study.greedy": "false", "eval_every": "6"}),
    measures=("accuracy", "pass@16", "tokens/train:mean"),
    pair=Pair(
        "dapo", "dapo --rollout Auto", "tokens/train:mean",
        "DAPO samples until each group has right and wrong answers; one round gives one to three such groups.",
    ),
    seeds=4,
    problems=40,
    samples=16,
)
