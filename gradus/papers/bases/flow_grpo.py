"""Flow-GRPO: GRPO for flow generators. The ODE becomes an SDE with the same marginals, so that every denoising step is random.

    x_(t - dt) = m + s sqrt(dt) e, quad m = x_t - [v + (s^2)/(2 t) (x_t + (1 - t) v)] dt, quad s = a sqrt(t / (1 - t))
    log pi = log N(x_(t - dt) ; m, s^2 dt I)
    A_i = (r_i - mean(r)) / (std(r))
    loss = 1/N sum_i 1/T sum_t [-min(rho_(i,t) A_i, clip(rho_(i,t), 1 - epsilon, 1 + epsilon) A_i) + beta KL_(i,t)]
    rho = exp(log pi - log pi_old), quad KL = |m - m_ref|^2 / (2 s^2 dt)

A sample runs from t = 1 (noise) to t = 0 in T even steps dt along $x_t = (1 - t) x_0 + t e$. The noise e is standard normal, the velocity is $v = (d
x_t) / (d t)$, and a is 0.7. One step is an action; its density $N(x_(t - dt) ; m, s^2 dt I)$ is Gaussian with mean m, where I is the unit matrix.
$pi_old$ is the sampling policy, and $m_ref$ the mean under the start model. $A_i$ comes from the rewards r of the group and is the same for all T
steps of sample i. N counts the samples of the mini-batch. The KL to the reference has the closed form of the last line. In training, samples are
drawn with the SDE in few steps (T = 10). In evaluation, samples are drawn with the ODE in 40 steps.

The method assumes a velocity field for the path above. With a = 0 the SDE becomes the ODE, which has no random steps to learn from, so a = 0 is
refused. A group with equal rewards and a group of one sample get advantage zero. A batch is cut into two mini-batches. With a single mini-batch rho
is 1, and the clip never acts. A suitable epsilon depends on the number of dimensions, because log pi is a sum over dimensions.

Use if: a flow generator learns from a reward on its finished samples, and few steps per sample suffice in training.
Avoid if: the sampler must stay deterministic, or storage of every step costs too much. In such a case see awm, which works with any sampler and keeps
only the finished sample.
Reference: Liu et al., Flow-GRPO: Training Flow Matching Models via Online RL, arXiv:2505.05470, section 4.1 (objective), 4.2 (SDE, its
discretisation, KL), 4.3 (few steps). The paper's experiments have 10 and 40 steps and a = 0.7. The released code has beta = 0.04 and two updates per
batch. At t = 1 the formula for s is infinite. For this step the value 1 - t of the next step is used in s, as in the released code.
Departures: Steps are even, without a shift of t. All T steps are trained (the release leaves the last one out). The learning rate is chosen for the
small built-in generator. The released code averages log pi and KL over the 65,536 dimensions of an image and leaves dt out of the KL. Here both are
sums over the dimensions, as in the paper. The epsilon of the released code is 1e-4. If the term of each dimension changes at random by about x, the
mean over 65,536 dimensions changes by $x / sqrt(65536)$, and a sum over two dimensions by $x sqrt(2)$. If the mean changes by 1e-4, the sum therefore
changes by about 0.04. So epsilon is 0.04 here, for the small built-in generator with two dimensions. The release also takes the deviation over the
whole batch, adds 1e-4 to it, clips advantages to [-5, 5], and leaves samples with advantage zero out of the mean. Neither the paper nor this recipe
does any of these.
"""

from gradus.objectives.flow_kl import TransitionKL
from gradus.objectives.trust import Clip
from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim
from gradus.rollouts.flow_sampling import FlowSampling
from gradus.types.samplers import Ode, Sde

flow_grpo = grpo.derive(
    "flow_grpo",
    "A flow generator samples by an SDE, so that every denoising step is an action with a Gaussian log-probability.",
    rollout=FlowSampling(Sde(steps=10, noise=0.7), at_test=Ode(40)),
    objective__policy__trust=Clip(0.04, 0.04),
    objective__kl=TransitionKL(0.04),
    update__count=2,
    setting__learning_rate=1e-3,
)

claims = (
    Claim(
        says="The reward of samples rises by at least 0.1 within 25 steps.",
        source="arXiv:2505.05470, abstract (GenEval accuracy 63 % to 95 %); the size of the effect and the task are ours",
        measure="reward:gain",
        better_by=0.1,
        task="flow_2d",
        fields={"prompts": "8", "group": "8", "warmup": "0", "study": "none"},
        budget="steps=25",
    ),
)
