"""ladder: most problems are trivial or impossible for the start model, so most groups of answers have no signal.

The problems are string functions. Of five problems, two compose one function, one composes three functions, and two compose eight functions. At the
start, the shares of right answers are 0.97, 0.39 and 0. Groups of the first and the last kind mostly have equal rewards. So a method that draws all
kinds equally spends four fifths of its rollouts on groups without a gradient. A method that finds and draws the kind with a signal has up to three
times as many useful groups from the same number of rollouts.

The measure is the share of groups that have a gradient (`informative`, the mean over the steps), because a curriculum changes this share. The
table also shows the accuracy on the problems that compose three functions (`accuracy@middle`). Only these problems teach much, but this
accuracy changes little in fourteen steps. With sixteen problems per step, SEC's bandit nearly always sees every kind at its first step. The
learning rate, 3e-4, is harmless here. The bandit's temperature, 0.2, is the value that SEC's paper uses for levels of puzzles.
"""

from gradus.comparison.ground import Ground, Pair
from gradus.types import Frozen

ladder = Ground(
    name="ladder",
    about="Four of five problems are trivial or impossible, so their groups hold no signal.",
    task="ladder",
    budget="steps=14",
    fields=Frozen({"learning_rate": "3e-4", "prompts": "16", "group": "8", "warmup": "0", "study.problems": "20", "study.greedy": "false", "eval_every": "7"}),
    measures=("informative:mean", "accuracy@middle", "accuracy"),
    others=("middle=string_ops --level 3",),
    pair=Pair("sec --curriculum.tau 0.2", "grpo", "informative:mean", "SEC draws the kinds with large advantages; GRPO draws all kinds equally."),
    seeds=5,
    problems=60,
    samples=2,
)
