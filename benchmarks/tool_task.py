"""A task of arithmetic with programs, for `benchmarks.kills`: an answer with an odd last digit is run as a program, so that kills meet open sandboxes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gradus.environments.tools import Tools
from gradus.tasks.maths.arithmetic import arithmetic
from gradus.tools.forms import Answer, Call, LineCalls, Said
from gradus.tools.python import Python
from gradus.tools.tool import Result, Tool
from gradus.types.parts import Task
from gradus.types.spaces import Observation


@dataclass(frozen=True)
class OddCalls(LineCalls):
    """An action with an odd last digit is a call, and any other action is the answer."""

    def read(self, action: str, tools: Sequence[Tool]) -> Said:
        text = action.strip()
        return (Call(tools[0].name, {"code": f"print({text!r})\nopen('left', 'w').write({text!r})"}),) if text[-1:] in set("13579") else Answer(text)

    def told(self, results: Sequence[Result]) -> Observation:
        return "+1="


def task() -> Task:
    """Returns the task. Raises UserError at the first call if this machine cannot isolate programs."""
    return replace(arithmetic(), name="odd_calls", environment=Tools([Python()], form=OddCalls(), limit=4, describes=False))
