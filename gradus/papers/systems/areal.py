"""AReaL: sampling never waits for training. One ratio corrects for the age of a token, and another ratio bounds the size of an update.

    loss = -mean over tokens of w_t min(u_t A, clip(u_t, 1 - 0.2, 1 + 0.2) A)
    w_t = (pi_prox(a_t)) / (pi_behav(a_t)), quad u_t = (pi(a_t)) / (pi_prox(a_t))
    A = (R - mean(R)) / (std(R))
    floor((N - 1)/B) <= v + eta

$pi_behav$ is the version of the policy that sampled token $a_t$; its log-probability is stored with the token. $pi_prox$ is the policy right before the
update of the step, recomputed once for the whole batch. So the clip limits the step of the update, not the age of the tokens: a token still has a
gradient if its probability has doubled since its sampling. The weight w has no gradient and no bound. If $pi_prox$ is $pi_behav$, the loss is the
loss of PPO. The batch is cut into 4 mini-batches; with one mini-batch u is 1 and the clip never acts.

The reward R is 5 for a right answer and -5 for a wrong answer. There is no critic and no KL term, and all tokens of an answer have the same advantage.
The mean and the deviation are over all tokens of the batch.

Workers sample without a pause. Request number N, counted from 1, is admitted if the last line above is true; v is the number of updates so far. B is the
number of prompts per step, and eta = 4. A step trains on the groups that are finished first. When new weights are published, a worker stops between two
tokens, takes the weights, reads its unfinished answers again, and continues these answers. A group whose oldest token is more than eta updates old is dropped
and sampled again. With `--system.staleness 0` every step waits for its own groups, and with `--system none` nothing runs at the same time; both give the
same weights. Metrics: staleness (age of a group in steps), versions (per answer), stale, clip_share, ratio (u).

A bound on w is an option: `--objective.policy.weight.cap 5` limits w to 5, and `--objective.policy.weight MaskedImportance` removes tokens outside a band.
The present releases use w only together with a bound, and remove tokens with w above 5 in their examples; without a bound they leave w out.

Use if: answers differ widely in length or rewards are slow, and sampling and training can work at the same time.
Avoid if: a repeated run must end with the same bytes without its recorded facts (see Ahead in docs/how/ahead.md), one core does all the work, or the
learning rate is high: at 3e-4 on arithmetic of level 2, the synchronous run lost accuracy after 12 steps. Staleness lowered the accuracy further, with and
without a bound on w: to 0.06, 0.11 and 0.01 in three seeds after 24 steps, against 0.61, 0.26 and 0.70.
Reference: Fu et al., AReaL: A Large-Scale Asynchronous Reinforcement Learning System for Language Reasoning, arXiv:2505.24298, eq. 3 (admission), eq. 5
(decoupled objective, after Hilton et al., arXiv:2110.00641), section 4.1 (interruption). The paper's numbers: eta 4, clip 0.2, 4 mini-batches, 512
prompts with 16 answers each, learning rate 2e-5, reward 5 or -5, gamma = lambda = 1. The normalisation over the tokens of the batch is as in the
released code.
Departures: A worker samples a whole group (`--system.unit answer`: one answer at a time), and N and B count groups, as in the released code; in the paper they
count single answers. Among the finished groups, the present releases train on the groups that began first. The paper's rule bounds the number of
requests only; here a group that is too old is also dropped, so the bound applies to each token. But slow groups are then sampled again more often,
which favours short answers. Prompts, answers per prompt, learning rate and temperature come from the setting. Micro-batches are packed as in all recipes. The
released code begins with the longest answer, and adds each answer to a micro-batch with enough room; among several such micro-batches, it takes the one with
the fewest answers.
"""

import math

from gradus.credit.reward_to_go import RewardToGo
from gradus.objectives.aggregation import TokenMean
from gradus.objectives.terms import TruncatedImportance
from gradus.objectives.trust import Clip
from gradus.papers.bases.reinforce import reinforce
from gradus.recipe.claim import Claim, same_weights
from gradus.rewards.verified import Verified
from gradus.types.systems import Streaming

areal = reinforce.derive(
    "areal",
    "Workers sample without a pause and take new weights between two tokens; the clip compares with the start of the update, and a weight corrects the age.",
    family="systems",
    reward=10 * Verified() - 5,
    credit=RewardToGo(),
    objective__policy__weight=TruncatedImportance(cap=math.inf),
    objective__policy__trust=Clip(0.2, 0.2),
    objective__policy__average=TokenMean(),
    update__count=4,
    setting__group=16,
    system=Streaming(staleness=4, workers=4, interrupt=True),
)

SMALL = {"prompts": "4", "group": "8", "warmup": "0", "study": "none"}
COUPLED = "areal --objective.policy.weight none --objective.policy.ratio.against behaviour"

claims = (
    same_weights(
        says="With staleness 0 the final weights are those of the same recipe without asynchronous workers.",
        source="arXiv:2505.24298, section 5.1 (eta = 0 is synchronous)",
        against="areal --system none",
        own={"system.staleness": "0"},
    ),
    Claim(
        says="With staleness 4, accuracy after 48 steps is at least 0.95 times that of the synchronous run.",
        source=(
            "arXiv:2505.24298, section 7.3 (equal results up to eta 4 to 8); the bound, the rate and the task are ours; rate and length were set after the "
            "fifth claim was measured"
        ),
        against="areal --system none",
        measure="accuracy",
        at_least=0.95,
        task="arithmetic",
        options={"level": "2"},
        fields={**SMALL, "learning_rate": "1e-4"},
        budget="steps=48",
        problems=100,
        samples=2,
    ),
    Claim(
        says="With staleness 4, the clip stops at most 0.7 times as many tokens as a clip on the ratio to the policy that sampled them.",
        source=(
            "arXiv:2505.24298, section 5.2; the bound, the task and the rate are ours; they were set after the sixth claim and seeds 0 and 1 of this claim "
            "were measured; seeds 3 to 5 are new"
        ),
        against=COUPLED,
        measure="clip_share:mean",
        at_most=0.7,
        task="arithmetic",
        options={"level": "2"},
        fields={**SMALL, "learning_rate": "1e-4"},
        budget="steps=48",
        seeds=6,
    ),
    Claim(
        says="For the same number of updates, workers that stream need at most 0.77 times the time of a run that waits for each step.",
        source=(
            "arXiv:2505.24298, abstract (up to 2.77 times as fast) and section 7.2; the factor (1.3 times as fast) and the task are ours; the time is that of a "
            "clock that counts decoding steps, with an update that takes as long as a mean group, and as many workers as a step has groups"
        ),
        against="areal --system none",
        measure="the time of 20 updates, in decoding steps",
        at_most=0.77,
        task="arithmetic",
        options={"level": "2"},
        budget="steps=20",
        script="benchmarks.areal",
    ),
    Claim(
        says="At rate 3e-4 with staleness 4, accuracy after 24 steps is at least 0.9 times that of the synchronous run.",
        source="arXiv:2505.24298, section 7.3; the bound, the rate and the task are ours",
        against="areal --system none",
        measure="accuracy",
        at_least=0.9,
        task="arithmetic",
        options={"level": "2"},
        fields={**SMALL, "learning_rate": "3e-4"},
        budget="steps=24",
        problems=100,
        samples=2,
    ),
    Claim(
        says="At rate 1e-3 with staleness 4, the clip stops at most half as many tokens as a clip on the ratio to the policy that sampled them.",
        source="arXiv:2505.24298, section 5.2; the bound, the task and the rate are ours",
        against=COUPLED,
        measure="clip_share:mean",
        at_most=0.5,
        task="arithmetic",
        options={"level": "2"},
        fields={**SMALL, "learning_rate": "1e-3"},
        budget="steps=24",
    ),
)
