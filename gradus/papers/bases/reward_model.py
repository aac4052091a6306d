"""Reward model: a value head on a copy of the start model learns to give the better of two answers the higher score (Bradley and Terry's model).

    loss = mean over problems of mean over pairs of -log sigmoid(s_i - s_j - m (r_i - r_j))
    grad loss_(i,j) = -g (grad s_i - grad s_j), quad g = sigmoid(s_j - s_i)

The pairs of a problem are all answers i and j with rewards $r_i > r_j$. The margin m is 0; the second line gives the gradient of a pair for m = 0.
The score s is the head's output before the answer's last action, so in a finished answer the head has read all tokens except the end token. Only
differences of scores matter; the zero of the scale is arbitrary.

The trained model is the run's policy. The trunk and the head of the policy are trained, and the policy samples nothing. The frozen player `sampler`,
which is the model given to the run, samples the answers, and the recipe's reward ranks them. A problem with `chosen` and `rejected` gives these two
answers as a pair. Problems with equal rewards are left out. All pairs of a problem are in one mini-batch, because otherwise the model would memorise
the problem's answers.

Evaluation measures the share of held-out pairs in the right order (`held_out/accuracy`, one half by chance). Evaluation also measures the mean reward
of the answer with the highest score (`held_out/picked`) and the mean reward of all answers (`held_out/reward`). `--reward FOLDER_OF_THIS_RUN` uses
the trained model as the judge of another run. In that run `--study.reward Verified` measures accuracy, because a score alone does not separate right
from wrong answers.

Use if: the data contain only comparisons of answers, and a later run needs a reward for new answers.
Avoid if: a verifier judges the answers of the later run anyway (see grpo), or the pairs can train the policy directly (see dpo).
Reference: Ouyang et al., Training language models to follow instructions with human feedback, arXiv:2203.02155, eq. 1. The margin is from Touvron et
al., Llama 2, arXiv:2307.09288, eq. 2. In Llama 2 the margin is one number per degree of preference.
Departures: A verifier makes the pairs. Scores are not shifted afterwards. Here the margin is proportional to the difference of rewards.
"""

from gradus.objectives.ranking import BradleyTerry
from gradus.papers.bases.dpo import dpo
from gradus.recipe.claim import Claim
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
    players=Frozen(policy=Player(Head(of=Copy("sampler"), bias=False), learns_from="sampler"), sampler=Player()),
    study=PairAccuracy(),
)

claims = (
    Claim(
        says="After 20 steps the share of held-out pairs in the right order is at least 0.1 above that of the start, one half.",
        source="arXiv:2203.02155, held-out accuracy of the reward models; the size of the effect and the task are ours",
        measure="held_out/accuracy:gain",
        better_by=0.1,
        task="arithmetic",
        options={"level": "2"},
        fields={"prompts": "8", "group": "4", "learning_rate": "3e-4", "warmup": "0", "eval_every": "0"},
        budget="steps=20",
    ),
)
