"""Ways to cut one batch for a real network, and what each way makes of it: the rows of every action, and their derivatives by the weights.

A gradient is the slopes of the loss by the rows, carried through these derivatives. They are taken once a way (`Recorded`), so that hundreds of
objectives can be tried on all of them through the very functions of the update.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from gradus.policies.config import DecoderConfig
from gradus.policies.decoder import Decoder
from gradus.policies.heads import Heads
from gradus.policies.lm import LanguageModel
from gradus.policies.rows import take_rows
from gradus.policies.transformers_model import Foreign
from gradus.rollouts.mismatched_prompts import STREAM
from gradus.types import Context, Frozen, Key
from gradus.types.batch import Batch
from gradus.types.readers import DivergenceFrom
from gradus.types.signals import EntropyOf, LogProb, Value, Want
from gradus.updates.minibatches import gradient
from tests.reference.given import PAIRS, UNTIED, Row, Shape, batch_of, rows_of

VOCABULARY, WIDTH = 24, 16
KINDS: tuple[Want, ...] = (LogProb(), EntropyOf(), Value(), DivergenceFrom(), DivergenceFrom(direction="forward"))
COUNT = 20  # ways to cut
LIMITS = {torch.float64: 1e-10, torch.float32: 1e-5}  # what gradients may differ by


def decoder(dtype: torch.dtype) -> LanguageModel:
    """The built-in decoder, one layer of width 16, with a value head and a teacher of the same shape."""
    return taught(with_head(trunk(dtype, 5), dtype), LanguageModel(trunk(dtype, 8), None, (0,)))


def trunk(dtype: torch.dtype, seed: int) -> Decoder:
    shape = {"num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 8, "initializer_range": 0.2}
    config = DecoderConfig("qwen3", VOCABULARY, WIDTH, 24, 1, max_position_embeddings=64, qk_norm=True, **shape)
    return Decoder(config).initialise(Key(seed)).to(dtype)


def adapted(dtype: torch.dtype) -> LanguageModel:
    """A model that runs through transformers, of one layer of width 16, and a teacher like it; their norms compute in the dtype that they have."""
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(vocab_size=VOCABULARY, n_positions=64, n_embd=WIDTH, n_layer=1, n_head=2, initializer_range=0.2)

    def padded(seed: int) -> Padded:
        torch.manual_seed(seed)
        return Padded(GPT2LMHeadModel(config)).to(dtype)

    return taught(with_head(padded(3), dtype), LanguageModel(padded(9), None, (0,)))


def taught(policy: LanguageModel, teacher: LanguageModel) -> LanguageModel:
    """The policy with the player `teacher` beside it."""
    policy.others.update(policy=policy, teacher=teacher)
    return policy


def with_head(trunk: Any, dtype: torch.dtype) -> LanguageModel:
    head = Heads(WIDTH, Key(6), dtype=dtype)
    with torch.no_grad():
        head.weight.mul_(50)
    return LanguageModel(trunk, None, (0,), head=head)


class Padded(Foreign):
    """Like the adapter, but padded on either side, and by more than is needed."""

    left, more = False, 0

    def _rows(self, contexts: Sequence[Context], layer: int | None) -> tuple[Tensor, Tensor]:
        acting = [c for c in contexts if c.actions]
        length = max(len(c.sequence) for c in acting) + self.more
        tokens, mask, places = (torch.zeros(len(acting), length, dtype=torch.long) for _ in range(3))
        rows, targets = [], []
        for i, c in enumerate(acting):
            count = len(c.sequence)
            start = length - count if self.left else 0
            tokens[i, start : start + count] = torch.from_numpy(c.sequence.astype("int64"))
            mask[i, start : start + count], places[i, start : start + count] = 1, torch.arange(count)
            rows.append(i * length + start + torch.from_numpy(c.action_positions) - 1)
            targets.append(tokens[i, start + torch.from_numpy(c.action_positions)])
        hidden = layer is not None
        out = self.inner(input_ids=tokens, attention_mask=mask, position_ids=places, output_hidden_states=hidden, use_cache=False)
        found = out.logits if layer is None else out.hidden_states[layer]
        return take_rows(found.flatten(0, 1), torch.cat(rows)), torch.cat(targets)


def contexts_of(rows: list[Row], seed: int) -> dict[int, Context]:
    """A context with drawn tokens for each of the rows' own. A group shares its prompt; a trajectory's second context goes on from its first."""
    draw = random.Random(seed)
    prompts: dict[int, Context] = {}
    made: dict[int, Context] = {}
    before: dict[int, Context] = {}

    def tokens(count: int) -> np.ndarray:
        return np.array([draw.randrange(1, VOCABULARY) for _ in range(count)], np.int32)

    for c in dict.fromkeys(r.context for r in rows):
        mine = [r for r in rows if r.context == c]
        group, trajectory = mine[0].group, mine[0].trajectory
        if group not in prompts:
            prompt = tokens(draw.randrange(2, 9))
            prompts[group] = Context(prompt, np.zeros(len(prompt), bool))
        parent = before.get(trajectory, prompts[group])
        told = draw.randrange(0, 3) if trajectory in before else 0  # tokens of somebody else, between what was chosen
        chosen = np.array([False] * told + [True] * len(mine))
        made[c] = before[trajectory] = Context(
            tokens(len(chosen)), chosen, temperature=draw.choice((1.0, 0.7)), parent=(parent, len(parent.sequence))
        )
    return made


def batch_for(policy: LanguageModel, shape: list[list[Shape]], dtype: torch.dtype, seed: int = 0) -> Batch:
    """A batch whose log-probabilities at the start, as sampled and of the reference lie about those of the policy."""
    rows = rows_of(shape, seed)
    made = contexts_of(rows, seed)
    with torch.no_grad():
        now = policy.evaluate(list(made.values()), (LogProb(),))[LogProb()].tolist()
    near = [
        replace(r, now=p, old=p + r.old - r.now, behaviour=p + r.behaviour - r.now, reference=p + r.reference - r.now)
        for r, p in zip(rows, now, strict=True)
    ]
    plain = batch_of(
        near, lambda c, mine: replace(made[c], logprobs=np.array([r.behaviour for r in mine], np.float32), streams=streams(mine))
    )
    return as_dtype(plain, dtype)


def streams(rows: list[Row]) -> Frozen[np.ndarray]:
    return Frozen({STREAM: np.array([r.mismatched for r in rows])})


def as_dtype(batch: Batch, dtype: torch.dtype) -> Batch:
    names = ("weight", "advantages", "returns", "behaviour_logprobs", "in_trajectory", "in_group")
    old, signals = ({k: v.to(dtype) for k, v in rows.items()} for rows in (batch.old, batch.signals))
    return replace(batch, **{n: getattr(batch, n).to(dtype) for n in names}, old=old, signals=signals)


def ways(count: int, contexts: int, seed: int = 0) -> list[list[list[int]]]:
    """`count` random partitions of the contexts, in random order within and between the parts; one part, and parts of one, among them."""
    draw = random.Random(seed)
    out = []
    for number in range(count):
        order = draw.sample(range(contexts), contexts)
        pieces = {0: 1, 1: contexts}.get(number, draw.randrange(2, 6))
        cuts = sorted(draw.sample(range(1, contexts), pieces - 1))
        out.append([order[a:b] for a, b in zip([0, *cuts], [*cuts, contexts], strict=True)])
    return out


def shuffled(batch: Batch, seed: int) -> Batch:
    """The same mini-batch with its trajectories in another order, groups mixed."""
    order = list(range(len(batch.trajectories)))
    random.Random(seed).shuffle(order)
    return batch.subset(order)


class Cut:
    """A policy that is cut as told. `place`: the part of each context, by its identity, and its place there."""

    def __init__(self, policy: Any, contexts: Sequence[Context], way: list[list[int]]) -> None:
        self.policy, self.network = policy, policy.network
        self.part = {id(contexts[i]): (p, at) for p, piece in enumerate(way) for at, i in enumerate(piece)}

    def micro_batches(self, contexts: Sequence[Context], max_tokens: int) -> list[list[int]]:
        order = sorted(range(len(contexts)), key=lambda i: self.part[id(contexts[i])])
        parts = dict.fromkeys(self.part[id(contexts[i])][0] for i in order)
        return [[i for i in order if self.part[id(contexts[i])][0] == p] for p in parts]

    def evaluate(self, contexts: Sequence[Context], wants: Sequence[Want], key: Key | None = None) -> dict[Want, Tensor]:
        return self.policy.evaluate(contexts, wants, key=key)


class Recorded(Cut):
    """The same cut, with rows and derivatives as the network gave them for it. Its only weights are `at`, where the network stood."""

    def __init__(self, cut: Cut, contexts: Sequence[Context]) -> None:
        self.part = cut.part
        parameters = [p for p in cut.network.parameters() if p.requires_grad]
        self.rows: dict[int, dict[Want, tuple[Tensor, Tensor]]] = {}
        for piece in cut.micro_batches(contexts, 0):
            mine = [contexts[i] for i in piece]
            found = cut.evaluate(mine, KINDS)
            cuts = np.cumsum([c.actions for c in mine])[:-1].tolist()
            for want, values in found.items():
                slopes = torch.stack(
                    [_flat(torch.autograd.grad(v, parameters, retain_graph=True, allow_unused=True), parameters) for v in values]
                )
                pieces = zip(mine, values.detach().tensor_split(cuts), slopes.tensor_split(cuts), strict=True)
                for context, row, slope in pieces:
                    self.rows.setdefault(id(context), {})[want] = (row, slope)
        self.network = nn.Module()
        self.network.at = nn.Parameter(torch.zeros_like(slopes[0]))

    def evaluate(self, contexts: Sequence[Context], wants: Sequence[Want], key: Key | None = None) -> dict[Want, Tensor]:
        mine = [self.rows[id(c)] for c in contexts]
        return {w: torch.cat([m[w][0] for m in mine]) + torch.cat([m[w][1] for m in mine]) @ self.network.at for w in wants}


def _flat(gradients: Sequence[Tensor | None], parameters: Sequence[Tensor]) -> Tensor:
    return torch.cat([(torch.zeros_like(p) if g is None else g).flatten() for g, p in zip(gradients, parameters, strict=True)])


def gradient_of(policy: Any, batch: Batch, terms: Mapping[str, Any], micro_tokens: int = 0) -> Tensor:
    """The objective's gradient by every weight, as one vector."""
    policy.network.zero_grad(set_to_none=True)
    gradient(policy, batch, terms, micro_tokens, Key())
    return _flat([p.grad for p in policy.network.parameters()], list(policy.network.parameters()))


def spread(gradients: Sequence[Tensor]) -> float:
    """The largest difference of any from the first, as a share of the largest entry where that is above 1."""
    return max(float((g - gradients[0]).abs().max()) for g in gradients) / max(1.0, float(gradients[0].abs().max()))


@dataclass(frozen=True, eq=False)
class Ways:
    """One batch, in `COUNT` orders, and as many ways to cut it."""

    batches: list[Batch]
    cuts: list[Recorded]

    def gradients(self, term: Any, which: Sequence[int]) -> list[Tensor]:
        return [gradient_of(self.cuts[i], self.batches[i], {"it": term}) for i in which]


@cache
def recorded(kind: str, shape: str, dtype: torch.dtype) -> Ways:
    """The ways of "decoder" or "adapter" for the batch "untied" or "pairs"."""
    policy = {"decoder": decoder, "adapter": adapted}[kind](dtype)
    batch = batch_for(policy, {"untied": UNTIED, "pairs": PAIRS}[shape], dtype)
    cuts = []
    for number, way in enumerate(ways(COUNT, len(batch.contexts))):
        if kind == "adapter":
            for each in policy.others.values():
                each.trunk.left, each.trunk.more = bool(number % 2), number % 3
        cuts.append(Recorded(Cut(policy, batch.contexts, way), batch.contexts))
    return Ways([shuffled(batch, seed) for seed in range(COUNT)], cuts)
