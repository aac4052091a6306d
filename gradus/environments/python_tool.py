"""A Python tool: the player writes programs, sees their output, and then answers. Each program runs in its own sandbox."""

from __future__ import annotations

import copy
import hashlib
import re
from contextlib import nullcontext
from dataclasses import dataclass
from typing import ClassVar

from gradus.sandbox import Sandbox
from gradus.tools.calls import cut, printable
from gradus.tools.python import LIMITS, output, run_tool
from gradus.types import Failed, Key, NotApplicable, Problem, UserError
from gradus.types.parts import Turn, Verify, World

RIGHT_REWARD = 1.0  # reward of `exact`; an answer counts as right if its reward, from any verifier, is at least this number
_FENCED = re.compile(r"```[ \t]*(?:python3?|py)[ \t]*\r?\n(.*?)(?:```|\Z)", re.DOTALL | re.IGNORECASE)
_LINE = re.compile(r"^[ \t]*(python|answer):(.*)$", re.MULTILINE | re.IGNORECASE)
TAIL = 20_000  # only this number of characters of an action are read, counted from its end


def exact(problem: Problem, answer: str) -> float:
    """Returns 1.0 if the answer equals the problem's answer exactly, else 0. Spaces at both ends are ignored."""
    return RIGHT_REWARD if answer.strip() == str(problem.answer).strip() else 0.0


@dataclass(frozen=True)
class PythonTool:
    """Runs `python: CODE` or a block ```python and shows its output as the observation; `answer: ...` ends the episode.

    If an action has several programs or answers, the last one counts. If the last statement of a program is an expression, its value is printed, unless it is
    None. Programs share nothing: each runs in a new process. The verifier sets the reward of the answer; every other turn earns 0.
    """

    sandbox: Sandbox = Sandbox(limits=LIMITS)
    verify: Verify = exact  # judges (problem, text after "answer:")
    shown: int = 400  # characters of output that the player sees: half of them from its start, half from its end
    limit: int = 4  # an episode is truncated after this number of turns
    forks: ClassVar[bool] = True

    def __post_init__(self) -> None:
        for name, least in (("shown", 16), ("limit", 1)):
            if getattr(self, name) < least:
                raise UserError(f"python_tool: `{name}` is {getattr(self, name)}; it must be {least} or more")

    def start(self, problem: Problem, key: Key, world: World | None) -> Workbench:
        """Starts an episode. Raises UserError if this machine cannot isolate programs."""
        self.sandbox.check()
        return Workbench(problem, key, world, self)


class Workbench:
    """One episode."""

    def __init__(self, problem: Problem, key: Key, world: World | None, settings: PythonTool) -> None:
        self.problem, self.key, self.world, self.settings = problem, key, world, settings
        self.told: tuple[str, ...] = ()
        self.turns, self.copied = 0, False
        self.first = Turn("", state=self._state())  # the first observation is empty, because the context already has the question of the problem

    def fork(self, key: Key) -> Workbench:
        """Returns a copy in the same state. Programs do not affect each other, so the copy runs no program again. The recorded outputs of the copy's programs
        have names that depend on `key`.
        """
        made = copy.copy(self)
        made.key, made.copied = key, True
        return made

    def _state(self) -> str:
        """Returns all observations so far, which are the player's knowledge."""
        return "\n\x00".join(self.told)

    async def step(self, action: str) -> Turn:
        """Runs one action. If the verifier fails, raises RuntimeError, so the episode fails. If the sandbox fails, raises SandboxError."""
        self.turns += 1
        truncated = self.turns >= self.settings.limit
        verb, text = parse(action)
        if verb == "answer":
            outcome = self.settings.verify(self.problem, text)
            if isinstance(outcome, Failed | NotApplicable):
                reason = outcome.reason if isinstance(outcome, Failed) else "it does not apply"
                raise RuntimeError(f"the verifier of {self.problem.id} gave no reward: {reason}")
            return Turn("right" if outcome >= RIGHT_REWARD else "wrong", outcome, terminated=True, state=self._state())
        if verb != "python":
            return Turn("write python: code, or answer: ...", truncated=truncated, state=self._state(), valid=False)
        observation = await self._output(text)
        self.told = (*self.told, observation)
        return Turn(observation, truncated=truncated, state=self._state())

    async def _output(self, code: str) -> str:
        """Returns the output of a program. The output is recorded as a fact of the step, so a repeated step shows the player the same output."""
        call = f"python_tool/{self.key.value:016x}/{self.turns}"
        if self.copied:  # copies with equal keys may run different programs
            call += f"/{hashlib.blake2b(code.encode('utf-8', 'surrogatepass'), digest_size=8).hexdigest()}"
        known = None if self.world is None else self.world.fact(call)
        if known is not None:
            return known
        with nullcontext() if self.world is None else self.world.waiting("the sandbox", f"a program for problem {self.problem.id}"):
            ran = await run_tool(self.settings.sandbox, code)
        observation = cut(printable(output(ran)), self.settings.shown)
        if self.world is not None:
            self.world.decide(call, observation)
        return observation


def parse(action: str) -> tuple[str, str]:
    """Returns the last program or answer in the action, as ('python', code) or ('answer', text). ('', '') if the action has no program and no answer."""
    text = action[-TAIL:]
    found = [(m.start(), "python", m[1]) for m in _FENCED.finditer(text) if m[1].strip()]
    blocks = [(m.start(), m.end()) for m in _FENCED.finditer(text)]
    for m in _LINE.finditer(text):
        if not any(start <= m.start() < end for start, end in blocks):
            found.append((m.start(), m[1].lower(), m[2].strip()))
    _, verb, what = max(found, default=(0, "", ""))
    return verb, what
