"""A run: recipe, task, players and memory, trained by the loop and stored on disk."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gradus.lab.atomic_files import PARTIAL, room
from gradus.lab.checkpoints import steps
from gradus.lab.folder import RunFolder
from gradus.recipe.core import Recipe
from gradus.recipe.old_paths import class_today
from gradus.runtime.activity import EVALUATING, SAVING, Activity, doing, during
from gradus.runtime.user_code import asked
from gradus.study.stuck import stuck
from gradus.study.summary import summarise
from gradus.training.budget import Budget, spent_by
from gradus.training.changing import constant
from gradus.training.health import SOUND, splits, watch, watched
from gradus.training.interrupts import Stop
from gradus.training.kept_rows import KeptRows
from gradus.training.memory import Memory
from gradus.training.reporting import row_of
from gradus.training.turn import Turn, name_of, numbers, take_turn
from gradus.training.watchdog import Watchdog
from gradus.training.world import RunWorld
from gradus.types import Group, Key, Request, Sampling, UserError
from gradus.types.parts import Task
from gradus.types.returned import check_numbers

if TYPE_CHECKING:
    import pyarrow as pa

OnStep = Callable[["Run", Mapping[str, Any], Sequence[Group]], None]


@dataclass(eq=False)
class Run:
    """A run.

    The state of a run at a step boundary consists of the players, the memory, the step, the best evaluation, the health, and the stored weights for
    lagged players.
    """

    recipe: Recipe
    task: Task
    players: dict[str, Any]
    seed: int = 0
    folder: RunFolder | None = None
    on_step: OnStep | None = None
    view: Any = None  # a live table, or None
    sinks: Any = None  # trackers that get every row of the metrics, or None
    memory: Memory = field(default_factory=Memory)
    step: int = 0
    metrics: list[dict[str, Any]] = field(default_factory=list)
    best: dict[str, Any] = field(default_factory=dict)  # {"step", "score", "since"}
    history: dict[str, list[Any]] = field(default_factory=dict)  # stored weights for lagged players, float32 averages
    saved: int | None = None  # step of the newest checkpoint
    measured: dict[str, Any] = field(default_factory=dict)  # the evaluation before the next step
    moved: dict[str, int] = field(default_factory=dict)
    stop: Stop = field(default_factory=Stop)  # stops the run early because of signals or the time limit
    last: dict[str, float] = field(default_factory=dict)  # metrics of the previous step
    evaluated: dict[str, float] = field(default_factory=dict)  # the newest evaluation
    evaluations: int = 0  # number of evaluations so far
    frozen: list[str] = field(default_factory=list)  # players that an event has frozen
    turned: Turn | None = None  # the turn of the step that began last
    moved_back: dict[str, tuple[dict[str, Any], int]] = field(default_factory=dict)  # copies of the players that events have changed at this boundary
    begun: dict[str, Any] | None = None  # a copy of the state at the boundary, because an evaluation or a discarded step may change it
    numbers: dict[str, Any] = field(default_factory=lambda: dict(SOUND))  # the health of the run
    anew: Callable[[], dict[str, Any]] | None = None  # makes the players again as they were at the start of the run
    activity: Activity = field(default_factory=Activity)  # the workers of the run, and their seconds on each activity
    watchdog: Watchdog = field(default_factory=Watchdog)  # reports long waits while the run trains
    warned: bool = False  # whether the view has shown that the run learns nothing
    budget: Budget | None = None  # if there is a budget, the budget ends the run, and not the number of steps
    pause: Budget | None = None  # when this amount is used up, the run is saved and returned; a pause does not change the result of a continued run
    seconds: dict[int, float] = field(default_factory=dict)  # seconds of each step
    totals: list[float] = field(default_factory=lambda: [0.0])  # the used amounts of the budget (see `spent`)
    pipeline: Any = None  # the rollouts that run in advance (`gradus.training.ahead.Pipeline`); None: every rollout runs in its own step
    hosts: Any = None  # the worker processes that draw the samples of the system (`gradus.systems.hosts.Hosts`); None: this process draws them
    stages: Any = None  # the stages and the run's place in them (`gradus.training.stages.Course`); None: a run without stages

    @property
    def key(self) -> Key:
        """Returns the key that the seed determines. After a return to a checkpoint the key changes, so that the run draws other data."""
        restarts = self.numbers["restarts"]
        return Key(self.seed).fold("restart", restarts) if restarts else Key(self.seed)

    @property
    def began(self) -> int:
        """Returns the step at the start of the stage; 0 without stages."""
        return 0 if self.stages is None else int(self.stages.began)

    @property
    def length(self) -> int:
        """Returns the largest possible number of steps of the stage, or of the run if it has no stages."""
        return self.recipe.setting.steps if self.stages is None else int(self.stages.leg.steps)

    @property
    def progress(self) -> float:
        """Returns the finished share of the run or of its stage. With a budget, the result is the used share of the budget. Without a budget, the result is
        the share of the steps that are done.
        """
        if self.budget is not None:
            return self.spent()[-1] / self.budget.amount
        return (self.step - self.began) / max(self.recipe.setting.steps, 1)

    def progress_at(self, step: int) -> float:
        """Returns the share of the run that is finished before a later step. With a budget, this share is not known, so the result is the share at the
        current step."""
        return self.progress if self.budget is not None else (step - self.began) / max(self.recipe.setting.steps, 1)

    def spent(self) -> list[float]:
        """Returns the used amounts of the budget: one before each row of the metrics, and one after the last row. A call computes only the amounts of new
        rows.
        """
        assert self.budget is not None
        del self.totals[len(self.metrics) + 1 :]  # after a return to a checkpoint
        for row in self.metrics[len(self.totals) - 1 :]:
            self.totals.append(self.totals[-1] + spent_by(self.budget.unit, row, self.seconds))
        return self.totals

    @property
    def planned(self) -> Recipe:
        """Returns the recipe.

        With a budget, the number of steps in the recipe is an estimate: later steps are expected to cost as much as the steps so far.
        """
        if self.budget is None:
            return self.recipe
        return self.recipe.but(setting__steps=self.budget.steps(self.step, self.progress, self.recipe.setting.steps))

    @property
    def labels(self) -> dict[str, str]:
        """Returns the entry that names the stage in a row of the metrics; empty without stages."""
        return {} if self.stages is None else {"stage": self.stages.leg.name}

    def mark(self) -> None:
        """Copies the memory, the best evaluation, the health and `time` at this boundary, because the step may be discarded."""
        self.moved_back = {}
        self.begun = copy.deepcopy(
            {"memory": self.memory.states, "best": self.best, "watched": watched(self.numbers, self.players), "time": self.time}
        )

    @property
    def time(self) -> dict[str, Any]:
        """Returns the part of the state that the schedule reads or changes."""
        return {"last": self.last, "evaluated": self.evaluated, "evaluations": self.evaluations, "frozen": self.frozen}

    @time.setter
    def time(self, state: Mapping[str, Any]) -> None:
        """Restores the part of the state that the schedule reads or changes. A missing value is set as at the start of a run."""
        self.last, self.evaluated = dict(state.get("last", {})), dict(state.get("evaluated", {}))
        self.evaluations, self.frozen = state.get("evaluations", 0), list(state.get("frozen", ()))

    def must_finish(self) -> None:
        """Must be called before the step changes weights. After this call, a stop waits for the end of the step."""
        self.stop.hold()

    def rescue(self) -> None:
        """If a step was discarded, restores the copies that `mark` and the events made, and saves the state at the start of the step."""
        if self.stop.cut:
            if self.begun is not None:
                self.memory, self.best, self.time = Memory(self.begun["memory"]), self.begun["best"], self.begun["time"]
                self.numbers = watch(self.begun["watched"], self.players, self.recipe.setting.agreement)
                for name, (tensors, updates) in self.moved_back.items():
                    self.players[name].load(tensors, updates)
            try:
                self.save()
            except Exception as error:  # an event loop that is closing would only print the error
                self.stop.fault = error

    def at(self, step: int) -> tuple[Recipe, RunWorld]:
        """Returns the recipe of this step, which comes from the schedule, and the step's `World`. The events before the step have already been carried
        out."""
        turn = self.turned if self.turned is not None and self.turned.step == step else take_turn(self)
        self.moved = {name: player.updates for name, player in self.players.items()}
        world = self.world(turn.recipe, "train")
        for name, player in self.players.items():
            player.record = world
            player.back() if turn.recipe is self.recipe else player.follow(turn.specs[name], turn.recipe.setting)
        for event in turn.events:
            world.note(f"event/{name_of(event)}", 1.0)
        return turn.recipe, world

    def world(self, recipe: Recipe, purpose: str, reward: Any = None, *, step: int | None = None, **instead: Any) -> RunWorld:
        """Returns the `World` of a step (None: the current step). `instead`: arguments of `RunWorld` that replace the usual arguments."""
        step = self.step if step is None else step
        own = purpose == "train" and "memory" not in instead
        usual = dict(
            step=step,
            purpose=purpose,
            seed=self.key if purpose == "train" else Key(self.seed),  # after a return to a checkpoint, evaluations have the same draws as before
            task=self.task,
            players=self.players,
            reward=reward or recipe.reward,
            sampling=sampling_of(recipe, self.task),
            group=recipe.setting.group,
            progress=self.progress if step == self.step else self.progress_at(step),
            steps=recipe.setting.steps,
            choose=partial(self._choose, recipe) if purpose == "train" else None,
            watchdog=self.watchdog,
            memory=self.memory,
            reward_place="reward" if reward is None else "study.reward",
            kept=KeptRows(self.memory.states, constant(self), step) if own else None,
            **(self.folder.of_step(step, self.numbers["restarts"]) if self.folder is not None else {}),
        )
        return RunWorld(**{**usual, **instead})

    async def _choose(self, recipe: Recipe, count: int, world: RunWorld) -> list[Request]:
        return await self.memory.call("curriculum", recipe.curriculum, "choose", self.task.source, count, world)

    @during(EVALUATING)
    async def evaluate(self) -> bool:
        """Evaluates on held-out problems, counts the tokens and saves the best weights. Returns whether the run, or its stage, should end here."""
        recipe, study = self.recipe, self.recipe.study
        started = time.perf_counter()
        world = self.world(recipe, "evaluate", getattr(study, "reward", None))
        with asked(study, "measure"):
            measured = await study.measure(self, recipe, world)
        check_numbers(study, "measure", measured)
        self.stop.heed()
        self.measured = {**measured, **{f"tokens/{purpose}": count for purpose, count in world.spent.items()}}
        score = measured.get("held_out/accuracy")
        score = measured.get("held_out/reward") if score is None or self.task.unmarked else score
        if score is None and measured.get("held_out/loss") is not None:
            score = -measured["held_out/loss"]
        if score is not None and not self.numbers["streak"] and (not self.best or score > self.best["score"]):
            if self.folder is not None and self.step > self.began:
                self.folder.point("best", self.save() / "model")  # before `best` changes: a run resumed from it measures again
            self.best = {"step": self.step, "score": score, "since": 0}
        elif self.best:
            self.best["since"] += 1
        self.evaluated, self.evaluations = dict(numbers(measured)), self.evaluations + 1
        if self.view is not None:
            self.view.evaluated(self.step, measured, time.perf_counter() - started)
        target, patience = getattr(study, "target", None), getattr(study, "patience", 0)
        enough = target is not None and score is not None and score >= target
        over = self.stages is not None and self.stages.over(self.step, measured)
        return enough or over or bool(patience and self.best.get("since", 0) >= patience)

    def follow(self) -> None:
        """Updates the players that are moving averages, lagged copies or noisy copies of other players. The run calls this method after every round of a step."""
        from gradus.players.build import follow
        from gradus.players.noise import renew

        follow(self.players, self.moved, self.history)
        renew(self.players, self.key, self.step + 1 - self.began, self.planned.setting.steps)
        self.moved = {name: player.updates for name, player in self.players.items()}

    def record(
        self, step: int, groups: Sequence[Group], update: Mapping[str, float], spent: Mapping[str, int], timings: Mapping[str, float]
    ) -> None:
        """Writes the step to the folder, and gives it to the trackers, the view and the callback."""
        row = {**summarise(step, groups, {**update, **splits(self.players)}, spent), **self.measured, **self.labels}
        self.metrics.append(row)
        self.seconds[step] = sum(timings.values())
        self.last = dict(numbers(row))
        if self.folder is not None:
            with self.watchdog.waiting("the disk", f"to write step {step}"):
                self.folder.append_rollouts(step, groups)
                self.folder.append_timings(step, timings)
                self.folder.append_work(step, row_of(self))
                self.folder.append_metrics(step, row)
        elif self.stages is not None:
            self.stages.keep(groups)
        if self.sinks is not None:
            self.sinks.row(row)
        if self.view is not None:
            if self.budget is not None:
                self.view.total = self.budget.steps(step + 1, self.progress, self.recipe.setting.steps)
            self.view.step(row, timings)
            self._warn()
        if self.on_step is not None:
            self.on_step(self, row, groups)

    def _warn(self) -> None:
        """If the run has learned nothing so far, shows the reason, but only once."""
        if not self.warned and (fault := stuck([row for row in self.metrics if row.get("stage") == self.labels.get("stage")], self.recipe)) is not None:
            self.warned = True
            self.view.message(fault)

    def finish(self) -> None:
        """Saves the last weights as the final model, and the last evaluation as a row of the metrics with the number of the next step."""
        if self.measured:
            self.metrics.append({"step": self.step, **self.measured, **self.labels})
        if self.folder is not None:
            self.folder.point("final", self.save() / "model")
            if self.measured:
                self.folder.append_metrics(self.step, self.metrics[-1])
        if self.sinks is not None and self.measured:
            self.sinks.row(self.metrics[-1])

    def end_stage(self) -> None:
        """Writes the evaluation at the end of a stage as a separate row, with the step number of the next stage's first step.
        """
        row = {"step": self.step, **self.measured, **self.labels, "ended": 1.0}
        self.metrics.append(row)
        if self.folder is not None:
            self.folder.append_metrics(self.step, row)
        if self.sinks is not None:
            self.sinks.row(row)
        self.measured = {}

    def rollouts(self, steps: Collection[int] | None = None) -> pa.Table:
        """Returns the stored trajectories of `steps` (None: all steps) as an Arrow table, with one row per trajectory.

        Raises UserError if the run has no folder.
        """
        from gradus.lab.open_run import stored_trajectories

        if self.folder is None:
            raise UserError("this run has no folder, so it stores no rollouts; give a folder with run=")
        return stored_trajectories(self.folder, steps)

    @doing(SAVING)
    def save(self, *, planned: bool = False) -> Path:
        """Writes a checkpoint with the complete state and with the policy as a model folder that can be loaded. Returns its path.

        `planned`: whether this checkpoint is one of those that `save_every` plans; see `gradus.lab.checkpoints`.
        """
        import tempfile

        if self.folder is None or self.saved == self.step:
            return Path() if self.folder is None else steps(self.folder.path)[self.step]
        with self.stop.saving():
            with (
                self.watchdog.waiting("the disk", f"to save step {self.step}"),
                room(self.folder.path, f"the model of step {self.step}"),
                tempfile.TemporaryDirectory(dir=self.folder.path, prefix=PARTIAL) as model,
            ):
                self.players["policy"].policy.save(Path(model))
                documents, tensors = self.documents()
                keep = self.recipe.setting.keep
                path = self.folder.save(self.step, tensors, documents, {"model": Path(model)}, keep=keep, planned=planned)
            self.saved = self.step
        return path

    def documents(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Returns the state as the contents of JSON documents and safetensors files."""
        from gradus.training.state_format import split

        state = {
            "step": self.step,
            "best": self.best,
            "updates": {name: p.updates for name, p in self.players.items()},
            "memory": self.memory.states,
            "history": self.history,
            "watched": watched(self.numbers, self.players),
            "time": self.time,
            **({} if self.stages is None else {"stages": self.stages.state()}),
        }
        document, arrays = split(state)
        files = {f"player-{name}.safetensors": player.tensors() for name, player in self.players.items()}
        return {"state.json": document}, {**files, **({"state.safetensors": arrays} if arrays else {})}

    def restore(self, checkpoint: Any) -> None:
        """Restores the state from a checkpoint that `save` wrote."""
        from gradus.training.state_format import join

        document = checkpoint.document("state.json")
        arrays = checkpoint.tensors("state.safetensors") if checkpoint.has("state.safetensors") else {}
        state = join(document, arrays)
        if self.stages is not None and "stages" in state:
            self.stages.back_to(self, state["stages"])
        self.step, self.best, self.history = state["step"], state["best"], state["history"]
        self.memory = Memory({place: {**entry, "part": class_today(entry["part"])} for place, entry in state["memory"].items()})
        for name, player in self.players.items():
            player.load(checkpoint.tensors(f"player-{name}.safetensors"), state["updates"][name])
        self.numbers = watch(state.get("watched", {}), self.players, self.recipe.setting.agreement)
        self.time = state.get("time", {})
        self.turned, self.moved_back = None, {}
        self.saved = self.step


def sampling_of(recipe: Recipe, task: Task) -> Sampling:
    """Returns the sampling settings of a run.

    `max_tokens` and `temperature` of the recipe's setting replace the values of the task. If neither has a limit, `default_tokens` is the limit.
    """
    setting = recipe.setting
    most = setting.max_tokens if setting.max_tokens is not None else limit_of(task, setting.default_tokens)
    temperature = task.sampling.temperature if setting.temperature is None else setting.temperature
    return replace(task.sampling, max_tokens=most, temperature=temperature)


def limit_of(task: Task, default: int) -> int:
    """Returns the task's own limit on new tokens.

    A mixture without its own limit has the largest limit of its tasks. If there is no limit, returns `default`.
    """
    if task.sampling.max_tokens is not None:
        return task.sampling.max_tokens
    parts = [part for part in getattr(task.source, "parts", {}).values() if isinstance(part, Task)]
    return max((limit_of(part, default) for part in parts), default=default)
