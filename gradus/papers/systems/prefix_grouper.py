"""Prefix Grouper: the answers of a group are evaluated together with their prompt, which is computed once, forward and backward.

    rows = P + sum_i R_i
    O_p = attention(Q_p, K_p, V_p)
    O_i = attention(Q_i, [K_p; K_i], [V_p; V_i])
    dL/(dK_p) = sum_i dL/(dK_p^i)

A prompt of P tokens and its G answers of $R_i$ tokens form one block of rows: [prompt | answer 1 | ... | answer G]. All computations on single tokens
(embedding, norms, projections, MLP, head) use these rows. So a group of 8 answers with P = 100 and R = 10 takes 180 rows, not 880. The positions of
each answer continue from P. Attention has two parts, both causal: the prompt attends to itself, and answer i attends to the prompt and to itself,
never to another answer. The gradients from all answers are summed in the keys and values of the prompt. The gradients are also summed in the last
prompt row, because this row predicts the first token of every answer. For every loss, the result is the same as with G copies of the prompt.

Gradus computes shared prompts in this way for every recipe whose policy runs in the built-in decoder. This recipe is GRPO with larger micro-batches: a group
that does not fit into `micro_tokens` is cut, and each part computes the prompt again.

Use if: prompts are long compared with answers, or groups are large.
Avoid if: answers are much longer than prompts; there is then little to share, and `--micro_tokens 4096` saves memory.
Reference: Liu et al., Prefix Grouper: Efficient GRPO Training through Shared-Prefix Forward, arXiv:2506.05433, the method (grouped attention; outputs and
gradients are equal). Code: https://github.com/johncaged/PrefixGrouper.
Departures: Several blocks lie in one packed batch without padding (on a CPU in float32; elsewhere, parts of similar length are padded together for
attention). A token that no action and no later row needs is left out. Prompts are compared by their tokens and pictures, so contexts of different
groups share a prompt too. Larger micro-batches are our choice; in the paper a group of any length is one row of the batch.
"""

from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim, same_weights

prefix_grouper = grpo.derive(
    "prefix_grouper",
    "The answers of a group are evaluated together with their prompt, which is computed once.",
    family="systems",
    setting__micro_tokens=16384,
)

LONG = "P = 512, R = 16, G = 8, 4 layers of width 256; the model, and both bounds, are ours"
claims = (
    same_weights(
        says="The final weights are those of GRPO, whose micro-batches hold the same groups.",
        source="arXiv:2506.05433, the training is equivalent to that of GRPO",
        against="grpo",
    ),
    Claim(
        says="The forward and backward pass of a group adds at most half of the memory that it adds with a copy of the prompt for each answer.",
        source=f"arXiv:2506.05433, abstract (lower cost with long prompts); {LONG}",
        against="grpo",
        measure="memory",
        at_most=0.5,
        script="benchmarks.update_parts prefix_grouper-memory",
    ),
    Claim(
        says="The forward and backward pass of a group takes at most half of the time that it takes with a copy of the prompt for each answer.",
        source=f"arXiv:2506.05433, abstract (lower cost with long prompts); {LONG}; processor time on one thread",
        against="grpo",
        measure="seconds",
        at_most=0.5,
        script="benchmarks.update_parts prefix_grouper-time",
    ),
)
