"""Ring-1T: tokens whose probability differs too much between training and sampling have no effect; a step samples a fixed number of tokens.

    loss = -1/G sum_i 1/|y_i| sum_t M(k_(i,t)) min(r_(i,t) A_i, clip(r_(i,t), 1 - 0.2, 1 + 0.28) A_i)
    k_(i,t) = (p_old(y_(i,t))) / (q(y_(i,t)))
    r_(i,t) = (pi(y_(i,t))) / (p_old(y_(i,t)))
    A_i = (R_i - mean(R)) / (std(R))

This is IcePop. The symbol q is the probability of token $y_(i,t)$ in the sampling engine. $p_old$ is the probability that the training engine computes for
this token at the start of the update. M(k) = k for 0.5 <= k <= 5, else 0; it has no gradient. Tokens with M = 0 still count in the length $|y_i|$. The
authors argue that the difference between the two engines grows exponentially if such tokens keep their gradient.

C3PO++: Omega slots decode in parallel until the step has Phi new tokens. A finished answer leaves its slot, and the next answer begins there. An
unfinished answer keeps its slot and continues in the next step with the new weights, so its tokens have several versions of q. An answer that is
unfinished at the end of its fifth step is retired. So the cost of a step does not depend on the longest answer. Metrics: idle (idle token-steps of
slots per token), decode_steps, in_flight, retired, versions.

Use if: the sampling engine computes other probabilities than the training engine (mixtures of experts, low precision), or few answers are very long.
Avoid if: both engines agree and answers have similar lengths (see grpo, dapo). In longer runs, the authors later saw the difference grow while the
mask removed fewer and fewer tokens (ringtech.notion.site/kpop).
Reference: Ling Team, Every Step Evolves: Scaling Reinforcement Learning for Trillion-Scale Thinking Model, arXiv:2510.18855: the objective of IcePop,
C3PO++. The band is 0.5 to 5.
Departures: The paper's text was not available; public summaries give the objective and the band. In the summaries the objective has one clip bound
for both sides, without a number. Our own choices are the clip 0.2 and 0.28, groups of 8, retention of 5 steps, Phi = 1024 tokens, Omega = 64 slots
and two updates per batch. AReaL is a trainer of the authors' organisation inclusionAI. AReaL has the same M(k), and also counts masked tokens in the
divisor, but averages over all tokens of a batch (`--objective.policy.average TokenMean`). There is no KL term, because its weight gamma is not
known. A group is used for training when all its answers are finished or retired. Answers to requests without a free slot never begin. Some parts are
left out: the stages before and after (imitation of long thoughts, human feedback), the experts, and the exchange of weights between machines.
`--rollout Ruled --rollout.rule Rounded --rollout.rollout BudgetedSlots` imitates a sampling engine of low precision.
"""

from gradus.objectives.corrections import MaskedImportance
from gradus.objectives.trust import Clip
from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim, same_weights
from gradus.rollouts.budgeted_slots import BudgetedSlots

ring_1t = grpo.derive(
    "ring_1t",
    "Tokens whose probability differs too much between training and sampling have no effect; a step samples a fixed number of tokens.",
    family="systems",
    rollout=BudgetedSlots(tokens=1024, retention=5),
    objective__policy__trust=Clip(0.2, 0.28),
    objective__policy__weight=MaskedImportance(),
    objective__kl=None,
    players__reference=None,
    update__count=2,
)

_NOISY = {
    "rollout": "Ruled", "rollout.rule": "Rounded", "rollout.rule.step": "2", "rollout.only_training": "true", "rollout.rollout": "BudgetedSlots",
    "rollout.rollout.tokens": "600", "rollout.rollout.slots": "32",
    "prompts": "8", "group": "8", "warmup": "0", "study": "none", "learning_rate": "3e-4",
}  # fmt: skip

claims = (
    same_weights(
        says="Without the mask, with one slot per answer and a budget above all tokens, the final weights are those of GRPO without a KL term.",
        source="arXiv:2510.18855, at p_old = q and an unlimited budget",
        against="grpo --objective.kl none --players.reference none --objective.policy.trust.high 0.28 --update.count 2",
        options={"level": "2"},
        fields={"prompts": "4", "group": "4", "warmup": "0", "study": "none", "learning_rate": "1e-4"},
        own={"rollout.tokens": "1000000", "rollout.slots": "none", "objective.policy.weight": "none"},
        budget="steps=4",
    ),
    Claim(
        says="If the sampling engine rounds log-probabilities to multiples of 2, the largest norm of the gradient is at most a third of that without the mask.",
        source="arXiv:2510.18855, IcePop (stable norms of the gradient); the size of the effect, the task and the rounding are ours",
        against="ring_1t --objective.policy.weight none",
        measure="grad_norm:max",
        at_most=0.3333,
        task="arithmetic",
        options={"level": "2"},
        fields=_NOISY,
        budget="steps=15",
        problems=100,
        samples=2,
    ),
    Claim(
        says="With the same rounding, the final accuracy is at least 5 points above that without the mask.",
        source="arXiv:2510.18855, IcePop; the size of the effect, the task and the rounding are ours",
        against="ring_1t --objective.policy.weight none",
        measure="accuracy",
        better_by=0.05,
        task="arithmetic",
        options={"level": "2"},
        fields=_NOISY,
        budget="steps=15",
        problems=100,
        samples=2,
    ),
    Claim(
        says="Idle token-steps of slots, per sampled token, are at most 0.6 times those of a batch of whole answers.",
        source="arXiv:2510.18855, C3PO++; the size of the effect and the task are ours",
        against="ring_1t --rollout InFlight --rollout.parts 1",
        measure="idle:mean",
        at_most=0.6,
        task="arithmetic",
        options={"level": "2"},
        fields={"prompts": "8", "group": "8", "warmup": "0", "study": "none", "learning_rate": "3e-4"},
        own={"rollout.tokens": "600", "rollout.slots": "32"},
        budget="tokens=20000",
        problems=100,
        samples=2,
    ),
    Claim(
        says="After as many tokens, accuracy is at least 0.95 times that with batches of whole answers.",
        source="arXiv:2510.18855, C3PO++ (equal results); the bound and the task are ours",
        against="ring_1t --rollout InFlight --rollout.parts 1",
        measure="accuracy",
        at_least=0.95,
        task="arithmetic",
        options={"level": "2"},
        fields={"prompts": "8", "group": "8", "warmup": "0", "study": "none", "learning_rate": "3e-4"},
        own={"rollout.tokens": "600", "rollout.slots": "32"},
        budget="tokens=20000",
        problems=100,
        samples=2,
    ),
    Claim(
        says="With the same rounding, the largest norm of the gradient is at most 0.8 times that with a weight that is capped at 5 and never 0.",
        source="arXiv:2510.18855, IcePop against truncated importance sampling; the size of the effect, the cap, the task and the rounding are ours",
        against="ring_1t --objective.policy.weight TruncatedImportance --objective.policy.weight.cap 5",
        measure="grad_norm:max",
        at_most=0.8,
        task="arithmetic",
        options={"level": "2"},
        fields=_NOISY,
        budget="steps=15",
        problems=100,
        samples=2,
    ),
)
