"""StreamBP: the backward pass goes through each layer and the output head in chunks of the sequence, with exact gradients and less memory.

    dL/dW = sum_(c=1)^D dL/(dH'_c) (dH'_c)/(dW)
    H'_c = f(H_c, K_(<=c), V_(<=c))
    loss_DPO = -log sigmoid(beta m)
    grad loss_DPO = -beta sigmoid(-beta m) grad (log pi(y_w) - log pi(y_l))

f is a layer, H its input, and H'_c the rows of its output in chunk c of D = 8. The forward pass keeps only H. For the backward pass, the chunks are taken from
the last to the first. The queries, the attention and the MLP of chunk c are computed again from $H_c$, and one backward pass runs through this chunk only. The
gradients of the weights and of all earlier keys and values are added up. The backward pass of chunk c begins after all later chunks are done. So the
gradients of its keys and values are complete, and the sums are exact. A chunk attends only to keys up to its own end. A chunk has ceil(N/D) of the N rows of
a micro-batch, so there can be fewer than D chunks.

The head computes the logits of one chunk at a time, forward and backward; with A actions, there are never more than ceil(A/D) rows of logits. A loss
that is a sum over tokens (sft, grpo) passes its slopes to the chunks directly. DPO couples all tokens of a pair by the margin m, so a pass without
gradients comes first; the slope of each token is then a constant. Every recipe has the field `backward_chunks`: `gradus train dpo --backward_chunks 8`.

Use if: long sequences do not fit into memory, or a longer micro-batch should fit.
Avoid if: memory is not scarce (the layers are computed twice), or the model does not run in the built-in decoder.
Reference: Luo et al., StreamBP: Memory-Efficient Exact Backpropagation for Long Sequence Training of LLMs, arXiv:2506.03077, abstract (sequences 2.8 to 5.5
times as long as with checkpointing, in a comparable or shorter time), section 3.2 (head, attention and MLP). Code: https://github.com/Ledzy/StreamBP.
Departures: In the paper a separate backward pass through the keys and values follows the last chunk. Here each chunk includes this pass for its own keys and
values, because their gradient is already complete. The released code takes the chunks from the first to the last. For each chunk, it computes all keys and
values up to the end of the chunk again. The option there is the size of a chunk in tokens (500 by default, for layers and head), not the number of chunks.
Chunks are cut from the packed rows of a micro-batch. So a shared prompt occurs once, in one chunk or in several, and its keys collect the gradients of all
answers. The forward pass computes the attention of all rows together. The base is GRPO; the paper does not change any loss. The number 8 comes from the
measurements of our catalogue. A profile sets all fields of the setting, so `--profile small` needs `--backward_chunks 8` too. With `--processes`, the
gradients of several processes are added once per micro-batch.
"""

from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim

streambp = grpo.derive(
    "streambp",
    "The backward pass goes through each layer and the head in chunks of the sequence.",
    family="systems",
    setting__backward_chunks=8,
)

LONG = "one sequence of 2,048 tokens, 4 layers of width 512, vocabulary 4,096; the model, and both bounds, are ours"
claims = (
    Claim(
        says="With 8 chunks, the forward and backward pass adds at most 0.6 of the memory that it adds with checkpointing of every layer.",
        source=f"arXiv:2506.03077, abstract (longer sequences in the same memory); {LONG}",
        against="grpo --recompute true",
        measure="memory",
        at_most=0.6,
        script="benchmarks.update_parts streambp-memory",
    ),
    Claim(
        says="With 8 chunks, the forward and backward pass takes at most 1.3 times as long as with checkpointing of every layer.",
        source=f"arXiv:2506.03077, abstract (comparable or shorter time); {LONG}; processor time on one thread",
        against="grpo --recompute true",
        measure="seconds",
        at_most=1.3,
        script="benchmarks.update_parts streambp-time",
    ),
)
