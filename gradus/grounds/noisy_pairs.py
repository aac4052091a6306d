"""noisy_pairs: three of ten preferences are swapped.

The task is arithmetic of two digits. Training starts from the built-in model. About 0.4 of its answers are right; it works in columns, or it guesses without
them. Each problem has two given answers, the worked columns and a wrong guess; in 30 % of the training pairs the two answers are swapped. The swaps are random,
so no method can learn which pairs are swapped. Every step draws new pairs. If a method learns from the difference of the two answers, swapped pairs cancel
other pairs, and the majority decides: DPO reaches an accuracy of 0.9. A method that also imitates the preferred answer imitates the guesses among these
answers. ORPO takes the mean over the tokens of an answer. In this mean the first token, which decides the style, has five times as much weight in a guess as in
the columns. So 30 % of the pairs have more influence than the other 70 %. With swapped=0.2 and a learning rate of 3e-4, the noise of the batches would decide
the style of the final policy. Therefore 30 % of the pairs are swapped; 32 pairs per step and a learning rate of 2e-4 reduce the noise.
"""

from gradus.comparison.ground import Ground, Pair
from gradus.types import Frozen

noisy_pairs = Ground(
    name="noisy_pairs",
    about="In a given share of the preference pairs the worse answer is called the better one.",
    task="noisy_pairs",
    options=Frozen(level="2", swapped="0.3"),
    budget="steps=14",
    fields=Frozen({"learning_rate": "2e-4", "prompts": "32", "study.problems": "16", "study.greedy": "false"}),
    measures=("accuracy", "margin:last"),
    pair=Pair(
        "dpo", "orpo", "accuracy",
        "DPO learns from the difference of two answers, so swapped pairs cancel; ORPO imitates every preferred answer, also a guess.",
    ),
    seeds=4,
    problems=60,
    samples=2,
)
