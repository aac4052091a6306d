"""Attention of many queries. A layer's `Rule` sets the scale and the cap of the scores, the window, and the causal order."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from gradus.policies.config import Rule

_BLOCK = 256  # in a layer with a window, at least this many queries read their keys together


def causal(q: Tensor, k: Tensor, v: Tensor, rule: Rule) -> Tensor:
    """Computes the attention within each of B sequences. The first token of a sequence has position 0.

    The inputs are q [B, T, heads, d], and k and v [B, T, kv_heads, d]. The result is [B, T, heads, d].
    """
    length, window = q.shape[1], rule.window
    if window is None or length <= window:
        return attention(q, k, v, rule)
    # A block of queries reads only the keys that at least one of its queries sees. So work and masks grow linearly with the length.
    size, pieces = max(window, _BLOCK), []
    for start in range(0, length, size):
        stop, first = min(start + size, length), max(0, start - window + 1)
        mask = seen(torch.arange(start, stop), torch.arange(first, stop), window).to(q.device, q.dtype)
        pieces.append(attention(q[:, start:stop], k[:, first:stop], v[:, first:stop], rule, mask))
    return torch.cat(pieces, 1)


def attention(q: Tensor, k: Tensor, v: Tensor, rule: Rule, mask: Tensor | None = None) -> Tensor:
    """Computes the attention of q [B, S, heads, d] to k and v [B, T, kv_heads, d].

    `mask` [S, T] or [B, 1, S, T] is added to the scores. If `mask` is None, a causal rule hides later keys, and any other rule hides no keys.
    """
    q, k, v = (t.transpose(1, 2) for t in (q, k, v))
    if rule.cap is not None:
        return _capped(q, k, v, rule, mask).transpose(1, 2)
    out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=mask is None and rule.causal, enable_gqa=True, scale=rule.scale)
    return out.transpose(1, 2)


def weights(q: Tensor, k: Tensor, rule: Rule) -> Tensor:
    """Computes the causal attention weights [heads, T, T] of one sequence from q [T, heads, d] and k [T, kv_heads, d].

    All scores are in memory at once. The result is float32 (float64 for float64 inputs); the weights of a position sum to 1.
    """
    (length, heads, _), kv_heads = q.shape, k.shape[1]
    wide = torch.float64 if q.dtype == torch.float64 else torch.float32
    keys = k.to(wide).repeat_interleave(heads // kv_heads, 1)
    scores = torch.einsum("qhd,khd->hqk", q.to(wide), keys) * rule.scale
    if rule.cap is not None:
        scores = rule.cap * torch.tanh(scores / rule.cap)
    at = torch.arange(length, device=q.device)
    return (scores + seen(at, at, rule.window).to(wide)).softmax(-1)


def seen(queries: Tensor, keys: Tensor, window: int | None) -> Tensor:
    """Returns the additive mask float32 [..., queries, keys], from the positions of queries and keys: 0 if the query sees the key, else -inf.

    A query does not see later keys or keys outside the window.
    """
    back = queries.unsqueeze(-1) - keys.unsqueeze(-2)
    hidden = (back < 0) if window is None else (back < 0) | (back >= window)
    return torch.zeros(hidden.shape, device=back.device).masked_fill_(hidden, -torch.inf)


def _capped(q: Tensor, k: Tensor, v: Tensor, rule: Rule, mask: Tensor | None) -> Tensor:
    """Computes softmax(cap tanh(scores / cap) + mask) v with all scores in memory. No library kernel for the CPU can cap scores."""
    assert rule.cap is not None
    kv_heads, (queries, keys) = k.shape[1], (q.shape[2], k.shape[2])
    if mask is None and rule.causal:
        mask = seen(torch.arange(queries), torch.arange(keys), None).to(q.device)
    grouped = q.unflatten(1, (kv_heads, -1)).flatten(2, 3)  # [B, kv_heads, group * S, d]: the keys need no copies
    scores = grouped @ k.transpose(-1, -2)
    wide = scores if scores.dtype in (torch.float32, torch.float64) else scores.float()
    soft = rule.cap * torch.tanh(wide * (rule.scale / rule.cap))
    soft = soft.unflatten(2, (-1, queries))
    if mask is not None:
        soft = soft + (mask if mask.ndim == 2 else mask.unsqueeze(2)).to(wide.dtype)
    return (soft.softmax(-1).to(v.dtype).flatten(2, 3) @ v).unflatten(2, (-1, queries)).flatten(1, 2)
