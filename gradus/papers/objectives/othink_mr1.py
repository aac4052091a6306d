"""OThink-MR1: GRPO whose KL term grows during training, so that the model first explores and later keeps its knowledge (GRPO-D).

    R_i = R_acc + alpha R_format
    A_i = (R_i - mean(R)) / (std(R))
    beta(s) = beta_min + (beta_max - beta_min) s / S
    loss = 1/G sum_i 1/|o_i| sum_t [-min(rho_(i,t) A_i, clip(rho_(i,t), 1 - 0.2, 1 + 0.2) A_i) + beta(s) k_3]
    k_3 = pi_ref/pi - log (pi_ref/pi) - 1

s is the number of finished steps, and S is the number of steps of the run. $beta_min$ is 0 and $beta_max$ 0.04, the constant weight of GRPO. $R_acc$
is 1 for a right answer, $R_format$ is 1 for a completion of the form `<think>...</think><answer>...</answer>`, and alpha is 1. $pi_ref$ is the model
at the start. The verifier of the task reads the whole completion, so the text between the answer's tags needs a form that the verifier knows, such as
\\boxed{}. With $beta_min = beta_max$ the method is GRPO with the format reward. There is one update per batch, so the ratio rho is 1 and the clip does
not act. Metric: kl.

Use if: the model must move away from its start to learn the task, and must not lose other skills by the end.
Avoid if: the number of steps is not known in advance, because the schedule needs it (see grpo), or no skill of the start model matters (see dapo).
Reference: Liu et al., OThink-MR1: Stimulating multimodal generalized reasoning capabilities via dynamic reinforcement learning, arXiv:2503.16081: the
dynamic KL term (GRPO-D), weak at first and stronger later, and the reward of accuracy plus format. No code of the authors was found.
Departures: The linear growth, its bounds, alpha and one update per batch are our choices. The standard deviation is the population deviation, as in
grpo. The user writes the system prompt that asks for the tags. If a model never writes the tags, all answers get the format reward 0, which changes
no advantage.
"""

from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim, same_weights
from gradus.rewards.tags import Tags
from gradus.rewards.verified import Verified
from gradus.schedules.ramp import Ramp

othink_mr1 = grpo.derive(
    "othink_mr1",
    "The weight of the KL term grows from 0 over the run, and a reward for tags is added to the verdict.",
    family="objectives",
    reward=Verified() + Tags(("think", "answer")),
    schedule=Ramp("objective.kl.coefficient", ((0.0, 0.0), (1.0, 0.04)), over="progress"),
)

claims = (
    same_weights(
        says="With equal bounds of the KL weight, the final weights on questions about pictures are those of GRPO.",
        source="arXiv:2503.16081, the dynamic KL term at equal bounds; the built-in model writes no tags, so the format reward changes nothing",
        against="grpo",
        own={"schedule.points": "((0.0, 0.04), (1.0, 0.04))"},
        task="shapes",
        fields={"prompts": "4", "group": "8", "study": "none"},
    ),
    Claim(
        says="On questions about pictures, the mean KL to the start model over 30 steps is at least 1.1 times that of GRPO with the constant weight 0.04.",
        source="arXiv:2503.16081, the dynamic KL strategy (exploration early); the size, the task and the rate are ours",
        against="grpo",
        measure="kl:mean",
        at_least=1.1,
        task="shapes",
        options={"level": "2", "kinds": "count,relation"},
        fields={"prompts": "8", "group": "8", "learning_rate": "3e-4", "study": "none"},
        budget="steps=30",
    ),
    Claim(
        says="After the same 30 steps, the KL to the start model is at most 0.9 of that of a run without a KL term.",
        source="arXiv:2503.16081, the dynamic KL strategy (a strong term later); the size, the task and the rate are ours",
        against="othink_mr1 --schedule ConstantSchedule --objective.kl.coefficient 0",
        measure="kl:last",
        at_most=0.9,
        task="shapes",
        options={"level": "2", "kinds": "count,relation"},
        fields={"prompts": "8", "group": "8", "learning_rate": "3e-4", "study": "none"},
        budget="steps=30",
    ),
)
