"""A player at run time: its policy, its optimiser and the number of its updates."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from statistics import median
from types import SimpleNamespace
from typing import Any, Protocol, TypeVar, cast

import torch
from torch import Tensor

from gradus.objectives.corrections import corrected
from gradus.objectives.terms import Weight
from gradus.players.rates import BUILT_IN
from gradus.players.subset import factors, restrict
from gradus.recipe.core import Setting
from gradus.runtime.activity import part
from gradus.runtime.memory import Record, fitting
from gradus.runtime.user_code import asked
from gradus.types import Context, UserError
from gradus.types.players import Player
from gradus.types.returned import shown, wrong
from gradus.updates.diagnosis import Diagnosis
from gradus.updates.optimizers import AdamW, rate

T = TypeVar("T")


class Others(Protocol):
    """The other processes of a player with divided weights: every process has a part of each weight, with the gradient and the moments of this part.

    Every method also does the work of this process.
    """

    def zero_grad(self) -> None: ...

    def norm(self) -> Tensor: ...

    def not_finite(self, *, gradients: bool = False) -> tuple[str, ...]: ...

    def advance(self, norm: Tensor, clip: float | None) -> None: ...

    def forget(self) -> None: ...

    def tensors(self) -> dict[str, Tensor]: ...

    def load(self, tensors: Mapping[str, Tensor], updates: int) -> None: ...

    def take(self, other: Learner, share: float) -> None: ...


class Learner:
    """A `Player` of the recipe, together with its loaded model. Frozen players have no optimiser.

    `masters` are float32 copies of weights narrower than float32, because small updates of narrow weights would be lost by rounding.
    """

    def __init__(self, name: str, spec: Player, policy: Any, optimizer: AdamW, setting: Setting) -> None:
        self.name, self.spec, self.policy, self.rule, self.setting = name, spec, policy, optimizer, setting
        self.written = spec  # the player as the recipe of the step describes it
        self.built: tuple[Player, Any, Setting] | None = None  # player, rule and setting of the run's recipe, while the learner uses the recipe of a step
        self.weight: Weight | None = None  # the weight on the policy terms of the objective
        self.updates = 0
        self.micro_tokens = setting.micro_tokens  # tokens per micro-batch; the number is reduced if memory runs out
        self.most_asks: int | None = None  # largest number of samples at a time; reduced if memory runs out; None: no limit
        self.norms: list[float] = []  # norms of the last gradients, for the guard against spikes
        self.record: Record | None = None  # the decisions of the current step
        self.spoilt: tuple[str, ...] = ()  # parameters whose last gradient was not finite
        self.bad: list[Diagnosis] = []  # updates skipped since the list was last read
        self.spikes: list[dict[str, Any]] = []  # gradient spikes since the list was last read
        self.others: Others | None = None  # the other processes, if each process has a part of every weight (`gradus.systems.sharded`)
        self.parameters: list[torch.nn.Parameter] = []
        self.masters: list[torch.nn.Parameter] = []
        if self.learns:
            restrict(name, policy.network, spec)
        self.bind()

    def bind(self) -> None:
        """Finds the trained parameters of the network, and makes a new optimizer. Makes float32 copies of parameters with 16 bits."""
        if not self.learns:
            return
        learning = {n: p for n, p in self.policy.network.named_parameters() if p.requires_grad}
        self.parameters, self.factors = list(learning.values()), factors(self.name, learning, self.spec.rates)
        narrow = any(p.dtype in (torch.bfloat16, torch.float16) for p in self.parameters)
        self.masters = [torch.nn.Parameter(p.detach().float().clone()) for p in self.parameters] if narrow else self.parameters
        self.optimizer = self._built(self.rule)

    def _built(self, rule: Any) -> torch.optim.Optimizer:
        """Makes the optimizer by a rule. Parameters with the same factor on the learning rate form one group."""
        by = {factor: [p for p, f in zip(self.masters, self.factors, strict=True) if f == factor] for factor in self.factors}
        made = _built(rule, self.masters, [{"params": mine} for mine in by.values()] if len(by) > 1 else self.masters)
        factor_of = {id(p): f for p, f in zip(self.masters, self.factors, strict=True)}
        self.group_factors = []
        for group in made.param_groups:
            found = {factor_of[id(p)] for p in group["params"]}
            if len(found) > 1:
                due = "an optimizer that keeps the given groups of parameters, because each group has its own rate"
                raise wrong(rule, "build", f"{shown(made)} with one group of parameters in place of several groups", due)
            self.group_factors.append(found.pop())
        return made

    @property
    def learns(self) -> bool:
        return self.spec.objective is not None

    @property
    def dtype(self) -> torch.dtype:
        """Returns the dtype of the player's batches: float64 for a float64 network, else float32."""
        return torch.float64 if next(self.policy.network.parameters()).dtype == torch.float64 else torch.float32

    def zero_grad(self) -> None:
        for p in self.parameters:
            p.grad = None
        if self.others is not None:
            self.others.zero_grad()

    def fitting(self, contexts: Sequence[Context], work: Callable[[int], T], purpose: str = "score") -> T:
        """Clears the gradients, then calls work(tokens per micro-batch). If memory runs out, repeats both with fewer tokens. See `runtime.memory`.

        The step's record counts the actions of the contexts once, under `purpose`.
        """

        def anew(tokens: int) -> T:
            self.zero_grad()
            return work(tokens)

        if self.record is not None:
            self.record.count(purpose, self.name, sum(c.actions for c in contexts))
        return fitting(self, contexts, anew, self.record)

    def follow(self, spec: Player, setting: Setting) -> None:
        """Uses the objective, credit, optimizer and setting of a step's recipe until `back` is called."""
        self.built = self.built or (self.written, self.rule, self.setting)
        self._take(spec, spec.optimizer, setting)

    def back(self) -> None:
        """Returns to the recipe with which the player was built."""
        if self.built is not None:
            built, self.built = self.built, None
            self._take(*built)

    def _take(self, spec: Player, rule: Any, setting: Setting) -> None:
        if self.learns and rule != self.rule:
            for group, new in zip(self.optimizer.param_groups, self._built(rule).param_groups, strict=True):
                group.update({name: value for name, value in new.items() if name != "params"})
        self.written, self.rule, self.setting = spec, rule, setting
        self.correct(self.weight)

    def correct(self, weight: Weight | None) -> None:
        """Puts `weight` on the policy terms of the objective from now on (see `corrected`).

        If `weight` is None, the player uses the objective of the recipe.
        """
        self.weight = weight
        self.spec = self.written if weight is None else replace(self.written, objective=corrected(self.written.objective, weight))

    def watched(self) -> dict[str, Any]:
        """Returns the current sizes of micro-batches and the recent gradient norms, as plain values. These values are part of a run's state."""
        return {"micro_tokens": self.micro_tokens, "most_asks": self.most_asks, "norms": list(self.norms)}

    def watch(self, state: Mapping[str, Any]) -> None:
        """Restores the values that `watched` returned. If the state lacks a value, sets the value that a new run has."""
        self.micro_tokens = state.get("micro_tokens", self.setting.micro_tokens)
        self.most_asks, self.norms = state.get("most_asks"), list(state.get("norms", ()))

    def skip(self, norm: float = float("nan")) -> dict[str, float]:
        """Discards the gradients without an optimiser step. `norm`: the norm of the gradients; NaN if it was not computed."""
        self.zero_grad()
        return {"grad_norm": norm, "skipped": 1.0}

    def _spiked(self, norm: float) -> bool:
        """Whether the norm is above `spike` times the median of the last norms.

        The last norms include spikes. So if the norms stay high, high norms are accepted after some steps.
        """
        guard, before = self.setting.guard, [n for n in self.norms if n > 0]  # a batch without signal has norm 0
        if guard.spike is None:
            return False
        self.norms = [*self.norms, norm][-guard.window :]
        if len(before) < guard.least or norm <= guard.spike * median(before):
            return False
        self.spikes.append({"player": self.name, "norm": norm, "median": median(before), "limit": guard.spike * median(before)})
        return True

    @part("optimiser")
    def move(self, step: int) -> dict[str, float]:
        """Takes an optimiser step with the network's gradients, and returns the metrics of the step.

        The step is skipped (`skipped` is 1) if the norm of the gradients is not finite or is a spike.
        """
        norm = self.norm() if self.others is None else self.others.norm()
        if not torch.isfinite(norm):
            self.spoilt = self.not_finite(gradients=True) if self.others is None else self.others.not_finite(gradients=True)
            return self.skip(float(norm))
        guarded = {} if self.setting.guard.spike is None else {"spiked": float(self._spiked(float(norm)))}
        if guarded.get("spiked"):
            return {**self.skip(float(norm)), **guarded}
        lr = rate(
            step,
            peak=next(rate for rate in (self.rule.lr, self.setting.learning_rate, BUILT_IN) if rate is not None),
            warmup=self.rule.warmup if self.rule.warmup is not None else self.setting.warmup,
            total=self.setting.steps,
            decay=self.rule.decay,
            final=self.rule.final,
        )
        for group, factor in zip(self.optimizer.param_groups, self.group_factors, strict=True):
            group["lr"] = lr * factor
        if self.others is None:
            self.advance(norm, self.rule.clip)
        else:
            self.others.advance(norm, self.rule.clip)
        self.zero_grad()
        self.updates += 1
        return {"grad_norm": float(norm), "learning_rate": lr, "skipped": 0.0, **guarded}

    def norm(self) -> Tensor:
        """Returns the norm of the gradients that this process has."""
        if self.masters is not self.parameters:
            for master, p in zip(self.masters, self.parameters, strict=True):
                master.grad = None if p.grad is None else p.grad.float()
        return torch.nn.utils.get_total_norm([held(p.grad) for p in self.masters if p.grad is not None])

    def not_finite(self, *, gradients: bool = False) -> tuple[str, ...]:
        """Returns the names of the trained weights that are not finite in this process; with `gradients`, of weights whose gradients are not finite."""
        learning = [(name, p) for name, p in self.policy.network.named_parameters() if p.requires_grad]
        seen = [(name, m.grad if gradients else p) for (name, p), m in zip(learning, self.masters, strict=True)]
        return tuple(name for name, t in seen if t is not None and not bool(torch.isfinite(held(t)).all()))

    def advance(self, norm: Tensor, clip: float | None) -> None:
        """Clips the gradients and takes an optimiser step, with the learning rates of the optimiser's groups.

        `norm`: norm of all gradients of the player. `clip`: the largest norm after the clipping; None: no clipping.
        """
        if clip is not None:
            given = [SimpleNamespace(grad=held(p.grad)) for p in self.masters if p.grad is not None]
            torch.nn.utils.clip_grads_with_norm_(cast("list[Tensor]", given), clip, norm)
        self.optimizer.step()
        torch.autograd.graph.increment_version(self.masters)  # a fused step does not do this; the cache of pictures needs it
        if self.masters is not self.parameters:
            with torch.no_grad():
                for master, p in zip(self.masters, self.parameters, strict=True):
                    p.copy_(master)

    def forget(self) -> None:
        """Deletes the optimiser's state: its moments and its count of steps."""
        self.optimizer.state.clear()
        if self.others is not None:
            self.others.forget()

    def take(self, other: Learner, share: float = 1.0) -> None:
        """Sets the player's weights to (1 - share) * (its weights) + share * (the weights of `other`).

        Weights narrower than float32 are averaged in float32. Raises UserError if the two networks differ.
        """
        mine, theirs = self._wide(), other._wide()
        if {n: w.shape for n, w in mine.items()} != {n: w.shape for n, w in theirs.items()}:
            raise UserError(
                f"the schedule gives {self.name} the weights of {other.name}, but their networks differ (an adapter, a head, another model); "
                f"make one player a copy of the other player: --players.{self.name if self.name != 'policy' else other.name}.model Copy"
            )
        if self.others is not None:
            self.others.take(other, share)
        with torch.no_grad():
            for name, weight in mine.items():
                own, found = (w.to(weight.device, torch.promote_types(weight.dtype, torch.float32)) for w in (weight, theirs[name]))
                weight.copy_(own.mul(1 - share).add(found, alpha=share))
            for master, p in zip(self.masters, self.parameters, strict=True):
                if master is not p:
                    p.copy_(master)
        self.updates += 1

    def _wide(self) -> dict[str, Tensor]:
        """Returns the parameters by name. If a parameter has a float32 copy, the copy is returned in its place."""
        masters = {id(p): master for p, master in zip(self.parameters, self.masters, strict=True)}
        return {name: masters.get(id(p), p).detach() for name, p in self.policy.network.named_parameters()}

    def tensors(self) -> dict[str, Tensor]:
        """Returns the tensors of a checkpoint by name: weights, optimiser moments and float32 masters."""
        if self.others is not None:
            return self.others.tensors()
        out = {f"weights.{n}": t for n, t in self.policy.network.state_dict().items()}
        if self.learns:
            for index, p in enumerate(self.masters):
                for name, value in self.optimizer.state.get(p, {}).items():
                    out[f"optimizer.{index}.{name}"] = value
            if self.masters is not self.parameters:
                out |= {f"masters.{i}": p.detach() for i, p in enumerate(self.masters)}
        return {n: t.detach().clone().contiguous() for n, t in out.items()}

    def load(self, tensors: Mapping[str, Tensor], updates: int) -> None:
        """Sets the weights, moments and masters from the tensors of a checkpoint (see `tensors`)."""
        if self.others is not None:
            self.others.load(tensors, updates)
            return
        self.updates = updates
        self.policy.network.load_state_dict({n.removeprefix("weights."): t for n, t in tensors.items() if n.startswith("weights.")})
        if not self.learns:
            return
        self.optimizer.state.clear()
        for index, p in enumerate(self.masters):
            prefix = f"optimizer.{index}."
            state = {n.removeprefix(prefix): t.clone() for n, t in tensors.items() if n.startswith(prefix)}
            if state:
                # the moments are on the device of the weights, but the count of steps is on the CPU
                self.optimizer.state[p] = {n: t if n == "step" else t.to(p.device) for n, t in state.items()}
            if self.masters is not self.parameters:
                with torch.no_grad():
                    p.copy_(tensors[f"masters.{index}"])


def held(tensor: Tensor) -> Tensor:
    """Returns the part of a divided tensor (`torch.distributed.tensor.DTensor`) that this process has, or an undivided tensor itself."""
    return cast("Tensor", tensor.to_local()) if hasattr(tensor, "to_local") else tensor


def _built(rule: Any, parameters: Sequence[torch.nn.Parameter], groups: Sequence[Any]) -> torch.optim.Optimizer:
    """Makes an optimizer with the recipe's `rule`. `groups`: the parameters, alone or in groups.

    Raises UserError if the result is not an optimizer of PyTorch for exactly these parameters.
    """
    with asked(rule, "build"):
        made = rule.build(groups)
    due = "a torch.optim.Optimizer of the parameters that it was given"
    if not isinstance(made, torch.optim.Optimizer):
        raise wrong(rule, "build", shown(made), due)
    if {id(p) for group in made.param_groups for p in group["params"]} != {id(p) for p in parameters}:
        raise wrong(rule, "build", f"{shown(made)} of other parameters", due)
    return made
