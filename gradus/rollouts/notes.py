"""Thinking in several rounds: each round reads only the question and the note from the round before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from gradus.rollouts.ids import group_name
from gradus.rollouts.single_turn import one_turn
from gradus.rollouts.spans import check_text
from gradus.types import Context, Group, Request, Trajectory
from gradus.types.parts import Task, World
from gradus.types.prompts import after, prompt_of
from gradus.types.ranges import check_ranges


@dataclass(frozen=True)
class Notes:
    """The texts of the rounds. A note is the text between the last opening tag `tag` and the next closing tag.

    Without an opening tag, the note starts at the start of the text; without a closing tag, it ends at the end of the text. So even if the text is cut off
    within its answer, the note contains no reasoning.
    """

    tag: str = "answer"
    first: str = "Think in <reasoning>..</reasoning>, then report your progress in <answer>..</answer>. You may continue in a later round."
    later: str = "Progress in the round before: {}\nThink in <reasoning>..</reasoning>, then report your progress in <answer>..</answer>."
    last: str = "Progress in the round before: {}\nThis is the last round. Give the final answer in \\boxed{} within <answer>..</answer>."

    def of(self, text: str) -> str:
        """Returns the note of a response.

        >>> Notes().of("<reasoning>2+2</reasoning><answer> 4 so far </answer>")
        '4 so far'
        """
        return text.rpartition(f"<{self.tag}>")[2].partition(f"</{self.tag}>")[0].strip()

    def prompted(self, request: Request, note: str | None, *, last: bool, world: World) -> Request:
        """Returns the request with the prompt of a round. `note`: the note of the round before; None: the first round."""
        form = self.first if note is None else self.last if last else self.later
        text = form if note is None else form.replace("{}", note, 1)
        return replace(request, prompt=after(prompt_of(request, world.task.system), text)) if text else request


@dataclass(frozen=True)
class Rounds:
    """Samples the first of `count` rounds of each answer. At test time, all rounds are played, and the response of the last round is the answer.

    Each round of an answer is a context of its trajectory. A prompt contains only the question, one note and the texts of `notes`.
    """

    count: int = 3
    notes: Notes = Notes()
    all: bool = False  # whether all rounds are played
    plays: ClassVar[str] = "answers"

    def __post_init__(self) -> None:
        check_ranges(self, count="[1, inf)")

    @property
    def test(self) -> Rounds:
        return replace(self, all=True)

    def check_task(self, task: Task) -> None:
        check_text(self, task)

    async def run(self, requests: Sequence[Request], world: World) -> list[Group]:
        """Returns one judged group per request."""
        asked = [self.notes.prompted(r, None, last=self.count == 1, world=world) for r in requests]
        drawn = await world.sample(asked)
        groups = [
            Group(group_name(r), tuple(one_turn(r, i, context, world) for i, context in enumerate(contexts))) for r, contexts in zip(asked, drawn, strict=True)
        ]
        if self.all and self.count > 1:
            firsts = [(r, t) for r, g in zip(requests, groups, strict=True) for t in g.trajectories]
            ends = iter(await later_rounds(firsts, self.count, 1, self.notes, world))
            groups = [g.but(trajectories=tuple(next(ends)[0] for _ in g.trajectories)) for g in groups]
        return await world.judge(groups)


async def later_rounds(
    firsts: Sequence[tuple[Request, Trajectory]], rounds: int, count: int, notes: Notes, world: World, player: str | None = None
) -> list[list[Trajectory]]:
    """Continues each response of a first round `count` times, with the rounds 2 to `rounds`. Returns trajectories with the contexts of all rounds.

    The completion of a trajectory is the response of the last round. `player` plays the later rounds (None: the player of the request).
    """
    live = [[t] * count for _, t in firsts]
    for number in range(2, rounds + 1):
        asked = [
            notes.prompted(
                replace(r, count=1, sample=0, player=player or r.player, tags=(*r.tags, "round", number, t.id.rpartition("/")[2], k), trained=False),
                notes.of(t.completion), last=number == rounds, world=world,
            )
            for (r, _), row in zip(firsts, live, strict=True)
            for k, t in enumerate(row)
        ]
        drawn = iter(await world.sample(asked))
        live = [[_continued(t, next(drawn)[0], world) for t in row] for row in live]
    return live


def _continued(before: Trajectory, context: Context, world: World) -> Trajectory:
    text = world.text(context.tokens[context.chosen], before.player)
    return before.but(contexts=(*before.contexts, context), completion=text, ended=context.ended)
