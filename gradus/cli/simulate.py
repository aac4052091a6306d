"""`gradus simulate`: the predicted speed of a run on a cluster, by system, split of the GPUs and batch."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, TypeVar

from gradus.simulation.hardware import Costs, Shape, costs_of, estimated, gpu_of, replica_gpus, size_of, training_gpus
from gradus.simulation.predict import Configuration, Prediction, configurations, predicted, recommended, workers
from gradus.simulation.rates import Measured, Rates
from gradus.simulation.work import LogNormal, Recorded, means, recorded
from gradus.types.errors import UserError

T = TypeVar("T", int, float)
SHOWN = 12  # rows of the table


@dataclass(frozen=True)
class Cluster:
    """The rates of a configuration. A measured rate replaces the estimate from data sheets."""

    options: argparse.Namespace
    costs: Costs
    context: float
    prompts: float

    @property
    def shape(self) -> Shape:
        return Shape(size_of(self.options.model))

    @property
    def replica(self) -> int:
        """The number of GPUs per replica."""
        return int(self.options.replica or replica_gpus(self.shape, gpu_of(self.options.gpu)))

    @property
    def training(self) -> int:
        """The smallest number of GPUs that can train."""
        return training_gpus(self.shape, gpu_of(self.options.gpu), self.costs)

    def rates(self, c: Configuration) -> Rates:
        o = self.options
        found = estimated(
            self.shape, gpu_of(o.gpu), self.costs, replica=self.replica, training=c.training, context=self.context, prompts=self.prompts
        )
        measured: dict[str, Any] = {}
        if o.decode is not None:
            measured["decode"] = Measured(pairs(o.decode))
        if o.prefill is not None:
            measured["prefill"] = 1 / above(o.prefill, "--prefill")
        if o.update is not None:
            measured["update"] = 1 / (above(o.update, "--update") * c.training)
        if o.publish is not None:
            measured["publish"] = o.publish
        if o.sequences is not None:
            measured["most"] = o.sequences
        return replace(found, **measured)


def run(options: argparse.Namespace) -> int:
    """Simulates every configuration, and prints the table with a recommendation. The exit code is 1 if no configuration fits."""
    from gradus.recipe.core import PROFILES
    from gradus.recipe.registry import recipe

    made = recipe(options.recipe).but(setting=PROFILES["paper"])
    group = options.group or made.setting.group
    prompts = numbers(options.prompts, int, "--prompts") if options.prompts else [made.setting.prompts]
    ages, shares = numbers(options.staleness, int, "--staleness", 0), numbers(options.share, float, "--share")
    if wrong := [share for share in shares if share >= 1]:
        raise UserError(f"--share has {wrong[0]:g}; give the shares of the GPUs that sample, each between 0 and 1")
    if min(options.gpus, options.steps, group) < 1:
        raise UserError(f"--gpus is {options.gpus}, --steps is {options.steps} and --group is {group}; each of them must be 1 or more")
    work = work_of(options)
    mean, prompt_share = means(sample := work.draw(256, group, options.seed))
    cluster = Cluster(options, costs_of(made), sample[0].prompt + mean / 2, prompt_share)
    found = configurations(
        options.gpus, prompts, ages, shares, replica=cluster.replica, training=cluster.training, workers_of=lambda c: workers_of(c, group, cluster)
    )
    if not found:
        print(
            f"no configuration fits: {options.model} needs {cluster.replica} GPUs per replica and at least {cluster.training} GPUs to train; "
            f"--gpus is {options.gpus}; give more --gpus, or a smaller --model",
            file=sys.stderr,
        )
        return 1
    print(f"simulating {len(found)} configurations of {options.steps} steps", file=sys.stderr, flush=True)
    items = {count: work.draw(count * (options.steps + max(ages) + 1), group, options.seed) for count in prompts}
    done = [predicted(c, cluster.rates(c), items[c.prompts], options.steps) for c in found]
    print(json.dumps(as_json(done), indent=1) if options.json else told(done, basis(options, cluster, mean, group), every=options.all))
    return 0


def workers_of(configuration: Configuration, group: int, cluster: Cluster) -> int:
    """Returns the number of workers of a `Streaming` configuration."""
    system: Any = configuration.system
    return workers(configuration.prompts, group, system.staleness, configuration.replicas, cluster.rates(configuration))


def work_of(options: argparse.Namespace) -> LogNormal | Recorded:
    """Returns the source of the groups. Raises UserError if the options set lengths in addition to those of a run."""
    if options.source is None:
        shape = {"mean": options.length, "spread": options.spread, "prompt": options.prompt, "longest": options.max_tokens, "delay": options.delay}
        return LogNormal(**{name: value for name, value in shape.items() if value is not None})
    given = [f"--{name.replace('_', '-')}" for name in ("length", "spread", "prompt", "max_tokens") if getattr(options, name) is not None]
    if given:
        raise UserError(f"{given[0]} sets lengths, but --from reads them from {options.source}; give only one of them")
    return recorded(options.source, options.delay or 0.0)


def basis(options: argparse.Namespace, cluster: Cluster, mean: float, group: int) -> str:
    """Returns a paragraph about the numbers behind the prediction."""
    measured = [f"--{name}" for name in ("decode", "prefill", "update", "publish") if getattr(options, name) is not None]
    c, shape = cluster.costs, cluster.shape
    models = f"{c.learning} learning and {c.frozen} frozen model{'s' * (c.frozen != 1)}"
    return (
        f"{options.gpus} {options.gpu} GPUs, {shape.parameters / 1e9:g} billion parameters ({models} of this size), "
        f"{cluster.replica} GPU{'s' * (cluster.replica > 1)} per replica, "
        f"at least {cluster.training} to train; groups of {group} answers with {mean:,.0f} tokens on average"
        + (f" (lengths of {options.source})" if options.source else "")
        + ". "
        + (f"Measured: {', '.join(measured)}. The other rates are" if measured else "All rates are")
        + " estimates from data sheets; measure them on one machine before you rent many."
    )


def told(found: Sequence[Prediction], basis: str, *, every: bool) -> str:
    """Returns the table, the fastest configuration first, and the recommendation."""
    from gradus.runtime.tables import table
    from gradus.runtime.terminal import paragraph

    ranked = sorted(found, key=lambda p: -p.tokens)
    chosen, reason = recommended(found)
    rows = ranked if every else [p for i, p in enumerate(ranked) if i < SHOWN or p is chosen or p.configuration.shared]
    head = ("system", "GPUs", "prompts", "step s", "tokens/s", "idle", "age", "dropped")
    cells = [cells_of(p) for p in rows]
    left = len(found) - len(rows)
    more = [f"{left} slower configurations are not shown; --all shows them"] if left else []
    c = chosen.configuration
    split = f"all {c.gpus} GPUs" if c.shared else f"{c.sampling} GPUs that sample and {c.training} that train"
    advice = paragraph(f"recommended: {c.name}, {split}, {c.prompts} prompts per step: {reason}")
    return "\n".join([paragraph(basis), "", table(cells, head), *more, "", advice])


def cells_of(p: Prediction) -> tuple[str, ...]:
    """Returns the row of a prediction."""
    c = p.configuration
    split = "shared" if c.shared else f"{c.sampling}+{c.training}"
    return (
        *(c.name, split, f"{c.prompts}", f"{p.step:,.1f}", f"{p.tokens:,.0f}"),
        *(f"{p.sampling_idle:.0%}" if c.shared else f"{p.sampling_idle:.0%}+{p.training_idle:.0%}", f"{p.age:.2f}", f"{p.dropped:.1%}"),
    )


def as_json(found: Sequence[Prediction]) -> dict[str, Any]:
    """Returns all predictions and the recommendation as plain values."""
    chosen, reason = recommended(found)

    def plain(p: Prediction) -> dict[str, Any]:
        c = p.configuration
        system = None if c.system is None else {"name": type(c.system).__name__, **asdict(c.system)}
        own = {name: getattr(p, name) for name in ("step", "tokens", "sampling_idle", "training_idle", "age", "dropped")}
        return {"system": system, "sampling": c.sampling, "training": c.training, "shared": c.shared, "prompts": c.prompts, "replicas": c.replicas, **own}

    return {"configurations": [plain(p) for p in found], "recommended": plain(chosen), "reason": reason}


def numbers(text: str, kind: Callable[[str], T], option: str, least: float | None = None) -> list[T]:
    """Returns the numbers of a list with commas. Raises UserError if an entry is not a number, or is below `least`. If `least` is None, every entry must be
    above 0."""
    try:
        found = list(dict.fromkeys(kind(word) for word in text.split(",")))
    except ValueError:
        raise UserError(f'{option} is "{text}"; give numbers with commas between them') from None
    if wrong := [n for n in found if (n <= 0 if least is None else n < least)]:
        raise UserError(f"{option} has {wrong[0]:g}; each number must be {'above 0' if least is None else f'{least:g} or more'}")
    return found


def pairs(text: str) -> Mapping[int, float]:
    """Reads the tokens per second, by the number of sequences, from a text such as 8=900,64=5200. Raises UserError for another text."""
    try:
        return {int(left): float(right) for left, right in (word.split("=") for word in text.split(","))}
    except ValueError:
        raise UserError(f'--decode is "{text}"; give SEQUENCES=TOKENS_PER_SECOND with commas between them, such as 8=900,64=5200') from None


def above(value: float, option: str) -> float:
    """Returns the value. Raises UserError unless it is above 0."""
    if not value > 0:
        raise UserError(f"{option} is {value:g}; it must be above 0; give tokens per second")
    return value
