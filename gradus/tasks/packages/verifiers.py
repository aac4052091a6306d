"""Environments of the package verifiers, named `verifiers:NAME`: the taskset gives the problems, and the environment's rewards judge the answers. A
plain taskset is a task of one turn. A module that also exports an environment is played over many turns (`verifiers_turns`).
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from gradus.tasks.data.rows import hold_out
from gradus.tasks.generated import digest
from gradus.tasks.packages import imported
from gradus.tasks.packages.options import pairs_of, values
from gradus.tasks.packages.verifiers_traces import messages_of, trace_of
from gradus.tasks.packages.verifiers_turns import Exchange
from gradus.types import Ended, Failed, FailureKind, Frozen, Key, Outcome, Problem, Sampling, Trajectory, UserError
from gradus.types.parts import Task, World

LIMIT = 60.0  # seconds that the rewards of one answer may take


def task(name: str, config: str = "", env: str = "", tasks: int = 1000, max_tokens: int = 512) -> Task:
    """Makes the task of the installed environment `name`. `config`: the settings of its taskset, key=value,key=value or a JSON object; `env`: the
    settings of the environment, in the same form. `tasks`: the number of tasks to take from an endless taskset. The reward of an answer is the
    weighted sum of the environment's rewards, as in the package. Raises UserError for an environment that needs tools, a container, a judge model or
    several agents, or that is not installed.
    """
    made = loaded(name, config, env)
    if tasks < 2:
        raise UserError(f"--task.tasks is {tasks}; give the number of tasks from an endless taskset, at least 2")
    rows = Rows(f"verifiers:{name}", made.taskset if made.taskset.bounded else made.taskset.take(tasks))
    check_rows(rows, made)
    several = None if made.role is None else Exchange(rows, made)
    return Task(
        rows.name,
        Part(rows, held_out=False),
        Part(rows, held_out=True),
        verify=Scored(rows) if several is None else None,
        environment=several,
        about=f"the environment {name} of the package verifiers, {'one turn' if several is None else 'many turns'}, judged by its own rewards",
        sampling=Sampling(max_tokens=max_tokens),
    )


@dataclass(frozen=True, eq=False)
class Loaded:
    """A loaded taskset, its environment `env`, and the name `role` of the only agent. For a plain taskset, `env` and `role` are None."""

    name: str
    taskset: Any
    env: Any = None
    role: str | None = None


def loaded(name: str, config: str, env: str) -> Loaded:
    """Loads the environment of an installed module. Raises UserError with the reason if the environment cannot be loaded or played here."""
    vf = imported("verifiers.v1", "verifiers")
    settings, more = values(pairs_of(f"verifiers:{name}", config)), values(pairs_of(f"verifiers:{name}", env, "env"))
    try:
        kind = vf.environment_class(name)
        if kind is vf.SingleAgentEnv:
            if vf.default_harness_id(name) == name:
                raise UserError(
                    f"the environment {name} of the package verifiers contains its own program (a harness), which is not supported; "
                    "take another environment"
                )
            read = vf.taskset_config_type(name).model_validate({"id": name, **settings})
            return Loaded(name, vf.load_taskset(read))
        read = vf.env_config_type(name).model_validate({**more, "taskset": {"id": name, **settings}})
        roles = [role for role, value in read if isinstance(value, vf.AgentConfig)]
        if len(roles) != 1:
            raise UserError(
                f"the environment {name} of the package verifiers is for {len(roles)} agents ({', '.join(roles)}), but Gradus supports only one agent; take "
                "another environment"
            )
        null = {roles[0]: {**more.get(roles[0], {}), "harness": {"id": "null"}}}  # the agent's program is replaced by the policy
        made = vf.load_environment(vf.env_config_type(name).model_validate({**more, **null, "taskset": {"id": name, **settings}}))
    except UserError:
        raise
    except ModuleNotFoundError as error:
        raise UserError(missing(name, error)) from None
    except Exception as error:
        raise UserError(
            f"the environment {name} of the package verifiers cannot be loaded: "
            f"{reason(error)}{old(name) or '; check --task.config and --task.env'}"
        ) from error
    return Loaded(name, made.taskset, made, roles[0])


def missing(name: str, error: ModuleNotFoundError) -> str:
    """Returns the message for a missing module: either the environment's own module, or a module that it imports."""
    cause = error.__cause__
    lacking = cause.name if isinstance(cause, ModuleNotFoundError) else error.name
    if lacking is None or lacking == module_of(name):
        return f'no environment "{name}" of verifiers is installed; install its package, or put the folder of its module on PYTHONPATH'
    return f"the environment {name} of the package verifiers imports the module {lacking}, which is not installed; install its package"


def module_of(name: str) -> str:
    """Returns the name of an environment's module, by the package's rule: without owner and version, in lower case, with underscores for hyphens."""
    return name.rsplit("/", 1)[-1].split("@", 1)[0].replace("-", "_").lower()


def reason(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"


def old(name: str) -> str:
    """Returns a hint if the module has the interface of the versions before 0.4; else an empty text."""
    module = importlib.import_module(module_of(name))
    if not hasattr(module, "load_environment") or hasattr(module, "__all__"):
        return ""
    return "; its function load_environment is the interface of verifiers before 0.4; export a Taskset in __all__ instead"


def check_rows(rows: Rows, made: Loaded) -> None:
    """Raises UserError if the first task, or the environment, needs more than a model's text."""
    vf = imported("verifiers.v1", "verifiers")
    try:
        first = rows.all[0]
        tools = [*type(made.taskset).toolsets(made.taskset.config), *type(first).toolsets(first.config)]
        judges = list(first.config.judges)
        rewards = [*first.hooks("metric"), *first.hooks("reward")]
        stops = first.hooks("stop")
    except UserError:
        raise
    except Exception as error:
        raise UserError(
            f"the environment {made.name} of the package verifiers cannot list its tasks: {reason(error)}; check the settings of "
            "--task.config"
        ) from error
    own = lambda thing, name, base: getattr(type(thing), name) is not getattr(base, name)  # noqa: E731
    faults = {
        "calls tools over MCP servers": bool(tools),
        "runs in a container": type(first).NEEDS_CONTAINER or first.data.image is not None,
        "prepares a machine (setup, finalize)": own(first, "setup", vf.Task) or own(first, "finalize", vf.Task),
        "asks a judge model": bool(judges),
        "judges by a machine (a reward needs `runtime`)": any(needs_runtime(fn) for fn in rewards),
        "changes requests or answers on their way (@intercept, @stop of a Request or Response)": bool(tagged(first, "intercept"))
        or any(stops_early(fn) for fn in stops),
        "starts its own servers (start, stop)": made.env is not None and (own(made.env, "start", vf.Env) or own(made.env, "stop", vf.Env)),
        "has no prompt, and exports no environment that begins the conversation": made.role is None and first.data.prompt is None,
    }
    if fault := next((text for text, found in faults.items() if found), None):
        raise UserError(f"the environment {made.name} of the package verifiers {fault}, which is not supported; take an environment of text tasks")
    messages_of(first.data)


def needs_runtime(function: Any) -> bool:
    given = inspect.signature(function).parameters.get("runtime")
    return given is not None and given.default is inspect.Parameter.empty


def tagged(thing: Any, mark: str) -> list[str]:
    return [name for kind in type(thing).__mro__ for name, value in vars(kind).items() if callable(value) and hasattr(value, mark)]


def stops_early(function: Any) -> bool:
    """Returns whether a stop condition reads the request or the answer instead of the trace."""
    return any(getattr(p.annotation, "__name__", str(p.annotation)) in ("Request", "Response") for p in inspect.signature(function).parameters.values())


@dataclass(frozen=True, eq=False)
class Rows:
    """The tasks of a taskset, and their split into training and held-out tasks. The tasks are loaded at the first use."""

    name: str
    taskset: Any

    @cached_property
    def all(self) -> list[Any]:
        """The tasks, in order. Raises UserError if the tasks cannot be loaded, or if there is no task."""
        try:
            found = list(self.taskset)
        except Exception as error:
            raise UserError(f"{self.name} cannot load its tasks: {reason(error)}; check the settings of --task.config") from error
        if not found:
            raise UserError(f"{self.name} has no tasks; check the settings of --task.config")
        return found

    @cached_property
    def split(self) -> tuple[np.ndarray, np.ndarray]:
        """The indices of the training tasks, and of the held-out tasks. Equal tasks are in the same part. Raises UserError if all tasks are equal."""
        hashes = np.array([int(digest(self.name, content(task)), 16) for task in self.all], np.uint64)
        if len(set(hashes.tolist())) < 2:
            raise UserError(f"{self.name} has only one task, so no task can be held out; give the environment more tasks")
        return hold_out(hashes)


@dataclass(frozen=True, eq=False)
class Part:
    """The training or the held-out tasks, in the order of the taskset."""

    rows: Rows
    held_out: bool

    @property
    def size(self) -> int:
        return len(self.rows.split[self.held_out])

    def draw(self, indices: Sequence[int], level: float | None, key: Key) -> list[Problem]:
        """Returns the problems of these indices. Level and key have no effect."""
        return [self._problem(int(self.rows.split[self.held_out][index])) for index in indices]

    def _problem(self, number: int) -> Problem:
        data = self.rows.all[number].data
        answer = getattr(data, "answer", None)
        plain = answer if isinstance(answer, str | int | float | bool | list | dict) else None
        return Problem(f"{self.rows.name}-{number}", self.rows.name, messages=messages_of(data), answer=plain, meta=Frozen(number=number))


def content(task: Any) -> str:
    """Returns the data of a task without its index in the taskset."""
    return json.dumps(task.data.model_dump(mode="json", exclude={"idx", "id", "name"}), sort_keys=True)


@dataclass(frozen=True, eq=False)
class Scored:
    """A verifier that returns the weighted sum of a task's rewards.

    `together` judges all answers at the same time, because rewards are asynchronous.
    """

    rows: Rows

    def check(self) -> None:
        """Does nothing, because this verifier runs on every machine."""

    async def together(self, trajectories: Sequence[Trajectory], world: World) -> list[Outcome]:
        """Returns one outcome per answer. Every reward and metric of the task becomes a metric of the step: its mean over the answers."""
        judged = await asyncio.gather(*(self.score(t.problem, t.completion, cut=t.ended is Ended.LENGTH) for t in trajectories))
        for outcome, numbers in judged:
            for name, value in numbers.items() if not isinstance(outcome, Failed) else ():
                world.note(f"verifiers/{name}", value)
        return [outcome for outcome, _ in judged]

    async def score(self, problem: Problem, completion: str, *, cut: bool = False) -> tuple[Outcome, dict[str, float]]:
        """Returns the outcome of an answer, and its rewards and metrics by name. If a reward raises an error or hangs, the outcome is a failure."""
        task = self.rows.all[int(problem.meta["number"])]
        trace = trace_of(task, [*problem.messages, {"role": "assistant", "content": completion}], cut=cut)
        try:
            async with asyncio.timeout(LIMIT):
                await task.score(trace)
        except TimeoutError:
            return Failed(f"the rewards did not answer within {LIMIT:g} seconds", FailureKind.TIMEOUT), {}
        except Exception as error:
            return Failed(f"the rewards raised {reason(error.__cause__ or error)}", FailureKind.RAISED), {}
        values = {name: value.score for name, value in trace.rewards.items() if value is not None}
        return trace.reward, values | {name: value for name, value in trace.metrics.items() if value is not None}

    def __call__(self, problem: Problem, completion: str) -> Outcome:
        work = self.score(problem, completion)
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run(work)[0]
        with ThreadPoolExecutor(1) as pool:  # a second loop cannot run in this thread
            return pool.submit(asyncio.run, work).result()[0]
