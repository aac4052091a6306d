"""Expert iteration: sample from the current policy, keep right and distinct answers, fine-tune on them, and repeat.

    D_k = {(x, y) : y ~ pi_k(y | x), quad y right and distinct}
    loss = -1/N sum_((x, y) in M) sum_t log pi(y_t | x, y_(<t))

Step k is a round. For each problem x of the round, the policy $pi_k$ samples `group` answers. $D_k$ keeps the right answers y. If several right
answers to a problem have the same equations, $D_k$ keeps one of them. Then `epochs` passes over $D_k$ in `count` mini-batches M imitate the answers;
N is the number of tokens of the mini-batch. The result is $pi_(k+1)$. `--prompts` sets the number of problems per round. A round without a right
answer changes no weight.

Fine-tuning continues from the current policy. In a variant every round begins from the start model, so the rounds improve only the data: `--update
ResetWeights --players.start Player --players.start.model Copy --update.update.epochs 2 --update.update.count 4`. For at most ten answers per problem
use `--selection.count 10`.

Use if: a verifier exists, and training should be plain imitation of answers that the improved policy samples.
Avoid if: the policy should also learn from wrong answers (see grpo), or only the start model should write the data (see rft).
Reference: Anthony et al., Thinking Fast and Slow with Deep Learning and Tree Search, arXiv:1705.08439. The form for language models is from Havrilla
et al., Teaching Large Language Models to Reason with Reinforcement Learning, arXiv:2403.04642. The variant from the start model, with at most ten
answers, is algorithm 1 of Singh et al., Beyond Human Data (ReST-EM), arXiv:2312.06585.
Departures: Each round has two epochs in four mini-batches. Data of earlier rounds are not used.
"""

from gradus.papers.bases.rft import rft
from gradus.recipe.claim import Claim
from gradus.rollouts.auto import Auto
from gradus.updates.minibatches import Minibatches

expert_iteration = rft.derive(
    "expert_iteration",
    "Rounds of sampling from the current policy and fine-tuning on its right and distinct answers.",
    rollout=Auto(),
    players__policy=None,
    players__start=None,
    update=Minibatches(epochs=2, count=4),
)

claims = (
    Claim(
        says="Rounds that sample from the current policy reach at least 0.02 more accuracy than as many rounds that sample from the start model.",
        source="arXiv:1705.08439 and arXiv:2403.04642, iteration against one round of data; the size of the effect and the task are ours",
        against="rft --update.epochs 2 --update.count 4",
        measure="accuracy",
        better_by=0.02,
        task="arithmetic",
        options={"level": "2"},
        fields={"prompts": "4", "group": "8", "warmup": "0", "study": "none", "learning_rate": "3e-4"},
        budget="steps=10",
        problems=60,
        samples=2,
    ),
)
