"""many_ways: problems have many right answers, and each of them earns the full reward.

The task is `instructions` at its first level: a list of words that must have one property ("has:house"), so all other words are free. About 0.65 of
the built-in model's answers are right. The entropy of the model is 0.5 nats per token: the model writes another list in every sample. With a policy
gradient without a KL term and a learning rate of 1e-3, the entropy falls to a third in eight to twelve batches. The accuracy stays the same. The
policy settles on a few lists, although nothing rewards this. Bonuses for diversity, KL terms, wide clips and imitation of distinct answers are meant
to prevent this collapse.

The examination asks 24 problems 16 times: `distinct` counts the different right answers to a problem, and pass@16 is the share of the problems with at least
one right answer. The entropy is measured on the last batch of training.
"""

from gradus.comparison.ground import Ground, Pair
from gradus.types import Frozen

many_ways = Ground(
    name="many_ways",
    about="Problems have many right answers, but training settles on few of them.",
    task="instructions",
    options=Frozen(level="1"),
    budget="steps=12",
    fields=Frozen(learning_rate="1e-3", prompts="8", group="8", **{"study.problems": "16"}),
    measures=("entropy:last", "distinct", "accuracy", "pass@16"),
    pair=Pair(
        "rft", "rloo", "entropy:last", "RFT imitates all distinct right answers of the start model; RLOO makes every rewarded answer more likely at every step."
    ),
    seeds=5,
    problems=24,
    samples=16,
)
