"""two_skills: one skill is trained, and another skill that the model already has is measured.

The built-in model solves one third of the sums, and half of the problems of countdown at level 2. Arithmetic is trained, with worked solutions that write a
column once or twice (`repeats`). The model itself would not write this form. Imitation of the solutions teaches the new skill and overwrites the old skill. A
policy gradient changes only the probabilities of answers that the model already gives, and keeps more of the old skill.

The measure is the accuracy on countdown (`accuracy@old`). The table also shows the accuracy on arithmetic; both arms of the pair gain 0.3 or more in
this accuracy. In the pair each method has a learning rate at which it learns: 1e-3 for SFT, and 3e-4 for GRPO. A further arm is SFT at 3e-4, which
learns less and forgets less. There are sixty steps of 64 answers, because after 24 steps SFT is still learning the new skill.
"""

from gradus.comparison.ground import Ground, Pair
from gradus.types import Frozen

two_skills = Ground(
    name="two_skills",
    about="Training on one skill overwrites another skill of the model.",
    task="arithmetic",
    options=Frozen(level="2", repeats="2"),
    budget="steps=60",
    fields=Frozen({"learning_rate": "3e-4", "prompts": "8", "group": "8", "warmup": "0", "study.problems": "16", "study.greedy": "false"}),
    measures=("accuracy@old", "accuracy", "accuracy@strings"),
    others=("old=countdown --level 2", "strings=string_ops --level 2"),
    pair=Pair(
        "grpo",
        "hot=sft --learning_rate 1e-3",
        "accuracy@old",
        "GRPO moves weight among the model's own answers; SFT moves it to solutions that the model would not write.",
    ),
    arms=("sft",),
    seeds=4,
    problems=60,
    samples=2,
)
