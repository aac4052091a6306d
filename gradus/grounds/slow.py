"""slow: the learning rate is so small that a method with one update per batch still learns after two hundred steps.

The task is arithmetic of two digits. Training starts from the built-in model (about 0.4 of its answers are right). The learning rate is 1e-5, a thirtieth of
the rate at which six batches are enough to learn the task. The accuracy of GRPO is 0.5 after 20 batches of 64 answers, 0.8 after 60 batches and 0.98 after 200
batches (one seed). The budget of fifteen batches is a small part of these 200 batches. So this ground shows how much a recipe learns from every sample, for
example by several epochs, several mini-batches, a critic, or its use of a group. The accuracy of all these recipes can still rise and fall.
"""

from gradus.comparison.ground import Ground, Pair
from gradus.types import Frozen

slow = Ground(
    name="slow",
    about="The learning rate is so small that learning takes hundreds of steps, but the budget is fifteen batches.",
    task="arithmetic",
    options=Frozen(level="2"),
    budget="steps=15",
    fields=Frozen(learning_rate="1e-5", prompts="8", group="8", **{"study.problems": "32"}),
    measures=("accuracy", "auc", "entropy:last"),
    pair=Pair("expert_iteration", "grpo", "accuracy", "Expert iteration takes eight updates from every batch of samples; GRPO takes one."),
    seeds=4,
    problems=120,
    samples=2,
)
