"""Cog-Rethinker: if no answer is right, the policy decomposes the problem, and then corrects a wrong solution. It learns from the answers of all stages.

    y ~ pi_old(y | x), quad "then" y ~ pi_old(y | x, decompose), quad "then" y ~ pi_old(y | x, y_wrong, correct)
    A_i = (r_i - mean(r)) / (std(r))
    loss = 1/T sum_i sum_t -min(rho_(i,t) A_i, clip(rho_(i,t), 1 - 0.2, 1 + 0.28) A_i) - mu 1/S sum_s 1/|y_s| sum_t log pi(y_(s,t) | x, y_(s,<t))

Each problem x gets G answers under the plain prompt. If no answer is right, the policy gives G answers to a prompt that asks for sub-problems, their
solutions and the combination. The prompt shows an earlier solved decomposition as an example. If none of these answers is right, the policy gives G
answers to a prompt with one of its wrong solutions, $y_wrong$. The answers of the last stage are the group of the problem. Groups with right and wrong
answers have the loss of DAPO, under the prompts from which the answers were sampled. So rho is 1 before the first update. T is the number of tokens of these
groups. If too few groups have right and wrong answers, further problems are drawn.

In addition, the policy imitates all S right answers of the two later stages under the plain prompt, which evaluations use. S also counts the answers of
groups in which all answers are right. The plain prompt contains no wrong solution and no request. The weight mu is 0.1. Metrics: decompose, decompose/right,
decompose/rescued, correct, correct/right, correct/rescued, copies (imitated answers per problem of a later stage).

Use if: the policy is weak, so that further sampling under one prompt wastes most answers, and it solves some problems better in parts.
Avoid if: most groups have right and wrong answers (see dapo), or worked solutions are given (see luffy).
Reference: Sun et al., Cog-Rethinker: Hierarchical Metacognitive Reinforcement Learning for LLM Reasoning, arXiv:2510.15979: three stages for problems without a
right answer, a buffer of demonstrations to which solved problems are added, and imitation of right answers of both stages under the direct prompt.
Departures: No code was found. mu, the buffer of 32 demonstrations, the single demonstration in a prompt, the measure of similarity (TF-IDF) and the
wording of the requests are our choices. The paper keeps the headings of its template in imitated answers; here an answer is imitated as it was
written. The reward is the reward of DAPO: it has a penalty for overlong answers, and no points for the form. The wrong solution $y_wrong$ is the first answer
of the previous stage. If the prompt with the request fills more than half of the model's context, the problem gets no further stage.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gradus.objectives.aggregation import SequenceMean
from gradus.objectives.terms import Imitation
from gradus.papers.bases.dapo import dapo
from gradus.recipe.claim import Claim, same_weights
from gradus.rollouts.attempts import nearest, remembered
from gradus.rollouts.dynamic_sampling import DynamicSampling
from gradus.rollouts.feedback import Attempt, Told
from gradus.rollouts.refine import Refine
from gradus.rollouts.reprompted import AlsoReprompted
from gradus.selection.filters import Mixed, OwnAnswers
from gradus.types import Group
from gradus.types.parts import World
from gradus.types.ranges import check_ranges

DECOMPOSE = "Split the problem into parts, solve each part, then combine them."
CORRECT = "{attempt}\nThis solution is wrong. Find the error, then write a right solution."


@dataclass(frozen=True)
class Demonstrated:
    """A feedback: a fixed request, after solved examples of the nearest problems. Right answers to this request become new examples.

    The buffer starts empty. A newer answer to the same problem replaces the older one; the oldest examples are removed first.
    """

    request: str = DECOMPOSE
    name: str = "decompose"  # name of the `Refine` whose right answers become examples
    shown: int = 1
    most: int = 32

    def __post_init__(self) -> None:
        check_ranges(self, shown="[0, inf)", most="[1, inf)")

    def start(self) -> dict[str, Any]:
        return {"solved": {}}

    async def texts(self, attempts: Sequence[Attempt], world: World, state: dict[str, Any]) -> tuple[list[str | None], dict[str, Any]]:
        rows = [(question, tried[-1][0]) for question, tried in state["solved"].values()]
        found: list[str | None] = []
        for _, t in attempts:
            near = nearest(t.problem.question, [question for question, _ in rows], self.shown)
            found.append("\n".join([*(f"example: {rows[i][0]}\n{rows[i][1]}" for i in near), self.request]))
        return found, state

    async def learn(self, groups: Sequence[Group], dropped: Sequence[Group], world: World, state: dict[str, Any]) -> dict[str, Any]:
        every = [t for g in (*groups, *dropped) for t in g.trajectories]
        right = [t for t in every if t.right and t.source == "policy" and t.links.get("attempt") == self.name]
        return {"solved": remembered(state["solved"], right, attempts=1, problems=self.most)}


_DECOMPOSED = Refine(feedback=Demonstrated(), of="group", at_most=0.0, second=AlsoReprompted(), name="decompose")  # type: ignore[arg-type]
_STAGES = Refine(_DECOMPOSED, feedback=Told(CORRECT), of="group", at_most=0.0, second=AlsoReprompted(), name="correct")

cog_rethinker = dapo.derive(
    "cog_rethinker",
    "Problems without a right answer are decomposed, then corrected; right answers of both stages are also imitated under the plain prompt.",
    family="guidance",
    rollout=DynamicSampling(_STAGES),
    selection=OwnAnswers(Mixed()),
    objective__rescued=Imitation(average=SequenceMean(), coefficient=0.1, source="expert"),
)

_TERMS: Any = {
    "task": "arithmetic",
    "options": {"level": "3"},
    "fields": {
        "prompts": "4", "group": "8", "warmup": "0", "study": "none", "learning_rate": "3e-4", "rollout.rounds": "3", "update.count": "2",
    },
    "budget": "steps=8",
}  # fmt: skip
_START = (
    "Stated again with another task: the earlier start model, on string functions, hardly used feedback. The start model is the built-in one after 150 "
    "steps of supervised fine-tuning on arithmetic with three digits: the answer alone to plain problems, worked solutions after feedback"
)

claims = (
    same_weights(
        says="If no problem is hard enough for a later stage, the final weights are those of DAPO.",
        source="arXiv:2510.15979, without later stages",
        against="dapo",
        own={"rollout.rollout": "Auto"},
        options={"level": "1"},
    ),
    Claim(
        says="Over 8 steps, the share of groups with right and wrong answers is at least 0.2 above that of DAPO with as many problems.",
        source=(
            f"arXiv:2510.15979, better use of samples on problems without a right answer; the share, the task and the sizes are ours. {_START}. With 5 % of "
            "worked solutions to plain problems in the fine-tuning, DAPO alone had 65 % of such groups, and the difference was 0.14 [-0.01, 0.28]"
        ),
        against="dapo",
        measure="informative:mean",
        better_by=0.2,
        script="benchmarks.warmed cog_rethinker",
        **_TERMS,
    ),
    Claim(
        says="After 8 steps, accuracy under the plain prompt is at least 0.03 above that of DAPO.",
        source=f"arXiv:2510.15979, comparison with DAPO; the size of the effect, the task and the sizes are ours. {_START}",
        against="dapo",
        measure="accuracy",
        better_by=0.03,
        problems=60,
        samples=2,
        script="benchmarks.warmed cog_rethinker-accuracy",
        **_TERMS,
    ),
)
