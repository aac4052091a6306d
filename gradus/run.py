"""A run: recipe, task, players and memory brought together, trained by the loop, kept on disk."""

from __future__ import annotations

import asyncio
import copy
import gc
import re
import sys
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gradus.fit import check_fit
from gradus.lab.checkpoints import steps
from gradus.lab.durable import PARTIAL, room
from gradus.lab.folder import RunFolder
from gradus.loop import train as loop
from gradus.recipe import Recipe, changes
from gradus.recovery import SOUND, beyond_bearing, go_back, obey, sound, splits, watch, watched
from gradus.rewards.combine import check_reward
from gradus.state import Memory
from gradus.stopping import Cut, Stop, unheard
from gradus.study.summary import summarise
from gradus.systems.watchdog import Watchdog
from gradus.types import Frozen, Group, Key, Request, Sampling, UserError
from gradus.types.guards import bytes_of
from gradus.types.parts import Task
from gradus.world import RunWorld

if TYPE_CHECKING:
    import pyarrow as pa

OnStep = Callable[["Run", Mapping[str, Any], Sequence[Group]], None]


@dataclass(eq=False)
class Run:
    """Everything that a run is. Its state at a step boundary: players, memory, the best evaluation so far, the step, what lagged players wait for."""

    recipe: Recipe
    task: Task
    players: dict[str, Any]
    seed: int = 0
    folder: RunFolder | None = None
    on_step: OnStep | None = None
    view: Any = None  # a live table, or None
    sinks: Any = None  # other places that get every row of the metrics, or None
    memory: Memory = field(default_factory=Memory)
    step: int = 0
    metrics: list[dict[str, Any]] = field(default_factory=list)
    best: dict[str, Any] = field(default_factory=dict)  # {"step", "accuracy", "since"}
    history: dict[str, list[Any]] = field(default_factory=dict)  # weights that lagged players wait for
    saved: int | None = None  # step of the newest checkpoint
    measured: dict[str, Any] = field(default_factory=dict)  # the evaluation of the coming step
    moved: dict[str, int] = field(default_factory=dict)
    stop: Stop = field(default_factory=Stop)  # what may end the run before its last step
    begun: tuple[dict[str, Any], dict[str, Any], dict[str, Any]] | None = None  # memory, best, numbers at the boundary, before its evaluation
    numbers: dict[str, Any] = field(default_factory=lambda: dict(SOUND))  # what has gone bad
    anew: Callable[[], dict[str, Any]] | None = None  # makes the players as they were at the start
    watchdog: Watchdog = field(default_factory=Watchdog)  # names what is waited for, while the run trains

    @property
    def key(self) -> Key:
        """The seed's, or another one after a return to a checkpoint: the run then draws other data."""
        restarts = self.numbers["restarts"]
        return Key(self.seed).fold("restart", restarts) if restarts else Key(self.seed)

    async def boundaries(self) -> AsyncIterator[int]:
        """The steps still to do. At each boundary the run saves, then evaluates; it ends at the last step, where the study says so, or is stopped."""
        setting = self.recipe.setting
        while True:
            if beyond_bearing(self):
                go_back(self)
            last = self.step >= setting.steps
            due = setting.save_every and self.step % setting.save_every == 0 and self.step > 0 and sound(self)
            self.mark()
            stopped = self.stop.boundary(last=last)
            if last or due or stopped:
                self.save(planned=bool(due))
            if stopped:
                return
            obey(self)
            self.measured = {}
            if self.recipe.study is not None and (last or self.step == 0 or (setting.eval_every and self.step % setting.eval_every == 0)):
                last = await self.evaluate() or last
            if last:
                self.finish()
                return
            yield self.step
            self.stop.release()
            self.step += 1

    def mark(self) -> None:
        """Keeps what parts remember as it is at this boundary, for a step that is cut short."""
        self.begun = copy.deepcopy((self.memory.states, self.best, watched(self)))

    def must_finish(self) -> None:
        """From here on the step changes weights: a stop waits for its end."""
        self.stop.hold()

    def rescue(self) -> None:
        """Saves the state in which the step began that was cut short; nothing has moved since but what parts remember."""
        if self.stop.cut:
            if self.begun is not None:
                self.memory, self.best = Memory(self.begun[0]), self.begun[1]
                watch(self, self.begun[2])
            try:
                self.save()
            except Exception as error:  # an event loop that closes would only print it
                self.stop.fault = error

    def at(self, step: int) -> tuple[Recipe, RunWorld]:
        """The recipe as the schedule has it at this step, and the step's world."""
        self.moved = {name: player.updates for name, player in self.players.items()}
        recipe = scheduled(self.recipe, step)
        world = self.world(recipe, "train")
        for player in self.players.values():
            player.record = world
        return recipe, world

    def world(self, recipe: Recipe, purpose: str, reward: Any = None) -> RunWorld:
        return RunWorld(
            step=self.step,
            purpose=purpose,
            seed=self.key if purpose == "train" else Key(self.seed),  # evaluations ask the same, whatever has gone bad
            task=self.task,
            players=self.players,
            reward=reward or recipe.reward,
            sampling=sampling_of(recipe, self.task),
            group=recipe.setting.group,
            progress=self.step / max(recipe.setting.steps, 1),
            choose=partial(self._choose, recipe) if purpose == "train" else None,
            watchdog=self.watchdog,
            **(self.folder.of_step(self.step, self.numbers["restarts"]) if self.folder is not None else {}),
        )

    async def _choose(self, recipe: Recipe, count: int, world: RunWorld) -> list[Request]:
        return await self.memory.call("curriculum", recipe.curriculum, "choose", self.task.source, count, world)

    async def evaluate(self) -> bool:
        """Measures on held-out problems, tokens included, keeps the best weights; whether the run should stop here."""
        recipe, study = self.recipe, self.recipe.study
        started = time.perf_counter()
        world = self.world(recipe, "evaluate", study.reward)
        measured = await study.measure(self, recipe, world)
        self.stop.heed()
        self.measured = {**measured, **{f"tokens/{purpose}": count for purpose, count in world.spent.items()}}
        score = measured.get("held_out/accuracy")
        score = measured.get("held_out/reward") if score is None or self.task.policy != "lm" else score
        if score is not None and not self.numbers["streak"] and (not self.best or score > self.best["score"]):
            if self.folder is not None and self.step > 0:
                self.folder.point("best", self.save() / "model")  # before `best` changes: whoever resumes from it measures again
            self.best = {"step": self.step, "score": score, "since": 0}
        elif self.best:
            self.best["since"] += 1
        if self.view is not None:
            self.view.evaluated(self.step, measured, time.perf_counter() - started)
        enough = study.target is not None and score is not None and score >= study.target
        return enough or bool(study.patience and self.best.get("since", 0) >= study.patience)

    def follow(self) -> None:
        """Players that follow others catch up."""
        from gradus.policies.build import follow

        follow(self.players, self.moved, self.history)

    def record(
        self, step: int, groups: Sequence[Group], update: Mapping[str, float], spent: Mapping[str, int], timings: Mapping[str, float]
    ) -> None:
        """Writes the step down and tells whoever watches."""
        row = {**summarise(step, groups, {**update, **splits(self)}, spent), **self.measured}
        self.metrics.append(row)
        if self.folder is not None:
            with self.watchdog.waiting("the disk", f"to write step {step}"):
                self.folder.append_rollouts(step, groups)
                self.folder.append_timings(step, timings)
                self.folder.append_metrics(step, row)
        if self.sinks is not None:
            self.sinks.row(row)
        if self.view is not None:
            self.view.step(row, timings)
        if self.on_step is not None:
            self.on_step(self, row, groups)

    def finish(self) -> None:
        """The last weights are the final model; the last evaluation is a row of the step that would come next."""
        if self.measured:
            self.metrics.append({"step": self.step, **self.measured})
        if self.folder is not None:
            self.folder.point("final", self.save() / "model")
            if self.measured:
                self.folder.append_metrics(self.step, self.metrics[-1])
        if self.sinks is not None and self.measured:
            self.sinks.row(self.metrics[-1])

    def rollouts(self, steps: Collection[int] | None = None) -> pa.Table:
        """The stored trajectories of the steps wanted (None: all) as an Arrow table, one row each. Raises UserError for a run without folder."""
        from gradus.lab.opened import stored_trajectories

        if self.folder is None:
            raise UserError("this run keeps no rollouts, for it has no folder; give it one with run=")
        return stored_trajectories(self.folder, steps)

    def save(self, *, planned: bool = False) -> Path:
        """A checkpoint of everything at this boundary, with the policy as a model folder that loads as it is; its path.

        `planned`: whether `save_every` asks for it; see `gradus.lab.checkpoints`.
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
        """The state as JSON documents and safetensors files."""
        from gradus.stored_state import split

        state = {
            "step": self.step,
            "best": self.best,
            "updates": {name: p.updates for name, p in self.players.items()},
            "memory": self.memory.states,
            "history": self.history,
            "watched": watched(self),
        }
        document, arrays = split(state)
        files = {f"player-{name}.safetensors": player.tensors() for name, player in self.players.items()}
        return {"state.json": document}, {**files, **({"state.safetensors": arrays} if arrays else {})}

    def restore(self, checkpoint: Any) -> None:
        """The inverse of `save`."""
        from gradus.stored_state import join

        document = checkpoint.document("state.json")
        arrays = checkpoint.tensors("state.safetensors") if (checkpoint.path / "state.safetensors").exists() else {}
        state = join(document, arrays)
        self.step, self.best, self.history = state["step"], state["best"], state["history"]
        self.memory = Memory(state["memory"])
        for name, player in self.players.items():
            player.load(checkpoint.tensors(f"player-{name}.safetensors"), state["updates"][name])
        watch(self, state.get("watched", {}))
        self.saved = self.step


READ_EVERY_STEP = re.compile(
    r"(curriculum|rollout|reward|selection|update)(\..*)?|setting\.(prompts|group|max_tokens|temperature|max_failed)"
)
"""The fields of a recipe that a schedule may change; the others are built into players and plans when a run starts."""


def scheduled(recipe: Recipe, step: int) -> Recipe:
    """The recipe as its schedule has it at a step. Raises UserError where the schedule changes what would not be looked at again."""
    found: Recipe = recipe.schedule.at(step, recipe)
    for path in () if found is recipe else changes(recipe, found):
        if not READ_EVERY_STEP.fullmatch(path):
            raise UserError(
                f"the schedule changes {path} at step {step}, which is read only when the run starts; it can change curriculum, rollout, "
                "reward, selection, update, and of the setting prompts, group, max_tokens, temperature and max_failed"
            )
    return found


def sampling_of(recipe: Recipe, task: Task) -> Sampling:
    """The task's sampling with what the setting overrides."""
    setting = recipe.setting
    given: dict[str, Any] = {"max_tokens": setting.max_tokens, "temperature": setting.temperature}
    return replace(task.sampling, **{k: v for k, v in given.items() if v is not None})


def prepare(
    recipe: Recipe,
    task: Task,
    model: str | Path | None = None,
    *,
    seed: int = 0,
    folder: RunFolder | None = None,
    on_step: OnStep | None = None,
    view: Any = None,
    device: str = "cpu",
) -> Run:
    """A run ready to train: parts checked against task and model, players built. Raises UserError with what to add where they do not fit."""
    from gradus.policies.build import build_players

    if recipe.environment is not None:
        task = replace(task, environment=recipe.environment)
    check_fit(recipe, task)
    recipe = judgeable(recipe, task, view.message if view is not None else None)
    players = build_players(recipe, model, task, Key(seed), device)
    check_fit(recipe, task, players)
    anew = partial(build_players, without_engines(recipe), model, task, Key(seed), device)
    return Run(recipe, task, players, seed=seed, folder=folder, on_step=on_step, view=view, anew=anew)


def without_engines(recipe: Recipe) -> Recipe:
    """The recipe, every player sampled from by itself."""
    return replace(recipe, players=Frozen({name: replace(player, engine=None) for name, player in recipe.players.items()}))


def judgeable(recipe: Recipe, task: Task, say: Callable[[str], None] | None = None) -> Recipe:
    """The recipe, its rewards asked whether they can judge the task. Raises the first one's UserError.

    Where they cannot, but all that is trained on brings its reward with it, it is trained without the evaluations that would ask them.
    """
    check_reward(getattr(recipe.study, "reward", None), task)
    try:
        check_reward(recipe.reward, task)
    except UserError:
        if getattr(recipe.rollout, "judges", lambda _: True)(task):
            raise
        study = recipe.study
        if study is not None and getattr(study, "reward", None) is None and getattr(study, "judges", lambda _: True)(task):
            if say is not None:
                say(f"task {task.name} has no answers, so nothing is evaluated while training; --study.reward FILE.py:FUNCTION would")
            return replace(recipe, study=None)
    return recipe


def go(run: Run) -> Run:
    """Trains the run to its end, its folder held against other processes."""
    with run.folder.claimed() if run.folder is not None else nullcontext():
        return proceed(run)


def proceed(run: Run) -> Run:
    """Trains the run to its end, or to where it is stopped; whoever calls holds its folder.

    A run with a folder hears signals: it saves, then raises KeyboardInterrupt for SIGINT, SystemExit with 143 for SIGTERM and 129 for SIGHUP.
    Where its time is up it saves and is returned; `run.stop.asked` is then "time".
    """
    import torch

    from gradus.systems.memory import limited

    devices = dict.fromkeys(p.device for player in run.players.values() for p in player.policy.network.parameters())
    torch.use_deterministic_algorithms(all(device.type == "cpu" for device in devices))
    # To fill all that is made with NaN, before it is written, is one more pass over memory, for reads that nothing here makes.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    if run.view is not None:
        run.view.start(run.recipe.setting.steps, run.step)
    try:
        memory = run.recipe.setting.memory
        bound = limited(None if memory is None else bytes_of(memory), next(iter(devices), "cpu"))
        say = run.view.message if run.view is not None else partial(print, file=sys.stderr)
        watched = run.watchdog.watching(say, run.recipe.setting.max_wait)
        with watched, bound, _unsearched(), suppress(Cut), run.stop.listening() if run.folder is not None else nullcontext():
            asyncio.run(_train(run))
    finally:
        if run.view is not None:
            run.view.stop()
        if run.sinks is not None:
            run.sinks.close()
    run.rescue()  # once more, for a stop that came before the loop had begun
    if run.stop.fault is not None:
        raise run.stop.fault
    if run.stop.asked == "SIGINT":
        raise KeyboardInterrupt
    if run.stop.asked not in (None, "time"):
        raise SystemExit(run.stop.code)
    return run


@contextmanager
def _unsearched() -> Iterator[None]:
    """What is there already is left out of the search for garbage, which would stop a step for a tenth of a second now and then."""
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


async def _train(run: Run) -> None:
    asyncio.get_running_loop().set_exception_handler(unheard)
    try:
        await loop(run)
    except (Cut, asyncio.CancelledError):
        run.rescue()  # before anything else is waited for: whoever stops a run may not wait long
        raise
    finally:
        for reward in (run.recipe.reward, getattr(run.recipe.study, "reward", None)):
            closing = getattr(reward, "close", None)
            if closing is not None:
                await closing()
