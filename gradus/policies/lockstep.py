"""Sampling by a token rule: several language models read the same tokens, and one token is drawn from the rule's logits.

Every network has its own cache. If the rule returns the logits of one player, this module and the engine give the same tokens and log-probabilities, to the
last bit. The reason is that both compute products in blocks of allowed sizes, and use the same draws.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from gradus.policies.blocks import cover, even, menu
from gradus.policies.compiled import CompiledCache, fits
from gradus.policies.decoder import Decoder
from gradus.policies.decoding import Fused, PlainCache, padded
from gradus.policies.heads import Heads
from gradus.policies.inputs import identity
from gradus.policies.jobs import DecodeText, Job, Sampled, Stepwise, check_job, reason, room, sampled_context, stop_reached
from gradus.policies.products import Matrix
from gradus.policies.token_sampling import Settings, choose
from gradus.types import UserError, uniforms
from gradus.types.returned import shown, wrong
from gradus.types.rules import TokenRule

ROWS = 64  # sequences that advance together


class Rows(Protocol):
    """A network that reads several sequences, which advance together. The network's row for a sequence has a number for each token that may come
    next."""

    def begin(self, jobs: Sequence[Job], rooms: Sequence[int]) -> Tensor:
        """Returns the rows [n, V] after the prefixes."""
        ...

    def step(self, tokens: np.ndarray, going: np.ndarray, inputs: Tensor | None = None) -> Tensor:
        """Returns the rows [n, V] after one more token int64 [n]. `going`, bool [n], marks the sequences that continue.

        The rows of the other sequences have no meaning. `inputs`: vectors [n, hidden] in place of the tokens' embeddings; a row of NaN keeps the
        token's embedding.
        """
        ...


class DecoderRows:
    """The rows of the built-in decoder: its logits or, with `heads`, the outputs of one head over the vocabulary."""

    def __init__(self, decoder: Decoder, longest: int, heads: Heads | None = None, name: str | None = None) -> None:
        self.fused, self.longest = Fused(decoder, max(longest, padded(longest))), longest
        if heads is not None:
            found = _matrices(heads, name, self.fused.embedding.dtype)
            self.fused.head_logits = partial(_head_row, self.fused, heads, name, found)  # type: ignore[method-assign]
            self.fused.sizes = tuple(sorted({*self.fused.sizes} & {*menu(found)}))

    def begin(self, jobs: Sequence[Job], rooms: Sequence[int]) -> Tensor:
        f, count = self.fused, cover(len(jobs), self.fused.sizes)
        self.starts = np.array([len(job.prefix) for job in jobs], np.int64)
        self.counts = np.zeros(len(jobs), np.int64)  # tokens read after the prefix
        self.tokens = np.array([job.prefix[-1] for job in jobs], np.int64)
        own, whole = max(rooms), int((self.starts + np.array(rooms)).max())
        self.cache: Any
        if fits(f):
            self.cache = CompiledCache(f, count, prefix=int(self.starts.max()), own=own)
        else:
            self.cache = PlainCache(f, count, sequence=whole, context=self.longest)
        read: dict[bytes, Any] = {}
        names = [job.prefix.tobytes() + identity(job.inputs) for job in jobs]
        lengths: dict[int, dict[bytes, Job]] = {}
        for job, name in zip(jobs, names, strict=True):
            lengths.setdefault(padded(len(job.prefix)), {})[name] = job
        for some in lengths.values():
            given = [job.inputs for job in some.values()] if any(job.inputs is not None for job in some.values()) else ()
            read |= zip(some, self.cache.read([job.prefix for job in some.values()], given), strict=True)
        for slot, name in enumerate(names):
            self.cache.fill(slot, read[name])
        return torch.stack([read[name].logits for name in names])

    def step(self, tokens: np.ndarray, going: np.ndarray, inputs: Tensor | None = None) -> Tensor:
        n, rows = len(tokens), cover(len(tokens), self.fused.sizes)
        self.tokens = np.where(going, tokens, self.tokens)  # a sequence that has ended reads a token again at its last place; this has no effect
        self.counts = self.counts + going
        places = self.starts + np.maximum(self.counts, 1) - 1
        padding = (0, rows - n)
        whole = None if inputs is None else torch.cat([inputs, inputs.new_full((rows - n, inputs.shape[1]), torch.nan)])
        return self.cache.step(np.pad(self.tokens, padding), np.pad(places, padding), n, *([] if whole is None else [whole]))[:n]


def _matrices(heads: Heads, name: str | None, dtype: torch.dtype) -> list[Matrix]:
    """Returns the matrices of one head over the vocabulary: the matrix of the inner layer (if the head has one) and the matrix of the outputs."""
    index, wide = heads.outputs.index(name or heads.outputs[0]), torch.float64 if dtype == torch.float64 else torch.float32
    part = slice(index * heads.size, (index + 1) * heads.size)
    weights = [*([heads.inner_weight[index]] if heads.layer else []), heads.weight[part]]
    return [Matrix(even(weight.to(wide).t())) for weight in weights]


def _head_row(fused: Fused, heads: Heads, name: str | None, matrices: Sequence[Matrix], x: Tensor) -> Tensor:
    """Computes a head over the vocabulary from normed vectors [rows, hidden], in products of allowed sizes."""
    index, wide = heads.outputs.index(name or heads.outputs[0]), torch.float64 if x.dtype == torch.float64 else torch.float32
    x = x.to(wide)
    if heads.layer:
        x = torch.relu(fused.product(x, matrices[0])[:, : heads.layer] + heads.inner_bias[index].to(wide))
    found = fused.product(x.contiguous(), matrices[-1])[:, : heads.size]
    return found + heads.bias[index * heads.size : (index + 1) * heads.size].to(wide)


class StepwiseRows:
    """The rows of a network that decodes one sequence at a time."""

    def __init__(self, network: Stepwise) -> None:
        self.network = network

    def begin(self, jobs: Sequence[Job], rooms: Sequence[int]) -> Tensor:
        found = [self.network.begin(job.prefix) for job in jobs]
        self.states, self.rows = [state for _, state in found], [row for row, _ in found]
        return torch.stack(self.rows)

    def step(self, tokens: np.ndarray, going: np.ndarray, inputs: Tensor | None = None) -> Tensor:
        for i in np.flatnonzero(going).tolist():
            self.rows[i], self.states[i] = self.network.advance(self.states[i], int(tokens[i]))
        return torch.stack(self.rows)


def rows_of(network: Decoder | Stepwise, longest: int, heads: Heads | None = None, name: str | None = None) -> Rows:
    """Returns the rows of a network. Raises UserError for a head of a model that runs through transformers."""
    if isinstance(network, Decoder):
        return DecoderRows(network, longest, heads, name)
    if heads is not None:
        raise UserError(
            "a token rule that reads a head needs the built-in decoder, but the model runs through transformers; take a model that the "
            "built-in decoder supports"
        )
    return StepwiseRows(network)


Mixed = Callable[[np.ndarray, Tensor, np.ndarray, Sequence[np.ndarray]], tuple[Tensor, Tensor]]
"""(new tokens [n], the logits [n, V] that drew the new tokens, going [n], all tokens so far) -> (input vectors, vectors to keep). A row of NaN means no
vector."""


def generate_by_rule(
    networks: Callable[[int], Mapping[str, Rows]],
    rule: TokenRule,
    jobs: Sequence[Job],
    *,
    end_tokens: Collection[int],
    decode_text: DecodeText,
    max_context: int,
    rows: int = ROWS,
    mix: Callable[[Sequence[Job]], Mixed] | None = None,
    prefixes: Mapping[str, Sequence[np.ndarray]] | None = None,
) -> list[Sampled]:
    """Samples all jobs by a token rule and returns the samples in order, as `engine.generate` does.

    `networks(longest)` makes the players' rows for sequences of at most this length. Log-probabilities are of the rule's tempered distribution,
    before top-k, top-p and min-p. `mix` makes the input vectors of new tokens. `prefixes`: for players that read other tokens in place of the prefixes of the
    jobs, one array per job.

    Raises: UserError if the rule lacks logits for a row, or if no token can be drawn from a row.
    """
    out: list[Sampled] = []
    for job in jobs:
        check_job(job, max_context)
    others = prefixes or {}
    starts = [max([len(job.prefix), *(len(rows[i]) for rows in others.values())]) for i, job in enumerate(jobs)]
    longest = max((start + room(job, max_context) for start, job in zip(starts, jobs, strict=True)), default=0)
    ends = frozenset(int(t) for t in end_tokens)
    for start in range(0, len(jobs), rows):
        some = jobs[start : start + rows]
        read = {n: [replace(job, prefix=p) for job, p in zip(some, tokens[start : start + rows], strict=True)] for n, tokens in others.items()}
        with torch.inference_mode():
            out += _together(networks(longest), rule, some, ends, decode_text, max_context, None if mix is None else mix(some), read)
    return out


def _together(
    networks: Mapping[str, Rows],
    rule: TokenRule,
    jobs: Sequence[Job],
    ends: frozenset[int],
    decode_text: DecodeText,
    most: int,
    mix: Mixed | None,
    read: Mapping[str, Sequence[Job]],
) -> list[Sampled]:
    rooms = np.array([room(job, most) for job in jobs])
    tokens, logprobs = np.zeros((len(jobs), int(rooms.max())), np.int32), np.zeros((len(jobs), int(rooms.max())), np.float32)
    counts, stopped, going = np.zeros(len(jobs), np.int64), np.zeros(len(jobs), bool), np.ones(len(jobs), bool)
    keys, starts = np.array([job.key for job in jobs], np.uint64), np.array([len(job.prefix) for job in jobs])
    inputs: list[list[np.ndarray]] = [[] for _ in jobs]
    found = {name: network.begin(read.get(name, jobs), rooms.tolist()) for name, network in networks.items()}
    settings = Settings.of([job.sampling for job in jobs], next(iter(found.values())).device)
    while True:
        so_far = [row[:n] for row, n in zip(tokens, counts, strict=True)]
        logits = _checked(rule, rule.logits(found, so_far), found, going)
        chosen, likelihood = choose(logits, settings, torch.from_numpy(uniforms(keys, starts + counts)))
        new = chosen.cpu().numpy()
        for i in np.flatnonzero(going).tolist():
            tokens[i, counts[i]], logprobs[i, counts[i]] = new[i], float(likelihood[i])
            counts[i] += 1
            stopped[i] = int(new[i]) in ends or stop_reached(tokens[i, : counts[i]], jobs[i].sampling.stops, decode_text)
        given = None if mix is None else mix(new, logits, going, [row[:n] for row, n in zip(tokens, counts, strict=True)])
        if given is not None:
            for i in np.flatnonzero(going).tolist():
                inputs[i].append(given[1][i].float().cpu().numpy())
        going = going & ~stopped & (counts < rooms)
        if not going.any():
            break
        found = {name: network.step(new, going, None if given is None else given[0]) for name, network in networks.items()}
    streams = [np.stack(rows) if rows else None for rows in inputs]
    return [
        Sampled(t[:n].copy(), p[:n].copy(), reason(job, int(n), bool(s), int(m)), row)
        for t, p, n, job, s, m, row in zip(tokens, logprobs, counts, jobs, stopped, rooms, streams, strict=True)
    ]


def _checked(rule: TokenRule, logits: Any, rows: Mapping[str, Tensor], going: np.ndarray) -> Tensor:
    """Returns the rule's logits, contiguous.

    Raises UserError unless the logits are [B, V] and each row that continues has at least one token to draw.
    """
    due = next(iter(rows.values()))
    if not isinstance(logits, Tensor) or logits.shape != due.shape or not logits.is_floating_point():
        raise wrong(rule, "logits", shown(logits), f"logits of shape {list(due.shape)}, one row per sequence and one number per token")
    most = logits.amax(-1)[torch.from_numpy(going).to(logits.device)]
    if bool(most.isnan().any() | most.isinf().any()):
        raise wrong(rule, "logits", "a row with NaN, with infinity, or without any token that can be drawn", "finite numbers, and -inf for excluded tokens")
    return logits.contiguous()


@dataclass(frozen=True)
class Alone:
    """A token rule that returns the logits of one player unchanged."""

    player: str = "policy"

    @property
    def players(self) -> tuple[str, ...]:
        return (self.player,)

    def logits(self, rows: Mapping[str, Tensor], so_far: Sequence[np.ndarray]) -> Tensor:
        return rows[self.player]


def act_by_rule(asks: Sequence[Any], rule: Any, policies: Mapping[str, Any]) -> list[Any]:
    """Draws one context per request, in order, by a token rule over language models (`types.rules`).

    A policy must have the method `lockstep(longest, head)`, which returns its rows.

    Raises: UserError if a player has no logits, has another vocabulary, or lacks the head that the rule needs. Also raises UserError if a prompt has
    pictures.
    """
    heads, who = dict(getattr(rule, "heads", {})), type(rule).__name__
    first = policies[rule.players[0]]
    for name, policy in policies.items():
        if "rules" not in getattr(policy, "can", ()):
            kind = type(policy).__name__
            raise UserError(f"{who} reads the logits of player {name}, but {kind} gives no logits; leave out the engine of this player, or take a language model")
        if policy.vocabulary != first.vocabulary:
            raise UserError(
                f"{who} combines the logits of {rule.players[0]} and {name}, but they have {first.vocabulary} and {policy.vocabulary} tokens; "
                "take models with the same tokenizer"
            )
        if name in heads and f"row:{heads[name]}" not in policy.can:
            raise UserError(
                f'{who} reads the head "{heads[name]}" of player {name} over the vocabulary, but this player has no such head; '
                f'give the player model=Head(of=Copy("policy"), outputs=("{heads[name]}",), over="vocabulary")'
            )
    if hasattr(rule, "bound"):
        rule = rule.bound(lambda text: [int(t) for t in first.told(text).tokens if int(t) not in first.end_tokens])
    if any(a.parent.shown_in(a.at) for a in asks):
        raise UserError(f"{who} samples only after prompts of text, but a prompt shows a picture; take a text task, or sample without a rule")
    jobs = [Job(a.parent.sequence[: a.at], a.sampling, a.key.value) for a in asks]
    most = min(p.context_length for p in policies.values())
    prefixes = rule.prefixes(len(jobs)) if hasattr(rule, "prefixes") else {}
    for name, tokens in prefixes.items():
        if any(len(p) + room(job, most) > policies[name].context_length for p, job in zip(tokens, jobs, strict=True)):
            raise UserError(
                f"{who}: the text that player {name} reads and the new tokens exceed the context of {policies[name].context_length} tokens; shorten the text"
            )
    sampled = generate_by_rule(
        lambda longest: {name: policy.lockstep(longest, heads.get(name)) for name, policy in policies.items()},
        rule,
        jobs,
        end_tokens=first.end_tokens,
        decode_text=first.text,
        max_context=most,
        prefixes=prefixes,
    )
    return [sampled_context(a, s) for a, s in zip(asks, sampled, strict=True)]
