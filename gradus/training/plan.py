"""The plan of a run: recipe, task, model and seed.

This module makes, stores and reads plans. The module also loads the task and the model that a plan names.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gradus.lab.folder import RECIPE, RunFolder, is_run
from gradus.lab.trackers import names_of
from gradus.recipe import registry
from gradus.recipe.compatibility import kind_of
from gradus.recipe.core import PROFILES, Recipe, get, put
from gradus.recipe.overrides import annotation, declared, read
from gradus.recipe.serialise import from_json, to_json
from gradus.schedules.stages import within
from gradus.tasks import packages
from gradus.tasks.data.in_memory import ROWS, InMemory, in_memory
from gradus.tasks.data.problems import of_stored
from gradus.tasks.data.split_rule import RULE, split_by
from gradus.training.budget import Budget, budget_of
from gradus.training.course import every_stage, every_task, staged
from gradus.types import UserError, command, unknown
from gradus.types.parts import Task

if TYPE_CHECKING:
    from gradus.tasks.data.rows import PromptForm


@dataclass(frozen=True)
class Plan:
    """The inputs of a run, in a form that can be stored. The run can be built again from its plan alone."""

    recipe: Recipe
    task: str | InMemory
    model: str | None = None
    seed: int = 0
    task_options: tuple[tuple[str, str], ...] = ()
    device: str = "cpu"
    log: tuple[str, ...] = ()  # trackers that also get the metrics
    text_prompts: PromptForm = "raw"  # the form of text prompts if the task does not set it; runs of older versions have "chat"
    processes: int = 1  # processes that train together; not stored, because their number does not change the result
    budget: Budget | None = None  # if there is a budget, the budget ends the run, and not the number of steps
    split: int = RULE  # number of the rule that divides the rows of files into training rows and held-out rows

    def stored(self) -> dict[str, Any]:
        model = None if self.model in (None, "tiny") else str(Path(str(self.model)).resolve())
        if isinstance(self.task, InMemory):
            raise UserError(f"{self.task} is not stored; give the run a folder, because the run stores such data there")
        return {
            "recipe": to_json(every_task(self.recipe, _anchored)),
            "task": _anchored(self.task),
            "task_options": [[n, str(Path(value).resolve()) if _is_path(n, value) else _absolute(value)] for n, value in self.task_options],
            "model": model,
            "seed": self.seed,
            "device": self.device,
            "split": self.split,
            "text_prompts": self.text_prompts,
            **({"log": list(self.log)} if self.log else {}),
            **({"budget": [self.budget.unit, self.budget.amount, self.budget.points]} if self.budget else {}),
        }

    @classmethod
    def read(cls, stored: Mapping[str, Any]) -> Plan:
        """Makes a plan from the values that `stored` returned. Raises UserError if the recipe uses code that is missing or has changed."""
        options = tuple((str(name), str(value)) for name, value in stored["task_options"])
        log = tuple(str(name) for name in stored.get("log", ()))
        recipe, device, form = from_json(stored["recipe"]), stored.get("device", "cpu"), stored.get("text_prompts", "chat")
        split = stored.get("split", 1)  # runs without the field began under rule 1
        budget = Budget(*stored["budget"]) if "budget" in stored else None
        return cls(recipe, stored["task"], stored["model"], stored["seed"], options, device, log, form, budget=budget, split=split)


def stored_task(folder: RunFolder) -> Task:
    """Loads the task of a stored run, but not the parts of its recipe. Raises UserError if files of the task are missing or broken."""
    stored = folder.recipe()
    with split_by(stored.get("split", 1)):
        return load_task(_in_folder(stored["task"], folder), {str(name): str(value) for name, value in stored["task_options"]})


def _in_folder(task: str, folder: RunFolder) -> str:
    """Returns the stored name of a task.

    If the task is a file of rows in the run's folder, the name is the current path of this file, even if the folder was moved.
    """
    here = folder.path / Path(task).name
    return str(here.resolve()) if here.name in ROWS and not os.path.exists(task) and here.is_file() else task


_FIELDS = {"source.path": "path", "held_out.path": "held_out"}


class _Makers(Mapping[str, Callable[..., Task]]):
    """Maps the name of a task to its maker, which is imported when it is used.

    `package:NAME` is also a name. Iteration gives only the tasks of this library.
    """

    def __getitem__(self, name: str) -> Callable[..., Task]:
        if packages.named(name):
            return packages.maker(name)
        if name not in registry.task_modules():
            raise KeyError(name)
        return registry.task_maker(name)

    def __contains__(self, name: object) -> bool:
        return name in registry.task_modules() or (isinstance(name, str) and packages.named(name))

    def __iter__(self) -> Iterator[str]:
        return iter(registry.task_modules())

    def __len__(self) -> int:
        return len(registry.task_modules())


TASKS = _Makers()


def form_of_prompts(planned: Plan, task: str) -> dict[str, str]:
    """Returns the run's option `prompt` if `task` is data; {} for other tasks, or if the run has no such option.

    The model has learned this form of prompts. So problems of another file should have the same form.
    """
    from gradus.tasks.data.loaders import is_data

    form = dict(planned.task_options).get("prompt")
    return {"prompt": str(form)} if form is not None and is_data(task, TASKS) else {}


def load_task(spec: str | Any, options: Mapping[str, str] | None = None) -> Task:
    """Loads the task that `spec` names or contains.

    Args: `spec`: a name, a file of problems, FILE.py:NAME, a data set, a mixture such as "arithmetic:3,countdown:1", or rows (a list of dictionaries or a
    `datasets.Dataset`). `options`: arguments of the task's maker, or values of dotted fields of the task.
    Raises: UserError for an unknown task or option; the message lists similar names.

    >>> load_task("arithmetic", {"level": "2"}).name
    'arithmetic'
    """
    from gradus.tasks.data.loaders import load_task as load
    from gradus.tasks.data.loaders import options_of, prompted
    from gradus.tasks.data.rows import PromptForm

    spec = rows_or_name(spec)
    options = dict(options or {})
    known = options_of(spec, TASKS)
    # if the maker has an option for a field of the source, the maker sets the field, because other values may depend on it
    options = {_FIELDS.get(n, n) if _FIELDS.get(n, n) in known else n: text for n, text in options.items()}
    given = {n: read(options.pop(n), *declared(known[n]), f"task.{n}") for n in list(options) if n in known}
    task = load(spec, TASKS, **given)
    if (stored := options.pop("problems", None)) is not None and "problems" not in known:
        task = of_stored(task, stored)
    if "prompt" in options:
        task = prompted(task, read(options.pop("prompt"), PromptForm, None, "task.prompt"))
    for path, text in options.items():
        names = {*known, *(f.name for f in fields(task) if f.name != "level" or task.level is not None)}  # rows of a file have no levels
        if path.partition(".")[0] not in names:
            raise unknown("option", f"--task.{path}", [f"--task.{n}" for n in names], f"Of the task {spec}")
        parent, _, name = path.rpartition(".")
        holder = get(task, parent) if parent else task
        value = read(text, annotation(holder, name), get(task, path), f"task.{path}")
        try:
            task = put(task, path, value)
        except UserError as error:
            raise UserError(f"--task.{path} {text}: {error}") from None
    return task


def rows_or_name(task: Any) -> str | InMemory:
    """Returns a task's name unchanged, and wraps rows in `InMemory`. Raises UserError for any other object."""
    rows = task if isinstance(task, str | InMemory) else in_memory(task)
    if rows is None:
        raise UserError(
            "a task must be a Task, a list of rows, a datasets.Dataset, a name, a file or FILE.py:NAME, but its type is "
            f"{type(task).__name__}; write other rows into a JSON lines file and give its name"
        )
    return rows


def task_of(planned: Plan) -> Task:
    """Loads the task of a plan.

    A run of an older version keeps its split into training and held-out rows. If the plan of such a run has no form of text prompts, its text prompts remain
    user messages.
    """
    from gradus.tasks.data.loaders import prompted

    with split_by(planned.split):
        task = load_task(planned.task, dict(planned.task_options))
    said = planned.text_prompts == "raw" or any(name == "prompt" for name, _ in planned.task_options)
    return task if said or not hasattr(task.source, "in_form") else prompted(task, planned.text_prompts)


def plan(
    recipe: str | Recipe = "grpo",
    task: Any = None,
    *,
    model: str | None = None,
    reward: str | Any | None = None,
    profile: str | None = None,
    steps: int | None = None,
    seed: int = 0,
    device: str = "cpu",
    task_options: Mapping[str, str] | None = None,
    log: str | Sequence[str] | None = None,
    budget: str | Budget | None = None,
) -> Plan:
    """Makes a plan from the names of the recipe, the task and the model. The task may also be rows in memory.

    If `task` is None, the plan has the default task for the kind of policy that the recipe trains. If `profile` is None, the plan has the recipe's setting.
    There is one exception: if this setting is `tiny` and the model is not built in, the plan has the profile `small`.
    """
    check_seed(seed)
    made = registry.recipe(recipe) if isinstance(recipe, str) else recipe
    registry.check_key(made, "the recipe")
    task = kind_of(made).task if task is None else rows_or_name(task)
    if profile is not None and profile not in PROFILES:
        raise unknown("profile", profile, PROFILES, "Give it with --profile")
    if profile is not None or (model not in (None, "tiny") and made.setting == PROFILES["tiny"]):
        made = made.but(setting=PROFILES[profile or "small"])
    if reward is not None:
        made = every_stage(made, lambda each: judged_by(each, reward))
    if steps is not None:
        if steps < 0:
            raise UserError(f"--steps is {steps}; it must be 0 or more")
        made = made.but(schedule=within(made.schedule, steps), setting__steps=steps) if staged(made) else made.but(setting__steps=steps)
    limit = budget_of(budget) if isinstance(budget, str) else budget
    if limit is not None:
        made, limit = _within(made, limit, steps)
    return Plan(made, task, model, seed, tuple((task_options or {}).items()), device, names_of(log), budget=limit)


def _within(recipe: Recipe, budget: Budget, steps: int | None) -> tuple[Recipe, Budget | None]:
    """Applies the budget to the recipe. Returns the recipe, and the budget that must be checked during the run.

    A budget of steps becomes the recipe's number of steps. Raises UserError if `steps` is also given, or if the budget of a recipe with stages has
    another unit.
    """
    if steps is not None:
        raise UserError(f"--steps {steps} and --budget {budget} both set the length of the run; give only one of them")
    if budget.unit == "steps":
        count = max(1, round(budget.amount))
        if staged(recipe):
            return recipe.but(schedule=within(recipe.schedule, count), setting__steps=count), None  # the number counts if the schedule is replaced
        return recipe.but(setting__steps=count, setting__eval_every=max(1, count // budget.points)), None
    if staged(recipe):
        raise UserError(f"the stages of {recipe.key} are measured in steps, but the budget is {budget}; give --budget steps=N")
    return recipe, budget


def check_seed(seed: int) -> None:
    """Raises UserError if the seed cannot be a key because it is below 0 or at least 2^64."""
    if not 0 <= seed < 2**64:
        raise UserError(f"--seed is {seed}; it must be at least 0 and less than 2^64")


def _is_path(name: str, value: str) -> bool:
    """Whether the value of a task's option is an existing file or folder.

    A value that contains neither "/" nor "." is a path only if the option takes a path.
    """
    asked = name.rpartition(".")[2] in ("path", "held_out")
    return (asked or "/" in value or "." in value) and os.path.exists(value)


def _anchored(task: str) -> str:
    """Returns the name of a task with absolute paths of files, so that the name is valid in any working folder."""
    is_path = task not in registry.task_modules() and os.path.exists(task)
    return str(Path(task).resolve()) if is_path else _absolute(task)


def _absolute(spec: str) -> str:
    """Returns FILE.py:NAME with the absolute path, so that a user can resume a run from any folder. Returns any other text unchanged."""
    file, colon, name = spec.rpartition(":")
    return f"{Path(file).resolve()}{colon}{name}" if colon and os.path.isfile(file) else spec


def plan_of(folder: RunFolder, *, trust: bool = False) -> Plan:
    """Reads the plan of a stored run. Imports the run's Python files.

    Raises UserError if the recipe file is broken, or if the recipe uses code that is missing or has changed. If the recipe names Python code and another user
    made the run, UserError is also raised, unless `trust` is set.
    """
    if not trust:
        folder.check_trusted()
    try:
        plan = Plan.read(folder.recipe())
        return replace(plan, task=_in_folder(str(plan.task), folder))
    except UserError as error:
        raise UserError(f"{folder.path / RECIPE}: {str(error).removeprefix(f'{folder.path / RECIPE}').lstrip()}") from error
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UserError(
            f"{folder.path / RECIPE} does not fit this version of gradus ({type(error).__name__}: {error}); restore the old file, "
            "or use the version of gradus that provenance.json names"
        ) from error


def model_of(model_or_run: str | Path | None, which: str = "final") -> str | None:
    """Returns the folder of a model.

    `model_or_run` is this folder, or a run. For a run, the result is the model `which`. If the run does not have this model, the result is the final model,
    or else the best model, or else the newest model. Returns None for the built-in model.
    """
    if model_or_run in (None, "tiny"):
        return None
    path = Path(str(model_or_run))
    if not is_run(path):
        return str(path)
    opened = RunFolder.open(path)
    for name in (which, "final", "best"):
        if (found := opened.model(name)) is not None:
            return str(found)
    checkpoint, _ = opened.latest()
    if checkpoint is None:
        raise UserError(f"run {path} has no checkpoint yet, so there is no model; continue the run with: {command('resume', path)}")
    return str(checkpoint.path / "model")


def judged_by(recipe: Recipe, reward: str | Any) -> Recipe:
    """Sets another reward in the recipe.

    The reward is FILE.py:FUNCTION, a function, a reward, the folder of a reward model, or the folder of a run that trained a reward model.

    Rewards in a list are added; `gradus.rewards.several.terms_of` describes names and weights. A reward can also be given by the name of its class,
    such as Verified. A reward model becomes the frozen player `judge` (`judge_2`, ... for further models), and its value head gives the score. If the folder is
    a run, its best model is used; a run without a best model gives its final or newest model. Raises UserError if a folder has no reward model.
    """
    from gradus.rewards.several import terms_of, total

    judged = [(term, *_judge(recipe, term.what, f"judge_{n}" if n > 1 else "judge")) for n, term in enumerate(terms_of(reward), start=1)]
    players = {f"players__{reward.player}": player for _, reward, player in judged if player is not None}
    return recipe.but(reward=total([(term, made) for term, made, _ in judged]), **players)


def _judge(recipe: Recipe, reward: Any, name: str) -> tuple[Any, Any]:
    """Makes a reward. If the reward is a reward model, also makes a player with the name `name`; else the player is None."""
    from gradus.recipe.overrides import override, part_modules
    from gradus.rewards.functions import reward_from

    if not (isinstance(reward, str) and os.path.isdir(reward)):
        if isinstance(reward, str) and reward.partition("(")[0] in part_modules():
            return override(recipe, "reward", reward).reward, None
        return reward_from(_absolute(reward) if isinstance(reward, str) else reward), None
    from gradus.policies.heads import FILE, SEVERAL, names_of
    from gradus.rewards.reward_model import RewardModel
    from gradus.types.players import Player

    model = Path(str(model_of(reward, "best"))).resolve()
    heads = names_of(model)
    if heads is None:
        raise UserError(
            f"the folder {reward} contains no reward model, because {model} has no {FILE} and no {SEVERAL}; give the run of a recipe that trains a value head"
        )
    return RewardModel(name, heads), Player(str(model))
