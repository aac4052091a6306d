"""The parser of the command line: commands, options, and fields of a recipe. Imports no heavy module."""

from __future__ import annotations

import argparse
import functools
import re
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from gradus.cli import help_page
from gradus.cli import options as of_command
from gradus.cli.commands import COMMANDS as COMMANDS
from gradus.cli.commands import WITH_FIELDS as WITH_FIELDS

OTHER_WORDS = {
    "help": "gradus --help",
    "list": "gradus papers, gradus tasks or gradus show KEY",
    "recipes": "gradus papers",
    "test": "gradus eval, gradus contract or gradus check",
    "evaluate": "gradus eval",
    "validate": "gradus check",
    "verify": "gradus contract or gradus check",
    "run": "gradus train",
    "start": "gradus train",
    "continue": "gradus resume",
    "generate": "gradus chat",
    "sample": "gradus chat",
    "save": "gradus export",
    "info": "gradus show KEY or gradus doctor",
    "version": "gradus --version",
}
"""Other words for a command, each with the command."""

class Parser(argparse.ArgumentParser):
    """An argument parser that raises UserError with a full sentence. The help of the parser is a page with groups and examples."""

    def format_help(self) -> str:
        name = self.prog.partition(" ")[2]
        return help_page.page(name, self._action_groups, self.epilog) if name else help_page.overview(self.description or "")

    def error(self, message: str) -> NoReturn:
        from gradus.types.errors import UserError

        wrong = re.fullmatch(r"argument (\S+): invalid (int|float) value: '(.*)'", message)
        if wrong is not None:
            raise UserError(f'{wrong[1]} is "{wrong[3]}"; it must be {"a whole number" if wrong[2] == "int" else "a number"}')
        if lacking := re.fullmatch(r"argument (--\S+): expected one argument", message):
            raise UserError(f"{lacking[1]} has no value; write {lacking[1]} VALUE, or {lacking[1]}=VALUE if the value begins with a dash")
        if flag := re.fullmatch(r"argument (\S+): ignored explicit argument (.*)", message):
            raise UserError(f"{flag[1]} takes no value, but {flag[2]} was given; leave the value out")
        raise UserError(f"{message}; see: {self.prog} --help")

    def understood(self, words: Sequence[str], commands: Mapping[str, Parser]) -> argparse.Namespace:
        """Parses the words. Raises UserError for an unknown option, with the command's nearest options, and for an empty value."""
        options, left = self.parse_known_args(words)
        parser = commands.get(str(options.command), self)
        empty = [a for a in parser._actions if getattr(options, a.dest, None) in ("", [""]) and a.default != ""]  # for example "$DATA" without a value
        if not left and not empty:
            return options
        from gradus.types.errors import UserError, unknown

        if empty:
            if not empty[0].option_strings:
                raise UserError(f"{empty[0].metavar} is empty; give it a value (see: {parser.prog} --help)")
            raise UserError(f"{empty[0].option_strings[0]} is empty; give it a value, or leave it out")
        if left[0].startswith("-"):
            known = [name for action in parser._actions for name in action.option_strings if name.startswith("--")]
            raise unknown("option", left[0].partition("=")[0], known, f"See: {parser.prog} --help")
        raise UserError(f'{parser.prog} does not accept the word "{left[0]}"; leave this word out, or see: {parser.prog} --help')


class Version(argparse.Action):
    """Prints the version and the commit, and ends."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        from gradus.runtime.version import version

        print(f"gradus {version()}")
        parser.exit()


@functools.cache
def build_parser() -> tuple[Parser, dict[str, Parser]]:
    """The parser, and the parsers of the commands by name."""
    parser = Parser("gradus", description="Gradus trains language models and their relatives by reinforcement learning.", allow_abbrev=False)
    parser.add_argument("--version", action=Version, nargs=0)
    group = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=Parser)
    made = {name: group.add_parser(name, allow_abbrev=False) for name in COMMANDS}
    for name, each in made.items():
        getattr(of_command, f"{name}_options")(each)
    for name in ("resume", "replay", "eval", "export", "explain", "chat"):
        of_command.trust_option(made[name])
    return parser, made


def split_fields(words: Sequence[str], parser: Parser) -> tuple[list[str], list[tuple[str, str]]]:
    """Splits words into the words for the parser, and (field, value) of each option that the parser does not know.

    A field is written `--field value` or `--field=value`.

    Raises UserError for an unknown option without a value.
    """
    takes_value = {name: action.nargs != 0 for action in parser._actions for name in action.option_strings}
    known: list[str] = []
    fields: list[tuple[str, str]] = []
    left = iter(words)
    for word in left:
        name, equals, value = word.partition("=")
        if not word.startswith("--") or name in takes_value:
            known.append(word)
            if takes_value.get(name) and not equals:
                known += [v for v in [next(left, None)] if v is not None]
            continue
        if not equals:
            value = next(left, "--")
            if value.startswith("--"):
                from gradus.types.errors import UserError

                raise UserError(f"{name} has no value; write {name} VALUE")
        if name[2:] in dict(fields):
            from gradus.types.errors import UserError

            raise UserError(f"{name} is given twice, as {dict(fields)[name[2:]]} and as {value}; give it once")
        fields.append((name[2:], value))
    return known, fields


def refuse_repeats(words: Sequence[str], parser: Parser) -> None:
    """Raises UserError for an option that is given twice, because only the last value would count. An option that collects several values may be given
    several times.
    """
    once = {n: a.option_strings[0] for a in parser._actions if not isinstance(a, argparse._AppendAction) for n in a.option_strings}
    given = [once[name] for name in (word.partition("=")[0] for word in words) if name in once]
    if twice := next((name for name in given if given.count(name) > 1), None):
        from gradus.types.errors import UserError

        raise UserError(f"{twice} is given {given.count(twice)} times; give it once")


def beside(parser: Parser) -> list[str]:
    """The options of a command that are not fields of a recipe. The names have no dashes."""
    return [name.removeprefix("--") for action in parser._actions for name in action.option_strings if name.startswith("--")]


def split_task(fields: Sequence[tuple[str, str]]) -> tuple[list[tuple[str, str]], dict[str, str]]:
    """The fields of the recipe, and the options of the task by name."""
    given = [(path, text) for path, text in fields if not path.startswith("task.")]
    return given, {path.removeprefix("task."): text for path, text in fields if path.startswith("task.")}


def trackers_of(options: argparse.Namespace, planned: Sequence[str] = ()) -> str | None:
    """The trackers of `gradus train` or `gradus resume`, with the port for Prometheus. None: the run keeps its planned trackers, or the command has no
    trackers. `planned`: the trackers of the resumed run.
    """
    if getattr(options, "metrics_port", None) is None:
        return getattr(options, "log", None)
    before = ",".join(name for name in planned if name.partition(":")[0] != "prometheus") if options.log is None else options.log
    return ",".join(name for name in (before, f"prometheus:{options.metrics_port}") if name not in ("", "none"))


def planned_of(options: argparse.Namespace) -> Any:
    """The plan made from the options of train, check or doctor."""
    from dataclasses import replace

    from gradus.recipe.overrides import override_all
    from gradus.training.plan import plan

    given, task_options = split_task(options.fields)
    if options.steps is not None and (path := next((path for path, _ in given if path in ("steps", "setting.steps")), None)):
        from gradus.types.errors import UserError

        raise UserError(f"--steps and --{path} set the same field; give only one of them")
    planned = plan(
        options.recipe,
        options.task,
        model=options.model,
        reward=options.reward,
        profile=options.profile,
        steps=options.steps,
        seed=options.seed,
        device=options.device,
        task_options=task_options,
        log=trackers_of(options),
        budget=getattr(options, "budget", None),
    )
    return replace(planned, recipe=override_all(planned.recipe, given, options.beside))
