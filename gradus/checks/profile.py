"""Measures the time of each part of a step, and compares it with the floor of the machine (`gradus profile`).

A few steps are trained in a temporary folder, without evaluations and without a system. Then the peaks of the machine are measured: matrix products with
the shapes of the steps, and reads of a block of memory as large as the weights. The floor of a part is the time that its products with the weights would need
at these peaks. The floor does not include attention, norms and the choice of tokens, so every part takes longer than its floor.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from gradus.checks.profile_advice import advice
from gradus.lab.folder import RunFolder
from gradus.runtime.activity import ACTIVITIES, EVALUATING, SAMPLING, SAVING, SCORING, TRAINER, UPDATING, Work, worked
from gradus.runtime.peaks import product_peak, read_peak
from gradus.training.course import staged
from gradus.training.launch import go, prepare
from gradus.training.plan import task_of
from gradus.types import UserError

if TYPE_CHECKING:
    from gradus.training.plan import Plan
    from gradus.training.run import Run

WARM_UP = 1  # steps that are not measured, because they load code and data
IDLE = 0.8  # if a process computes for less than this share of the time, other programs slow it down
FLOORED = {f"{SAMPLING}/prefill", f"{SAMPLING}/decode", f"{SCORING}/forward", f"{UPDATING}/forward", f"{UPDATING}/backward"}
"""The parts with a floor: these parts consist of products with the weights."""


@dataclass(frozen=True)
class Sizes:
    """The numbers of weights of a network that multiply rows: in all layers (`body`), and in the output layer (`head`). `shape`: [in, out] of the largest
    matrix.
    """

    body: int
    head: int
    shape: tuple[int, int]
    trained: float  # share of the weights that have gradients
    width: int  # bytes per weight
    dtype: torch.dtype


@dataclass(frozen=True)
class Row:
    """A part of a step. Times are seconds per step; `rate` and `peak` are in `unit` per second: operations (FLOP) or bytes (B)."""

    name: str
    seconds: float
    tokens: float = 0.0  # rows that the network reads, per step
    calls: float = 0.0
    floor: float | None = None  # seconds; None: the part has no floor
    rate: float | None = None
    peak: float | None = None
    unit: str = ""

    @property
    def gap(self) -> float:
        """Returns the seconds above the floor."""
        return self.seconds - (self.floor or 0.0)


@dataclass(frozen=True)
class Profile:
    """The measured steps. `rows`: the activities and their parts; the name of a part is, for example, sampling/decode."""

    recipe: str
    task: str
    device: str
    threads: int
    weights: int
    dtype: str
    steps: int
    seconds: float  # per step
    rows: tuple[Row, ...]
    checkpoint: float  # seconds of one checkpoint
    advice: tuple[str, ...]
    notes: tuple[str, ...] = ()


def measured(planned: Plan, steps: int = 3, peaks: Callable[..., float] = product_peak, reads: Callable[..., float] = read_peak) -> Profile:
    """Trains `WARM_UP` + `steps` steps of a plan and returns the profile. Raises UserError for a plan with stages, and if the plan cannot be trained."""
    recipe = planned.recipe
    if staged(recipe):
        raise UserError("gradus profile measures one recipe, but this recipe has stages; give the recipe of one stage")
    if steps < 1:
        raise UserError(f"--steps is {steps}; give at least 1 step to measure")
    notes = () if recipe.system is None else (f"The recipe's system {type(recipe.system).__name__} is left out, so that no two parts run at the same time.",)
    alone = recipe.but(study=None, system=None, setting__steps=WARM_UP + steps, setting__save_every=0)
    seen: list[tuple[dict[str, float], dict[str, Work]]] = []
    with tempfile.TemporaryDirectory(prefix="gradus-profile-") as folder:
        run = prepare(alone, task_of(planned), planned.model, seed=planned.seed, device=planned.device)
        run.folder = RunFolder.create(Path(folder) / "run", replace(planned, recipe=alone, log=()).stored(), {})
        sizes = sizes_of(run.players["policy"].policy.network)
        times: list[tuple[float, float]] = []  # for each step, the time of the clock and of the processor

        def note(*_: Any) -> None:
            seen.append(state_of(run))
            times.append((time.perf_counter(), time.process_time()))

        run.on_step = note
        with watched(run, planned.device):
            go(run)
        seen.append(state_of(run))  # after the last checkpoint
    spent, work = growth(seen[WARM_UP - 1], seen[-2])
    checkpoint = seen[-1][0].get(SAVING, 0.0) - seen[-2][0].get(SAVING, 0.0)
    every = recipe.setting.save_every
    spent[SAVING] = spent.get(SAVING, 0.0) + (checkpoint * steps / every if every else 0.0)
    spent.pop(EVALUATING, None)
    machine = Machine(sizes, planned.device, peaks, reads)
    rows = tuple(rows_of({name: value / steps for name, value in spent.items()}, work, steps, machine))
    whole = sum(row.seconds for row in rows if "/" not in row.name)
    return Profile(
        recipe=recipe.key,
        task=str(planned.task),
        device=planned.device,
        threads=torch.get_num_threads(),
        weights=sum(p.numel() for p in run.players["policy"].policy.network.parameters()),
        dtype=str(sizes.dtype).removeprefix("torch."),
        steps=steps,
        seconds=whole,
        rows=rows,
        checkpoint=checkpoint,
        advice=advice(rows, whole, recipe, planned.device),
        notes=(*notes, *busy_of(times[WARM_UP - 1], times[-1], planned.device)),
    )


def busy_of(before: tuple[float, float], after: tuple[float, float], device: str) -> tuple[str, ...]:
    """Returns a note if the run computes on a CPU, but this process got only a small share of the time. `before`, `after`: (clock time, processor time)."""
    clock, processor = (b - a for a, b in zip(before, after, strict=True))
    if device != "cpu" or clock <= 0 or processor / clock >= IDLE:
        return ()
    told = f"During the steps this process computed for only {processor / clock:.0%} of the time: other programs slow the process down, or it waits."
    return (f"{told} On a busy machine all gaps are too large.",)


def state_of(run: Run) -> tuple[dict[str, float], dict[str, Work]]:
    """Returns the seconds of the trainer so far, and copies of the work of each part."""
    return dict(run.activity.seconds().get(TRAINER, {})), {name: replace(work) for name, work in run.activity.work.items()}


def growth(
    before: tuple[Mapping[str, float], Mapping[str, Work]], after: tuple[Mapping[str, float], Mapping[str, Work]]
) -> tuple[dict[str, float], dict[str, Work]]:
    """Returns the differences of two results of `state_of`."""
    spent = {name: value - before[0].get(name, 0.0) for name, value in after[0].items()}
    nothing = Work()
    work = {
        name: Work(w.calls - (b := before[1].get(name, nothing)).calls, w.tokens - b.tokens, w.outputs - b.outputs) for name, w in after[1].items()
    }
    return spent, work


@contextmanager
def watched(run: Run, device: str) -> Iterator[None]:
    """A context manager. Inside it, the time of each part of a run's activities is measured, and the rows of the run's networks are counted.

    On a GPU, each change of activity waits until the GPU has finished its work.
    """
    run.activity.parts = True
    if torch.device(device).type == "cuda":
        run.activity.settled = partial(torch.cuda.synchronize, torch.device(device))
    undo = [counting(player.policy.network) for player in run.players.values()]
    try:
        yield
    finally:
        run.activity.parts, run.activity.settled = False, None
        for each in undo:
            each()


def counting(network: torch.nn.Module) -> Callable[[], None]:
    """Makes a network count the tokens that it embeds (see `activity.worked`). Returns a function that ends the count."""
    embed: Any = getattr(network, "embed", None)
    if callable(embed) and not isinstance(embed, torch.nn.Module):  # the built-in decoder

        def counted(tokens: Any, *more: Any, **named: Any) -> Any:
            worked(int(tokens.numel()))
            return embed(tokens, *more, **named)

        network.embed = counted  # type: ignore[assignment]
        return lambda: delattr(network, "embed")
    found = next((module for module in network.modules() if isinstance(module, torch.nn.Embedding)), None)
    if found is None:
        return lambda: None
    return found.register_forward_pre_hook(lambda _, given: worked(int(given[0].numel()))).remove


def sizes_of(network: torch.nn.Module) -> Sizes:
    """Returns the sizes of a network. In a mixture of experts, only the experts that a token uses count."""
    embeddings = {id(module.weight) for module in network.modules() if isinstance(module, torch.nn.Embedding)}
    given = getattr(network, "head_weight", None)
    layer = network.get_output_embeddings() if given is None and hasattr(network, "get_output_embeddings") else None  # type: ignore[operator]
    head: Any = given if given is not None else getattr(layer, "weight", None)
    matrices = {name: p for name, p in network.named_parameters() if p.dim() >= 2 and id(p) not in embeddings and p is not head}
    used = used_share(getattr(network, "config", None))
    body = sum(p.numel() * (used if "expert" in name else 1.0) for name, p in matrices.items())
    largest = max(matrices.values(), key=lambda p: p.shape[-1] * p.shape[-2], default=None)
    parameters = list(network.parameters())
    trained = sum(p.numel() for p in parameters if p.requires_grad) / max(sum(p.numel() for p in parameters), 1)
    shape = (1, 1) if largest is None else (int(min(largest.shape[-2:])), int(max(largest.shape[-2:])))
    return Sizes(round(body), 0 if head is None else head.numel(), shape, trained, parameters[0].element_size(), parameters[0].dtype)


def used_share(config: Any) -> float:
    """Returns the share of the experts that a token uses; 1 without experts. `config`: of the built-in decoder, or of a model of transformers."""
    experts: Any = getattr(config, "experts", None)
    if experts is not None:
        return float(experts.chosen / experts.count)
    count = getattr(config, "num_local_experts", None) or getattr(config, "num_experts", None)
    return float(config.num_experts_per_tok / count) if count else 1.0


@dataclass
class Machine:
    """The peaks of the machine for a network, each measured at its first use."""

    sizes: Sizes
    device: str
    peaks: Callable[..., float]
    reads: Callable[..., float]

    def __post_init__(self) -> None:
        self._products: dict[int, float] = {}
        self._read: float | None = None

    def products(self, rows: int) -> float:
        """Returns the peak of matrix products with this number of rows, in FLOP per second."""
        if rows not in self._products:
            self._products[rows] = self.peaks(rows, *self.sizes.shape, self.sizes.dtype, self.device)
        return self._products[rows]

    def read(self) -> float:
        """Returns the peak rate of reads from a block of memory as large as the weights, in bytes per second."""
        if self._read is None:
            self._read = self.reads((self.sizes.body + self.sizes.head) * self.sizes.width, self.device)
        return self._read


def rows_of(spent: Mapping[str, float], work: Mapping[str, Work], steps: int, machine: Machine) -> Iterator[Row]:
    """Yields the row of each activity, and below it the rows of its parts and of the rest. `spent`: seconds per step."""
    for name in ACTIVITIES:
        parts = {part: seconds for part, seconds in spent.items() if part.startswith(f"{name}/") and seconds > 0}
        rest = spent.get(name, 0.0)
        if not parts and rest <= 0:
            continue
        done = [work[part] for part in parts if part in work and not part.endswith("/backward")]
        yield Row(name, rest + sum(parts.values()), sum(w.tokens for w in done) / steps)
        forward = work.get(f"{name}/forward", Work())
        for part, seconds in parts.items():
            mine = replace(forward, calls=work[part].calls) if part.endswith("/backward") else work.get(part, Work())
            yield floored(Row(part, seconds, mine.tokens / steps, mine.calls / steps), mine, steps, machine)
        if parts:
            yield Row(f"{name}/rest", rest)


def floored(row: Row, work: Work, steps: int, machine: Machine) -> Row:
    """Returns the row with its floor: the time of its products, or the time that its calls need to read the weights. The longer time counts.

    A backward pass computes the gradients of the rows, and of the trained weights: one to two times the products of the forward pass.
    """
    if row.name not in FLOORED or not work.calls or not work.tokens or not machine.sizes.body:
        return row
    sizes = machine.sizes
    products = 2.0 * (work.tokens * sizes.body + work.outputs * sizes.head) / steps
    if row.name.endswith("/backward"):
        products *= 1.0 + sizes.trained
    peak = machine.products(max(round(work.tokens / work.calls), 1))
    computing = products / peak
    if row.name.endswith("/decode"):
        read = work.calls / steps * (sizes.body + sizes.head) * sizes.width
        reading = read / machine.read()
        if reading > computing:
            return replace(row, floor=reading, rate=read / row.seconds, peak=machine.read(), unit="B")
    return replace(row, floor=computing, rate=products / row.seconds, peak=peak, unit="FLOP")


