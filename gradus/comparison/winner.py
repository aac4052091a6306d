"""The winner of a race as a recipe file, and the commands that train with it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gradus.comparison.experiment import Arm, Experiment
from gradus.recipe.core import PROFILES
from gradus.recipe.registry import recipe
from gradus.training.plan import plan
from gradus.types import command

FILE, NAME = "winner.py", "winner"

_TEXT = '''"""The winner of a race: {about}.

Train with it: {command}
"""

from gradus import load_recipe
{imports}from gradus.recipe.overrides import override_all

FIELDS = [{fields}]

winner = override_all(load_recipe({recipe!r}){setting}.derive("winner", {sentence!r}), FIELDS)
'''


def source_of(experiment: Experiment, arm: Arm, folder: Path) -> str:
    """The Python file of the arm's recipe with the fields of the arm and of the experiment. The command in the docstring of the file sets the number of steps."""
    fields = experiment.fields_of(arm)
    profile = profile_of(experiment, arm)
    told = ", ".join(f"{name} {value}" for name, value in arm.fields)
    return _TEXT.format(
        about=arm.name.replace("\\", "/").replace('"', "'"),
        command=train_command(experiment, folder).replace("\\", "/"),
        imports="" if profile is None else "from gradus.recipe.core import PROFILES\n",
        fields="".join(f"\n    ({name!r}, {value!r})," for name, value in fields) + "\n" * bool(fields),
        recipe=named(arm),
        setting="" if profile is None else f'.but(setting=PROFILES["{profile}"])',
        sentence=f"{arm.recipe.rpartition(':')[2]}{f' with {told}' if told else ''}, the winner of a race.",
    )


def named(arm: Arm) -> str:
    """The name of the arm's recipe. If the recipe is in a file, the name has the full path, so it is valid in any folder."""
    file, colon, name = arm.recipe.rpartition(":")
    return f"{Path(file).resolve()}:{name}" if colon and Path(file).is_file() else arm.recipe


def profile_of(experiment: Experiment, arm: Arm) -> str | None:
    """The profile that the runs use in place of the recipe's setting; None if they use the recipe's setting."""
    own = recipe(arm.recipe).setting
    used = plan(arm.recipe, experiment.task, model=experiment.model, profile=experiment.profile).recipe.setting
    return None if used == own else next(name for name, setting in PROFILES.items() if setting == used)


def train_command(experiment: Experiment, folder: Path) -> str:
    """The command that trains the winner from the start, with the length of a full run of the race."""
    words = ["train", f"{folder / FILE}:{NAME}"]
    for name in ("task", "model"):
        if (value := getattr(experiment, name)) is not None:
            words += [f"--{name}", value]
    words += [word for text in experiment.reward for word in ("--reward", text)]
    words += [word for name, value in experiment.task_options for word in (f"--task.{name}", value)]
    words += [] if experiment.device == "cpu" else ["--device", experiment.device]
    return command(*words, "--budget", f"{experiment.budget.unit}={experiment.budget.amount:.10g}")


def commands(experiment: Experiment, folder: Path, run: Path, *, whole: bool) -> Sequence[str]:
    """The commands for further training. The last command begins a new run. If the winner's run can be continued, the second-last command continues it.

    Args: whole: whether the winner's run has reached its planned end.
    """
    unit, amount = experiment.budget.unit, experiment.budget.amount
    if not whole:
        return command("resume", run), train_command(experiment, folder)
    more = [command("resume", run, "--steps", round(2 * amount))] if unit == "steps" else []
    return *more, train_command(experiment, folder)
