"""One-shot CFT: the model learns to criticise many different answers to ONE problem, and becomes better at other problems.

    collect: 100 different answers to one problem, right and wrong
    criticise: 7 critiques of each answer; 600 of them are kept
    study: SFT, loss = -1/Z sum_c sum_t log pi(c_t | problem, answer, request, c_(<t))

c is a critique: it goes through the steps of the answer, names the first wrong step and its correction, and gives the verdict. The prompt has the
problem, the answer and the request for a critique, and only tokens of the critique are in the loss. Z is the number of these tokens. A test has plain
problems, without a critique. The variety of the answers matters more than the choice of the problem; a problem of medium difficulty is best.

The first stage samples at temperature 1.3 and learns nothing (its learning rate is 0); the second stage starts from the same weights.

Use if: there are few problems, but many different answers and a teacher that finds their errors.
Avoid if: there are many problems with solutions (see sft), or rewards can be computed (see grpo).
Reference: Wang et al., Unleashing the Reasoning Potential of Pre-trained LLMs by Critique Fine-Tuning on One Problem, arXiv:2506.03295: 10 students with 10
answers each, 7 teachers, 600 critiques, learning rate 5e-6, batch 512. We read a summary of the paper, and the released prompts and training scripts
(TIGER-AI-Lab/One-Shot-CFT).
Departures: The answers come from the model itself at a high temperature, not from ten models. The teacher is a program: it compares the words of an
answer with those of the worked solution, and writes an error in seven forms and praise in three. In the released prompt, a teacher also gives the
right solution, and the verdict comes last. The temperature 1.3, the 4 steps of sampling and the 100 steps of study are our choices; the released
script makes 50 passes over the critiques. With its batch of 512 a pass has 1 or 2 steps. The script also has a cosine schedule, 5 percent warm-up and
weight decay 0.05. Here the run sets batch and learning rate. The problem is the first one of the source; its difficulty is not measured. No
checkpoint is chosen on a small set.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any

from gradus.papers.bases.sft import sft
from gradus.recipe.claim import Claim, same_weights
from gradus.rollouts.auto import Auto
from gradus.rollouts.demonstrations import answer_text
from gradus.schedules.harvests import answers
from gradus.schedules.stages import Stage, Stages
from gradus.types import Frozen, Group, Problem, Request
from gradus.types.moments import Steps
from gradus.types.parts import Source, World
from gradus.types.prompts import after
from gradus.types.ranges import check_ranges

FORMS = (
    "step {at} is {wrong}, but it must be {right}. {verdict}",
    "first error: step {at}, {wrong} in place of {right}. {verdict}",
    "{wrong} is wrong (step {at}); right is {right}. {verdict}",
    "look at step {at}: {wrong}. the value is {right}. {verdict}",
    "step {at}: not {wrong}, {right}. {verdict}",
    "up to step {at} all is well. there {wrong} must be {right}. {verdict}",
    "{verdict}: step {at} must be {right}, not {wrong}.",
)
"""The forms in which the teachers write."""
FINE = ("each step is right. {verdict}", "no error found. {verdict}", "{verdict}: all steps hold.")
ASK = "critique:"


def critique(answer: str, solution: str, right: bool, form: int) -> str:
    """Writes the critique of an answer: the first step (word) that differs from the worked solution, its correction, and the verdict.

    >>> critique("7+5=12 4+8=12 =632", "7+5=12 4+8+1=13 =632", False, 0)
    'step 2 is 4+8=12, but it must be 4+8+1=13. wrong'
    >>> critique("7+5=12 4+8+1=13 =632 =633", "7+5=12 4+8+1=13 =632", False, 4)
    'step 4: not =633, the end. wrong'
    """
    written, due = answer.split(), solution.split()
    verdict = "right" if right else "wrong"
    steps = zip_longest(written, due)
    at, (found, needed) = next(((i, pair) for i, pair in enumerate(steps, 1) if pair[0] != pair[1]), (0, (None, None)))
    if not at or right:
        return FINE[form % len(FINE)].format(verdict=verdict)
    return FORMS[form % len(FORMS)].format(at=at, wrong=found or "missing", right=needed or "the end", verdict=verdict)


@dataclass(frozen=True)
class OneProblem:
    """Requests samples of one problem of the source in every step."""

    index: int = 0  # place of the problem among the task's problems, counted from 0

    def __post_init__(self) -> None:
        check_ranges(self, index="[0, inf)")

    def choose(self, source: Source, count: int, world: World) -> list[Request]:
        """Returns one request for all samples of the step."""
        (problem,) = source.draw([self.index], world.task.level, world.seed.fold("problems"))
        return [Request(problem, count=count * world.group)]


@dataclass(frozen=True)
class Critiques:
    """Makes critiques of the different answers to each problem. The prompt of a row has problem, answer and request; the critique is its `solution`."""

    answers: int = 100  # largest number of answers per problem
    teachers: int = 7  # number of critiques per answer, each in another form
    most: int = 600  # largest number of rows

    def __post_init__(self) -> None:
        check_ranges(self, answers="[1, inf)", teachers="[1, 7]", most="[1, inf)")

    @property
    def provides(self) -> frozenset[str]:
        return frozenset({"solution"})

    def rows(self, groups: Iterable[Group]) -> list[Mapping[str, Any]]:
        """Returns the rows, sorted by form. If the number of rows is bounded, the last forms are left out, and every answer keeps a row. Equal critiques of
        an answer give one row."""
        found: dict[str, tuple[Problem, dict[str, bool]]] = {}
        for t in answers(groups, cut=True):
            found.setdefault(t.problem.id, (t.problem, {}))[1].setdefault(t.completion, t.right)
        given = [(problem, text, right) for problem, texts in found.values() for text, right in list(texts.items())[: self.answers]]
        rows = [self._row(problem, text, right, i, form) for form in range(self.teachers) for i, (problem, text, right) in enumerate(given)]
        different: dict[tuple[str, str], Mapping[str, Any]] = {}
        for row in rows:
            different.setdefault((row["problem"].question, row["solution"]), row)
        return list(different.values())[: self.most]

    def _row(self, problem: Problem, text: str, right: bool, number: int, form: int) -> Mapping[str, Any]:
        shown: Any = problem.text if problem.text is not None else problem.messages
        changed = after(shown, f"{text}\n{ASK}")
        parts = {"text": changed} if isinstance(changed, str) else {"messages": changed}
        meta = Frozen({name: value for name, value in problem.meta.items() if name != "solution"})
        made = replace(problem, id=f"{problem.id}-critique-{number}-{form}", meta=meta, **parts)
        return {"problem": made, "solution": critique(text, answer_text(problem, "solution"), right, form)}


COLLECT: Mapping[str, Any] = {"curriculum": OneProblem(), "rollout": Auto(), "setting.learning_rate": 0.0, "setting.temperature": 1.3}

one_shot_cft = sft.derive(
    "one_shot_cft",
    "Fine-tuning on critiques of many different answers to one problem.",
    family="guidance",
    schedule=Stages(
        Frozen(
            collect=Stage(until=Steps(4), changes=Frozen(COLLECT), makes=Critiques()),
            study=Stage(sft, Steps(100), task="made:collect"),
        )
    ),
)

_SMALL = {"prompts": "8", "group": "8", "learning_rate": "1e-4", "warmup": "0", "eval_every": "0", "study.problems": "64", "study.greedy": "false"}
_STEPS = {"schedule.stages.collect.until": "Steps(count=3)", "schedule.stages.study.until": "Steps(count=12)"}

claims = (
    same_weights(
        says="Without stages the final weights are those of SFT.",
        source="arXiv:2506.03295, critique fine-tuning is SFT on other data",
        against="sft",
        own={"schedule": "ConstantSchedule"},
    ),
    Claim(
        says="With critiques of one problem, held-out accuracy on other problems rises by at least 0.05.",
        source="arXiv:2506.03295, abstract (+15 points on mathematics); the task, the steps and the size of the effect are ours",
        measure="held_out/accuracy:gain",
        better_by=0.05,
        task="arithmetic",
        options={"level": "2"},
        fields=_SMALL,
        own=_STEPS,
        budget="steps=15",
    ),
    Claim(
        says="With critiques of one problem, accuracy is at least 0.05 above that after as many steps of imitation of right answers to this problem.",
        source="arXiv:2506.03295, comparison with SFT on the same problem; the task, the steps and the size of the effect are ours",
        against="one_shot_cft --schedule.stages.collect.makes RightAnswers(most=600)",
        measure="accuracy",
        better_by=0.05,
        task="arithmetic",
        options={"level": "2"},
        fields={**_SMALL, **_STEPS},
        budget="steps=15",
        problems=100,
    ),
)
