"""Runs of a small model in this process: how they are started, spoilt and killed, and what of them must come out the same."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from gradus import api
from gradus.papers.bases.grpo import grpo
from gradus.players.learner import Learner
from gradus.training.run import Run
from gradus.types import Key

PLAIN = grpo.but(objective__kl=None, players__reference=None)


class Said:
    """A view that remembers what it was told."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def message(self, text: str) -> None:
        self.said.append(text)

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *a, **k: None


class Killed(BaseException):
    """As a SIGKILL: nothing of ours catches it."""


def start(home: Path, run: Path, steps: int = 8, **changes: Any) -> Run:
    fields = {"prompts": 2, "group": 4, "max_tokens": 4, "save_every": 2, "learning_rate": 1e-2, "eval_every": 3}
    planned = api.plan("grpo", str(home / "problems.jsonl"), model=str(home / "model"), reward=f"{home / 'good.py'}:score", steps=steps)
    recipe = planned.recipe.but(**{**{f"setting__{n}": v for n, v in fields.items()}, "study__problems": 2, **changes})
    return api.start(api.replace(planned, recipe=recipe), run)


def poison(monkeypatch: pytest.MonkeyPatch, bad: Callable[[int, bool], bool], weights: bool = False) -> None:
    """Gradients (or the weights after the move) are NaN at the steps where bad(step, whether the run never went back)."""
    move = Learner.move

    def poisoned(self: Learner, step: int) -> dict[str, float]:
        assert self.record is not None
        spoil = self.name == "policy" and bad(step, self.record.seed == Key(0))  # type: ignore[attr-defined]
        if spoil and not weights:
            self.parameters[1].grad.view(-1)[0] = float("nan")  # type: ignore[union-attr]
        moved = move(self, step)
        if spoil and weights:
            with torch.no_grad():
                self.parameters[1].view(-1)[0] = float("nan")
        return moved

    monkeypatch.setattr(Learner, "move", poisoned)


def files(run: Path) -> dict[str, bytes]:
    """Every file of a run that must come out the same, by name."""
    names = ("metrics.jsonl", "facts.jsonl", "spikes.jsonl", "rollouts/*", "bad/**/*", "checkpoints/*/*", "checkpoints/*/model/*")
    return {str(p.relative_to(run)): p.read_bytes() for name in names for p in sorted(run.glob(name)) if p.is_file()}
