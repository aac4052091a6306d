"""Hybrid latent inputs. As long as a model thinks, its input after a token is a mix of two vectors. A learned gate sets their shares.

One vector is the token's embedding e. The other vector is h, the mean embedding under the distribution that drew the token. In each dimension:

    r = sigmoid(W_r e + b_r), i = sigmoid(W_i e + b_i), a = exp(-c softplus(-lam) r),  input = a e + sqrt(1 - a^2) (i h)

In these formulas, h = sum_v p_v E_v / |p|, and p is the tempered distribution. A context's streams store h, so the update can repeat a rollout with gradient
through the gate.

Reference: Yue et al., Hybrid Latent Reasoning via Reinforcement Learning, arXiv:2505.18454, section 3.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from gradus.policies.inputs import Inputs
from gradus.policies.jobs import Job, job_after, sampled_context
from gradus.policies.lockstep import Mixed
from gradus.types import Context, Key, UserError

FILE = "gate.safetensors"
STREAM = "inputs"  # [A, hidden]: h of every action; NaN if the input is the plain embedding


class Gate(nn.Module):
    """The gate of a model with hidden states of size `width`. `mark`: the text that ends thinking.

    The initial `lam` is drawn so that `a` is uniform in [least, most] for r = 1.
    """

    def __init__(
        self, width: int, key: Key, *, c: float = 8.0, least: float = 0.99, most: float = 0.999, mark: str = "####", like: Tensor | None = None
    ) -> None:
        super().__init__()
        self.c, self.mark = c, mark
        like = torch.zeros(()) if like is None else like

        def uniform(name: str, *shape: int) -> nn.Parameter:
            return nn.Parameter(torch.from_numpy((key.fold(name).uniform(*shape) * 2 - 1) / width**0.5).to(like))

        self.token_weight, self.token_bias = uniform("token", width, width), uniform("token bias", width)
        self.latent_weight, self.latent_bias = uniform("latent", width, width), uniform("latent bias", width)
        drawn = least + (most - least) * torch.from_numpy(key.fold("lam").uniform(width))
        self.lam = nn.Parameter(lam_of(drawn, c).to(like))

    def share(self, embedded: Tensor) -> Tensor:
        """Computes `a` for every dimension, in (0, 1]. Maps [n, width] to [n, width]."""
        r = torch.sigmoid(embedded @ self.token_weight.T + self.token_bias)
        return torch.exp(-self.c * torch.nn.functional.softplus(-self.lam) * r)

    def forward(self, embedded: Tensor, latent: Tensor) -> Tensor:
        """Computes the input vectors [n, width] from token embeddings and latent vectors, [n, width] each."""
        a = self.share(embedded)
        i = torch.sigmoid(embedded @ self.latent_weight.T + self.latent_bias)
        return a * embedded + (1 - a.square() + 1e-8).sqrt() * (i * latent)


def lam_of(a: Tensor, c: float) -> Tensor:
    """Returns the `lam` for which the share of the embedding is `a` if r = 1: -log(a^(-1 / c) - 1)."""
    return -torch.log(a.pow(-1 / c) - 1)


class Gated(nn.Module):
    """A trunk and its gate as one network."""

    def __init__(self, trunk: nn.Module, gate: Gate) -> None:
        super().__init__()
        self.trunk, self.gate = trunk, gate


def mean_embedding(logits: Tensor, temperature: Tensor, embedding: Tensor) -> Tensor:
    """Computes h = sum_v p_v E_v / |p| with p = softmax(logits / temperature), in float32 at least.

    logits [n, V], temperature [n], embedding [V, width].
    """
    wide = torch.float64 if embedding.dtype == torch.float64 else torch.float32
    p = torch.softmax(logits.to(wide) / temperature.to(wide).unsqueeze(1), -1)
    return (p / p.norm(dim=-1, keepdim=True)) @ embedding.to(wide)


def latent_of(context: Context, count: int | None = None) -> tuple[np.ndarray, np.ndarray] | None:
    """Returns the latent inputs among the first `count` tokens (None: all tokens). The result is a pair: positions int64 [k], and vectors [k, width].

    The result includes the latent inputs of the context's parents. The result is None if there are no latent inputs.
    """
    places, rows = list[np.ndarray](), list[np.ndarray]()
    line: Context | None = context
    most = len(context.sequence) if count is None else count
    while line is not None:
        if STREAM in line.streams and line.actions:
            at, vectors = line.action_positions, line.streams[STREAM]
            kept = ~np.isnan(vectors).any(-1) & (at < most)
            places.insert(0, at[kept])
            rows.insert(0, vectors[kept])
        line, most = line.parent if line.parent is not None else (None, 0)
    if not sum(map(len, places)):
        return None
    return np.concatenate(places), np.concatenate(rows)


def inputs_of(context: Context, embed: Callable[[Tensor], Tensor], gate: Gate | None, count: int | None = None) -> Inputs | None:
    """Returns the input vectors of a context's latent inputs, with gradient to gate and embedding; None if there are no latent inputs.

    Without a gate the input vectors are the latent vectors themselves.
    """
    found = latent_of(context, count)
    if found is None:
        return None
    at, vectors = found
    embedded = embed(torch.from_numpy(context.sequence[at].astype(np.int64)))
    latent = torch.from_numpy(np.array(vectors)).to(embedded)
    return Inputs(at, latent if gate is None else gate(embedded, latent), at.tobytes() + vectors.tobytes())


def mixer(gate: Gate, embedding: Tensor, embed: Callable[[Tensor], Tensor], decode_text: Callable[[np.ndarray], str]) -> Callable[[Sequence[Job]], Mixed]:
    """Returns a function that makes the input vectors of newly drawn tokens (`lockstep.Mixed`).

    The vectors are mixed until the text contains the mark. The token that completes the mark, and all later tokens, have their plain embedding.
    """

    def of(jobs: Sequence[Job]) -> Mixed:
        temperature = torch.tensor([job.sampling.temperature or 1.0 for job in jobs])
        thinking = np.ones(len(jobs), bool)

        def mix(tokens: np.ndarray, logits: Tensor, going: np.ndarray, so_far: Sequence[np.ndarray]) -> tuple[Tensor, Tensor]:
            for i in np.flatnonzero(thinking & going).tolist():
                thinking[i] = gate.mark not in decode_text(so_far[i])
            latent = mean_embedding(logits, temperature.to(logits.device), embedding)
            plain = torch.from_numpy(~thinking).to(logits.device).unsqueeze(1)
            latent = latent.masked_fill(plain, torch.nan)
            embedded = embed(torch.from_numpy(tokens.astype(np.int64)).to(logits.device))
            return gate(embedded, latent.to(embedded)), latent

        return mix

    return of


def act_with_gate(model: Any, asked: Sequence[Any]) -> list[Context]:
    """Samples as `LanguageModel.act` does, for a model with a gate. The contexts have the stream `inputs`."""
    from gradus.policies.lockstep import Alone, generate_by_rule, rows_of

    trunk, gate = model.trunk, model.gate
    with torch.inference_mode():
        jobs = [replace(job_after(a.parent, a.at, a.sampling, a.key.value), inputs=inputs_of(a.parent, trunk.embed, gate, a.at)) for a in asked]
        mix = mixer(gate, trunk.embed(torch.arange(model.vocabulary, device=trunk.device)), trunk.embed, model.text)
    sampled = generate_by_rule(
        lambda longest: {"policy": rows_of(trunk, longest)},
        Alone(),
        jobs,
        end_tokens=model.end_tokens,
        decode_text=model.text,
        max_context=model.context_length,
        mix=mix,
    )
    return [sampled_context(a, s) for a, s in zip(asked, sampled, strict=True)]


def save_gate(gate: Gate, folder: Path) -> None:
    from safetensors.torch import save_file

    tensors = {name: p.detach().cpu().contiguous() for name, p in gate.named_parameters()}
    save_file(tensors, folder / FILE, metadata={"gate": json.dumps({"c": gate.c, "mark": gate.mark})})


def load_gate(folder: Path, like: Tensor) -> Gate | None:
    """Loads the gate in a model's folder. Returns None if the folder has no gate. `like` [..., hidden] is a weight of the model.

    Raises UserError if the file does not fit the model.
    """
    from safetensors import SafetensorError, safe_open
    from safetensors.torch import load_file

    path = folder / FILE
    if not path.is_file():
        return None
    try:
        with safe_open(path, "pt") as opened:
            about = json.loads((opened.metadata() or {})["gate"])
        gate = Gate(like.shape[-1], Key(), c=float(about["c"]), mark=str(about["mark"]), like=like)
        gate.load_state_dict(load_file(path, device=str(like.device)))
    except (SafetensorError, RuntimeError, KeyError, TypeError, ValueError):
        raise UserError(f"{path} contains no gate for a model of width {like.shape[-1]}; remove this file to start without a gate") from None
    return gate
