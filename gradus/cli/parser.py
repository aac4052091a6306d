"""What may be typed: the commands of the command line, their options, and the fields of a recipe among them. Imports nothing heavy."""

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

WITH_FIELDS = ("train", "resume", "eval", "leaks", "contract", "explain", "check", "doctor")  # commands that take fields besides their options
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
"""What people type for a command, and the command that does it."""

COMMANDS = {
    "train": "train a policy by a recipe",
    "resume": "go on with a run from its last whole checkpoint",
    "eval": "pass@k, majority vote and length of a model or a run on a task",
    "papers": "list the recipes",
    "show": "what a recipe is made of, and what it changes",
    "diff": "what turns one recipe into another",
    "explain": "where the value of a field comes from, what it means and what it may be",
    "check": "whether recipe, data, model, reward and machine are fit for a run, before its first step",
    "tasks": "list the tasks",
    "contract": "whether a task, its verifier, environment or reward keeps what training relies on",
    "leaks": "held-out problems of a task that are among its training problems",
    "export": "a run's model as a folder that loads in transformers, or its answers as data",
    "chat": "talk with a model or with a run's best one",
    "doctor": "what this machine offers, and what is missing",
    "cite": "the paper behind a recipe",
    "completion": "a script that lets a shell complete what is typed",
}


class Parser(argparse.ArgumentParser):
    """An argument parser whose complaints are sentences."""

    def error(self, message: str) -> NoReturn:
        from gradus.types.errors import UserError

        wrong = re.fullmatch(r"argument (\S+): invalid (int|float) value: '(.*)'", message)
        if wrong is not None:
            raise UserError(f'{wrong[1]} is "{wrong[3]}"; it must be {"a whole number" if wrong[2] == "int" else "a number"}')
        if lacking := re.fullmatch(r"argument (--\S+): expected one argument", message):
            raise UserError(f"{lacking[1]} has no value; write {lacking[1]} VALUE, or {lacking[1]}=VALUE where the value begins with a dash")
        if flag := re.fullmatch(r"argument (\S+): ignored explicit argument (.*)", message):
            raise UserError(f"{flag[1]} takes no value, but {flag[2]} was given; leave the value out")
        raise UserError(f"{message}; see: {self.prog} --help")

    def understood(self, words: Sequence[str], commands: Mapping[str, Parser]) -> argparse.Namespace:
        """The options in the words. Raises UserError for a word that is none, suggesting near ones of its command."""
        options, left = self.parse_known_args(words)
        parser = commands.get(str(options.command), self)
        empty = [a for a in parser._actions if getattr(options, a.dest, None) == "" != a.default]  # as "$DATA" is where DATA is not set
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
    """The parser, and those of the commands by name."""
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
    made["resume"].add_argument("folder", metavar="RUN", help="the folder that was named with --run")
    made["resume"].add_argument("--steps", type=int, help="steps in all, if not as planned")
    made["resume"].add_argument("--device", help="cpu, cuda, cuda:1, if not as planned; another kind rounds differently")
    made["resume"].epilog = "Fields that say what the machine gives and when a run gives up may change: " + ", ".join(
        f"--{name}" for name in ("memory", "micro_tokens", "recompute", "save_every", "keep", "max_wait", "max_failed", "guard.in_a_row", "guard.returns")
    )
    _until_option(made["resume"])
    _processes_option(made["resume"])
    made["resume"].add_argument("--log", metavar="W,W", help="where else the metrics go from now on, if not as planned; none for nowhere")
    _eval_options(made["eval"])
    made["papers"].add_argument("--family", metavar="F", help="those of one family")
    made["papers"].add_argument("--search", metavar="W", help="those that have a word in their name or description")
    for name in ("papers", "tasks"):
        made[name].add_argument("--json", action="store_true", help="as JSON")
    made["show"].add_argument("recipe", metavar="KEY", help="a recipe's key, or file.py:name")
    for name in ("a", "b"):
        made["diff"].add_argument(name, metavar=name.upper(), help="a recipe's key, or file.py:name")
    _explain_options(made["explain"])
    _check_options(made["check"])
    _contract_options(made["contract"])
    _leaks_options(made["leaks"])
    _export_options(made["export"])
    _chat_options(made["chat"])
    _doctor_options(made["doctor"])
    made["cite"].add_argument("recipe", metavar="KEY", nargs="?", help="a recipe's key, or file.py:name; left out: Gradus itself")
    made["cite"].add_argument("--bibtex", action="store_true", help="as BibTeX")
    made["completion"].add_argument("shell", metavar="SHELL", choices=SHELLS, help=", ".join(SHELLS))
    made["completion"].epilog = 'Once: eval "$(gradus completion bash)"; for good: put that line into ~/.bashrc.'
    return parser, made


def _train_options(parser: Parser) -> None:
    add = parser.add_argument
    add("recipe", metavar="RECIPE", help="a recipe's key (gradus papers), or file.py:name")
    _plan_options(parser)
    add("--run", metavar="DIR", help="the folder of the run; left out: a new one under runs/")
    add("--log", metavar="W,W", help="where else the metrics go: tensorboard, trackio, wandb, or several with commas between them")
    _until_option(parser)
    _processes_option(parser)


def _processes_option(parser: Parser) -> None:
    about = "how many processes of this machine train together, with the result of one"
    parser.add_argument("--processes", type=int, default=1, metavar="N", help=about)


def _until_option(parser: Parser) -> None:
    about = "how long the command may take (90s, 30m, 8h, 1h30m); the run is saved before that, and the exit code is then 3"
    parser.add_argument("--until", metavar="TIME", help=about)


def _plan_options(parser: Parser) -> None:
    """What a run is planned from; so say train, check and explain alike."""
    add = parser.add_argument
    add("--task", metavar="T", help="arithmetic if left out; a name (gradus tasks), a file, file.py:task, a data set, or a mixture a:3,b:1")
    add("--model", metavar="M", help="a model's folder; left out: the built-in tiny model")
    add("--reward", metavar="FILE.py:FUNCTION", help="a reward function, or a reward model's run, in place of the recipe's reward")
    add("--profile", metavar="P", help="scale of the run: tiny, small, paper")
    add("--steps", type=int, metavar="N", help="training steps")
    add("--seed", type=int, default=0, metavar="S", help="of every draw: two runs with one seed on one machine are equal to the last byte")
    add("--device", default="cpu", help="cpu, cuda, cuda:1")


def _explain_options(parser: Parser) -> None:
    add = parser.add_argument
    add("field", metavar="FIELD", help="objective.policy.trust.high, learning_rate, task.level, an option of gradus train")
    add("recipe", metavar="RECIPE_OR_RUN", nargs="?", default="grpo", help="a recipe's key, file.py:name or a run's folder; left out: grpo")
    _plan_options(parser)
    add("--json", action="store_true", help="as JSON")


def _doctor_options(parser: Parser) -> None:
    add = parser.add_argument
    add("--recipe", metavar="R", help="predicts what a run of it takes of the memory, by one step with the longest batch, rewards made up; a key, or file.py:name")
    _plan_options(parser)
    add("--json", action="store_true", help="as JSON")
    parser.epilog = "With --recipe any further --FIELD VALUE sets a field, as for gradus train."


def _check_options(parser: Parser) -> None:
    add = parser.add_argument
    add("recipe", metavar="RECIPE", nargs="?", default="grpo", help="a recipe's key (gradus papers), or file.py:name; left out: grpo")
    _plan_options(parser)
    add("--samples", type=int, default=4, metavar="N", help="problems that the model answers and the reward judges; 0: none")
    add("--step", action="store_true", help="do one step with the longest batch, to see what memory it takes; it takes as long as a step")
    add("--quarantine", metavar="FILE", help="where the bad rows of a data file are written (.jsonl); left out: nowhere")
    add("--json", action="store_true", help="as JSON")


def _export_options(parser: Parser) -> None:
    add = parser.add_argument
    add("folder", metavar="RUN")
    add("target", metavar="TARGET", help="a folder for the model, a file for data; one that does not exist yet")
    add("--best", action="store_true", help="the best model on held-out problems, not the final one")
    forms = "model (left out), sft or preference (answers as .jsonl or .parquet that TRL and Gradus train on), rollouts (all, as .parquet)"
    add("--as", dest="form", metavar="FORM", default="model", help=forms)
    add("--at-least", type=float, metavar="R", help="answers with this reward are good enough; left out: for sft those that are right")


def _eval_options(parser: Parser) -> None:
    add = parser.add_argument
    add("model", metavar="MODEL_OR_RUN", help="a model's folder, a run's, or tiny")
    add("--task", metavar="T", help="left out: the run's own")
    add("--pass-at", default="1", metavar="K,K", help="pass@k for these k, for example 1,4,16")
    add("--samples", type=int, default=0, metavar="N", help="samples a problem; left out: the largest k")
    add("--problems", type=int, default=256, metavar="N", help="held-out problems")
    add("--reward", metavar="FILE.py:FUNCTION", help="judges in place of the task's verifier")
    add("--seed", type=int, default=0, metavar="S")
    add("--device", help="cpu, cuda, cuda:1; left out: the run's own, cpu for a model")
    add("--json", action="store_true", help="as JSON")


def _contract_options(parser: Parser) -> None:
    add = parser.add_argument
    add("task", metavar="TASK", help="a name (gradus tasks), a file, file.py:task, a data set, or a mixture a:3,b:1")
    add("--reward", metavar="FILE.py:FUNCTION", help="a reward function, tested on the task's problems too")
    add("--problems", type=int, default=20, metavar="N", help="problems of each level")
    add("--texts", type=int, default=500, metavar="N", help="hostile answers, over all problems")
    add("--levels", default="", metavar="N,N", help="levels of the task; left out: all")
    add("--seconds", type=float, default=1.0, metavar="S", help="processor time that judging one answer may take")
    add("--allow", default="", metavar="W,W", help="what judging may reach for: code, process, file, network")
    add("--only", default="", metavar="RULE,RULE", help="the rules to try; with --reward, rules of rewards")
    add("--seed", type=int, default=0, metavar="S")
    add("--json", action="store_true", help="as JSON")
    parser.epilog = "--task.FIELD VALUE sets an option of the task. Ends with 1 where anything was found."


def _leaks_options(parser: Parser) -> None:
    add = parser.add_argument
    add("task", metavar="TASK", help="a name (gradus tasks), a file, file.py:task, a data set, or a mixture a:3,b:1")
    add(
        "--against",
        metavar="T",
        help="another task or file, all of whose problems count as held out; left out: the task's own held-out part",
    )
    add("--problems", type=int, default=2000, metavar="N", help="problems drawn where a task has no end")
    add("--words", type=int, default=8, metavar="N", help="length of the n-grams in words; 13 finds long passages only")
    add("--least", type=float, default=0.7, metavar="X", help="share of a prompt's n-grams in one training prompt that makes it a leak")
    add("--allow", type=float, default=0.0, metavar="X", help="share of held-out problems that may leak before the command ends with 1")
    add("--json", action="store_true", help="as JSON")
    parser.epilog = "--task.FIELD VALUE sets an option of the task."


def _chat_options(parser: Parser) -> None:
    add = parser.add_argument
    add("model", metavar="MODEL_OR_RUN", nargs="?", help="a model's folder, or a run's; left out: the built-in tiny model")
    add("--task", metavar="T", help="its way of sampling, its system message and its held-out problems")
    add("--problem", type=int, metavar="N", help="begin with this held-out problem of the task, counted from 0")
    add("--system", metavar="TEXT", help="a system message")
    add("--temperature", type=float, metavar="X", help="0 is greedy; left out: the task's, else 0.7")
    add("--max-tokens", type=int, metavar="N", help="new tokens an answer; left out: the task's, else 512")
    add("--seed", type=int, default=0, metavar="S")
    add("--device", default="cpu", help="cpu, cuda, cuda:1")
    add("--precision", default="float32", help="float32, bfloat16, float64")


def split_fields(words: Sequence[str], parser: Parser) -> tuple[list[str], list[tuple[str, str]]]:
    """Words for the parser, and (field, value) of the options that it does not know: `--field value` or `--field=value`."""
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
        fields.append((name[2:], value))
    return known, fields


def beside(parser: Parser) -> list[str]:
    """The options of a command, which stand beside the fields of a recipe, without their dashes."""
    return [name.removeprefix("--") for action in parser._actions for name in action.option_strings if name.startswith("--")]


def split_task(fields: Sequence[tuple[str, str]]) -> tuple[list[tuple[str, str]], dict[str, str]]:
    """The fields of the recipe, and the options of the task by name."""
    given = [(path, text) for path, text in fields if not path.startswith("task.")]
    return given, {path.removeprefix("task."): text for path, text in fields if path.startswith("task.")}


def planned_of(options: argparse.Namespace, log: str | None = None) -> Any:
    """The plan that the options of train and check ask for."""
    from dataclasses import replace

    from gradus.recipe.overrides import override_all
    from gradus.training.plan import plan

    given, task_options = split_task(options.fields)
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
