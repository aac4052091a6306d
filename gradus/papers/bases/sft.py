"""SFT: supervised fine-tuning on the worked solutions that problems bring; nothing is sampled and nothing is judged.

loss = -(1 / number of tokens of the batch) sum over solutions, sum_t log pi(y_t | prompt, y_<t); the end token counts, the prompt does not.

A step has as many solutions as a sampling recipe has samples (prompts times group), each of another problem. Where the task is played in
an environment the demonstrated episode is imitated, its actions alone. The reward that the metrics show is 1 for every demonstration;
what the policy can do is measured by evaluation, where it acts by itself.

Reference: Ouyang et al., Training language models to follow instructions with human feedback, arXiv:2203.02155, section 3.5 (step 1).
Ours: tokens of the whole batch count alike (averaging by solution: `objective.imitation.average SequenceMean`).
"""

from gradus.credit.groups import Constant
from gradus.curricula.shuffled_epochs import Once
from gradus.objectives.terms import Imitation
from gradus.papers.bases.reinforce import reinforce
from gradus.rollouts.demonstrations import Demonstrations
from gradus.types import Frozen

sft = reinforce.derive(
    "sft",
    "Maximum likelihood of worked solutions; nothing is sampled.",
    curriculum=Once(),
    rollout=Demonstrations(),
    credit=Constant(),
    objective=Frozen(imitation=Imitation()),
    requires=frozenset({"solution"}),
)
