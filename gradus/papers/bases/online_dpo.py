"""Online DPO: at every step the current policy answers twice, a judge decides which answer is better, and the policy learns from the pair with DPO's loss.

    loss = mean over pairs of -log sigmoid(beta (h_w - h_l))
    h = sum_t [log pi(y_t) - log pi_ref(y_t)]

h is the log-ratio of an answer with tokens $y_t$; $h_w$ and $h_l$ belong to the better and the worse answer of a pair. The coefficient beta is 0.1,
and $pi_ref$ is the model at the start. Every step samples its pairs from the current policy, so the pairs are never stale. Given pairs of the
problems are not used. The judge is the recipe's reward: a verifier, a reward function or a reward model. A group of G samples gives G / 2 independent
pairs of one problem; pairs with equal rewards are left out. The base, dpo, compares the best answer of a group with its worst answer.

Use if: a judge can compare any two answers during training, but the size of its rewards means little. Only the order of two rewards counts here.
Avoid if: only given pairs exist (see dpo), or the size of the reward should count (see grpo, rloo).
Reference: Guo et al., Direct Language Model Alignment from Online AI Feedback, arXiv:2402.04792, algorithm 1 (loss: eq. 1; beta 0.1).
Departures: A problem has several pairs. Any reward can be the judge; in the paper a language model states its preference.
"""

from gradus.papers.bases.dpo import dpo
from gradus.recipe.claim import Claim
from gradus.rollouts.auto import Auto
from gradus.selection.pairs import Consecutive

online_dpo = dpo.derive(
    "online_dpo",
    "Pairs of two samples of the current policy, judged by the reward at every step.",
    rollout=Auto(),
    selection=Consecutive(),
    objective__given=None,
)

claims = (
    Claim(
        says="Pairs of the current policy give at least 0.03 more accuracy after 20 steps than pairs of the start model.",
        source="arXiv:2402.04792, abstract (above offline DPO); the size of the effect and the task are ours",
        against=(
            "online_dpo --rollout \"BehaviourPolicy(player='start')\" --players.policy.learns_from start --players.start Player --players.start.model "
            "Copy"
        ),
        measure="accuracy",
        better_by=0.03,
        task="arithmetic",
        options={"level": "2"},
        fields={"prompts": "4", "group": "8", "warmup": "0", "study": "none", "learning_rate": "3e-4"},
        budget="steps=20",
        problems=60,
        samples=2,
    ),
)
