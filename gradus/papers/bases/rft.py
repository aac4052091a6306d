"""RFT: rejection-sampling fine-tuning. The start model answers every problem many times; the policy imitates the start model's right and distinct answers.

    D = {(x, y) : y ~ pi_start(y | x), quad y right and distinct}
    loss = -1/N sum_((x, y) in D) sum_t log pi(y_t | x, y_(<t))

D contains the kept answers y of a batch and their problems x. The right answers of a group are kept. If several right answers have the same equations
in the same order, only the earliest of these answers is kept. N is the number of tokens of the kept answers. All answers come from the start model
$pi_start$, a frozen copy named `start`. The learning policy pi is never sampled in training, so it does not change its own training data.

An equation is a word with "=" inside (`selection.pattern`). Answers without an equation are compared by their tokens. The number of samples per
problem is the setting's group; the paper has up to 100 samples. A problem without a right answer is not used.

Use if: a verifier exists, worked solutions are few or worse than the model's own answers, and training should be plain imitation.
Avoid if: the policy should learn from its improved answers (see expert_iteration) or also from wrong answers (see grpo).
Reference: Yuan et al., Scaling Relationship on Learning Mathematical Reasoning with Large Language Models, arXiv:2308.01825, section 3.3.
Departures: Answers are sampled during training instead of before it, so the start model answers a repeated problem again. The data's worked solutions
are not mixed in. If several answers have equal equations, the earliest is kept; in the paper the texts that differ most are kept.
"""

from gradus.papers.bases.best_of_n import best_of_n
from gradus.recipe.claim import Claim
from gradus.rollouts.behaviour_policy import BehaviourPolicy
from gradus.selection.deduplicate import RightAndDistinct
from gradus.types.players import Copy, Player

rft = best_of_n.derive(
    "rft",
    "The policy imitates all right and distinct answers of the start model.",
    rollout=BehaviourPolicy("start"),
    selection=RightAndDistinct(pattern=r"\S+=\S+"),
    players__policy=Player(learns_from="start"),
    players__start=Player(Copy("policy")),
)

claims = (
    Claim(
        says=(
            "Fine-tuning on the model's own right and distinct answers gives at least 0.05 more accuracy than on the data's worked solutions, at "
            "equal steps."
        ),
        source="arXiv:2308.01825, RFT above SFT on GSM8K; the size of the effect and the task are ours",
        against="sft",
        measure="accuracy",
        better_by=0.05,
        task="arithmetic",
        options={"level": "2"},
        fields={"prompts": "8", "group": "4", "warmup": "0", "study": "none", "learning_rate": "3e-4"},
        budget="steps=12",
        problems=60,
        samples=2,
    ),
)
