"""The command line. A command imports its heavy modules itself, so that help and listings appear at once."""

from __future__ import annotations

import argparse
import errno
import importlib
import io
import json
import os
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from gradus.cli.exit import carry_out, stopped_early
from gradus.cli.parser import COMMANDS, OTHER_WORDS, WITH_FIELDS, beside, build_parser, planned_of, refuse_repeats, split_fields, split_task

REFUSED = {
    errno.ENOSPC: "free some space",
    errno.EDQUOT: "free some of your quota",
    errno.EACCES: "check the permissions, or name another place",
    errno.EPERM: "check the permissions, or name another place",
    errno.EROFS: "name another place",
    errno.ENAMETOOLONG: "give a shorter name",
    errno.ELOOP: "the links lead in a circle; name another place",
    errno.ENOTDIR: "a file stands where a folder belongs; name another place",
    errno.EISDIR: "a folder stands where a file belongs; name another place",
}
"""Errors of the operating system, each with its remedy."""

LONGEST_NAME = 100  # characters of a run's folder that is named after recipe and task


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command. Returns the exit code: 0; 2 for an error that the user can fix; 130 after Ctrl-C; else the exit code that the command returns."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal without a character shows another one
    try:
        return run(words)
    except KeyboardInterrupt:
        print(stopped_early(words), file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader has closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        sentence = told(error)
        if sentence is None or os.environ.get("GRADUS_TRACEBACK"):
            raise
        from gradus.runtime.terminal import printable, say

        say(f"gradus: {printable(sentence)}")
        return int(getattr(error, "code", 2))


def told(error: Exception) -> str | None:
    """The message for a UserError, an error of the operating system, or an error in the user's code (with its line); None for a fault of Gradus."""
    from gradus.runtime.user_code import blamed
    from gradus.types.errors import UserError

    if isinstance(error, UserError):
        return str(error)
    if isinstance(error, OSError) and error.errno in REFUSED:
        name = str(error.filename or "")
        shown = name if len(name) <= 120 else f"{name[:60]}... ({len(name)} characters)"
        place = f" at {shown}" if name else ""
        return f"the system refused{place}: {error.strerror}; {REFUSED[error.errno]}"
    return blamed(error)


def run(words: list[str]) -> int:
    """Finds the command and its options, and calls its function."""
    if words[:2] == ["completion", "words"]:  # the request of the completion scripts
        from gradus.cli.completion import candidates

        print("\n".join(candidates(words[2:])))
        return 0
    if words and not words[0].startswith("-") and words[0] not in COMMANDS:
        from gradus.types.errors import UserError, unknown

        if words[0] in OTHER_WORDS:
            raise UserError(f'unknown command "{words[0]}"; use {OTHER_WORDS[words[0]]}')
        raise unknown("command", words[0], COMMANDS, "See: gradus --help")
    if words[:1] in (["train"], ["resume"]) and os.environ.get("RANK", "0") != "0" and "TORCHELASTIC_RUN_ID" in os.environ:
        from gradus.systems.worker import main as lend_hands  # torchrun started this process in addition to the leading one

        return lend_hands("env://", int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]))
    parser, commands = build_parser()
    fields: list[tuple[str, str]] = []
    if words and words[0] in WITH_FIELDS:
        words, fields = split_fields(words, commands[words[0]])
    refuse_repeats(words, commands.get(words[0], parser) if words else parser)
    options = parser.understood(words, commands)
    if options.command is None:
        parser.print_help()
        return 0
    functions: dict[str, Callable[..., int]] = {
        "train": train,
        "resume": resume,
        "eval": evaluate,
        "papers": papers,
        "show": show,
        "diff": diff,
        "explain": explain,
        "check": check,
        "tasks": tasks,
        "contract": contract,
        "leaks": leaks,
        "screen": screen,
        "export": export,
        "chat": chat,
        "serve": serve,
        "play": play,
        "doctor": doctor,
        "cite": cite,
        "completion": completion,
    }
    options.fields = fields
    options.beside = beside(commands[options.command])
    known = functions.get(options.command)
    return known(options) if known is not None else int(importlib.import_module(f"gradus.cli.{options.command}").run(options))


def train(options: argparse.Namespace) -> int:
    from gradus.training.interrupts import Stop

    stop = Stop(options.until)  # the time counts from here: loading a model is part of it

    from dataclasses import replace

    from gradus.api import launch
    from gradus.cli.grounds import on_ground
    from gradus.lab.folder import refuse_taken
    from gradus.lab.live import Live, title_of
    from gradus.rewards.verified import Verified

    if options.run is not None:
        refuse_taken(Path(options.run))
    on_ground(options)
    planned = replace(planned_of(options), processes=options.processes)
    folder = free_folder(planned.recipe.key, planned.task) if options.run is None else options.run
    title = title_of(planned.recipe.key, str(planned.task))
    return carry_out(lambda: launch(planned, folder, view=Live(title, verified=isinstance(planned.recipe.reward, Verified)), stop=stop), folder)


def resume(options: argparse.Namespace) -> int:
    from gradus.training.interrupts import Stop

    stop = Stop(options.until)

    from gradus import api
    from gradus.cli.parser import trackers_of
    from gradus.lab.folder import RunFolder
    from gradus.lab.live import Live, title_of
    from gradus.lab.provenance import changed, versions
    from gradus.rewards.verified import Verified
    from gradus.training.course import staged
    from gradus.training.resume import read_fields
    from gradus.types import UserError, command

    opened = RunFolder.open(options.folder)
    planned = api.plan_of(opened, trust=options.trust)
    done = opened.done()
    if options.steps is not None and options.steps < done:
        raise UserError(f"--steps is {options.steps}, but the run {options.folder} has {done} finished steps already; give {done} or more")
    view = Live(title_of(planned.recipe.key, str(planned.task)), verified=isinstance(planned.recipe.reward, Verified))
    if news := changed(opened.provenance().get("versions", {}), versions()):
        view.message(news)
    given = {"log": trackers_of(options, planned.log), **{name: getattr(options, name) for name in ("processes", "device", "trust")}}
    given |= read_fields(planned.recipe, options.fields, options.beside)
    if options.steps is None and not staged(planned.recipe) and done >= planned.recipe.setting.steps:
        view.message(f"all {done} steps are done already; for more: {command('resume', options.folder, '--steps', 2 * done)}")
    return carry_out(lambda: api.resume(options.folder, view=view, more=options.steps, until=stop, **given), options.folder)


def free_folder(recipe: str, task: str) -> str:
    """The folder of a new run: runs/<recipe>-<task>, with a number if that folder exists."""
    name = re.sub(r"[^\w.+-]+", "-", f"{recipe.rpartition(':')[2]}-{Path(task).stem}").strip("-")[:LONGEST_NAME]
    number = 1
    while os.path.exists(folder := f"runs/{name}" + (f"-{number}" if number > 1 else "")):
        number += 1
    return folder


def evaluate(options: argparse.Namespace) -> int:
    from dataclasses import asdict

    from gradus import api
    from gradus.cli.exam import exam_table

    task_options = {path.removeprefix("task."): text for path, text in options.fields if path.startswith("task.")}
    shown = sys.stderr.isatty()
    found = api.evaluate(
        options.model,
        options.task,
        pass_at=whole_numbers(options.pass_at),
        samples=options.samples,
        problems=options.problems,
        reward=options.reward,
        seed=options.seed,
        device=options.device,
        task_options=task_options,
        trust=options.trust,
        overrides=[(path, text) for path, text in options.fields if not path.startswith("task.")],
        progress=(lambda done, total: print(f"\r{done}/{total} problems", end="\n" * (done == total), file=sys.stderr)) if shown else None,
    )
    print(json.dumps(asdict(found), indent=1) if options.json else exam_table(found))
    return 0


def whole_numbers(text: str) -> list[int]:
    """The numbers of a text such as '1,4,16'."""
    from gradus.types.errors import UserError

    try:
        numbers = [int(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if not numbers or min(numbers) < 1:
        raise UserError(f'--pass-at is "{text}"; write whole numbers of at least 1, separated by commas, such as 1,4,16')
    return numbers


def papers(options: argparse.Namespace) -> int:
    shown = importlib.import_module("gradus.cli.coverage" if options.all else "gradus.cli.lists")
    print(shown.papers(options.family, options.search, as_json=options.json))
    return 0


def tasks(options: argparse.Namespace) -> int:
    from gradus.cli import lists

    print(lists.formats(as_json=options.json) if options.formats else lists.tasks(options.package, as_json=options.json))
    return 0


def contract(options: argparse.Namespace) -> int:
    from gradus.testing.command import contract as test

    return test(options)


def leaks(options: argparse.Namespace) -> int:
    from gradus.study import leakage
    from gradus.training.plan import load_task
    from gradus.types import UserError

    task_options = only_task_options(options)
    against = load_task(options.against) if options.against else None
    check = leakage.Check(words=options.words, least=options.least)
    if options.problems < 1:
        raise UserError(f"--problems is {options.problems}; it must be 1 or more: the number of problems of each split to draw from an endless task")
    if not 0 <= options.allow <= 1:
        raise UserError(f"--allow is {options.allow}; give a number from 0 to 1: a share of the held-out problems")
    found = leakage.of_task(load_task(options.task, task_options), against, most=options.problems, check=check)
    print(json.dumps(leakage.as_json(found), indent=1) if options.json else leakage.table(found, options.task))
    return int(found.share > options.allow)


def screen(options: argparse.Namespace) -> int:
    from gradus.cli.screen import run as screening

    names = ("model", "keep", "samples", "problems", "reward", "seed", "device")
    print(screening(options.task, options.target, only_task_options(options), options.json, **{name: getattr(options, name) for name in names}))
    return 0


def only_task_options(options: argparse.Namespace) -> dict[str, str]:
    """The options of the task by name, for a command that accepts no other fields. Raises UserError for another field."""
    from gradus.types.errors import UserError, nearest

    fields, task_options = split_task(options.fields)
    if fields:
        name, command = f"--{fields[0][0]}", f"gradus {options.command}"
        raise UserError(f"{name} is not an option of {command}{nearest(name, [f'--{n}' for n in options.beside])}; see: {command} --help")
    return task_options


def show(options: argparse.Namespace) -> int:
    from gradus.cli.coverage import shown

    print(shown(options.recipe, empty=options.all))
    return 0


def diff(options: argparse.Namespace) -> int:
    from gradus.cli import show as show_command

    print(show_command.diff(options.a, options.b))
    return 0


def explain(options: argparse.Namespace) -> int:
    from gradus.cli import explain as explaining
    from gradus.cli import origins

    given, task_options = split_task(options.fields)
    how = {name: getattr(options, name) for name in ("model", "reward", "profile", "steps", "trust")}
    found = explaining.asked(options.field, options.recipe, given, options.task, task_options, **how)
    print(json.dumps(origins.as_json(found), indent=1) if options.json else origins.told(found))
    return 0


def check(options: argparse.Namespace) -> int:
    from gradus.checks import before, findings

    found = before.check(lambda: planned_of(options), samples=options.samples, quarantine=options.quarantine, step=options.step)
    print(json.dumps(findings.as_json(found), indent=1)) if options.json else findings.show(found)
    return int(not findings.passed(found))


def export(options: argparse.Namespace) -> int:
    from gradus.api import export as copy

    which = "best" if options.best else "final"
    how = {"form": options.form, "at_least": options.at_least, "include_cut": options.include_cut, "trust": options.trust}
    print(f"wrote {copy(options.folder, options.target, which, **how, replace=options.replace)}")
    if (card := Path(options.target) / "README.md").is_file():
        print(f"model card: {card}; fill in licence, intended use and limits before you share the model")
    return 0


def chat(options: argparse.Namespace) -> int:
    from gradus.cli.chat import run as talk

    names = ("task", "problem", "system", "temperature", "max_tokens", "seed", "device", "precision", "trust")
    talk(options.model, task_options=only_task_options(options), **{name: getattr(options, name) for name in names})
    return 0


def serve(options: argparse.Namespace) -> int:
    from gradus.cli.serve import run as serving

    names = ("task", "final", "host", "port", "device", "precision", "max_batch", "api_key", "log")
    serving(options.model, **{name: getattr(options, name) for name in names})
    return 0


def play(options: argparse.Namespace) -> int:
    from gradus.cli.play import run as play_task

    names = ("problem", "problems", "level", "held_out", "seed")
    play_task(options.task, task_options=only_task_options(options), **{name: getattr(options, name) for name in names})
    return 0


def doctor(options: argparse.Namespace) -> int:
    from gradus.cli.doctor import examine, told_of

    if options.recipe is not None:
        from gradus.checks.memory_prediction import command

        return command(planned_of(options), as_json=options.json)
    if options.fields or options.task or options.model or options.profile:
        from gradus.types import UserError

        raise UserError("gradus doctor uses task, model, profile and fields only to predict the memory of a recipe; add --recipe R, or leave these options out")
    found = examine()
    print(json.dumps(found, indent=1) if options.json else told_of(found))
    return 0


def cite(options: argparse.Namespace) -> int:
    from gradus.cli.cite import cite as cited

    print(cited(options.recipe, bibtex=options.bibtex))
    return 0


def completion(options: argparse.Namespace) -> int:
    from gradus.cli.completion import script

    print(script(options.shell))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
