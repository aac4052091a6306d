"""Worked examples before a question. A controller chooses the examples, and a language model answers the question that follows them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from gradus.types import Context, Key, Problem, Request, UserError
from gradus.types.parts import Task, Together, Turn, World
from gradus.types.ranges import check_ranges
from gradus.types.readers import Hidden
from gradus.types.spaces import Choice

MARK = "."  # this text is appended as a given action; the hidden state before this action encodes the text


@dataclass(frozen=True)
class DrawnExamples:
    """The player draws `shots` of `candidates` worked examples, one after another, without replacement; then `worker` answers greedily.

    The observation has two arrays of encodings: `query` [width] of the question, and `candidates` [candidates, width] of the examples' questions. The array
    `barred` [candidates] is 1 for an example that has been drawn or is the question itself. The encoding of a text is the last hidden state of `encoder` at the
    text's end, scaled to length 1. The examples are training problems with a solution. A separate key determines the examples, so they are the same in every
    run and at evaluation. Each text is encoded once per step. The examples are encoded together; a question is encoded when its first episode begins. The last
    draw earns 1 if the answer is right, else -1.
    """

    candidates: int = 20
    shots: int = 2
    worker: str = "worker"
    encoder: str = "encoder"
    width: int = 160  # number of entries of a hidden state of the encoder
    names_players: ClassVar[tuple[str, ...]] = ("worker", "encoder")
    shows: ClassVar[frozenset[str]] = frozenset({"array"})

    def __post_init__(self) -> None:
        check_ranges(self, candidates="[2, inf)", shots="[1, inf)", width="[1, inf)")
        if self.shots >= self.candidates:
            raise UserError(f"DrawnExamples.shots is {self.shots}, but DrawnExamples.candidates is only {self.candidates}; set `candidates` to more than `shots`")

    @property
    def acts(self) -> Choice:
        return Choice(tuple(str(i + 1) for i in range(self.candidates)))

    @property
    def least_turns(self) -> int:
        """The least number of turns of an episode: one per draw."""
        return self.shots

    def check_task(self, task: Task) -> None:
        """Raises UserError if the task has no verifier for single answers, no solutions, or too few problems."""
        if task.verify is None or isinstance(task.verify, Together):
            raise UserError(
                f"the environment is DrawnExamples, which judges single answers, but task {task.name} has no verifier for single "
                "answers; take another task"
            )
        if "solution" not in task.provides:
            raise UserError(
                f"the environment is DrawnExamples, whose examples need a worked solution, but task {task.name} has no column `solution`; add this "
                "column, or take a task such as tables"
            )
        if task.source.size is not None and task.source.size < self.candidates:
            raise UserError(
                f"the environment is DrawnExamples with {self.candidates} candidates, but task {task.name} has {task.source.size} training problems; "
                f"set --environment.candidates {task.source.size} or fewer"
            )

    def check_players(self, players: Mapping[str, Any]) -> None:
        """Raises UserError if `worker` or `encoder` is no language model, or if the encoder's hidden states do not have `width` numbers."""
        for field in ("worker", "encoder"):
            name = getattr(self, field)
            policy, needed = players[name].policy, frozenset({"hidden"} if field == "encoder" else {"logprobs", "text"})
            if "text" not in policy.reads or not needed <= policy.can:
                raise UserError(
                    f"environment.{field} of DrawnExamples is player {name}, which is not a language model with all of these abilities: "
                    f"{', '.join(sorted(needed))}; set --environment.{field} to another player, or --players.{name}.model to a language model"
                )
        policy = players[self.encoder].policy
        (found,) = policy.evaluate([_ended("a", policy)], [Hidden()]).values()
        if found.shape[-1] != self.width:
            raise UserError(
                f"a hidden state of player {self.encoder} has {found.shape[-1]} numbers, but environment.width is {self.width}; set "
                f"--environment.width {found.shape[-1]}"
            )

    async def start(self, problem: Problem, key: Key, world: World | None) -> Drawing:
        """Starts an episode about the problem. Without the argument `world`, the arrays of the episode are zeros of the correct shapes."""
        if world is None:
            return Drawing(self, problem, (), np.zeros((self.candidates + 1, self.width), np.float32), None)
        examples = tuple(world.task.source.draw(range(self.candidates), world.task.level, Key().fold("examples")))
        asked = question_of(problem)
        candidates = await world.once((self, "examples"), lambda: self._encoded([question_of(p) for p in examples], world))
        query = await world.once((self, "question", asked), lambda: self._encoded([asked], world))
        return Drawing(self, problem, examples, np.concatenate([query, candidates]), world)

    async def _encoded(self, texts: Sequence[str], world: World) -> np.ndarray:
        """Returns the encodings of the texts, [texts, width]. Every row has length 1."""
        contexts = [_ended(text, world, self.encoder) for text in texts]
        rows = np.stack([found[0] for found in await world.score(contexts, Hidden(), self.encoder)]).astype(np.float32)
        return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)


def _ended(text: str, by: Any, *player: str) -> Context:
    """Returns the context of a text, with a given action at its end. `by`: a policy, or a `World`; for a `World`, also give the name of its `player`."""
    return by.opening(({"role": "user", "content": text},), *player).then(by.told(MARK, *player))


class Drawing:
    """One episode: `shots` draws. A draw of a barred example is illegal and changes nothing."""

    def __init__(self, settings: DrawnExamples, problem: Problem, examples: Sequence[Problem], encoded: np.ndarray, world: World | None) -> None:
        self.settings, self.problem, self.examples, self.encoded, self.world = settings, problem, examples, encoded, world
        same = [question_of(example) == question_of(problem) for example in examples]
        self.barred = np.array(same or [False] * settings.candidates)
        self.drawn = list[int]()
        self.first = Turn(self._shown())

    def _shown(self) -> dict[str, np.ndarray]:
        return {"query": self.encoded[0], "candidates": self.encoded[1:], "barred": self.barred.astype(np.float32)}

    async def step(self, action: int | str) -> Turn:
        index = self.settings.acts.index(action)
        if index is None or self.barred[index]:
            return Turn(self._shown(), valid=False)
        self.drawn.append(index)
        self.barred[index] = True
        if len(self.drawn) < self.settings.shots:
            return Turn(self._shown())
        return Turn(self._shown(), 1.0 if await self._right() else -1.0, terminated=True)

    async def _right(self) -> bool:
        """Returns whether the worker's answer after the drawn examples is right. Raises ValueError if the answer cannot be judged."""
        world, settings = self.world, self.settings
        assert world is not None
        assert world.task.verify is not None
        shots = [self.examples[i] for i in self.drawn]
        content = prompt(shots, self.problem)
        tags: tuple[str | int, ...] = ("examples", *self.drawn)
        sampling = replace(world.sampling, temperature=0.0)
        ask = Request(
            self.problem, 1, settings.worker, ({"role": "user", "content": content},), sampling=sampling, tags=tags, trained=False
        )
        ((context,),) = await world.sample([ask])
        answer = world.text(context.tokens[context.chosen], settings.worker)
        outcome = world.task.verify(self.problem, answer)
        if not isinstance(outcome, (int, float)):
            raise ValueError(f"the verifier gave no verdict on the answer of {settings.worker}: {outcome}")
        if (kind := self.problem.meta.get("category")) is not None:
            world.note("same_kind", float(any(shot.meta.get("category") == kind for shot in shots)))
        return outcome >= 1.0


def question_of(problem: Problem) -> str:
    """Returns the text of the problem's prompt. Raises UserError for a prompt of several messages or with media."""
    content = problem.messages[0]["content"] if len(problem.messages) == 1 else None if problem.messages else problem.text
    if not isinstance(content, str):
        raise UserError(
            f"problem {problem.id} has several messages or media, but DrawnExamples needs one text per problem; take problems with one user "
            "message of text"
        )
    return content


def prompt(shots: Sequence[Problem], problem: Problem) -> str:
    """Returns the examples with their solutions, and then the question. The example that was drawn first is nearest to the question.

    >>> from gradus.types import Frozen
    >>> a, b, c = (Problem(n, "t", text=f"{n}?", meta=Frozen(solution=f"={n}")) for n in "abc")
    >>> prompt([a, b], c)
    'b?\\n=b\\n\\na?\\n=a\\n\\nc?'
    """
    worked = [f"{question_of(shot)}\n{shot.meta['solution']}\n\n" for shot in reversed(shots)]
    return "".join(worked) + question_of(problem)
