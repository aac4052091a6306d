"""`gradus play`: a person answers the problems of a task, or plays its episodes, instead of the model."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count as counting
from typing import Any, ClassVar

import numpy as np

from gradus.cli.chat import typed
from gradus.cli.episodes import Say, ending, expected, judges, played, shown, verdict, writer
from gradus.cli.pictures import Album
from gradus.rollouts.auto import Auto
from gradus.rollouts.episodes import Episodes
from gradus.rollouts.turns import plain
from gradus.types import (
    Context,
    Ended,
    Failed,
    Key,
    Problem,
    Request,
    Sampling,
    Trajectory,
    UserError,
    prompt_context,
    told_context,
    unknown,
)
from gradus.types.parts import Rollout, Source, Task
from gradus.types.spaces import Action, Choice, Observation, Space, Text

END = 0x110000  # the token that ends an action; the tokens before it are the code points of its characters
ENDLESS = 10**9  # turns and tokens; only the task's own limits apply to a person

HELP = {
    "/hint": "the next hint of the problem",
    "/solution": "give up: show the solution, and go on with the next problem",
    "/skip": "go on with the next problem, without a verdict",
    "/help": "this list",
    "/quit": "leave (the end of the input does the same)",
}


class Left(Exception):
    """A person leaves a problem before its end. `command`: /quit, /skip or /solution."""

    def __init__(self, command: str) -> None:
        super().__init__(command)
        self.command = command


@dataclass(eq=False)
class Person:
    """A person as a policy for text. An action is a typed line, or several lines; each line except the last one then ends with a backslash."""

    lines: Iterator[str]
    say: Say
    hints: int = 0  # hints shown for the present problem
    updates: ClassVar[int] = 0
    context_length: ClassVar[int] = ENDLESS

    can: ClassVar[frozenset[str]] = frozenset({"text"})
    reads: ClassVar[frozenset[str]] = frozenset({"text", "image"})

    def acts(self, space: Space) -> bool:
        return isinstance(space, (Text, Choice))

    def opening(self, prompt: Observation) -> Context:
        return prompt_context(code_points(plain(prompt)))

    def follow(self, observation: Observation, after: Context) -> Context:
        return self.opening(observation)

    def told(self, action: Action) -> Context:
        return told_context([*code_points(str(action)), END])

    def said(self, context: Context, since: int) -> str:
        return self.text(context.sequence[since:])

    def text(self, tokens: np.ndarray) -> str:
        return "".join(chr(t) for t in tokens if t != END)

    def act(self, asked: Sequence[Any]) -> list[Context]:
        """The typed action of every request."""
        return [self._action(ask) for ask in asked]

    def _action(self, ask: Any) -> Context:
        while (typed := self._typed()).startswith("/"):
            self._command(typed.strip(), ask.request.problem)
        tokens = np.append(code_points(typed), np.int32(END))
        versions = np.zeros(len(tokens), np.int32)
        return Context(tokens, np.ones(len(tokens), bool), None, versions, parent=(ask.parent, ask.at), ended=Ended.STOP)

    def _typed(self) -> str:
        """The next line that is not empty, with its continuation."""
        for line in self.lines:
            text = line.rstrip("\r\n")
            while text.endswith("\\"):
                text = f"{text[:-1]}\n{next(self.lines, '').rstrip(chr(10))}"
            if text.strip():
                return text
        raise Left("/quit")

    def _command(self, name: str, problem: Problem) -> None:
        """Obeys a command. Raises Left if the line is a command that leaves the problem."""
        if name in ("/quit", "/skip", "/solution"):
            raise Left(name)
        if name == "/help":
            self.say("\n".join(f"  {form:<10} {what}" for form, what in HELP.items()))
        elif name == "/hint":
            told = [f"hint: {hint}" for hint in hints_of(problem)] or ["the problem has no hints"]
            self.say(told[self.hints] if self.hints < len(told) else "there are no further hints")
            self.hints += 1
        else:
            self.say(str(unknown("command", name, HELP, "An action that begins with a slash needs a space before it")))


def code_points(text: str) -> np.ndarray:
    return np.array([ord(c) for c in text], np.int32)


def hints_of(problem: Problem) -> list[str]:
    """The hints of a problem from abstract to concrete, one text per part; empty if it has none."""
    hints = problem.meta.get("hints") or ()
    kinds = list(hints.values()) if isinstance(hints, Mapping) else [hints]
    return [str(part).strip() for parts in kinds for part in ([parts] if isinstance(parts, str) else parts)]


def solution_of(problem: Problem) -> str | None:
    """A problem's solution as text: the actions of a demonstration, else the worked solution, else the answer; None if the problem has none of these."""
    if demonstration := problem.meta.get("demonstration"):
        return "\n".join(f"> {action}" for _, action in demonstration)
    solution = problem.meta.get("solution")
    return solution if isinstance(solution, str) else problem.reference


@dataclass
class Score:
    """The results of the problems so far."""

    rewards: list[float] = field(default_factory=list)
    right: int = 0
    failed: int = 0  # answers without a reward
    given_up: int = 0
    skipped: int = 0

    def add(self, done: Trajectory) -> None:
        self.right += done.right
        if done.failed is None:
            self.rewards.append(done.value)
        else:
            self.failed += 1

    def line(self) -> str:
        """The score as a line."""
        parts = [f"{self.right} of {len(self.rewards) + self.given_up} right"]
        if self.rewards:
            parts.append(f"mean reward {sum(self.rewards) / len(self.rewards):.3g}")
        names = {"given up": self.given_up, "not judged": self.failed, "skipped": self.skipped}
        return "; ".join(["score: " + ", ".join(parts), *(f"{number} {name}" for name, number in names.items() if number)])


def question(task: Task, problem: Problem, album: Album) -> str:
    """The prompt of a problem as text, with its pictures in files. The roles of messages are shown only if there are several messages."""
    if problem.text is not None:
        return problem.text
    system = [{"role": "system", "content": task.system}] if task.system else []
    messages = [*system, *problem.messages]
    return "\n".join(f"{m['role']}: {album.text(m)}" if len(messages) > 1 else album.text(m) for m in messages)


def play(
    task: Task, numbered: Iterable[tuple[int, Problem]], lines: Iterator[str], say: Say, *, seed: Key = Key(0), echo: bool = True
) -> Score:
    """Plays the problems until the problems or the typed lines end. Returns the score.

    `echo`: whether the actions are also shown. Raises UserError if the task has no verifier.
    """
    if not judges(task):
        raise UserError(f"task {task.name} has no verifier, so Gradus cannot judge your answers; name another task")
    score, person, album = Score(), Person(lines, say), Album()
    rollout: Rollout = Auto() if task.environment is None else Episodes(max_turns=ENDLESS)
    sampling = Sampling(max_tokens=ENDLESS)
    for number, problem in numbered:
        say(f"problem {number}: {question(task, problem, album)}")
        person.hints = 0
        try:
            done = played(shown(task, say, echo=echo, read=album), person, Request(problem), rollout, sampling=sampling, seed=seed)
        except (Left, KeyboardInterrupt) as left:
            command = left.command if isinstance(left, Left) else "/quit"
            if command == "/quit":
                break
            score.given_up += command == "/solution"
            score.skipped += command == "/skip"
            if command == "/solution":
                say(solution_of(problem) or "the problem has no solution to show")
        else:
            if task.environment is not None and not isinstance(done.reward, Failed):
                say(ending(done))
            elif task.environment is None and echo:
                say(f"> {done.completion}")
            say(f"verdict: {verdict(done.reward)}{expected(problem)}")
            score.add(done)
        say(score.line())
    return score


def problems_of(task: Task, *, held_out: bool, first: int, most: int | None, seed: int) -> Iterator[tuple[int, Problem]]:
    """The problems from number `first` on, with their numbers: training problems, or the held-out problems of an evaluation.

    Raises UserError if there is no problem of the number `first`.
    """
    source: Source = task.held_out if held_out else task.source
    size, key = source.size, Key(0).fold("held out") if held_out else Key(seed).fold("problems")
    if first < 0 or (size is not None and first >= size):
        kind, last = "held-out" if held_out else "training", "0 or more" if size is None else f"0 to {size - 1}"
        raise UserError(f"problem {first} does not exist; choose one of the {kind} problems of {task.name}: {last}")
    ends = [end for end in (size, None if most is None else first + most) if end is not None]
    numbers = range(first, min(ends)) if ends else counting(first)
    return ((number, source.draw([number], task.level, key)[0]) for number in numbers)


def run(
    task: str,
    *,
    task_options: Mapping[str, str] | None = None,
    problem: int = 0,
    problems: int | None = None,
    level: float | None = None,
    held_out: bool = False,
    seed: int = 0,
) -> None:
    """Plays a task at a terminal or over a pipe, and prints the score after every problem."""
    from gradus.training.plan import check_seed, load_task

    check_seed(seed)
    if problems is not None and problems < 1:
        raise UserError(f"--problems is {problems}; give the number of problems to play, 1 or more")
    if level is not None and "level" in (task_options or {}):
        raise UserError("--level and --task.level set the same option; give only one of them")
    made = load_task(task, {**(task_options or {}), **({} if level is None else {"level": str(level)})})
    if not made.of_text:
        raise UserError(f"task {made.name} is for a generator, not for text; name a text task (gradus tasks lists the tasks)")
    numbered = problems_of(made, held_out=held_out, first=problem, most=problems, seed=seed)
    at_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    if at_terminal:
        print(f"{made.name}; one line is one action; /help lists the commands, /quit leaves")
    play(made, numbered, typed(sys.stdin, at_terminal=at_terminal), writer(sys.stdout), seed=Key(seed), echo=not at_terminal)
