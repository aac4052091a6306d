"""The natural gradient with a bound on the policy's change: conjugate gradients on Fisher-vector products, then a backtracking search.

The product of the Fisher matrix and a vector v is J'(J v) / A. The rows of J are the gradients of the log-probabilities of the A actions. J v is computed as
a central difference. The product with J' is one backward pass, one micro-batch at a time. Both products need only log-probabilities, so they work with every
network.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from gradus.objectives.terms import Term, evaluate, wants_of
from gradus.types import Key, UserError, unknown
from gradus.types.batch import Batch
from gradus.types.parts import Update
from gradus.types.ranges import check_ranges
from gradus.types.returned import check_numbers
from gradus.types.signals import LogProb, Want
from gradus.types.tally import Tally
from gradus.updates.diagnosis import broken_losses, of_update
from gradus.updates.forward_backward import carry
from gradus.updates.minibatches import Minibatches, check_separable, forward, gradient


def conjugate_gradient(product: Callable[[Tensor], Tensor], b: Tensor, *, iterations: int, tolerance: float = 1e-10) -> Tensor:
    """Solves product(x) = b for x; `product` is linear, symmetric and positive definite.

    Starts from x = 0. Stops after `iterations` steps, or as soon as |b - product(x)|^2 <= tolerance |b|^2.
    """
    x, residual = torch.zeros_like(b), b.clone()
    direction, rest = residual.clone(), residual.dot(residual)
    enough = tolerance * rest
    for _ in range(iterations):
        if rest <= enough:
            break
        along = product(direction)
        step = rest / direction.dot(along)
        x = x + step * direction
        residual = residual - step * along
        rest, before = residual.dot(residual), rest
        direction = residual + (rest / before) * direction
    return x


def flat(tensors: Sequence[Tensor]) -> Tensor:
    """Returns all elements of the tensors as one vector."""
    return torch.cat([t.detach().reshape(-1) for t in tensors])


def place(parameters: Sequence[Tensor], values: Tensor) -> None:
    """Writes the vector `values` into the parameters, in their order."""
    with torch.no_grad():
        for p, piece in zip(parameters, values.split([p.numel() for p in parameters]), strict=True):
            p.copy_(piece.view_as(p))


@dataclass(frozen=True, eq=False)
class Surface:
    """The objective of one player, and its KL from the start, as functions of a vector that contains all parameters of the player."""

    player: Any
    batch: Batch  # contains the log-probabilities at the start of the update
    sampled: Tensor  # [A] 1 for actions that the policy sampled; the Fisher matrix and the KL are over these actions
    start: Tensor  # the parameters at the start of the update
    key: Key
    micro: int  # tokens per micro-batch
    reading: Key = Key()  # the key of the draws for views and `Want` objects

    def at(self, values: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the objective, and the mean KL(start || new) over the sampled actions, in nats.

        The KL is the mean of r - 1 - log r with r = pi / pi_start. After the call, the player still has the parameters `values`.
        """
        place(self.player.parameters, values)
        wanted = tuple(dict.fromkeys((*wants_of(self.terms), LogProb())))
        rows = forward(self.player.policy, self.batch, wanted, self.micro, self.reading)
        moved = rows[LogProb()] - self.batch.old[LogProb()]
        kl = (self.sampled * (torch.expm1(moved) - moved)).sum() / self.sampled.sum()
        return evaluate(self.terms, rows, self.batch)[0], kl

    def part(self, share: float) -> Surface:
        """Returns the surface for only a share of the answers that the policy sampled, at least one answer. The key draws these answers."""
        own = torch.unique(self.batch.trajectory[self.sampled > 0]).tolist()
        count = math.ceil(share * len(own))
        if count == len(own):
            return self
        drawn = torch.tensor(sorted(self.key.fold("fisher").random().sample(own, count)))
        chosen = torch.unique(self.batch.context[torch.isin(self.batch.trajectory, drawn)])
        piece, rows = self.batch.slice(chosen.tolist())
        return replace(self, batch=piece, sampled=self.sampled[rows])

    def fisher_product(self, vector: Tensor) -> Tensor:
        """Computes F v = mean over the sampled actions of (grad log pi . v) grad log pi, at the start."""
        size = self._size(vector)
        ahead, behind = (self._logprobs(self.start + sign * size * vector) for sign in (1, -1))
        place(self.player.parameters, self.start)
        slopes = self.sampled * (ahead - behind) / (2 * size) / self.sampled.sum()

        def of_piece(chosen: list[int], rows: Mapping[Want, Tensor]) -> dict[Want, Tensor]:
            return {LogProb(): slopes[self.batch.slice(chosen)[1]]}

        carry(self.player.policy, self.batch.contexts, (LogProb(),), self.micro, self.reading, of_piece)
        return self.taken_gradient()

    def _size(self, vector: Tensor) -> float:
        """Returns the factor on `vector` for the central difference.

        With this factor the log-probabilities change by about the cube root of the rounding error. A change of this size gives the most accurate central
        difference. In one direction, the effect of a step may be a thousand times larger than in another one. So a small trial step along the vector first
        measures this effect.
        """
        eps = torch.finfo(vector.dtype).eps
        probe = 0.3 * eps**0.5 * max(1.0, float(self.start.norm())) / float(vector.norm())
        change = (self._logprobs(self.start + probe * vector) - self.batch.old[LogProb()])[self.sampled > 0]
        typical = float(change.square().mean().sqrt())
        return probe * min(max(eps ** (1 / 3) / max(typical, 1e-30), 0.01), 100.0)

    def taken_gradient(self) -> Tensor:
        """Returns the player's current gradient as one vector, and clears the gradient."""
        grads = flat([torch.zeros_like(p) if p.grad is None else p.grad for p in self.player.parameters])
        self.player.zero_grad()
        return grads

    def _logprobs(self, values: Tensor) -> Tensor:
        place(self.player.parameters, values)
        return forward(self.player.policy, self.batch, (LogProb(),), self.micro, self.reading)[LogProb()]

    @property
    def terms(self) -> Mapping[str, Term]:
        terms: Mapping[str, Term] = self.player.spec.objective
        return terms


@dataclass(frozen=True)
class TrustRegion:
    """Takes one natural-gradient step per batch. The step is shortened until the objective improves and the mean KL is small enough.

    The step is s sqrt(2 max_kl / s'(F + damping I) s) with s = (F + damping I)^-1 g. The vector g is the negative gradient of the loss, and F is the Fisher
    matrix. A step is accepted if the objective improves and the mean KL per action is at most `max_kl`. If no length is accepted, the player does not
    change. This player's learning rate and optimiser are not used. F and the KL are averages over the actions that the policy sampled. F has an effect only
    on the direction of the step and on the first length that is tried. The step needs about twelve products with F, so F is computed from only a share of the
    answers.
    """

    max_kl: float = 0.01  # largest KL from the policy at the start of the update, in nats per action
    damping: float = 0.1  # this number is added to the diagonal of F; the rank of F is at most the number of actions
    iterations: int = 10  # iterations of the conjugate gradient
    fisher_share: float = 0.1  # share of the sampled answers for F, drawn at every update (TRPO, arXiv:1502.05477, appendix C.1); 1: all answers
    shrink: float = 0.5  # factor on the step's length after each rejection
    backtracks: int = 10  # largest number of lengths that are tried
    player: str = "policy"
    others: Update = Minibatches(epochs=4)  # updates every other player
    names_players: ClassVar[tuple[str, ...]] = ("player",)

    def __post_init__(self) -> None:
        check_ranges(self, max_kl="(0, inf)", damping="[0, inf)", shrink="(0, 1)", iterations="[1, inf)", backtracks="[1, inf)")
        check_ranges(self, fisher_share="(0, 1]")

    def apply(self, players: Mapping[str, Any], batches: Mapping[str, Batch], step: int, key: Key) -> dict[str, float]:
        """Updates every player that has a batch and returns the metrics.

        The metrics of a player other than the policy are named `player/metric`.
        """
        if self.player not in players:
            raise unknown("player", self.player, players, "TrustRegion updates this player; name a player of the recipe")
        out = self.others.apply(players, {n: b for n, b in batches.items() if n != self.player}, step, key)
        check_numbers(self.others, "apply", out)
        batch, player = batches.get(self.player), players[self.player]
        if batch is None or "policy" not in batch.counts or step % player.spec.every:
            return out
        seen = self.update(player, batch, key.fold("update", self.player), key)
        return out | {metric if self.player == "policy" else f"{self.player}/{metric}": value for metric, value in seen.items()}

    def update(self, player: Any, batch: Batch, key: Key, reading: Key | None = None) -> dict[str, float]:
        """Takes one step of a player.

        The metrics are the objective's metrics, `grad_norm` and `skipped`. If a step was taken, there are also `update_kl`, `gain` and
        `update_length` (as a share of the longest step).
        """
        if any(torch.finfo(p.dtype).bits < 32 for p in player.parameters):
            raise UserError(f"TrustRegion needs the weights of {player.name} in float32 or float64; set --precision float32")
        reading = reading or key
        check_separable(player, batch, reading)
        start = flat(player.parameters)

        def tried(tokens: int) -> tuple[dict[str, Tally], float, dict[str, float] | None]:
            place(player.parameters, start)
            return self._tried(player, batch, start, tokens, key, reading)

        seen, norm, moved = player.fitting(batch.contexts, tried, "train")
        metrics = {name: t.mean for name, t in seen.items()}
        lost = broken_losses(seen)
        if lost or not math.isfinite(norm):
            place(player.parameters, start)
            player.bad.append(of_update(player.name, player.policy, batch, player.spec.objective, player.micro_tokens, reading, lost))
        if moved is None:
            place(player.parameters, start)
            return {**metrics, "grad_norm": norm, "skipped": 1.0}
        player.updates += 1
        return {**metrics, "grad_norm": norm, "skipped": 0.0, **moved}

    def _tried(
        self, player: Any, batch: Batch, start: Tensor, tokens: int, key: Key, reading: Key
    ) -> tuple[dict[str, Tally], float, dict[str, float] | None]:
        """Tries one step, with `tokens` tokens per micro-batch.

        Returns the tallies, the norm of the gradient, and the metrics of the step (None: no step was taken).
        """
        batch = replace(batch, old=forward(player.policy, batch, (LogProb(),), tokens, reading))
        own = torch.tensor([t.source == "policy" for t in batch.trajectories], dtype=batch.weight.dtype)
        surface = Surface(player, batch, own.index_select(0, batch.trajectory), start, key, tokens, reading)
        seen = gradient(player.policy, batch, surface.terms, tokens, reading)
        down = -surface.taken_gradient()
        norm = float(down.norm())
        sound = norm > 0 and math.isfinite(norm) and not broken_losses(seen)
        return seen, norm, self._search(surface, down) if sound else None

    def _search(self, surface: Surface, down: Tensor) -> dict[str, float] | None:
        """Takes the longest accepted step and returns its metrics; None if no length is accepted."""

        some = surface.part(self.fisher_share)

        def product(v: Tensor) -> Tensor:
            return some.fisher_product(v) + self.damping * v

        direction = conjugate_gradient(product, down, iterations=self.iterations)
        curvature = direction.dot(product(direction))
        longest = direction * (2 * self.max_kl / curvature).sqrt()
        before, _ = surface.at(surface.start)
        for count in range(self.backtracks):
            length = self.shrink**count
            loss, kl = surface.at(surface.start + length * longest)
            if loss < before and kl <= self.max_kl:  # false for NaN
                return {"update_kl": float(kl), "gain": float(before - loss), "update_length": length}
        return None
