"""wordy: the start writes most steps twice and more, and nothing but a price on length asks for fewer.

The built-in model imitates worked solutions of arithmetic that write each column one to four times (`repeats`), for 60 steps. Its answers then have
44 tokens in the mean, of 60 that it may write; a bare solution has some 20. Right answers come in every length, so a reward for right answers alone
leaves the length where it is. A price on long answers shortens them; the question is whether accuracy stays.

The measure is the length, of which less is better; accuracy stands beside it and must be level. DAPO's price begins at `max_tokens` minus `cache`: at 16
tokens here, below nearly all answers. Sixty steps of 64 answers, one update each, at the rate of the built-in
models.
"""

from gradus.comparison.ground import Ground, Pair, Start
from gradus.types import Frozen

wordy = Ground(
    name="wordy",
    about="The start writes every step twice and more; right answers come in every length.",
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
        "The price on length makes the shorter of two right answers the better one; without it they are equal.",
    ),
    seeds=5,
    problems=60,
    samples=2,
)
