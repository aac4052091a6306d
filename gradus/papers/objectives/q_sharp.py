"""Q#: the policy never changes. A second model learns the chance of reward after every next token, and decoding weights the tokens by this chance.

    Q^**(s, a) = eta log E[exp(z/eta)] = eta log(1 + p (exp(1/eta) - 1))
    pi^**(a | s) = (pi_ref(a | s) exp(1/eta Q^**(s, a))) / (sum_b pi_ref(b | s) exp(1/eta Q^**(s, b)))
    loss = mean over tokens of [-R log p_t - (1 - R) log(1 - p_t)], quad p_t = sigmoid(q(s_t, a_t))

$pi^**$ is, token by token, the optimum of $E[R] - eta KL(pi, pi_ref)$ over answers with a reward R at the end. If $pi_ref$ completes an answer after token a
in state s, z is the reward of this answer. For rewards in {0, 1}, p is the probability of z = 1; eta is 0.1. The distribution of z depends on
$pi_ref$ alone. So p is fitted by maximum likelihood to observed rewards, and no target contains a prediction of the model. A head over the vocabulary
gives q, the logit of p, for every next token in one pass.

The guided policy writes an answer of L tokens. The answer is cut after h tokens, with h uniform in 0 .. L - 1, and $pi_ref$ writes the remaining
tokens. So the model learns on states that guided decoding visits. The model learns only from the tokens after h, in groups of this step and of
earlier steps (`selection`). Evaluation decodes with guidance. Earlier methods have E[z] in place of the log-mean-exp (`--rollout.rule.form mean`);
this form is not optimal.

Use if: the policy's weights must not change, but a second model may run during decoding, although this makes decoding slower.
Avoid if: the policy can be trained, because it then needs no second model at test time (see grpo, ppo).
Reference: Zhou et al., Q#: Provably Optimal Distributional RL for LLM Post-Training, arXiv:2502.20548, section 3, with eta 0.1. In the paper data are
collected in 2 rounds of 16 answers per problem, and the model is fitted to convergence in each round. Rewards with more than two values have a
categorical distribution (11 atoms from 0 to 1). We read only copies of the released code; the `eta` of this code is 1 / eta of this recipe.
Departures: Each step makes one update over its answers and the same number of earlier answers. Rewards are in {0, 1} only. All tokens are guided;
`--rollout.rule.top 20` draws only from the reference's 20 most likely tokens. The release adds Q / eta to the logits of these 20 tokens and does not
change the others. The temperature is applied to the guided logits. The released code keeps one more guided token after the cut and learns on it too.
The released code leaves out problems whose answers all have the same reward, takes the mean over the tokens of each answer first
(`--players.value.objective.likelihood.average SequenceMean`), and samples at temperature 0.8 with top-p 0.9.
"""

from __future__ import annotations

from gradus.credit.groups import Constant
from gradus.objectives.chances import RewardLikelihood
from gradus.papers.bases.reinforce import reinforce
from gradus.recipe.claim import Claim
from gradus.rollouts.switched import SwitchedRollIn
from gradus.selection.replay import Replay
from gradus.types import Frozen
from gradus.types.players import Copy, Head, Player

q_sharp = reinforce.derive(
    "q_sharp",
    "A frozen policy is guided by a second model's chance of reward after every next token.",
    family="objectives",
    rollout=SwitchedRollIn(),
    selection=Replay(),
    credit=None,
    objective=None,
    players__value=Player(
        Head(of=Copy("policy"), outputs=("q",), over="vocabulary"),
        objective=Frozen(likelihood=RewardLikelihood()),
        credit=Constant(),
        learns_from="policy",
    ),
)

claims = (
    Claim(
        says=(
            "Guided decoding by a value model that is fitted to the frozen policy's own answers raises held-out accuracy on arithmetic above the "
            "unguided policy's by at least 5 points within 60 steps."
        ),
        source=(
            "arXiv:2502.20548, sections 4 and 5: guidance of a frozen reference beats the reference on GSM8K and MATH at a small KL; here the "
            "built-in model on arithmetic, 60 steps"
        ),
        measure="held_out/accuracy:gain",
        better_by=0.05,
        task="arithmetic",
        fields={"learning_rate": "0.001", "eval_every": "60"},
        budget="steps=60",
        seeds=3,
    ),
)
