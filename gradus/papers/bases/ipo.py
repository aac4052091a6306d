"""IPO: a squared loss pulls the lead of the better answer to a finite value, so that unanimous preferences do not drive the policy to extremes.

    loss = mean over pairs of (h_w - h_l - 1/(2 tau))^2
    h = sum_t [log pi(y_t) - log pi_ref(y_t)]
    grad loss = 2 (h_w - h_l - 1/(2 tau)) (grad log pi(y_w) - grad log pi(y_l))

$y_w$ is the better answer of a pair, and $y_l$ the worse one. The symbol h is the log-ratio of an answer with tokens $y_t$ to the start model
$pi_ref$; the lead is $h_w - h_l$. The parameter tau is 0.1, so the target of the lead is 5 nats. The third line is the gradient of one pair: it
changes sign if the lead is larger than the target. A logistic loss decreases without end while the lead grows. So the KL regularisation loses its
effect if one answer always wins. With the squared loss the regularisation keeps its effect. `beta` is the paper's tau. The pairs are as in the
base, dpo: given pairs, or the best and the worst answer of a group.

Use if: preferences are nearly deterministic, so that DPO would drive the log-ratios without bound.
Avoid if: preferences are noisy and the lead should grow with the evidence (see dpo), or if no pairs exist (see kto).
Reference: Azar et al., A General Theoretical Paradigm to Understand Learning from Human Preferences, arXiv:2310.12036, eq. 17 and algorithm 1;
its log-ratios are sums over the answer.
Departures: tau is 0.1, the value of beta in the base; the paper varies tau.
"""

from gradus.objectives.preference import Squared
from gradus.papers.bases.dpo import dpo
from gradus.recipe.claim import Claim

ipo = dpo.derive(
    "ipo",
    "A squared loss pulls the better answer's lead to a finite value.",
    objective__sampled__link=Squared(),
    objective__given__link=Squared(),
)

claims = (
    Claim(
        says="The lead of the better answer stays finite where a logistic loss drives it on: after 20 steps it is at least 1 nat smaller than DPO's.",
        source="arXiv:2310.12036, the drift of DPO under deterministic preferences; the size of the effect and the task are ours",
        against="dpo",
        measure="margin:last",
        better_by=-1.0,
        task="arithmetic",
        options={"level": "2"},
        fields={"prompts": "4", "group": "4", "warmup": "0", "study": "none", "learning_rate": "3e-4"},
        budget="steps=20",
    ),
)
