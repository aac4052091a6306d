"""T-PPO: PPO whose steps sample only a window of tokens per answer. Unfinished answers also train the policy, and continue in the next step.

    A_t = sum_(k = t)^(m-1) (gamma lambda)^(k-t) delta_k, quad delta_t = r_t + gamma V(s_(t+1)) - V(s_t)
    finished: r_(m-1) = R, quad V(s_m) = 0
    cut: r_t = 0, quad V(s_m) = V(s_(m-1))
    loss = mean over new tokens of -min(rho_t A_t, clip(rho_t, 1 - 0.2, 1 + 0.28) A_t)
    loss_V = mean over tokens of finished answers of 1/2 max((V_t - R)^2, (V_t^old + clip(V_t - V_t^old, -0.2, 0.2) - R)^2)

An answer has m tokens so far; $s_t$ is the prompt with the first t tokens. In each step a slot adds at most 8192 new tokens (the window) to its
answer, with the weights of that step. A finished answer has ended, or has reached its own limit of tokens; it gets the reward R, and its slot begins a
new problem in the next step. A cut answer stays in its slot and continues in the next step. So the longest answer does not determine the time of a step.

The extended GAE gives a cut answer advantages before its reward is known. The extended GAE assumes that the value does not change after the cut.
gamma and lambda are 1, so a token of a cut answer has $A_t = V(s_(m-1)) - V(s_t)$, and the last token before the cut has 0. rho is the ratio to the
policy at the start of the update. The policy's loss reads only the new tokens, so each token trains the policy in one step only. The critic learns
only from finished answers, from all their tokens. The critic's target is R, because its lambda is 1. There is no KL term. Metrics: cut_share (share of
unfinished answers), in_flight, decode_steps (tokens of the longest part), idle (token-steps of waiting slots per sampled token), clip_share.

Use if: lengths of answers differ much, the longest answers make the other slots wait, and the memory is large enough for a critic.
Avoid if: answers have similar lengths (see vapo, ppo), or the critic is untrained, because the advantages of cut answers consist only of the critic's
values.
Reference: Fan et al. (ByteDance Seed), Truncated Proximal Policy Optimization, arXiv:2506.15050, sections on successive batching, extended GAE and token
filtering. The paper's numbers: window 8192 of at most 24576 tokens, gamma 1, lambda 1 for the policy and for the critic, clip 0.2 and 0.28, learning
rates 1e-6 (policy) and 2e-6 (critic).
Departures: The critic has the policy's learning rate. Advantages are not whitened. The first 50 steps update the critic only, as in vapo, because the values
of a fresh critic are noise; the number 50 is our own choice. The paper leaves out some tokens before a cut; here all are kept, and
`--credit.before_cut N` leaves out N. An update has four epochs over the batch and a clipped value loss, as in ppo; the paper divides the answers of
512 problems, 16 answers each, into mini-batches of 512. If a step has fewer free slots than requests, the last requests are not used.
"""

from gradus.credit.gae import GAE
from gradus.credit.new_tokens import NewTokens
from gradus.objectives.aggregation import TokenMean
from gradus.objectives.trust import Clip
from gradus.papers.bases.ppo import ppo
from gradus.recipe.claim import Claim, same_weights
from gradus.rollouts.windowed import Windowed
from gradus.schedules.warmup import Warmup
from gradus.selection.filters import FinishedAnswers
from gradus.updates.only_players import OnlyPlayers

t_ppo = ppo.derive(
    "t_ppo",
    "Each step samples a window of tokens per answer and trains on unfinished answers, with values at their cuts.",
    family="systems",
    rollout=Windowed(8192),
    credit=NewTokens(),
    objective__policy__trust=Clip(low=0.2, high=0.28),
    objective__policy__average=TokenMean("weighted"),
    players__critic__credit=GAE(gamma=1.0, lam=1.0, whitened=False),
    players__critic__selection=FinishedAnswers(),
    players__reference=None,
    schedule=Warmup(50, OnlyPlayers(("critic",), update=None)),
)

claims = (
    same_weights(
        says="If the window holds the whole answer, the final weights are those of PPO with the same lambda, clip and critic targets.",
        source="arXiv:2506.15050, extended GAE (equal to GAE for a finished response)",
        against="ppo --objective.policy.trust.high 0.28 --players.reference none --credit GAE --credit.lam 1 --credit.whitened false",
        own={"schedule.steps": "0", "objective.policy.average.counted": "all"},
    ),
    Claim(
        says="If lengths differ, waiting slots are idle for at least 40 % fewer token-steps per sampled token than with whole answers in every step.",
        source=(
            "arXiv:2506.15050, successive batching (up to 2.5 times the training efficiency); the bound, the window of a quarter of the limit and the "
            "task are ours; a low rate keeps the lengths of the start model, from 4 to 40 tokens"
        ),
        against="t_ppo --rollout.window 48",
        measure="idle:mean",
        at_most=0.6,
        task="arithmetic",
        own={"rollout.window": "12"},
        fields={"prompts": "4", "group": "8", "learning_rate": "1e-5", "schedule.steps": "2", "warmup": "0", "study": "none"},
        budget="steps=12",
    ),
    Claim(
        says="After equally many processed tokens, accuracy is at least 0.97 times that of PPO with whole answers in every step.",
        source=(
            "arXiv:2506.15050, AIME24 (at least the accuracy of PPO); the bound and the task are ours; the budget counts tokens that are sampled, scored "
            "or trained on"
        ),
        against="t_ppo --rollout.window 48",
        measure="accuracy",
        at_least=0.97,
        task="arithmetic",
        own={"rollout.window": "12"},
        fields={"prompts": "4", "group": "8", "learning_rate": "5e-5", "schedule.steps": "4", "warmup": "0", "study": "none"},
        budget="tokens=120000",
        problems=100,
        samples=2,
    ),
)
