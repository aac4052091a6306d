"""Copies of a run's players. The copies sample rollouts while the players themselves change."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from gradus.players.learner import Learner
from gradus.training.changing import changing
from gradus.types import Request, UserError

if TYPE_CHECKING:
    from gradus.training.run import Run

PLACE = "system"
"""The name under which the run's memory stores the waiting requests, and the run's history stores the weights for their rollouts."""


def thread(use: str) -> ThreadPoolExecutor:
    """Starts one thread for `use`. In the new thread, PyTorch uses the same number of threads as in the calling thread, so the results have the same bytes."""
    made = ThreadPoolExecutor(1, f"gradus-{use}", initializer=torch.set_num_threads, initargs=(torch.get_num_threads(),))
    made.submit(int)  # start the thread now, because later the memory may be too small for it
    return made


def twin(player: Learner) -> Learner:
    """Returns a frozen player with a copy of the weights."""
    policy = player.policy.clone()
    policy.network.requires_grad_(False)
    made = Learner(player.name, replace(player.spec, objective=None), policy, player.rule, player.setting)
    put(made, {}, player.updates)
    return made


def copies(run: Run, worker: int) -> dict[str, Learner]:
    """Returns frozen copies of all players, by name, for the worker with this number. If the run has worker processes, the process with this number draws
    the samples of these copies."""
    made = {name: twin(player) for name, player in run.players.items()}
    return made if run.hosts is None else run.hosts.players(worker, made)


def weights_of(run: Run) -> dict[str, Any]:
    """Returns copies of the weights that may change, and the numbers of updates, by player."""
    chosen = list(changing(run))
    weights = {name: {n: w.detach().clone() for n, w in run.players[name].policy.network.named_parameters()} for name in chosen}
    return {"updates": {name: run.players[name].updates for name in chosen}, "weights": weights}


def put(player: Learner, weights: Mapping[str, Tensor], updates: int) -> None:
    """Gives a player these weights and this number of updates."""
    mine = dict(player.policy.network.named_parameters())
    with torch.no_grad():
        for name, weight in weights.items():
            mine[name].copy_(weight)
    player.updates = updates


def checked(request: Request) -> Request:
    """Returns the request. Raises UserError if the request continues a context, because such a request cannot be stored."""
    if request.prompt is not None or request.at is not None:
        raise UserError(
            f"the curriculum requests problem {request.problem.id} with another prompt or context, but a system stores only the problem; leave out --system"
        )
    return request
