"""ExPO: if few answers to a question are right, the policy explains the given answer, and imitates its explanation under the plain question.

    c ~ pi_old(c | q, a^(*))
    loss = loss_GRPO - beta 1/N sum_n 1/|c_n| sum_t log pi(c_(n,t) | q, c_(n,<t))

If the share of right answers to the question q is below 0.25, the policy $pi_old$ reads q and the right answer $a^(*)$, and derives this answer. The
policy learns the explanation c under the prompt q alone. N is the number of explanations of the mini-batch, and $|c_n|$ the number of tokens of an
explanation, its final answer included. The term needs no ratio. $loss_GRPO$ is the loss of GRPO with a KL coefficient of 0.001. If all answers to q
are wrong, GRPO has no gradient, and the imitation of the explanation gives the direction. Every step samples new explanations from the present
policy.

An explanation has two properties that a given solution lacks. The explanation is likely under the policy, and raises the chance of the right answer
more than the policy's wrong answers do. An explanation whose final answer is wrong is not imitated. A question whose rewards are all missing has no
explanation. Metrics: second (share of the questions with explanations), second/right (share of explanations that end in the right answer).

Use if: questions have known answers and no worked solutions, most groups have no right answer, and the policy can derive a given answer.
Avoid if: the policy writes the given answer without a derivation, or most questions are solved already (see grpo). If worked solutions exist, see
luffy.
Reference: Zhou et al., ExPO: Unlocking Hard Reasoning with Self-Explanation-Guided Reinforcement Learning, arXiv:2507.02834: explanations from question and
answer, imitation next to GRPO without a ratio, explanations of the present policy.
Departures: No code was found. Our own choices are beta 0.1, the bound 0.25, the KL coefficient, one explanation per question, the divisor N, and the
wording of the request. An explanation that begins with the given answer is not sampled again. The paper puts the right answer after the explanation;
here the explanation ends in its own answer, and the verifier compares this answer with the right one. The variant for DPO is left out:
`Refine(second=Reprompted(source="policy"))` with the term `Preference` gives its pairs.
"""

from typing import Any

from gradus.objectives.aggregation import SequenceMean
from gradus.objectives.terms import Imitation
from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim, same_weights
from gradus.rollouts.feedback import Told
from gradus.rollouts.refine import Refine
from gradus.rollouts.reprompted import Reprompted

FORM = "The answer is {answer}. Derive it step by step."

expo_self_explanation = grpo.derive(
    "expo_self_explanation",
    "The policy explains the given answer to hard questions, and imitates its explanation under the plain question.",
    family="guidance",
    rollout=Refine(feedback=Told(FORM), of="group", at_most=0.24, count=1, place="apart", only="right", second=Reprompted()),
    objective__explained=Imitation(average=SequenceMean(), coefficient=0.1, source="expert"),
    objective__kl__coefficient=0.001,
)

_TERMS: Any = {
    "task": "arithmetic",
    "options": {"level": "3"},
    "fields": {"prompts": "8", "group": "8", "warmup": "0", "study": "none", "learning_rate": "3e-4"},
    "budget": "steps=10",
}
_START = (
    "Stated again with another task: the earlier start model, on string functions, hardly used feedback. The start model is the built-in one after 150 "
    "steps of supervised fine-tuning on arithmetic with three digits: the answer alone to plain problems, worked solutions after feedback"
)

claims = (
    same_weights(
        says="If no explanation is kept, the final weights are those of GRPO.",
        source="arXiv:2507.02834, without explanations",
        against="grpo --objective.kl.coefficient 0.001",
        own={"rollout.keep": "0"},
    ),
    Claim(
        says="On a task where nearly all answers are wrong, accuracy after 10 steps is at least 0.1 above that of GRPO.",
        source=(
            "arXiv:2507.02834, hard questions on which GRPO does not learn; the size of the effect, the task and the lengths are ours. The bound is a difference, "
            f"because the accuracy of GRPO can be 0. {_START}. With 5 % of worked solutions to plain problems in the fine-tuning, GRPO alone reached 0.8, as ExPO"
        ),
        against="grpo --objective.kl.coefficient 0.001",
        measure="accuracy",
        better_by=0.1,
        problems=60,
        samples=2,
        script="benchmarks.warmed expo_self_explanation",
        **_TERMS,
    ),
)
