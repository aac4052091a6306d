"""Predicts the memory of a run. For this, the module does one real step with the longest prompts and with answers of the largest possible length."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from gradus.recipe.compatibility import check_problems
from gradus.recipe.core import Recipe
from gradus.runtime.memory import free_memory, status
from gradus.training.course import staged
from gradus.training.launch import go, prepare, without_engines
from gradus.training.run import Run, sampling_of
from gradus.types import Group, Key, Problem, UserError
from gradus.types.guards import Agreement, Guard, bytes_of
from gradus.types.parts import Judgement, Signals, Source, Task, World
from gradus.types.signals import Signal

if TYPE_CHECKING:
    from gradus.training.plan import Plan

LOOKED_AT = 256  # the longest prompt is searched among at most this number of problems
CLEAR = Path("/proc/self/clear_refs")


@dataclass(frozen=True)
class Alternating:
    """A reward for the measurement. Every second answer counts as right, so every group has different rewards."""

    needs: tuple[Signal, ...] = ()

    async def score(self, groups: Sequence[Group], signals: Signals, world: World) -> list[list[Judgement]]:
        return [[Judgement(v := float(i % 2 == 0), {"verified": v}) for i in range(len(g.trajectories))] for g in groups]


@dataclass(frozen=True, eq=False)
class Longest:
    """A source that draws problems in a given order and begins again after the last problem. In this module, the longest problem is the first."""

    problems: tuple[Problem, ...]
    size: None = None

    def draw(self, indices: Sequence[int], level: float | None, key: Key) -> list[Problem]:
        count = len(self.problems)
        return [replace(self.problems[i % count], id=f"{self.problems[i % count].id}/{i // count}") for i in indices]


@dataclass(frozen=True)
class Prediction:
    """The bytes that a run needs, and advice if they are too many.

    The peaks include all memory of the process, so they include the weights.
    """

    longest_prompt: int  # length of the longest prompt in tokens
    longest_answer: int
    answers: int  # number of answers per step
    weights: int  # bytes of the weights of all players, without gradients
    optimizer: int  # bytes of moments and float32 masters
    rollout: int | None  # the peak while answers are sampled and judged; None: the system does not report it
    update: int | None  # the peak during the update
    allowed: int | None  # the limit in bytes: the value of --memory, or without it the memory of the process plus the free memory
    micro_tokens: int | None  # tokens per micro-batch after a split; None: the step fits without a split
    refused: str | None  # the error if the step does not fit even after a split
    advice: tuple[str, ...]

    @property
    def fits(self) -> bool:
        return self.refused is None


def predict(recipe: Recipe, task: Task, model: str | Path | None = None, *, seed: int = 0, device: str = "cpu") -> Prediction:
    """Does one step of the recipe with its longest batch and measures the memory. Raises UserError if the recipe, the task and the model do not fit
    together."""
    check_problems(task)
    sampling = sampling_of(recipe, task)
    whole = without_engines(recipe).but(
        reward=Alternating(), study=None, setting__steps=1, setting__guard=Guard(), setting__agreement=Agreement(every=0)
    )
    run = prepare(whole, replace(task, sampling=replace(task.sampling, stops=())), model, seed=seed, device=device)
    prompts = lengthen(run)
    allowed = bytes_of(recipe.setting.memory) if recipe.setting.memory is not None else _available(device)
    peaks: dict[str, int | None] = {"rollout": None, "update": None}
    _clear(device)

    def before_update() -> None:
        peaks["rollout"] = _peak(device)
        _clear(device)

    run.must_finish = before_update  # type: ignore[method-assign]
    run.on_step = lambda *_: peaks.update(update=_peak(device))
    refused = None
    try:
        go(run)
    except UserError as error:
        if "memory ran out" not in str(error):
            raise
        refused = str(error)
    split = min(p.micro_tokens for p in run.players.values())
    found = Prediction(
        longest_prompt=prompts,
        longest_answer=sampling.limit if task.of_text else 0,
        answers=recipe.setting.prompts * recipe.setting.group,
        weights=_bytes(p for player in run.players.values() for p in player.policy.network.parameters()),
        optimizer=sum(_optimizer(player) for player in run.players.values() if player.learns),
        rollout=peaks["rollout"],
        update=peaks["update"],
        allowed=allowed,
        micro_tokens=split if split < recipe.setting.micro_tokens else None,
        refused=refused,
        advice=(),
    )
    return replace(found, advice=advice(found, recipe))


def lengthen(run: Run) -> int:
    """Gives every answer its largest possible length and puts the longest prompts first.

    Returns the number of tokens of the longest prompt.

    Returns 0 for a task without text.
    """
    if not run.task.of_text:
        return 0
    for player in run.players.values():
        policy = player.policy
        if is_dataclass(policy) and "end_tokens" in {f.name for f in fields(policy)}:
            player.policy = replace(policy, end_tokens=())  # type: ignore[type-var]
    source: Source = run.task.source
    count = LOOKED_AT if source.size is None else min(source.size, LOOKED_AT)
    problems = source.draw(list(range(count)), run.task.level, Key(run.seed).fold("problems"))
    policy = run.players["policy"].policy

    def length(problem: Problem) -> int:
        return len(policy.opening(problem.text if problem.text is not None else problem.messages).sequence)

    def solution(problem: Problem) -> int:
        text = problem.meta.get("solution")
        return len(policy.told(text).tokens) if isinstance(text, str) else 0

    order = sorted(problems, key=lambda p: -(length(p) + solution(p)))
    run.task = replace(run.task, source=Longest(tuple(order)))
    return max(map(length, order))


def advice(found: Prediction, recipe: Recipe) -> tuple[str, ...]:
    """Returns advice about fields that the user can change. The most helpful change comes first.

    If the step needs at most nine tenths of the allowed memory, the only possible advice is about `micro_tokens`.
    """
    peak = max((p for p in (found.rollout, found.update) if p is not None), default=None)
    tight = found.refused is not None or (peak is not None and found.allowed is not None and peak > 0.9 * found.allowed)
    out = []
    if found.micro_tokens is not None:
        out.append(f"--micro_tokens {found.micro_tokens} avoids the first attempts, which ran out of memory")
    if not tight:
        return tuple(out)
    fixed = found.weights + found.optimizer
    if found.allowed is not None and fixed > 0.5 * found.allowed:
        out.append("--players.policy.model Adapter trains few weights: it saves most of the memory of the optimiser and of the gradients")
    if not recipe.setting.recompute and recipe.setting.backward_chunks == 1:
        out.append("--recompute true keeps less of the forward pass, but takes more time")
    if recipe.setting.backward_chunks == 1:
        out.append("--backward_chunks 8 computes an eighth of a layer at a time in the backward pass, for a language model in the built-in decoder")
    sequence = found.longest_prompt + found.longest_answer
    if recipe.setting.micro_tokens > sequence > 0 and found.micro_tokens is None:
        out.append(f"--micro_tokens {max(sequence, recipe.setting.micro_tokens // 2)} evaluates fewer sequences at a time")
    out.append(
        f"--max_tokens below {found.longest_answer} shortens the longest sequence" if found.longest_answer else "--prompts or --group"
    )
    return tuple(out)


def told(found: Prediction) -> str:
    """Writes the prediction as text."""
    lines = [
        f"longest   prompt of {found.longest_prompt} tokens, answer of {found.longest_answer}; {found.answers} answers per step",
        f"held      weights {_size(found.weights)}, optimiser {_size(found.optimizer)}",
        f"peaks     {_size(found.rollout)} while sampling, {_size(found.update)} in the update, for the whole process",
        f"allowed   {_size(found.allowed)}",
        "judged    without the reward: every second answer counts as right; add the memory of rewards and verifiers",
    ]
    if found.refused is not None:
        lines.append(f"does not fit: {found.refused}")
    elif found.micro_tokens is not None:
        lines.append(f"fits, with the micro-batch split from the planned size to {found.micro_tokens} tokens")
    else:
        lines.append("fits")
    return "\n".join([*lines, *(f"  {text}" for text in found.advice)])


def command(planned: Plan, *, as_json: bool) -> int:
    """Predicts the memory of a planned run and prints it. Returns the exit code: 1 if the run does not fit, else 0."""
    from gradus.training.plan import task_of

    if staged(planned.recipe):
        raise UserError(f"recipe {planned.recipe.key} has stages, and each stage needs a different amount of memory; give the recipe of one stage with --recipe")
    task = task_of(planned)
    found = predict(planned.recipe, task, planned.model, seed=planned.seed, device=planned.device)
    print(json.dumps(plain(found), indent=1) if as_json else told(found))
    return int(not found.fits)


def plain(found: Prediction) -> Mapping[str, Any]:
    return {f.name: getattr(found, f.name) for f in fields(found)} | {"fits": found.fits}


def _size(count: int | None) -> str:
    if count is None:
        return "unknown"
    return f"{count / 1e9:.2f} GB" if count >= 1e8 else f"{count / 1e6:.1f} MB"


def _bytes(tensors: Any) -> int:
    """Returns the size of tensors in bytes. Memory that several tensors share counts once."""
    return sum({t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in tensors}.values())


def _optimizer(player: Any) -> int:
    states = [t for state in player.optimizer.state.values() for t in state.values() if isinstance(t, torch.Tensor)]
    return _bytes([*states, *(player.masters if player.masters is not player.parameters else ())])


def _available(device: str) -> int | None:
    free = free_memory(device)
    if torch.device(device).type == "cuda":
        return None if free is None else free + torch.cuda.memory_allocated(device)
    used = status("RssAnon")
    return None if free is None or used is None else free + used


def _peak(device: str) -> int | None:
    """Returns the peak memory in bytes since `_clear`; None if the system does not report it."""
    if torch.device(device).type == "cuda":
        return int(torch.cuda.max_memory_allocated(device))
    peak, now, private = status("VmHWM"), status("VmRSS"), status("RssAnon")
    return None if peak is None or now is None or private is None else peak - (now - private)  # without mapped files


def _clear(device: str) -> None:
    """Resets the peak to the memory that is in use now, if the system supports this."""
    if torch.device(device).type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        return
    try:
        CLEAR.write_text("5")
    except OSError:  # then the peak is measured from the start of the process, so it is an upper bound
        return
