"""A process that lends its hands to a run: it keeps the players' networks as the leading process has them, and computes what that asks.

It draws nothing of its own, judges nothing and writes nothing. It ends when it is told to, or when the leading process is gone.
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
from gradus.systems.channel import Channel, Closed, join, leave
from gradus.systems.messages import contexts_from, samples_message, samples_wanted, wants_from
from gradus.types import Frozen, Key, UserError
from gradus.types.parts import Task
from gradus.types.players import Player
from gradus.updates.forward_backward import backward
from gradus.updates.optimizers import AdamW

Reply = tuple[dict[str, Any], dict[str, Tensor]]


class Worker:
    """The players' policies, and the rows whose gradient may still be asked for."""

    def __init__(self) -> None:
        self.policies: dict[str, Any] = {}
        self.held: dict[Any, Tensor] = {}
        self.bounds = ExitStack()

    def begin(self, document: Mapping[str, Any], arrays: Mapping[str, Tensor]) -> Reply:
        """Builds the players. Their weights are those of their folders until the first `weights`."""
        from gradus.players.build import build_players

        players = {
            name: Player(model=from_json(spec["model"]), objective=Frozen() if spec["learns"] else None)
            for name, spec in document["players"].items()
        }
        setting = Setting(precision=document["precision"], recompute=document["recompute"], graphs=document["graphs"])
        learns = players["policy"].objective
        recipe = Recipe("shared", policy=document["kind"], players=Frozen(players), objective=learns, optimizer=AdamW(), setting=setting)
        nothing: Any = None  # problems are the leading process's
        task = Task(document["task"], nothing, nothing, policy=document["kind"], level=document["level"])
        built = build_players(recipe, document["model"], task, Key(document["seed"]), document["device"])
        self.policies = {name: player.policy for name, player in built.items()}
        if document["memory"] is not None:
            self.bounds.enter_context(limited(document["memory"], document["device"]))
        torch.set_num_threads(document["threads"])
        torch.use_deterministic_algorithms(document["device"] == "cpu")
        torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
        return {}, {}

    def weights(self, document: Mapping[str, Any], arrays: Mapping[str, Tensor]) -> Reply:
        mine = self.policies[document["player"]].network.state_dict()
        with torch.no_grad():
            for name, tensor in arrays.items():
                mine[name].copy_(tensor)
        return {}, {}

    def sample(self, document: Mapping[str, Any], arrays: Mapping[str, Tensor]) -> Reply:
        return samples_message(self.policies[document["player"]].act(samples_wanted(document, arrays)))

    def rows(self, document: Mapping[str, Any], arrays: Mapping[str, Tensor]) -> Reply:
        """Rows without gradient."""
        with torch.no_grad():
            return self._evaluated(document, arrays)

    def open(self, document: Mapping[str, Any], arrays: Mapping[str, Tensor]) -> Reply:
        """Rows whose gradient `carry` may bring."""
        return self._evaluated(document, arrays)

    def _evaluated(self, document: Mapping[str, Any], arrays: Mapping[str, Tensor]) -> Reply:
        wants = wants_from(document["wants"])
        self.held = self.policies[document["player"]].evaluate(contexts_from(document, arrays), tuple(wants), key=Key(document["key"]))
        return {}, {str(i): self.held[want].detach() for i, want in enumerate(wants)}

    def carry(self, document: Mapping[str, Any], arrays: Mapping[str, Tensor]) -> Reply:
        """The gradient by every parameter, of the rows of the last `open`."""
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
    """Does what is asked until told to end."""
    worker = Worker()
    while True:
        document, arrays = leader.receive()
        if document["do"] == "end":
            return
        leader.send(*answer(worker, document, arrays))
        leader.flush()


def answer(worker: Worker, document: Mapping[str, Any], arrays: Mapping[str, Tensor]) -> Reply:
    """What comes of one question. What goes wrong is told to the leading process, which decides."""
    do: Callable[..., Reply] = getattr(worker, document["do"])
    if document["do"] != "carry":
        worker.held = {}  # nobody asked for their gradient
    try:
        return do(document, arrays)
    except Exception as error:
        return {"error": str(error), "kind": kind_of(error)}, {}


def kind_of(error: Exception) -> str:
    """What the leading process makes of an error: a sentence for the user, too little memory, or a fault."""
    if isinstance(error, UserError):
        return "user"
    return type(error).__name__


def main(where: str, rank: int, size: int) -> int:
    """The life of a process beside the leading one; its exit code. Signals to stop are the leading process's to answer: this one ends with it."""
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
    join(where, rank, size)
    try:
        serve(Channel(0))
    except Closed:
        end(1)
    leave()
    return 0


def end(code: int) -> NoReturn:
    """Ends the process at once: nothing here is worth tidying up, and closing a connection would wait for nobody."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    end(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
