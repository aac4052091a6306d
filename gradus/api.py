"""The same from Python as from the command line: train, resume, evaluate, export.

>>> import gradus
>>> run = gradus.train("grpo", task="arithmetic", steps=20)  # doctest: +SKIP
>>> run.metrics[-1]["held_out/accuracy"]  # doctest: +SKIP
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

from gradus import registry
from gradus.arguments import FORMS
from gradus.checks.start import tell
from gradus.fit import check_problems
from gradus.lab.bad import given_up
from gradus.lab.durable import PARTIAL
from gradus.lab.folder import RECIPE, ROLLOUTS, RunFolder, is_run
from gradus.lab.provenance import describe
from gradus.lab.sinks import Curve, Sinks, names_of, open_sinks, plain
from gradus.overrides import annotation, declared, read
from gradus.recipe import PROFILES, Recipe, get, put
from gradus.recipe_json import from_json, to_json
from gradus.resuming import put_back, replanned
from gradus.run import OnStep, Run, go, prepare, proceed
from gradus.stopping import Stop
from gradus.types import UserError, unknown
from gradus.types.parts import Task


@dataclass(frozen=True)
class Plan:
    """What a run was asked for, in words that can be stored: enough to build it again."""

    recipe: Recipe
    task: str
    model: str | None = None
    seed: int = 0
    task_options: tuple[tuple[str, str], ...] = ()
    device: str = "cpu"
    log: tuple[str, ...] = ()  # other places that the metrics go to
    processes: int = 1  # that train together; with the result of one, so not kept with the run

    def stored(self) -> dict[str, Any]:
        model = None if self.model in (None, "tiny") else str(Path(str(self.model)).resolve())
        is_path = self.task not in registry.task_modules() and Path(self.task).exists()
        task = str(Path(self.task).resolve()) if is_path else _absolute(self.task)
        return {
            "recipe": to_json(self.recipe),
            "task": task,
            "task_options": [[name, str(Path(value).resolve()) if _is_path(name, value) else value] for name, value in self.task_options],
            "model": model,
            "seed": self.seed,
            "device": self.device,
            **({"log": list(self.log)} if self.log else {}),
        }

    @classmethod
    def read(cls, stored: Mapping[str, Any]) -> Plan:
        """The inverse of `stored`. Raises UserError where the recipe uses code that is gone or has changed."""
        options = tuple((str(name), str(value)) for name, value in stored["task_options"])
        log = tuple(str(name) for name in stored.get("log", ()))
        return cls(from_json(stored["recipe"]), stored["task"], stored["model"], stored["seed"], options, stored.get("device", "cpu"), log)


DEFAULT_TASKS = {"lm": "arithmetic", "flow": "flow_2d"}  # by the kind of policy that a recipe trains
_FIELDS = {"source.path": "path", "held_out.path": "held_out"}


class _Makers(Mapping[str, Callable[..., Task]]):
    """Task makers by name, imported on use."""

    def __getitem__(self, name: str) -> Callable[..., Task]:
        if name not in registry.task_modules():
            raise KeyError(name)
        return registry.task_maker(name)

    def __contains__(self, name: object) -> bool:
        return name in registry.task_modules()

    def __iter__(self) -> Iterator[str]:
        return iter(registry.task_modules())

    def __len__(self) -> int:
        return len(registry.task_modules())


TASKS = _Makers()


def load_task(spec: str, options: Mapping[str, str] | None = None) -> Task:
    """The task of a name, file, file.py:task, data set or mixture. Options are given to its maker, or set on the task at a dotted field."""
    from gradus.tasks.loaders import load_task as load
    from gradus.tasks.loaders import options_of

    if not isinstance(spec, str):
        raise UserError(
            f"a task must be a Task or text (a name, a file of problems, file.py:task), not {type(spec).__name__}; "
            "write rows into a JSON lines file and name it (a data set has to_json)"
        )
    options = dict(options or {})
    known = options_of(spec, TASKS)
    # a field of a source that the maker takes by its own name goes through the maker, which knows what else hangs on it
    options = {_FIELDS.get(n, n) if _FIELDS.get(n, n) in known else n: text for n, text in options.items()}
    given = {n: read(options.pop(n), *declared(known[n]), f"task.{n}") for n in list(options) if n in known}
    task = load(spec, TASKS, **given)
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


def plan(
    recipe: str | Recipe = "grpo",
    task: str | None = None,
    *,
    model: str | None = None,
    reward: str | Any | None = None,
    profile: str | None = None,
    steps: int | None = None,
    seed: int = 0,
    device: str = "cpu",
    task_options: Mapping[str, str] | None = None,
    log: str | Sequence[str] | None = None,
) -> Plan:
    """A plan from words. Without a task: the default for the kind of policy that the recipe trains.

    The profile is `tiny` for built-in models and `small` for others, unless named.
    """
    check_seed(seed)
    made = registry.recipe(recipe) if isinstance(recipe, str) else recipe
    task = DEFAULT_TASKS[made.policy] if task is None else task
    if profile is not None and profile not in PROFILES:
        raise unknown("profile", profile, PROFILES, "Give it with --profile")
    if profile is not None or (model not in (None, "tiny") and made.setting == PROFILES["tiny"]):
        made = made.but(setting=PROFILES[profile or "small"])
    if reward is not None:
        from gradus.judging import judged_by

        made = judged_by(made, _absolute(reward) if isinstance(reward, str) else reward)
    if steps is not None:
        if steps < 0:
            raise UserError(f"--steps is {steps}; it must be 0 or more")
        made = made.but(setting__steps=steps)
    return Plan(made, task, model, seed, tuple((task_options or {}).items()), device, names_of(log))


def check_seed(seed: int) -> None:
    """Raises UserError for a seed from which no draws can be keyed."""
    if not 0 <= seed < 2**64:
        raise UserError(f"--seed is {seed}; it must be at least 0 and less than 2^64")


def _is_path(name: str, value: str) -> bool:
    """Whether the value of a task's option is a file or folder that is there; a plain word is one only where the option asks for a path."""
    asked = name.rpartition(".")[2] in ("path", "held_out")
    return (asked or "/" in value or "." in value) and Path(value).exists()


def _absolute(spec: str) -> str:
    """FILE.py:NAME with the file's whole path, so that a run can be resumed from any folder."""
    file, colon, name = spec.rpartition(":")
    return f"{Path(file).resolve()}{colon}{name}" if colon and Path(file).is_file() else spec


def start(
    planned: Plan, folder: Path | str | None = None, *, on_step: OnStep | None = None, view: Any = None, task: Task | None = None
) -> Run:
    """A run of the plan, ready to train; with a folder it is kept there. Nothing is written before everything was checked."""
    made = task or load_task(planned.task, dict(planned.task_options))
    run = prepare(planned.recipe, made, planned.model, seed=planned.seed, on_step=on_step, view=view, device=planned.device)
    if folder is not None:
        model = Path(planned.model) if planned.model and Path(planned.model).is_dir() else None
        data = [Path(p) for p in (planned.task, *(v for _, v in planned.task_options)) if Path(p).is_file()]
        code = [Path(m.__file__) for n, m in sys.modules.items() if n.startswith("_user_") and m.__file__]
        named = getattr(planned.recipe.reward, "path", "").rpartition(":")[0]
        code = [file for file in (*code, Path(named)) if file.is_file()]
        run.folder = RunFolder.create(folder, planned.stored(), describe(data=data, model=model, code=code, command=sys.argv))
    return run


def launch(
    planned: Plan,
    folder: Path | str | None = None,
    *,
    on_step: OnStep | None = None,
    view: Any = None,
    task: Task | None = None,
    stop: Stop | None = None,
) -> Run:
    """Starts a run of the plan and trains it to its end. Where it fails before its first step is done, its folder goes again."""
    from gradus.systems.parallel import shared

    made = task or load_task(planned.task, dict(planned.task_options))
    check_problems(made)
    run = start(planned, folder, on_step=on_step, view=view, task=made)
    run.stop = stop or run.stop
    tell(run)
    try:
        run.sinks = sinks_of(planned, run)
        with shared(run, planned.model, planned.device, planned.processes):
            return go(run)
    except Exception:
        if run.folder is not None and not run.metrics and run.saved is None:
            run.folder.discard()
        raise


def sinks_of(planned: Plan, run: Run, before: Sequence[Mapping[str, Any]] | None = None) -> Sinks | None:
    """The places that a plan's metrics go to, opened; `before`: the rows that they were told before the run went on, None for a new run."""
    if not planned.log:
        return None
    stored = planned.stored()
    folder = run.folder.path if run.folder is not None else None
    name = folder.resolve().name if folder is not None else f"{planned.recipe.key} on {planned.task}"
    identity = run.folder.identity() if run.folder is not None else None
    curve = Curve(name, folder, identity, plain(stored), first=run.step, resumed=before is not None)
    say = run.view.message if run.view is not None else partial(print, file=sys.stderr)
    return open_sinks(planned.log, curve, say, before or ())


def train(
    recipe: str | Recipe = "grpo",
    task: str | Task | None = None,
    *,
    model: str | None = None,
    reward: Any = None,
    profile: str | None = None,
    steps: int | None = None,
    seed: int = 0,
    run: Path | str | None = None,
    on_step: OnStep | None = None,
    task_options: Mapping[str, str] | None = None,
    log: str | Sequence[str] | None = None,
    until: str | None = None,
    processes: int = 1,
    **changes: Any,
) -> Run:
    """Trains and returns the run; `changes` are paths of the recipe, `objective__policy__trust__high=0.28`.

    `log`: other places that the metrics go to, "tensorboard,wandb" (also trackio). `until`: how long it may take, "8h" or "90s"; where that
    ends first, the run is saved and returned as it is then, with `run.stop.asked == "time"`. `processes`: how many train together.
    A Task object or a reward that is a Python callable works too; such a run cannot be resumed from its folder, so it takes none.
    """
    stop = Stop(until)
    made = isinstance(task, Task)
    words: dict[str, Any] = {"model": model, "reward": reward, "profile": profile, "steps": steps, "seed": seed, "log": log}
    planned = plan(recipe, task.name if isinstance(task, Task) else task, task_options=task_options, **words)
    planned = replace(planned, recipe=planned.recipe.but(**changes), processes=processes)
    if made and run is not None:
        raise UserError("a task given as an object cannot be stored in a run folder; put it into a file and name it file.py:task")
    return launch(planned, run, on_step=on_step, task=task if isinstance(task, Task) else None, stop=stop)


def resume(
    folder: Path | str,
    *,
    on_step: OnStep | None = None,
    view: Any = None,
    more: int | None = None,
    log: str | Sequence[str] | None = None,
    until: str | Stop | None = None,
    processes: int = 1,
    device: str | None = None,
    **changes: Any,
) -> Run:
    """Goes on with a run from its last whole checkpoint, redoing the steps since to the same bytes.

    `more`: steps in all from now on, if not as planned; `log`: places for the metrics from now on, if not as planned ("none" for none);
    `until`, `processes`: as for `train`; `device`, `changes`: if not as planned, `setting__memory="6GB"` (`gradus.resuming.MAY_CHANGE`).
    What was found broken is told by `view`, else on standard error, and in provenance.json.
    """
    from gradus.systems.parallel import shared

    stop = until if isinstance(until, Stop) else Stop(until)
    opened = RunFolder.open(folder)
    planned = before = plan_of(opened)
    planned = replace(planned, recipe=replanned(planned.recipe, more, changes), device=device or planned.device)
    planned = replace(planned, log=names_of(planned.log if log is None else log))
    run = start(planned, on_step=on_step, view=view)
    run.stop = stop
    say = view.message if view is not None else partial(print, file=sys.stderr)
    with opened.claimed():
        told = [*opened.metrics(), *given_up(opened.path)] if planned.log == before.log else []
        notes = put_back(run, opened)
        for note in notes:
            say(note)
        if planned != before:
            opened.replan(planned.stored())
        opened.note_resumed(run.step, sys.argv, notes)
        run.folder = opened
        run.sinks = sinks_of(planned, run, told)
        with shared(run, planned.model, planned.device, processes):
            return proceed(run)


def plan_of(folder: RunFolder) -> Plan:
    """What a run was asked for. Raises UserError where its recipe is not one, or uses what is gone or has changed."""
    try:
        return Plan.read(folder.recipe())
    except UserError as error:
        raise UserError(f"{folder.path / RECIPE}: {str(error).removeprefix(f'{folder.path / RECIPE}').lstrip()}") from error
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UserError(
            f"{folder.path / RECIPE} is not what this version of gradus wrote ({type(error).__name__}: {error}); put the old file back, "
            "or use the version named in provenance.json"
        ) from error


def model_of(model_or_run: str | Path | None, which: str = "final") -> str | None:
    """The model folder that a path means: the folder itself, or the final (else the best, else the newest) model of a run."""
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
        raise UserError(f"run {path} has no checkpoint yet, so it holds no model; go on with it: gradus resume {path}")
    return str(checkpoint.path / "model")


def export(run: Path | str, target: Path | str, which: str = "final", *, form: str = "model", at_least: float | None = None) -> Path:
    """A run's model as a folder that loads in transformers as it is; or its answers as a file that does not exist yet (see `export_data`)."""
    if form not in FORMS:
        raise unknown("form of export", form, FORMS, "Give it with --as")
    if form != "model":
        if which != "final":
            raise UserError(f"--best chooses among models, but the run is exported as {form}; leave one of the two out")
        return export_data(run, target, form, at_least)
    if at_least is not None:
        raise UserError("--at-least is for answers, exported --as sft or --as preference; leave it out for a model")
    return _export_model(run, target, which)


def export_data(run: Path | str, target: Path | str, form: str, at_least: float | None = None) -> Path:
    """What a run's policy answered, as `sft` or `preference` data (JSON lines or Parquet) or all its `rollouts` (Parquet).

    `at_least`: the reward from which an answer is imitated or preferred; None: for `sft` the task's full marks. The rules are those of
    `gradus.lab.training_data.demonstrations` and `preferences`. Raises UserError where the file exists, or there is nothing to write.
    """
    from gradus.lab import rollouts, training_data
    from gradus.lab.trajectory_table import step_table

    target, opened = Path(target), RunFolder.open(run)
    steps = rollouts.scan(opened.path / ROLLOUTS)
    if form == "rollouts":
        if at_least is not None:
            raise UserError("--at-least is for answers, exported --as sft or --as preference; rollouts are exported whole")
        if not rollouts.stored(opened.path / ROLLOUTS):
            raise UserError(f"{run} has no rollouts yet; go on with it: gradus resume {run}")
        training_data.write_tables(target, (step_table(step, groups) for step, groups in steps))
        return target
    training_data.with_suffix(target, (".jsonl", ".parquet"))
    stored = opened.recipe()
    task = load_task(stored["task"], {str(name): str(value) for name, value in stored["task_options"]})
    asked = training_data.collect(steps, task.system)
    made = {"sft": training_data.demonstrations, "preference": training_data.preferences}[form](asked, at_least)
    training_data.write_rows(target, made)
    return target


def _export_model(run: Path | str, target: Path | str, which: str) -> Path:
    """Raises UserError where the target exists, or there is no best."""
    target = Path(target)
    if target.exists():
        raise UserError(f"{target} exists already; name another folder, nothing is overwritten")
    if which == "best" and is_run(Path(run)) and RunFolder.open(run).model("best") is None:
        raise UserError(f"{run} has no best model, for no evaluation after its start beat all others; leave --best out for the last one")
    source = model_of(run, which)
    if source is None or not is_run(Path(run)):
        raise UserError(f"{run} holds no run; give the folder that was named with --run")
    partial = target.with_name(PARTIAL + target.name)
    try:
        shutil.copytree(source, partial)
        partial.rename(target)
    except OSError as error:
        raise UserError(f"cannot write the model to {target}: {error.strerror or error}; name another folder") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return target
