"""The commands of the command line in groups: each with a line, a description and examples. Imports no heavy module."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Command:
    """The texts of a command. `line`: the text in the list of commands, at most 64 characters. `about`: the text in the help of the command itself; if
    `about` is '', the help shows `line`.
    """

    line: str
    examples: tuple[tuple[str, str], ...]  # (the words after `gradus`, their effect)
    about: str = ""


GROUPS: Mapping[str, Mapping[str, Command]] = {
    "Train": {
        "train": Command(
            "train a policy by a recipe",
            (
                ("train grpo", "the built-in model learns arithmetic, in some minutes on a laptop"),
                ("train dapo --model path/to/model --task problems.jsonl", "your own model and data"),
                ("train grpo --objective.policy.trust.high 0.28 --until 8h", "another field, and a limit of time"),
            ),
            "Trains a policy by a recipe. Writes metrics, answers and a report to a folder.",
        ),
        "resume": Command(
            "continue a run from its last whole checkpoint",
            (
                ("resume runs/mine", "the rest of an interrupted run"),
                ("resume runs/mine --steps 400", "more steps for a finished run"),
            ),
            "Continues a run from its last complete checkpoint. Repeats the later steps, with the same bytes.",
        ),
        "replay": Command(
            "repeat a run from its start, and compare the bytes",
            (("replay runs/mine", "the same metrics and weights, also for a run with --system Streaming"),),
            "Repeats a run from its start in another folder. Decisions that depended on the clock are read from the run. "
            "The exit code is 1 if a step differs.",
        ),
        "eval": Command(
            "measure pass@k, majority vote and length on held-out problems",
            (
                ("eval runs/mine --pass-at 1,4,16", "the final model of a run, on the run's own task"),
                ("eval path/to/model --task problems.jsonl --problems 500", "a model on your data"),
            ),
            "Measures pass@k, majority vote, greedy accuracy and length of a model or a run on held-out problems, with 95 % intervals.",
        ),
    },
    "Prepare": {
        "check": Command(
            "check recipe, data, model, reward and machine before a run",
            (
                ("check grpo --task problems.jsonl --reward reward.py:score", "a planned run"),
                ("check examples/my_method.py:my_method --samples 0", "a method of your own, by a toy update"),
            ),
            "Checks that recipe, data, chat template, model, reward and machine are fit for a run, before its first step. "
            "The exit code is 1 if a fault was found.",
        ),
        "contract": Command(
            "test a task, verifier, environment or reward",
            (
                ("contract problems.jsonl --reward reward.py:score", "a file of problems with its reward"),
                ("contract arithmetic --levels 1,2 --texts 2000", "two levels of a task, with more hostile answers"),
            ),
            "Tests a task, its verifier, its environment or a reward with repeated, wrong and hostile answers. Training relies on certain rules for them. "
            "The exit code is 1 if a rule is broken.",
        ),
        "leaks": Command(
            "find held-out problems among the training problems",
            (
                ("leaks problems.jsonl", "the held-out part of a file against its training part"),
                ("leaks problems.jsonl --against exam.jsonl", "another file as held-out problems"),
            ),
            "Finds held-out problems of a task among its training problems. The exit code is 1 if the share of such problems is above --allow.",
        ),
        "screen": Command(
            "keep the problems that are neither too easy nor too hard",
            (("screen arithmetic fitting.jsonl --keep 0.1..0.9", "problems with a pass rate from 0.1 to 0.9"),),
            "Measures the pass rate of a model on every problem of a task, and writes the problems whose pass rate is in a range to a file.",
        ),
        "play": Command(
            "answer the problems of a task yourself",
            (("play countdown --level 2", "problems of level 2"), ("play frozen_lake", "an episode of a game")),
            "Shows the problems of a task, and judges the answers that you type. In a task with episodes, you choose the actions in place of the model.",
        ),
    },
    "Compare": {
        "advise": Command(
            "name three recipes for a task and a model, each with a reason",
            (
                ("advise --task problems.jsonl --model path/to/model", "your data, with a short probe of your model"),
                ("advise --task arithmetic --update.epochs 16 --problems 0", "a setting of your runs, without a probe"),
                ("advise --ground stale", "a proving ground"),
            ),
            "Reads the data and rewards of the task, samples a few answers of the model, and names three recipes, each with a reason and a command. "
            "The page docs/how/choose.md lists the rules and their measurements. The exit code is 1 if no recipe fits.",
        ),
        "compare": Command(
            "train several recipes on equal terms: which is better?",
            (
                ("compare grpo rloo --seeds 3 --budget tokens=2e6", "two recipes with equal numbers of tokens"),
                ("compare grpo big='grpo --group 16' --ground sparse", "a variant of a recipe, on a proving ground"),
            ),
            "Trains several recipes on equal terms. Names the better recipe, the difference and its interval, or says that the difference is not clear.",
        ),
        "report": Command(
            "write the page of a run, or one page for several runs",
            (
                ("report runs/mine", "report.html of a run, also while it trains"),
                ("report runs/a runs/b --by tokens", "the curves of two runs by sampled tokens, and their differences"),
            ),
            "Writes the page of a run (report.html in its folder), or one page with the curves of several runs on common axes, their results and the "
            "fields in which they differ.",
        ),
        "top": Command(
            "watch a run that another process trains",
            (
                ("top runs/mine", "until the run ends, or Ctrl-C"),
                ("top runs/mine --once", "one time, for scripts"),
            ),
            "Shows a run that another process trains: the activity and the waits of each worker, the queue, tokens per second, memory and the time left.",
        ),
        "race": Command(
            "find the best recipe for a task, within a budget",
            (
                ("race --task problems.jsonl --budget 2h", "all recipes that fit the task"),
                ("race grpo rloo dapo --try group=4,16", "three recipes, each with two sizes of the group"),
            ),
            "Finds the best recipe for a task and a model, among all recipes that fit, within a budget. After each rung (round), the weaker recipes leave "
            "the race.",
        ),
    },
    "Look up": {
        "papers": Command(
            "list the recipes",
            (("papers --search clip", "recipes with this text in name or description"), ("papers --all", "also the systems that do not run yet")),
        ),
        "show": Command(
            "show a recipe: formula, paper, changes, fields, claims",
            (("show grpo", "a recipe"), ("show grpo --all", "with its empty fields, too"), ("show stale", "a proving ground")),
            "Shows a recipe: its formula and paper, when to use it, its changes to its base, its fields, and its claims with their verdicts.",
        ),
        "diff": Command(
            "show the differences of two recipes",
            (("diff grpo dapo", "two recipes"), ("diff grpo my_method.py:mine", "a recipe and one of your own")),
            "Shows the differences of two recipes as a tree: each field with its value in both.",
        ),
        "explain": Command(
            "explain a field: origin of its value, meaning, allowed values",
            (
                ("explain objective.policy.trust.high dapo", "a field of a recipe"),
                ("explain learning_rate --model path/to/model", "a value that a rule computes from the model"),
            ),
            "Explains a field: the places that set its value, its meaning and the allowed values.",
        ),
        "tasks": Command(
            "list the tasks",
            (
                ("tasks", "the built-in tasks"),
                ("tasks reasoning_gym", "the tasks of an installed package"),
                ("tasks --formats", "the published data sets whose rows can be read"),
            ),
            "Lists the built-in tasks, the tasks of a package, or the formats of published data sets.",
        ),
        "grounds": Command(
            "list the proving grounds: small tasks with one difficulty each",
            (("grounds", "all grounds"), ("show corridor", "one ground with its terms and its calibration"), ("compare grpo rloo --ground noisy", "a use")),
            "Lists the proving grounds (small tasks with one difficulty each), or calibrates one ground.",
        ),
        "claims": Command(
            "list the papers' claims with the figures measured here",
            (("claims grpo", "the claims of a recipe"), ("claims rloo --run", "measure the claims of a recipe")),
            "Lists the claims of the papers with the figures that were measured here, or measures them.",
        ),
        "cite": Command(
            "print the reference of a recipe's paper",
            (("cite dapo --bibtex", "as BibTeX"),),
            "Prints the references of a recipe's paper and of Gradus.",
        ),
    },
    "Use": {
        "chat": Command(
            "chat with a model, or let it answer the problems of a task",
            (("chat runs/mine", "the best model of a run"), ("chat runs/mine --task countdown --problem 0", "a held-out problem, with the verdict")),
            "Chats with a model, or with the best model of a run. With a task, the model answers its problems or plays its episodes. "
            "The commands /help, /problem N and /quit are typed in the chat.",
        ),
        "serve": Command(
            "serve a model on this machine to OpenAI's clients",
            (("serve runs/mine --port 8000", "the best model of a run at http://127.0.0.1:8000/v1"),),
            "Serves a model, or the best model of a run, to OpenAI's clients on this machine. Ctrl-C ends the server.",
        ),
        "export": Command(
            "write a run's model or its answers to files",
            (
                ("export runs/mine mine-model", "a folder that loads in transformers"),
                ("export runs/mine right.jsonl --as sft", "the right answers as training data"),
            ),
            "Writes a run's model as a folder that loads in transformers, or its answers as data.",
        ),
    },
    "Machine": {
        "profile": Command(
            "measure the parts of a step, and the speed of the machine",
            (
                ("profile grpo", "the built-in model"),
                ("profile dapo --model path/to/model --task problems.jsonl --steps 5", "your own model and data, five steps"),
            ),
            "Trains a few steps in a temporary folder, and shows the time of each part of a step: prompts, decoding, judging, log-probabilities, forward and "
            "backward passes, optimiser, checkpoints. Compares the parts with the speed that this machine reaches in short measurements, and names the "
            "largest gaps.",
        ),
        "doctor": Command(
            "show hardware and packages, with warnings",
            (("doctor", "this machine"), ("doctor --recipe grpo --model path/to/model", "the memory that a run would need")),
            "Shows the hardware and packages of this machine, with warnings, or predicts the memory of a run.",
        ),
        "simulate": Command(
            "predict the speed of a run on a cluster before you rent GPUs",
            (
                ("simulate grpo --gpus 1024 --model 70B --length 4000", "all splits of the GPUs, with estimated rates"),
                ("simulate grpo --gpus 64 --from runs/mine --decode 16=1900,128=9000", "lengths of a run, and measured rates"),
            ),
            "Predicts the speed of a training run on many GPUs by a simulation of its time. Compares the run without a system, with Ahead and with "
            "Streaming, for several splits of the GPUs and several batches. Recommends one configuration. If a rate is not given, an estimate from data "
            "sheets replaces it.",
        ),
        "completion": Command(
            "print the completion script of a shell",
            (('eval "$(gradus completion bash)"', "complete names in this shell; for every shell, put it into ~/.bashrc"),),
            "Prints the script that lets a shell complete commands, recipes, tasks and fields.",
        ),
    },
}
"""The commands in the order of the help."""

COMMANDS: Mapping[str, Command] = {name: command for group in GROUPS.values() for name, command in group.items()}
"""All commands by name."""

FIRST = (
    ("gradus train grpo", "learn arithmetic, in some minutes on a laptop"),
    ("gradus train grpo --task problems.jsonl --reward reward.py:score", "your own data and reward"),
    ("gradus compare grpo rloo --seeds 3", "which of two methods is better?"),
)
"""The examples of `gradus` alone."""

FIELDS = (
    ("learning_rate", "X", "default: by a rule from the model's size"),
    ("prompts", "N", "problems per step; default: 16 (paper: 64)"),
    ("group", "N", "answers per problem; default: 8 (paper: 16)"),
    ("max_tokens", "N", "tokens per answer; default: as in the task, else 64"),
    ("temperature", "X", "sampling temperature; default: as in the task, else 1"),
    ("eval_every", "N", "steps between evaluations; default: 25 (paper: 50)"),
    ("study.problems", "N", "held-out problems of an evaluation; default: 256"),
    ("study.patience", "N", "number of evaluations in a row without gain that ends the run; default: 0, off"),
)
"""Common fields of a recipe in the help of `gradus train`: path, value, meaning."""

PARTS = """To replace a part, give the name of a class, or file.py:Class: --objective.policy.trust DualClip, --study.reward reward.py:score,
--players.policy.model Adapter (LoRA, with --players.policy.model.rank 16), --players.policy.engine VLLMServer (a vLLM server, with
--players.policy.engine.url http://127.0.0.1:8000) or VLLM (in this process). --task.FIELD VALUE sets an option of the task."""
"""How a part of a recipe is replaced."""

WITH_FIELDS = ("train", "resume", "eval", "leaks", "contract", "explain", "check", "doctor", "chat", "play", "screen", "compare", "race", "advise", "profile")
"""The commands that take fields of a recipe or options of a task, too."""
