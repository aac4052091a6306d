"""Finds the faults of a method on a toy update: parts that raise, missing gradients, results that depend on the micro-batch."""

from __future__ import annotations

import math
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from gradus.objectives.trust import Unclipped
from gradus.recipe.asks import check_asks
from gradus.recipe.compatibility import check_fit, check_parts
from gradus.recipe.core import Recipe
from gradus.rewards.functions import Function
from gradus.rewards.reward_model import RewardModel
from gradus.rewards.verified import Verified
from gradus.runtime.user_code import LIBRARIES, raised_in
from gradus.testing.methods.batches import Evaluated, Step, evaluated, in_pieces, moved, toy_step, unsettle, with_signs
from gradus.testing.methods.runs import toy_run, train_toy, weights_after
from gradus.testing.methods.tasks import of_task, parts_of, toy_task
from gradus.training.run import Run
from gradus.types import UserError
from gradus.types.batch import Batch
from gradus.types.guards import Agreement, Guard
from gradus.types.parts import Task
from gradus.types.returned import named as placed
from gradus.types.returned import of_user

METHODS = ("losses", "loss", "coefficients", "log_ratio", "factors", "scores", "logprob", "assign", "keep", "apply", "at", "score", "run", "choose")
FURTHER = 6  # steps of a second run, if two steps have changed no player's weights
EXACT = 1e-9  # largest difference of float64 results between micro-batch sizes, as a share of the largest entry


@dataclass(frozen=True)
class Fault:
    """One fault of a method, or a note. `says` describes the fault and names the line or field; `remedy` is the action for the user."""

    verdict: Literal["wrong", "warning", "note", "not checked"]
    says: str
    remedy: str = ""


def diagnose(recipe: Recipe, task: Task | None = None) -> list[Fault]:
    """Finds the faults of a method in two steps on toy players, with two sizes of the micro-batch. A sound method has none.

    Args: `task`: the task to train on (None: the result of `toy_task`). If the recipe's reward is a model, or a function in a file, the task's
    verdict replaces this reward. Such a reward does not suit the toy answers.

    >>> from gradus import load_recipe
    >>> [fault.verdict for fault in diagnose(load_recipe("ppo"))]
    []
    """
    recipe = on_toys(recipe)
    if recipe.environment is not None and task is None and not of_task(recipe.environment):
        return [Fault("not checked", f"the environment {type(recipe.environment).__name__} has its own problems, which no toy task has")]
    return _faults(recipe, task or toy_task(recipe))


def _sound(found: Sequence[Fault]) -> bool:
    return all(fault.verdict == "note" for fault in found)


def on_toys(recipe: Recipe) -> Recipe:
    """Returns the recipe with the sampling settings of the toy task, and with a reward that can judge toy answers. (Toy answers have no tags.)"""
    foreign = any(isinstance(part, Function | RewardModel) or getattr(part, "needs_tags", False) for part in parts_of(recipe.reward))
    plain = {f"setting__{name}": value for name, value in (("temperature", None), ("max_tokens", None), ("guard", Guard()), ("agreement", Agreement()))}
    return recipe.but(**plain, **({"reward": Verified()} if foreign else {}))


def _faults(recipe: Recipe, task: Task) -> list[Fault]:
    options: dict[str, Any] = {"task": task, **({} if task.environment is None else {"prompts": 2})}
    try:
        check_parts(recipe)
        check_asks(recipe)
    except UserError as error:
        says, _, remedy = str(error).partition("; ")
        return [Fault("wrong", says, remedy)]
    try:
        check_fit(recipe, task)
    except UserError as error:
        return [Fault("not checked", f"the method does not run on the toy task: {error}")]
    try:
        run = toy_run(recipe, **options)
        unsettle(run)
        step = toy_step(run)
        found = [*of_step(run, step), *(fault for name in step.batches for fault in of_objective(run, name, step))]
        return [*found, *_trained(recipe, step, options)] if _sound(found) else found
    except (Exception, SystemExit) as error:
        return [of_error(recipe, error)]


def _trained(recipe: Recipe, step: Step, options: Mapping[str, Any]) -> Iterator[Fault]:
    """Yields the faults that appear only in whole steps."""
    run = train_toy(recipe, **options)
    if _still(run):
        run = train_toy(recipe, steps=FURTHER, **options)  # some rollouts finish no group in their first steps
    if _still(run):
        yield Fault("wrong", f"no player has moved in {FURTHER} toy steps", f"check {named(recipe.update)} and {named(recipe.schedule)}")
    yield from of_metrics(run)
    early = any("grad_norm" in name for name in run.metrics[0])
    yield from of_cut(recipe, 1 if early else run.step, options)
    yield from of_trust(run, step)


def of_error(recipe: Recipe, error: BaseException) -> Fault:
    """Returns the fault for an exception of a toy step.

    The verdict is "wrong" if a user's part is involved. A UserError without such a part is "not checked": the toy task does not suit the recipe.
    Any other exception without a user's part is a fault of Gradus, and is raised again.
    """
    frames = [(frame.f_code, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    own = [(code, line) for code, line in frames if not code.co_filename.startswith((*LIBRARIES, "<"))]
    theirs = [part for part in parts_of(recipe) if of_user(part)]
    if isinstance(error, UserError):
        says, _, remedy = str(error).partition("; ")
        return Fault("wrong" if own or theirs else "not checked", says, remedy)
    if own:
        code, line = own[-1]
        text = raised_in(error).rpartition(" (")[0]
        return Fault("wrong", f"{code.co_qualname} ({Path(code.co_filename).name}, line {line}) raised {text}", "fix it and check again")
    if not theirs:
        raise error
    near = f"one of {', '.join(map(named, theirs))} has returned a value of the wrong form"
    return Fault("wrong", f"a toy update raised {raised_in(error)}; {near}", "compare the shapes with those of the part's protocol (docs/reference/protocols.md)")


def named(part: Any) -> str:
    """Returns a part's class and method with file and line: "Gate.losses (gate.py, line 12)"."""
    return placed(part, next((method for method in METHODS if callable(vars(type(part)).get(method))), ""))


def culprits(term: Any) -> str:
    """Names the user's parts in a term, or the term itself if it has no such part."""
    theirs = [part for part in parts_of(term) if of_user(part)]
    return " or ".join(map(named, theirs or [term]))


def of_metrics(run: Run) -> Iterator[Fault]:
    """Yields a fault for each metric of the steps that is neither a finite number nor None."""
    broken = {n: v for row in run.metrics for n, v in row.items() if not (v is None or (isinstance(v, int | float) and math.isfinite(v)))}
    for name, value in broken.items():
        yield Fault("wrong", f"the metric {name} is {value!r:.40}", "give finite numbers: tally(values) of a tensor [A], world.note(name, number)")


def of_step(run: Run, step: Step) -> Iterator[Fault]:
    """Yields the faults of a step's groups: equal rewards, a selection that keeps nothing, advantages that are all 0."""
    recipe = run.recipe
    if not learning(run):
        return
    differ = [g for g in step.kept if len(g.trajectories) > 1 and np.ptp(g.rewards) > 0]
    none_kept = not any(batch.actions for batch in step.batches.values())
    if of_user(recipe.reward) and not any(np.ptp(g.rewards) > 0 for g in step.groups):
        says = f"{named(recipe.reward)} gives all toy answers to a problem the same reward"
        yield Fault("not checked" if none_kept else "note", says, "try it on your own task: gradus train ... --steps 2")
    elif none_kept:
        says = f"{named(recipe.selection)} keeps no trajectory in any of several toy steps, so nothing is trained"
        yield Fault("warning", says, "check its condition, and the order of its result: keep returns (kept, dropped)")
    given = [t.advantages for g in step.credited for t in g.trajectories if t.advantages is not None and t.trained]
    if differ and given and not any(a.any() for a in given):
        says = f"{named(recipe.credit)} gives every action the advantage 0, though rewards within a group differ"
        yield Fault("wrong", says, "give numbers that differ between the trajectories of a group, as spread(groups, rewards - baseline)")


def learning(run: Run) -> list[Any]:
    """The players whose objective has a term."""
    return [player for player in run.players.values() if player.learns and player.spec.objective]


def _still(run: Run) -> bool:
    """Whether there are players that learn, but none of them has made an update."""
    return bool(learning(run)) and not any(player.updates for player in learning(run))


def of_objective(run: Run, name: str, step: Step) -> Iterator[Fault]:
    """Yields the faults of the terms of a player's objective."""
    batch, rows, terms = with_signs(step.batches[name]), step.rows[name], run.players[name].spec.objective
    present = {at: term for at, term in terms.items() if term.source in batch.counts}
    if not present:
        return
    later = moved(batch, rows)
    place = "objective" if name == "policy" else f"players.{name}.objective"
    found = [fault for at, term in present.items() for fault in of_term(f"{place}.{at}", term, rows, batch, later)]
    yield from found or of_advantages(run, name, present, rows, later)


def of_term(where: str, term: Any, rows: Mapping[Any, Any], batch: Batch, later: Batch) -> Iterator[Fault]:
    """Yields the faults of a term: a loss, gradient or metric that is not finite, a missing gradient, a result that depends on micro-batches.

    A result that depends on micro-batches is a fault only if the term declares `separable` = True.
    """
    here, there = evaluated(term, rows, batch), evaluated(term, rows, later)
    broken = [name for name, t in {**there.metrics, **here.metrics}.items() if not math.isfinite(t.mean) and not name.startswith("loss/")]
    numbers = "look for log or sqrt of 0, for 0 / 0 and for exp of large numbers"
    for found in (here, there):
        if not math.isfinite(float(found.loss)):
            yield Fault("wrong", f"{where}: the loss of {culprits(term)} is {float(found.loss)}", numbers)
            return
        if not math.isfinite(found.largest):
            yield Fault("wrong", f"{where}: the gradient of {culprits(term)} is not finite, though its loss is", f"{numbers} in a branch that is masked")
            return
    if broken:
        yield Fault("wrong", f"{where}: the metric {', '.join(broken)} of {culprits(term)} is no finite number", "give tally(values) of finite values")
    if all(g is None for found in (here, there) for g in found.gradient.values()):
        says = f"{where}: the loss of {culprits(term)} has no gradient, so nothing is learned from it"
        yield Fault("wrong", says, "compute it from the rows in `outputs`, without detach(), item(), float() or numpy()")
    elif getattr(term, "coefficient", None) == 0:
        yield Fault("note", f"{where}.coefficient is 0, so the term is measured and trains nothing", "keep it if this is intended")
    elif here.largest == 0 and there.largest == 0:
        says = f"{where}: the gradient of {culprits(term)} is zero at every action, so nothing is learned from it"
        yield Fault("wrong", says, "check masks, a coefficient of 0, and an unnecessary detach()")
    elif term.separable:
        yield from of_pieces(where, term, rows, (batch, here), (later, there))


def of_pieces(where: str, term: Any, rows: Mapping[Any, Any], *tried: tuple[Batch, Evaluated]) -> Iterator[Fault]:
    """Yields a fault if the sum of a term over micro-batches differs from its value on the whole batch."""
    for batch, whole in tried:
        pieces = in_pieces(term, rows, batch)
        share = pieces.apart(whole) / max(whole.largest, 1e-300)
        if not share <= EXACT:
            differs = f"differs by {share:.2g} of its largest entry" if math.isfinite(share) else "is not finite"
            says = f"{where}: {culprits(term)} depends on the micro-batch, though it declares separable = True: its gradient over micro-batches {differs}"
            remedy = "divide by batch.counts, batch.in_trajectory or batch.in_group, which micro-batches do not change; else set separable = False"
            yield Fault("wrong", says, remedy)
            return
        for name, t in whole.metrics.items():
            other = pieces.metrics.get(name, t).mean
            if abs(t.mean - other) > EXACT * max(1.0, abs(t.mean)) and not name.startswith("loss/"):
                says = f"{where}: the metric {name} of {culprits(term)} is {other:.4g} over micro-batches and {t.mean:.4g} on the whole batch"
                yield Fault("wrong", says, "give tally(values) with one value per action, not with a mean")
                return


def of_advantages(run: Run, name: str, terms: Mapping[str, Any], rows: Mapping[Any, Any], batch: Batch) -> Iterator[Fault]:
    """Yields a fault if a player's credit rule gives actions different advantages, but no gradient of this player depends on them.

    A batch of only given answers gives no evidence, because these answers are usually imitated.
    """
    rule = run.players[name].spec.credit
    if all(t.source == "expert" for t in batch.trajectories):
        return
    if rule is None or not bool(batch.returns.isnan().all()) or float(batch.advantages.max() - batch.advantages.min()) == 0:
        return
    other = replace(batch, advantages=0.5 - 2 * batch.advantages)
    if all(evaluated(term, rows, batch).apart(evaluated(term, rows, other)) == 0 for term in terms.values()):
        says = f"the advantages of {named(rule)} have no effect: with other advantages, every term of the objective of {name} has the same gradient"
        yield Fault("wrong", says, "weigh the loss of an action by batch.advantages, or declare this with --credit Constant")


def of_cut(recipe: Recipe, steps: int, options: Mapping[str, Any]) -> Iterator[Fault]:
    """Yields a fault if the weights after a few steps depend on the size of the micro-batch."""
    whole, single = (weights_after(recipe, steps=steps, rate=0.05, micro=micro, **options) for micro in (None, 1))
    for name, value in whole.items():
        apart = float((value - single[name]).abs().max())
        if not apart <= EXACT * max(1.0, float(value.abs().max())):
            says = f"{named(recipe.update)} moves {name} differently with micro-batches of one context than with one micro-batch of all, by {apart:.2g}"
            yield Fault("wrong", says, "add up gradients as gradus.updates.minibatches.gradient does, and use no number of the micro-batch")
            return


def of_trust(run: Run, step: Step) -> Iterator[Fault]:
    """Yields a note if a trust region has no effect, because every ratio of the steps was 1."""
    if any(row.get("ratio") != 1.0 for row in run.metrics):
        return
    for name, batch in step.batches.items():
        for term in (run.players[name].spec.objective or {}).values():
            if term.source not in batch.counts or "trust" not in {f.name for f in fields(term)}:
                continue
            rows, later = step.rows[name], moved(with_signs(batch), step.rows[name])
            if evaluated(term, rows, later).apart(evaluated(replace(term, trust=Unclipped()), rows, later)) > 0:
                says = f"the ratio is 1 in every update, because one update follows each fresh batch: {type(term.trust).__name__} never acts"
                yield Fault("note", says, "keep it if this is intended; else set --update.epochs 2 or --update.count 2")
                return
