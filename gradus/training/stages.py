"""Takes a run through its stages.

At the end of a stage, the run evaluates, saves, and makes rows of data from its answers (the harvest). At the start of the next stage, it gets new weights,
players and problems.

A run has a complete state only at step boundaries. The checkpoint at the boundary between two stages contains the end of the earlier stage. The work after
this checkpoint is the harvest, the transfer of weights and the screening. This work depends only on this checkpoint, on earlier checkpoints and on facts. If
a run is
killed during this work, it repeats the work with the same bytes.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gradus.lab import checkpoints, made, rollouts
from gradus.lab.checkpoints import Checkpoint
from gradus.lab.folder import ROLLOUTS, STAGES
from gradus.players.merge import fused, merged
from gradus.runtime.user_code import asked
from gradus.schedules.stages import Fuse, metric_of, over
from gradus.study.screen import measure
from gradus.tasks.data.problems import line, of_stored
from gradus.training.arrivals import end
from gradus.training.course import Leg
from gradus.training.health import sound, watch
from gradus.training.memory import Memory
from gradus.types import Group, Key, UserError, unknown
from gradus.types.returned import shown, wrong

if TYPE_CHECKING:
    from gradus.training.run import Run


@dataclass(eq=False)
class Course:
    """The stages of a run, and the stage in which the run is now."""

    legs: tuple[Leg, ...]
    build: Callable[[Leg, str | Path | None], dict[str, Any]]  # makes the players of a leg from a model folder (None: the model of the run)
    index: int = 0
    began: int = 0  # step of the run at the start of the leg
    ended: dict[str, int] = field(default_factory=dict)  # leg -> step of the run at the end of the leg
    scores: dict[int, float] = field(default_factory=dict)  # step of the run -> value of the metric that ends the leg
    ready: bool = False  # whether the problems of the leg exist
    groups: list[Group] = field(default_factory=list)  # the groups for the rows that the leg makes, if the run has no folder
    shelf: tempfile.TemporaryDirectory[str] | None = None  # the folder for the rows and for the checkpoints at the ends of legs, if the run has no folder

    @property
    def leg(self) -> Leg:
        return self.legs[self.index]

    @property
    def last(self) -> bool:
        return self.index == len(self.legs) - 1

    def state(self) -> dict[str, Any]:
        """Returns the present stage of the run, and the ends of earlier stages, as plain state."""
        return {"leg": self.leg.name, "began": self.began, "ended": dict(self.ended), "scores": [[n, s] for n, s in self.scores.items()]}

    def again(self, run: Run) -> None:
        """Returns the run to the start of its first stage."""
        self.ended = {}
        enter(run, self, 0)

    def back_to(self, run: Run, state: Mapping[str, Any]) -> None:
        """Puts the run into the stage of a checkpoint. The weights are loaded later. Raises UserError if the recipe has no such stage."""
        names = [leg.name for leg in self.legs]
        if state["leg"] not in names:
            raise unknown("stage", state["leg"], names, "The checkpoint was written in this stage; restore the old recipe")
        leg = self.legs[names.index(state["leg"])]
        place(run, leg, dict(run.players) if leg is self.leg else self.build(leg, None))
        self.index, self.began, self.ended, self.ready = names.index(leg.name), state["began"], dict(state["ended"]), False
        self.scores = {int(step): score for step, score in state["scores"]}

    def keep(self, groups: Sequence[Group]) -> None:
        """Keeps the groups of a step in memory if the stage makes rows from them."""
        if not self.leg.merges and self.leg.stage.makes is not None:
            self.groups += groups

    def home(self, run: Run) -> Path:
        """Returns the folder for checkpoints and rows: the run's folder, or a temporary folder."""
        if run.folder is not None:
            return run.folder.path
        self.shelf = self.shelf or tempfile.TemporaryDirectory(prefix="gradus-stages-")
        return Path(self.shelf.name)

    def over(self, step: int, measured: Mapping[str, float | None]) -> bool:
        """Whether this evaluation ends the stage. Raises UserError if the evaluation lacks the metric that decides the end."""
        if self.leg.merges or (metric := metric_of(self.leg.stage.until)) is None:
            return False
        if (score := measured.get(metric)) is None:
            known = [name for name, value in measured.items() if value is not None]
            raise unknown("metric", metric, known, f"This metric ends stage {self.leg.name}; name a metric of the stage's evaluation")
        self.scores[step] = float(score)
        return over(self.leg.stage.until, step - self.began, list(self.scores.values()))


async def follows(run: Run, course: Course) -> bool:
    """Ends the current stage after the last evaluation of the stage. Returns whether another stage has begun."""
    leave(run, course)
    if not course.leg.merges and course.leg.stage.makes is not None:
        run.measured = {**run.measured, **harvested(run, course)}
    if course.last:
        return False
    run.end_stage()
    enter(run, course, course.index + 1)
    leg = course.leg
    kind = "a fusion" if isinstance(leg.stage, Fuse) else "a merge"
    say(run, f"stage {leg.name} begins at step {run.step}: {kind if leg.merges else f'{leg.recipe.key}, at most {leg.steps} steps'}")
    return True


def leave(run: Run, course: Course) -> None:
    """Saves the end of a stage. The saved state is the state before the last evaluation, so that a resumed run evaluates again."""
    if run.begun is not None:
        run.best, run.time = run.begun["best"], run.begun["time"]
    leg = course.leg.name
    course.ended.pop(leg, None)
    if run.folder is not None:
        path = run.save(planned=sound(run.numbers, run.players))
        run.folder.point(f"{STAGES}/{leg}", path / "model")
    else:
        home = course.home(run)
        with tempfile.TemporaryDirectory(dir=home) as model:
            run.players["policy"].policy.save(Path(model))
            documents, tensors = run.documents()
            checkpoints.save(home, run.step, tensors, documents, {"model": Path(model)}, keep=len(course.legs) + 1)
    course.ended[leg] = run.step


def enter(run: Run, course: Course, index: int) -> None:
    """Puts the run at the start of a stage.

    The run gets the stage's recipe, task and players, and new optimisers. If the problems of the stage are the same as before, the state of the curriculum is
    kept. All other parts begin with new states.
    """
    before, leg = course.leg, course.legs[index]
    with model_for(run, course, leg) as model:
        players = course.build(leg, model)
    for name, (source, theirs) in leg.players.items():
        hand(players[name], end_of(run, course, source).tensors(f"player-{theirs}.safetensors"), f"{source}.{theirs}")
    goes_on = index > 0 and _source(before) is not None and _source(before) == _source(leg)
    states = {place: state for place, state in run.memory.states.items() if goes_on and place.partition(".")[0] == "curriculum"}
    course.index, course.began, course.ready, course.scores, course.groups = index, run.step, False, {}, []
    place(run, leg, players)
    run.memory, run.best, run.history, run.warned = Memory(states), {}, {}, False
    run.time, run.turned, run.moved_back = {}, None, {}
    run.numbers = watch({"restarts": run.numbers["restarts"]}, run.players, leg.recipe.setting.agreement)
    if run.folder is not None:
        run.folder.unlink("best")  # the best model belongs to the last stage


def place(run: Run, leg: Leg, players: Mapping[str, Any]) -> None:
    """Gives the run the recipe, the task and the players of a stage. Discards the rollouts that have begun with the players of the stage before.

    The dictionary of players stays the same object, because other objects may refer to it.
    """
    end(run)
    run.recipe, run.task = leg.recipe, leg.task
    run.players.clear()
    run.players.update(players)


def _source(leg: Leg) -> tuple[Any, ...] | None:
    """Returns the values that determine the problems of a stage; None if no other stage can have the same problems."""
    return None if leg.merges or leg.stage.screen is not None else (leg.stage.task, leg.reads)


@contextmanager
def model_for(run: Run, course: Course, leg: Leg) -> Iterator[Path | None]:
    """Yields the folder of a stage's first model; None means the run's model. For a merge or a fusion, computes the model and deletes its folder afterwards."""
    start = None if leg.start is None else end_of(run, course, leg.start).path / "model"
    if not leg.merges:
        yield start
        return
    with tempfile.TemporaryDirectory(prefix="gradus-merge-") as folder:
        policies = {n: course.build(leg, end_of(run, course, n).path / "model")["policy"].policy for n in leg.weights}
        first = next(iter(policies.values()))
        states = {n: p.network.state_dict() for n, p in policies.items()}
        if isinstance(leg.stage, Fuse):
            base = course.build(leg, start)["policy"].policy.network.state_dict()
            made = fused(base, states, leg.weights, drop=leg.stage.drop, key=Key(run.seed).fold("fuse", leg.name))
        else:
            made = merged(states, leg.weights)
        first.network.load_state_dict(made)
        first.save(Path(folder))
        del policies
        yield Path(folder)


def end_of(run: Run, course: Course, leg: str) -> Checkpoint:
    """Returns the checkpoint at the end of a stage. Raises UserError if the checkpoint is broken or missing."""
    home = course.home(run)
    found = checkpoints.steps(home).get(course.ended.get(leg, -1))
    if found is None:
        raise UserError(f"the checkpoint at the end of stage {leg} is missing in {home / checkpoints.FOLDER}; restore it, or start a new run")
    return checkpoints.at(found)


def hand(player: Any, tensors: Mapping[str, Any], source: str) -> None:
    """Gives a player the weights of a stored player. Raises UserError if the networks of the two players differ."""
    import torch

    theirs = {name.removeprefix("weights."): t for name, t in tensors.items() if name.startswith("weights.")}
    mine = player.policy.network.state_dict()
    if odd := sorted(n for n in {**mine, **theirs} if n not in mine or n not in theirs or mine[n].shape != theirs[n].shape):
        raise UserError(
            f"player {player.name} cannot take the weights of {source}, because the two networks differ in {odd[0]}; give both players the same kind of model"
        )
    player.policy.network.load_state_dict(theirs)
    with torch.no_grad():
        for master, own in zip(player.masters, player.parameters, strict=True):
            if master is not own:
                master.copy_(own)


def harvested(run: Run, course: Course) -> dict[str, float]:
    """Makes the rows of the stage and stores them. Returns the number of rows as a metric.

    If rows of this boundary are already stored, these rows are kept.
    """
    leg = course.leg
    restart = run.numbers["restarts"]
    if run.folder is not None and (known := made.stored(run.folder, made.MADE, leg.name, run.step, restart)) is not None:
        return dict(known[1])
    makes, steps = leg.stage.makes, range(course.began, run.step)
    groups = course.groups if run.folder is None else (group for _, groups in rollouts.scan(run.folder.path / ROLLOUTS, steps) for group in groups)
    with asked(makes, "rows"):
        rows = makes.rows(iter(groups))
    if not isinstance(rows, Sequence) or isinstance(rows, str):
        raise wrong(makes, "rows", shown(rows), "a list of rows (mappings)")
    lines = [line(row, f"row {n} of stage {leg.name}", leg.name) for n, row in enumerate(rows, start=1)]
    if lacking := sorted(makes.provides - set().union(*(set(row) for row in rows))) if rows else []:
        raise wrong(makes, "rows", f"rows without {', '.join(lacking)}", f"rows with {', '.join(sorted(makes.provides))}, as in its `provides`")
    numbers = {"made/rows": float(len(rows))}
    _store(run, course, made.MADE, lines, numbers)
    say(run, f"stage {leg.name} made {len(rows)} rows")
    return numbers


async def ready(run: Run, course: Course) -> None:
    """Loads the problems of the stage, including problems that an earlier stage made as rows.

    If the stage screens its problems, it loads only the problems that the screening keeps.
    """
    if course.ready or course.leg.merges:
        return
    leg, home = course.leg, course.home(run)
    task = leg.task if leg.reads is None else of_stored(leg.task, home / made.MADE / f"{leg.reads}.jsonl")
    screen, restart = leg.stage.screen, run.numbers["restarts"]
    if screen is not None:
        known = None if run.folder is None else made.stored(run.folder, made.SCREENED, leg.name, course.began, restart)
        if known is None and run.step != course.began:
            lost = home / made.SCREENED / f"{leg.name}.jsonl"
            raise UserError(f"the file {lost} with the problems of stage {leg.name} is missing; restore it, or start a new run")
        numbers = dict(known[1]) if known is not None else await _screened(run, course, task.source, screen)
        task = of_stored(task, home / made.SCREENED / f"{leg.name}.jsonl")
        run.measured = {**run.measured, **numbers} if run.step == course.began else run.measured
    run.task, course.ready = task, True


async def _screened(run: Run, course: Course, source: Any, screen: Any) -> dict[str, Any]:
    world = run.world(run.recipe, "screen")
    found = await measure(run, run.recipe, world, screen, source)
    numbers = {**found.numbers(screen), **{f"tokens/{purpose}": count for purpose, count in world.spent.items()}}
    _store(run, course, made.SCREENED, [line(row, "a screened problem") for row in found.kept(screen)], numbers)
    say(run, f"stage {course.leg.name}: {found.told(screen)}")
    return numbers


def _store(run: Run, course: Course, kind: str, lines: Sequence[str], numbers: Mapping[str, Any]) -> None:
    if run.folder is not None:
        made.store(run.folder, kind, course.leg.name, lines, run.step, run.numbers["restarts"], numbers)
        return
    target = course.home(run) / kind / f"{course.leg.name}.jsonl"
    target.parent.mkdir(exist_ok=True)
    target.write_text("".join(f"{text}\n" for text in lines), encoding="utf-8")


def say(run: Run, text: str) -> None:
    """Shows a sentence to the user of the run."""
    run.view.message(text) if run.view is not None else print(text, file=sys.stderr)
