"""wordy: the start writes twice what is needed, and wrong answers are longer than right ones.

Arithmetic of two digits. The start imitates solutions in which each column stands one to four times, drawn anew for each column: 40 tokens in
the mean, where 19 do. `max_tokens` is 48, so the longest quarter is cut, and wrong: that is one reason to be shorter, and all that a method without
a price sees. A price for length acts on right answers too. Verdicts do not depend on the repetitions, so half the tokens can go at equal accuracy.

The price of the pair is DAPO's, 0 up to 8 tokens and rising to 1 at 48 (`cache` 40); the other arm is DAPO without it. Eight steps of 64 answers in
eight mini-batches.
"""

from gradus.comparison.ground import Ground, Pair, Start
from gradus.types import Frozen

wordy = Ground(
    name="wordy",
    about="The start writes every step twice and more, and the longest answers are cut.",
    task="arithmetic",
    options=Frozen(level="2"),
    budget="steps=8",
    start=Start("sft", "arithmetic", 15, options=Frozen(level="2", repeats="4"), fields=Frozen(learning_rate="1e-3", warmup="0")),
    fields=Frozen(
        {
            "max_tokens": "48",
            "learning_rate": "1e-3",
            "prompts": "8",
            "group": "8",
            "warmup": "0",
            "update.count": "8",
            "study.problems": "16",
            "study.greedy": "false",
        }
    ),
    measures=("length", "accuracy", "truncated:last"),
    pair=Pair(
        "dapo --reward.parts.overlong.cache 40",
        "unpriced=dapo --reward Verified",
        "length",
        "A price for tokens near the limit acts on right answers too; without it only the cut answers lose.",
    ),
    seeds=4,
    problems=60,
    samples=2,
)
