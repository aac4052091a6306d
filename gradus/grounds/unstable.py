"""unstable: the learning rate is ten times as high as a stable learning rate, with one update per batch.

The task is arithmetic of two digits. Training starts from the built-in model (about 0.4 of its answers are right). The learning rate is 3e-3
after a warm-up of five batches. Samples are fresh: the ratio of new to old probability is 1, so a clip of the ratio has no effect. A step of
Adam at this rate moves the policy so far that it learns within two batches and collapses within six. A method stays stable if it bounds the
step itself, stops, returns to earlier weights, or slows down.

There are eight batches of 64 answers; the collapse comes after about half of these batches.
"""

from gradus.comparison.ground import Ground, Pair
from gradus.types import Frozen

unstable = Ground(
    name="unstable",
    about="The learning rate is ten times a stable learning rate, with one update per batch.",
    task="arithmetic",
    options=Frozen(level="2"),
    budget="steps=8",
    fields=Frozen(learning_rate="3e-3", prompts="8", group="8", **{"study.problems": "16"}),
    measures=("accuracy", "held_out/accuracy:drop", "reward:drop"),
    pair=Pair(
        "trpo", "reinforce", "accuracy",
        "TRPO bounds the KL divergence of every step and halves a step that exceeds the bound; "
        "REINFORCE takes the full step of the learning rate.",
    ),
    arms=("grpo",),
    seeds=4,
    problems=60,
    samples=2,
)
