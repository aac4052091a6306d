"""The parser of the command line: commands, options, and fields of a recipe. Imports no heavy module."""

from __future__ import annotations

import argparse
import functools
import re
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

DOTTED = """Any further --FIELD VALUE sets a field of the recipe (--objective.policy.trust.high 0.28, --learning_rate 5e-4) or swaps a part by the
name of its class or as file.py:Class (--objective.policy.trust DualClip); --task.FIELD VALUE sets an option of the task. `gradus show
RECIPE` lists the fields. --players.policy.model Adapter trains a LoRA adapter in place of all weights (--players.policy.model.rank 16);
--players.policy.engine VLLMServer samples from a vLLM server (--players.policy.engine.url http://127.0.0.1:8000), VLLM in this process;
--study.reward FILE.py:FUNCTION judges held-out answers by another reward; --study.patience 3 stops early."""

WITH_FIELDS = ("train", "resume", "eval", "leaks", "contract", "explain", "check", "doctor", "chat", "play", "screen")  # commands that take fields, too
SHELLS = ("bash", "zsh", "fish")

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

COMMANDS = {
    "train": "train a policy by a recipe",
    "resume": "continue a run from its last whole checkpoint",
    "eval": "measure pass@k, majority vote and length of a model or a run on a task",
    "papers": "list the recipes",
    "show": "show the parts of a recipe, and its changes to its base",
    "diff": "show the changes that turn one recipe into another",
    "explain": "explain a field: the origin of its value, its meaning and the allowed values",
    "check": "check that recipe, data, model, reward and machine are fit for a run, before its first step",
    "tasks": "list the tasks",
    "contract": "test that a task, its verifier, environment or reward keeps the rules that training relies on",
    "leaks": "find held-out problems of a task among its training problems",
    "screen": "measure the pass rate of a model on every problem of a task, and write the problems in a band of it to a file",
    "export": "write a run's model as a folder that loads in transformers, or its answers as data",
    "chat": "chat with a model, or with the best model of a run; or let it answer the problems and play the episodes of a task",
    "play": "answer the problems of a task, or play its episodes, yourself",
    "serve": "answer OpenAI's clients on this machine with a model, or with the best model of a run",
    "doctor": "show this machine's hardware and packages, with warnings",
    "cite": "the reference of a recipe's paper",
    "completion": "print the completion script of a shell",
}


class Parser(argparse.ArgumentParser):
    """An argument parser that raises UserError with a full sentence."""

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
        """The options in the words. Raises UserError for an unknown option, with the command's nearest options, and for an empty value."""
        options, left = self.parse_known_args(words)
        parser = commands.get(str(options.command), self)
        empty = [a for a in parser._actions if getattr(options, a.dest, None) in ("", [""]) and a.default != ""]  # as "$DATA" gives if DATA is not set
        if not left and not empty:
            return options
        from gradus.types.errors import UserError, unknown

        if empty:
            if not empty[0].option_strings:
                raise UserError(f"{empty[0].metavar} is empty; give it a value, see: {parser.prog} --help")
            raise UserError(f"{empty[0].option_strings[0]} is empty; give it a value, or leave it out")
        if left[0].startswith("-"):
            known = [name for action in parser._actions for name in action.option_strings if name.startswith("--")]
            raise unknown("option", left[0].partition("=")[0], known, f"See: {parser.prog} --help")
        raise UserError(f'{parser.prog} takes no further word, but "{left[0]}" was given; leave it out, or see: {parser.prog} --help')


@functools.cache
def build_parser() -> tuple[Parser, dict[str, Parser]]:
    """The parser, and the parsers of the commands by name."""
    from gradus import __version__

    about = "Trains language models and their relatives by reinforcement learning, one step at a time."
    parser = Parser("gradus", description=about, allow_abbrev=False)
    parser.add_argument("--version", action="version", version=f"gradus {__version__}")
    group = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=Parser)
    made = {
        name: group.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".", allow_abbrev=False)
        for name, text in COMMANDS.items()
    }
    made["train"].epilog = made["eval"].epilog = made["explain"].epilog = made["check"].epilog = DOTTED
    _train_options(made["train"])
    made["resume"].add_argument("folder", metavar="RUN", help="the folder named with --run")
    made["resume"].add_argument("--steps", type=int, help="total number of steps, if not as planned")
    made["resume"].add_argument("--device", help="cpu, cuda, cuda:1, if not as planned; another kind of device rounds differently")
    made["resume"].epilog = "Fields for the machine's resources and for the limits of failures may change: " + ", ".join(
        f"--{name}" for name in ("memory", "micro_tokens", "recompute", "save_every", "keep", "max_wait", "max_failed", "guard.in_a_row", "guard.returns")
    )
    _until_option(made["resume"])
    _processes_option(made["resume"])
    for name in ("resume", "eval", "export", "explain", "chat"):
        _trust_option(made[name])
    made["resume"].add_argument("--log", metavar="W,W", help="other places for the metrics from now on, if not as planned; none for no other place")
    _eval_options(made["eval"])
    made["papers"].add_argument("--family", metavar="F", help="only the recipes of one family")
    made["papers"].add_argument("--search", metavar="W", help="only the recipes with this text in their name or description")
    for name in ("papers", "tasks"):
        made[name].add_argument("--json", action="store_true", help="as JSON")
    made["tasks"].add_argument("package", metavar="PACKAGE", nargs="?", help="list the tasks of a package, such as reasoning_gym")
    made["show"].add_argument("recipe", metavar="KEY", help="a recipe's key, or file.py:name")
    for name in ("a", "b"):
        made["diff"].add_argument(name, metavar=name.upper(), help="a recipe's key, or file.py:name")
    _explain_options(made["explain"])
    _check_options(made["check"])
    _contract_options(made["contract"])
    _leaks_options(made["leaks"])
    _screen_options(made["screen"])
    _export_options(made["export"])
    _chat_options(made["chat"])
    _serve_options(made["serve"])
    _play_options(made["play"])
    _doctor_options(made["doctor"])
    made["cite"].add_argument("recipe", metavar="KEY", nargs="?", help="a recipe's key, or file.py:name; default: Gradus itself")
    made["cite"].add_argument("--bibtex", action="store_true", help="as BibTeX")
    made["completion"].add_argument("shell", metavar="SHELL", choices=SHELLS, help=", ".join(SHELLS))
    made["completion"].epilog = 'For one session: eval "$(gradus completion bash)"; for every session: put that line into ~/.bashrc.'
    return parser, made


def _train_options(parser: Parser) -> None:
    add = parser.add_argument
    add("recipe", metavar="RECIPE", help="a recipe's key (gradus papers), or file.py:name")
    _plan_options(parser)
    add("--run", metavar="DIR", help="the folder of the run; default: a new one under runs/")
    add("--log", metavar="W,W", help="other places for the metrics: tensorboard, trackio, wandb, or several with commas between them")
    _until_option(parser)
    _processes_option(parser)


def _processes_option(parser: Parser) -> None:
    about = "number of processes on this machine that train together; the result is that of one process"
    parser.add_argument("--processes", type=int, default=1, metavar="N", help=about)


def _trust_option(parser: Parser) -> None:
    about = "use a run that you did not make although it executes Python files with your rights; read them first"
    parser.add_argument("--trust", action="store_true", help=about)


def _until_option(parser: Parser) -> None:
    about = "time limit of the command (90s, 30m, 8h, 1h30m); the run is saved before it ends, and the exit code is then 3"
    parser.add_argument("--until", metavar="TIME", help=about)


def _plan_options(parser: Parser) -> None:
    """The options that plan a run, for train, check, explain and doctor."""
    add = parser.add_argument
    add("--task", metavar="T", help="a name (gradus tasks), a file, file.py:task, a data set, or a mixture a:3,b:1; default: arithmetic")
    add("--model", metavar="M", help="a model's folder; default: the built-in tiny model")
    several = "may repeat: the rewards add up, as [NAME=]FILE.py:FUNCTION[*WEIGHT]"
    about = f"a reward function, Verified, or a reward model's run, in place of the recipe's reward; {several}"
    add("--reward", metavar="FILE.py:FUNCTION", action="append", help=about)
    add("--profile", metavar="P", help="scale of the run: tiny, small, paper")
    add("--steps", type=int, metavar="N", help="training steps")
    add("--seed", type=int, default=0, metavar="S", help="seed of every random draw: two runs with the same seed on the same machine are equal to the last byte")
    add("--device", default="cpu", help="cpu, cuda, cuda:1")


def _explain_options(parser: Parser) -> None:
    add = parser.add_argument
    add("field", metavar="FIELD", help="objective.policy.trust.high, learning_rate, task.level, an option of gradus train")
    add("recipe", metavar="RECIPE_OR_RUN", nargs="?", default="grpo", help="a recipe's key, file.py:name or a run's folder; default: grpo")
    _plan_options(parser)
    add("--json", action="store_true", help="as JSON")


def _doctor_options(parser: Parser) -> None:
    add = parser.add_argument
    add("--recipe", metavar="R", help="predict the memory of a run from one step with its longest batch and made-up rewards; a key, or file.py:name")
    _plan_options(parser)
    add("--json", action="store_true", help="as JSON")
    parser.epilog = "With --recipe, any further --FIELD VALUE sets a field, as for gradus train."


def _check_options(parser: Parser) -> None:
    add = parser.add_argument
    add("recipe", metavar="RECIPE", nargs="?", default="grpo", help="a recipe's key (gradus papers), or file.py:name; default: grpo")
    _plan_options(parser)
    add("--samples", type=int, default=4, metavar="N", help="number of problems that the model answers and the reward judges; 0: none")
    add("--step", action="store_true", help="do one step with the longest batch, to measure its memory; it takes as long as a step")
    add("--quarantine", metavar="FILE", help="file for the bad rows of a data file (.jsonl); default: they are not written")
    add("--json", action="store_true", help="as JSON")


def _export_options(parser: Parser) -> None:
    add = parser.add_argument
    add("folder", metavar="RUN")
    add("target", metavar="TARGET", help="a folder for the model, a file for data; it must not exist yet")
    add("--best", action="store_true", help="the best model on held-out problems instead of the final one")
    forms = "model (default), sft or preference (answers as .jsonl or .parquet that TRL and Gradus train on), rollouts (all, as .parquet)"
    add("--as", dest="form", metavar="FORM", default="model", help=forms)
    add("--include-cut", action="store_true", help="export also the answers that a limit on length or turns cut")
    add("--at-least", type=float, metavar="R", help="the least reward of a good answer; default: for sft, the answers that are right")


def _eval_options(parser: Parser) -> None:
    add = parser.add_argument
    add("model", metavar="MODEL_OR_RUN", help="a model's folder, a run's, or tiny")
    add("--task", metavar="T", help="default: the run's own task")
    add("--pass-at", default="1", metavar="K,K", help="pass@k for these k, for example 1,4,16")
    add("--samples", type=int, default=0, metavar="N", help="samples per problem; default: the largest k")
    add("--problems", type=int, default=256, metavar="N", help="number of held-out problems")
    about = "the judge in place of the task's verifier; may repeat: the rewards add up"
    add("--reward", metavar="FILE.py:FUNCTION", action="append", help=about)
    add("--seed", type=int, default=0, metavar="S")
    add("--device", help="cpu, cuda, cuda:1; default: the run's own, cpu for a model")
    add("--json", action="store_true", help="as JSON")


def _contract_options(parser: Parser) -> None:
    add = parser.add_argument
    add("task", metavar="TASK", help="a name (gradus tasks), a file, file.py:task, a data set, or a mixture a:3,b:1")
    add("--reward", metavar="FILE.py:FUNCTION", help="a reward function, tested on the task's problems too")
    add("--problems", type=int, default=20, metavar="N", help="problems per level")
    add("--texts", type=int, default=500, metavar="N", help="number of hostile answers, over all problems")
    add("--levels", default="", metavar="N,N", help="levels of the task; default: all")
    add("--seconds", type=float, default=1.0, metavar="S", help="limit of processor time for one verdict")
    add("--allow", default="", metavar="W,W", help="resources that a judge may use: code, process, file, network")
    add("--only", default="", metavar="RULE,RULE", help="the rules to try; with --reward, rules of rewards")
    add("--seed", type=int, default=0, metavar="S")
    add("--json", action="store_true", help="as JSON")
    parser.epilog = "--task.FIELD VALUE sets an option of the task. The exit code is 1 if a rule is broken."


def _leaks_options(parser: Parser) -> None:
    add = parser.add_argument
    add("task", metavar="TASK", help="a name (gradus tasks), a file, file.py:task, a data set, or a mixture a:3,b:1")
    add(
        "--against",
        metavar="T",
        help="another task or file; all of its problems count as held out; default: the task's own held-out part",
    )
    add("--problems", type=int, default=2000, metavar="N", help="number of problems drawn from a task without an end")
    add("--words", type=int, default=8, metavar="N", help="length of the n-grams in words; 13 finds only long passages")
    add("--least", type=float, default=0.7, metavar="X", help="a leak has at least this share of its prompt's n-grams in one training prompt")
    add("--allow", type=float, default=0.0, metavar="X", help="share of held-out problems that may leak; above it the exit code is 1")
    add("--json", action="store_true", help="as JSON")
    parser.epilog = "--task.FIELD VALUE sets an option of the task."


def _screen_options(parser: Parser) -> None:
    add = parser.add_argument
    add("task", metavar="TASK", help="a name (gradus tasks), a file, file.py:task, a data set, or a mixture a:3,b:1")
    add("target", metavar="FILE", help="the file for the kept problems (.jsonl); train on them with --task TASK --task.problems FILE")
    add("--model", metavar="M", help="a model's folder, or a run's; default: the built-in tiny model")
    add("--keep", default="0.1..0.9", metavar="A..B", help="the least and the highest pass rate of a kept problem")
    add("--samples", type=int, default=8, metavar="N", help="answers per problem")
    add("--problems", type=int, default=256, metavar="N", help="number of training problems that are measured")
    about = "the judge in place of the task's verifier; may repeat: the rewards add up"
    add("--reward", metavar="FILE.py:FUNCTION", action="append", help=about)
    add("--seed", type=int, default=0, metavar="S")
    add("--device", default="cpu", help="cpu, cuda, cuda:1")
    add("--json", action="store_true", help="as JSON")
    parser.epilog = "--task.FIELD VALUE sets an option of the task."


def _chat_options(parser: Parser) -> None:
    add = parser.add_argument
    add("model", metavar="MODEL_OR_RUN", nargs="?", help="a model's folder, or a run's; default: the built-in tiny model")
    add("--task", metavar="T", help="a task: its sampling settings, system message and held-out problems are used; --task.FIELD VALUE sets an option")
    add("--problem", type=int, metavar="N", help="begin with this held-out problem of the task, counted from 0")
    add("--system", metavar="TEXT", help="a system message")
    add("--temperature", type=float, metavar="X", help="0 is greedy; default: the task's, else 0.7")
    add("--max-tokens", type=int, metavar="N", help="new tokens per answer; default: the task's, else 512")
    add("--seed", type=int, default=0, metavar="S")
    add("--device", default="cpu", help="cpu, cuda, cuda:1")
    add("--precision", default="float32", help="float32, bfloat16, float64")
    parser.epilog = "--task.FIELD VALUE sets an option of the task."


def _serve_options(parser: Parser) -> None:
    add = parser.add_argument
    add("model", metavar="MODEL_OR_RUN", nargs="?", help="a model's folder, or a run's; default: the built-in tiny model")
    add("--task", metavar="T", help="a task: its sampling settings and system message are used if a request gives none")
    add("--final", action="store_true", help="the final model of a run instead of the best one on held-out problems")
    add("--host", default="127.0.0.1", help="an address of this machine alone: 127.0.0.1, ::1, localhost")
    add("--port", type=int, default=8000, metavar="N", help="0: any free one")
    add("--device", default="cpu", help="cpu, cuda, cuda:1")
    add("--precision", default="float32", help="float32, bfloat16, float64")
    add("--max-batch", type=int, default=64, metavar="N", help="sequences that are sampled at once; further ones wait")
    add("--api-key", metavar="KEY", help="requests must have this key; default: none is asked for")
    add("--log", action="store_true", help="one line per request, on standard error")


def _play_options(parser: Parser) -> None:
    add = parser.add_argument
    add("task", metavar="TASK", help="a name (gradus tasks), a file, file.py:task, a data set, or a mixture a:3,b:1")
    add("--problem", type=int, default=0, metavar="N", help="begin with this problem, counted from 0")
    add("--problems", type=int, metavar="N", help="number of problems; default: until you leave")
    add("--level", type=int, metavar="N", help="level of the problems; the same as --task.level")
    add("--held-out", action="store_true", help="the held-out problems of an evaluation instead of training problems")
    add("--seed", type=int, default=0, metavar="S", help="seed of the problems and of the environment's random draws")
    parser.epilog = "--task.FIELD VALUE sets an option of the task. /help lists what you can type beside answers and actions."


def split_fields(words: Sequence[str], parser: Parser) -> tuple[list[str], list[tuple[str, str]]]:
    """The words for the parser, and (field, value) of every option unknown to it: `--field value` or `--field=value`.

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
    """Raises UserError for an option that is given twice, because only the last value would count. An option that adds up may repeat."""
    once = {n: a.option_strings[0] for a in parser._actions if not isinstance(a, argparse._AppendAction) for n in a.option_strings}
    given = [once[name] for name in (word.partition("=")[0] for word in words) if name in once]
    if twice := next((name for name in given if given.count(name) > 1), None):
        from gradus.types.errors import UserError

        raise UserError(f"{twice} is given {given.count(twice)} times; give it once")


def beside(parser: Parser) -> list[str]:
    """The options of a command other than fields of a recipe, without their dashes."""
    return [name.removeprefix("--") for action in parser._actions for name in action.option_strings if name.startswith("--")]


def split_task(fields: Sequence[tuple[str, str]]) -> tuple[list[tuple[str, str]], dict[str, str]]:
    """The fields of the recipe, and the options of the task by name."""
    given = [(path, text) for path, text in fields if not path.startswith("task.")]
    return given, {path.removeprefix("task."): text for path, text in fields if path.startswith("task.")}


def planned_of(options: argparse.Namespace, log: str | None = None) -> Any:
    """The plan made from the options of train, check or doctor."""
    from dataclasses import replace

    from gradus.recipe.overrides import override_all
    from gradus.training.plan import plan

    given, task_options = split_task(options.fields)
    if options.steps is not None and (path := next((path for path, _ in given if path in ("steps", "setting.steps")), None)):
        from gradus.types.errors import UserError

        raise UserError(f"--steps and --{path} are one field; give it once")
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
        log=log,
    )
    return replace(planned, recipe=override_all(planned.recipe, given, options.beside))
