"""The options of each command of the command line. Imports no heavy module."""

from __future__ import annotations

from argparse import ArgumentParser

from gradus.cli.simulate_options import simulate_options as simulate_options

SHELLS = ("bash", "zsh", "fish")
TASK = "a name (gradus tasks), a file, file.py:task, a data set, or a mixture a:3,b:1"
JUDGE = "FILE.py:FUNCTION, Verified or a run; may be repeated, as [NAME=]R[*WEIGHT]; default: the recipe's reward"
SERVER = "the address of a judge, http://...; default: none"
IN_PLACE = "FILE.py:FUNCTION, Verified or a run; if repeated, the rewards add up; default: the task's verifier"
DEVICE = "cpu, cuda, cuda:1; default: cpu"
TINY = "a model's folder; default: the built-in model"
MODEL_OR_RUN = "folder of a model or of a run; default: the built-in model"
PRECISION = "float32, bfloat16, float64; default: float32"
OF_TASK = "--task.FIELD VALUE sets an option of the task."
OF_RECIPE = f"Any further --FIELD VALUE sets a field of the recipe, as for gradus train; {OF_TASK}"
OF_EVERY = f"Any further --FIELD VALUE sets a field of every recipe; {OF_TASK}"


def train_options(parser: ArgumentParser) -> None:
    parser.add_argument("recipe", metavar="RECIPE", help="a recipe's key (gradus papers), or file.py:name")
    plan_options(parser)
    add = parser.add_argument_group("End and output").add_argument
    add("--budget", metavar="UNIT=N", help="end of the run, in place of --steps: tokens=2e6, rollouts=5000, seconds=600; default: none")
    until_option(parser)
    add("--run", metavar="DIR", help="folder of the run; default: a new one under runs/")
    add("--log", metavar="W,W", help="tensorboard, trackio, wandb, prometheus, opentelemetry; default: none")
    metrics_port_option(parser)
    add = parser.add_argument_group("Further options").add_argument
    add("--ground", metavar="G", help="a proving ground (gradus grounds) gives task, start model, reward, fields and budget; default: none")
    processes_option(parser)


def _group(parser: ArgumentParser, title: str) -> ArgumentParser:
    """The group of options with this title. If there is no such group, makes it."""
    found = next((group for group in parser._action_groups if group.title == title), None)
    return found if found is not None else parser.add_argument_group(title)  # type: ignore[return-value]


def processes_option(parser: ArgumentParser) -> None:
    about = "processes that share the work; default: 1"
    _group(parser, "Further options").add_argument("--processes", type=int, default=1, metavar="N", help=about)


def trust_option(parser: ArgumentParser) -> None:
    about = "use a run that another user made and that executes Python files with your rights; read these files first"
    _group(parser, "Further options").add_argument("--trust", action="store_true", help=about)


def until_option(parser: ArgumentParser) -> None:
    about = "limit (90s, 8h): saves the run, exit code 3; default: none"
    _group(parser, "End and output").add_argument("--until", metavar="TIME", help=about)


def metrics_port_option(parser: ArgumentParser) -> None:
    about = "log to prometheus on this port; default: none"
    _group(parser, "End and output").add_argument("--metrics_port", metavar="N", help=about)


def json_option(parser: ArgumentParser, about: str = "print JSON") -> None:
    _group(parser, "Further options").add_argument("--json", action="store_true", help=about)


def plan_options(parser: ArgumentParser) -> None:
    """Adds the options that plan a run, for train, check, explain and doctor."""
    add = parser.add_argument_group("Data and model").add_argument
    add("--task", metavar="T", help=f"{TASK}; default: arithmetic")
    add("--model", metavar="M", help=TINY)
    add("--reward", metavar="R", action="append", help=JUDGE)
    add("--judge", metavar="URL", action="append", dest="reward", help=SERVER)
    add = parser.add_argument_group("Scale").add_argument
    add("--profile", metavar="P", help="tiny, small or paper; default: tiny, or small with --model")
    add("--steps", type=int, metavar="N", help="training steps; default: 200 (small: 500, paper: 1000)")
    add("--seed", type=int, default=0, metavar="S", help="equal seeds give runs equal to the last byte; default: 0")
    add("--device", default="cpu", help=DEVICE)


def resume_options(parser: ArgumentParser) -> None:
    parser.add_argument("folder", metavar="RUN", help="folder of the run")
    add = parser.add_argument_group("End and output").add_argument
    add("--steps", type=int, metavar="N", help="total number of steps; default: as planned")
    until_option(parser)
    add("--log", metavar="W,W", help="trackers that also get the metrics from now on; none: no tracker; default: as planned")
    metrics_port_option(parser)
    processes_option(parser)
    add = _group(parser, "Further options").add_argument
    add("--device", help="cpu, cuda, cuda:1; on another kind of device, numbers are rounded differently; default: as planned")
    names = ("memory", "micro_tokens", "recompute", "backward_chunks", "save_every", "keep", "max_wait", "max_failed", "guard.in_a_row", "guard.returns")
    listed = ", ".join(f"--{name}" for name in names)
    parser.epilog = f"These fields, for the resources of the machine and the limits on failures, may change: {listed}."


def explain_options(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("field", metavar="FIELD", help="a path, such as objective.policy.trust.high, learning_rate or task.level; or an option of gradus train")
    add("recipe", metavar="RECIPE_OR_RUN", nargs="?", default="grpo", help="a recipe's key, file.py:name or a run's folder; default: grpo")
    plan_options(parser)
    json_option(parser)
    parser.epilog = OF_RECIPE


def doctor_options(parser: ArgumentParser) -> None:
    add = parser.add_argument_group("Memory of a run").add_argument
    about = "a key, or file.py:name: predict the memory of a run, by one step with its longest batch and made-up rewards; default: none"
    add("--recipe", metavar="R", help=about)
    plan_options(parser)
    json_option(parser)
    parser.epilog = "With --recipe, any further --FIELD VALUE sets a field, as for gradus train. The exit code is 1 if the run does not fit into memory."


def profile_options(parser: ArgumentParser) -> None:
    parser.add_argument("recipe", metavar="RECIPE", nargs="?", default="grpo", help="a recipe's key (gradus papers), or file.py:name; default: grpo")
    plan_options(parser)
    steps = next(action for action in parser._actions if action.dest == "steps")
    steps.help = "measured steps, after one more step as warm-up; default: 3"
    json_option(parser)
    parser.epilog = OF_RECIPE


def check_options(parser: ArgumentParser) -> None:
    parser.add_argument("recipe", metavar="RECIPE", nargs="?", default="grpo", help="a recipe's key (gradus papers), or file.py:name; default: grpo")
    plan_options(parser)
    add = parser.add_argument_group("Checks").add_argument
    add("--samples", type=int, default=4, metavar="N", help="problems that the model answers and the reward judges; 0: none; default: 4")
    add("--step", action="store_true", help="do one step with the longest batch, to measure its memory")
    add("--quarantine", metavar="FILE", help="a .jsonl file for the bad rows of a data file; default: bad rows are not written")
    json_option(parser)
    parser.epilog = OF_RECIPE


def replay_options(parser: ArgumentParser) -> None:
    parser.add_argument("folder", metavar="RUN", help="folder of the run")
    parser.add_argument("--run", metavar="FOLDER", help="new folder of the repeated run; default: RUN-again")


def export_options(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("folder", metavar="RUN", help="folder of the run")
    add("target", metavar="TARGET", help="a folder for the model, a file for data; it must not exist yet")
    add("--best", action="store_true", help="the best model on held-out problems instead of the final one")
    data = "sft or preference (answers in .jsonl or .parquet, as data for TRL and Gradus), rollouts (all answers, in .parquet)"
    classifier = "classifier (a reward model for AutoModelForSequenceClassification of transformers)"
    forms = f"model (default; with a model card), {classifier}, card (a new model card in an exported folder), {data}"
    add("--as", dest="form", metavar="FORM", default="model", help=forms)
    add("--replace", action="store_true", help="with --as card: replace an edited card")
    add("--include-cut", action="store_true", help="also export the answers that a limit on length or turns cut off")
    add("--at-least", type=float, metavar="R", help="least reward of a good answer; default: none (with sft, the answer must be right)")


def eval_options(parser: ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL_OR_RUN", help="folder of a model or of a run, or tiny")
    add = parser.add_argument_group("Examination").add_argument
    add("--task", metavar="T", help=f"{TASK}; default: the run's own task")
    add("--pass-at", default="1", metavar="K,K", help="pass@k for these k, for example 1,4,16; default: 1")
    add("--problems", type=int, default=256, metavar="N", help="held-out problems; default: 256")
    add("--samples", type=int, default=0, metavar="N", help="answers per problem; default: the largest k")
    add("--reward", metavar="R", action="append", help=IN_PLACE.replace("the task's", "the run's own, else the task's"))
    add("--seed", type=int, default=0, metavar="S", help="seed of the problems and answers; default: 0")
    add("--device", help="cpu, cuda, cuda:1; default: the device of the run; cpu for a model")
    json_option(parser)
    parser.epilog = "Any further --FIELD VALUE sets a field of the run's recipe, such as --max_tokens 512 or --temperature 0.6; " + OF_TASK


def contract_options(parser: ArgumentParser) -> None:
    parser.add_argument("task", metavar="TASK", help=TASK)
    add = parser.add_argument_group("Tests").add_argument
    add("--reward", metavar="R", help="a reward, FILE.py:FUNCTION, which is tested on the problems of the task; default: none")
    add("--problems", type=int, default=20, metavar="N", help="problems per level; default: 20")
    add("--texts", type=int, default=500, metavar="N", help="hostile answers, over all problems; default: 500")
    add("--levels", default="", metavar="N,N", help="levels of the task; default: all")
    add("--seconds", type=float, default=1.0, metavar="S", help="longest processor time of one verdict in seconds; default: 1")
    add("--allow", default="", metavar="W,W", help="resources that a judge may use: code, process, file, network; default: none")
    add("--only", default="", metavar="RULE,RULE", help="rules to test; with --reward, rules for rewards; default: all")
    add("--seed", type=int, default=0, metavar="S", help="seed of the problems and answers; default: 0")
    json_option(parser)
    parser.epilog = OF_TASK


def leaks_options(parser: ArgumentParser) -> None:
    parser.add_argument("task", metavar="TASK", help=TASK)
    add = parser.add_argument_group("Search").add_argument
    about = "another task or file; all of its problems count as held out; default: the task's own held-out part"
    add("--against", metavar="T", help=about)
    add("--problems", type=int, default=2000, metavar="N", help="problems drawn from an endless task; default: 2000")
    add("--words", type=int, default=8, metavar="N", help="length of the n-grams in words; 13 finds only long passages; default: 8")
    about = "a training prompt is a leak if it contains at least this share of the n-grams of a held-out prompt, 0 to 1; default: 0.7"
    add("--least", type=float, default=0.7, metavar="X", help=about)
    about = "allowed share of held-out problems with a leak, 0 to 1; above this share the exit code is 1; default: 0"
    add("--allow", type=float, default=0.0, metavar="X", help=about)
    json_option(parser)
    parser.epilog = OF_TASK


def screen_options(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("task", metavar="TASK", help=TASK)
    add("target", metavar="FILE", help="file for the kept problems (.jsonl); to train on this file, give --task TASK --task.problems FILE")
    add = parser.add_argument_group("Measurement").add_argument
    add("--model", metavar="M", help=MODEL_OR_RUN)
    add("--keep", default="0.1..0.9", metavar="A..B", help="least and highest pass rate of a kept problem, 0 to 1; default: 0.1..0.9")
    add("--samples", type=int, default=8, metavar="N", help="answers per problem; default: 8")
    add("--problems", type=int, default=256, metavar="N", help="training problems that are measured; default: 256")
    add("--reward", metavar="R", action="append", help=IN_PLACE)
    add("--seed", type=int, default=0, metavar="S", help="seed of the problems and answers; default: 0")
    add("--device", default="cpu", help=DEVICE)
    json_option(parser)
    parser.epilog = OF_TASK


def chat_options(parser: ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL_OR_RUN", nargs="?", help=MODEL_OR_RUN)
    add = parser.add_argument_group("Task").add_argument
    add("--task", metavar="T", help="a task, for its sampling settings, system message and held-out problems; default: none")
    add("--problem", type=int, metavar="N", help="begin with this held-out problem of the task, counted from 0; default: none")
    add = parser.add_argument_group("Answers").add_argument
    add("--system", metavar="TEXT", help="a system message; default: as in the task, or none without a task")
    add("--temperature", type=float, metavar="X", help="0 is greedy; default: as in the task, or 0.7 without a task")
    add("--max-tokens", type=int, metavar="N", help="new tokens per answer; default: as in the task, or 512 without a task")
    add("--seed", type=int, default=0, metavar="S", help="seed of the answers; default: 0")
    add("--device", default="cpu", help=DEVICE)
    add("--precision", default="float32", help=PRECISION)
    parser.epilog = OF_TASK


def serve_options(parser: ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL_OR_RUN", nargs="?", help=MODEL_OR_RUN)
    add = parser.add_argument_group("Model").add_argument
    add("--task", metavar="T", help="a task, for its sampling settings and system message if a request gives none; default: none")
    add("--final", action="store_true", help="the final model of a run instead of the best one on held-out problems")
    add("--device", default="cpu", help=DEVICE)
    add("--precision", default="float32", help=PRECISION)
    add("--max-batch", type=int, default=64, metavar="N", help="sequences that are sampled at the same time; further sequences wait; default: 64")
    add = parser.add_argument_group("Server").add_argument
    add("--host", default="127.0.0.1", help="an address of this machine alone: 127.0.0.1, ::1, localhost; default: 127.0.0.1")
    add("--port", type=int, default=8000, metavar="N", help="0: any free port; default: 8000")
    add("--api-key", metavar="KEY", help="the key that requests must have; default: none")
    add("--log", action="store_true", help="one line per request, on standard error")


def play_options(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("task", metavar="TASK", help=TASK)
    add("--problem", type=int, default=0, metavar="N", help="begin with this problem, counted from 0; default: 0")
    add("--problems", type=int, metavar="N", help="number of problems; default: until you leave")
    add("--level", type=int, metavar="N", help="level of the problems, as --task.level; default: as in the task")
    add("--held-out", action="store_true", help="the held-out problems of an evaluation instead of training problems")
    add("--seed", type=int, default=0, metavar="S", help="seed of the problems and of the environment; default: 0")
    parser.epilog = f"{OF_TASK} /help lists the further words that you can type."


def papers_options(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("--family", metavar="F", help="the recipes of one family; default: all")
    add("--search", metavar="W", help="the recipes with this text in their name or description; default: all")
    add("--all", action="store_true", help="also the systems of the catalogue that do not run yet; with tests and verdicts")
    add("--json", action="store_true", help="print JSON")


def tasks_options(parser: ArgumentParser) -> None:
    parser.add_argument("package", metavar="PACKAGE", nargs="?", help="a package with tasks, such as reasoning_gym; default: the built-in tasks")
    parser.add_argument("--formats", action="store_true", help="the published data sets whose rows can be read: the values of --task.format")
    parser.add_argument("--json", action="store_true", help="print JSON")


def show_options(parser: ArgumentParser) -> None:
    named = "a recipe's key, file.py:name, a ground (gradus grounds), or a system of the catalogue (gradus papers --all)"
    parser.add_argument("recipe", metavar="KEY", help=named)
    parser.add_argument("--all", action="store_true", help="also the fields that are empty")


def diff_options(parser: ArgumentParser) -> None:
    parser.add_argument("a", metavar="A", help="a recipe's key, or file.py:name")
    parser.add_argument("b", metavar="B", help="the other recipe's key, or file.py:name")


def cite_options(parser: ArgumentParser) -> None:
    parser.add_argument("recipe", metavar="KEY", nargs="?", help="a recipe's key, or file.py:name; default: Gradus itself")
    parser.add_argument("--bibtex", action="store_true", help="print BibTeX")


def claims_options(parser: ArgumentParser) -> None:
    parser.add_argument("keys", metavar="KEY", nargs="*", help="recipes; KEY:2 is the second claim of a recipe; default: all that have a claim")
    add = parser.add_argument_group("Choice").add_argument
    add("--family", metavar="F", help="only the recipes of one family; default: all")
    add("--json", action="store_true", help="print JSON, with the terms of each claim and its stored result")
    add = parser.add_argument_group("Measurement").add_argument
    add("--run", action="store_true", help="measure the claims, and store the results; the same command continues an interrupted measurement")
    add("--fresh", action="store_true", help="with --run: train every run again, even the finished runs")
    add("--parallel", type=int, default=0, metavar="N", help="with --run: runs at a time; default: one for each core")
    add("--why", metavar="TEXT", help="a sentence that explains the result of a claim, kept as long as the verdict stays the same; default: none")


def compare_options(parser: ArgumentParser) -> None:
    about = "recipes: keys, file.py:name, or in quotes 'RECIPE --FIELD VALUE'; NAME=RECIPE gives a name"
    parser.add_argument("recipes", metavar="RECIPE", nargs="+", help=about)
    _terms(parser)
    add = parser.add_argument_group("Equal terms").add_argument
    ends = "end of every run: tokens=2e6, rollouts=5000, seconds=600 or steps=200; default: as in the ground, or steps=20 without a ground"
    add("--budget", metavar="UNIT=N", help=ends)
    add("--seeds", metavar="N", help="number of seeds, or the seeds with commas between them; default: 3")
    _examination(parser, problems=200, place="every run")
    add = _group(parser, "Examination at the end of every run").add_argument
    add("--show", metavar="M", action="append", default=[], help="a further measure, as a column; may be repeated; default: none")
    about = "a further task of the examination: TASK, or in quotes 'NAME=TASK --OPTION VALUE'; may be repeated; default: none"
    add("--also", metavar="TASK", action="append", default=[], help=about)
    _output(parser, "comparison", "runs/compare-RECIPES-TASK")
    _group(parser, "Further options").add_argument("--fresh", action="store_true", help="train every run again, even if another comparison has finished it")
    json_option(parser)
    parser.epilog = OF_EVERY


def report_options(parser: ArgumentParser) -> None:
    parser.add_argument("folders", metavar="RUN", nargs="+", help="folders of runs, each named with --run when it was trained")
    add = parser.add_argument_group("A page of several runs").add_argument
    add("--by", metavar="AXIS", default="steps", help="the horizontal axis: steps, tokens (sampled) or seconds (in steps); default: steps")
    add("--out", metavar="FILE", help="the page, a file that ends in .html; default: runs/report-NAMES.html")


def top_options(parser: ArgumentParser) -> None:
    parser.add_argument("folder", metavar="RUN", help="folder of the run")
    add = parser.add_argument_group("View").add_argument
    add("--once", action="store_true", help="print the state one time; this is the default if the output is not a terminal")
    add("--every", type=float, default=1.0, metavar="S", help="seconds between two views; default: 1")
    json_option(parser, "print the state as JSON, one time")


def race_options(parser: ArgumentParser) -> None:
    parser.add_argument("recipes", metavar="RECIPE", nargs="*", help="recipes to choose from, as for gradus compare; default: all that fit")
    _terms(parser)
    add = parser.add_argument_group("Race").add_argument
    add("--family", metavar="F", help="choose from the recipes of one family; default: all recipes")
    about = "budget of the whole race: a time (2h, 30m, 90s), or tokens=N, rollouts=N or steps=N, summed over all runs; default: 1h"
    add("--budget", default="1h", metavar="B", help=about)
    add("--rates", default="1/3,1,3", metavar="X,X", help="factors of each recipe's learning rate; with 1 alone, only its own rate; default: 1/3,1,3")
    about = "a field and the values to try, for recipes with this field; may be repeated; default: none"
    add("--try", dest="tries", action="append", default=[], metavar="FIELD=V,V", help=about)
    add("--seeds", default="3", metavar="N", help="seeds of the last rungs: their number, or the seeds with commas; default: 3")
    _examination(parser, problems=100, place="every rung")
    _output(parser, "race", "runs/race-RECIPES-TASK")
    json_option(parser)
    parser.epilog = OF_EVERY


def _terms(parser: ArgumentParser) -> None:
    """Adds the options for the data and the model of a comparison or a race."""
    add = parser.add_argument_group("Data and model").add_argument
    add("--ground", metavar="G", help="a proving ground (gradus grounds) gives task, start model, fields, budget and measures; default: none")
    add("--task", metavar="T", help=f"{TASK}; default: arithmetic")
    add("--model", metavar="M", help=TINY)
    add("--reward", metavar="R", action="append", help=JUDGE.replace("the recipe's", "each recipe's"))
    add("--profile", metavar="P", help="tiny, small or paper; default: tiny, or small with --model")
    add("--device", help=DEVICE)


def _examination(parser: ArgumentParser, *, problems: int, place: str) -> None:
    """Adds the options for the measure and the held-out problems of a comparison or a race."""
    add = parser.add_argument_group(f"Examination at the end of {place}").add_argument
    about = "accuracy, pass@K, reward, length, distinct, accuracy@NAME, worst@COLUMN, or METRIC:READING as in entropy:last"
    more = "; also auc, best, tokens, seconds" if place == "every run" else ""
    add("--measure", metavar="M", help=f"{about}{more}; default: as in the ground, or accuracy without a ground")
    add("--problems", type=int, metavar="N", help=f"held-out problems; default: as in the ground, or {problems} without a ground")
    add("--samples", type=int, metavar="N", help="answers per problem; default: as in the ground; without a ground, 4, or K for pass@K")


def _output(parser: ArgumentParser, thing: str, folder: str) -> None:
    add = parser.add_argument_group("Further options").add_argument
    add("--run", metavar="DIR", help=f"folder of the {thing}; the same command continues it; default: {folder}")
    add("--parallel", type=int, default=0, metavar="N", help="runs at a time; default: one for each core, one on a GPU")


def advise_options(parser: ArgumentParser) -> None:
    _terms(parser)
    add = parser.add_argument_group("Goal and facts that no probe shows").add_argument
    about = "accuracy, length (short answers), distinct or entropy:last (varied ones), accuracy@NAME (a further task); default: as in the ground, or accuracy"
    add("--measure", metavar="M", help=about)
    add("--also", metavar="TASK", action="append", default=[], help="a further task: TASK, or 'NAME=TASK --OPTION VALUE'; may be repeated; default: none")
    add("--noisy", action="store_true", help="the verdicts or rewards of some answers are wrong")
    add = parser.add_argument_group("Probe").add_argument
    add("--problems", type=int, default=16, metavar="N", help="training problems that the model answers; 0: no probe; default: 16")
    add("--samples", type=int, default=16, metavar="N", help="answers per problem; default: 16")
    json_option(parser)
    parser.epilog = "Any further --FIELD VALUE states a setting of your runs, as for gradus train; --task.FIELD VALUE sets an option of the task."


def grounds_options(parser: ArgumentParser) -> None:
    add = parser.add_argument_group("Calibration").add_argument
    about = "train base recipes on this ground with several seeds, and report whether the ground separates its pair of recipes; default: list the grounds"
    add("--calibrate", metavar="GROUND", help=about)
    add("--write", action="store_true", help="store the calibration with the ground")
    add("--run", metavar="DIR", help="folder of the calibration; the same command continues it; default: runs/ground-NAME")
    add("--parallel", type=int, default=0, metavar="N", help="runs at a time; default: one for each core")
    json_option(parser)


def completion_options(parser: ArgumentParser) -> None:
    parser.add_argument("shell", metavar="SHELL", choices=SHELLS, help=", ".join(SHELLS))
