"""Votes with verdicts as weights: a player decides whether its own answers are right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from gradus.types import Frozen, Problem, Request, Trajectory
from gradus.types.answers import answered, final_answer
from gradus.types.parts import World
from gradus.types.prompts import filled
from gradus.types.ranges import check_ranges

CHECKS = "checks"  # the column that marks a verification problem
TEMPLATE = "check {problem} {answer}"
Item = dict[str, Any]  # a judged answer: id and task of its problem, the question, whether the question is raw text, answer, solution, right, step


def item_of(t: Trajectory, step: int) -> Item:
    """Returns the item for a judged answer."""
    p, said = t.problem, final_answer(t.completion).rpartition("=")[2].strip()
    about = {"id": p.id, "task": p.task, "question": p.question, "raw": p.text is not None}
    return {**about, "answer": said, "solution": t.completion, "right": t.right, "step": step}


def verification(item: Mapping[str, Any], template: str, number: int) -> Problem:
    """Returns the problem that asks whether the answer of an item is right. The answer to this problem is "yes" or "no"."""
    text = filled(template, problem=item["question"], answer=item["answer"], solution=item["solution"])
    shown: dict[str, Any] = {"text": text} if item["raw"] else {"messages": ({"role": "user", "content": text},)}
    return Problem(f"{item['id']}-check-{number}", item["task"], answer="yes" if item["right"] else "no", meta=Frozen({CHECKS: True}), **shown)


def says_yes(completion: str) -> bool | None:
    """Returns the verdict of a completion: True for "yes", False for "no", None for any other final answer.

    >>> [says_yes(text) for text in ("12+30=42=yes", "=no", "=42")]
    [True, False, None]
    """
    return {"yes": True, "no": False}.get(str(answered(completion)))


@dataclass(frozen=True)
class SelfVerdicts:
    """The weight of a sample: the share of "yes" among `samples` verdicts of `player` on its answer.

    With one verdict per sample, a vote counts only the samples that are judged right. The template shows {problem}, and {answer} or {solution}.
    """

    samples: int = 4
    player: str = "policy"
    template: str = TEMPLATE
    names_players: ClassVar[tuple[str, ...]] = ("player",)

    def __post_init__(self) -> None:
        check_ranges(self, samples="[1, inf)")

    async def weights(self, trajectories: Sequence[Trajectory], world: World) -> list[float]:
        problems = [verification(item_of(t, 0), self.template, 0) for t in trajectories]
        asked = [Request(p, self.samples, self.player, tags=("verdicts", t.id), trained=False) for p, t in zip(problems, trajectories, strict=True)]
        found = await world.sample(asked)
        return [sum(says_yes(world.text(c.tokens[c.chosen], self.player)) is True for c in row) / self.samples for row in found]
