"""LongVILA-R1: frames of a long video are encoded once for all answers of a group, and the processes divide the long sequence by tokens.

    loss = 1/G sum_i 1/|o_i| sum_t [-min(rho_(i,t) A_i, clip(rho_(i,t), 1 - 0.2, 1 + 0.2) A_i) + 0.01 k_3]
    A_i = (r_i - mean(r)) / (std(r)), quad r_i = 0.9 a_i + 0.1 f_i

The loss is as in grpo, with G = 8 answers per group. $a_i$ is 1 for the right answer. $f_i$ is 1 for an answer of the form
`<think>...</think><answer>...</answer>`. The new part is the system, which the paper calls MR-SP (multi-modal reinforcement sequence parallelism).
MR-SP has two stages, and neither stage changes the loss.

Rollout: the frames of a video are encoded once. All answers to the question, and all passes without gradient, use the same encoded frames. The
encoded frames are stored under a hash of their pixels. The frames are encoded again if a weight of the vision tower or of the projector has changed.
If such a weight learns, every pass with gradient also encodes the frames again. With `--players.policy.trains layers`, the tower and the projector
are frozen, so every frame is encoded only once, as long as the store (256 MiB) keeps its encoding. The reference has its own tower, and keeps its own
encodings.

Prefill: with `--processes P` the N packed tokens are cut into P parts of nearly equal size. Process p computes part p, and encodes only the frames of
this part. For the attention, the processes exchange tokens for heads (all-to-all), so the result is the same as with one process. The log-probability
of token t + 1 comes from token t. So the labels are shifted before the sequence is cut: the last token of a part predicts the first token of the next
part.

Use if: one sequence with its pictures does not fit into the memory of one process, or encoding takes longer than sampling.
Avoid if: sequences are short (see grpo; several processes then share whole sequences), or the weights do not fit (see the system Sharded).
Reference: Chen et al. (NVIDIA), Scaling RL to Long Videos, arXiv:2507.07966, eq. 1 and 2 (GRPO), section 5 (MR-SP); configuration and reward in the
authors' code (NVlabs/Long-RL): KL coefficient 0.01, weights 0.9 and 0.1, learning rate 1e-6, weight decay 0.01, 4 processes per sequence for 256
frames. In the paper a group has 8 answers; the code's default is 5. The paper reports 2.1 times the speed for 512 frames on 8 A100.
Departures: No policy here reads videos, so the frames of a video are the pictures of a prompt, and a task must give them as pictures. The paper first
imitates 36000 worked answers; here, train with sft first. The paper leaves out a question if 10 answers of the start model are all right or all wrong; here
`gradus screen` does this. In the paper, all processes gather the embeddings. Here each process encodes only the frames in its part, and both neighbours
encode a frame at the cut. The parts need no padding. To sample, the processes share whole answers, not the tokens of one prompt; the paper samples with vLLM.
The authors' code clips at 1 - 0.2 and 1 + 0.3, limits the ratio to 3 if A < 0, averages over all tokens of a batch, and accepts repeated tags and empty
parts; here clip, average per answer and weight decay come from grpo, and $f_i$ requires each tag once and no empty part. A run in one process has the same
result up to rounding errors.
"""

from gradus.objectives.kl import KL
from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim, same_weights
from gradus.rewards.tags import Tags
from gradus.rewards.verified import Verified
from gradus.types.systems import SequenceParallel

longvila_r1 = grpo.derive(
    "longvila_r1",
    "Frames are encoded once for all answers of a group, and the processes divide each long sequence by tokens.",
    family="systems",
    reward=0.9 * Verified() + 0.1 * Tags(("think", "answer")),
    objective__kl=KL(0.01),
    system=SequenceParallel(),
    setting__group=8,
)

_SMALL = {"prompts": "4", "group": "8", "warmup": "0"}

claims = (
    same_weights(
        says="In one process the system changes nothing: the final weights are those of GRPO with the same reward and KL coefficient.",
        source="arXiv:2507.07966, section 5 (the system does not change the objective)",
        against="grpo --objective.kl.coefficient 0.01",
        task="shapes",
        options={"level": "1"},
        fields={**_SMALL, "study": "none"},
        own={"reward": "Verified"},
    ),
    Claim(
        says="On questions about pictures held-out accuracy rises by at least 0.1 over the start within 24 steps.",
        source="arXiv:2507.07966, table 5 (RL adds points to the imitated model); the size of the effect and the task are ours",
        measure="held_out/accuracy:gain",
        better_by=0.1,
        task="shapes",
        options={"level": "2"},
        fields={**_SMALL, "learning_rate": "3e-4", "eval_every": "0", "study.problems": "64", "study.greedy": "false"},
        budget="steps=24",
    ),
)
