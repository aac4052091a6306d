"""flawed: a short answer key, which false steps meet as well as true ones; on held-out problems every step is checked.

Two string functions in a chain, from the built-in model, which writes the value between them or leaves it out: about 0.3 of its answers have every
step right. In training an answer is right if the first letter of its result is, and the start model meets that with almost every answer. So the
outcome teaches nothing about the way, and a method that learns from it alone drifts. Steps can be checked exactly, because every value
follows from the one before it: the reward SoundSteps is the verdict times the share of true steps. Accuracy demands them all.

letters=1: with the whole result as key the outcome teaches the steps as well, because they lead to it (both arms then reach 0.7).
Learning rate 3e-4 and 20 steps: enough for the one arm, harmless for the other. `reward/verified:last` is the outcome of the samples in training.
"""

from gradus.comparison.ground import Ground, Pair
from gradus.types import Frozen

flawed = Ground(
    name="flawed",
    about="Right answers come from missing and false steps as well; every step can be checked.",
    task="flawed",
    options=Frozen(level="2", letters="1"),
    budget="steps=20",
    fields=Frozen({"learning_rate": "3e-4", "prompts": "8", "study.problems": "24", "study.greedy": "false"}),
    measures=("accuracy", "reward/verified:last", "length"),
    pair=Pair("rloo --reward SoundSteps", "rloo", "accuracy", "SoundSteps pays for every true step; the verdict alone pays for a flawed answer too."),
    seeds=5,
    problems=100,
    samples=2,
)
