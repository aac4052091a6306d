"""TON: a short SFT with "thought dropout" shows the model that a thought may be empty; then GRPO decides for each question whether to think.

    y = <think>T</think><answer>a</answer>, quad T "is empty with probability" 1/2
    R = [form] + r_task
    A_i = (R_i - mean(R)) / (std(R))
    loss = -1/G sum_i 1/|o_i| sum_t A_i pi/(sg(pi)) + 0.04 k_3

Stage 1 imitates the worked solution of a problem as thought T and answer a; in a random half of the samples T is empty. So both forms have about the same
probability. Stage 2 is GRPO with one update per batch; sg stops the gradient, so no clip acts. The form is right if the whole text consists of the two parts,
also with an empty thought. A right answer earns the same with and without a thought. There is no penalty on length. Answers without a thought win for
two reasons: the mean over each answer gives the tokens of a short right answer more weight, and thinking sometimes makes an answer wrong. The KL term
refers to the model after stage 1. Metrics: empty (stage 1), reward/form.

Use if: many questions need no thought, and a model always thinks.
Avoid if: the loss is a mean over all tokens of the batch, because the empty thought then has no advantage (see grpo_lambda_length, kimi_k1_5).
Reference: Wang et al., Think or Not? Selective Reasoning via Reinforcement Learning for Vision-Language Models, arXiv:2505.16854. The released code
(kokolerk/TON) has the dropout 0.5, 8 answers, the KL coefficient 0.04, a learning rate of 1e-6, and the ratio without clip.
Departures: The thoughts are the task's worked solutions; the paper lets the base model write them in reverse, from question and gold answer. The 50 steps of
stage 1 are our own choice. The deviation is the sample deviation, without the code's epsilon of 0.0001. Any model that fits the task works, with or
without pictures. `--schedule.stages.dropout.recipe.rollout.form` gives other texts; `mark` there is the text between thought and answer in a worked
solution.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from gradus.objectives.ratios import OnPolicy
from gradus.objectives.trust import Unclipped
from gradus.papers.bases.grpo import grpo
from gradus.papers.bases.sft import sft
from gradus.recipe.claim import Claim, same_weights
from gradus.rewards.combine import Combines, Sum
from gradus.rewards.verified import Verified
from gradus.rollouts.auto import Auto
from gradus.rollouts.demonstrations import Demonstrations
from gradus.schedules.stages import Stage, Stages
from gradus.types import Frozen, Group, Request
from gradus.types.moments import Steps
from gradus.types.parts import Judgement, Signals, Task, World
from gradus.types.ranges import check_ranges
from gradus.types.signals import Signal

_FORM = re.compile(r"<think>.*?</think>\s*<answer>.*?</answer>", re.DOTALL)


def dropped(solution: str, *, form: str, mark: str, empty: str | None = None) -> str:
    """Returns a worked solution in the form with {thought} and {answer}. `empty` replaces the thought (None: the thought stays).

    >>> dropped("7+5=12 =12", form="<think>{thought}</think><answer>{answer}</answer>", mark=" =", empty="")
    '<think></think><answer>12</answer>'
    """
    thought, found, answer = solution.rpartition(mark)
    if not found:
        thought, answer = "", solution
    return form.replace("{thought}", thought if empty is None else empty).replace("{answer}", answer.strip())


@dataclass(frozen=True)
class ThoughtDropout:
    """Gives `Demonstrations` of worked solutions in a form with a thought and an answer. With probability `dropout` the thought is `empty`."""

    dropout: float = 0.5
    form: str = "<think>{thought}</think><answer>{answer}</answer>"
    empty: str = "\n\n"
    mark: str = "####"  # the text before the answer in a worked solution; without it the whole solution is the answer
    columns: ClassVar[frozenset[str]] = frozenset({"solution"})

    def __post_init__(self) -> None:
        check_ranges(self, dropout="[0, 1]")

    @property
    def test(self) -> Auto:
        return Auto()

    def judges(self, task: Task) -> bool:
        return False

    async def run(self, requests: Sequence[Request], world: World) -> list[Group]:
        """Returns one group per request, as `Demonstrations` does."""
        return await Demonstrations().run([self._changed(r, world) for r in requests], world)

    def _changed(self, request: Request, world: World) -> Request:
        problem = request.problem
        key = world.key.fold("dropout", problem.id, *request.tags, request.sample)
        empty = self.empty if float(key.uniform()[()]) < self.dropout else None
        world.note("empty", float(empty is not None))
        text = dropped(str(problem.meta.get("solution", "")), form=self.form, mark=self.mark, empty=empty)
        return replace(request, problem=replace(problem, meta=Frozen({**problem.meta, "solution": text})))


@dataclass(frozen=True)
class ThinkForm(Combines):
    """1 if the whole text is a thought in <think>, which may be empty, and an answer in <answer>, with only blanks between them; else 0."""

    name: ClassVar[str] = "form"
    needs: ClassVar[tuple[Signal, ...]] = ()

    async def score(self, groups: Sequence[Group], signals: Signals, world: World) -> list[list[Judgement]]:
        found = [[float(_FORM.fullmatch(t.completion) is not None) for t in g.trajectories] for g in groups]
        return [[Judgement(value, Frozen({self.name: value})) for value in row] for row in found]


_WARM: Any = sft.but(rollout=ThoughtDropout())

ton = grpo.derive(
    "ton",
    "SFT with empty thoughts in half of the samples, then GRPO, which decides whether to think.",
    family="thinking",
    reward=Sum(Frozen(verified=Verified(), form=ThinkForm())),
    credit__scale="sample",
    objective__policy__ratio=OnPolicy(),
    objective__policy__trust=Unclipped(),
    schedule=Stages(Frozen(dropout=Stage(_WARM, Steps(50)), think_or_not=Stage(until=Steps(200)))),
    requires=frozenset({"solution"}),
)

_STAGE = "schedule.stages.dropout.recipe.rollout"
_PLAIN = {f"{_STAGE}.form": "{thought} ={answer}", f"{_STAGE}.empty": "", f"{_STAGE}.mark": " =", "reward": "Verified"}

claims = (
    same_weights(
        says="Without stage 1 and with the verdict alone, the final weights are those of GRPO with the sample deviation.",
        source="arXiv:2505.16854, stage 2",
        against="grpo --credit.scale sample",
        within=1e-6,
        own={"schedule": "ConstantSchedule", "reward": "Verified"},
        options={"level": "2"},
        fields={"prompts": "4", "group": "4", "study": "none", "warmup": "0"},
    ),
    Claim(
        says="After both stages, answers are at most 0.6 times as long as without dropout.",
        source="arXiv:2505.16854, abstract (up to 90 % shorter); the task, sums with and without columns, and the factor are ours",
        against=f"ton --{_STAGE}.dropout 0",
        measure="length",
        at_most=0.6,
        task="arithmetic",
        options={"level": "2"},
        fields={**_PLAIN, "prompts": "8", "group": "8", "learning_rate": "5e-4", "warmup": "0", "study": "none"},
        budget="steps=50",
        problems=60,
        samples=2,
    ),
)
