"""Expert iteration: sample from the current policy, keep what is right and distinct, fine-tune on it, and begin again.

A step is a round: the policy answers the setting's problems `group` times each; of the right answers those with the same equations count
once; `epochs` passes in `count` mini-batches imitate them, loss = -(1 / number of tokens of the mini-batch) sum sum_t log pi(y_t).
How many problems a round has is scale: `--prompts`. A round without a right answer moves nothing.

Fine-tuning goes on from the policy as it is. Beginning every round from the start model, so that the rounds improve the data alone, is
`--update ResetWeights --players.start Player --players.start.model Copy --update.update.epochs 2 --update.update.count 4`; ten answers a
problem at most: `--selection.count 10`.

References: Anthony et al., Thinking Fast and Slow with Deep Learning and Tree Search, arXiv:1705.08439; for language models Havrilla et al.,
Teaching Large Language Models to Reason with Reinforcement Learning, arXiv:2403.04642; from the start model, with at most ten answers:
Singh et al., Beyond Human Data (ReST-EM), arXiv:2312.06585, algorithm 1. Ours: two epochs in four mini-batches; no data of earlier rounds.
"""

from gradus.papers.bases.rft import rft
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
