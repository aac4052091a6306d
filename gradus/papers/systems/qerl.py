"""QeRL: LoRA on a frozen base in 4 bits. The sampling copy has noise on its norms; the noise falls in stages.

    y = Q(W) x + alpha/r B A x
    tilde w = w + Z, quad Z ~ N(0, sigma_k^2)
    sigma_1 = 0, quad sigma_k = sigma_start (sigma_end / sigma_start)^((k-2)/(K-2)) quad "for" k >= 2
    loss = -1/G sum_i 1/|o_i| sum_t min(rho_(i,t) A_i, clip(rho_(i,t), 1 - 0.2, 1 + 0.28) A_i)
    rho_(i,t) = (pi(o_(i,t))) / (tilde pi(o_(i,t)))

Q(W) has the format NVFP4: numbers of 4 bits in blocks of 16, with one scale of 8 bits per block and one float32 scale per matrix. Sampling and training use
Q(W); only A and B learn. The error of Q(W) makes the policy more random, which helps exploration, but this error never changes. So the sampling copy $tilde
pi$ gets noise Z on the weights w of its RMSNorms. Noise on w scales an input of the next linear layer by 1 + Z/w, at no further cost. The noise is drawn
again for every step, and is always added to the clean weights; the learning policy has no noise. The run is divided into K
= 10 equal stages. The first stage has no noise; then sigma falls from 0.01 to 0.0001. There is no KL and no entropy term.

Use if: memory limits the size of the model, or sampling is slow and the hardware multiplies 4-bit numbers.
Avoid if: all weights should learn (see grpo, dapo), or answers are already diverse.
Reference: Huang et al., QeRL: Beyond Efficiency -- Quantization-enhanced Reinforcement Learning for LLMs, arXiv:2510.11696, eq. 6 (format), 8 to 10
(noise), algorithm 1. Clip, 4 updates per batch of rollouts (GSM8K; 1 on BigMath) and no KL term are as in table 4. Rank 16, alpha 16, the range of
sigma and the rule of the stages come from the released code; in the paper's runs the rank is 32. The paper names three ranges: 0.05 to 0.0005, 0.01
to 0.0005, and an example that starts at 0.01. The learning rate of the paper is 1e-5.
Departures: In eq. 8 the exponent has K - 1 as its denominator, so the last stage does not reach $sigma_end$; here, as in the released code, the last
stage reaches it. The released scripts make one update per batch and average the loss over all tokens, as DAPO does; here there are 4 updates, and the loss is
averaged per answer, as in GRPO. The denominator of rho is the sampling copy, as in algorithm 1; `--objective.policy.ratio.against old` takes the
clean weights at the start of the update. Every RMSNorm gets noise, even the last one; the paper's figure shows the two RMSNorms of each block. The
weights are rounded to the nearest number without calibration data (the paper uses AWQ). The copy that samples has its own codes; the paper's two
models share their codes. The learning rate, the numbers of problems and answers and the temperature come from the setting. Products are computed with
dequantised weights, so the recipe is not faster than full precision.
"""

from gradus.objectives.ratios import TokenRatio
from gradus.objectives.trust import Clip
from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim, same_weights
from gradus.rollouts.behaviour_policy import BehaviourPolicy
from gradus.types.players import Adapter, Noisy, Player

qerl = grpo.derive(
    "qerl",
    "LoRA on a frozen base in 4 bits. The sampling copy has noise on its norms; the noise falls in stages.",
    family="systems",
    rollout=BehaviourPolicy("sampler"),
    objective__policy__ratio=TokenRatio(against="behaviour"),
    objective__policy__trust=Clip(0.2, 0.28),
    objective__kl=None,
    players__reference=None,
    players__policy=Player(Adapter(rank=16, alpha=16.0, bits="nvfp4"), learns_from="sampler"),
    players__sampler=Player(Noisy(of="policy", sigma_start=0.01, sigma_end=0.0001, stages=10)),
    update__count=4,
)

_SMALL = {"prompts": "8", "group": "8", "warmup": "0", "study": "none", "learning_rate": "5e-4"}
_CLEAN = {"players.policy.model.bits": "none", "players.sampler.model.sigma_start": "0"}

claims = (
    same_weights(
        says="Without quantisation and noise, the final weights are those of GRPO with LoRA, the same clip, no KL term and an exact copy that samples.",
        source="arXiv:2510.11696, at Q(W) = W and sigma 0",
        against=(
            "grpo --rollout \"BehaviourPolicy(player='sampler')\" --players.sampler Player --players.sampler.model \"Lagged(updates=0)\" "
            "--players.policy.learns_from sampler --objective.kl none --players.reference none --players.policy.model Adapter "
            "--players.policy.model.rank 16 --players.policy.model.alpha 16 --objective.policy.ratio.against behaviour --objective.policy.trust.high 0.28 "
            "--update.count 4"
        ),
        own=_CLEAN,
    ),
    Claim(
        says="Before any update, the entropy of the policy in 4 bits is at least 0.005 nats above that in full precision.",
        source="arXiv:2510.11696, section 3.2 and figure 5; the bound and the task are ours",
        against="qerl --players.policy.model.bits none",
        measure="entropy:first",
        better_by=0.005,
        task="arithmetic",
        options={"level": "2"},
        fields={**_SMALL, "prompts": "32"},
        budget="steps=1",
        seeds=5,
    ),
    Claim(
        says="After 20 steps the accuracy is at least 0.98 times that of LoRA in full precision.",
        source="arXiv:2510.11696, table 1 (83.7 and 90.8 against 76.1 and 88.1); the bound and the task are ours",
        against="qerl --players.policy.model.bits none --players.sampler.model.sigma_start 0",
        measure="accuracy",
        at_least=0.98,
        task="arithmetic",
        options={"level": "2"},
        fields=_SMALL,
        budget="steps=20",
        problems=100,
        samples=2,
    ),
    Claim(
        says="With sigma from 0.1 to 0.001, the mean entropy over 20 steps is higher than without noise.",
        source="arXiv:2510.11696, section 3.3 (noise for exploration); the task and the larger noise, which acts on a small model, are ours",
        against="qerl --players.sampler.model.sigma_start 0",
        measure="entropy:mean",
        better_by=0.0,
        task="arithmetic",
        options={"level": "2"},
        fields=_SMALL,
        own={"players.sampler.model.sigma_start": "0.1", "players.sampler.model.sigma_end": "0.001"},
        budget="steps=20",
        problems=1,
    ),
    Claim(
        says="With sigma from 0.3 to 0.003, the mean entropy over 20 steps is at least 0.005 nats above that without noise.",
        source=(
            "arXiv:2510.11696, section 3.3; the bound and the task are ours; on answers of the start model, 0.3 is the first of 0.01, 0.03, 0.1, 0.3 that "
            "changes the entropy of the small model"
        ),
        against="qerl --players.sampler.model.sigma_start 0",
        measure="entropy:mean",
        better_by=0.005,
        task="arithmetic",
        options={"level": "2"},
        fields=_SMALL,
        own={"players.sampler.model.sigma_start": "0.3", "players.sampler.model.sigma_end": "0.003"},
        budget="steps=20",
        problems=1,
    ),
)
