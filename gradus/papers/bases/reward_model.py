"""Reward model: a value head on a copy of the start model learns to score the better of two answers higher (Bradley and Terry's model).

loss = mean over problems of the mean over all pairs of their answers with r_i > r_j of -log sigmoid(s_i - s_j - m (r_i - r_j)), m 0;
with g = sigmoid(s_j - s_i) the gradient of a pair is -g (grad s_i - grad s_j). s is the head's number before the answer's last action:
there an answer that has ended has been read but for its end token. Only differences matter, so scores have no zero of their own.

What learns stands in the policy's place, so that the model of the run is the reward model: its trunk and head are trained, and it answers
nothing. Answers are those of the frozen player `sampler`, the model that the run was given, ranked by the recipe's reward; a problem that
brings `chosen` and `rejected` gives these two. Problems without a difference are left out. All pairs of a problem stand in one
mini-batch, or its answers would be learned by heart.

Evaluation is the share of held-out pairs in the right order (`held_out/accuracy`, chance one half) and the mean reward of the answer that
scores highest (`held_out/picked`, beside `held_out/reward` of all). Another run is judged by it with `--reward FOLDER_OF_THIS_RUN`; then
`--study.reward Verified` measures accuracy, since a score alone tells no right answer from a wrong one.

References: Ouyang et al., Training language models to follow instructions with human feedback, arXiv:2203.02155, eq. 1; margin: Touvron et al.,
Llama 2, arXiv:2307.09288, eq. 2 (there a number for each degree of preference, here in proportion to the rewards). Ours: pairs by a
verifier; no shift of the scores afterwards.
"""

from gradus.objectives.ranking import BradleyTerry
from gradus.papers.bases.dpo import dpo
from gradus.rollouts.behaviour_policy import BehaviourPolicy
from gradus.rollouts.demonstrations import DemonstratedPairs
from gradus.selection.filters import Informative
from gradus.study.pair_accuracy import PairAccuracy
from gradus.types import Frozen
from gradus.types.players import Copy, Head, Player

reward_model = dpo.derive(
    "reward_model",
    "A value head learns to score the better of two answers higher; the trained model can judge another run.",
    rollout=BehaviourPolicy("sampler", DemonstratedPairs()),
    selection=Informative(),
    objective=Frozen(sampled=BradleyTerry(), given=BradleyTerry(source="expert")),
    players=Frozen(policy=Player(Head(of=Copy("sampler")), learns_from="sampler"), sampler=Player()),
    study=PairAccuracy(),
)
