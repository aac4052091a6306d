"""PretrainZero: one model chooses words of a plain text to hide, and also finds hidden words. Words earn a reward if few answers find them, but at least one
does.

    m_j ~ pi(m | w), quad j = 1, ..., J
    p_j = 1/G sum_i 1("answer" i "to" w "without" m_j "is" m_j)
    R_j = 1 - p_j "if" p_j > 0, quad "else" 0
    A_j = (R_j - mean(R)) / (std(R)), quad A_(j,i) = (r_(j,i) - mean_i(r_j)) / (std_i(r_j))
    loss = loss_"solver" + 0.5 loss_"masker"

A problem is a passage w. In the role of the masker, the policy proposes J = 4 spans $m_j$ of words to hide. In the role of the solver, the policy
answers each passage with one hidden span G = 8 times, with reward $r_(j,i)$ of 1 for the hidden words, else 0. So the solver raises the share $p_j$
of right answers, and the masker lowers it. A hidden span that no answer finds earns nothing: either the passage does not imply the span, or the
solver is too weak. Each role has its own groups: the J spans of a passage, and the G answers to a span. A span earns 0 if it is not made of words of
the passage, occurs twice, or has only stop words. Both roles share all weights. Apart from this, the method is GRPO without a KL term and without
groups of equal rewards. Metrics: proposals/valid, proposals/solved; reward (the reward of the masker).

The passages of the evaluation already have a hidden span. A later run trains the model on a task with a verifier.

Use if: plain text is abundant, questions with answers are few, and parts of the text follow from other parts.
Avoid if: problems with answers exist (see grpo; dapo for hard problems), or nothing in the text can be inferred (see webscale_rl for facts).
Reference: Xing et al., PretrainZero: Reinforcement Active Pretraining, arXiv:2512.03442: mask generation and mask prediction by one policy, a min-max
objective with GRPO, Wikipedia, no supervised start. Only the abstract and overviews could be read; no code of the authors was found.
Departures: $R_j$ is our reading of the min-max objective: the abstract calls the hidden words reasonable, so a span that is never found earns 0. Our
own choices are the sizes of the groups, the weight 0.5 of the masker's loss, the limit of 8 words, the rule for stop words, and the skipped groups.
Two spans count as equal if they are equal in lower case and without punctuation; the paper's rule is not known here. The task `masked_text` has
generated passages.
"""

from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim, same_weights
from gradus.rollouts.proposer import Proposer
from gradus.selection.filters import Informative

pretrain_zero = grpo.derive(
    "pretrain_zero",
    "One model chooses words to hide in plain text and finds hidden words; words that few answers find, but at least one, are rewarded.",
    family="data",
    rollout=Proposer(proposals=4),
    selection=Informative(),
    objective__kl=None,
    players__reference=None,
    setting__group=8,
)

claims = (
    same_weights(
        says="Without the masker, the final weights are those of GRPO on given problems.",
        source="arXiv:2512.03442, solver alone",
        against="grpo --selection Informative --objective.kl none --players.reference none",
        own={"rollout": "Auto"},
    ),
    Claim(
        says=(
            "From a start model that was shown both roles, the accuracy on held-out words that follow from their passage rises by at least 0.03 over "
            "12 steps of 4 passages."
        ),
        source="arXiv:2512.03442, 3 points above random masks; here above the start, and task and sizes are ours",
        measure="held_out/accuracy:gain",
        better_by=0.03,
        task="masked_text",
        options={"level": "1"},
        fields={
            "prompts": "4", "group": "4", "learning_rate": "3e-4", "warmup": "0", "eval_every": "0", "study.problems": "100", "study.greedy": "false",
        },
        budget="steps=12",
        script="benchmarks.warmed pretrain_zero",
    ),
)  # fmt: skip
