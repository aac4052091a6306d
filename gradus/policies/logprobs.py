"""Log-probability and entropy of actions from hidden states, in chunks: the logits of all actions are never held at once."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

_CELLS = 1 << 22  # logits held at a time (16 MiB in float32)


def token_logprobs(hidden: Tensor, weight: Tensor, targets: Tensor, temperature: Tensor, *, cells: int = _CELLS) -> tuple[Tensor, Tensor]:
    """log p(target) and entropy of p = softmax(weight @ hidden / temperature), nats.

    Args: hidden [A, d]; weight [V, d]; targets int64 [A]; temperature [A] > 0; `cells` logits are held at once, and computed again in
    backward.
    Returns: two tensors [A], float32 (float64 for float64 hidden states), with gradient to hidden and weight.
    """
    return _TokenLogProbs.apply(hidden, weight, targets, temperature, max(1, cells // weight.shape[0]))


def _tempered(hidden: Tensor, weight: Tensor, temperature: Tensor) -> Tensor:
    logits = hidden @ weight.T
    wide = logits if logits.dtype in (torch.float32, torch.float64) else logits.float()
    return wide.div_(temperature.unsqueeze(1))


class _TokenLogProbs(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, hidden: Tensor, weight: Tensor, targets: Tensor, temperature: Tensor, chunk: int) -> tuple[Tensor, Tensor]:
        wide = torch.float64 if hidden.dtype == torch.float64 else torch.float32
        temperature = temperature.to(wide)
        logprobs, entropy, log_z = (torch.empty(len(hidden), dtype=wide, device=hidden.device) for _ in range(3))
        for at in range(0, len(hidden), chunk):
            part = slice(at, at + chunk)
            logits = _tempered(hidden[part], weight, temperature[part])
            z = logits.logsumexp(1)
            logprobs[part] = logits.gather(1, targets[part].unsqueeze(1)).squeeze(1) - z
            logits.sub_(z.unsqueeze(1))
            # xlogy-like care: a token that is impossible (log p = -inf) adds nothing.
            entropy[part] = -(logits.exp() * logits.clamp_min(torch.finfo(wide).min)).sum(1)
            log_z[part] = z
        ctx.save_for_backward(hidden, weight, targets, temperature, entropy, log_z)
        ctx.chunk = chunk
        return logprobs, entropy

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_logprobs: Tensor, grad_entropy: Tensor) -> tuple[Tensor, Tensor, None, None, None]:
        """d log p(t) / d logit_v = [v = t] - p_v;  d H / d logit_v = -p_v (log p_v + H); both divided by the temperature."""
        hidden, weight, targets, temperature, entropy, log_z = ctx.saved_tensors
        grad_hidden = torch.empty_like(hidden)
        grad_weight = torch.zeros(weight.shape, dtype=log_z.dtype, device=weight.device)
        for at in range(0, len(hidden), ctx.chunk):
            part = slice(at, at + ctx.chunk)
            logp = _tempered(hidden[part], weight, temperature[part]).sub_(log_z[part].unsqueeze(1))
            p = logp.exp()
            g_logp, g_entropy = grad_logprobs[part].unsqueeze(1), grad_entropy[part].unsqueeze(1)
            if bool(grad_entropy.any()):
                slope = logp.clamp_(min=torch.finfo(logp.dtype).min).add_(entropy[part].unsqueeze(1)).mul_(g_entropy).add_(g_logp)
                grad = p.mul_(slope).neg_()
            else:
                grad = p.mul_(-g_logp)
            grad.scatter_add_(1, targets[part].unsqueeze(1), g_logp)
            grad.div_(temperature[part].unsqueeze(1))
            grad = grad.to(hidden.dtype)
            torch.mm(grad, weight, out=grad_hidden[part])
            grad_weight += grad.T @ hidden[part]
        return grad_hidden, grad_weight.to(weight.dtype), None, None, None
