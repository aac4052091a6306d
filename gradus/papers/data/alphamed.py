"""AlphaMed: GRPO on multiple-choice questions alone, with a reward for the right letter and questions chosen by how often the model solves them.

    R(y) = 1 if "the letter of" y = "the key", else 0
    L(x) = 6 - sum_(k=1)^5 R(y_k)
    loss = 1/G sum_i 1/|o_i| sum_t [-min(rho_(i,t) A_i, clip(rho_(i,t), 1 - 0.2, 1 + 0.2) A_i) + 0.001 k_3]

There are no demonstrations, and no reward for form or length. Before training the model answers each question 5 times. L(x) is the level of question
x: 1 if all answers are right, 6 if no answer is right. The model measures 256 questions, and training uses the questions in a band of levels. The default
is all six: in the paper a mixture of levels does better than easy or hard questions alone, and level 6 helps on hard benchmarks only. Levels 1 to 3
are `--schedule.stages.train.screen.low 0.6`, and level 6 alone is `--schedule.stages.train.screen.high 0`; `bands(first, last)` gives the screening
for other levels. In the paper long, informative cases help more than short questions about facts. Metrics: screen/solved and screen/unsolved, the
numbers of questions of level 1 and level 6.

Use if: questions have one right option, a few hundred questions are enough, and the difficulty of the questions for the model is unknown.
Avoid if: questions are new in every step (see grpo), or levels change quickly during training (see sec, difficulty_staged_rl).
Reference: Liu et al., Beyond Distillation: Pushing the Limits of Medical LLM Reasoning with Minimalist Rule-Based RL, arXiv:2505.17952. The paper has
levels from 5 answers of the starting model, and 1,200 questions from each of MedQA, MedMCQA and PubMedQA. The paper's learning rate is 1e-6, with 8
answers per question. No code of the authors was found.
Departures: The verifier of the task decides about the letter. In data files the letter is the content of the last box, as a capital or a small
letter. If there is no box, the letter is the text after the last "answer:"; if this mark is missing too, the letter is the whole text. In the paper
an answer without a box is wrong. The 256 questions and the 200 steps are our choices. The weight of the KL is usual in public recipes for GRPO.
Temperature and limits of length come from the task.
"""

from __future__ import annotations

from gradus.objectives.kl import KL
from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim, same_weights
from gradus.schedules.stages import Stage, Stages
from gradus.study.screen import Screened
from gradus.types import Frozen, UserError
from gradus.types.moments import Steps

SAMPLES = 5
QUESTIONS = 256


def level(right: int, samples: int = SAMPLES) -> int:
    """Returns the level of a question with this number of right answers: 1 if all are right, samples + 1 if none is."""
    return samples + 1 - right


def bands(first: int, last: int, samples: int = SAMPLES, problems: int = QUESTIONS) -> Screened:
    """Returns the screening that keeps the levels `first` to `last`. Raises UserError unless 1 <= first <= last <= samples + 1."""
    if not 1 <= first <= last <= samples + 1:
        raise UserError(f"the first level is {first} and the last level is {last}; both must be from 1 to {samples + 1}, and the first must not be above the last")
    return Screened(low=(samples + 1 - last) / samples, high=(samples + 1 - first) / samples, samples=samples, problems=problems)


alphamed = grpo.derive(
    "alphamed",
    "The only reward is the right letter, and questions are chosen by how often the starting model solves them.",
    family="data",
    objective__kl=KL(0.001),
    schedule=Stages(Frozen(train=Stage(until=Steps(200), screen=bands(1, 6)))),
)

_SCREEN = "schedule.stages.train.screen"
_LADDER = {"prompts": "8", "group": "8", "eval_every": "0", f"{_SCREEN}.problems": "40", "schedule.stages.train.until": "Steps(count=12)"}

claims = (
    same_weights(
        says="If all levels are kept, the number of answers that measure them has no effect on the final weights.",
        source="arXiv:2505.17952, the union of all levels",
        against=f"alphamed --{_SCREEN}.samples 1",
        fields={"prompts": "4", "group": "4", "study": "none", f"{_SCREEN}.problems": "8", "schedule.stages.train.until": "Steps(count=3)"},
    ),
    Claim(
        says="On problems of which most are trivial or impossible, all levels give at least 0.02 more accuracy on the others than level 1 alone.",
        source="arXiv:2505.17952, figure on difficulty (mixed levels above only easy ones); the ground and the numbers of problems and steps are ours",
        against=f"alphamed --{_SCREEN}.low 1",
        measure="accuracy@middle",
        better_by=0.02,
        ground="ladder",
        fields=_LADDER,
        budget="steps=12",
    ),
)
