"""The natural gradient with a bound on how far the policy moves: conjugate gradients on Fisher-vector products, then a backtracking search.

A product with the Fisher matrix is J'(J v) / A, J the gradients of the A actions' log-probabilities: J v by a central difference, J' by one
backward pass, micro-batch by micro-batch. It asks the network for log-probabilities alone, whatever they are computed by.
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
    """x with product(x) = b for a symmetric positive product, after at most `iterations` steps from x = 0, or |b - product(x)|^2 <= tolerance |b|^2."""
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
    """All elements in one vector."""
    return torch.cat([t.detach().reshape(-1) for t in tensors])


def place(parameters: Sequence[Tensor], values: Tensor) -> None:
    """Writes a vector into the parameters, in their order."""
    with torch.no_grad():
        for p, piece in zip(parameters, values.split([p.numel() for p in parameters]), strict=True):
            p.copy_(piece.view_as(p))


@dataclass(frozen=True, eq=False)
class Surface:
    """One player's objective and its distance from where it stands, as functions of its parameters in one vector."""

    player: Any
    batch: Batch  # with the log-probabilities at the start
    sampled: Tensor  # [A] 1 for the actions that the policy chose itself, which its Fisher matrix and its KL are made of
    start: Tensor  # the parameters
    key: Key
    micro: int  # tokens a micro-batch

    def at(self, values: Tensor) -> tuple[Tensor, Tensor]:
        """Objective and mean KL(start || there) over the sampled actions, in nats: the mean of r - 1 - log r, r = pi / pi_start."""
        place(self.player.parameters, values)
        wanted = tuple(dict.fromkeys((*wants_of(self.terms), LogProb())))
        rows = forward(self.player.policy, self.batch, wanted, self.micro, self.key)
        moved = rows[LogProb()] - self.batch.old[LogProb()]
        kl = (self.sampled * (torch.expm1(moved) - moved)).sum() / self.sampled.sum()
        return evaluate(self.terms, rows, self.batch)[0], kl

    def part(self, share: float) -> Surface:
        """The surface over a share of the answers that the policy sampled, drawn by the key; at least one of them."""
        own = torch.unique(self.batch.trajectory[self.sampled > 0]).tolist()
        count = math.ceil(share * len(own))
        if count == len(own):
            return self
        drawn = torch.tensor(sorted(self.key.fold("fisher").random().sample(own, count)))
        chosen = torch.unique(self.batch.context[torch.isin(self.batch.trajectory, drawn)])
        piece, rows = self.batch.slice(chosen.tolist())
        return replace(self, batch=piece, sampled=self.sampled[rows])

    def fisher_product(self, vector: Tensor) -> Tensor:
        """F v = mean over the sampled actions of (grad log pi . v) grad log pi, at the start."""
        size = self._size(vector)
        ahead, behind = (self._logprobs(self.start + sign * size * vector) for sign in (1, -1))
        place(self.player.parameters, self.start)
        slopes = self.sampled * (ahead - behind) / (2 * size) / self.sampled.sum()

        def of_piece(chosen: list[int], rows: Mapping[Want, Tensor]) -> dict[Want, Tensor]:
            return {LogProb(): slopes[self.batch.slice(chosen)[1]]}

        carry(self.player.policy, self.batch.contexts, (LogProb(),), self.micro, self.key, of_piece)
        return self.taken_gradient()

    def _size(self, vector: Tensor) -> float:
        """A factor of the vector at which the log-probabilities change by about the cube root of the rounding error, where a difference errs least.

        Directions differ a thousandfold in what they change, so a small step along the vector tells first.
        """
        eps = torch.finfo(vector.dtype).eps
        probe = 0.3 * eps**0.5 * max(1.0, float(self.start.norm())) / float(vector.norm())
        change = (self._logprobs(self.start + probe * vector) - self.batch.old[LogProb()])[self.sampled > 0]
        typical = float(change.square().mean().sqrt())
        return probe * min(max(eps ** (1 / 3) / max(typical, 1e-30), 0.01), 100.0)

    def taken_gradient(self) -> Tensor:
        """The gradient that stands in the network, which is then cleared."""
        grads = flat([torch.zeros_like(p) if p.grad is None else p.grad for p in self.player.parameters])
        self.player.zero_grad()
        return grads

    def _logprobs(self, values: Tensor) -> Tensor:
        place(self.player.parameters, values)
        return forward(self.player.policy, self.batch, (LogProb(),), self.micro, self.key)[LogProb()]

    @property
    def terms(self) -> Mapping[str, Term]:
        terms: Mapping[str, Term] = self.player.spec.objective
        return terms


@dataclass(frozen=True)
class TrustRegion:
    """One step a batch along s = (F + damping)^-1 g, as long as sqrt(2 max_kl / s'(F + damping) s), then shortened until it holds.

    It is taken where the objective improves and the mean KL an action stays within max_kl; where no length does the player stays. Learning
    rate and optimiser of this player are not read. F and KL are those of the actions that the policy sampled; F, which only shapes the step
    and is asked for a dozen times, of a share of the answers.
    """

    max_kl: float = 0.01  # nats an action, from the policy at the start of the update
    damping: float = 0.1  # added to the diagonal of F, which has no more rank than there are actions
    iterations: int = 10  # of the conjugate gradient
    fisher_share: float = 0.1  # of the sampled answers, drawn anew every update, make F: TRPO, arXiv:1502.05477, appendix C.1; 1: all of them
    shrink: float = 0.5  # of the step, each time that it fails
    backtracks: int = 10  # lengths tried at most
    player: str = "policy"
    others: Update = Minibatches()  # moves every other player
    names_players: ClassVar[tuple[str, ...]] = ("player",)

    def __post_init__(self) -> None:
        check_ranges(self, max_kl="(0, inf)", damping="[0, inf)", shrink="(0, 1)", iterations="[1, inf)", backtracks="[1, inf)")
        check_ranges(self, fisher_share="(0, 1]")

    def apply(self, players: Mapping[str, Any], batches: Mapping[str, Batch], step: int, key: Key) -> dict[str, float]:
        """Moves every player that has a batch; returns its metrics, those of players other than the policy as `player/metric`."""
        if self.player not in players:
            raise unknown("player", self.player, players, "TrustRegion moves it; name one of the recipe's")
        out = self.others.apply(players, {n: b for n, b in batches.items() if n != self.player}, step, key)
        check_numbers(self.others, "apply", out)
        batch, player = batches.get(self.player), players[self.player]
        if batch is None or "policy" not in batch.counts or step % player.spec.every:
            return out
        seen = self.update(player, batch, key.fold("update", self.player))
        return out | {metric if self.player == "policy" else f"{self.player}/{metric}": value for metric, value in seen.items()}

    def update(self, player: Any, batch: Batch, key: Key) -> dict[str, float]:
        """One step of a player. Metrics: update_kl and gain of the step taken, update_length the share of the longest step, skipped."""
        if any(torch.finfo(p.dtype).bits < 32 for p in player.parameters):
            raise UserError(f"TrustRegion needs the weights of {player.name} in float32 or float64; set --precision float32")
        check_separable(player, batch, key)
        start = flat(player.parameters)

        def tried(tokens: int) -> tuple[dict[str, Tally], float, dict[str, float] | None]:
            place(player.parameters, start)
            return self._tried(player, batch, start, tokens, key)

        seen, norm, moved = player.fitting(batch.contexts, tried)
        metrics = {name: t.mean for name, t in seen.items()}
        lost = broken_losses(seen)
        if lost or not math.isfinite(norm):
            place(player.parameters, start)
            player.bad.append(of_update(player.name, player.policy, batch, player.spec.objective, player.micro_tokens, key, lost))
        if moved is None:
            place(player.parameters, start)
            return {**metrics, "grad_norm": norm, "skipped": 1.0}
        player.updates += 1
        return {**metrics, "grad_norm": norm, "skipped": 0.0, **moved}

    def _tried(
        self, player: Any, batch: Batch, start: Tensor, tokens: int, key: Key
    ) -> tuple[dict[str, Tally], float, dict[str, float] | None]:
        """What was counted, the norm of the gradient, and the step taken (None: none), with so many tokens a micro-batch."""
        batch = replace(batch, old=forward(player.policy, batch, (LogProb(),), tokens, key))
        own = torch.tensor([t.source == "policy" for t in batch.trajectories], dtype=batch.weight.dtype)
        surface = Surface(player, batch, own.index_select(0, batch.trajectory), start, key, tokens)
        seen = gradient(player.policy, batch, surface.terms, tokens, key)
        down = -surface.taken_gradient()
        norm = float(down.norm())
        sound = norm > 0 and math.isfinite(norm) and not broken_losses(seen)
        return seen, norm, self._search(surface, down) if sound else None

    def _search(self, surface: Surface, down: Tensor) -> dict[str, float] | None:
        """The longest step that holds, taken; None where none does."""

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
            if loss < before and kl <= self.max_kl:  # false for NaN, too
                return {"update_kl": float(kl), "gain": float(before - loss), "update_length": length}
        return None
