"""The contract of a method: it fits a task, trains, can be stored, equals its base plus its changes, and gives the same run after a resume."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from gradus.recipe import registry
from gradus.recipe.compatibility import check_fit
from gradus.recipe.core import Recipe, changes, put
from gradus.recipe.reference import reference_of
from gradus.recipe.serialise import from_json, to_json
from gradus.rewards.verified import Verified
from gradus.testing.methods.batches import toy_step
from gradus.testing.methods.compare import cut_differences
from gradus.testing.methods.diagnosis import FURTHER, diagnose, learning, of_error, of_metrics
from gradus.testing.methods.effects import few_rounds, misplaced, still, unlogged, weights_of
from gradus.testing.methods.resume import MemoryCheckpoint, contents, resumed, stopped_after
from gradus.testing.methods.runs import toy_run
from gradus.testing.methods.tasks import toy_task
from gradus.testing.report import Checked, Report, run_rules
from gradus.training.launch import go
from gradus.training.run import Run
from gradus.types import UserError
from gradus.types.parts import Task
from gradus.updates.minibatches import Minibatches

STEPS = 2


@dataclass(frozen=True, eq=False)
class Method:
    """A recipe under test. `name`: the text by which the user named the recipe; "" if the user gave a Recipe object."""

    recipe: Recipe
    name: str = ""
    task: Task | None = None

    @cached_property
    def small(self) -> Recipe:
        """The recipe with few repetitions per step (`few_rounds`). The toy runs train this recipe."""
        made: Recipe = few_rounds(self.recipe)
        return made

    @cached_property
    def options(self) -> dict[str, Any]:
        """The settings of the toy runs: two prompts per step, or a single prompt if an answer is an episode of several turns."""
        task = self.task or toy_task(self.recipe)
        return {"task": task, "steps": STEPS, "prompts": 2 if task.environment is None else 1}

    @cached_property
    def before(self) -> Any:
        """The contents of the recipe's parts as text, before training."""
        return contents(self.small)

    @cached_property
    def whole(self) -> Run:
        """A toy run of the recipe, after its two steps."""
        assert self.before is not None
        run = toy_run(self.small, **self.options)
        self.start.update(weights_of(run))
        return go(run)

    @cached_property
    def start(self) -> dict[str, Any]:
        """The weights of `whole` before its first step."""
        return {}


def check_method(recipe: Recipe | str, *, task: Task | None = None, only: Iterable[str] | None = None, strict: bool = False) -> Report:
    """Tests in two toy steps that a method keeps its contract. This takes about a second on a busy machine, and 0.2 seconds on an idle machine.

    Args: `recipe`: a recipe, its key, or FILE.py:NAME. `task`: the task to train on (None: the result of `toy_task`). `only`: the rules to try, from
    `method_rules` (None: all rules). `strict`: whether a finding raises an error.
    Raises: UserError for an unknown recipe or rule. With `strict`, any finding raises ContractBroken, an AssertionError.

    >>> check_method("grpo").ok
    True
    """
    name = recipe if isinstance(recipe, str) else ""
    made: Recipe = registry.recipe(recipe) if isinstance(recipe, str) else recipe
    return run_rules(Method(made, name, task), made.key, RULES, only, strict=strict)


def method_rules() -> list[str]:
    """The names of the rules, in the order in which they are tried."""
    return list(RULES)


def described(method: Method) -> Checked:
    """The text `about` of a method is one sentence."""
    about = method.recipe.about
    wrong = () if re.fullmatch(r"[A-Z0-9].*\.", about) else (f'its about is "{about}"; write one sentence that describes the change: derive(key, about, ...)',)
    return Checked("described", 1, wrong)


def referenced(method: Method) -> Checked:
    """The docstring of a method in the catalogue names its paper, with an arXiv number or a venue."""
    if not method.name or ".py" in method.name:
        return Checked("reference", skipped="a method outside the catalogue needs no paper")
    paper = reference_of(method.name)[1]
    form = "write `Reference: AUTHORS, TITLE, arXiv:NUMBER, ...` into the docstring of its file"
    if paper is None:
        return Checked("reference", 1, (f"it names no paper; {form}",))
    odd = re.search(r"arXiv|et al|\d{4}\.\d{5}", paper.title) or len(paper.title) < 7 or not (paper.arxiv or paper.venue) or not 1900 < paper.year < 2100
    return Checked("reference", 1, (f"its reference reads as {paper}; {form}",) if odd else ())


def fitting(method: Method) -> Checked:
    """The parts of a method fit each other, and they fit a task that provides everything that the method requires."""
    task = method.task or toy_task(method.recipe)
    try:
        check_fit(method.recipe, replace(task, provides=task.provides | method.recipe.requires))
    except UserError as error:
        return Checked("fits", 1, (str(error),))
    return Checked("fits", 1)


def stored(method: Method) -> Checked:
    """A method does not change if it is written to JSON and read back. So its runs can be resumed."""
    try:
        again = from_json(json.loads(json.dumps(to_json(method.recipe))))
    except UserError as error:
        return Checked("stored", 1, (str(error),))
    found = changes(method.recipe, again)
    lost = (f"{', '.join(found)} differs after it was stored and read back; make each part a frozen dataclass of plain fields",) if found else ()
    return Checked("stored", 1, lost)


def changed(method: Method) -> Checked:
    """A method differs from its base, and the base with these changes equals the method. Both `put` and `but` can make the changes."""
    recipe, base = method.recipe, method.recipe.parent
    if base is None:
        return Checked("changes", skipped="it has no base")
    found = changes(base, recipe)
    if not found:
        return Checked("changes", 1, (f"all its parts are those of {base.key}; change one with derive(key, about, PATH=VALUE)",))
    made = base
    for path, value in found.items():
        made = put(made, path, value)
    again = (made, base.but(**{path.replace(".", "__"): value for path, value in found.items()}))
    left = {path for other in again for path in changes(other, recipe)}
    return Checked("changes", len(found), (f"{base.key} with the changes of the method differs from the method in {', '.join(sorted(left))}",) if left else ())


def trained(method: Method) -> Checked:
    """Two steps run, their metrics are finite numbers, and the content of every part is the same before and after these steps."""
    run = method.whole
    found = [fault.says for fault in of_metrics(run)]
    if len(run.metrics) != STEPS:
        found.append(f"{len(run.metrics)} of {STEPS} steps were recorded")
    if contents(method.small) != method.before:
        found.append("a part has changed during training; keep its memory in its state: define start(), take the state as the last argument, return the new one")
    return Checked("trains", STEPS, tuple(found))


def moves(method: Method) -> Checked:
    """The weights of every player that learns change, and frozen weights do not change.

    If two steps do not change a player that learns, the recipe gets a second run of more steps. If the recipe's own reward was the same for all toy answers
    to each problem, the task's verdict is the reward in this run.
    """
    run, start = method.whole, method.start
    if not learning(run):
        return Checked("moves", skipped="no player learns")
    if next(still(start, run), None) is not None:
        apart = any(row.get("informative") for row in run.metrics)
        recipe = method.small if apart else method.small.but(reward=Verified())
        run = toy_run(recipe, **{**method.options, "steps": FURTHER, "prompts": 2})
        start = weights_of(run)
        go(run)
    lost = [f"{name} learns, and has not moved in {FURTHER} toy steps; check the content of its batch, and the update" for name in still(start, run)]
    return Checked("moves", len(run.players), (*lost, *misplaced(start, run)))


def logged(method: Method) -> Checked:
    """The metrics of the steps contain the loss and the metrics of every term that trains."""
    if not learning(method.whole):
        return Checked("metrics", skipped="no player learns")
    step = toy_step(toy_run(method.small, **method.options))
    return Checked("metrics", 1, tuple(unlogged(step, method.whole)))


def sound(method: Method) -> Checked:
    """The check of a toy update (`diagnose`, as in `gradus check`) finds no fault."""
    faults = [f for f in diagnose(method.small, method.options["task"]) if f.verdict != "note"]
    skipped = next((f.says for f in faults if f.verdict == "not checked"), "")
    return Checked("update", 1, tuple(f"{f.says}; {f.remedy}" for f in faults if f.verdict != "not checked"), skipped)


def cut(method: Method) -> Checked:
    """The weights after two epochs of two mini-batches do not depend on the size of the micro-batch."""
    if not any(player.learns for player in method.whole.players.values()):
        return Checked("micro-batches", skipped="no player learns")
    early = any("grad_norm" in name for name in method.whole.metrics[0])
    made = method.small.but(update=Minibatches(epochs=2, count=2))
    return Checked("micro-batches", 2, tuple(cut_differences(made, **{**method.options, "steps": 1 if early else STEPS})))


def goes_on(method: Method) -> Checked:
    """A run that is stopped after the first step and then resumed has the same metrics, weights and states as a run without a stop."""
    options = method.options
    again = resumed(method.small, MemoryCheckpoint(stopped_after(method.small, 1, **options)), **options)
    apart = MemoryCheckpoint(method.whole).differences(MemoryCheckpoint(again))
    found = [f"{', '.join(apart)} differ after a resume at step 1; keep the memory of every part in its state"] if apart else []
    if again.metrics != method.whole.metrics[1:]:
        found.append("the metrics differ after a resume at step 1; draw from world.key, and keep the memory of every part in its state")
    return Checked("resumes", 1, tuple(found))


def _guarded(rule: str, look: Callable[[Method], Checked]) -> Callable[[Method], Checked]:
    """Returns a rule in which an exception of the method's parts becomes a finding."""

    def looked(method: Method) -> Checked:
        try:
            return look(method)
        except (Exception, SystemExit) as error:
            return Checked(rule, 1, (of_error(method.recipe, error).says,))

    return looked


RULES: Mapping[str, Callable[[Method], Checked]] = {
    name: _guarded(name, look)
    for name, look in {
        "described": described,
        "reference": referenced,
        "fits": fitting,
        "stored": stored,
        "changes": changed,
        "update": sound,
        "trains": trained,
        "moves": moves,
        "metrics": logged,
        "micro-batches": cut,
        "resumes": goes_on,
    }.items()
}
