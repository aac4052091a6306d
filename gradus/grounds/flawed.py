"""flawed: training checks only the first letter of a result, so answers with false steps can pass; on held-out problems every step is checked. The task is a
chain of two string functions. The built-in model sometimes writes the result of the first function and sometimes omits it: in about 0.3 of its answers every
step is right. In training an answer counts as right if the first letter of its result is right. Almost every answer of the start model passes this check. So
the outcome teaches nothing about the steps, and a method that learns only from the outcome drifts. Steps can be checked exactly, because every value follows
from the value before it. So the reward SoundSteps is the verdict times the share of true steps. For the accuracy all steps must be right.

The option letters=1 is necessary. If the whole result is checked, the outcome also teaches the steps, because the steps lead to the result. Then both arms
reach an accuracy of 0.7 (in one seed, at a learning rate of 4e-4). A learning rate of 3e-4 and 20 steps are enough for the first arm, and do no harm
in the second arm. `reward/verified:last` is the mean outcome of the training samples at the last step.
"""

from gradus.comparison.ground import Ground, Pair
from gradus.types import Frozen

flawed = Ground(
    name="flawed",
    about="Missing and false steps also lead to right answers; every step can be checked.",
    task="flawed",
    options=Frozen(level="2", letters="1"),
    budget="steps=20",
    fields=Frozen({"learning_rate": "3e-4", "prompts": "8", "study.problems": "24", "study.greedy": "false"}),
    measures=("accuracy", "reward/verified:last", "length"),
    pair=Pair("rloo --reward SoundSteps", "rloo", "accuracy", "SoundSteps rewards every true step; the verdict alone also rewards a flawed answer."),
    seeds=5,
    problems=100,
    samples=2,
)
