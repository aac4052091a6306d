"""Workers that are started again if their process ends. The new process then gets the unanswered question again.

Every random draw of a worker depends only on the keys in the question. So the second answer has the same bytes as the first one. No sample is lost or
counted twice. A new process has no state. So before the question, it gets the first message of the old process, and the weights for this question.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from gradus.systems.link import Closed, Link, Message, check_answer
from gradus.types import UserError

if TYPE_CHECKING:
    from torch import Tensor

T = TypeVar("T")

MOST = 5
"""If this number of processes end one after the other during one question, the run ends."""

PAUSE = 0.02
"""The seconds between two checks for newer weights while a worker samples."""

Tell = Callable[..., Message]
"""Asks the process: (verb, document, tensors, seconds, pause) -> answer.

Raises TimeoutError if there is no answer within `seconds` (None: no limit). If `pause` is given and returns True, the worker answers with its work so far.
"""


class Host:
    """One worker, and the process in which it runs now.

    `opened` starts a process and returns the link to it. `first` makes the first messages for a new process. Any thread may ask; one question runs at a
    time.
    """

    def __init__(self, name: str, opened: Callable[[], Link], first: Callable[[], Iterable[tuple[str, Mapping[str, Any]]]], say: Callable[[str], None]) -> None:
        self.name, self.opened, self.first, self.say = name, opened, first, say
        self.starts = 0  # number of processes so far; it differs for a new and an old process
        self.closed = False
        self._link: Link | None = None
        self._asking, self._linking = threading.Lock(), threading.Lock()

    def ask(self, work: Callable[[Tell], T], given_up: Callable[[], bool] = lambda: False) -> T:
        """Returns the result of `work`, which asks the process. If the process ends, `work` is called again with a new process.

        Raises UserError if `MOST` processes end one after the other, and TimeoutError if an answer is late; the process then ends. Raises Closed if the host
        is closed, or if the process has ended and `given_up()` is True.
        """
        with self._asking:
            ended = ""
            for _ in range(MOST):
                try:
                    link = self._ready()
                    return work(partial(_told, link, self.name))
                except Closed:
                    ended = self._dropped()
                    if self.closed or given_up():
                        raise
                    self.say(f"{self.name} {ended}; it starts again, and its work is done again")
                except TimeoutError:
                    self._dropped()  # a late answer of this process must not count as the next answer
                    raise
            raise UserError(
                f"{self.name} has ended {MOST} times during the same work; the last process {ended}. If it printed an error, the error is above. Continue "
                "from the last checkpoint with gradus resume; if memory ran out, use fewer workers"
            )

    def kill(self) -> None:
        """Ends the process, so that an open question ends, too. The next question starts another process."""
        with self._linking:
            if self._link is not None:
                self._link.close()

    def close(self) -> None:
        """Ends the process, and starts no other. If another thread still waits for an answer, it gets the exception Closed."""
        self.closed = True
        self.kill()

    def _ready(self) -> Link:
        with self._linking:
            if self.closed:
                raise Closed(f"{self.name} is closed")
            if self._link is not None:
                return self._link
            self._link = link = self.opened()
            self.starts += 1
        try:
            for verb, document in self.first():
                _told(link, self.name, verb, document)
        except Exception as error:
            if not isinstance(error, Closed):
                self._dropped()  # without its first messages, a process cannot answer a question
            raise
        return link

    def _dropped(self) -> str:
        """Forgets the process, and returns the way in which it ended."""
        with self._linking:
            link, self._link = self._link, None
        how = "" if link is None else link.ending
        if link is not None:
            with suppress(OSError):
                link.close()
        return how or "has ended"


def _told(
    link: Link,
    name: str,
    verb: str,
    document: Mapping[str, Any] | None = None,
    arrays: Mapping[str, Tensor] | None = None,
    seconds: float | None = None,
    pause: Callable[[], bool] | None = None,
) -> Message:
    link.send({"do": verb, **(document or {})}, arrays)
    answer = link.receive(seconds) if pause is None else _paused(link, pause)
    check_answer(answer[0], name)
    return answer


def _paused(link: Link, pause: Callable[[], bool]) -> Message:
    """Returns the next answer. If `pause()` becomes True before the answer arrives, tells the worker to answer with its work so far."""
    asked = False
    while True:
        try:
            answer = link.receive(None if asked else PAUSE)
        except TimeoutError:
            if pause():
                link.send({"do": "pause"})
                asked = True
            continue
        if asked:
            link.receive()  # the answer to the pause
        return answer


class Weights:
    """The tensors that a host's process has, each with its address and with PyTorch's count of its in-place changes."""

    def __init__(self, host: Host) -> None:
        self.host, self.start = host, 0
        self.known: dict[tuple[str, str], tuple[Tensor, int, int]] = {}

    def send(self, tell: Tell, player: str, network: Any) -> None:
        """Sends the tensors of a player's network that the process does not have yet."""
        if self.start != self.host.starts:
            self.start, self.known = self.host.starts, {}
        changed, marks = {}, {}
        for place, tensor in network.state_dict(keep_vars=True).items():
            old, mark = self.known.get((player, place)), (tensor, tensor.data_ptr(), tensor._version)
            if old is None or old[0] is not tensor or old[1:] != mark[1:]:  # the tensor itself is stored, so no other tensor can get its address
                changed[place], marks[player, place] = tensor, mark
        if changed:
            tell("weights", {"player": player}, changed)
            self.known |= marks


class Hosted:
    """A player's policy whose samples a host draws, with the present weights of the policy. The other methods of the policy run in this process."""

    def __init__(self, policy: Any, host: Host, weights: Weights, name: str) -> None:
        self.__dict__.update(_policy=policy, _host=host, _weights=weights, _name=name)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_policy"], name)

    def act(self, asked: Sequence[Any], pause: Callable[[], bool] | None = None) -> list[Any]:
        """Samples once per request, in order. If `pause` is given and returns True, returns the samples with their tokens so far."""
        from gradus.systems.messages import sampled_from, samples_asked

        document, arrays = samples_asked(asked, conditions="condition" in self._policy.reads)

        def work(tell: Tell) -> Message:
            self._weights.send(tell, self._name, self._policy.network)
            return tell("sample", {"player": self._name, "pauses": pause is not None, **document}, arrays, None, pause)

        told, found = self._host.ask(work)
        return sampled_from(told, found, asked)


class Hosts:
    """The hosts of a run's rollout workers, by number (see `Run.hosts`)."""

    def __init__(self, hosts: Sequence[Host]) -> None:
        self.hosts = list(hosts)

    def __iter__(self) -> Iterator[Host]:
        return iter(self.hosts)

    def players(self, worker: int, made: dict[str, Any]) -> dict[str, Any]:
        """Lets the host of a worker draw the samples of these players. Returns the players."""
        host = self.hosts[worker]
        weights = Weights(host)
        for name, player in made.items():
            player.policy = Hosted(player.policy, host, weights, name)
        return made

    def close(self) -> None:
        """Ends all processes."""
        for host in self.hosts:
            host.close()
