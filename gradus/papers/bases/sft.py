"""SFT: supervised fine-tuning on the problems' worked solutions, without sampling or judging.

    loss = -1/N sum_x sum_t log pi(y_t | x, y_(<t))

x is a prompt, y its worked solution, and N the number of solution tokens of the batch. The loss includes the end token and leaves out the prompt.

A step has `prompts` times `group` solutions, which is the number of samples of a recipe that samples. Each solution belongs to a different problem.
For a task with an environment, the policy imitates the actions of the demonstrated episode. The metrics give every demonstration the reward 1. The
policy's ability is measured in evaluation, in which the policy itself acts.

Use if: worked solutions exist, and the model should learn a format or a skill that it does not show at all yet.
Avoid if: no solutions exist but answers can be judged (see grpo, rft), or if the model should keep its own abilities during the imitation (see chord,
luffy).
Reference: Ouyang et al., Training language models to follow instructions with human feedback, arXiv:2203.02155, section 3.5 (step 1).
Departures: All tokens of the batch have the same weight; with `--objective.imitation.average SequenceMean` all solutions have the same weight.
"""

from gradus.credit.groups import Constant
from gradus.curricula.shuffled_epochs import Once
from gradus.objectives.terms import Imitation
from gradus.papers.bases.reinforce import reinforce
from gradus.recipe.claim import Claim
from gradus.rollouts.demonstrations import Demonstrations
from gradus.types import Frozen

sft = reinforce.derive(
    "sft",
    "Maximum likelihood of worked solutions, without sampling.",
    curriculum=Once(),
    rollout=Demonstrations(),
    credit=Constant(),
    objective=Frozen(imitation=Imitation()),
    requires=frozenset({"solution"}),
)

claims = (
    Claim(
        says="Imitation of worked solutions raises accuracy on held-out sums of three digits by at least 0.1 within 15 steps.",
        source="arXiv:2203.02155, SFT above the prompted model; the size of the effect and the task are ours",
        measure="held_out/accuracy:gain",
        better_by=0.1,
        task="arithmetic",
        options={"level": "3"},
        fields={
            "prompts": "8",
            "group": "8",
            "learning_rate": "3e-4",
            "warmup": "0",
            "eval_every": "0",
            "study.problems": "64",
            "study.greedy": "false",
        },
        budget="steps=15",
    ),
)
