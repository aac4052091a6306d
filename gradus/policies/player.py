"""A player at run time: its policy, its optimiser and how often it moved."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from gradus.recipe import Setting
from gradus.types.players import Player
from gradus.updates.optimizers import AdamW, rate


class Learner:
    """What a recipe's `Player` becomes when its model is there. Frozen players have no optimiser.

    Weights narrower than float32 are kept in float32 beside the network (`masters`), or small updates would round away.
    """

    def __init__(self, name: str, spec: Player, policy: Any, optimizer: AdamW, setting: Setting) -> None:
        self.name, self.spec, self.policy, self.rule, self.setting = name, spec, policy, optimizer, setting
        self.updates = 0
        self.parameters: list[torch.nn.Parameter] = []
        self.masters: list[torch.nn.Parameter] = []
        if self.learns:
            self.parameters = [p for p in policy.network.parameters() if p.requires_grad]
            narrow = any(p.dtype in (torch.bfloat16, torch.float16) for p in self.parameters)
            self.masters = [torch.nn.Parameter(p.detach().float().clone()) for p in self.parameters] if narrow else self.parameters
            self.optimizer = optimizer.build(self.masters)

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

    def move(self, step: int) -> dict[str, float]:
        """One optimiser step from the gradients that stand in the network. A non-finite gradient skips it, and says so."""
        if self.masters is not self.parameters:
            for master, p in zip(self.masters, self.parameters, strict=True):
                master.grad = None if p.grad is None else p.grad.float()
        norm = torch.nn.utils.clip_grad_norm_(self.masters, self.rule.clip if self.rule.clip is not None else float("inf"))
        if not torch.isfinite(norm):
            self.zero_grad()
            return {"grad_norm": float(norm), "skipped": 1.0}
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
        return {"grad_norm": float(norm), "learning_rate": lr, "skipped": 0.0}

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
        for index, p in enumerate(self.masters):
            prefix = f"optimizer.{index}."
            state = {n.removeprefix(prefix): t.clone() for n, t in tensors.items() if n.startswith(prefix)}
            if state:
                # the moments stand beside the weights; the count of steps belongs on the CPU
                self.optimizer.state[p] = {n: t if n == "step" else t.to(p.device) for n, t in state.items()}
            if self.masters is not self.parameters:
                with torch.no_grad():
                    p.copy_(tensors[f"masters.{index}"])
