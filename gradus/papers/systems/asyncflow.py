"""AsyncFlow: sampling, rewards and updates pass on each group as soon as it is ready, and sampling is S steps ahead of the updates.

    g_k = max(G_(k-1), U_(k-1-S)),  G_k = g_k + generation,  U_k = max(G_k, U_(k-1)) + update

Rollout k begins at $g_k$ and ends at $G_k$; update k ends at $U_k$. So the weights of rollout k are at most S updates old, and with S = 1 or more, no
rollout waits for the update of the rollout before it. If both take 10 s, ten steps take 200 s for S = 0 and 110 s for S = 1; a larger S saves no
further time. S = 0 (`--system none`) is synchronous training, and gives the same bytes as GRPO. `--system.steps` sets S.

Within a rollout, problems flow in micro-batches of 4. A table (the transfer queue) has a row per problem and marks each column as written. A stage (sampling,
rewards, update) takes each row once, as soon as the columns that this stage reads are written. So rewards are computed while later problems are sampled, and
a free judge takes the next groups.

The ratio of GRPO compares with the weights at the start of the update, and there is one update per step. So the ratio is 1, the clip never acts, and
samples of age S count like new samples. With `--objective.policy.ratio.against behaviour` the ratio compares with the weights that sampled the token. In the
runs of the third claim, the largest norm of a gradient was 5.7, 3.7 and 602 without this setting, and 2.1, 3.3 and 2.0 with it; with S = 0 it was
2.5, 2.8 and 2.5.

Use if: sampling and updates take times of the same order on separate devices, or rewards are slow.
Avoid if: one device does everything and rewards are fast (see grpo). If groups differ widely in their times, a step should train on the groups that finish
first: see `--system Streaming`.
Reference: Han et al., AsyncFlow: An Asynchronous Streaming RL Framework for Efficient LLM Post-Training, arXiv:2507.01663: TransferQueue, the asynchronous
workflow with delayed parameter update, S = 1; 1.59 times the throughput of the baseline on average, and equal rewards.
Departures: The update of a step begins when all its groups are judged; in the paper the update begins with the first micro-batch, and the gradient is
the same. Only answers and rewards pass through the queue; the log-probabilities of the reference are computed for the whole batch, when all groups
are judged. All instances of a rollout take new weights together, between two rollouts; the paper also lets them switch one after another. The queue
is a table in the training process and holds no data. Rows are problems with all their answers, because an advantage needs the whole group. The
recurrence above and the size of micro-batches are our choices.
"""

from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim, same_weights
from gradus.rollouts.streamed import Streamed
from gradus.types.systems import Ahead

asyncflow = grpo.derive(
    "asyncflow",
    "Rewards are computed while later problems are sampled, and sampling is one step ahead of the updates.",
    family="systems",
    rollout=Streamed(micro_batch=4),
    system=Ahead(1),
)

claims = (
    same_weights(
        says="With S = 0 the final weights are those of GRPO.",
        source="arXiv:2507.01663, staleness 0 is the synchronous order",
        against="grpo",
        own={"system": "none"},
    ),
    Claim(
        says="If rewards and updates each take a second elsewhere, a run takes at most 0.8 of the time of S = 0 without micro-batches.",
        source="arXiv:2507.01663, abstract (1.59 times the throughput); the bound and the delays, which stand for separate devices, are ours",
        against="asyncflow --system none --rollout SingleTurn",
        measure="seconds of a run",
        at_most=0.8,
        task="arithmetic",
        options={"level": "2"},
        budget="steps=10",
        script="benchmarks.asyncflow",
    ),
    Claim(
        says="After as many steps, the accuracy is at least 0.95 of that of S = 0.",
        source="arXiv:2507.01663, rewards equal to those of synchronous training; the bound and the task are ours",
        against="asyncflow --system none",
        measure="accuracy",
        at_least=0.95,
        task="arithmetic",
        options={"level": "2"},
        fields={"prompts": "8", "group": "8", "warmup": "0", "study": "none", "learning_rate": "1e-4"},
        budget="steps=15",
    ),
)
