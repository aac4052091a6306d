"""Makes all checks of a plan, in order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gradus.checks import data, judging, machine, prompts, template
from gradus.checks.findings import Finding, collected, counted, guarded, passed
from gradus.checks.in_stages import first_stage
from gradus.checks.learning import of_learning
from gradus.checks.method import of_method
from gradus.players.rates import with_rate
from gradus.tasks.data.files import BadRow
from gradus.training.course import staged
from gradus.types import Key, UserError
from gradus.types.parts import Task

if TYPE_CHECKING:
    from gradus.recipe.core import Recipe
    from gradus.training.plan import Plan
    from gradus.training.run import Run

ROWS = 2000  # largest number of problems of a file whose reference answers are judged
DRAWN = 32  # number of problems that are drawn from a generator, and number of prompts that are tried in the template
TESTED = 64  # number of problems whose tests are tried on programs that solve nothing
TRIED = 8  # number of reference answers for a test of the reward
ANSWERS = 8  # largest number of sampled answers per problem


def check(
    planned: Callable[[], Plan], *, samples: int = 4, quarantine: str | None = None, step: bool = False, folder: Path = Path()
) -> list[Finding]:
    """Makes all checks before the first step and returns their findings.

    Args: `planned`: makes the plan (an error of this function is a finding). `samples`: number of problems that the model answers (0: none). `quarantine`:
    the file for bad rows. `step`: whether to do one real step with the longest batch, and to measure the memory of this step. `folder`: the folder of the
    planned run.
    Raises: UserError if `samples` is below 0, or if the quarantine file cannot be written.
    """
    if samples < 0:
        raise UserError(f"--samples is {samples}; give the number of problems that the model answers, or 0 for no answers")
    found: list[Finding] = []
    plan = guarded("recipe", found, planned)
    if plan is None:
        return found
    found.append(Finding("recipe", "ok", about(plan.recipe, plan.model)))
    if staged(plan.recipe):
        plan = first_stage(plan, found)
        if plan is None:
            return found
    else:
        collected("recipe", found, of_learning(plan.recipe))
        collected("method", found, of_method(plan.recipe))
    task = _task(plan, found, quarantine)
    if task is None:
        return found
    task = replace(task, environment=plan.recipe.environment or task.environment)
    drawn = guarded("task", found, lambda: data.some_problems(task, DRAWN))
    if drawn is not None:
        collected("data", found, data.of_held_out(task, plan.recipe.study))
    problems = drawn or []
    if task.of_text and drawn is not None:
        many = ROWS if task.source.size is not None else DRAWN
        tried = guarded("verifier", found, lambda: data.some_problems(task, many)) or []
        collected("verifier", found, judging.of_verifier(task, tried))
        collected("verifier", found, judging.of_tests(task, _every(tried, TESTED)))
    collected("sandbox", found, machine.of_sandbox(task, plan.recipe))
    _policy(plan, task, problems, samples, folder, found)
    if step and passed(found):
        from gradus.checks.memory_prediction import predict

        done = guarded("memory", found, lambda: predict(plan.recipe, task, plan.model, seed=plan.seed, device=plan.device))
        collected("memory", found, machine.of_step(done) if done is not None else ())
    elif step:
        found.append(Finding("memory", "not checked", "no step is done until the faults above are fixed"))
    return found


def _policy(plan: Plan, task: Task, problems: list[Any], samples: int, folder: Path, found: list[Finding]) -> None:
    """Makes the checks that need the model. The template is checked even if the recipe, the reward and the model do not fit together."""
    from gradus.players.build import load_policy

    run = _run(plan, task, found)
    wrong = not passed([f for f in found if f.check in ("fit", "reward")])
    policy = None
    if run is not None:
        policy = run.players["policy"].policy
    elif all(f.check != "model" for f in found):
        policy = guarded("model", found, lambda: load_policy(plan.model, task, plan.recipe, plan.device))
    if policy is not None and problems and "text" in policy.reads:
        collected("template", found, prompts.of_prompts(policy, task, problems))
        collected("template", found, template.of_template(policy, task, problems))
    if run is not None and problems and not wrong:
        given = list(judging.of_given(run))
        found += given
        if not given:
            _judged(run, problems, samples, found)
    if run is not None:
        collected("disk", found, machine.of_disk(run, folder))
        collected("memory", found, machine.of_memory(run, plan.device))
        collected("kernels", found, machine.of_kernels(run))
    none = not problems  # no problem could be drawn
    lacking = {"template": policy is None or none, "reward, samples": run is None or wrong or none, "disk, memory": run is None}
    left = [name for name, missing in lacking.items() if missing]
    if left:
        found.append(Finding("the rest", "not checked", f"{', '.join(left)}: fix the faults above first"))


def about(recipe: Recipe, model: str | None = None) -> str:
    """Describes the recipe and the size of its run in one line."""
    with suppress(UserError):  # the check of the model reports the fault
        recipe = with_rate(recipe, model)
    s = recipe.setting
    rate = "by rule" if s.learning_rate is None else f"{s.learning_rate:g}"
    base = f" (from {recipe.base})" if recipe.base else ""
    steps = f"at most {recipe.schedule.steps}" if staged(recipe) else s.steps
    return f"{recipe.key}{base}: {steps} steps of {s.prompts} x {s.group} answers, learning rate {rate}, {s.precision}"


def _task(plan: Plan, found: list[Finding], quarantine: str | None) -> Task | None:
    """Makes the task; returns None if this fails.

    The files of the task are first read row by row. Bad rows are left out, so that the other rows can be checked.
    """
    from gradus.recipe import registry
    from gradus.tasks.data.loaders import format_of, in_format, open_tables, refusal
    from gradus.training.plan import load_task

    options = dict(plan.task_options)
    bad: list[BadRow] = []
    files = guarded("data", found, lambda: data.files_of(plan.task, options, registry.task_modules()))
    if files is None:
        return None

    def of_file(path: Any, given: Any) -> Iterator[Finding]:
        prompt, answer, held_out = (given.get(name) for name in ("prompt_column", "answer_column", "held_out"))
        table, beside = open_tables(path, prompt, lossy=True)
        beside = open_tables(held_out, prompt, lossy=True)[0] if held_out else beside
        form = format_of(path, given.get("format"), prompt, answer)
        tables = [in_format(one, form) for one in (table, beside) if one is not None]
        refused = refusal(str(given.get("verify") or (form.verify if form else "")))
        for finding, rows in data.of_rows(tables, prompt, answer, float(given.get("bad_rows", 0)), refused):
            bad.extend(rows)
            yield finding

    for path, given in files:
        collected("data", found, of_file(path, given))
        if found[-1].verdict == "wrong" and not found[-1].details:  # no table, so no task
            return None
    if bad and quarantine is not None:
        data.quarantine(Path(quarantine), bad)
        found.append(Finding("data", "ok", f"{counted(len(bad), 'bad row')} written to {quarantine}"))
    alone = len(files) == 1 and files[0][0] == plan.task
    task = guarded("task", found, lambda: load_task(plan.task, {**options, "bad_rows": "1"} if alone and bad else options))
    if task is not None:
        collected("task", found, data.of_task(task))
    return task


def _run(plan: Plan, task: Task, found: list[Finding]) -> Run | None:
    """Builds the run that the plan would start; returns None if the recipe, the task and the model do not fit together.

    The check builds the run in several steps, and continues after a fault. So one fault does not hide other faults.
    """
    from gradus.players.build import build_players
    from gradus.recipe.compatibility import check_fit
    from gradus.training.launch import check_pictures, judgeable
    from gradus.training.run import Run

    def fits() -> bool:
        check_fit(plan.recipe, task)
        return True

    fitting = guarded("fit", found, fits)
    recipe = guarded("reward", found, lambda: judgeable(plan.recipe, task))
    if not fitting:
        return None
    players = guarded("model", found, lambda: build_players(plan.recipe, plan.model, task, Key(plan.seed), plan.device))
    if players is None:
        return None

    def offers() -> bool:
        check_fit(plan.recipe, task, players)
        check_pictures(task, players["policy"].policy)
        return True

    if not guarded("fit", found, offers):
        return None
    found.append(Finding("fit", "ok", f"recipe {plan.recipe.key}, task {task.name} and model fit together"))
    found.append(Finding("model", "ok", model_line(players)))
    return Run(recipe or plan.recipe, task, players, seed=plan.seed)


def model_line(players: Any) -> str:
    """Lists the players with their sizes, and the policy's context. If the policy runs through transformers, the line also has the reason."""
    sizes = [f"{name} {sum(p.numel() for p in player.policy.network.parameters()):,} parameters" for name, player in players.items()]
    policy = players["policy"].policy
    context = [f"context {policy.context_length} tokens"] if "text" in policy.can else []
    return "; ".join([*sizes, *context, *filter(None, [getattr(policy, "note", None)])])


def _judged(run: Run, problems: list[Any], samples: int, found: list[Finding]) -> None:
    """Adds the findings of the reward on reference answers and on sampled answers. The reward's process ends with the check."""

    async def tried() -> list[Finding]:
        try:
            out = await judging.of_reward(run, _every(problems, TRIED))
            if samples and all(f.verdict != "wrong" for f in out):
                out += await judging.of_samples(run, _every(problems, samples), min(run.recipe.setting.group, ANSWERS))
            return out
        finally:
            if hasattr(run.recipe.reward, "close"):
                await run.recipe.reward.close()

    found += guarded("reward", found, lambda: asyncio.run(tried())) or []


def _every(problems: list[Any], most: int) -> list[Any]:
    """Returns at most `most` of the problems, evenly spaced."""
    return problems[:: max(1, len(problems) // most)][:most]
