"""sparse: about one answer in forty is right, so most groups hold no signal.

String functions composed four deep, from the built-in model that was made for three (pass@1 0.03, pass@16 about 0.25). Of groups of 8 answers some
one in seven has a right answer; a batch of 8 groups often has none, and then GRPO's step is zero. A method that samples on until the batch is full of
groups with both right and wrong answers learns at every step. The budget is a number of steps: sampling on costs that method four to six times the
rollouts, which the table shows as tokens.

Eight steps; the learning rate, 3e-4, is harmless here. Sixteen answers to a problem in the examination, for pass@16.
"""

from gradus.comparison.ground import Ground, Pair
from gradus.types import Frozen

sparse = Ground(
    name="sparse",
    about="One answer in forty is right, so most groups hold no signal.",
    task="string_ops",
    options=Frozen(level="4"),
    budget="steps=8",
    fields=Frozen({"learning_rate": "3e-4", "prompts": "8", "group": "8", "warmup": "0", "study.problems": "16", "study.greedy": "false"}),
    measures=("accuracy", "pass@16", "entropy:last"),
    pair=Pair("dapo", "grpo", "accuracy", "DAPO samples on until each group has right and wrong answers; most of GRPO's groups have no right one."),
    seeds=4,
    problems=40,
    samples=16,
)
