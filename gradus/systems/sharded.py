"""The system `Sharded`: each process has a part of every weight, gradient and moment of the players.

The first process leads, as without this system. The first process draws problems, judges, and stores the run. The other processes follow its messages. In
a round of passes, every process computes its own micro-batch, and all processes gather the same layer at the same time. A process without a micro-batch
repeats the last one, and its rows are not used. To sample, each process gathers the whole weights once, and frees them before the next pass. A checkpoint
has the whole weights and moments, so a run without this system can continue it.

An error within a round ends the run, because the processes could no longer gather together.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from inspect import getattr_static
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from gradus.objectives.terms import reads_others
from gradus.players.learner import Learner, held
from gradus.recipe.serialise import from_json, to_json
from gradus.systems.divided import Part, cut, joined, mesh_of
from gradus.systems.messages import (
    contexts_from,
    contexts_message,
    sampled_from,
    samples_asked,
    samples_message,
    samples_wanted,
    wants_from,
    wants_json,
)
from gradus.systems.together import Crew, Reply, together
from gradus.types import Context, Frozen, Key, UserError
from gradus.types.players import FOLLOWING, Player
from gradus.types.signals import Want
from gradus.updates.forward_backward import Rows, Slopes, detached

NEEDS_NO_WEIGHTS = frozenset(
    {
        *("opening", "follow", "told", "said", "text", "micro_batches", "can", "reads", "acts", "context_length", "tokenizer", "folder", "note"),
        *("end_tokens", "graphs", "recompute", "lora", "gate", "head", "shared", "vocabulary"),
    }
)
"""Members of a policy that need no weights. If another member is read, the weights are gathered first."""


def told(players: Mapping[str, Any]) -> dict[str, Any]:
    """Returns fields of the message `begin`. With these fields, the other processes make the same optimisers."""
    return {
        name: {"trains": list(p.spec.trains), "rates": dict(p.spec.rates), "optimizer": to_json(p.rule)} for name, p in players.items() if p.learns
    }


def learning(player: Player, document: Mapping[str, Any]) -> Player:
    """Returns the player of another process, with an optimiser that is made from the fields of `told`."""
    rule = from_json(document["optimizer"])
    return Player(player.model, objective=Frozen(), optimizer=rule, trains=tuple(document["trains"]), rates=Frozen(document["rates"]))


class Parts:
    """The parts of all players in a process that follows, and its answers to the first process."""

    def __init__(self, players: Mapping[str, Learner], device: str, size: int) -> None:
        mesh = mesh_of(device, size)
        self.players, self.parts = players, {name: Part(player, mesh) for name, player in players.items()}
        self.held: Rows = {}

    def answer(self, document: Mapping[str, Any], arrays: Mapping[str, Tensor]) -> Reply:
        """Answers a message. `document["act"]` is the name of the method. After an error, prints it and raises SystemExit."""
        try:
            part = self.parts[document["player"]]
            if document.get("fresh"):
                part.learner.zero_grad()
            found: Reply = getattr(self, document["act"])(part, document, arrays)
            return found
        except Exception:
            traceback.print_exc()
            raise SystemExit(1) from None

    def rows(self, part: Part, document: Mapping[str, Any], arrays: Mapping[str, Tensor]) -> Reply:
        wants = wants_from(document["wants"])
        with torch.set_grad_enabled(document["grad"]):
            rows = part.rows(contexts_from(document, arrays), wants, Key(document["key"]))
        self.held = rows if document["grad"] else {}
        return {}, {str(i): rows[want].detach() for i, want in enumerate(wants)}

    def backward(self, part: Part, document: Mapping[str, Any], arrays: Mapping[str, Tensor]) -> Reply:
        rows, self.held = self.held, {}
        part.backward(rows, {want: arrays[str(i)] for i, want in enumerate(rows) if str(i) in arrays})
        return {}, {}

    def sample(self, part: Part, document: Mapping[str, Any], arrays: Mapping[str, Tensor]) -> Reply:
        part.gather()
        return samples_message(part.whole.act(samples_wanted(document, arrays)))

    def gather(self, part: Part, document: Mapping[str, Any], arrays: Mapping[str, Tensor]) -> Reply:
        part.gather()
        return {}, {}

    def norm(self, part: Part, document: Mapping[str, Any], arrays: Mapping[str, Tensor]) -> Reply:
        return {}, {"norm": part.learner.norm()}

    def not_finite(self, part: Part, document: Mapping[str, Any], arrays: Mapping[str, Tensor]) -> Reply:
        return {"names": part.learner.not_finite(gradients=True)}, {}

    def advance(self, part: Part, document: Mapping[str, Any], arrays: Mapping[str, Tensor]) -> Reply:
        for group, given in zip(part.learner.optimizer.param_groups, document["groups"], strict=True):
            group.update({name: tuple(value) if isinstance(value, list) else value for name, value in given.items()})
        part.learner.advance(arrays["norm"], document["clip"])
        part.changed()
        part.learner.updates += 1
        return {"names": part.learner.not_finite(), "bytes": part.size}, {}

    def forget(self, part: Part, document: Mapping[str, Any], arrays: Mapping[str, Tensor]) -> Reply:
        part.learner.forget()
        return {}, {}

    def take(self, part: Part, document: Mapping[str, Any], arrays: Mapping[str, Tensor]) -> Reply:
        part.learner.take(self.players[document["other"]], document["share"])
        part.changed()
        return {}, {}

    def tensors(self, part: Part, document: Mapping[str, Any], arrays: Mapping[str, Tensor]) -> Reply:
        return {}, part.tensors()

    def put(self, part: Part, document: Mapping[str, Any], arrays: Mapping[str, Tensor]) -> Reply:
        part.put(arrays, document["updates"])
        return {"bytes": part.size}, {}


class Together:
    """A player in the first process, with its parts in all processes. See `gradus.players.learner.Others`."""

    def __init__(self, name: str, part: Part, crew: Crew) -> None:
        self.name, self.part, self.crew = name, part, crew
        self.fresh = False  # whether the other processes must clear their gradients before the next pass
        self.broken: tuple[str, ...] = ()  # trained weights that are not finite in some process
        self.sizes: dict[int, int] = {}  # rank -> bytes of its part

    def ask(self, rank: int, act: str, document: Mapping[str, Any] | None = None, arrays: Mapping[str, Tensor] | None = None) -> None:
        self.crew.ask(rank, "part", {"player": self.name, "act": act, "fresh": self.fresh, **(document or {})}, arrays)

    def answers(self) -> list[Reply]:
        """Returns the answers of the other processes, in order of their ranks."""
        return [self.crew.answer(rank) for rank in self.crew.channels]

    @contextmanager
    def round(self) -> Iterator[list[int]]:
        """A context in which all processes do the same work (see `together`). Gives the ranks of the other processes."""
        with together(self.crew, self.name) as ranks:
            yield ranks
            self.fresh = False

    def zero_grad(self) -> None:
        self.fresh = True

    def norm(self) -> Tensor:
        with self.round() as ranks:
            for rank in ranks:
                self.ask(rank, "norm")
            own = self.part.learner.norm()
            return torch.linalg.vector_norm(torch.stack([own, *(arrays["norm"].to(own) for _, arrays in self.answers())]))

    def not_finite(self, *, gradients: bool = False) -> tuple[str, ...]:
        if not gradients:
            return self.broken
        with self.round() as ranks:
            for rank in ranks:
                self.ask(rank, "not_finite")
            found = [self.part.learner.not_finite(gradients=True), *(document["names"] for document, _ in self.answers())]
        return tuple(dict.fromkeys(name for names in found for name in names))

    def advance(self, norm: Tensor, clip: float | None) -> None:
        learner = self.part.learner
        groups = [{n: v for n, v in group.items() if n != "params"} for group in learner.optimizer.param_groups]
        with self.round() as ranks:
            for rank in ranks:
                self.ask(rank, "advance", {"groups": groups, "clip": clip}, {"norm": norm})
            learner.advance(norm, clip)
            self.part.changed()
            found = self.answers()
        self._sized(found)
        self.broken = tuple(dict.fromkeys([*learner.not_finite(), *(name for document, _ in found for name in document["names"])]))

    def forget(self) -> None:
        with self.round() as ranks:
            for rank in ranks:
                self.ask(rank, "forget")
            self.answers()

    def take(self, other: Learner, share: float) -> None:
        with self.round() as ranks:
            for rank in ranks:
                self.ask(rank, "take", {"other": other.name, "share": share})
            self.answers()
        self.part.changed()  # the caller changes the weights after this call, and computes nothing between the call and the change

    def tensors(self) -> dict[str, Tensor]:
        with self.round() as ranks:
            for rank in ranks:
                self.ask(rank, "tensors")
            own = self.part.tensors()
            return joined([own, *(arrays for _, arrays in self.answers())], self._divided(own))

    def load(self, tensors: Mapping[str, Tensor], updates: int) -> None:
        divided = self._divided(tensors)
        with self.round() as ranks:
            for rank in ranks:
                self.ask(rank, "put", {"updates": updates}, cut(tensors, divided, rank, self.crew.size))
            self.part.put(cut(tensors, divided, 0, self.crew.size), updates)
            self._sized(self.answers())
        self.broken = ()

    def _divided(self, tensors: Mapping[str, Tensor]) -> set[str]:
        """Returns the names of the divided tensors of a checkpoint: the weights, their float32 copies and moments, but not numbers of steps or buffers."""
        weights = {f"weights.{name}" for name, t in self.part.network.state_dict().items() if hasattr(t, "to_local")}
        return {name for name, t in tensors.items() if name in weights or (not name.startswith("weights.") and t.ndim)}

    def _sized(self, found: Sequence[Reply]) -> None:
        others = zip(self.crew.channels, found, strict=True)
        self.sizes = {0: self.part.size, **{rank: document["bytes"] for rank, (document, _) in others}}

    def whole_again(self) -> None:
        """Gives the player in this process its whole policy and optimiser, in the form before the division of the weights."""
        learner, tensors = self.part.learner, self.tensors()
        with self.round() as ranks:
            for rank in ranks:
                self.ask(rank, "gather")
            self.part.gather()
            self.answers()
        learned = {name for name, p in self.part.network.named_parameters() if p.requires_grad}
        learner.policy, learner.others = self.part.whole, None
        for name, p in learner.policy.network.named_parameters():
            p.requires_grad_(name in learned)
        learner.bind()
        learner.load(tensors, learner.updates)


class Divided:
    """A player's policy whose weights are divided. Samples and passes are shared among the processes. Everything else reads gathered weights."""

    divided = True

    def __init__(self, together: Together) -> None:
        self.__dict__.update(_together=together, _part=together.part)

    @property
    def network(self) -> Any:
        """Returns the network with the parts of this process."""
        return self._part.network

    def __getattr__(self, name: str) -> Any:
        part, together = self.__dict__["_part"], self.__dict__["_together"]
        known = name not in NEEDS_NO_WEIGHTS and not name.startswith("__") and getattr_static(part.whole, name, None) is not None
        if known and not part.full:
            with together.round() as ranks:
                for rank in ranks:
                    together.ask(rank, "gather")
                part.gather()
                together.answers()
        return getattr(part.whole, name)

    def act(self, asked: Sequence[Any]) -> list[Context]:
        """Samples once per request, in order. Each process gets consecutive requests."""
        size = self._together.crew.size
        cuts = [len(asked) * i // size for i in range(size + 1)]
        shares = [list(asked[a:b]) for a, b in pairwise(cuts)]
        with self._together.round() as ranks:
            for rank in ranks:
                self._together.ask(rank, "sample", *samples_asked(shares[rank], conditions="condition" in self.reads))
            self._part.gather()
            out = list(self._part.whole.act(shares[0]))
            for rank, (document, arrays) in zip(ranks, self._together.answers(), strict=True):
                out += sampled_from(document, arrays, shares[rank])
        return out

    def evaluate(self, contexts: Sequence[Context], wants: Sequence[Want], key: Key | None = None) -> dict[Any, Tensor]:
        """Returns the rows of each `Want` without gradient. Raises UserError if gradients are enabled and the player learns."""
        if torch.is_grad_enabled() and self._part.learner.learns:
            raise UserError(
                f"a part of the recipe computes gradients of {self._part.learner.name} outside the update; these gradients need whole weights, but system Sharded "
                "divides the weights; leave out --system"
            )
        found: dict[Any, Tensor] = self.__getattr__("evaluate")(contexts, wants, key)
        return found

    def passes(self, contexts: Sequence[Context], wants: Sequence[Want], micro_tokens: int, key: Key) -> Iterator[tuple[list[int], Rows]]:
        """See `gradus.updates.forward_backward`."""
        for pieces in self._rounds(contexts, micro_tokens):
            if not _acts(contexts, pieces[0]):
                yield pieces[0], {want: torch.zeros(0) for want in wants}
                continue
            with self._together.round() as ranks, torch.no_grad():
                own = self._rows(ranks, contexts, pieces, wants, key)
                rows = [own, *(self._read(arrays, wants) for _, arrays in self._together.answers())]
            yield from zip(pieces, rows, strict=False)  # a process without a micro-batch has repeated the last one

    def carry(self, contexts: Sequence[Context], wants: Sequence[Want], micro_tokens: int, key: Key, slopes: Slopes) -> None:
        """See `gradus.updates.forward_backward`. The processes add up the gradients of a round. The order of this sum differs from the order in a single
        process."""
        together = self._together
        for pieces in self._rounds(contexts, micro_tokens):
            if not _acts(contexts, pieces[0]):
                slopes(pieces[0], {want: torch.zeros(0) for want in wants})
                continue
            with together.round() as ranks:
                own = self._rows(ranks, contexts, pieces, wants, key)
                together.fresh = False
                rows = [detached(own), *(self._read(arrays, wants) for _, arrays in together.answers())]
                found = [slopes(chosen, mine) for chosen, mine in zip(pieces, rows, strict=False)]
                if all(f is None for f in found):
                    continue
                found += [None] * (together.crew.size - len(found))
                for rank in ranks:
                    given = found[rank] or {}
                    together.ask(rank, "backward", {}, {str(i): given[w] for i, w in enumerate(own) if given.get(w) is not None})
                self._part.backward(own, found[0])
                together.answers()

    def _rounds(self, contexts: Sequence[Context], micro_tokens: int) -> Iterator[list[list[int]]]:
        """Yields lists of at most one micro-batch per process. Micro-batches without actions come first, each alone, because they need no pass."""
        micro, size = self.micro_batches(contexts, micro_tokens), self._together.crew.size
        yield from ([chosen] for chosen in micro if not _acts(contexts, chosen))
        micro = [chosen for chosen in micro if _acts(contexts, chosen)]
        for start in range(0, len(micro), size):
            yield list(micro[start : start + size])

    def _rows(self, ranks: Sequence[int], contexts: Sequence[Context], pieces: list[list[int]], wants: Sequence[Want], key: Key) -> Rows:
        document = {"wants": wants_json(wants), "key": key.value, "grad": torch.is_grad_enabled()}
        for rank in ranks:
            told, arrays = contexts_message([contexts[i] for i in pieces[min(rank, len(pieces) - 1)]])
            self._together.ask(rank, "rows", {**document, **told}, arrays)
        return self._part.rows([contexts[i] for i in pieces[0]], tuple(wants), key)

    def _read(self, arrays: Mapping[str, Tensor], wants: Sequence[Want]) -> dict[Want, Tensor]:
        device = held(next(self.network.parameters())).device
        return {want: arrays[str(i)].to(device) for i, want in enumerate(wants)}


def _acts(contexts: Sequence[Context], chosen: Sequence[int]) -> bool:
    return any(contexts[i].actions for i in chosen)


def divide(players: Mapping[str, Learner], device: str, crew: Crew) -> None:
    """Divides the players among the processes, which have received the message `begin`, and gives all processes the first process's weights and moments."""
    whole = {name: (player.tensors(), player.updates) for name, player in players.items()}
    mesh = mesh_of(device, crew.size)
    for name, player in players.items():
        player.others = Together(name, Part(player, mesh), crew)
        player.policy = Divided(player.others)
    for rank in crew.channels:
        crew.answer(rank)
    for name, player in players.items():
        player.load(*whole.pop(name))


def whole_again(players: Mapping[str, Learner]) -> None:
    """Gives every player its whole policy and optimiser. Must be called before the other processes end."""
    for player in players.values():
        if isinstance(player.others, Together):
            player.others.whole_again()


def check(recipe: Any, players: Mapping[str, Learner]) -> None:
    """Raises UserError if the weights of the players cannot be divided."""
    owner: dict[int, str] = {}
    reasons: dict[str, bool] = {f"update {type(recipe.update).__name__} reads or writes whole weights": not getattr(recipe.update, "divides", False)}
    if (chunks := recipe.setting.backward_chunks) > 1:
        reasons[f"setting.backward_chunks is {chunks}, and a layer is gathered for one pass only (--recompute true works)"] = True
    for name, player in players.items():
        model = player.spec.model
        reasons[f"players.{name} samples with an engine outside this process"] = player.spec.engine is not None
        reasons[f"players.{name} is a {type(model).__name__}, which reads the weights of another player"] = isinstance(model, FOLLOWING)
        reasons[f"players.{name} computes a divergence from another player, whose weights are divided too"] = reads_others(player.spec.objective)
        trunk = player.policy.network if not getattr(player.policy, "shared", False) else player.policy.trunk
        for p in trunk.parameters():
            other = owner.setdefault(id(p), name)
            reasons[f"players.{name} and players.{other} have common weights"] = other != name
    for reason, holds in reasons.items():
        if holds:
            raise UserError(f"system Sharded cannot divide the weights, because {reason}; leave out --system")
