"""gold_proxy: a reward model, trained on 200 pairs, judges in training; the verifier, which training does not see, gives the true accuracy.

The task is arithmetic of two digits. Training starts from the built-in model. About 0.4 of its answers are right; it works in columns, or it guesses without
them. The judge is a value head on the same model. The judge was trained in one pass over 200 pairs, each of worked columns and a wrong guess; 15 % of the pairs
are swapped. The judge has learned that columns are good, not that sums must be right. Columns are more often right than guesses, so the true accuracy of every
method first rises, to about 0.9. If a method continues to raise the score, its answers then become unlike the answers on which the judge was trained. The true
accuracy falls while the score still rises; GRPO's KL term, 0.04, does not prevent this. Best of n from the start model has a bound: with eight answers, the KL
divergence from the start model is at most log 8 nats.

The budget is 24 steps. GRPO's accuracy has its peak after about 6 steps. After 24 steps the accuracy is below its value at the start, and near 0 in most seeds.
The learning rate is 5e-4, so a run takes only seconds. `reward:last` is the judge's score. With RFT, `reward:last` is the score of the start model's
answers, because the start model samples. `accuracy` is the true accuracy.
"""

from gradus.comparison.ground import Ground, Pair, Start
from gradus.types import Frozen

gold_proxy = Ground(
    name="gold_proxy",
    about="A reward model from 200 noisy pairs judges: after a first gain the true accuracy falls while the score rises.",
    task="arithmetic",
    options=Frozen(level="2"),
    judge=Start(
        "reward_model",
        "noisy_pairs",
        25,
        Frozen(level="2", swapped="0.15", pairs="200"),
        Frozen({"learning_rate": "3e-4", "prompts": "8"}),
    ),
    budget="steps=24",
    fields=Frozen({"learning_rate": "5e-4", "prompts": "8", "study.problems": "24", "study.greedy": "false"}),
    measures=("accuracy", "reward:last", "held_out/accuracy:drop"),
    pair=Pair(
        "rft --selection Best", "grpo", "accuracy",
        "Best of eight stays within log 8 nats of the start; "
        "GRPO follows the score beyond the judge's training data.",
    ),
    seeds=4,
    problems=60,
    samples=2,
)
