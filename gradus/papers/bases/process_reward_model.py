"""Process reward model: a value head learns the chance that an answer becomes right, after every step of the answer.

    y_k = 1/N sum_(n=1)^N R(x_(1:k), c_n), quad c_n ~ pi("sampler"), quad y_K = R(x_(1:K))
    loss = mean over steps of -y_k log sigmoid(s_k) - (1 - y_k) log(1 - sigmoid(s_k))

The frozen player `sampler` answers each problem. $x_(1:k)$ are the steps 1 to k of an answer, and R is the reward of the whole text. The label $y_k$ is
the mean reward of N = 8 continuations from the end of step k. The label of the whole answer is its own reward. The score $s_k$ is the head's output at
the end of step k. The start of an answer also has a label: the chance of success before the first step.

`--rollout.rollout "CheckedSteps()"` uses exact labels from a task that can check steps: $y_k$ is 1 if the steps 1 to k are all right, else 0. The
reward `StepScores` makes the trained model the judge of another run. `--reward FOLDER_OF_THIS_RUN` uses only the score of the whole answer.

Use if: a later run or a search needs a judge of single steps, and continuations are cheap.
Avoid if: only whole answers are judged (see reward_model), or the steps can be checked exactly in the later run itself (reward SoundSteps).
Reference: Wang et al., Math-Shepherd, arXiv:2312.08935, section 3, soft estimation: N = 8. Uesato et al., arXiv:2211.14275: process feedback.
Departures: Each step is a sentence in the paper; here it is a line, or an equation between blanks. The label of the last step is the verdict, which
needs no continuations.
"""

from gradus.credit.step_values import StepChances
from gradus.objectives.chances import ChanceLoss
from gradus.papers.bases.reward_model import reward_model
from gradus.recipe.claim import Claim
from gradus.rollouts.behaviour_policy import BehaviourPolicy
from gradus.rollouts.values import MonteCarloValues
from gradus.selection.filters import Everything
from gradus.types import Frozen

process_reward_model = reward_model.derive(
    "process_reward_model",
    "A value head learns the chance of a right answer after every step, from continuations or from checked steps.",
    rollout=BehaviourPolicy("sampler", MonteCarloValues(count=8)),
    selection=Everything(),
    credit=StepChances(last=True),
    objective=Frozen(steps=ChanceLoss()),
)

claims = (
    Claim(
        says="After 40 steps the score of the whole answer puts at least 0.1 more held-out pairs in the right order than at the start.",
        source="arXiv:2312.08935, table 1 (verification of whole solutions); the size of the effect and the task are ours",
        measure="held_out/accuracy:gain",
        better_by=0.1,
        task="arithmetic",
        options={"level": "2"},
        fields={"prompts": "8", "group": "4", "learning_rate": "3e-4", "warmup": "0", "eval_every": "0"},
        budget="steps=40",
    ),
)
