"""R1-Code-Interpreter: one model learns on many kinds of tasks when to write a program and when words suffice. SFT on mixed traces, then GRPO.

    y = (a_1, o_1, ..., a_n), quad n - 1 <= 5
    R = 1 if right, quad R = 0 else
    A_i = (R_i - mean(R)) / (std(R))
    loss = "GRPO over the tokens of" a_k + 0.001 D_"KL"
    "macro" = 1/K sum_k ("right answers of kind" k) / ("answers of kind" k)

The tasks are of many kinds: some are solved in words, and others only by a program. In each turn the policy chooses: it writes words, or a block of
Python whose output $o_k$ is inserted, or the final answer between <<< and >>>. At most 5 blocks are executed. A sixth block gets no output, and the
policy writes on. Outputs have no loss. There is no reward for form or for code; the verifier of the task alone judges.

In the first stage the policy imitates right traces, in words or with code, in equal parts over the kinds. The paper finds that this stage brings much
of the gain, because the variety of tasks makes RL hard. The second stage is GRPO with 5 answers per problem. The study measures the macro accuracy:
the mean of the accuracies of the kinds, so that frequent kinds do not hide rare ones. Metrics: held_out/macro, reward/code (share of answers with a
program), reward/choice (share of answers with a fitting choice). A program fits if the column `needs` of the problem is "code"; an answer without a
program fits if `needs` has another value.

Use if: one policy serves many kinds of tasks, only some of these kinds need programs, and right traces exist.
Avoid if: all problems need programs (see retool, torl), or there are no traces for the first stage.
Reference: Chen et al., R1-Code-Interpreter: Training LLMs to Reason with Code via Supervised and Reinforcement Learning, arXiv:2505.21668v1: sections 2 to 4
(144 kinds of tasks, at most 5 calls, the marks around the answer, SFT then GRPO, masked outputs). The code of the authors was not available.
Departures: The traces are the task's demonstrations; the paper keeps right traces of a strong model under several prompts. Here the kinds are the 14 kinds of
the task python_tool with `--task.words 0.5`, and training uses all of them; the paper holds out 37 of 144 kinds. The output stands in a block
that the policy opens. SFT has 150 steps; the second version of the paper adds stages of RL that choose problems by their expected gain; these stages are left
out. Each batch has one update, so the ratio is 1 and the clip never acts. A program may run for 10 seconds, and for 60 in the paper. The paper also tries PPO
and finds it weaker than GRPO; for PPO see retool.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from gradus.environments.tools import Tools
from gradus.papers.bases.grpo import grpo
from gradus.papers.bases.sft import sft
from gradus.recipe.claim import Claim
from gradus.rewards.environment import EnvironmentReturn
from gradus.rollouts.episodes import Episodes
from gradus.schedules.stages import Stage, Stages
from gradus.study.held_out import HeldOut
from gradus.tools.forms import TAIL, Answer, FencedCalls, Said
from gradus.tools.python import Python
from gradus.tools.tool import Tool
from gradus.types import Frozen, Group, Trajectory
from gradus.types.moments import Steps
from gradus.types.parts import Judgement, Reward, Signals, World
from gradus.types.ranges import check_ranges
from gradus.types.signals import Signal


@dataclass(frozen=True)
class CodeOrWords:
    """The return of the environment. Two components do not change the reward. `code` is 1 if the answer has a program. `choice` is 1 if the problem needs a
    program and the answer has one, or if the problem needs none and the answer has none.
    """

    needs: ClassVar[tuple[Signal, ...]] = ()

    async def score(self, groups: Sequence[Group], signals: Signals, world: World) -> list[list[Judgement]]:
        plain = await EnvironmentReturn().score(groups, signals, world)
        return [[self._judged(t, j) for t, j in zip(g.trajectories, row, strict=True)] for g, row in zip(groups, plain, strict=True)]

    def _judged(self, trajectory: Trajectory, plain: Judgement) -> Judgement:
        code, needs = bool(trajectory.links.get("calls", ())), trajectory.problem.meta.get("needs")
        choice = {} if needs is None else {"choice": float(code == (needs == "code"))}
        return replace(plain, components=Frozen({**plain.components, "code": float(code), **choice}))


def macro(accuracies: Mapping[str, float | None]) -> float | None:
    """Returns the mean of the accuracies of the kinds; None without kinds.

    >>> macro({"sums": 1.0, "primes": 0.0})
    0.5
    """
    known = [value for value in accuracies.values() if value is not None]
    return sum(known) / len(known) if known else None


@dataclass(frozen=True)
class MacroAccuracy:
    """Measures all metrics of `HeldOut`, the accuracy of each value of `column`, and the mean of these accuracies (held_out/macro)."""

    problems: int = 256
    column: str = "category"
    greedy: bool = True  # True: also samples one greedy answer per problem
    patience: int = 0  # the run stops early after this number of evaluations without improvement; 0: it never stops early
    target: float | None = None  # the run stops when held_out/accuracy reaches this number
    reward: Reward | None = None  # the reward that judges evaluations; None: the recipe's reward

    def __post_init__(self) -> None:
        check_ranges(self, problems="[1, inf)", patience="[0, inf)", target="[0, inf)")

    async def measure(self, run: Any, recipe: Any, world: Any) -> dict[str, float | None]:
        found = await HeldOut(self.problems, greedy=self.greedy, reward=self.reward, by=(self.column,)).measure(run, recipe, world)
        start = f"held_out/{self.column}/"
        return {**found, "held_out/macro": macro({name: value for name, value in found.items() if name.startswith(start)})}


@dataclass(frozen=True)
class SignedAnswer(FencedCalls):
    """Calls as fenced blocks. Only the last text between <<< and >>> is the answer."""

    def read(self, action: str, tools: Sequence[Tool]) -> Said:
        said = super().read(action, tools)
        if not isinstance(said, Answer):
            return said
        signed = re.findall("<<<(.*?)>>>", action[-TAIL:], re.DOTALL)
        return Answer(signed[-1].strip()) if signed and signed[-1].strip() else None

    def answer(self, text: str) -> str:
        return f"<<<{text}>>>"

    def describe(self, tools: Sequence[Tool]) -> str:
        return f"{super().describe(tools)}. Answer: {self.answer('...')}"


INTERPRETER = Tools(tools=Frozen(python=Python()), form=SignedAnswer(), calls=5)

r1_code_interpreter = grpo.derive(
    "r1_code_interpreter",
    "Words or programs in every turn, over many kinds of tasks: SFT on mixed traces, then GRPO with the verdict alone.",
    family="agents",
    environment=INTERPRETER,
    rollout=Episodes(),
    reward=CodeOrWords(),
    objective__kl__coefficient=0.001,
    setting__group=5,
    schedule=Stages(Frozen(sft=Stage(sft, Steps(150), changes=Frozen(environment=INTERPRETER)), rl=Stage(until=Steps(200)))),
    study=MacroAccuracy(),
)

_TERMS: dict[str, Any] = {
    "task": "python_tool",
    "options": {"level": "1", "instruction": "false", "words": "0.5"},
    "fields": {
        "prompts": "4", "group": "8", "learning_rate": "3e-4", "eval_every": "0", "study.problems": "64", "study.greedy": "false",
        "schedule": "ConstantSchedule",
    },
    "budget": "steps=16",
    "seeds": 3,
}  # fmt: skip

claims = (
    Claim(
        says="From a start that was shown both kinds of traces, accuracy on 14 kinds of questions is at least 0.1 above the same training without execution.",
        source="arXiv:2505.21668, table 1 (text and code above text alone); the start, the task, the sizes and the effect's size are ours",
        against="r1_code_interpreter --environment.calls=0",
        measure="accuracy",
        better_by=0.1,
        script="benchmarks.warmed r1_code_interpreter",
        **_TERMS,
    ),
    Claim(
        says=(
            "After these steps an answer has a program exactly where the question needs one in at least 0.65 of the cases, so programs are more "
            "frequent by 0.3 where they are needed."
        ),
        source="arXiv:2505.21668, section 4 (choice between text and code); the row's 30 points; the start, the task and the sizes are ours",
        measure="reward/choice:last",
        better_by=0.65,
        script="benchmarks.warmed r1_code_interpreter-choice",
        **_TERMS,
    ),
)
