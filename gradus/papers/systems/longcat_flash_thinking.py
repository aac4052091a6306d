"""LongCat-Flash-Thinking: stale answers with three bounds on the ratio and a constant divisor; experts per domain are fused.

    loss = -1/(G T_max) sum_i sum_t f(r_(i,t), A_i), quad r_(i,t) = (pi(y_(i,t))) / (mu(y_(i,t)))
    f(r, A) = min(r, 1 + 0.28) A quad "if" A > 0
    f(r, A) = min(max(r, 1 - 0.2), 5) A quad "if" A < 0
    A_i = (R_i - mean(R)) / (std(R))

mu is the version of the policy that sampled the answer. DORA, the system, samples without a pause (`Streaming`). Several versions are in use. The version
that began an answer also finishes the answer, so the cache of keys and values stays valid. A step trains on the groups that are finished first. A
group more than s = 2 steps old is dropped. Ratios on stale answers can be large. For A < 0 a clip on one side does not bound the loss, because a large r
multiplies A; the third bound (`ceiling`) limits r. $T_max$ is the token limit of an answer. Every loss is divided by $T_max$, so short
answers do not count more. There is no KL term. Metrics: staleness (steps), stale (groups that were dropped), ceiling_share, clip_share.

Answers of different domains have very different lengths, and a mixture of them disturbs asynchronous training. So each domain trains its own expert from the
same start, and then the experts are fused. Before the fusion, the experts' changes get equal norms; a random share of the entries is dropped, and all entries
with another sign than the sum are dropped. A short run on all domains follows. The stage `Fuse` does this: see "Experts of several domains" in
docs/how/stages.md.

Use if: lengths vary much and idle samplers are expensive. Use `Fuse` if domains disturb each other in one run.
Avoid if: sampling takes a small part of a step (see grpo, dr_grpo), or new weights should also continue unfinished answers (see pipeline_rl).
Reference: Meituan LongCat Team, LongCat-Flash-Thinking Technical Report, arXiv:2509.18883: the objective, DORA, domain-parallel training and fusion.
$T_max$ = 65536 is the limit of the paper's longest stage, and s = 2 comes from its example.
Departures: The paper's text was not available; public summaries give the objective, the system and the steps of the fusion, without numbers for the
bounds and the fusion. Our own choices are the bounds 0.28, 0.2 and 5, the share of dropped entries (a half), the sum of the experts' weights (1.5)
and the mean norm as the common norm. The published formula has its last maximum for every A; for A > 0 this maximum would set r to at least 5, so
here it applies only to A < 0. In the paper, r compares two versions in the training engine, and a weight min(mu_train / mu_infer, C) corrects for the
sampling engine. Here one engine does both, so the weight is 1 and is left out. All answers of a group are rewarded when the last answer is finished, because
a reward may compare the answers. Devices do not change their role. In the claims the experts train without a system, so their results do not depend
on a clock. The paper also drops groups of equal rewards (`--selection Mixed`), trains again on a share of older samples, and masks failed verdicts.
Mid-training, the choice of questions for tools, the proofs in Lean and the reward models are left out.
"""

from gradus.objectives.aggregation import ConstantLength
from gradus.objectives.ratios import TokenRatio
from gradus.objectives.trust import DualClip
from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim, same_weights
from gradus.types.systems import Streaming

longcat_flash_thinking = grpo.derive(
    "longcat_flash_thinking",
    "Stale answers with three bounds on the ratio and a constant divisor. One version of the policy samples an answer; experts per domain are fused.",
    family="systems",
    objective__policy__ratio=TokenRatio(against="behaviour"),
    objective__policy__trust=DualClip(low=0.2, high=0.28, ceiling=5.0),
    objective__policy__average=ConstantLength(65536),
    objective__kl=None,
    players__reference=None,
    system=Streaming(staleness=2, workers=2),
)

_ROUNDED = {
    "rollout": "Ruled", "rollout.rule": "Rounded", "rollout.rule.step": "4", "rollout.only_training": "true",
    "prompts": "8", "group": "8", "warmup": "0", "study": "none", "learning_rate": "3e-4", "objective.policy.average.length": "64",
}  # fmt: skip

claims = (
    same_weights(
        says="Without staleness and without the third bound, the final weights are those of GRPO with the same clip and divisor and no KL term.",
        source="arXiv:2509.18883, at s = 0 and an infinite bound",
        against=(
            "grpo --objective.kl none --players.reference none --objective.policy.ratio.against behaviour --objective.policy.trust.high 0.28 "
            '--objective.policy.average "ConstantLength(length=65536)"'
        ),
        own={"system.staleness": "0", "objective.policy.trust.ceiling": "inf"},
    ),
    Claim(
        says="Groups are on average at least half a step old when a step trains on them.",
        source="arXiv:2509.18883, DORA (several versions at the same time); the bound and the task are ours",
        measure="staleness:mean",
        better_by=0.5,
        task="arithmetic",
        options={"level": "2"},
        fields={"prompts": "4", "group": "4", "warmup": "0", "study": "none"},
        budget="steps=12",
    ),
    Claim(
        says="If the samples' log-probabilities are rounded to multiples of 4, the largest norm of the gradient is at most 0.8 times that without the third bound.",
        source=(
            "arXiv:2509.18883, the objective (large ratios of negative answers destabilise training); the size of the effect, the task and the rounding are "
            "ours; 8 seeds, because 3 gave 0.74 with an interval from 0.40 to 1.36"
        ),
        against="longcat_flash_thinking --objective.policy.trust.ceiling inf",
        measure="grad_norm:max",
        at_most=0.8,
        task="arithmetic",
        options={"level": "2"},
        fields=_ROUNDED,
        budget="steps=12",
        seeds=8,
    ),
    Claim(
        says="In each of three domains, the fused model has at least 0.85 times the accuracy of the domain's expert.",
        source="arXiv:2509.18883, the fused model near its experts in each domain; the factor, the tasks and the program are ours",
        against="the expert of the domain",
        measure="accuracy",
        at_least=0.85,
        task="arithmetic",
        fields={"prompts": "8", "group": "8", "warmup": "0", "learning_rate": "3e-4"},
        budget="steps=20",
        problems=96,
        samples=2,
        script="benchmarks.fusion experts",
    ),
    Claim(
        says="The fused model has a mean accuracy at least 3 points above that of one run on all domains with as many rollouts.",
        source="arXiv:2509.18883, domain-parallel training; the size of the effect, the tasks and the program are ours",
        against="one run on a mixture of the domains, three times as long",
        measure="accuracy",
        better_by=0.03,
        task="arithmetic",
        fields={"prompts": "8", "group": "8", "warmup": "0", "learning_rate": "3e-4"},
        budget="steps=60",
        problems=96,
        samples=2,
        script="benchmarks.fusion mixture",
    ),
)
