"""Players whose weights change while they write an answer (`Streaming.interrupt`).

If newer weights are published, the player stops between two tokens, takes the newer weights, reads its unfinished answers again, and continues them. So the
tokens of an answer may come from several versions of the weights. Each token keeps its log-probability and the number of updates of its weights. The draws
of an answer depend only on its key and on the positions of its tokens. So an interruption without a change of weights changes no draw.

A diary contains the versions of all samples of a group. With the diary, the same group can be sampled again with the same changes of weights, at any speed of
the machine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from gradus.players.learner import Learner
from gradus.rollouts.in_flight import until_stop
from gradus.training.twins import put
from gradus.types import Context, Ended, UserError

Change = tuple[int, int]
"""A change of the weights within a sample: (number of tokens before the change, version of the weights after the change). The first change of a sample is at
token 0."""


@dataclass(eq=False)
class Diary:
    """The changes of weights within the samples of one group, by the name of the sample. `known`: the changes to repeat; None: the player always loads the
    newest weights."""

    known: Mapping[str, Sequence[Sequence[int]]] | None = None
    default: int = 0  # the version of the samples that `known` does not contain
    changes: dict[str, list[Change]] = field(default_factory=dict)
    begun: dict[int, int] = field(default_factory=dict)  # key of a sample -> number of samples so far with this key

    @property
    def oldest(self) -> int:
        """Returns the oldest version of a token; the default if there is no token."""
        return min((version for changes in self.changes.values() for _, version in changes), default=self.default)

    def stored(self) -> dict[str, list[Change]]:
        """Returns the changes of weights of all samples, except samples in which all tokens come from the oldest version."""
        plain = [(0, self.oldest)]
        return {name: changes for name, changes in self.changes.items() if changes != plain}

    def names(self, asks: Sequence[Any]) -> list[str]:
        """Returns a name for each sample. The name depends only on the sample's key, and on the samples before it with the same key."""
        found = []
        for ask in asks:
            before = self.begun.get(ask.key.value, 0)
            self.begun[ask.key.value] = before + 1
            found.append(f"{ask.key.value:x}/{before}" if before else f"{ask.key.value:x}")
        return found

    def due(self, name: str) -> list[Change]:
        """Returns the changes to repeat for a sample."""
        assert self.known is not None
        return [(count, version) for count, version in self.known.get(name, [(0, self.default)])]


class Changing:
    """The policy of a worker's player. The policy `inner` does all work. The player loads published weights between two tokens of `inner`.

    If `inner` cannot pause, the player loads the weights between two answers.
    """

    def __init__(self, player: Learner, newest: Callable[[], Mapping[str, Any]], version: Callable[[int], Mapping[str, Any]]) -> None:
        self.player, self.inner, self.newest, self.version = player, player.policy, newest, version
        self.diary = Diary()
        self.loaded: int | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def act(self, asked: Sequence[Any]) -> list[Context]:
        """Samples one context per request, in order. Writes the changes of the weights into the diary."""
        begun = dict(self.diary.begun)
        try:
            names = self.diary.names(asked)
            answers = [Answer(ask, self.inner.text) for ask in asked]
            self._newest(answers) if self.diary.known is None else self._again(answers, [self.diary.due(name) for name in names])
        except BaseException:
            self.diary.begun = begun  # the caller may divide the requests and call this method again
            raise
        self.diary.changes |= {name: answer.changes for name, answer in zip(names, answers, strict=True)}
        return [answer.whole for answer in answers]

    def evaluate(self, *_: Any, **__: Any) -> Any:
        raise UserError(
            f"a part of the recipe computes values with the weights of {self.player.name} while {self.player.name} samples, but these weights may "
            "change within a group; set --system.interrupt false"
        )

    def lockstep(self, *_: Any, **__: Any) -> Any:
        raise UserError(
            f"a token rule reads the logits of {self.player.name}, but a token rule needs the same weights for all tokens; set --system.interrupt false"
        )

    def _newest(self, answers: Sequence[Answer]) -> None:
        """Samples with the newest weights. Stops between two tokens as soon as newer weights are published."""
        pauses = "pause" in self.inner.can
        while left := [answer for answer in answers if answer.open]:
            version = self.newest()
            self._load(version)
            more = {"pause": lambda version=version: self.newest() is not version} if pauses else {}
            for answer, part in zip(left, self.inner.act([a.ask(None, self.player.updates) for a in left], **more), strict=True):
                answer.add(part, version["step"], pauses)

    def _again(self, answers: Sequence[Answer], due: Sequence[Sequence[Change]]) -> None:
        """Samples with given changes of weights. The versions within a sample only increase, so each version is loaded once."""
        for version in sorted({version for changes in due for _, version in changes}):
            jobs: list[tuple[Answer, int | None]] = []
            for answer, changes in zip(answers, due, strict=True):
                ends = [*(count for count, _ in changes[1:]), None]
                jobs += [(answer, end) for (_, its), end in zip(changes, ends, strict=True) if its == version and answer.open]
            self._load(self.version(version))
            parts = self.inner.act([answer.ask(end, self.player.updates) for answer, end in jobs]) if jobs else []
            for (answer, end), part in zip(jobs, parts, strict=True):
                answer.add(part, version, end is not None)

    def _load(self, version: Mapping[str, Any]) -> None:
        if self.loaded != version["step"]:
            put(self.player, version["weights"][self.player.name], version["updates"][self.player.name])
            self.loaded = version["step"]


class Answer:
    """A sample in progress: its request, its tokens so far, and its changes of weights."""

    def __init__(self, asked: Any, text: Callable[[Any], str]) -> None:
        self.asked, self.text = asked, text
        self.sampled: Context | None = None
        self.changes: list[Change] = []
        self.open = True

    @property
    def whole(self) -> Context:
        assert self.sampled is not None
        return self.sampled

    def ask(self, end: int | None, updates: int) -> Any:
        """Returns the request for the next tokens, up to `end` tokens in all (None: up to the limit)."""
        so_far = self.sampled
        if so_far is None and end is None:
            return replace(self.asked, version=updates)
        count = 0 if so_far is None else so_far.actions
        sampling = replace(self.asked.sampling, max_tokens=(self.asked.sampling.limit if end is None else end) - count)
        place = {} if so_far is None else {"parent": so_far, "at": len(so_far.sequence)}
        return replace(self.asked, **place, sampling=sampling, version=updates)

    def add(self, part: Context, version: int, cut: bool) -> None:
        """Adds sampled tokens. `cut`: whether the tokens may end before the answer ends."""
        sampling, so_far = self.asked.sampling, self.sampled
        if part.actions or not cut:
            self.changes.append((0 if so_far is None else so_far.actions, version))
            so_far = part if so_far is None else until_stop(so_far.then(part), part.actions, sampling.stops, self.text)
        self.sampled = so_far
        self.open = cut and (so_far is None or (so_far.ended is Ended.LENGTH and so_far.actions < sampling.limit))
