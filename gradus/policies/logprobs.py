"""Computes the log-probability and the entropy of actions from hidden states, chunk by chunk. So the logits of all actions are never in memory together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from gradus.policies.divergence import Other, slopes
from gradus.policies.products import linear, times, weight_gradient

_CELLS = 1 << 22  # number of logits that are in memory at a time (16 MiB in float32)
_ROWS = 128  # smallest number of rows per chunk; with fewer rows, a read of a wide head from memory takes longer than the product


def token_logprobs(
    hidden: Tensor,
    weight: Tensor,
    targets: Tensor,
    temperature: Tensor,
    *,
    entropy: bool = True,
    cells: int | None = None,
    cap: float | None = None,
) -> tuple[Tensor, Tensor | None]:
    """Computes log p(target) and the entropy of p = softmax(weight @ hidden / temperature), nats.

    With a cap, the logits are cap tanh(weight @ hidden / cap) before the division by the temperature.

    Args: hidden [A, d]; weight [V, d]; targets int64 [A]; temperature [A] > 0; `entropy`: whether to compute the entropy. `cells`: number of logits that are in
    memory together (None: four million, or the logits of 128 actions if this number is larger). The backward pass computes the logits again.

    Returns: two tensors [A] (the second is None without entropy), float32 (float64 for float64 hidden states), with gradient to hidden and
    weight.
    """
    return token_rows(hidden, weight, targets, temperature, entropy=entropy, cells=cells, cap=cap)[:2]


def token_rows(
    hidden: Tensor,
    weight: Tensor,
    targets: Tensor,
    temperature: Tensor,
    *,
    entropy: bool = True,
    cells: int | None = None,
    cap: float | None = None,
    others: Sequence[Other] = (),
) -> tuple[Tensor, Tensor | None, tuple[Tensor, ...]]:
    """Computes the rows of `token_logprobs` and, for every other model, its divergence over the whole vocabulary, nats [A].

    The other models get no gradient. The logits of the other models are also computed chunk by chunk. With one other model, three arrays of a chunk's size
    are in memory
    instead of two, so a chunk has only two thirds of the rows.
    """
    chunk = max(1, cells // len(weight)) if cells else chunk_rows(len(weight))
    chunk = max(1, chunk * 2 // (2 + len(others)))
    logprobs, found, *divergences = _TokenRows.apply(hidden, weight, targets, temperature, entropy, chunk, cap, tuple(others))
    return logprobs, found if entropy else None, tuple(divergences)


def chunk_rows(vocabulary: int) -> int:
    """Returns the number of actions whose logits are in memory together."""
    return max(_ROWS, _CELLS // vocabulary)


def logits_of(hidden: Tensor, weight: Tensor, temperature: Tensor, cap: float | None) -> Tensor:
    """Computes the logits [a, V] of hidden states [a, d] at temperature [a], in float32 at least, with gradient."""
    logits = linear(hidden, weight)
    wide = logits if logits.dtype in (torch.float32, torch.float64) else logits.float()
    soft = wide if cap is None else torch.tanh(wide / cap) * cap
    return soft / temperature.to(soft.dtype).unsqueeze(1)


def logits_logprobs(logits: Tensor, targets: Tensor, temperature: Tensor) -> tuple[Tensor, Tensor]:
    """Computes log p(target) and the entropy from given logits [A, V], in the same way as `token_logprobs`."""
    wide = logits if logits.dtype == torch.float64 else logits.float()
    logp = torch.log_softmax(wide / temperature.to(wide.dtype).unsqueeze(1), 1)
    # An impossible token (log p = -inf) adds nothing to the entropy and has no gradient.
    entropy = -(logp.exp() * logp.clamp_min(torch.finfo(wide.dtype).min)).sum(1)
    return logp.gather(1, targets.unsqueeze(1)).squeeze(1), entropy


def fresh_logits(hidden: Tensor, weight: Tensor, cap: float | None) -> Tensor:
    """Computes the logits [a, V] without gradient at temperature 1, as a new tensor."""
    logits = times(hidden, weight)
    wide = logits if logits.dtype in (torch.float32, torch.float64) else logits.float()
    return wide if cap is None else wide.div_(cap).tanh_().mul_(cap)


class _TokenRows(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, targets: Tensor, temperature: Tensor, with_entropy: bool, chunk: int, cap: float | None,
        others: tuple[Other, ...],
    ) -> Any:  # fmt: skip
        ctx.set_materialize_grads(False)
        wide = torch.float64 if hidden.dtype == torch.float64 else torch.float32
        temperature = temperature.to(wide)
        logprobs, log_z, entropy = (torch.zeros(len(hidden), dtype=wide, device=hidden.device) for _ in range(3))
        theirs = [(torch.zeros_like(log_z), torch.zeros_like(log_z)) for _ in others]  # divergence, and log of the normaliser
        for at in range(0, len(hidden), chunk):
            part = slice(at, at + chunk)
            logits = fresh_logits(hidden[part], weight, cap).div_(temperature[part].unsqueeze(1))
            z = logits.logsumexp(1)
            logprobs[part] = logits.gather(1, targets[part].unsqueeze(1)).squeeze(1) - z
            log_z[part] = z
            if with_entropy or others:
                logp = logits.sub_(z.unsqueeze(1)).clamp_(min=torch.finfo(wide).min)  # -inf times 0 would be NaN
            if with_entropy:
                entropy[part] = -(logp.exp() * logp).sum(1)
            for other, (apart, their_z) in zip(others, theirs, strict=True):
                logq = other.logits(part).to(wide)
                their_z[part] = torch.cat([rows.logsumexp(1) for rows in logq.split(max(1, len(logq) // 8))])  # each needs an array of its size
                logq.sub_(their_z[part].unsqueeze(1)).clamp_(min=torch.finfo(wide).min)
                if other.direction == "reverse":
                    apart[part] = logq.neg_().add_(logp).mul_(logp.exp()).sum(1)
                else:
                    q = logq.exp()
                    apart[part] = q.mul_(logq.sub_(logp)).sum(1)
        divergences = [apart for apart, _ in theirs]
        ctx.save_for_backward(hidden, weight, targets, temperature, entropy, log_z, *divergences, *(their_z for _, their_z in theirs))
        ctx.chunk, ctx.cap, ctx.others = chunk, cap, others
        return (logprobs, entropy, *divergences)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_logprobs: Tensor | None, grad_entropy: Tensor | None, *grad_apart: Tensor | None) -> Any:
        """d log p(t) / d logit_v = [v = t] - p_v;  d H / d logit_v = -p_v (log p_v + H).

        d KL(p || q) / d logit_v = p_v (log p_v - log q_v - KL(p || q));  d KL(q || p) / d logit_v = p_v - q_v. All derivatives are divided by the
        temperature. With a cap, all derivatives are multiplied by d (cap tanh(x / cap)) / dx = 1 - (logit / cap)^2.
        """
        hidden, weight, targets, temperature, entropy, log_z, *theirs = ctx.saved_tensors
        count = len(ctx.others)
        rows = zip(ctx.others, theirs[:count], theirs[count:], grad_apart, strict=True)
        moving = [(other, apart, their_z, up) for other, apart, their_z, up in rows if up is not None]
        if grad_logprobs is None:
            grad_logprobs = torch.zeros_like(log_z)
        grad_hidden = torch.empty_like(hidden)
        grad_weight = torch.zeros(weight.shape, dtype=log_z.dtype, device=weight.device)
        for at in range(0, len(hidden), ctx.chunk):
            part = slice(at, at + ctx.chunk)
            logits = fresh_logits(hidden[part], weight, ctx.cap)
            slack = None if ctx.cap is None else logits.div(ctx.cap).square_().neg_().add_(1)
            logp = logits.div_(temperature[part].unsqueeze(1)).sub_(log_z[part].unsqueeze(1))
            p, up = logp.exp(), grad_logprobs[part].unsqueeze(1)
            more = slopes(part, logp, p, moving)
            if grad_entropy is None:
                grad = p.mul_(-up)
            else:
                slope = logp.clamp_(min=torch.finfo(logp.dtype).min).add_(entropy[part].unsqueeze(1))
                grad = p.mul_(slope.mul_(grad_entropy[part].unsqueeze(1)).add_(up)).neg_()
            grad.scatter_add_(1, targets[part].unsqueeze(1), up)  # one column per row, so every element is added to once
            grad = (grad if more is None else grad.add_(more)).div_(temperature[part].unsqueeze(1))
            grad = (grad if slack is None else grad.mul_(slack)).to(hidden.dtype)
            grad_hidden[part] = times(grad, weight.T)
            grad_weight += weight_gradient(grad, hidden[part])
        return grad_hidden, grad_weight.to(weight.dtype), None, None, None, None, None, None
