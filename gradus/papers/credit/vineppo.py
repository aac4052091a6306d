"""VinePPO: fresh continuations estimate the value before each reasoning step. A text can always be continued, so no critic is trained.

    V(s_l) = 1/K sum_(k=1)^K R(s_l, c_k), quad c_k ~ pi_old(s_l), quad V(s_L) = 0
    A_l = r_l + gamma V(s_(l+1)) - V(s_l)
    loss = mean over tokens of -min(rho_t A_t, clip(rho_t, 1 - 0.2, 1 + 0.2) A_t) + 0.0001 mean over answers of sum_t k_3
    rho_t = (pi(a_t)) / (pi_old(a_t))

An answer has L steps; $s_l$ is the prompt with the first l steps. Each continuation $c_k$ starts from $s_l$ and goes on to the end, and $R(s_l, c_k)$
is the reward of the whole text. K is 9. The continuations serve only to estimate values: no loss reads them. The step reward $r_l$ is 0, except that the last
step has the answer's reward. gamma is 1, so the $A_l$ of an answer sum to $R - V(s_0)$. For all tokens of a step, $A_t$ is $A_l$. Advantages
are whitened over the batch (`--credit.whitened false` switches the whitening off). $k_3$ estimates the KL to the start model, as in GRPO; it is
summed over an answer.

A step ends at a line break, or at a blank between two equations, as in the task arithmetic (`--rollout.marking.separator`). Answers to one problem
share the continuations of the prompt, and of any other text that they have in common. An update has two epochs of 8 mini-batches. Metrics: value,
spread (deviation of a state's continuations), continuations (per answer), clip_share.

Use if: answers have steps of different importance, continuations are cheap, and the memory is too small for a critic.
Avoid if: sampling is the bottleneck, because a step costs K continuations (see grpo, rloo), or answers have only one step.
Reference: Kazemnejad et al., VinePPO: Refining Credit Assignment in RL Training of LLMs, arXiv:2410.01679, section 4. The paper's appendix and the
released configurations give these values: K = 9, temperature 0.6, 8 answers per problem, batches of 64 out of 512 answers, two epochs and the KL
coefficient 0.0001.
Departures: The temperature and the numbers of problems and answers come from the setting; the released code also samples with top-p 0.9. The released
code continues the text of a step; here the tokens are kept as sampled and are never encoded again. The released code cuts solutions of MATH at line
breaks and ends of sentences, and keeps formulas whole. Whitening is over the batch; in the released code it is over the answers of one forward pass on all
devices. For GSM8K the released code estimates the values of the prompt and of at most 25 later states. So in the released code the steps
after the 26th get advantage 0 (here with `--rollout.most 26`; None: all states). In the released code $k_3$ is limited to at most 10. The end token
belongs to the last step. The title of the first version of the paper is VinePPO: Unlocking RL Potential For LLM Reasoning Through Refined Credit
Assignment.
"""

from __future__ import annotations

from gradus.credit.step_values import ValueChanges
from gradus.objectives.aggregation import SequenceSum
from gradus.objectives.kl import KL
from gradus.papers.bases.ppo import ppo
from gradus.recipe.claim import Claim, same_weights
from gradus.rollouts.values import MonteCarloValues

vineppo = ppo.derive(
    "vineppo",
    "The value before each step is the mean reward of fresh continuations, so PPO needs no critic.",
    family="credit",
    rollout=MonteCarloValues(count=9),
    credit=ValueChanges(),
    objective__kl=KL(0.0001, average=SequenceSum()),
    players__critic=None,
    update__epochs=2,
    update__count=8,
)

claims = (
    same_weights(
        says="No loss reads the continuations: with credit that ignores their values, the final weights are those of a run without them.",
        source="arXiv:2410.01679, section 4 (auxiliary rollouts)",
        against="vineppo --rollout Auto --credit GroupRelative",
        own={"credit": "GroupRelative"},
        budget="steps=2",
    ),
    Claim(
        says="On arithmetic the mean reward over 15 steps is at least 0.03 above that of PPO with a critic.",
        source="arXiv:2410.01679, main results (above PPO on MATH and GSM8K, with fewer updates); the task and the size of the effect are ours",
        against="ppo --update.epochs 2 --update.count 8",
        measure="reward:mean",
        better_by=0.03,
        task="arithmetic",
        fields={"prompts": "4", "group": "8", "learning_rate": "1e-4", "study": "none"},
        budget="steps=15",
    ),
)
