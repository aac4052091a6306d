"""noisy: the verifier calls three in ten wrong answers right.

The task is `noisy` over arithmetic of two digits. Training starts from the built-in model (about 0.4 of its answers are right). A hash of problem and answer
decides which verdicts are wrong. So the same answer gets the same error again, and other problems give no hint of this error. Right answers are always called
right. At the start about 0.18 of all verdicts call a wrong answer right, so about a third of the answers that are called right are wrong. Held-out
verdicts are true.

The rate of these errors is the same for all wrong answers. A policy gradient with a baseline subtracts this rate, and still moves towards the right answers.
A method that imitates every answer that is called right also learns wrong answers. With true verdicts, RFT reaches an accuracy of 0.9 or more in the eight
batches of the budget (one seed).
"""

from gradus.comparison.ground import Ground, Pair
from gradus.types import Frozen

noisy = Ground(
    name="noisy",
    about="The verifier calls 30 % of the wrong answers right; held-out verdicts are true.",
    task="noisy",
    options=Frozen(of="arithmetic", level="2", fooled="0.3"),
    budget="steps=8",
    fields=Frozen(learning_rate="3e-4", prompts="8", group="8", **{"study.problems": "16"}),
    measures=("accuracy", "reward:last"),
    pair=Pair(
        "grpo", "rft", "accuracy",
        "GRPO's baseline subtracts the errors, which are equally likely for all wrong answers; "
        "RFT imitates every wrong answer that is called right.",
    ),
    arms=("expert_iteration",),
    seeds=4,
    problems=60,
    samples=2,
)
