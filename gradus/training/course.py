"""The course of a run with stages: its stages in order, each with its recipe and task. Errors in any stage are reported before the run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from gradus.recipe.compatibility import check_fit, check_problems
from gradus.recipe.core import Recipe, Setting, put
from gradus.schedules.constant import ConstantSchedule
from gradus.schedules.stages import FIRST, PREVIOUS, Fuse, Merges, Stage, Stages, metric_of, most_steps
from gradus.study.screen import Screened
from gradus.types import Frozen, UserError, unknown
from gradus.types.frozen import value_fields
from gradus.types.moments import Fallen, Level, Plateau, Steps
from gradus.types.parts import Task
from gradus.types.players import Head, Player
from gradus.types.returned import named
from gradus.types.systems import Ahead, Streaming

MADE = "made:"
_RUN_WIDE = ("setting", "study", "schedule", "players", "policy", "requires")
"""The fields of the run's recipe that the run uses even if every stage has its own recipe."""


@dataclass(frozen=True)
class Leg:
    """A leg of the course: one stage in one round.

    `recipe`: the recipe that the stage trains for at most `steps` steps. For a merge or a fusion, `recipe` is the recipe that evaluates the merged
    model.
    """

    name: str  # the stage's name; from the second round on, the number of the round follows, as in "sft-2"
    stage: Any
    recipe: Recipe
    task: Task  # the task; if an earlier leg makes the stage's rows, this is a substitute until the rows exist
    start: str | None  # the leg whose last policy this leg starts with; None: this leg starts with the model of the run
    players: Mapping[str, tuple[str, str]] = field(default_factory=Frozen)  # player -> (leg, player) that gives its first weights
    reads: str | None = None  # the leg that makes the rows of the problems
    weights: Mapping[str, float] = field(default_factory=Frozen)  # for a merge or a fusion: leg -> weight

    @property
    def steps(self) -> int:
        return most_steps(self.stage)

    @property
    def merges(self) -> bool:
        return isinstance(self.stage, Merges)


def staged(recipe: Recipe) -> bool:
    """Whether a recipe consists of stages."""
    return isinstance(recipe.schedule, Stages)


def course(recipe: Recipe, task: Task, load: Callable[[str], Task]) -> tuple[Leg, ...]:
    """Returns all legs of the run in order. If a stage is impossible, raises UserError with a remedy.

    Args: task: the run's task; load: a function that returns the task of a given name, for stages that name a task.
    """
    stages = recipe.schedule
    _check_read(recipe, stages)
    legs: list[Leg] = []
    for round_ in range(stages.repeat):
        newest = {name: _label(name, n) for n in range(round_) for name in stages.stages}
        for name, stage in stages.stages.items():
            leg = _leg(_label(name, round_), name, stage, recipe, task, load, legs, newest)
            legs.append(leg)
            newest[name] = leg.name
            if round_ == 0 and not leg.merges:
                _check(name, leg)
    return tuple(legs)


def _label(name: str, round_: int) -> str:
    return name if round_ == 0 else f"{name}-{round_ + 1}"


def _leg(
    label: str, name: str, stage: Any, whole: Recipe, task: Task, load: Callable[[str], Task], legs: list[Leg], newest: Mapping[str, str]
) -> Leg:
    before = legs[-1] if legs else None
    if isinstance(stage, Merges):
        of = {_known(one, name, newest, whole, "merges"): weight for one, weight in stage.weights.items()}
        assert before is not None
        start: str | None = before.name
        if isinstance(stage, Fuse):
            start = None if stage.start == FIRST else _known(stage.start, name, newest, whole, "starts from")
        return Leg(label, stage, before.recipe, before.task, start, weights=Frozen(of))
    recipe = recipe_of(whole, name)
    own, reads = task, None
    if stage.task is not None and stage.task.startswith(MADE):
        maker = _known(stage.task.removeprefix(MADE), name, newest, whole, "reads the rows of")
        own, reads = _promised(name, task, next(leg for leg in legs if leg.name == maker)), maker
    elif stage.task is not None:
        own = load(stage.task)
    if recipe.environment is not None:
        own = replace(own, environment=recipe.environment)
    start = before.name if before is not None else None
    if stage.start != PREVIOUS:
        start = None if stage.start == FIRST else _known(stage.start, name, newest, whole, "starts from")
    players = {player: _handed(name, player, text, recipe, newest, legs, whole) for player, text in stage.players.items()}
    return Leg(label, stage, recipe, own, start, Frozen(players), reads)


def _known(asked: str, name: str, newest: Mapping[str, str], whole: Recipe, does: str) -> str:
    """Returns the last leg so far of the stage `asked`. Raises UserError if there is no stage with this name, or if this stage comes later."""
    if asked in newest:
        return newest[asked]
    if asked in whole.schedule.stages:
        later = "itself" if asked == name else f"stage {asked}, which comes later"
        moved = "" if asked == name else f", or move {asked} before {name}"
        raise UserError(f"stage {name} {does} {later}; name an earlier stage ({', '.join(newest) or 'none exists'}){moved}")
    raise unknown("stage", asked, newest, f"Stage {name} {does} it; add it to the stages before {name}")


def _promised(name: str, task: Task, maker: Leg) -> Task:
    """Returns the task whose problems the earlier stage `maker` will make. Raises UserError if that stage makes no rows."""
    makes = None if maker.merges else maker.stage.makes
    if makes is None:
        raise UserError(
            f"stage {name} reads {MADE}{maker.name}, but stage {maker.name} makes no rows; set the field `makes` of stage {maker.name}, for example "
            f"{maker.name}=Stage(..., makes=RightAnswers())"
        )
    base = maker.task if maker.stage.task is not None else task
    return replace(base, provides=base.provides | frozenset(makes.provides))


def _handed(
    name: str, player: str, text: str, recipe: Recipe, newest: Mapping[str, str], legs: list[Leg], whole: Recipe
) -> tuple[str, str]:
    """Reads `text`: the stage and the player that give their weights to `player`. Returns (leg, player).

    Raises UserError if `text` is wrong.
    """
    if player == "policy":
        raise UserError(f'stage {name}: `players` names policy, but `start` gives the weights of the policy; write start="{text.partition(".")[0]}"')
    if player not in recipe.players:
        raise unknown("player", player, recipe.players, f"Stage {name} gives it the weights of {text}; add it to the players of the stage's recipe")
    stage, dot, theirs = text.partition(".")
    if not dot:
        raise UserError(f'stage {name}: players.{player} is "{text}"; write stage and player, for example "{text}.policy"')
    label = _known(stage, name, newest, whole, f"gives {player} the weights of")
    leg = next(leg for leg in legs if leg.name == label)
    there = {"policy"} if leg.merges else {"policy", *leg.recipe.players}
    if theirs not in there:
        raise unknown("player", theirs, there, f"Stage {name} gives its weights to {player}; stage {stage} has no such player")
    heads = [isinstance(spec.model, Head) for spec in (leg.recipe.players.get(theirs, Player()), recipe.players[player])]
    if heads[0] != heads[1]:
        has, lacks = (text, f"players.{player}") if heads[0] else (f"players.{player}", text)
        raise UserError(
            f"stage {name} gives {player} the weights of {text}, but {has} has a value head and {lacks} has no value head; give both players the same kind of "
            'model, such as Head(of=Copy("policy"))'
        )
    return label, theirs


def recipe_of(whole: Recipe, name: str) -> Recipe:
    """Returns the recipe that a stage trains. The number of steps in its setting is the largest possible length of the stage. Raises UserError for an
    impossible change of a field.
    """
    stage: Stage = whole.schedule.stages[name]
    own = whole.but(schedule=ConstantSchedule()) if stage.recipe is None else stage.recipe
    if not isinstance(own, Recipe):
        raise UserError(f"stage {name}: its recipe is a {type(own).__name__}; give a Recipe, or None for the recipe of the run")
    if staged(own):
        raise UserError(f"stage {name}: its recipe {own.key} has its own stages; add these stages to the stages of the run, or use repeat for rounds")
    if stage.recipe is not None:
        own = replace(own, setting=mixed(own.setting, whole.setting), study=own.study if whole.study is None else whole.study)
    if not isinstance(stage.changes, Mapping):
        raise UserError(f"stage {name}: `changes` is a {type(stage.changes).__name__}; write Frozen({{PATH: VALUE}})")
    for path, value in stage.changes.items():
        try:
            own = put(own, path, value)
        except UserError as error:
            raise UserError(f"stage {name}, changes: {error}") from None
    if not isinstance(stage.until, Steps | Plateau | Level | Fallen):
        raise UserError(f"stage {name}: `until` is a {type(stage.until).__name__}; write Steps(100), Plateau(METRIC), Level(METRIC, at) or Fallen(METRIC, to)")
    return replace(own, setting=replace(own.setting, steps=most_steps(stage)))


def mixed(own: Setting, whole: Setting) -> Setting:
    """Returns the setting of a stage. If a field of the stage's setting has its default value, the value comes from the run's recipe."""
    default = Setting()
    return replace(own, **{f.name: getattr(whole, f.name) for f in value_fields(own) if getattr(own, f.name) == getattr(default, f.name)})


def every_stage(recipe: Recipe, change: Callable[[Recipe], Recipe]) -> Recipe:
    """Applies `change` to every recipe that trains: to `recipe` itself if it trains, and to the recipes of its stages."""
    if not staged(recipe):
        return change(recipe)
    stages = recipe.schedule.stages
    made = {n: replace(s, recipe=change(s.recipe)) if getattr(s, "recipe", None) is not None else s for n, s in stages.items()}
    own = any(isinstance(s, Stage) and s.recipe is None for s in stages.values())
    return replace(change(recipe) if own else recipe, schedule=replace(recipe.schedule, stages=Frozen(made)))


def every_task(recipe: Recipe, change: Callable[[str], str]) -> Recipe:
    """Applies `change` to every name of a task in the stages, except to names of rows that a stage makes."""
    if not staged(recipe):
        return recipe
    made = {n: _with_task(s, change) for n, s in recipe.schedule.stages.items()}
    return replace(recipe, schedule=replace(recipe.schedule, stages=Frozen(made)))


def _with_task(stage: Any, change: Callable[[str], str]) -> Any:
    named_ = getattr(stage, "task", None)
    return stage if named_ is None or named_.startswith(MADE) else replace(stage, task=change(named_))


def tasks_of(recipe: Recipe) -> list[str]:
    """Returns the names of the tasks in the stages of a recipe, without rows that a stage makes."""
    named_ = [getattr(stage, "task", None) for stage in recipe.schedule.stages.values()] if staged(recipe) else []
    return [name for name in named_ if name is not None and not name.startswith(MADE)]


def with_rates(recipe: Recipe, legs: tuple[Leg, ...]) -> Recipe:
    """Puts the learning rate of every stage into the recipe as a number, so that a resumed run does not compute it again."""
    rates = {leg.name: leg.recipe.setting.learning_rate for leg in legs if not leg.merges}
    path, made = "setting.learning_rate", dict(recipe.schedule.stages)
    for name, stage in made.items():
        if name in rates and recipe_of(recipe, name).setting.learning_rate is None:
            made[name] = replace(stage, changes=Frozen(stage.changes).replace(**{path: rates[name]}))
    return replace(recipe, schedule=replace(recipe.schedule, stages=Frozen(made)))


def refuse_processes(recipe: Recipe, processes: int) -> None:
    """Raises UserError if a run with several processes has stages, or has a system that needs a single process."""
    if isinstance(recipe.system, Ahead | Streaming) and processes != 1:
        raise UserError(f"--processes is {processes}, but a run with system {type(recipe.system).__name__} trains in one process; leave out one of the two")
    if staged(recipe) and processes != 1:
        raise UserError(f"--processes is {processes}, but a run with stages trains in one process; leave --processes out, or train each stage as a separate run")


def _check_read(recipe: Recipe, stages: Stages) -> None:
    """Raises UserError if the run's recipe has a part that no stage reads, or if the first stage is a Merge or a Fuse."""
    first = next(iter(stages.stages))
    if isinstance(stages.stages[first], Merges):
        kind = type(stages.stages[first]).__name__
        raise UserError(f"stage {first} is a {kind} and comes first, so there are no models to merge; put the stages that {first} merges before {first}")
    if any(isinstance(stage, Stage) and stage.recipe is None for stage in stages.stages.values()):
        return
    for seam in (f.name for f in value_fields(recipe) if f.name not in (*_RUN_WIDE, "key", "base", "about", "family", "parent")):
        if getattr(recipe, seam) is not None:
            raise UserError(
                f"recipe {recipe.key} sets {seam}, but each of its stages has its own recipe, so no stage reads this field; leave {seam} out, or set it "
                f"in the stages: --schedule.stages.{first}.recipe.{seam}"
            )


def _check(name: str, leg: Leg) -> None:
    """Raises UserError if a stage's recipe does not fit its task, or if a field of the stage is wrong."""
    try:
        check_fit(leg.recipe, leg.task)
        if leg.reads is None:
            check_problems(leg.task)
    except UserError as error:
        raise UserError(f"stage {name}: {error}") from None
    stage = leg.stage
    check_ends(leg)
    if stage.screen is not None and not isinstance(stage.screen, Screened):
        raise UserError(f"stage {name}: `screen` is a {type(stage.screen).__name__}; write Screened(low, high)")
    if stage.makes is not None:
        _check_harvest(name, stage.makes, leg)


def check_ends(leg: Leg) -> None:
    """Raises UserError if a metric decides the end of the stage, but no evaluation measures it."""
    metric = None if leg.merges else metric_of(leg.stage.until)
    if metric is None:
        return
    if leg.recipe.study is None:
        raise UserError(
            f"the metric {metric} ends stage {leg.name}, but no evaluation measures it, because the recipe of the stage has no study, or task {leg.task.name} has "
            "no answers; set study=HeldOut() with a reward, or until=Steps(n)"
        )
    if not leg.recipe.setting.eval_every:
        raise UserError(f"the metric {metric} ends stage {leg.name}, but `eval_every` is 0; set --eval_every to the number of steps between evaluations")


def _check_harvest(name: str, makes: Any, leg: Leg) -> None:
    if isinstance(makes, type):
        raise UserError(f"stage {name}: `makes` is the class {named(makes)} itself; give an instance of it: {makes.__name__}()")
    if lacking := next((n for n in ("rows", "provides") if not hasattr(makes, n)), None):
        raise UserError(
            f"stage {name}: `makes` is {named(makes)}, which has no {lacking}; write a class with a method rows(groups), and with a field "
            "`provides` that is the set of its columns"
        )
    if leg.task.environment is not None and getattr(makes, "reads", "answers") == "answers":
        raise UserError(
            f"stage {name}: `makes` is {type(makes).__name__}, which reads answers of one turn, but task {leg.task.name} is played in an environment; "
            'write your own harvest with reads = "episodes"'
        )
