"""Infinite Sampling: groups of any size with a fixed number of slots for decoding, in an order by predicted lengths.

    T = max_s sum_(i in s) |o_i|

The answers of a step share g slots. Whenever an answer ends, its slot begins the next waiting answer. T is the number of decoding steps: the largest sum of the
lengths in a slot. The expected length of an answer is the mean length of earlier answers to its problem, else a linear function of the prompt's length.
`--rollout.slots.order` sets the order in which answers take slots:

    rounds    micro sampling groups: g answers begin together, and the next g answers begin when all of them have ended
    given     the order of the requests
    shortest  the shortest expected answer first (the default, and the paper's order for free slots: shortest job first, SJF)
    longest   the longest expected answer first
    assigned  the order of a plan whose largest sum is at most (1 + eps) times the least one (the paper's plan before decoding, FPTAS)

The draws of an answer depend only on its key, so every order gives the same answers and the same update, byte for byte. All rewards are known before the
advantages are computed. Metrics: decode_steps, rounds, idle, peak_tokens, length_error.

SJF lowers the mean waiting time, but not T. For example, take lengths 10, 2, 2, 2 in two slots: SJF needs 12 steps, like rounds; the given order, or
the longest first, needs 10 steps. Any order by length helps only if the expected lengths are accurate. On the task arithmetic the lengths differ more
within a problem than between problems, and no order by length was clearly better than the given order. With the true lengths, `longest` would take
0.83 of the steps of the given order (three seeds, 32 answers in 8 slots).

Use if: memory limits the number of answers that decode at the same time, and lengths differ widely.
Avoid if: all answers of a step fit into memory, or another engine decodes (vLLM has its own order).
Reference: Wang et al., Infinite Sampling: Efficient and Stable Grouped RL Training for Large Language Models, arXiv:2506.22950: abstract (micro
sampling groups, continuous sampling, length prediction, FPTAS and SJF). Micro sampling groups need over 50 percent less peak memory than decoding of
full groups; continuous sampling has over 25 percent more throughput than micro sampling groups. Only the abstract was read; the definition of T is
our choice.
Departures: In the paper the plan forms groups before the decoding, and SJF refills free slots during the decoding; here an order is either the plan
or SJF. The plan is exact for rounded lengths. Such a plan takes too much time for many slots, so a plan with more than 200,000 cases is refused; the
abstract does not explain how the paper computes its plan. The paper predicts a length from tokens of the answer; here all answers to a problem have
the same expected length. A slot that is refilled immediately contains more tokens on average than a slot in rounds, so less peak memory is saved.
Groups of 32 answers and the 8 slots are our own choices.
"""

from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim, same_weights
from gradus.rollouts.slotted import Slotted

infinite_sampling = grpo.derive(
    "infinite_sampling",
    "Answers of a group of any size share a fixed number of slots; the shortest expected answers begin first.",
    family="systems",
    rollout=Slotted(),
    setting__group=32,
)

RECURRING = {
    "curriculum": "CuratedClique",
    "curriculum.pool": "8",
    "curriculum.threshold": "2",
    "prompts": "4",
    "group": "8",
    "warmup": "0",
    "study": "none",
    "learning_rate": "1e-5",
}
ROUNDS = "infinite_sampling --rollout.slots.order rounds"


def fewer_steps(says: str, source: str, against: str, at_most: float, order: str) -> Claim:
    """Returns a claim about the decoding steps of 32 answers in 8 slots, for problems that recur every second step."""
    own = {"rollout.slots.order": order}
    return Claim(
        says=says, source=source, against=against, measure="decode_steps:mean", at_most=at_most, task="arithmetic", own=own, fields=RECURRING, budget="steps=12"
    )


claims = (
    same_weights(
        says="With two slots and the shortest answers first, the final weights are those of GRPO.",
        source="arXiv:2506.22950, abstract (full-length answers; the update is that of GRPO)",
        against="grpo",
        own={"rollout.slots.count": "2"},
    ),
    fewer_steps(
        "Refilled slots in the given order take at least 20 % fewer decoding steps than rounds of as many answers.",
        "arXiv:2506.22950, abstract (throughput over 25 % above micro sampling groups); the bound and the task are ours",
        ROUNDS,
        0.8,
        "given",
    ),
    fewer_steps(
        "The longest expected answers first take fewer decoding steps than refilled slots in the given order.",
        "ours: the largest sum of a slot is smaller if long answers begin first",
        "infinite_sampling --rollout.slots.order given",
        0.99,
        "longest",
    ),
    fewer_steps(
        "The shortest expected answers first take fewer decoding steps than refilled slots in the given order.",
        "arXiv:2506.22950, abstract (refill by SJF); the comparison with the given order is ours",
        "infinite_sampling --rollout.slots.order given",
        0.99,
        "shortest",
    ),
    Claim(
        says="In rounds of 8, the caches of 32 answers hold at most half of the tokens that they hold without a limit.",
        source="arXiv:2506.22950, abstract (peak memory lower by over 50 %); the task is ours",
        against="infinite_sampling --rollout.slots.count 32",
        measure="peak_tokens:mean",
        at_most=0.5,
        task="arithmetic",
        own={"rollout.slots.order": "rounds"},
        fields=RECURRING,
        budget="steps=12",
    ),
    fewer_steps(
        "The shortest expected answers first take at least 20 % fewer decoding steps than rounds of as many answers.",
        "arXiv:2506.22950, abstract (throughput over 25 % above micro sampling groups); the bound and the task are ours",
        ROUNDS,
        0.8,
        "shortest",
    ),
)
