"""stale: a batch is used for 32 updates, so most updates use samples of weights that are many updates old.

The task is arithmetic of two digits. Training starts from the built-in model (about 0.4 of its answers are right). A batch of 64 answers is
cut into 8 mini-batches and used in 4 epochs, so the last update reads samples that are 31 updates old. The learning rate, 3e-4, is harmless
with one update per batch: GRPO and RLOO then both learn. With 32 updates the ratio of new to old probability grows without bound if nothing
limits it, and the policy collapses within four batches. A method that limits the ratio, or drops samples that have drifted, keeps its
accuracy and continues to learn. The run has six batches, so it ends after the collapse. The evaluation on 16 problems only draws the curve;
the examination at the end decides.
"""

from gradus.comparison.ground import Ground, Pair
from gradus.types import Frozen

stale = Ground(
    name="stale",
    about="Every batch is used for 32 updates, so samples come from weights up to 31 updates old.",
    task="arithmetic",
    options=Frozen(level="2"),
    budget="steps=6",
    fields=Frozen(
        {"learning_rate": "3e-4", "prompts": "8", "group": "8", "update.count": "8", "update.epochs": "4", "study.problems": "16"},
    ),
    measures=("accuracy", "held_out/accuracy:drop", "entropy:last"),
    pair=Pair("grpo", "rloo", "accuracy", "GRPO clips the ratio of new to old probability; RLOO multiplies by it, even if it is large."),
    arms=("gspo",),
    seeds=4,
    problems=60,
    samples=2,
)
