"""The `World` of a run: the operations that a rollout, an environment, a reward or a search can call. `RunWorld` batches requests and counts tokens."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import AbstractContextManager, nullcontext
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

from gradus.runtime.activity import JUDGING, SAMPLING, SCORING, carried, counted, doing, during
from gradus.training.drawing import drawn
from gradus.training.judged import first_choice, joined, judged
from gradus.training.kept_rows import KeptRows
from gradus.training.memory import Memory
from gradus.training.readings import Readings, gradients, output_head
from gradus.types import Context, Failed, Group, Key, Problem, Request, Sampling, Trajectory, UserError, unknown
from gradus.types.parts import Signals, Task
from gradus.types.reads import check_reads
from gradus.types.signals import Signal, Want
from gradus.types.spaces import Action, Observation

if TYPE_CHECKING:
    from gradus.training.watchdog import Watchdog


T = TypeVar("T")

OLDER = {
    "tokens": "world.opening(prompt, player), whose `sequence` holds the tokens",
    "completion_tokens": "world.told(text, player), whose `tokens` are the tokens of the answer",
}
"""Operation of an older version -> the present operation."""


@dataclass(frozen=True, eq=False)
class Ask:
    """A sample that continues the first `at` tokens of `parent`. `key` determines the draws of the sample. `version`: number of weight updates so far."""

    parent: Context
    at: int
    sampling: Sampling
    key: Key
    version: int
    request: Request


_Asked = Sequence[tuple[Ask, asyncio.Future[Context]]]


class RunWorld:
    """The `World` of one step. Requests that wait at the same time are sampled in one batch. The draws of a request do not depend on other requests."""

    def __init__(
        self,
        *,
        step: int,
        purpose: str,
        seed: Key,
        task: Task,
        players: Mapping[str, Any],
        reward: Any,
        sampling: Sampling,
        group: int,
        progress: float = 0.0,
        steps: int = 0,
        choose: Callable[[int, RunWorld], Awaitable[list[Request]]] | None = None,
        facts: Mapping[str, str] | None = None,
        decided: Callable[[str, str], None] | None = None,
        failed: Callable[[str, Sequence[Trajectory]], None] | None = None,
        quarantine: str = "",
        watchdog: Watchdog | None = None,
        memory: Memory | None = None,
        reward_place: str = "reward",
        thread: Executor | None = None,
        label: str = "",
        kept: KeptRows | None = None,
    ) -> None:
        self.step, self.purpose, self.seed, self.task, self.players, self.reward = step, purpose, seed, task, players, reward
        self.sampling, self.group, self.progress, self.steps, self._choose = sampling, group, progress, steps, choose
        self.key = seed.fold(purpose, step)
        self.spent: dict[str, int] = {}  # tokens by purpose; for players other than the policy also by "purpose/player"
        self._noted: dict[str, list[float]] = {}
        self._calls: dict[str, int] = {}
        self._facts, self._decided = {call: reason for call, reason in (facts or {}).items() if reason}, decided
        self._failed, self._quarantine, self._watchdog = failed, quarantine, watchdog
        self._memory, self._reward_place = memory if memory is not None else Memory(), reward_place
        self._asked: dict[tuple[Any, ...], int] = {}  # number of times that the curriculum gave each problem in this step
        self._waiting: list[tuple[Ask, asyncio.Future[Context]]] = []
        self._beside: list[Group] = []  # groups from `also`
        self._shared: dict[Hashable, asyncio.Future[Any]] = {}  # results of `once`
        self._readings = Readings(players, self.score, self.key, kept)
        self._thread = thread  # samples are drawn in this thread; None: in the thread of the event loop
        self._drawing: set[asyncio.Task[None]] = set()
        self._label = label  # part of the names of calls, for several worlds of one step

    async def once(self, name: Hashable, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Returns the result of `make`. `make` runs only at the first call with this name in the step. Later calls with the name return the same result."""
        if name not in self._shared:
            self._shared[name] = asyncio.ensure_future(make())
        return cast("T", await asyncio.shield(self._shared[name]))  # a cancelled episode does not cancel the result for other episodes

    def note(self, name: str, value: float) -> None:
        """Adds a number to the step's metrics."""
        self._noted.setdefault(name, []).append(float(value))

    def take(self, other: RunWorld) -> None:
        """Adds the counted tokens and the noted numbers of another `RunWorld`, which this step's rollout used."""
        for name, tokens in other.spent.items():
            self.spent[name] = self.spent.get(name, 0) + tokens
        for name, values in other._noted.items():
            self._noted.setdefault(name, []).extend(values)

    @property
    def notes(self) -> dict[str, float]:
        """Returns, for each name, the mean of the numbers that `note` got."""
        return {name: float(np.mean(values)) for name, values in self._noted.items()}

    def noted(self, name: str) -> list[float]:
        """Returns the numbers that `note` got for a name."""
        return self._noted.get(name, [])

    def call(self, name: str) -> str:
        """Returns a unique name for the next call of `name` in this step. If the step is repeated, its calls get the same names."""
        self._calls[name] = self._calls.get(name, 0) + 1
        return f"{self.purpose}/{self._label}{name}/{self._calls[name]}"

    def fact(self, call: str) -> str | None:
        """Returns the decision that an earlier attempt of the step recorded for this call; None if there is no decision."""
        return self._facts.get(call)

    def decide(self, call: str, reason: str) -> None:
        """Records a decision that depends on the clock or the machine, so that a repeated step has the same result."""
        self._facts[call] = reason
        if self._decided is not None:
            self._decided(call, reason)

    def waiting(
        self, what: str, about: str | Callable[[], str] = "", abandon: Callable[[float], None] | None = None
    ) -> AbstractContextManager[None]:
        """Returns a context manager around a wait for `what`, because of `about`. If the wait is long, the watchdog reports these names.

        If the run ends because of this wait, `abandon` is called with the seconds of the wait so far.
        """
        return nullcontext() if self._watchdog is None else self._watchdog.waiting(what, about, abandon)

    def refused(self) -> str:
        """Returns the last part of the error message about too many failed rewards. The returned text names the file of failed answers.

        The run must call this method if it ends because too many rewards failed. The method also deletes the stored failures that depend on the clock or the
        machine.
        Otherwise a resumed run would repeat these failures, although the user has removed their cause.
        """
        for call, reason in list(self._facts.items()):
            if Failed.read(reason).kind.chance:
                self.decide(call, "")
        return f"; each failure is in {self._quarantine}" if self._quarantine else ""

    def again(self, index: int) -> RunWorld:
        """Returns the `RunWorld` of a later round of the step.

        A later round has its own random draws, and reads signals with the current weights. For round 0, the result is this object.
        """
        if index == 0:
            return self
        other = copy(self)
        other.key = self.key.fold("round", index)
        other._shared = {}
        other._readings = Readings(other.players, other.score, other.key, self._readings.kept)
        return other

    async def more(self, count: int) -> list[Request]:
        """Returns the curriculum's next `count` requests, or fewer. In evaluation there is no curriculum, so the result is empty.

        If a problem occurs again within the step, its request gets the tags "again" and a number, so that ids and draws differ.
        """
        return [] if self._choose is None else [self._told_apart(r) for r in await self._choose(count, self)]

    def _told_apart(self, request: Request) -> Request:
        name = (request.player, request.problem.id, request.tags, request.sample)
        before = self._asked.get(name, 0)
        self._asked[name] = before + 1
        return replace(request, tags=(*request.tags, "again", before)) if before else request

    async def sample(self, requests: Sequence[Request]) -> list[list[Context]]:
        """Samples `count` contexts per request, in order."""
        loop = asyncio.get_running_loop()
        futures: list[asyncio.Future[Context]] = []
        for request in requests:
            if request.player not in self.players:
                raise unknown("player", request.player, self.players, "A part of the recipe requests a sample of this player; add the player to players")
            parent = self.prompt(request)
            at = len(parent.sequence) if request.at is None else request.at
            if at < (first := first_choice(parent)):
                raise UserError(
                    f"a request for problem {request.problem.id} has at={at}, but the prompt alone has {first} tokens; count from the start of the prompt "
                    "(context.parent[1] + k keeps k tokens of a sampled answer)"
                )
            version = self.players[request.player].updates
            for i in range(request.sample, request.sample + request.count):
                key = self.key.fold("sample", request.player, request.problem.id, *request.tags, i)
                future: asyncio.Future[Context] = loop.create_future()
                if not self._waiting:
                    loop.call_soon(self._flush)
                self._waiting.append((Ask(parent, at, request.sampling or self.sampling, key, version, request), future))
                futures.append(future)
        done = iter(await asyncio.gather(*futures))  # awaits all together, because otherwise Python reports an error at exit that no code awaited
        return [[next(done) for _ in range(request.count)] for request in requests]

    def prompt(self, request: Request) -> Context:
        """Returns the context to continue: the request's context, or its prompt in the player's template.

        Raises UserError if this context is too long or empty.
        """
        if isinstance(request.prompt, Context):
            return request.prompt
        policy = self.players[request.player].policy
        problem = request.problem
        prompt = request.prompt if request.prompt is not None else (problem.text if problem.text is not None else problem.messages)
        if request.prompt is None and self.task.system and problem.text is None:
            prompt = ({"role": "system", "content": self.task.system}, *problem.messages)
        check_reads(policy, prompt, f"problem {problem.id}")
        opened = policy.opening(prompt)
        count = len(opened.sequence)
        if count == 0 and "text" in policy.reads:
            raise UserError(f"the prompt of problem {problem.id} has no token with this tokenizer; write a longer prompt, or leave the problem out")
        if count >= policy.context_length:
            raise UserError(
                f"the prompt of problem {problem.id} has {count} tokens and leaves no room for the answer in the model's context of "
                f"{policy.context_length} tokens; shorten the prompt, or use a model with a longer context"
            )
        return opened

    def _flush(self) -> None:
        waiting, self._waiting = self._waiting, []
        for player in dict.fromkeys(ask.request.player for ask, _ in waiting):
            mine = [(ask, future) for ask, future in waiting if ask.request.player == player]
            act = partial(self._acted, player, [ask for ask, _ in mine])
            if self._thread is None:
                self._give(player, mine, act)
            else:
                task = asyncio.ensure_future(self._give_later(player, mine, act, self._thread))
                self._drawing.add(task)  # keeps a reference to the task, because the event loop does not keep one
                task.add_done_callback(self._drawing.discard)

    async def _give_later(self, player: str, asked: _Asked, act: Callable[[], list[Context]], thread: Executor) -> None:
        """Draws the samples in the thread, and gives each sample to the code that waits for it."""
        done = await asyncio.wait([asyncio.get_running_loop().run_in_executor(thread, carried(act))])
        self._give(player, asked, next(iter(done[0])).result)

    def _give(self, player: str, asked: _Asked, act: Callable[[], list[Context]]) -> None:
        """Gives each sample of `act`, or the error of `act`, to the code that waits for the sample."""
        try:
            answered = list(zip(asked, act(), strict=True))
        except Exception as error:
            for _, future in asked:
                if not future.done():
                    future.set_exception(error)
            return
        for (ask, future), context in answered:
            self.count("rollout" if ask.request.trained else "probe", player, context.actions)
            if not future.done():
                future.set_result(context)

    @doing(SAMPLING)
    def _acted(self, player: str, asks: Sequence[Ask]) -> list[Context]:
        """Draws one sample per ask. If memory runs out, draws fewer samples in parallel. The number of parallel samples becomes a fact of the step."""
        from gradus.runtime.memory import in_parts

        learner, call = self.players[player], self.call(f"act/{player}")
        known = self.fact(call)
        most = learner.most_asks if known is None else int(known)
        contexts, learner.most_asks = in_parts(asks, partial(drawn, self.players, player), most, "sample")
        if learner.most_asks not in (most, None):
            self.decide(call, str(learner.most_asks))
        return contexts

    def count(self, purpose: str, player: str, tokens: int) -> None:
        """Counts tokens by their purpose. Outside training, all tokens have the purpose of this object, such as "evaluate"."""
        counted(purpose, tokens)
        name = purpose if self.purpose == "train" else self.purpose
        for key in (name,) if player == "policy" else (name, f"{name}/{player}"):
            self.spent[key] = self.spent.get(key, 0) + tokens

    async def fork(
        self,
        context: Context,
        at: int,
        count: int,
        *,
        problem: Problem,
        tags: tuple[str | int, ...],
        sampling: Sampling | None = None,
        player: str = "policy",
        trained: bool = True,
    ) -> list[Context]:
        """Samples `count` continuations of the first `at` tokens of the context's sequence. Forks at the same token with equal tags have equal draws."""
        request = Request(problem, count, player, context, at, sampling, ("fork", at, *tags), trained=trained)
        return (await self.sample([request]))[0]

    @during(SCORING)
    async def score(self, contexts: Sequence[Context], want: Want, player: str = "policy", *, purpose: str = "score") -> list[np.ndarray]:
        """Reads the rows of the `Want` for every action of each context, without gradient, as float32 or float64. The tokens are counted under `purpose`."""
        import torch

        from gradus.runtime.memory import fitting
        from gradus.updates.forward_backward import passes

        policy = self.players[player].policy

        def scored(tokens: int) -> list[np.ndarray]:
            rows: list[np.ndarray] = [np.zeros(0, np.float32)] * len(contexts)
            for chosen, found in passes(policy, contexts, (want,), tokens, self.key):
                values = (found[want] if found[want].dtype == torch.float64 else found[want].float()).cpu().numpy()
                for i, piece in zip(chosen, np.split(values, np.cumsum([contexts[i].actions for i in chosen])[:-1]), strict=True):
                    rows[i] = piece
            return rows

        rows = fitting(self.players[player], contexts, scored, self)
        self.count(purpose, player, sum(len(c.sequence) for c in contexts))
        return rows

    async def signals(self, groups: Sequence[Group], needs: Sequence[Signal]) -> Signals:
        """Reads every signal for every trajectory; see `training.readings`."""
        return await self._readings.signals(groups, needs)

    @during(SCORING)
    async def gradients(self, contexts: Sequence[Context], project: int | None = None, player: str = "policy") -> np.ndarray:
        """Returns the norm of each context's gradient, or the gradient's projection if `project` is given; see `training.readings`."""
        self.count("gradients", player, sum(len(c.sequence) for c in contexts if c.actions))
        return gradients(self.players[player], contexts, project, self.seed.fold("gradients"))

    @during(JUDGING)
    async def judge(self, groups: Sequence[Group]) -> list[Group]:
        """Returns the groups with rewards, components, and rewards of single actions, which the recipe's reward computes."""
        signals = await self.signals(groups, getattr(self.reward, "needs", ()))
        judge = self._memory.call if self.purpose == "train" else self._memory.peek
        judgements = await judge(self._reward_place, self.reward, "score", groups, signals, self)
        done = [tuple(judged(t, j) for t, j in zip(g.trajectories, row, strict=True)) for g, row in zip(groups, judgements, strict=True)]
        failed = [t for row in done for t in row if t.failed is not None]
        if failed and self._failed is not None:
            self._failed(self.purpose, failed)
        return [g.but(trajectories=row, pool=(*g.pool, *(t.reward for t in row))) for g, row in zip(groups, done, strict=True)]

    def also(self, groups: Sequence[Group]) -> None:
        """Adds auxiliary groups that an environment, a reward or a rollout made (for example for a sub-agent or a probe).

        Auxiliary groups are judged, credited and stored with the step's groups. The mark `aside` excludes these groups from the step's reward, accuracy and
        evaluation. No update uses trajectories that are not `trained`. An evaluation drops auxiliary groups. Groups with the same key are joined.
        """
        if self.purpose == "train":
            self._beside += groups

    async def aside(self) -> list[Group]:
        """Judges and returns the groups that `also` got since the last call, sorted by key. Trajectories of joined groups are sorted by id.

        Raises UserError if a trajectory occurs twice.
        """
        made, self._beside = joined(self._beside), []
        unjudged = [g for g in made if any(t.reward is None for t in g.trajectories)]
        judged = {g.key: g for g in await self.judge(unjudged)} if unjudged else {}
        return [judged.get(g.key, g).but(aside=True) for g in made]

    def output_head(self, player: str = "policy") -> np.ndarray:
        return output_head(self.players[player])

    def opening(self, prompt: Observation, player: str = "policy") -> Context:
        check_reads(self.players[player].policy, prompt, "the environment")
        return self.players[player].policy.opening(prompt)

    def follow(self, observation: Observation, after: Context, player: str = "policy") -> Context:
        if not isinstance(after, Context):
            raise UserError(
                f"world.follow got {after!r:.40}, which is not a context; write world.follow(observation, after, player), and continue with after.then(piece)"
            )
        check_reads(self.players[player].policy, observation, "the environment")
        return self.players[player].policy.follow(observation, after)

    def told(self, action: Action, player: str = "policy") -> Context:
        return self.players[player].policy.told(action)

    def said(self, context: Context, since: int, player: str = "policy") -> Action:
        return self.players[player].policy.said(context, since)

    def text(self, tokens: np.ndarray, player: str = "policy") -> str:
        return self.players[player].policy.text(tokens)

    def __getattr__(self, name: str) -> Any:
        """Raises UserError if an older version had an operation with this name. Else raises AttributeError."""
        if name in OLDER:
            raise UserError(f"world.{name} is not part of this version; write {OLDER[name]}")
        raise AttributeError(f"{type(self).__name__} has no attribute {name}")

    def context_length(self, player: str = "policy") -> int:
        return self.players[player].policy.context_length
