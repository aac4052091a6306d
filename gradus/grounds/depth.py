"""depth: training sees chains of two string functions; evaluation also has chains of three functions, which are never trained.

The built-in model solves about four of five problems of level 2, and about two of five problems of level 3. Imitation of the worked solutions of level 2 soon
solves nearly all problems of this level. The transfer to one more function depends on how far the weights move: the learning rate 3e-4 gives much transfer, and
1e-3 gives little. The accuracy on the trained level is almost the same for both rates.

The measure is the accuracy on level 3 (`accuracy@deep`). The pair compares one recipe at these two learning rates. The table also shows GRPO and RFT; RFT
imitates its own right answers. After twenty-four steps of 64 answers, the accuracy of SFT on the trained level no longer rises.
"""

from gradus.comparison.ground import Ground, Pair
from gradus.types import Frozen

depth = Ground(
    name="depth",
    about="Training has chains of two functions; evaluation has chains of three functions, which are never trained.",
    task="string_ops",
    options=Frozen(level="2"),
    budget="steps=24",
    fields=Frozen({"learning_rate": "3e-4", "prompts": "8", "group": "8", "warmup": "0", "study.problems": "16", "study.greedy": "false"}),
    measures=("accuracy@deep", "accuracy", "length"),
    others=("deep=string_ops --level 3",),
    pair=Pair(
        "sft",
        "hot=sft --learning_rate 1e-3",
        "accuracy@deep",
        "Both rates fit the trained chains; the higher rate moves the weights further, and loses the transfer to longer chains.",
    ),
    arms=("rft", "grpo"),
    seeds=5,
    problems=60,
    samples=2,
)
