"""The system `SequenceParallel`: all processes compute each micro-batch together (`gradus.policies.sequence`).

Every process has the whole weights, and computes a part of the rows. The first process leads: it joins the rows of all processes, and adds up the gradients.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from gradus.objectives.terms import reads_others
from gradus.policies.decoder import Decoder
from gradus.policies.sequence import Team, share_of_rows
from gradus.systems.messages import contexts_from, contexts_message, plain, wants_from, wants_json
from gradus.systems.together import Reply, group_of, together
from gradus.types import Context, Key, UserError
from gradus.types.signals import Want
from gradus.updates.forward_backward import Rows, Slopes, backward, detached


def team_of(device: str, size: int) -> Team:
    """Connects the processes. All processes call this at the same time."""
    group = group_of(device, size)
    return Team(dist.get_rank(), size, group)


class Shares:
    """The work of one process: its shares of the passes of all players, and its answers to the first process."""

    def __init__(self, policies: Mapping[str, Any], team: Team) -> None:
        self.policies, self.team = policies, team
        self.held: Rows = {}

    def answer(self, document: Mapping[str, Any], arrays: Mapping[str, Tensor]) -> Reply:
        """Answers a message. `document["act"]` is the name of the method. After an error, prints it and raises SystemExit."""
        try:
            found: Reply = getattr(self, document["act"])(self.policies[document["player"]], document, arrays)
            return found
        except Exception:
            traceback.print_exc()
            raise SystemExit(1) from None

    def rows(self, policy: Any, document: Mapping[str, Any], arrays: Mapping[str, Tensor]) -> Reply:
        wants, contexts = wants_from(document["wants"]), contexts_from(document, arrays)
        with torch.set_grad_enabled(document["grad"]):
            index, rows = share_of_rows(policy, contexts, wants, Key(document["key"]), self.team)
        self.held = rows if document["grad"] else {}
        return {}, {"index": index, **{str(i): rows[want].detach() for i, want in enumerate(wants)}}

    def backward(self, policy: Any, document: Mapping[str, Any], arrays: Mapping[str, Tensor]) -> Reply:
        """Returns the gradient of every parameter, from this process's rows."""
        rows, self.held = self.held, {}
        parameters = list(policy.network.parameters())
        for p in parameters:
            p.grad = None
        backward(rows, {want: arrays[str(i)] for i, want in enumerate(rows) if str(i) in arrays})
        found = {str(i): p.grad for i, p in enumerate(parameters) if p.grad is not None}
        for p in parameters:
            p.grad = None
        return {}, found


class Divided:
    """A player's policy in the first process. The processes share the rows of each pass. `led` (`gradus.systems.leader.Led`) divides the sampling among the
    processes, and provides all other members."""

    def __init__(self, led: Any, team: Team) -> None:
        self.__dict__.update(_led=led, _team=team, _policy=led._policy)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_led"], name)

    def passes(self, contexts: Sequence[Context], wants: Sequence[Want], micro_tokens: int, key: Key) -> Iterator[tuple[list[int], Rows]]:
        """See `gradus.updates.forward_backward`."""
        for chosen in self._policy.micro_batches(contexts, micro_tokens):
            if any(contexts[i].actions for i in chosen):
                with self._crew.round(), together(self._crew, self._name) as ranks, torch.no_grad():
                    rows, _, _ = self._rows_of(ranks, [contexts[i] for i in chosen], wants, key)
            else:
                rows = {want: torch.zeros(0) for want in wants}
            yield chosen, rows

    def carry(self, contexts: Sequence[Context], wants: Sequence[Want], micro_tokens: int, key: Key, slopes: Slopes) -> None:
        """See `gradus.updates.forward_backward`."""
        crew = self._crew
        for chosen in self._policy.micro_batches(contexts, micro_tokens):
            if not any(contexts[i].actions for i in chosen):
                slopes(chosen, {want: torch.zeros(0) for want in wants})
                continue
            with crew.round(), together(crew, self._name) as ranks:
                rows, own, places = self._rows_of(ranks, [contexts[i] for i in chosen], wants, key)
                found = slopes(chosen, rows)
                if found is None:
                    continue
                parts = [{want: slope.index_select(0, at) for want, slope in found.items() if slope is not None} for at in places]
                for rank in ranks:
                    given = {str(i): parts[rank][want] for i, want in enumerate(wants) if want in parts[rank]}
                    crew.ask(rank, "part", {"player": self._name, "act": "backward"}, given)
                backward(own, parts[0])
                for rank in ranks:
                    self._add(crew.answer(rank)[1])

    def _rows_of(self, ranks: Sequence[int], contexts: Sequence[Context], wants: Sequence[Want], key: Key) -> tuple[Rows, Rows, list[Tensor]]:
        """Returns three values: the detached rows of all actions, this process's own rows, and the actions of each process."""
        if not plain(wants):
            names = ", ".join(type(want).__name__ for want in wants)
            raise UserError(
                f"system SequenceParallel divides only log-probabilities, entropies and values, but the recipe reads {names}; leave out --system"
            )
        told, arrays = contexts_message(contexts)
        document = {"player": self._name, "act": "rows", "wants": wants_json(wants), "key": key.value, "grad": torch.is_grad_enabled()}
        for rank in ranks:
            self._crew.ask(rank, "part", {**document, **told}, arrays)
        index, own = share_of_rows(self._policy, contexts, tuple(wants), key, self._team)
        replies = [self._crew.answer(rank)[1] for rank in ranks]
        places = [index, *(arrays["index"].to(index.device) for arrays in replies)]
        mine = detached(own)
        rows = {w: _placed([mine[w], *(a[str(i)].to(index.device) for a in replies)], places) for i, w in enumerate(wants)}
        return rows, own, places


def _placed(parts: Sequence[Tensor], places: Sequence[Tensor]) -> Tensor:
    """Returns the rows of all actions in their order. Part i has the rows of the actions with the indices `places[i]`."""
    every = torch.cat(list(parts))
    return torch.empty_like(every).index_copy_(0, torch.cat(list(places)), every)


def check(players: Mapping[str, Any], size: int) -> None:
    """Raises UserError if the rows of a player's passes cannot be divided."""
    for name, player in players.items():
        policy = player.policy
        if not isinstance(getattr(policy, "trunk", None), Decoder) or getattr(policy, "gate", None) is not None:
            raise UserError(
                f"system SequenceParallel divides the passes of the built-in decoder, but the policy of {name} is another network or has a gate; leave out --system"
            )
        if reads_others(player.spec.objective):
            raise UserError(
                f"system SequenceParallel divides the passes, but {name} computes a divergence from another player in the same pass; leave out --system"
            )
        if policy.recompute > 1:
            raise UserError(
                f"system SequenceParallel already divides the rows, but setting.backward_chunks is {policy.recompute}; use --recompute true, or leave out --system"
            )
        if (heads := policy.trunk.config.num_attention_heads) < size:
            raise UserError(f"system SequenceParallel needs an attention head per process, but {name} has {heads} heads; give at most {heads} --processes")
