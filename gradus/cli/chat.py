"""`gradus chat`: a conversation with a model, or with the best model of a run, through the library's own engine."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from gradus.cli.episodes import ending, expected, judges, played, rollout_of, shown, verdict, writer
from gradus.cli.pictures import Album, given
from gradus.lab.live import printable
from gradus.rollouts.auto import Auto
from gradus.types import Context, Ended, Key, Message, Problem, Request, Sampling, UserError, unknown
from gradus.types.media import Media
from gradus.types.parts import Rollout, Task

FIRST_PIECE = 8  # tokens
CUT = " (cut)\n"

HELP = {
    "/reset": "forget the conversation",
    "/system TEXT": "set the system message (none without TEXT) and forget the conversation",
    "/image PATH": "show a picture with the next message, to a model that reads pictures",
    "/temperature X": "0 is greedy",
    "/problem N": "ask held-out problem N (from 0) of the task named with --task, or let the model play its episode",
    "/help": "this list",
    "/quit": "leave (the end of the input does the same)",
}


@dataclass(frozen=True)
class Talk:
    """A conversation: its messages and how answers are sampled. Equal seeds and equal messages give equal answers."""

    sampling: Sampling
    key: Key = Key(0)
    system: str | None = None
    messages: tuple[Message, ...] = ()
    task: Task | None = None
    seed: Key = Key(0)  # the key made from the seed; an episode has the same random draws as in an evaluation
    rollout: Rollout = Auto()  # how an episode is played
    pictures: tuple[Media, ...] = ()  # the pictures for the next message
    album: Album = field(default_factory=Album)  # the files of the problems' pictures

    def said(self, role: str, text: str) -> Talk:
        """The conversation with one more message. The waiting pictures come before the text of this message."""
        waiting = tuple({"type": "image", "media": media} for media in self.pictures)
        content = (*waiting, {"type": "text", "text": text}) if waiting else text
        return replace(self, messages=(*self.messages, {"role": role, "content": content}), pictures=())

    @property
    def prompt(self) -> tuple[Message, ...]:
        """All messages, the system message first."""
        return (*([{"role": "system", "content": self.system}] if self.system else []), *self.messages)


@dataclass(frozen=True, eq=False)
class Asked:
    """A request for one sample from the model."""

    parent: Context
    at: int
    sampling: Sampling
    key: Key
    version: int = 0


def load(
    model_or_run: str | None, *, task: str | None = None, which: str = "best", device: str = "cpu", precision: str = "float32"
) -> Any:
    """Loads the model of a folder, or the `which` model (best or final) of a run. If the run does not have this model, loads the other one of the two models,
    or else the newest model of the run. If `model_or_run` is None, loads the built-in model for the task.
    Raises UserError if the folder contains no language model, or if the device or the precision is unknown.
    """
    from gradus.players.build import DTYPES, check_device
    from gradus.policies.lm import LanguageModel
    from gradus.policies.tiny import folder_for
    from gradus.runtime import hub
    from gradus.runtime.threads import use_threads
    from gradus.training.plan import model_of

    check_device(device)
    if precision not in DTYPES:
        raise unknown("precision", precision, DTYPES)
    if model_or_run not in (None, "tiny") and not Path(str(model_or_run)).exists():
        raise hub.no_folder(str(model_or_run))
    found = model_of(model_or_run, which) or str(folder_for(task))
    check_writes(found)
    model = LanguageModel.load(found, dtype=DTYPES[precision], device=device)
    use_threads(sum(p.numel() for p in model.network.parameters()))
    return model


def check_writes(folder: str) -> None:
    """Raises UserError for the folder of a flow generator."""
    from gradus.policies.config import read_json
    from gradus.policies.flow import KIND

    config = Path(folder) / "config.json"
    if config.is_file() and read_json(config).get("model_type") == KIND:
        raise UserError(f"{folder} is a flow generator, which writes no text; name a language model, or a run that trains a language model")


def answer(model: Any, prompt: str | tuple[Message, ...], sampling: Sampling, key: Key, *, streamed: bool = False) -> Iterator[str]:
    """Yields the answer as it grows; each item is the whole text so far. Yields only one item if `streamed` is False, or if `sampling` has stop strings.

    The answer is sampled in chunks of 8, 16, 32, ... tokens. For every chunk, the model reads all earlier tokens again. The size of the chunks doubles, so
    this repeated reading costs about as much as reading the answer twice. A token's random draw depends only on its position, not on the chunks.
    """
    parent = model.opening(prompt)
    tokens = np.zeros(0, np.int32)
    for piece, last in pieces(model, Asked(parent, len(parent.tokens), sampling, key), streamed=streamed):
        tokens = np.concatenate([tokens, piece.tokens])
        text = str(model.text(tokens))
        yield text if last else text.rstrip("\ufffd")  # a character that is split between two pieces is shown with the second piece


def pieces(model: Any, ask: Any, *, streamed: bool) -> Iterator[tuple[Any, bool]]:
    """Yields one sample in chunks. Each item has two values: a context, and whether this chunk is the last."""
    read, at, sampling = ask.parent, ask.at, ask.sampling
    left, size = sampling.limit, FIRST_PIECE if streamed and not sampling.stops else sampling.limit
    while True:
        size = min(size, left)
        (found,) = model.act([Asked(read, at, replace(sampling, max_tokens=size), ask.key, ask.version)])
        left -= len(found.tokens)
        last = found.ended is not Ended.LENGTH or left <= 0
        yield found, last
        if last:
            return
        read, at, size = found, len(found.sequence), 2 * size


class Streamed:
    """A model that writes `mark` and then each sample to `out` while the sample grows. The model samples one context at a time. The stream of text
    does not change the tokens.
    """

    def __init__(self, model: Any, out: TextIO, mark: str) -> None:
        self.model, self.out, self.mark = model, out, mark

    def __getattr__(self, name: str) -> Any:
        return getattr(self.model, name)

    def act(self, asked: Sequence[Any]) -> list[Context]:
        """One sampled context."""
        (ask,) = asked
        parts: list[Any] = []
        self.out.write(self.mark)
        show(self._growing(ask, parts), self.out)
        tokens, logprobs, versions = (np.concatenate([getattr(p, name) for p in parts]) for name in ("tokens", "logprobs", "versions"))
        chosen = np.ones(len(tokens), bool)
        return [replace(parts[-1], tokens=tokens, chosen=chosen, logprobs=logprobs, versions=versions, parent=(ask.parent, ask.at))]

    def _growing(self, ask: Any, parts: list[Any]) -> Iterator[str]:
        for part, last in pieces(self.model, ask, streamed=True):
            parts.append(part)
            text = str(self.model.text(np.concatenate([p.tokens for p in parts])))
            yield text if last else text.rstrip("\ufffd")


def problem_of(task: Task, number: int) -> Problem:
    """The held-out problem with this number, from 0. Raises UserError if this problem does not exist."""
    size = task.held_out.size
    if number < 0 or (size is not None and number >= size):
        raise UserError(f"problem {number} does not exist; choose a held-out problem of {task.name}: {'0 or more' if size is None else f'0 to {size - 1}'}")
    (problem,) = task.held_out.draw([number], task.level, Key(0).fold("held out"))
    return problem


def chat(model: Any, talk: Talk, lines: Iterable[str], out: TextIO, *, streamed: bool = False) -> Talk:
    """Answers every line until the input ends or a line is /quit. A line that begins with a slash is a command. Returns the last conversation."""
    for line in lines:
        words = line.strip()
        if words == "/quit":
            break
        try:
            if words.startswith("/"):
                talk = command(model, talk, words, out, streamed=streamed)
            elif words:
                talk = reply(model, talk.said("user", words), out, streamed=streamed)
        except UserError as error:
            print(printable(str(error)), file=out)
    return talk


def command(model: Any, talk: Talk, words: str, out: TextIO, *, streamed: bool = False) -> Talk:
    """The conversation after a command. Raises UserError if the command is unknown, or if its value does not fit."""
    name, _, value = words.partition(" ")
    value = value.strip()
    if name == "/help":
        print("\n".join(f"  {form:<16} {what}" for form, what in HELP.items()), file=out)
        return talk
    if name == "/reset":
        return replace(talk, messages=(), pictures=())
    if name == "/system":
        return replace(talk, messages=(), pictures=(), system=value or None)
    if name == "/image":
        return replace(talk, pictures=(*talk.pictures, given(value, model.reads)))
    if name == "/temperature":
        return replace(talk, sampling=replace(talk.sampling, temperature=number(value, float, name)))
    if name == "/problem":
        return ask_problem(model, talk, number(value, int, name), out, streamed=streamed)
    raise unknown("command", name, [form.split()[0] for form in HELP])


def number(text: str, kind: Callable[[str], Any], name: str) -> Any:
    """The typed text as a number. Raises UserError if the text is not a number."""
    try:
        return kind(text)
    except ValueError:
        raise UserError(f'{name} needs a number, but "{text}" was given') from None


def reply(model: Any, talk: Talk, out: TextIO, *, streamed: bool = False) -> Talk:
    """Asks the model for the next message and shows it; Ctrl-C ends the message early."""
    texts = [""]

    def growing() -> Iterator[str]:
        for text in answer(model, talk.prompt, talk.sampling, talk.key.fold(len(talk.messages)), streamed=streamed):
            texts.append(text)
            yield text

    try:
        show(growing(), out)
    except KeyboardInterrupt:
        out.write(CUT)
    return talk.said("assistant", texts[-1])


def show(growing: Iterable[str], out: TextIO) -> None:
    """Writes a text as it grows, then a line break."""
    text = ""
    for longer in growing:
        out.write(printable(longer[len(text) :]))
        out.flush()
        text = longer
    out.write("\n")


def ask_problem(model: Any, talk: Talk, number: int, out: TextIO, *, streamed: bool = False) -> Talk:
    """Asks the model a held-out problem, or lets it play the problem's episode, and shows the verdict. The answer starts a new conversation.

    Prompt, random draws and verdict are the same as in an evaluation. Raises UserError without a task.
    """
    task, say = talk.task, writer(out)
    if task is None:
        raise UserError("there are no problems, because no task was named; start with: gradus chat MODEL --task TASK")
    problem, episode = problem_of(task, number), task.environment is not None
    seen = talk.album([{"content": [{"type": m.kind, "media": m} for m in problem.media]}])
    say(f"problem {number}: {seen}{problem.question}")
    policy = Streamed(model, out, "> " if episode else "") if streamed else model
    request = Request(problem, tags=("held out",))
    rollout = talk.rollout if episode else Auto()
    fresh = replace(talk, system=task.system, messages=(), pictures=())
    try:
        done = played(shown(task, say, echo=not streamed, read=talk.album), policy, request, rollout, sampling=talk.sampling, seed=talk.seed)
    except KeyboardInterrupt:
        out.write(CUT)
        return fresh
    if episode:
        say(ending(done))
    elif not streamed:
        show([done.completion], out)
    if judges(task):
        say(f"verdict: {verdict(done.reward)}{expected(problem)}")
    # a conversation consists of messages, so it cannot continue from an episode or from raw text
    return fresh if episode or problem.text else replace(fresh, messages=problem.messages).said("assistant", done.completion)


def typed(source: TextIO, *, at_terminal: bool) -> Iterator[str]:
    """The lines typed at a terminal, or the lines of a file or a pipe."""
    if not at_terminal:
        yield from source
        return
    import readline  # noqa: F401 - input() edits lines once this is loaded

    while True:
        try:
            yield input("> ")
        except EOFError:
            print()
            return


def run(
    model_or_run: str | None,
    *,
    task: str | None = None,
    task_options: Mapping[str, str] | None = None,
    problem: int | None = None,
    system: str | None = None,
    temperature: float | None = None,
    max_tokens: int | None = None,
    seed: int = 0,
    device: str = "cpu",
    precision: str = "float32",
    trust: bool = False,
) -> None:
    """Chats at a terminal or over a pipe: one line in, one answer out. Without a task, an answer has at most 512 tokens, and the temperature is 0.7."""
    from gradus.training.plan import check_seed, load_task

    check_seed(seed)
    if task is None and task_options:
        raise UserError(f"--task.{next(iter(task_options))} is an option of a task; name the task with --task")
    made = load_task(task, task_options) if task is not None else None
    if problem is not None and made is None:
        raise UserError("--problem is the number of a problem in a task; name the task with --task")
    if made is not None and not made.of_text:
        raise UserError(f"task {made.name} is for a generator, not for a language model; name a text task (gradus tasks lists the tasks)")
    if made is not None and problem is not None:
        problem_of(made, problem)  # before the model is loaded
    sampling = replace(made.sampling, max_tokens=made.sampling.limit) if made is not None else Sampling(temperature=0.7, max_tokens=512)
    asked: dict[str, Any] = {"temperature": temperature, "max_tokens": max_tokens}
    sampling = replace(sampling, **{name: value for name, value in asked.items() if value is not None})
    model = load(model_or_run, task=task, device=device, precision=precision)
    at_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    rollout = rollout_of(model_or_run, trust=trust) if made is not None and made.environment is not None else Auto()
    told = system or (made.system if made is not None else None)
    talk = Talk(sampling, Key(seed).fold("chat"), told, task=made, seed=Key(seed), rollout=rollout)
    if at_terminal:
        name = "the built-in tiny model" if model_or_run in (None, "tiny") else Path(str(model_or_run)).name
        print("\n".join([*([model.note] if model.note else []), f"{name}; /help lists the commands, /quit leaves"]))
    if problem is not None:
        talk = ask_problem(model, talk, problem, sys.stdout, streamed=at_terminal)
    chat(model, talk, typed(sys.stdin, at_terminal=at_terminal), sys.stdout, streamed=at_terminal)
