"""wordy: the start model writes most steps twice or more, and only a penalty on length makes its answers shorter.

The built-in model imitates, for 60 steps, worked solutions of arithmetic that write each column one to four times (`repeats`). The answers of the
start model then have 44 tokens on average and at most 60; a bare solution has about 20 tokens. Right answers can have any length, so a reward for right
answers alone does not change the length. A penalty on length lowers the reward of long answers, and so makes answers shorter. The question is whether
the accuracy stays the same.

The measure is the length; shorter is better. The table also shows the accuracy, which must stay the same. DAPO's penalty begins at `max_tokens` minus
`cache`: at 16 tokens here, so nearly all answers are longer. There are sixty steps of 64 answers with one update each, at the learning rate of the
built-in models.
"""

from gradus.comparison.ground import Ground, Pair, Start
from gradus.types import Frozen

wordy = Ground(
    name="wordy",
    about="The start model writes every step twice or more; right answers have every length.",
    task="arithmetic",
    options=Frozen(level="2", repeats="4"),
    start=Start(
        "sft",
        "arithmetic",
        60,
        Frozen(level="2", repeats="4"),
        Frozen({"learning_rate": "1e-3", "prompts": "8", "group": "8", "warmup": "0"}),
    ),
    budget="steps=60",
    fields=Frozen(
        {
            "learning_rate": "3e-4",
            "prompts": "8",
            "group": "8",
            "warmup": "0",
            "max_tokens": "60",
            "update.count": "1",
            "study.problems": "16",
            "study.greedy": "false",
        }
    ),
    measures=("length", "accuracy", "truncated:mean"),
    pair=Pair(
        "priced=dapo --reward.parts.overlong.cache 44",
        "free=dapo --reward Verified",
        "length",
        "The penalty on length makes the shorter of two right answers better; without the penalty they are equal.",
    ),
    seeds=5,
    problems=60,
    samples=2,
)
