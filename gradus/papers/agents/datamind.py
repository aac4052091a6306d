"""DataMind: an agent analyses data by code. One loss slides from imitation to RL, and cells run again from their text, so no kernel stays alive.

    loss = g L_SFT + (1 - g) L_DAPO
    g_k = 0.05 + 0.85/2 (1 + cos((pi k) / 200))
    A_i = (R_i - mean(R)) / (std(R))
    R = -1 for a bad form, quad 0 if wrong, quad 1 + b(|y|) if right

b falls from 0.1 for an answer of at most $l_min$ tokens to 0 at $l_max$. In g, pi is the number 3.14..., and k is the step. An episode has turns with
<code> and ends with <answer>. The output of the code is inserted between <interpreter> and </interpreter>, and has no loss. A void turn has neither
code nor an answer. Episodes with a void turn are left out of the update, and of the mean and the deviation of their group. A form is bad if the
episode has no answer.

A notebook keeps the text of the cells that ran. For a new cell, a fresh sandbox first runs all these cells again without showing their output, and then runs
the new cell. So between two turns only text is in memory.

L_SFT is the loss of demonstrated episodes, which are a fifth of all episodes. L_DAPO has the clip 0.2 and 0.28, a mean over tokens, and no KL term. Groups
without both right and wrong answers are dropped. The start model should already have learned the form by SFT.

Use if: demonstrations with tools exist, and RL alone forgets their form or SFT alone stops at their level.
Avoid if: a demonstration is worse than the policy's own answers, or cells are slow or depend on the clock, because every cell runs again at each later turn.
Reference: Qiao et al., Scaling Generalist Data-Analytic Agents, arXiv:2509.25084: the mixed loss, void turns and the rollout. The RL code is not public.
Departures: The length term, its limits of 64 and 256 tokens, and the share of the demonstrations are our choices. We read the paper as follows: the
mean and the deviation also leave out the episodes with void turns. The demonstrations solve other problems than the sampled episodes (as in chord);
in the paper they solve the same questions. The synthesis of questions and the filters of trajectories are left out, because the task python_tool
makes its own questions. The verifier of the task judges answers; in the paper a model judges them. The task is our choice. A group without both right
and wrong answers is dropped, and no further problems are sampled in its place, unlike in the base. One batch has one update, so the clip never acts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from gradus.environments.tools import Tools
from gradus.objectives.terms import Imitation
from gradus.papers.bases.dapo import dapo
from gradus.recipe.claim import Claim
from gradus.rewards.environment import EnvironmentReturn
from gradus.rollouts.beside import Beside
from gradus.rollouts.demonstrations import Demonstrations
from gradus.schedules.ramp import Ramp
from gradus.selection.filters import Mixed, OwnAnswers
from gradus.tools.forms import TaggedCalls
from gradus.tools.python import ENDS, Python, output, run_tool, unfenced
from gradus.tools.tool import Result
from gradus.types import Ended, Frozen, Group, Key, Problem, Trajectory
from gradus.types.parts import Judgement, Selection, Signals, World
from gradus.types.ranges import check_ranges
from gradus.types.signals import Signal

AGAIN = "import contextlib, io\nwith contextlib.redirect_stdout(io.StringIO()):\n    exec(compile({!r}, 'cells', 'exec'), globals())\n"


@dataclass(frozen=True)
class Notebook:
    """Runs a cell after all earlier cells of the episode that did not fail. Only the text of the cells is kept."""

    python: Python = Python()
    name: str = "python"
    about: ClassVar[str] = "Runs a cell of Python after the earlier cells, and returns its output and the value of its last line."
    parameters: ClassVar[Mapping[str, Any]] = Python.parameters
    recorded: ClassVar[bool] = True
    forks: ClassVar[bool] = True

    def open(self, problem: Problem, key: Key, world: World | None) -> Cells:
        self.python.sandbox.check()
        return Cells(self.python)


@dataclass
class Cells:
    """The cells of an episode so far."""

    python: Python
    texts: tuple[str, ...] = ()
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)  # makes the cells of one action run one after another

    def fork(self, key: Key) -> Cells:
        return Cells(self.python, self.texts)

    async def call(self, code: str) -> Result:
        """Returns the output of a cell. A cell that fails is not kept."""
        async with self.turn:
            cell = unfenced(code)
            before = AGAIN.format("\n".join(self.texts)) if self.texts else ""
            ran = await run_tool(self.python.sandbox, before + cell)
            ok = ran.ended not in ENDS and ran.ok
            self.texts += (cell,) if ok else ()
            return Result(output(ran), ok)


def brevity(tokens: int, *, least: int, most: int, bonus: float) -> float:
    """Returns the bonus for a right answer with this number of tokens.

    >>> [brevity(n, least=10, most=20, bonus=0.1) for n in (5, 10, 15, 20, 30)]
    [0.1, 0.1, 0.05, 0.0, 0.0]
    """
    return bonus * min(1.0, max(0.0, (most - tokens) / (most - least)))


@dataclass(frozen=True)
class BriefOrWrong:
    """Gives -1 for an episode without an answer, 0 for a wrong answer, and 1 plus the bonus for brevity for a right answer."""

    bonus: float = 0.1
    least: int = 64  # a right answer with at most this number of tokens gets the whole bonus
    most: int = 256  # a right answer with at least this number of tokens gets no bonus
    needs: ClassVar[tuple[Signal, ...]] = ()

    def __post_init__(self) -> None:
        check_ranges(self, bonus="[0, inf)", least="[0, inf)", most=f"({self.least}, inf)")

    async def score(self, groups: Sequence[Group], signals: Signals, world: World) -> list[list[Judgement]]:
        plain = await EnvironmentReturn().score(groups, signals, world)
        return [[self._judged(t, j) for t, j in zip(g.trajectories, row, strict=True)] for g, row in zip(groups, plain, strict=True)]

    def _judged(self, t: Trajectory, plain: Judgement) -> Judgement:
        if not isinstance(plain.reward, float | int):
            return plain
        if t.ended is not Ended.ENVIRONMENT:
            return replace(plain, reward=-1.0)
        tokens = sum(context.actions for context in t.contexts)
        more = brevity(tokens, least=self.least, most=self.most, bonus=self.bonus) if plain.reward >= 1 else 0.0
        return replace(plain, reward=(plain.reward >= 1) + more, components=Frozen({**plain.components, "brief": more}))


@dataclass(frozen=True)
class WithoutVoidTurns:
    """Leaves out the episodes with a void turn (an illegal action), and then applies `selection`. Drops groups in which all episodes have a void turn."""

    selection: Selection = Mixed()

    def keep(self, groups: Sequence[Group], key: Key) -> tuple[list[Group], list[Group]]:
        whole = [g.but(trajectories=tuple(t for t in g.trajectories if not t.links.get("invalid"))) for g in groups]
        kept, _ = self.selection.keep([g for g in whole if g.trajectories], key)
        names = {g.key for g in kept}
        return kept, [g for g in groups if g.key not in names]


INTERPRETER = Tools(tools=Frozen(python=Notebook()), form=TaggedCalls("<interpreter>", "</interpreter>", names=(("code", "python"),)), limit=10)

datamind = dapo.derive(
    "datamind",
    "Cells of code run again from their text; imitation slides to RL along a cosine; episodes with void turns are left out.",
    family="agents",
    environment=INTERPRETER,
    rollout=Beside(other=Demonstrations(), share=0.2),
    reward=BriefOrWrong(),
    selection=WithoutVoidTurns(OwnAnswers()),
    objective__imitation=Imitation(),
    schedule=Ramp("objective.imitation.coefficient", ((0, 0.9), (200, 0.05)), shape="cosine", rest="objective.policy.coefficient"),
    update__count=1,
    setting__group=8,
)

claims = (
    Claim(
        says="From a weak start accuracy on python_tool is after 16 steps at least 0.05 above the same training without imitation.",
        source="arXiv:2509.25084, abstract and the comparison of training strategies; task, start, the arm, the size of the effect and the steps are ours",
        against='datamind --schedule ConstantSchedule --rollout.share 0 --objective.imitation none',
        measure="accuracy",
        better_by=0.05,
        task="python_tool",
        options={"level": "1", "instruction": "false"},
        fields={"prompts": "4", "group": "8", "learning_rate": "3e-4", "eval_every": "0", "study.problems": "64"},
        own={"schedule.points": "((0,0.9),(16,0.05))"},
        budget="steps=16",
        script="benchmarks.warmed datamind",
        seeds=3,
    ),
)
