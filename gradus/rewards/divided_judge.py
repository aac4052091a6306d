"""A judge of pairs in two parts: people judge a few problems, and an AI judges the others after the verdicts of people.

Reference: Anand et al., Enhancing LLMs for Physics Problem-Solving using Reinforcement Learning with Human-AI Feedback, arXiv:2412.06827.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from gradus.rewards.scripted_judge import ScriptedJudge, chance
from gradus.rewards.verdicts import Arbiter, Case, Form, Kind, Verdict
from gradus.types import Failed
from gradus.types.parts import Task, World
from gradus.types.ranges import check_ranges


@dataclass(frozen=True)
class WithExamples:
    """A form of pairs whose prompt begins with judged examples."""

    form: Form
    examples: str
    kind: ClassVar[Kind] = "pair"

    def prompt(self, case: Case) -> str:
        return self.examples + self.form.prompt(case)

    def read(self, text: str, case: Case) -> Verdict | None:
        return self.form.read(text, case)


@dataclass(frozen=True)
class PeopleAndAI:
    """A judge of pairs: `people` judge the problems of a share `share` of each batch, and `ai` judges the others. The prompt of `ai` shows `examples`
    verdicts of people."""

    people: Arbiter = ScriptedJudge(reversed=0.02)
    ai: Arbiter = ScriptedJudge(reversed=0.1)
    share: float = 0.1  # share of the problems that people judge; at least one per batch, unless the share is 0
    examples: int = 2

    def __post_init__(self) -> None:
        check_ranges(self, share="[0, 1]", examples="[0, inf)")

    def check_form(self, form: Form, task: Task) -> None:
        for judge in (self.people, self.ai):
            if hasattr(judge, "check_form"):
                judge.check_form(form, task)

    def by_people(self, cases: Sequence[Case]) -> set[str]:
        """Returns the ids of the problems that people judge. A hash of the problem decides the order."""
        found = {case.problem.id: chance("people", case) for case in cases}
        count = max(round(self.share * len(found)), 1) if self.share else 0
        return set(sorted(found, key=lambda name: found[name])[:count])

    async def decide(self, form: Form, cases: Sequence[Case], world: World) -> list[Verdict | Failed | None]:
        chosen = self.by_people(cases)
        first = [case for case in cases if case.problem.id in chosen]
        known = await self.people.decide(form, first, world) if first else []
        shown = [(case, v) for case, v in zip(first, known, strict=True) if isinstance(v, tuple)][: self.examples]
        told = "".join(f"{form.prompt(case)}{'A' if v[0] > 0.5 else 'B' if v[0] < 0.5 else 'tie'}\n\n" for case, v in shown)
        rest = [case for case in cases if case.problem.id not in chosen]
        others = iter(await self.ai.decide(WithExamples(form, told), rest, world) if rest else [])
        by_people = iter(known)
        return [next(by_people if case.problem.id in chosen else others) for case in cases]
