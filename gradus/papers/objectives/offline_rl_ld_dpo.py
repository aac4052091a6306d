"""LD-DPO on the model's own samples: pairs of a right and a wrong answer of the start model; tokens beyond the length of the shorter answer are
discounted.

    l = min(|y_w|, |y_l|)
    h(y) = sum_(t <= l) d_t + alpha sum_(t > l) d_t, quad d_t = log pi(y_t) - log pi_ref(y_t)
    loss = mean over pairs of -log sigmoid(beta (h(y_w) - h(y_l)))

$y_w$ is the right answer of a pair, $y_l$ the wrong one, and l the length that both share. The factor alpha = 0.5 discounts the tokens after the first l
tokens, for policy and reference. In plain DPO (alpha 1) every surplus token adds its ratio to h, so the gradient depends on the difference of lengths; alpha
0 ignores the surplus. For equal lengths the loss is as in dpo, with beta 0.1.

The data are offline: the start model answers each problem 8 times, the verifier judges, and a pair is drawn from every problem with right and wrong
answers. `--selection.pairs` chooses the pair: random, balanced, longest or shortest. `gradus compare` measures accuracy and length over alpha:
`gradus compare a=offline_rl_ld_dpo "b=offline_rl_ld_dpo --objective.sampled.score.alpha 1" --ground wordy`.

Use if: a model that reasons at length should improve from samples that it draws once, and a verifier judges them.
Avoid if: answers can be judged during training, because samples of the current policy teach more (see online_dpo, grpo). If right and wrong answers
have about the same length, the discount has no effect (see dpo).
Reference: Tian et al., Exploring the Potential of Offline RL for Reasoning in LLMs: A Preliminary Study, arXiv:2505.02142. The paper trains for one
epoch at 5e-7. The discounted score comes from LD-DPO (arXiv:2409.06411); TRL's trainer has alpha as `ld_alpha`.
Departures: Samples are not stored first: they are drawn and judged step by step, while the policy learns. In both cases the samples come from the
start model. Each problem gives one pair; the paper does not describe how it draws the pair. No code of the authors was found. For given pairs use
`dpo --objective.given.score LengthDiscounted`.
"""

from __future__ import annotations

from gradus.objectives.preference import Preference
from gradus.objectives.scores import LengthDiscounted
from gradus.papers.bases.dpo import dpo
from gradus.recipe.claim import Claim, same_weights
from gradus.rollouts.behaviour_policy import BehaviourPolicy
from gradus.selection.pairs import RightWrongPair
from gradus.types import Frozen
from gradus.types.players import Player

offline_rl_ld_dpo = dpo.derive(
    "offline_rl_ld_dpo",
    "DPO on right and wrong answers of the start model; tokens beyond the length of the shorter answer are discounted.",
    family="objectives",
    rollout=BehaviourPolicy("reference"),
    selection=RightWrongPair(),
    objective=Frozen(sampled=Preference(beta=0.1, score=LengthDiscounted())),
    players__policy=Player(learns_from="reference"),
)

claims = (
    same_weights(
        says="With alpha 1 the final weights are those of plain DPO on the same pairs.",
        source="arXiv:2505.02142, LD-DPO at alpha 1",
        against="offline_rl_ld_dpo --objective.sampled.score LogRatio",
        own={"objective.sampled.score.alpha": "1"},
        fields={"prompts": "4", "group": "8", "study": "none"},
    ),
    Claim(
        says="Held-out accuracy rises by at least 0.03 over the start within 30 steps on samples of the start model.",
        source="arXiv:2505.02142, main results (3.3 points on average); task and rate are ours",
        measure="held_out/accuracy:gain",
        better_by=0.03,
        task="arithmetic",
        options={"level": "2"},
        fields={
            "prompts": "8",
            "group": "8",
            "learning_rate": "1e-4",
            "warmup": "0",
            "eval_every": "0",
            "study.problems": "64",
            "study.greedy": "false",
        },
        budget="steps=30",
    ),
    Claim(
        says="If the longest right answer is paired with the shortest wrong one, answers after 30 steps are at most 0.97 times as long as with alpha 1.",
        source="arXiv:2505.02142, lengths over alpha (less change of length under LD-DPO); the ground and the factor are ours",
        against="offline_rl_ld_dpo --objective.sampled.score.alpha 1",
        measure="length",
        at_most=0.97,
        ground="wordy",
        fields={"selection.pairs": "longest"},
        budget="steps=30",
    ),
)
