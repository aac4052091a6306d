"""A player at run time: its policy, its optimiser and how often it moved."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from statistics import median
from typing import Any, TypeVar

import torch
from torch import Tensor

from gradus.objectives.corrections import corrected
from gradus.objectives.terms import Weight
from gradus.recipe.core import Setting
from gradus.runtime.memory import Record, fitting
from gradus.runtime.user_code import asked
from gradus.types import Context
from gradus.types.players import Player
from gradus.types.returned import shown, wrong
from gradus.updates.diagnosis import Diagnosis
from gradus.updates.optimizers import AdamW, rate

T = TypeVar("T")


class Learner:
    """What a recipe's `Player` becomes when its model is there. Frozen players have no optimiser.

    Weights narrower than float32 are kept in float32 beside the network (`masters`), or small updates would round away.
    """

    def __init__(self, name: str, spec: Player, policy: Any, optimizer: AdamW, setting: Setting) -> None:
        self.name, self.spec, self.policy, self.rule, self.setting = name, spec, policy, optimizer, setting
        self.written = spec  # as the recipe has it
        self.updates = 0
        self.micro_tokens = setting.micro_tokens  # fewer from where memory ran out
        self.most_asks: int | None = None  # samples at a time; fewer from where memory ran out
        self.norms: list[float] = []  # of the last gradients, for what guards against spikes
        self.record: Record | None = None  # of the present step: what was decided in it
        self.spoilt: tuple[str, ...] = ()  # parameters whose last gradient was not finite
        self.bad: list[Diagnosis] = []  # updates skipped since somebody last looked
        self.spikes: list[dict[str, Any]] = []  # likewise, for gradients far above the others
        self.parameters: list[torch.nn.Parameter] = []
        self.masters: list[torch.nn.Parameter] = []
        if self.learns:
            self.parameters = [p for p in policy.network.parameters() if p.requires_grad]
            narrow = any(p.dtype in (torch.bfloat16, torch.float16) for p in self.parameters)
            self.masters = [torch.nn.Parameter(p.detach().float().clone()) for p in self.parameters] if narrow else self.parameters
            self.optimizer = _built(optimizer, self.masters)

    @property
    def learns(self) -> bool:
        return self.spec.objective is not None

    @property
    def dtype(self) -> torch.dtype:
        """What the rows of its batch are computed in: float64 for a float64 network, else float32."""
        return torch.float64 if next(self.policy.network.parameters()).dtype == torch.float64 else torch.float32

    def zero_grad(self) -> None:
        for p in self.parameters:
            p.grad = None

    def fitting(self, contexts: Sequence[Context], work: Callable[[int], T]) -> T:
        """work(tokens of a micro-batch), from cleared gradients; in smaller micro-batches where memory runs out. Raises UserError."""

        def anew(tokens: int) -> T:
            self.zero_grad()
            return work(tokens)

        return fitting(self, contexts, anew, self.record)

    def correct(self, weight: Weight | None) -> None:
        """Weights the policy terms of the objective from here on; None: they are as the recipe has them."""
        self.spec = self.written if weight is None else replace(self.written, objective=corrected(self.written.objective, weight))

    def watched(self) -> dict[str, Any]:
        """What it learned about its own size and pace, as plain values: part of a run's state."""
        return {"micro_tokens": self.micro_tokens, "most_asks": self.most_asks, "norms": list(self.norms)}

    def watch(self, state: Mapping[str, Any]) -> None:
        """The inverse of `watched`; what is missing is as at the start."""
        self.micro_tokens = state.get("micro_tokens", self.setting.micro_tokens)
        self.most_asks, self.norms = state.get("most_asks"), list(state.get("norms", ()))

    def skip(self, norm: float = float("nan")) -> dict[str, float]:
        """No optimiser step: the gradient that stands in the network, of this norm (NaN: nobody looked), is thrown away."""
        self.zero_grad()
        return {"grad_norm": norm, "skipped": 1.0}

    def _spiked(self, norm: float) -> bool:
        """Whether the norm is a spike: above `spike` times the median of the last ones; kept with these either way, so that a lasting rise is borne."""
        guard, before = self.setting.guard, [n for n in self.norms if n > 0]  # a batch without signal says nothing of the pace
        if guard.spike is None:
            return False
        self.norms = [*self.norms, norm][-guard.window :]
        if len(before) < guard.least or norm <= guard.spike * median(before):
            return False
        self.spikes.append({"player": self.name, "norm": norm, "median": median(before), "limit": guard.spike * median(before)})
        return True

    def move(self, step: int) -> dict[str, float]:
        """One optimiser step from the gradients that stand in the network. A gradient that is not finite, or a spike, skips it, and that is said."""
        if self.masters is not self.parameters:
            for master, p in zip(self.masters, self.parameters, strict=True):
                master.grad = None if p.grad is None else p.grad.float()
        norm = torch.nn.utils.get_total_norm([p.grad for p in self.masters if p.grad is not None])
        if not torch.isfinite(norm):
            learning = [name for name, p in self.policy.network.named_parameters() if p.requires_grad]
            grads = zip(learning, self.masters, strict=True)
            self.spoilt = tuple(n for n, p in grads if p.grad is not None and not bool(torch.isfinite(p.grad).all()))
            return self.skip(float(norm))
        guarded = {} if self.setting.guard.spike is None else {"spiked": float(self._spiked(float(norm)))}
        if guarded.get("spiked"):
            return {**self.skip(float(norm)), **guarded}
        torch.nn.utils.clip_grads_with_norm_(self.masters, self.rule.clip if self.rule.clip is not None else float("inf"), norm)
        lr = rate(
            step,
            peak=self.rule.lr if self.rule.lr is not None else self.setting.learning_rate,
            warmup=self.rule.warmup if self.rule.warmup is not None else self.setting.warmup,
            total=self.setting.steps,
            decay=self.rule.decay,
            final=self.rule.final,
        )
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        self.optimizer.step()
        if self.masters is not self.parameters:
            with torch.no_grad():
                for master, p in zip(self.masters, self.parameters, strict=True):
                    p.copy_(master)
        self.zero_grad()
        self.updates += 1
        return {"grad_norm": float(norm), "learning_rate": lr, "skipped": 0.0, **guarded}

    def tensors(self) -> dict[str, Tensor]:
        """Everything that a resumed run needs: weights, optimiser moments and float32 masters, by name."""
        out = {f"weights.{n}": t for n, t in self.policy.network.state_dict().items()}
        if self.learns:
            for index, p in enumerate(self.masters):
                for name, value in self.optimizer.state.get(p, {}).items():
                    out[f"optimizer.{index}.{name}"] = value
            if self.masters is not self.parameters:
                out |= {f"masters.{i}": p.detach() for i, p in enumerate(self.masters)}
        return {n: t.detach().clone().contiguous() for n, t in out.items()}

    def load(self, tensors: Mapping[str, Tensor], updates: int) -> None:
        """The inverse of `tensors`."""
        self.updates = updates
        self.policy.network.load_state_dict({n.removeprefix("weights."): t for n, t in tensors.items() if n.startswith("weights.")})
        if not self.learns:
            return
        self.optimizer.state.clear()
        for index, p in enumerate(self.masters):
            prefix = f"optimizer.{index}."
            state = {n.removeprefix(prefix): t.clone() for n, t in tensors.items() if n.startswith(prefix)}
            if state:
                # the moments stand beside the weights; the count of steps belongs on the CPU
                self.optimizer.state[p] = {n: t if n == "step" else t.to(p.device) for n, t in state.items()}
            if self.masters is not self.parameters:
                with torch.no_grad():
                    p.copy_(tensors[f"masters.{index}"])


def _built(rule: Any, parameters: Sequence[torch.nn.Parameter]) -> torch.optim.Optimizer:
    """What a recipe's optimizer makes for these parameters. Raises UserError unless it is PyTorch's, of these parameters and no other."""
    with asked(rule, "build"):
        made = rule.build(parameters)
    due = "a torch.optim.Optimizer of the parameters that it was given"
    if not isinstance(made, torch.optim.Optimizer):
        raise wrong(rule, "build", shown(made), due)
    if {id(p) for group in made.param_groups for p in group["params"]} != {id(p) for p in parameters}:
        raise wrong(rule, "build", f"{shown(made)} of other parameters", due)
    return made
