"""The reward `Downstream`: the reward of a written text is the success of a frozen player that reads the text.

Such a text is an instruction, a problem or a hint.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

from gradus.rewards.combine import Combines
from gradus.types import Frozen, Group, Message, Problem, Request, Sampling, Trajectory, UserError
from gradus.types.answers import answered, macro_f1, same_answer
from gradus.types.parts import Judgement, Signals, World
from gradus.types.prompts import filled
from gradus.types.ranges import check_ranges
from gradus.types.signals import Signal

QUESTIONS = "questions"
"""The column of a problem with its test questions: pairs of a question and its answer."""


@dataclass(frozen=True)
class Reply:
    """One answer of the reading player: its text, its length in tokens, and the expected answer (None if no answer is expected)."""

    text: str
    tokens: int
    expected: Any = None


class Measure(Protocol):
    def value(self, replies: Sequence[Reply]) -> float:
        """Returns the value of the replies to one written text."""
        ...


@dataclass(frozen=True)
class RightShare:
    """The share of replies with the expected answer."""

    def value(self, replies: Sequence[Reply]) -> float:
        return sum(same_answer(r.text, r.expected) for r in replies) / len(replies)


@dataclass(frozen=True)
class MacroF1:
    """The mean of the F1 scores of all classes that occur among the expected answers. A reply that names no class is wrong."""

    def value(self, replies: Sequence[Reply]) -> float:
        return macro_f1([answered(str(r.expected)) for r in replies], [answered(r.text) for r in replies])


@dataclass(frozen=True)
class AgreedAnswers:
    """1 if the most frequent answer occurs at least `least` times among the replies, else 0. Replies without an answer do not count."""

    least: int = 2

    def __post_init__(self) -> None:
        check_ranges(self, least="[1, inf)")

    def value(self, replies: Sequence[Reply]) -> float:
        said = [found for r in replies if (found := answered(r.text)) is not None]
        return float(max(map(said.count, said), default=0) >= self.least)


@dataclass(frozen=True)
class ReplyLength:
    """The mean number of tokens of the replies, divided by `most`."""

    most: int = 32768

    def __post_init__(self) -> None:
        check_ranges(self, most="[1, inf)")

    def value(self, replies: Sequence[Reply]) -> float:
        return sum(r.tokens for r in replies) / len(replies) / self.most


@dataclass(frozen=True)
class Downstream(Combines):
    """A reward: the sum of measures of the replies of `player`. This player reads only the written text and a test question.

    The test questions are in the problem's column `questions`. Without this column, the text itself is the question, and no answer is expected. If the text is
    empty or too long for the player, every measure is 0. The logged values are the text (`written`) and the replies. If `player` has no objective, it is
    never trained.
    """

    measures: Frozen[Measure] = Frozen(right=RightShare())
    player: str = field(kw_only=True)  # the player that reads the text
    template: str | None = None  # text with {text} and {question}; None: both, or the text alone if the problem has no test questions
    samples: int = 1  # replies per question
    temperature: float = 0.0
    max_tokens: int = 32  # new tokens of a reply
    name: ClassVar[str] = "downstream"
    needs: ClassVar[tuple[Signal, ...]] = ()
    names_players: ClassVar[tuple[str, ...]] = ("player",)
    unmarked: ClassVar[bool] = True  # a score marks no text as right

    def __post_init__(self) -> None:
        check_ranges(self, samples="[1, inf)", temperature="[0, inf)", max_tokens="[1, inf)")
        if not self.measures:
            raise UserError("Downstream.measures is empty; give a measure by name, such as Frozen(right=RightShare())")
        if self.template is not None and "{text}" not in self.template:
            raise UserError("Downstream.template lacks {text}; add it, because the player reads only the template")

    async def score(self, groups: Sequence[Group], signals: Signals, world: World) -> list[list[Judgement]]:
        """Sends all questions of all texts to the player in one batch."""
        asked = [self.asked(t, world) for g in groups for t in g.trajectories]
        samples = iter(await world.sample([request for requests, _ in asked for request in requests]))
        rows = iter([self.judgement(w, [(next(samples), expected) for _, expected in self.questions(w, t.problem)] if due else [], world)
                     for (due, w), t in zip(asked, (t for g in groups for t in g.trajectories), strict=True)])  # fmt: skip
        return [[next(rows) for _ in g.trajectories] for g in groups]

    def asked(self, t: Trajectory, world: World) -> tuple[list[Request], str]:
        """Returns the requests to the player, and the written text. If the text is empty or too long for the player, the result has no requests."""
        text = t.completion.strip()
        prompts = [self.prompt(t.problem, text, question) for question, _ in self.questions(text, t.problem)]
        if not text or any(len(world.opening(p, self.player).sequence) >= world.context_length(self.player) for p in prompts):
            return [], text
        sampling = Sampling(max_tokens=self.max_tokens, temperature=self.temperature)
        made = [
            Request(t.problem, self.samples, self.player, prompt, sampling=sampling, tags=("downstream", t.id, i), trained=False)
            for i, prompt in enumerate(prompts)
        ]
        return made, text

    def questions(self, text: str, problem: Problem) -> list[tuple[str, Any]]:
        """Returns the test questions with their expected answers."""
        return [(str(q), a) for q, a in problem.meta[QUESTIONS]] if QUESTIONS in problem.meta else [(text, None)]

    def prompt(self, problem: Problem, text: str, question: str) -> str | tuple[Message, ...]:
        """Returns the player's prompt, which is raw text if the problem's prompt is raw text, else one message."""
        usual = "{text}\n{question}" if QUESTIONS in problem.meta else "{text}"
        said = filled(self.template or usual, text=text, question=question)
        return said if problem.text is not None else ({"role": "user", "content": said},)

    def judgement(self, text: str, found: Sequence[tuple[Any, Any]], world: World) -> Judgement:
        """Returns the judgement of a text.

        `found` has the player's contexts and the expected answer for each question. If the player got no requests, `found` is empty.
        """
        replies = [
            Reply(world.text(c.tokens[c.chosen], self.player), c.actions, expected) for contexts, expected in found for c in contexts
        ]
        values = {name: float(m.value(replies)) if replies else 0.0 for name, m in self.measures.items()}
        return Judgement(sum(values.values()), Frozen(values), extra=Frozen(written=text, replies=[r.text for r in replies]))
