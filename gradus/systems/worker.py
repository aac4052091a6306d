"""A worker process of a run. The worker has the players' networks with the weights of the leading process, and computes for the leading process.

A worker chooses no problems, judges nothing and writes nothing. A worker ends if a message requests this, or if the leading process has ended.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any, NoReturn

import torch
from torch import Tensor

from gradus.recipe.core import Recipe, Setting
from gradus.recipe.serialise import from_json
from gradus.runtime.memory import limited
from gradus.systems import sequence, sharded
from gradus.systems.channel import Channel, join, leave
from gradus.systems.link import Closed, answer
from gradus.systems.messages import contexts_from, samples_message, samples_wanted, wants_from
from gradus.systems.stand_in import StandIn
from gradus.types import Frozen, Key
from gradus.types.parts import Task
from gradus.types.players import Player
from gradus.updates.forward_backward import backward, evaluated
from gradus.updates.optimizers import AdamW

Reply = tuple[dict[str, Any], dict[str, Tensor]]


class Worker:
    """Answers messages with the players' policies. The worker keeps the last rows, because a `carry` message may request their gradient."""

    verbs = frozenset({"begin", "weights", "sample", "pause", "rows", "open", "carry", "part"})

    def __init__(self) -> None:
        self.policies: dict[str, Any] = {}
        self.held: dict[Any, Tensor] = {}
        self.bounds = ExitStack()
        self.pending: Callable[[], bool] = bool  # whether the next message has arrived
        self.parts: sharded.Parts | sequence.Shares | None = None  # if a system divides the weights or the passes: this process's part

    def begin(self, document: Mapping[str, Any], arrays: Mapping[str, Tensor]) -> Reply:
        """Builds the players. The players get their first weights from their folders. Later, the message `weights` replaces these weights."""
        from gradus.players.build import build_players

        players = {
            name: Player(model=from_json(spec["model"]), objective=Frozen() if spec["learns"] else None)
            for name, spec in document["players"].items()
        }
        setting = Setting(**{name: document[name] for name in ("precision", "recompute", "graphs", "backward_chunks")})
        learns = players["policy"].objective
        told = document.get("learners", {})
        players = {name: sharded.learning(p, told[name]) if name in told else p for name, p in players.items()}
        recipe = Recipe("shared", players=Frozen(players), objective=learns, optimizer=AdamW(), setting=setting)
        world: Any = None if document["world"] is None else StandIn.of(document["world"])  # the leading process has the problems
        task = Task(document["task"], world, world, environment=world, policy=document["kind"], level=document["level"])
        built = build_players(recipe, document["model"], task, Key(document["seed"]), document["device"])
        self.policies = {name: player.policy for name, player in built.items()}
        if document["memory"] is not None:
            self.bounds.enter_context(limited(document["memory"], document["device"]))
        torch.set_num_threads(document["threads"])
        torch.use_deterministic_algorithms(document["device"] == "cpu")
        torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
        if document.get("system") == "Sharded":
            self.parts = sharded.Parts(built, document["device"], document["size"])
        elif document.get("system") == "SequenceParallel":
            self.parts = sequence.Shares(self.policies, sequence.team_of(document["device"], document["size"]))
        return {}, {}

    def part(self, document: Mapping[str, Any], arrays: Mapping[str, Tensor]) -> Reply:
        """Answers a message to a player whose weights or passes are divided."""
        assert self.parts is not None
        return self.parts.answer(document, arrays)

    def weights(self, document: Mapping[str, Any], arrays: Mapping[str, Tensor]) -> Reply:
        self.held = {}  # no later message asks for the gradient of these rows
        mine = self.policies[document["player"]].network.state_dict()
        with torch.no_grad():
            for name, tensor in arrays.items():
                mine[name].copy_(tensor)
        return {}, {}

    def sample(self, document: Mapping[str, Any], arrays: Mapping[str, Tensor]) -> Reply:
        """Samples. If the message allows a pause, returns the tokens so far as soon as the next message arrives."""
        self.held = {}
        more = {"pause": self.pending} if document.get("pauses") else {}
        return samples_message(self.policies[document["player"]].act(samples_wanted(document, arrays), **more))

    def pause(self, document: Mapping[str, Any], arrays: Mapping[str, Tensor]) -> Reply:
        """Does nothing, because the arrival of this message has already ended the sampling."""
        return {}, {}

    def rows(self, document: Mapping[str, Any], arrays: Mapping[str, Tensor]) -> Reply:
        """Computes rows without gradient."""
        with torch.no_grad():
            return self._evaluated(document, arrays)

    def open(self, document: Mapping[str, Any], arrays: Mapping[str, Tensor]) -> Reply:
        """Computes rows, and keeps them, so that a later `carry` can compute the gradient."""
        return self._evaluated(document, arrays)

    def _evaluated(self, document: Mapping[str, Any], arrays: Mapping[str, Tensor]) -> Reply:
        wants = wants_from(document["wants"])
        self.held = dict(evaluated(self.policies[document["player"]], contexts_from(document, arrays), wants, Key(document["key"])))
        return {}, {str(i): self.held[want].detach() for i, want in enumerate(wants)}

    def carry(self, document: Mapping[str, Any], arrays: Mapping[str, Tensor]) -> Reply:
        """Returns the gradient of every parameter. The message contains the gradient with respect to the rows of the last `open`."""
        parameters = list(self.policies[document["player"]].network.parameters())
        rows, self.held = list(self.held.items()), {}
        for p in parameters:
            p.grad = None
        backward(dict(rows), {want: arrays[str(i)] for i, (want, _) in enumerate(rows) if str(i) in arrays})
        found = {str(i): p.grad for i, p in enumerate(parameters) if p.grad is not None}
        for p in parameters:
            p.grad = None
        return {}, found


def serve(leader: Channel) -> None:
    """Answers the messages of the leading process until the message `end`."""
    worker = Worker()
    while True:
        document, arrays = leader.receive()
        if document["do"] == "end":
            return
        leader.send(*answer(worker, document, arrays))
        leader.flush()


def main(where: str, rank: int, size: int) -> int:
    """Runs a worker process and returns its exit code.

    The process ignores SIGINT and SIGTERM, because the leading process handles them and ends this process.
    """
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
    join(where, rank, size)
    try:
        serve(Channel(0))
    except (Closed, SystemExit):  # SystemExit: this process has failed, and the others wait for it in a common operation
        end(1)
    leave()
    return 0


def end(code: int) -> NoReturn:
    """Ends the process at once. The process has no state to save. The connections stay open, because a close could wait for a process that has already
    ended."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    end(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
