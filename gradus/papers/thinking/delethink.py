"""Delethink: the model thinks in chunks of fixed size. The context of a chunk is the question and a few tokens of the earlier thought, so memory stays constant.

    y_1 ~ pi(y | q), quad y_l ~ pi(y | q, c_(l-1))
    A_g = (R_g - mean(R)) / (std(R))
    loss = 1/G sum_g 1/n_g sum_l sum_t -w min(rho A_g, clip(rho, 1 - 0.2, 1 + 0.26) A_g)
    w = min((pi_old) / (pi_behaviour), 2)

Chunk $y_1$ of an answer to question q has up to C tokens. At the end of a chunk, the context is reset: it then has q and m carried tokens $c_(l-1)$.
Each later chunk $y_l$ has up to C - m tokens. The trace ends when a chunk ends by itself, or after I chunks, so it has at most C + (I - 1)(C - m)
tokens. The m carried tokens are the first h tokens of the trace, which contain the plan, and the last m - h tokens of the trace. The policy learns to
put the needed information into these tokens. The whole trace is verified. A trace without an end has reward 0. All chunks of trace g share $A_g$.
$n_g$ counts the tokens that were sampled in the trace; carried tokens are part of the prompt and have no loss. The symbol rho is the ratio of a token
to $pi_old$, the policy at the start of the update, and w corrects for sampling by another engine, $pi_behaviour$. G counts the traces. There is no KL
term.

A trace that ends within its first chunk is an ordinary answer. With I = 1, no weight w, the plain verifier, one update and equal bounds, the method
is GRPO without KL. The carried tail is the tail of the trace. So if C is not 2 m, the tail can begin before the last chunk. `--rollout.at_test
16` allows more chunks in evaluation.

Use if: answers need more thinking than fits into the context or the memory, and a short summary is enough to continue the thought.
Avoid if: answers fit in one context (see grpo, dapo), or each step of thought needs the exact text of all earlier steps.
Reference: Aghajohari et al., The Markovian Thinker: Architecture-Agnostic Linear Scaling of Reasoning, arXiv:2510.06557. The paper has the trace and
the objective of Delethink, and the cap of 2 on the correction between engine and trainer. The paper's values C = 8192, m = C / 2, h = 100 and I = 5
are the defaults of `Chunked`. The bounds 0.2 and 0.26 and two updates per batch are as in the released configuration (with one update rho is 1 and
the clip never acts).
Departures: C = 48, m = 24, h = 0 and I = 8 fit the built-in model and the task running_sum; `--rollout Chunked` sets the paper's values. The
deviation is that of the base. A mini-batch has whole traces (the release mixes chunks). A trace without an end gets the reward 0 explicitly. The
release verifies the last chunk together with its carried tokens, even if the chunk did not end. The release keeps the loss constant above ratio 3 if
A < 0, and samples at temperature 0.6 (`--temperature 0.6`).
"""

from gradus.objectives.terms import TruncatedImportance
from gradus.objectives.trust import Clip
from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim, same_weights
from gradus.rewards.finished import Finished
from gradus.rewards.verified import Verified
from gradus.rollouts.chunked import Chunked

delethink = grpo.derive(
    "delethink",
    "Thinking in chunks: at the end of a chunk the context is reset to the question and the last tokens, so memory stays constant.",
    family="thinking",
    rollout=Chunked(size=48, carry=24, head=0, limit=8),
    reward=Verified() * Finished(),
    objective__policy__trust=Clip(low=0.2, high=0.26),
    objective__policy__weight=TruncatedImportance(cap=2.0),
    objective__kl=None,
    players__reference=None,
    update__count=2,
)

claims = (
    same_weights(
        says=(
            "With one chunk, no correction, the plain verifier, one update and equal bounds it is GRPO without its KL term: the final weights are "
            "equal."
        ),
        source="arXiv:2510.06557, the objective at a single chunk",
        against="grpo --objective.kl none --players.reference none",
        within=1e-06,
        options={"level": "2"},
        fields={"prompts": "4", "group": "4", "warmup": "0", "study": "none", "learning_rate": "1e-4", "max_tokens": "48"},
        own={
            "rollout.limit": "1",
            "objective.policy.weight": "none",
            "objective.policy.trust.high": "0.2",
            "reward": "Verified",
            "update.count": "1",
        },
    ),
    Claim(
        says=(
            "With at most 31 tokens in memory, thinking in chunks of 31 with the last 16 tokens carried solves at least 20 points more problems than "
            "GRPO, whose answers end after 31 tokens."
        ),
        source="arXiv:2510.06557, accuracy beyond the training budget of one context; the size of the effect, the task and the sizes are ours",
        against="grpo",
        measure="accuracy",
        better_by=0.2,
        ground="window",
        own={"rollout.size": "31", "rollout.carry": "16", "rollout.limit": "4"},
        seeds=5,
    ),
)
