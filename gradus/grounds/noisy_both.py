"""noisy_both: the verifier makes errors in both directions. The verifier calls three in ten wrong answers right, and three in ten right answers wrong.

The task is `noisy` over arithmetic of two digits. Training starts from the built-in model (about 0.4 of its answers are right). A hash of problem and
answer decides which verdicts are wrong. The verdict calls a right answer right with a chance of 0.7, and a wrong answer with a chance of 0.3. So the
gap between the two chances falls from 1 to 0.4. Held-out verdicts are true. At the start about 40 % of the answers that are called right are wrong.

A policy gradient with a baseline still points towards right answers, but has more variance. A method that imitates every answer that is
called right also learns wrong answers. A method that trusts a single verdict is misled in three cases of ten.
"""

from gradus.comparison.ground import Ground, Pair
from gradus.types import Frozen

noisy_both = Ground(
    name="noisy_both",
    about="The verifier calls 30 % of the wrong answers right and 30 % of the right answers wrong; held-out verdicts are true.",
    task="noisy",
    options=Frozen(of="arithmetic", level="2", missed="0.3", fooled="0.3"),
    budget="steps=8",
    fields=Frozen(learning_rate="3e-4", prompts="8", group="8", **{"study.problems": "16"}),
    measures=("accuracy", "reward:last"),
    pair=Pair(
        "grpo", "expert_iteration", "accuracy",
        "GRPO compares rewards with the group's mean; expert iteration imitates every wrong answer that is called right.",
    ),
    seeds=4,
    problems=60,
    samples=2,
)
