"""The Python interface. The interface has the functions of the command line: train, resume, evaluate, check, screen and export.

>>> import gradus
>>> run = gradus.train("grpo", task="arithmetic", steps=20)  # doctest: +SKIP
>>> run.metrics[-1]["held_out/accuracy"]  # doctest: +SKIP
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from gradus.checks.data import accounts_of, check_same_pictures
from gradus.checks.findings import Finding
from gradus.checks.prompts import of_evaluation
from gradus.checks.start import tell
from gradus.lab import checkpoints
from gradus.lab.atomic_files import write
from gradus.lab.bad import given_up
from gradus.lab.folder import RunFolder, is_run
from gradus.lab.live import title_of
from gradus.lab.provenance import describe
from gradus.lab.trackers import Curve, Sinks, names_of, open_sinks, plain
from gradus.lab.training_data import with_suffix
from gradus.players.build import build_players
from gradus.recipe.compatibility import check_problems
from gradus.recipe.core import Recipe
from gradus.recipe.overrides import override_all
from gradus.rewards.combine import check_reward
from gradus.rewards.environment import EnvironmentReturn
from gradus.rewards.several import reward_of
from gradus.rollouts.auto import Auto
from gradus.runtime import hub
from gradus.study.evaluate import Exam, examine, tables_of, verdict_of
from gradus.study.screen import Measured, Screened, measure
from gradus.tasks.data.in_memory import InMemory
from gradus.tasks.data.problems import line
from gradus.tasks.data.split_rule import RULE
from gradus.training.budget import Budget
from gradus.training.course import refuse_processes, tasks_of
from gradus.training.export import export as export
from gradus.training.interrupts import Stop
from gradus.training.launch import go, prepare, proceed
from gradus.training.plan import Plan, check_seed, form_of_prompts, load_task, model_of, plan, plan_of, rows_or_name, task_of
from gradus.training.rate import chosen_rate, with_its_rate
from gradus.training.resume import put_back, replanned
from gradus.training.run import OnStep, Run
from gradus.types import Key, UserError, command
from gradus.types.parts import Task
from gradus.types.reads import pictures_of


def start(
    planned: Plan, folder: Path | str | None = None, *, on_step: OnStep | None = None, view: Any = None, task: Task | None = None
) -> Run:
    """Makes a run from the plan, ready to train. If `folder` is given, also makes the run's folder as soon as all checks have passed."""
    made = task or task_of(planned)
    run = prepare(planned.recipe, made, planned.model, seed=planned.seed, on_step=on_step, view=view, device=planned.device)
    planned, run.budget = with_its_rate(planned, run), planned.budget
    if folder is not None:
        model = Path(planned.model) if planned.model and os.path.isdir(planned.model) else None
        rows = planned.task if isinstance(planned.task, InMemory) else None
        if rows is not None:
            planned = replace(planned, task=str(Path(folder).resolve() / rows.file))
        data = [Path(p) for p in (str(planned.task), *tasks_of(planned.recipe), *(v for _, v in planned.task_options)) if os.path.isfile(p)]
        code = [Path(m.__file__) for n, m in sys.modules.items() if n.startswith("_user_") and m.__file__]
        named = [Path(getattr(part, "path", "").rpartition(":")[0]) for part in _rewards(planned.recipe.reward)]
        code = [file for file in (*code, *named) if file.is_file()]
        provenance = describe(data=data, model=model, code=code, command=sys.argv)
        if told := [account.told for account in accounts_of(made)]:
            provenance["rows"] = told
        if pictures := pictures_of(made):
            provenance["pictures"] = pictures
        run.folder = RunFolder.create(folder, planned.stored(), provenance, {} if rows is None else {rows.file: rows.content})
    return run


def _rewards(reward: Any) -> list[Any]:
    """Returns a list with the reward. For a sum or a product of rewards, the list has its parts."""
    return [inner for part in reward.parts.values() for inner in _rewards(part)] if isinstance(getattr(reward, "parts", None), Mapping) else [reward]


def launch(
    planned: Plan,
    folder: Path | str | None = None,
    *,
    on_step: OnStep | None = None,
    view: Any = None,
    task: Task | None = None,
    stop: Stop | None = None,
    pause: Budget | None = None,
) -> Run:
    """Starts a run of the plan and trains it to its end.

    If the run fails before it has a finished step or a saved state, its folder is deleted. `pause`: an amount in the unit of the run's budget. When the run
    has spent this amount, the run is saved and returned. A pause does not change the result if `resume` continues the run.
    """
    from gradus.systems.fleet import working

    made = task or task_of(planned)
    check_problems(made)
    refuse_processes(planned.recipe, planned.processes)
    run = start(planned, folder, on_step=on_step, view=view, task=made)
    run.stop, run.pause = stop or run.stop, pause
    try:
        if (said := chosen_rate(planned)) is not None:
            say_of(run)(said)
        tell(run)
        planned = with_its_rate(planned, run)
        if isinstance(planned.task, InMemory) and run.folder is not None:
            say_of(run)(f"the data in memory is stored in {run.folder.path / planned.task.file}, so that the run can be resumed")
        run.sinks = sinks_of(planned, run)
        with working(run, planned.model, planned.device, planned.processes):
            return go(run)
    except Exception:
        if run.folder is not None and not run.metrics and run.saved is None:
            run.folder.discard()
        raise


def sinks_of(planned: Plan, run: Run, before: Sequence[Mapping[str, Any]] | None = None) -> Sinks | None:
    """Opens the trackers of a plan; None if there are none. `before`: the rows that they got before the run was resumed; None: the run is new."""
    if not planned.log:
        return None
    stored = replace(planned, task=str(planned.task)).stored()
    folder = run.folder.path if run.folder is not None else None
    name = folder.resolve().name if folder is not None else title_of(planned.recipe.key, str(planned.task))
    identity = run.folder.identity() if run.folder is not None else None
    curve = Curve(name, folder, identity, plain(stored), first=run.step, resumed=before is not None)
    return open_sinks(planned.log, curve, say_of(run), before or ())


def say_of(run: Run) -> Callable[[str], None]:
    """Returns the function that shows a sentence to the user of a run."""
    return run.view.message if run.view is not None else partial(print, file=sys.stderr)


def train(
    recipe: str | Recipe = "grpo",
    task: str | Task | Any = None,
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
    budget: str | None = None,
    processes: int = 1,
    **changes: Any,
) -> Run:
    """Trains and returns the run.

    Args: `recipe`: a key, FILE.py:NAME or a `Recipe`. `task`: a name, a file of problems, FILE.py:NAME, rows in memory (a list of dictionaries or a
    `datasets.Dataset`, which the run's folder then stores), or a `Task` (then `run` must be None). `model`: a model's folder or the name of a built-in model
    (None: the task's built-in model). `reward`: FILE.py:NAME, a function, a pair (function, weight), or a list of these, whose rewards are added (None: the
    recipe's reward). `profile`: the name of a profile, which sets all fields of the setting (None: the recipe's setting, or "small" if the recipe's setting
    is "tiny" and the model is not built-in). `steps`: the number of training steps (None: the recipe's number). `seed`: the seed of all random draws. `run`:
    the new folder of the run (None: nothing is stored on the disk). `on_step`: a function that is called after each step with the run, the step's metrics and
    its groups. `task_options`: options of the task as text. `log`: trackers for the metrics, such as "tensorboard,wandb" (also trackio). `until`: a time
    limit, such as "8h" or "90s"; at this limit the run is saved and returned, and `run.stop.asked` is "time". `budget`: a limit that replaces `steps` and
    ends the run, such as "tokens=2e6", "rollouts=5000" or "seconds=600". `processes`: the number of processes that train together. `changes`: new values of
    fields of the recipe, such as `objective__policy__trust__high=0.28`.
    Raises: UserError before the first step if the arguments do not fit together.
    """
    stop = Stop(until)
    made = isinstance(task, Task)
    words: dict[str, Any] = {"model": model, "reward": reward, "profile": profile, "steps": steps, "seed": seed, "log": log, "budget": budget}
    planned = plan(recipe, task.name if isinstance(task, Task) else task, task_options=task_options, **words)
    planned = replace(planned, recipe=planned.recipe.but(**changes), processes=processes)
    if made and run is not None:
        raise UserError("a Task object cannot be stored in a run folder; write the task into a file, and give FILE.py:NAME")
    return launch(planned, run, on_step=on_step, task=task if isinstance(task, Task) else None, stop=stop)


def check(
    recipe: str | Recipe = "grpo",
    task: str | Any = None,
    *,
    model: str | None = None,
    reward: Any = None,
    profile: str | None = None,
    steps: int | None = None,
    seed: int = 0,
    device: str = "cpu",
    task_options: Mapping[str, str] | None = None,
    samples: int = 4,
    step: bool = False,
    **changes: Any,
) -> list[Finding]:
    """Returns the findings of `gradus check` about the run that `train` would make from these arguments. `task` cannot be a `Task` object.

    Args: `recipe`, `task`, `model`, `reward`, `profile`, `steps`, `seed`, `task_options`, `changes`: as for `train`. `device`: the device of the run, such as
    "cuda". `samples`: the number of problems that the model answers (0: none). `step`: whether to do one training step with the longest possible batch.
    """
    from gradus.checks import before

    def planned() -> Plan:
        made = plan(recipe, task, model=model, reward=reward, profile=profile, steps=steps, seed=seed, device=device, task_options=task_options)
        return replace(made, recipe=made.recipe.but(**changes))

    return before.check(planned, samples=samples, step=step)


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
    trust: bool = False,
    pause: Budget | None = None,
    **changes: Any,
) -> Run:
    """Resumes a run from its last complete checkpoint. Steps after this checkpoint are repeated and give the same bytes.

    Args: `folder`: the run's folder. `on_step`: as for `train`. `view`: a live table, which also shows messages (None: messages go to standard error).
    `more`: the new total number of steps (None: as planned). `log`: the trackers from now on, "none" for no tracker (None: as planned). `until`, `processes`:
    as for `train`. `device`: the new device (None: as planned). `trust`: whether to resume a run even if another user made it and it executes Python.
    `pause`: as for `launch`. `changes`: new values of fields that may change (`gradus.training.resume.MAY_CHANGE`), such as `setting__memory="6GB"`. Raises:
    UserError if the folder has no run, or if a field may not change.
    """
    from gradus.systems.fleet import working

    stop = until if isinstance(until, Stop) else Stop(until)
    opened = RunFolder.open(folder)
    planned = before = plan_of(opened, trust=trust)
    planned = replace(planned, recipe=replanned(planned.recipe, more, changes), device=device or planned.device)
    planned = replace(planned, log=names_of(planned.log if log is None else log))
    refuse_processes(planned.recipe, processes)
    run = start(planned, on_step=on_step, view=view)
    run.stop, run.pause = stop, pause
    say = say_of(run)
    check_same_pictures(run.task, opened)
    with opened.claimed():
        told = [*opened.metrics(), *given_up(opened.path)] if planned.log == before.log else []
        notes = put_back(run, opened)
        for note in notes:
            say(note)
        if planned != before or trust:  # a trusted run is marked as the user's own
            opened.replan(planned.stored())
        opened.note_resumed(run.step, sys.argv, notes)
        run.folder = opened
        run.sinks = sinks_of(planned, run, told)
        with working(run, planned.model, planned.device, processes):
            return proceed(run)


def evaluate(
    model_or_run: str | Path | None = None,
    task: str | Task | Any = None,
    *,
    pass_at: Sequence[int] = (1,),
    samples: int = 0,
    problems: int = 256,
    reward: str | Any | None = None,
    seed: int = 0,
    device: str | None = None,
    task_options: Mapping[str, str] | None = None,
    overrides: Sequence[tuple[str, str]] = (),
    progress: Callable[[int, int], None] | None = None,
    trust: bool = False,
) -> Exam:
    """Measures pass@k, majority vote, greedy accuracy, reward and length on held-out problems, with intervals. For a judge, measures its order of pairs and
    its calibration.

    Args: `model_or_run`: a model's folder or a run's folder (None: the built-in model). A run gives its final model, or without it the best one, or else the
    newest one. `task`: as for `train` (None: the run's task). `pass_at`: the numbers k of pass@k. `samples`: the number of answers per problem (0: the
    largest of `pass_at`). `problems`: the number of held-out problems. `reward`: FILE.py:NAME. (None: the task's verifier; for a run on its own task, the
    reward of the evaluations during training.) `seed`: the seed of all random draws. `device`: the device, such as "cuda" (None: the run's device; for a
    model, the CPU). `task_options`: options of the task as text. `overrides`: (path, text) for changed fields of the recipe, as on the command line.
    `progress`: a function that gets the number of finished answers and the number of all answers. `trust`: whether to evaluate a run even if another user
    made it and it executes Python.
    Raises: UserError if the task has no verifier and no reward is given.
    """
    check_seed(seed)
    if task is not None and not isinstance(task, Task):
        task = rows_or_name(task)
    if isinstance(task, InMemory):
        task, task_options = load_task(task, task_options), None
    path = Path(str(model_or_run)) if model_or_run not in (None, "tiny") else None
    options = dict(task_options or {})
    own = False
    if path is not None and is_run(path):
        run, own = _of_run(path, task, options, overrides, device, trust)
    else:
        if path is not None and not path.exists():
            raise hub.no_folder(str(path))
        if task is None:
            raise UserError("an evaluation needs a task; name a task with --task (gradus tasks lists the tasks)")
        run = _of_model(path, task if isinstance(task, Task) else load_task(task, options), overrides, device or "cpu")
    run.seed = seed
    judge = verdict_of(run, own=own) if reward is None else reward_of(reward)
    if judge is None:
        raise UserError(f"task {run.task.name} has no verifier that judges answers; give a reward with --reward FILE.py:NAME")
    check_reward(judge, run.task)
    return asyncio.run(_examined(run, judge, path if own else None, ks=pass_at, samples=samples, problems=problems, progress=progress))


def screen(
    task: str | Task | Any,
    target: str | Path,
    *,
    model: str | Path | None = None,
    keep: tuple[float, float] = (0.1, 0.9),
    samples: int = 8,
    problems: int = 256,
    reward: str | Any | None = None,
    seed: int = 0,
    device: str = "cpu",
    task_options: Mapping[str, str] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[Measured, Screened]:
    """Measures a model's pass rates on the first training problems of a task. Writes the problems whose pass rate is in `keep` to `target`.

    To train a run on this file, set the task's option `problems` to its name.

    Args: `task`, `model`, `task_options`: as for `train`. `target`: the file to write (.jsonl). `keep`: the smallest and the largest pass rate. `samples`:
    the number of answers per problem. `problems`: the number of problems to measure. `reward`: FILE.py:NAME (None: the task's verifier). `seed`: the seed of
    all random draws. `device`: the device, such as "cuda". `progress`: a function that gets the number of finished answers and the number of all answers.
    Raises: UserError if the file exists, or if the task has no verifier.
    """
    check_seed(seed)
    with_suffix(Path(target), (".jsonl",))
    made = task if isinstance(task, Task) else load_task(task, task_options)
    found = model_of(model)
    run = _of_model(None if found is None else Path(found), made, (), device)
    run.seed = seed
    judge = verdict_of(run, own=False) if reward is None else reward_of(reward)
    if judge is None:
        raise UserError(f"task {made.name} has no verifier that judges answers; give a reward with --reward FILE.py:NAME")
    check_reward(judge, made)
    screened = Screened(*keep, samples=samples, problems=problems)

    async def asked() -> Measured:
        try:
            return await measure(run, run.recipe, run.world(run.recipe, "screen", judge), screened, made.source, progress)
        finally:
            if hasattr(judge, "close"):
                await judge.close()

    measured = asyncio.run(asked())
    write(Path(target), "".join(f"{line(row, 'a screened problem')}\n" for row in measured.kept(screened)).encode())
    return measured, screened


async def _examined(run: Run, judge: Any, path: Path | None, **how: Any) -> Exam:
    try:
        rows = None if path is None else RunFolder.open(path).metrics()
        return replace(exam := await examine(run, reward=judge, **how), prompts=of_evaluation(run), tables=exam.tables or await tables_of(run, rows))
    finally:
        if hasattr(judge, "close"):
            await judge.close()


def _of_run(
    path: Path, task: str | Task | None, options: Mapping[str, str], overrides: Sequence[tuple[str, str]], device: str | None, trust: bool
) -> tuple[Run, bool]:
    """Returns a run with the weights and the parts' states of its final, best or newest checkpoint, and whether `task` is the run's own task."""
    folder = RunFolder.open(path)
    planned = plan_of(folder, trust=trust)
    own = task is None or (isinstance(task, str) and replace(planned, task=task).stored()["task"] == planned.task)
    if isinstance(task, str):
        form, rule = (planned.text_prompts, planned.split) if own else ("raw", RULE)
        asked = dict(options) if own else {**form_of_prompts(planned, task), **options}
        planned = replace(planned, task=task, task_options=tuple(asked.items()), text_prompts=form, split=rule)
    elif options:
        planned = replace(planned, task_options=(*planned.task_options, *options.items()))
    recipe = override_all(planned.recipe, overrides)
    recipe = recipe if own else replace(recipe, requires=frozenset())  # columns that only training needs, such as solutions
    planned = replace(planned, recipe=recipe, device=device or planned.device)
    run = start(planned, task=task if isinstance(task, Task) else None)
    mine = run.task
    model = folder.model("final") or folder.model("best")
    found = checkpoints.at(model.parent) if model is not None else folder.latest()[0]
    if found is None:
        raise UserError(f"run {path} has no complete checkpoint, so there is no model yet; continue the run: {command('resume', path)}")
    run.restore(found)
    run.task = run.task if own else mine
    return run, own


def _of_model(path: Path | None, task: Task, overrides: Sequence[tuple[str, str]], device: str) -> Run:
    recipe = Recipe(key="evaluation", rollout=Auto(), reward=EnvironmentReturn() if task.environment else None)
    recipe = override_all(recipe, overrides)
    return Run(recipe, task, build_players(recipe, path, task, Key(0), device))
