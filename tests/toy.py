"""A policy small enough to reason about (a bigram table), a task with it, and runs of a few steps: what recipe tests stand on."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from gradus.players.learner import Learner
from gradus.recipe.core import Recipe
from gradus.training.launch import go
from gradus.training.run import Run
from gradus.types import Context, Ended, Frozen, Group, Key, Outcome, Problem, Sampling, Trajectory, prompt_context, uniforms
from gradus.types.batch import Batch, make_batch
from gradus.types.parts import Task
from gradus.types.players import Head, Lagged, MovingAverage, Player
from gradus.types.signals import EntropyOf, LogProb, Value, Want

VOCABULARY = 8  # token 0 ends
END = 0


class Bigram(nn.Module):
    """logits of the next token = row of the token before; value = a number a token."""

    def __init__(self, key: Key, dtype: torch.dtype) -> None:
        super().__init__()
        self.logits = nn.Parameter(torch.from_numpy(key.normal(VOCABULARY, VOCABULARY)).to(dtype))
        self.values = nn.Parameter(torch.from_numpy(key.fold("value").normal(VOCABULARY)).to(dtype))


class BigramPolicy:
    """The policy interface over `Bigram`: act, evaluate, micro_batches, tokens, text."""

    can = frozenset({"logprobs", "value", "entropy", "fork"})
    context_length = 256

    def __init__(self, key: Key = Key(0), dtype: torch.dtype = torch.float64, micro: int | None = None) -> None:
        self.network = Bigram(key, dtype)
        self.micro = micro  # contexts a micro-batch; None: all

    def clone(self) -> BigramPolicy:
        return copy.deepcopy(self)

    def tokens(self, prompt: Any) -> np.ndarray:
        text = prompt if isinstance(prompt, str) else prompt[-1]["content"]
        return np.array([1 + (ord(c) % (VOCABULARY - 1)) for c in text], dtype=np.int32)

    def follow(self, observation: Any) -> np.ndarray:
        return self.tokens(observation)

    def completion_tokens(self, text: str) -> np.ndarray:
        return np.array([*((ord(c) - ord("a")) % VOCABULARY for c in text), END], dtype=np.int32)

    def text(self, tokens: np.ndarray) -> str:
        return "".join(chr(ord("a") + int(t)) for t in tokens if t != END)

    def act(self, asks: Sequence[Any]) -> list[Context]:
        return [self._one(ask) for ask in asks]

    def _one(self, ask: Any) -> Context:
        logp = torch.log_softmax(self.network.logits.detach().double() / (ask.sampling.temperature or 1.0), -1).numpy()
        start = ask.parent.sequence[: ask.at]
        out: list[int] = []
        for position in range(len(start), len(start) + ask.sampling.max_tokens):
            row = logp[out[-1] if out else int(start[-1])]
            u = float(uniforms(np.uint64(ask.key.value), np.array(position)))
            token = (
                int(row.argmax())
                if ask.sampling.temperature == 0
                else min(int(np.searchsorted(np.exp(row).cumsum(), u, "right")), VOCABULARY - 1)
            )
            out.append(token)
            if token == END:
                break
        before = [int(start[-1]), *out[:-1]]
        return Context(
            tokens=np.array(out, np.int32),
            chosen=np.ones(len(out), bool),
            logprobs=logp[before, out].astype(np.float32),
            versions=np.full(len(out), ask.version, np.int32),
            temperature=ask.sampling.temperature or 1.0,
            parent=(ask.parent, ask.at),
            ended=Ended.STOP if out[-1] == END else Ended.LENGTH,
        )

    def evaluate(self, contexts: Sequence[Context], wants: Sequence[Want], *, key: Key = Key(0)) -> dict[Want, Tensor]:
        before = torch.from_numpy(np.concatenate([c.sequence[c.action_positions - 1] for c in contexts]).astype(np.int64))
        token = torch.from_numpy(np.concatenate([c.sequence[c.action_positions] for c in contexts]).astype(np.int64))
        heat = torch.from_numpy(np.repeat([c.temperature for c in contexts], [c.actions for c in contexts]))[:, None]
        logp = torch.log_softmax(self.network.logits.index_select(0, before) / heat.to(self.network.logits), -1)
        rows = {
            LogProb(): lambda: logp.gather(1, token[:, None])[:, 0],
            EntropyOf(): lambda: -(logp.exp() * logp).sum(-1),
            Value(): lambda: self.network.values.index_select(0, before),
        }
        return {w: rows[w]() for w in wants}

    def micro_batches(self, contexts: Sequence[Context], max_tokens: int) -> list[list[int]]:
        size = self.micro or max(len(contexts), 1)
        order = list(range(len(contexts)))
        return [order[i : i + size] for i in range(0, len(order), size)]


HINTS = Frozen(knowledge=tuple("abcd"), planning=tuple("efga"), solution=tuple("bcde"))


class ToySource:
    """Problem i asks for the letter i; the answer is a text that earns more the more often it says that letter."""

    size = None

    def draw(self, indices: Sequence[int], level: int | None, key: Key) -> list[Problem]:
        return [
            Problem(f"toy/{i}", "toy", text=chr(ord("a") + i % 7), answer=(b := chr(ord("b") + i % 7)), meta=Frozen(solution=b * 2, hints=HINTS))
            for i in indices
        ]


def verify(problem: Problem, completion: str) -> Outcome:
    return float(problem.answer in completion)


TOY = Task(
    "toy",
    ToySource(),
    ToySource(),
    verify,
    sampling=Sampling(max_tokens=6),
    provides=frozenset({"hints", "solution", "demonstration", "pairs"}),
)


def toy_run(recipe: Recipe, *, steps: int = 2, task: Task = TOY, seed: int = 0, micro: int | None = None, **setting: Any) -> Run:
    """A run of the recipe over bigram policies in float64, not yet trained. Players are those that the recipe names."""
    defaults = {"steps": steps, "prompts": 4, "group": 4, "learning_rate": 0.05, "warmup": 0, "eval_every": 0, "save_every": 0}
    recipe = replace(recipe, setting=replace(recipe.setting, **{**defaults, **setting}), study=None)
    policy = BigramPolicy(Key(7), micro=micro)
    specs = {"policy": recipe.players.get("policy", Player()), **recipe.players}
    specs["policy"] = replace(specs["policy"], objective=recipe.objective, credit=recipe.credit)
    players = {}
    for name, spec in specs.items():
        mine = policy if name == "policy" else policy.clone()
        if spec.objective is None and not isinstance(spec.model, (Head, Lagged, MovingAverage)):
            mine.network.requires_grad_(False)
        players[name] = Learner(name, spec, mine, spec.optimizer or recipe.optimizer, recipe.setting)
    return Run(recipe, task, players, seed=seed)


def train_toy(recipe: Recipe, *, watch: Callable[[Any, Any, Any], None] | None = None, **options: Any) -> Run:
    """The run after its steps; `watch(run, metrics, groups)` is called at each."""
    run = toy_run(recipe, **options)
    run.on_step = watch
    return go(run)


def trajectory(
    tokens: Sequence[int],
    *,
    reward: float = 0.0,
    name: str = "t",
    prompt: Context | None = None,
    logprobs: Sequence[float] | None = None,
    **more: Any,
) -> Trajectory:
    """One trajectory of one context, everything in it chosen; log-probabilities 0 unless given."""
    parent = prompt or prompt_context([1])
    context = Context(
        tokens=np.array(tokens, np.int32),
        chosen=np.ones(len(tokens), bool),
        logprobs=np.array(logprobs if logprobs is not None else np.zeros(len(tokens)), np.float32),
        versions=np.zeros(len(tokens), np.int32),
        parent=(parent, len(parent.sequence)),
    )
    return Trajectory(name, Problem("p", "toy", text="a"), (context,), reward=reward, components=Frozen(verified=reward), **more)


def group(*rewards: float, lengths: Sequence[int] | None = None, key: str = "g") -> Group:
    """A group with these rewards; trajectory i has lengths[i] tokens (2 unless given)."""
    lengths = lengths or [2] * len(rewards)
    prompt = prompt_context([1])
    return Group(
        key,
        tuple(
            trajectory([2] * n, reward=r, name=f"{key}/{i}", prompt=prompt) for i, (r, n) in enumerate(zip(rewards, lengths, strict=True))
        ),
    )


def batch(*groups: Group, advantages: Sequence[float] | None = None, signals: Any = None) -> Batch:
    """The groups as a float64 batch; one advantage a trajectory, in order (1 unless given)."""
    left = iter(advantages if advantages is not None else [1.0] * sum(len(g.trajectories) for g in groups))
    credited = [g.but(trajectories=tuple(t.but(advantages=np.full(t.actions, next(left))) for t in g.trajectories)) for g in groups]
    return make_batch(credited, signals, dtype=torch.float64)


def advantages(rule: Any, *groups: Group, signals: Any = None) -> list[list[list[float]]]:
    """What a credit rule assigns: per group, per trajectory, per action."""
    return [[c.advantages.tolist() for c in row] for row in rule.assign(list(groups), signals or {})]


def gradients(recipe: Recipe, *, micro: int | None, steps: int = 1, **options: Any) -> dict[str, dict[str, Tensor]]:
    """The weights of every learning player after `steps` updates by plain gradient steps of size 1, so that they show the gradient itself."""
    from gradus.updates.optimizers import AdamW

    class Plain(AdamW):
        def build(self, parameters: Any) -> torch.optim.Optimizer:
            return torch.optim.SGD(parameters, lr=0.0)

    plain = Plain(lr=1.0, clip=None)
    changes = {f"players__{n}__optimizer": plain for n, p in recipe.players.items() if p.objective is not None and n != "policy"}
    run = train_toy(recipe.but(optimizer=plain, **changes), micro=micro, steps=steps, **options)
    return {n: {k: v.clone() for k, v in p.policy.network.state_dict().items()} for n, p in run.players.items() if p.learns}
