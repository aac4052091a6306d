"""ladder: most problems are trivial or impossible for the start, so most groups of answers hold no signal.

String functions: two problems of five compose one function (0.97 right at the start), one composes three (0.39), two compose eight (never right).
Groups of the first and the last kind have equal rewards, so a method that draws all alike spends four fifths of its rollouts on nothing. A method
that finds out which kind has a signal, and draws it, has up to five times as many useful groups at an equal number of rollouts.

The measure is the accuracy on the problems in the middle, from which alone something can be learned (`accuracy@middle`).
Each batch of 64 answers is cut into four updates, so that sixteen batches are enough to learn. The temperature 0.2 of the bandit is that of its
paper for levels of puzzles.
"""

from gradus.comparison.ground import Ground, Pair
from gradus.types import Frozen

ladder = Ground(
    name="ladder",
    about="Four of five problems are trivial or impossible, so their groups hold no signal.",
    task="ladder",
    budget="rollouts=1024",
    fields=Frozen({"learning_rate": "5e-4", "update.count": "4", "prompts": "8", "group": "8", "warmup": "0", "study.problems": "20", "study.greedy": "false"}),
    measures=("accuracy@middle", "accuracy", "worst@difficulty"),
    others=("middle=string_ops --level 3",),
    pair=Pair("sec --curriculum.tau 0.2", "grpo", "accuracy@middle", "SEC draws the kinds on which the advantages were large; GRPO draws all alike."),
    seeds=4,
    problems=60,
    samples=2,
)
