"""SPEC-RL: the last answer to the same problem is a draft. The current policy keeps the first tokens that it accepts, and generates the others.

    a_t = min(1, l (p_new(y_t)) / (p_old(y_t)))
    keep y_1, ..., y_(n-1), quad n = the first t with u_t > a_t

y is the answer that the same slot gave when the problem was last drawn. $p_old$ is the policy of that step, and $p_new$ the current policy. l is the
lenience, $e^0.5$, and the numbers $u_t$ are uniform in (0, 1]. One forward pass reads all drafts. The current policy continues after the kept tokens,
up to the usual limit. A draft without a rejected token is kept whole, and nothing is generated. In the loss and in the next check, all tokens have
the log-probabilities of the current policy. Rewards, advantages and loss are as in GRPO.

With l = 1 the distribution of the tokens is not exactly $p_new$, because the rejected token is drawn from $p_new$ again. With `--rollout.residual
true` this token is drawn from the residual max(0, $p_new$ - min($p_old$, l $p_new$)), normalised. Then an answer has, for l from 0 to 1, exactly the
distribution of a given $p_new$. In a run $p_new$ has also been trained on the draft, so this is only approximately true. With l = 0 the method is GRPO.
Metrics: generated (tokens per answer), kept (tokens per draft), reused (share of whole drafts).

Use if: the same problems come again in many passes, answers are long, and generation is the largest cost.
Avoid if: no problem is drawn twice; or the answers must change much from pass to pass (a high lenience keeps old answers; see grpo).
Reference: Liu et al., SPEC-RL: Accelerating On-Policy Reinforcement Learning via Speculative Rollouts, arXiv:2509.23232, eq. 4, algorithm 1
and appendix A.1 (lenience), and the authors' code: the continuation, and log-probabilities of the whole assembled answer.
Departures: Kept tokens take their log-probabilities from the check, and new tokens from the sampling; no third pass reads the answer. The numbers
$u_t$ are new in each step; the released code draws them from one fixed seed in all steps. The released script for GRPO has the KL factor 0.0001, an
entropy bonus with the factor 0.001 and 4 updates per step; here the settings of grpo apply. For PPO and DAPO the paper takes the lenience $e^0.3$ and
$e^0.15$. The residual and its form for l below 1 are our choices. The residual needs the old distributions. The state then has one row of the
vocabulary per token, so the option suits small vocabularies.
"""

from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim, same_weights
from gradus.rollouts.drafts import EarlierAnswers

spec_rl = grpo.derive(
    "spec_rl",
    "The last answer to the same problem is a draft: the current policy keeps the first tokens that it accepts, and generates only the rest.",
    family="systems",
    rollout=EarlierAnswers(),
)

RECURRING = {"curriculum": "CuratedClique", "curriculum.pool": "16", "curriculum.threshold": "2", "prompts": "8", "group": "4", "warmup": "0", "study": "none"}
_POOL = {"curriculum.pool": "4", "prompts": "4"}

claims = (
    same_weights(
        says="With lenience 0 no token is kept, and the final weights are those of GRPO on the same recurring problems.",
        source="arXiv:2509.23232, the limit of no reuse",
        against="grpo",
        own={"rollout.lenience": "0"},
        options={"level": "2"},
        fields={**RECURRING, **_POOL, "learning_rate": "1e-4"},
    ),
    Claim(
        says="From 6 passes over 16 problems, the first pass included, it generates at most 0.67 of GRPO's tokens (40 % fewer from the second pass on).",
        source="arXiv:2509.23232, abstract (2 to 3 times less time for rollouts); the bound, the task and the number of passes are ours",
        against="grpo",
        measure="tokens/rollout:mean",
        at_most=0.67,
        task="arithmetic",
        options={"level": "2"},
        fields={**RECURRING, "learning_rate": "1e-4"},
        budget="steps=12",
    ),
    Claim(
        says="After 6 passes over 16 problems, held-out accuracy is at least 0.9 of that of GRPO.",
        source="arXiv:2509.23232, main results (accuracy kept); the bound, the task and the number of passes are ours",
        against="grpo",
        measure="accuracy",
        at_least=0.9,
        task="arithmetic",
        options={"level": "2"},
        fields={**RECURRING, "learning_rate": "1e-4"},
        budget="steps=12",
        problems=60,
        samples=2,
    ),
)
