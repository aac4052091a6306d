"""depth: training sees chains of two string functions; chains of three are examined as well, and are never trained.

The built-in model solves about four of five problems of level 2 and two of five of level 3. Imitation of the worked solutions of level 2 soon solves
nearly all of its problems. How much of that carries over to one function more depends on how far the weights went: at the rate of 3e-4 much of it,
at 1e-3 little. The accuracy on the trained level hardly tells the two apart.

The measure is the accuracy on level 3 (`accuracy@deep`). The pair is one recipe at two rates. RFT, which imitates its own right answers, and GRPO
stand beside it. Twenty-four steps of 64 answers are enough for SFT to reach its end on the trained level.
"""

from gradus.comparison.ground import Ground, Pair
from gradus.types import Frozen

depth = Ground(
    name="depth",
    about="Chains of two functions are trained; chains of three, never trained, are examined.",
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
        "Both rates fit the trained chains; the higher one moves the weights further, and loses what carries over to longer ones.",
    ),
    arms=("rft", "grpo"),
    seeds=5,
    problems=60,
    samples=2,
)
