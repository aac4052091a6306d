"""One run on several processes, with the same result as on one process.

The first process is the leader: it draws problems, judges, stores the run and updates the weights. The other processes have the same networks. All processes
compute samples, log-probabilities and gradients at the same time. The micro-batches are the same as with one process, and their gradients are added in order.
The loss is computed from the rows of all processes, so normalisers and group statistics cover the whole batch. Every random draw depends only on its key. So
the result is the same as with one process. The bits are also equal if each process uses the same number of threads as the single process.

    with shared(run, model, device, processes=2):
        go(run)
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from gradus.recipe.serialise import to_json
from gradus.runtime.memory import SHARE, free_memory, limited, status
from gradus.systems import sequence, sharded
from gradus.systems.channel import Channel, join, leave
from gradus.systems.link import Closed, check_answer
from gradus.systems.messages import contexts_message, plain, sampled_from, samples_asked, wants_json
from gradus.systems.stand_in import sizes_of
from gradus.types import Context, Key, UserError
from gradus.types.guards import bytes_of
from gradus.types.players import Fresh
from gradus.types.signals import Want
from gradus.types.systems import SequenceParallel, Sharded
from gradus.updates.forward_backward import Rows, Slopes, backward, detached, evaluated

if TYPE_CHECKING:
    from gradus.training.run import Run


@dataclass(eq=False)
class Crew:
    """The other processes, as the leading process sees them. Every question gets one answer."""

    channels: dict[int, Channel]  # rank (1, 2, ...) -> channel to this process
    children: dict[int, subprocess.Popen[bytes]] = field(default_factory=dict)  # rank -> process, for the processes that the leading process started
    players: Mapping[str, Any] = field(default_factory=dict)
    owed: list[int] = field(default_factory=list)  # ranks of processes that still have to answer
    marks: dict[tuple[str, str], tuple[int, ...]] = field(default_factory=dict)  # for each tensor, the version that the other processes have
    waiting: Callable[[str, str], AbstractContextManager[None]] = lambda what, about: nullcontext()  # reports waits to the watchdog
    asked: dict[int, str] = field(default_factory=dict)  # rank -> the last question
    lost: bool = False  # whether a process has ended or no longer gets questions
    finishing: Callable[[], AbstractContextManager[None]] = nullcontext  # makes a context; a stop of the run does not interrupt the work in it

    @property
    def size(self) -> int:
        return len(self.channels) + 1

    def ask(self, rank: int, what: str, document: Mapping[str, Any] | None = None, arrays: Mapping[str, Tensor] | None = None) -> None:
        self.asked[rank] = f"{what} of {document['player']}" if document and "player" in document else what
        with self._noticing(rank):
            self.channels[rank].send({"do": what, **(document or {})}, arrays)
        self.owed.append(rank)

    def answer(self, rank: int) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """Returns the answer of a process, or raises its error as UserError, MemoryError, torch.OutOfMemoryError or (any other) RuntimeError."""
        with self._noticing(rank):
            document, arrays = self.channels[rank].receive()
        self.owed.remove(rank)
        check_answer(document, f"process {rank}")
        return document, arrays

    @contextmanager
    def round(self) -> Iterator[Crew]:
        """A context for questions and answers. At its start, the current weights are sent to the other processes.

        After an error, the missing answers are still read. If a signal or the watchdog ends the run, no answer is read, and the processes get no further
        question.
        """
        try:
            self._share_weights()
            yield self
        except Exception:
            for rank in list(self.owed) if not self.lost else ():
                with self._noticing(rank):
                    self.channels[rank].receive()
                self.owed.remove(rank)
            raise
        except BaseException:
            self.lost = True
            raise

    def _share_weights(self) -> None:
        """Sends every tensor that has changed since it was last sent.

        A tensor has changed if its address is different, or if PyTorch's count of writes to it is different.
        """
        for name, player in self.players.items():
            changed = {}
            for place, tensor in player.policy.network.state_dict(keep_vars=True).items():
                mark = (tensor.data_ptr(), tensor._version)
                if self.marks.get((name, place)) != mark:
                    changed[place], self.marks[name, place] = tensor, mark
            for rank in self.channels if changed else ():
                self.ask(rank, "weights", {"player": name}, changed)
            for rank in self.channels if changed else ():
                self.answer(rank)

    @contextmanager
    def _noticing(self, rank: int) -> Iterator[None]:
        try:
            with self.waiting(f"process {rank} of {self.size}", self.asked.get(rank, "")):
                yield
        except Closed as error:
            self.lost = True
            child = self.children.get(rank)
            raise self._end_of(rank, None if child is None else _ended(child)) from error

    def gone(self) -> UserError | None:
        """Returns the error for the first process that has ended; None if all processes still run."""
        codes = {rank: _ended(child) for rank, child in self.children.items()}
        return next((self._end_of(rank, code) for rank, code in codes.items() if code is not None), None)

    def _end_of(self, rank: int, code: int | None) -> UserError:
        how = "" if code is None else f" (killed by signal {-code})" if code < 0 else f" (exit code {code})"
        return UserError(
            f"process {rank} of {self.size} has ended{how}; if it printed an error, the error is above. Continue from the last checkpoint "
            "with gradus resume; if memory ran out, give fewer --processes"
        )

    def close(self) -> None:
        """Ends the other processes, and waits for those that this process started."""
        if not self.lost:
            with suppress(Closed):
                for channel in self.channels.values():
                    channel.send({"do": "end"})
                    channel.flush()
        for child in self.children.values():
            try:
                child.wait(5 if not self.lost else 0.5)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()


class Led:
    """A player's policy. All processes compute the samples, rows and gradients of this policy; all other methods run in this process."""

    def __init__(self, policy: Any, crew: Crew, name: str) -> None:
        self.__dict__.update(_policy=policy, _crew=crew, _name=name)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_policy"], name)

    def act(self, asked: Sequence[Any]) -> list[Context]:
        """Samples once per request, in order.

        Each process gets consecutive requests, so that most samples of a prompt are in the same process. If there are fewer than two requests per process,
        this process samples all.
        """
        size = self._crew.size
        if len(asked) < 2 * size:
            return list(self._policy.act(asked))
        cuts = [len(asked) * i // size for i in range(size + 1)]
        shares = [list(asked[a:b]) for a, b in pairwise(cuts)]
        with self._crew.round() as crew:
            for rank in crew.channels:
                document, arrays = samples_asked(shares[rank], conditions="condition" in self._policy.reads)
                crew.ask(rank, "sample", {"player": self._name, **document}, arrays)
            out = list(self._policy.act(shares[0]))
            for rank in crew.channels:
                document, arrays = crew.answer(rank)
                out += sampled_from(document, arrays, shares[rank])
        return out

    def passes(self, contexts: Sequence[Context], wants: Sequence[Want], micro_tokens: int, key: Key) -> Iterator[tuple[list[int], Rows]]:
        """See `gradus.updates.forward_backward`."""
        wants = tuple(wants)
        for pieces in _rounds(self._policy.micro_batches(contexts, micro_tokens), self._crew.size):
            with self._crew.round() as crew:
                self._ask(crew, "rows", contexts, pieces, wants, key)
                with torch.no_grad():
                    rows = [evaluated(self._policy, [contexts[i] for i in pieces[0]], wants, key)]
                rows += [self._rows(crew.answer(rank)[1], wants) for rank in range(1, len(pieces))]
            yield from zip(pieces, rows, strict=True)

    def carry(self, contexts: Sequence[Context], wants: Sequence[Want], micro_tokens: int, key: Key, slopes: Slopes) -> None:
        """See `gradus.updates.forward_backward`. Gradients are added in the order of the micro-batches, as in one process."""
        wants = tuple(wants)
        for pieces in _rounds(self._policy.micro_batches(contexts, micro_tokens), self._crew.size):
            with self._crew.round() as crew:
                self._ask(crew, "open", contexts, pieces, wants, key)
                own = evaluated(self._policy, [contexts[i] for i in pieces[0]], wants, key)
                first = slopes(pieces[0], detached(own))
                moving = []
                for rank, chosen in list(enumerate(pieces))[1:]:
                    found = slopes(chosen, self._rows(crew.answer(rank)[1], wants))
                    if found is not None:
                        given = {str(i): found[w] for i, w in enumerate(wants) if found.get(w) is not None}
                        crew.ask(rank, "carry", {"player": self._name}, given)
                        moving.append(rank)
                backward(own, first)
                for rank in moving:
                    self._add(crew.answer(rank)[1])

    def _ask(self, crew: Crew, what: str, contexts: Sequence[Context], pieces: list[list[int]], wants: Sequence[Want], key: Key) -> None:
        told = {"player": self._name, "wants": wants_json(wants), "key": key.value}
        for rank, chosen in list(enumerate(pieces))[1:]:
            mine = [contexts[i] for i in chosen]
            streams = not plain(wants) or "text" not in self._policy.can or any("inputs" in c.streams for c in mine)
            document, arrays = contexts_message(mine, streams=streams)
            crew.ask(rank, what, {**told, **document}, arrays)

    def _rows(self, arrays: Mapping[str, Tensor], wants: Sequence[Want]) -> dict[Want, Tensor]:
        device = next(self._policy.network.parameters()).device
        return {want: arrays[str(i)].to(device) for i, want in enumerate(wants)}

    def _add(self, gradients: Mapping[str, Tensor]) -> None:
        with torch.no_grad():
            for i, p in enumerate(self._policy.network.parameters()):
                if str(i) not in gradients:
                    continue
                theirs = gradients[str(i)].to(p.device)
                p.grad = theirs if p.grad is None else p.grad.add_(theirs)


def _rounds(micro: Sequence[list[int]], size: int) -> Iterator[list[list[int]]]:
    """Yields lists of micro-batches, in order. Each list has one micro-batch per process."""
    for start in range(0, len(micro), size):
        yield list(micro[start : start + size])


@contextmanager
def shared(run: Run, model: str | Path | None, device: str, processes: int = 1) -> Iterator[Run]:
    """A context in which `processes` processes share the work of the run's players. Yields the run.

    Starts the other processes, unless torchrun has already started them.
    """
    launched = under_torchrun(os.environ)
    if processes < 1:
        raise UserError(f"--processes is {processes}; give the number of processes that train together, at least 1")
    if not launched and processes > (most := max(2, os.cpu_count() or 1)):  # two processes may share one core, as in a test
        raise UserError(f"--processes is {processes}, but this machine has {os.cpu_count()} cores; give at most {most} processes")
    if launched and processes not in (1, launched[1]):
        raise UserError(f"--processes is {processes}, but torchrun has started {launched[1]} processes; leave --processes out under torchrun")
    if not launched and processes == 1:
        if isinstance(run.recipe.system, Sharded | SequenceParallel):
            say = run.view.message if run.view is not None else partial(print, file=sys.stderr)
            kind = type(run.recipe.system).__name__
            say(f"system {kind} divides work among several processes, but this run has one process; give --processes 2 or more")
        yield run
        return
    with ExitStack() as stack:
        crew = _from_torchrun(launched[1]) if launched else _started(stack, processes)
        stack.callback(leave)
        stack.callback(crew.close)
        begin(run.players, run.recipe, run.task, model, run.seed, device, crew)
        crew.waiting, crew.finishing = run.watchdog.waiting, run.stop.finishing
        part = memory_of(run.recipe.setting, device, crew.size)
        if run.recipe.setting.memory is None and part is not None:  # `training.launch` sets a named limit
            stack.enter_context(limited((status("VmData") or 0) + part))
        try:
            yield run
            if isinstance(run.recipe.system, Sharded):
                sharded.whole_again(run.players)
        finally:
            for player in run.players.values():
                player.policy = getattr(player.policy, "__dict__", {}).get("_policy", player.policy)


def begin(players: Mapping[str, Any], recipe: Any, task: Any, model: str | Path | None, seed: int, device: str, crew: Crew) -> None:
    """Makes the other processes build the players, and replaces each player's policy by a `Led` policy, or by the policy of the recipe's system."""
    if "OMP_NUM_THREADS" not in os.environ and torch.get_num_threads() > 1:
        torch.set_num_threads(max(1, torch.get_num_threads() // crew.size))
    told = {**beginning(players, recipe, task, model, seed), "memory": memory_of(recipe.setting, device, crew.size)}
    if isinstance(recipe.system, Sharded):
        sharded.check(recipe, players)
        told |= {"system": "Sharded", "size": crew.size, "learners": sharded.told(players)}
    elif isinstance(recipe.system, SequenceParallel):
        sequence.check(players, crew.size)
        told |= {"system": "SequenceParallel", "size": crew.size}
    for rank in crew.channels:
        crew.ask(rank, "begin", {**told, "device": device_of(device, rank, torch.cuda.device_count())})
    if isinstance(recipe.system, Sharded):
        sharded.divide(players, device, crew)
        return
    team = sequence.team_of(device, crew.size) if isinstance(recipe.system, SequenceParallel) else None
    for rank in crew.channels:
        crew.answer(rank)
    crew.players = players
    for name, player in players.items():
        led = Led(player.policy, crew, name)
        player.policy = led if team is None else sequence.Divided(led, team)


def beginning(players: Mapping[str, Any], recipe: Any, task: Any, model: str | Path | None, seed: int) -> dict[str, Any]:
    """Returns the fields of the message `begin` that are the same for all workers. A worker builds the same players from these fields."""
    return {
        "players": {name: {"model": to_json(p.spec.model), "learns": p.learns} for name, p in players.items()},
        "kind": task.policy,
        "world": sizes_of(task) if any(isinstance(p.spec.model, Fresh) for p in players.values()) else None,
        "task": task.name,
        "level": task.level,
        "model": None if model in (None, "tiny") else str(Path(str(model)).resolve()),
        "seed": seed,
        "precision": recipe.setting.precision,
        "recompute": recipe.setting.recompute,
        "backward_chunks": recipe.setting.backward_chunks,
        "graphs": recipe.setting.graphs,
        "threads": torch.get_num_threads(),
    }


def memory_of(setting: Any, device: str, size: int) -> int | None:
    """Returns the bytes that one of `size` processes may use.

    This is the limit of the setting, or without a limit the process's share of the free memory. Returns None on a GPU, or if the free memory is unknown.
    """
    if setting.memory is not None:
        return bytes_of(setting.memory)
    free = free_memory() if device == "cpu" else None
    return None if free is None else int(SHARE * free / size)


def device_of(device: str, rank: int, count: int) -> str:
    """Returns the device of process `rank`. If `device` is a GPU, process `rank` gets the GPU with the number of `device` plus `rank`.

    Raises UserError if there is no such GPU.
    """
    kind, _, first = device.partition(":")
    if kind != "cuda":
        return device
    place = int(first or 0) + rank
    if place >= count:
        raise UserError(f"--processes needs one GPU per process, but the number of GPUs is {count}; give fewer --processes, or --device cpu")
    return f"cuda:{place}"


def under_torchrun(environment: Mapping[str, str]) -> tuple[int, int] | None:
    """Returns (rank, size) if torchrun started this process together with other processes, else None."""
    if "TORCHELASTIC_RUN_ID" not in environment or int(environment.get("WORLD_SIZE", "1")) < 2:
        return None
    return int(environment["RANK"]), int(environment["WORLD_SIZE"])


def _from_torchrun(size: int) -> Crew:
    join("env://", 0, size)
    return Crew({rank: Channel(rank) for rank in range(1, size)})


LOOPBACK = {"linux": "lo", "darwin": "lo0"}


def _started(stack: ExitStack, size: int) -> Crew:
    """Starts the other processes on this machine.

    The processes find each other by files in a folder that only this user can read, and communicate over the loopback interface.
    """
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="gradus-processes-"))
    where = (Path(folder) / "meet").as_uri()
    if (loopback := LOOPBACK.get(sys.platform)) is not None:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", loopback)
    children = {}
    for rank in range(1, size):
        command = [sys.executable, "-m", "gradus.systems.worker", where, str(rank), str(size)]
        # each process has its own session, so Ctrl-C in the terminal stops only the leading process, and the others end with it
        children[rank] = subprocess.Popen(command, start_new_session=True, stdin=subprocess.DEVNULL)
        stack.callback(_end, children[rank])
    join(where, 0, size)
    return Crew({rank: Channel(rank) for rank in children}, children)


def _end(child: subprocess.Popen[bytes]) -> None:
    if child.poll() is None:
        child.kill()
        child.wait()


def _ended(child: subprocess.Popen[bytes]) -> int | None:
    """Returns the exit code of a process that is ending, or None if it still runs after two seconds."""
    try:
        return child.wait(2)
    except subprocess.TimeoutExpired:
        return None
