"""Episodes with tools: the player calls tools, sees their results, and gives an answer that the task's verifier judges."""

from __future__ import annotations

import asyncio
import copy
import hashlib
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

from gradus.environments.python_tool import exact
from gradus.tools.calls import called
from gradus.tools.forms import Answer, Call, Form, LineCalls, Malformed, TaggedCalls, named
from gradus.tools.tool import Opened, Result, Sharing, Tool, wrong_arguments
from gradus.types import Failed, Frozen, Key, NotApplicable, Problem, UserError
from gradus.types.errors import nearest
from gradus.types.parts import Closing, Task, Turn, Verify, World
from gradus.types.ranges import check_ranges


@dataclass(frozen=True)
class Tools:
    """An environment in which the player calls `tools` in the form `form`. An answer ends the episode; the task's verifier sets its reward, and every other
    turn earns 0.

    The first `calls` calls of an episode are executed. After that, an action that calls a tool gets no result, and the episode continues. An action without a
    call and without an answer is illegal and gets `hint`. The calls of one action run at the same time. `Turn.calls` holds each executed call.

    A recipe can have this part as its `environment`: then any task with a verifier of single answers is played with the tools.
    """

    tools: Mapping[str, Tool]  # name -> tool; a list of tools becomes this mapping
    form: Form = TaggedCalls()
    calls: int | None = None  # calls of an episode that are executed; None: all
    limit: int = 8  # an episode is truncated after this number of turns
    hint: str = "\nNo call and no answer was found.\n"
    shown: int = 400  # characters of a result that the player sees: half of them from its start, half from its end
    seconds: float = 10.0  # time limit of a call
    describes: bool = True  # whether the instruction of the form follows the question
    verify: Verify | None = None  # judges (problem, answer); None: the task's verifier, or equality with the problem's answer
    lenient: bool = True  # False: the first illegal action ends the episode

    def __post_init__(self) -> None:
        check_ranges(self, limit="[1, inf)", shown="[16, inf)", seconds="(0, inf)", calls="[0, inf)")
        listed = tuple(self.tools.values()) if isinstance(self.tools, Mapping) else tuple(self.tools)
        names = [tool.name for tool in listed]
        if not names or len(set(names)) < len(names):
            raise UserError(f"Tools.tools has the names {names}; give one or more tools with different names")
        if isinstance(self.tools, Mapping) and (odd := next((key for key, name in zip(self.tools, names, strict=True) if key != name), None)) is not None:
            raise UserError(f'Tools.tools has the tool "{self.tools[odd].name}" under the name "{odd}"; give it the same name in both places')
        if (alone := next((tool for tool in listed if isinstance(tool, Sharing) and tool.shares not in names), None)) is not None:
            raise UserError(f'Tools.tools has "{alone.name}", which works in the session of "{alone.shares}", but no such tool; add it')
        object.__setattr__(self, "tools", Frozen(dict(zip(names, listed, strict=True))))

    @property
    def listed(self) -> tuple[Tool, ...]:
        """The tools in order."""
        return tuple(self.tools.values())

    @property
    def stops(self) -> tuple[str, ...]:
        """The strings that end an action."""
        return self.form.stops(self.listed)

    @property
    def forks(self) -> bool:
        """Whether an episode can be copied. This needs tools whose sessions can all be copied."""
        return all(tool.forks for tool in self.listed)

    def check_task(self, task: Task) -> None:
        """Raises UserError if a tool does not fit the task."""
        for tool in self.listed:
            if hasattr(tool, "check_task"):
                tool.check_task(task)

    def start(self, problem: Problem, key: Key, world: World | None) -> ToolEpisode:
        return ToolEpisode(problem, key, world, self)

    def demonstration(self, problem: Problem) -> list[tuple[str | Any, str]]:
        """Returns the problem's demonstrated episode in this form: pairs (observation, action).

        The problem's own demonstration is in the form `LineCalls`. Raises UserError if an action of it cannot be read.
        """
        pairs = [(str(seen), str(action)) for seen, action in problem.meta["demonstration"]]
        made: list[tuple[Any, str]] = []
        for i, (seen, action) in enumerate(pairs):
            said = LineCalls().read(action, self.listed)
            if said is None:
                raise UserError(f"problem {problem.id}: the demonstrated action {action!r:.60} is neither a call of {self._names} nor an answer")
            text = self.form.answer(said.text) if isinstance(said, Answer) else "\n".join(self.form.write(c, self.listed) for c in said if isinstance(c, Call))
            made.append((self.form.told([Result(seen)]) if i else self.described, text))
        return made

    @property
    def described(self) -> str:
        """The first observation: the instruction, or nothing."""
        return self.form.describe(self.listed) if self.describes else ""

    @property
    def _names(self) -> str:
        return ", ".join(tool.name for tool in self.listed)


class ToolEpisode:
    """One episode."""

    def __init__(self, problem: Problem, key: Key, world: World | None, settings: Tools) -> None:
        self.problem, self.key, self.world, self.settings = problem, key, world, settings
        self.opened: dict[str, Opened] = {}
        self.told: tuple[str, ...] = ()
        self.turns, self.executed, self.copied = 0, 0, False
        self.first = Turn(settings.described, state="")

    def fork(self, key: Key) -> ToolEpisode:
        """Returns a copy in the same state, with copies of the tools' sessions."""
        made = copy.copy(self)
        made.key, made.copied = key, True
        sessions: dict[str, Any] = dict(self.opened)
        made.opened = {name: session.fork(key.fold(name)) for name, session in sessions.items()}
        return made

    async def close(self) -> None:
        """Closes the sessions of the tools."""
        opened, self.opened = self.opened, {}
        for session in opened.values():
            if isinstance(session, Closing):
                await session.close()

    async def step(self, action: str) -> Turn:
        """Plays one action. If the verifier fails, raises RuntimeError, so the episode fails."""
        self.turns += 1
        truncated, form = self.turns >= self.settings.limit, self.settings.form
        said = form.read(action, self.settings.listed)
        if isinstance(said, Answer):
            outcome = self._verdict(said.text)
            return Turn("", outcome, terminated=True, state=self._state())
        if said is None:
            strict = not self.settings.lenient
            return Turn(form.hint(self.settings.hint), terminated=strict, truncated=truncated and not strict, state=self._state(), valid=False)
        room = len(said) if self.settings.calls is None else max(0, self.settings.calls - self.executed)
        results = await asyncio.gather(*(self._result(one, i) for i, one in enumerate(said[:room])))
        self.executed += len(results)
        self.told = (*self.told, *(result.text for result in results))
        made = tuple((one.name if isinstance(one, Call) else "", result.ok) for one, result in zip(said, results, strict=False))
        valid = not any(isinstance(one, Malformed) for one in said[:room])
        over = not valid and not self.settings.lenient
        return Turn(form.told(results), terminated=over, truncated=truncated and not over, state=self._state(), valid=valid, calls=made)

    def _state(self) -> str:
        """Returns all results so far, which are the player's knowledge."""
        return "\n\x00".join(self.told)

    def _verdict(self, answer: str) -> float:
        verify = self.settings.verify or (self.world.task.verify if self.world is not None else None) or exact
        outcome = verify(self.problem, answer)
        if isinstance(outcome, Failed | NotApplicable):
            reason = outcome.reason if isinstance(outcome, Failed) else "it does not apply"
            raise RuntimeError(f"the verifier of {self.problem.id} gave no reward: {reason}")
        return float(outcome)

    async def _result(self, said: Call | Malformed, index: int) -> Result:
        """Returns the result of a call. If the tool is recorded, its result is stored with the step."""
        if isinstance(said, Malformed):
            return Result(said.why, ok=False)
        tool = named(said.name, self.settings.listed)
        if tool is None:
            return Result(unknown_tool(said.name, self.settings.listed), ok=False)
        if (wrong := wrong_arguments(tool, said.arguments)) is not None:
            return Result(f"error: {wrong}", ok=False)
        name = f"tools/{self.key.value:016x}/{self.turns}/{index}"
        if self.copied:  # copies with equal keys may call differently
            name += f"/{hashlib.blake2b(repr((said.name, sorted(said.arguments.items()))).encode('utf-8', 'surrogatepass'), digest_size=8).hexdigest()}"
        known = self.world.fact(name) if self.world is not None and tool.recorded else None
        if known is not None:
            return Result(known[1:], known[0] == "+")
        with nullcontext() if self.world is None else self.world.waiting(f"the tool {tool.name}", f"a call for problem {self.problem.id}"):
            result = await called(self._session(tool), said.arguments, seconds=self.settings.seconds, shown=self.settings.shown)
        if self.world is not None and tool.recorded:
            self.world.decide(name, f"{'+' if result.ok else '-'}{result.text}")
        return result

    def _session(self, tool: Tool) -> Opened:
        if isinstance(tool, Sharing):
            return tool.on(self._session(self.settings.tools[tool.shares]))
        if tool.name not in self.opened:
            self.opened[tool.name] = tool.open(self.problem, self.key.fold("tool", tool.name), self.world)
        return self.opened[tool.name]


def unknown_tool(name: str, tools: Sequence[Tool]) -> str:
    """Returns the text that a player sees after a call of a tool that does not exist."""
    names = [tool.name for tool in tools]
    return f'error: there is no tool "{name[:40]}"{nearest(name[:40], names)}; the tools are {", ".join(names)}'
