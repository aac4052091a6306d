"""A run: recipe, task, players and memory brought together, trained by the loop, kept on disk."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import nullcontext
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
from gradus.rewards.combine import check_reward
from gradus.state import Memory
from gradus.study.summary import summarise
from gradus.types import Group, Key, Request, Sampling, UserError
from gradus.types.parts import Task
from gradus.world import RunWorld

if TYPE_CHECKING:
    import pyarrow as pa

OnStep = Callable[["Run", Mapping[str, Any], Sequence[Group]], None]


@dataclass(eq=False)
class Run:
    """Everything that a run is. Its state at a step boundary: players, memory, the best evaluation so far, the step."""

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

    @property
    def key(self) -> Key:
        return Key(self.seed)

    async def boundaries(self) -> AsyncIterator[int]:
        """The steps still to do. At each boundary the run saves, then evaluates; it ends at the last step or where the study says so."""
        setting = self.recipe.setting
        while True:
            last = self.step >= setting.steps
            due = setting.save_every and self.step % setting.save_every == 0 and self.step > 0
            if last or due:
                self.save()
            self.measured = {}
            if self.recipe.study is not None and (last or self.step == 0 or (setting.eval_every and self.step % setting.eval_every == 0)):
                last = await self.evaluate() or last
            if last:
                self.finish()
                return
            yield self.step
            self.step += 1

    def at(self, step: int) -> tuple[Recipe, RunWorld]:
        """The recipe as the schedule has it at this step, and the step's world."""
        self.moved = {name: player.updates for name, player in self.players.items()}
        recipe = scheduled(self.recipe, step)
        return recipe, self.world(recipe, "train")

    def world(self, recipe: Recipe, purpose: str, reward: Any = None) -> RunWorld:
        return RunWorld(
            step=self.step,
            purpose=purpose,
            seed=self.key,
            task=self.task,
            players=self.players,
            reward=reward or recipe.reward,
            sampling=sampling_of(recipe, self.task),
            group=recipe.setting.group,
            progress=self.step / max(recipe.setting.steps, 1),
            choose=partial(self._choose, recipe) if purpose == "train" else None,
            facts=self.folder.facts(self.step) if self.folder is not None else None,
            decided=partial(self.folder.append_fact, self.step) if self.folder is not None else None,
        )

    async def _choose(self, recipe: Recipe, count: int, world: RunWorld) -> list[Request]:
        return await self.memory.call("curriculum", recipe.curriculum, "choose", self.task.source, count, world)

    async def evaluate(self) -> bool:
        """Measures on held-out problems, tokens included, keeps the best weights; whether the run should stop here."""
        recipe, study = self.recipe, self.recipe.study
        started = time.perf_counter()
        world = self.world(recipe, "evaluate", study.reward)
        measured = await study.measure(self, recipe, world)
        self.measured = {**measured, **{f"tokens/{purpose}": count for purpose, count in world.spent.items()}}
        score = measured.get("held_out/accuracy")
        score = measured.get("held_out/reward") if score is None or self.task.policy != "lm" else score
        if score is not None and (not self.best or score > self.best["score"]):
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
        row = {**summarise(step, groups, update, spent), **self.measured}
        self.metrics.append(row)
        if self.folder is not None:
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

    def save(self) -> Path:
        """A checkpoint of everything at this boundary, with the policy as a model folder that loads as it is; its path."""
        import tempfile

        if self.folder is None or self.saved == self.step:
            return Path() if self.folder is None else steps(self.folder.path)[self.step]
        with (
            room(self.folder.path, f"the model of step {self.step}"),
            tempfile.TemporaryDirectory(dir=self.folder.path, prefix=PARTIAL) as model,
        ):
            self.players["policy"].policy.save(Path(model))
            documents, tensors = self.documents()
            path = self.folder.save(self.step, tensors, documents, {"model": Path(model)}, keep=self.recipe.setting.keep)
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
    return Run(recipe, task, players, seed=seed, folder=folder, on_step=on_step, view=view)


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
    """Trains the run to its end; whoever calls holds its folder."""
    import torch

    on_cpu = all(p.device.type == "cpu" for player in run.players.values() for p in player.policy.network.parameters())
    torch.use_deterministic_algorithms(on_cpu)
    if run.view is not None:
        run.view.start(run.recipe.setting.steps, run.step)
    try:
        asyncio.run(_train(run))
    finally:
        if run.view is not None:
            run.view.stop()
        if run.sinks is not None:
            run.sinks.close()
    return run


async def _train(run: Run) -> None:
    try:
        await loop(run)
    finally:
        for reward in (run.recipe.reward, getattr(run.recipe.study, "reward", None)):
            closing = getattr(reward, "close", None)
            if closing is not None:
                await closing()
