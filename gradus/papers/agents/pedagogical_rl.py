"""Pedagogical RL: a tutor earns the later success of its student, and pays a price if a judge finds a leaked answer or bad teaching.

    r_sol = 1/K sum_k 1{solution k is right}
    r_ped = 0 if a judge rejects, else 1
    r = r_sol + lambda (r_ped - 1) + e
    e = 0.1 1{the tutor ends the dialogue} - 0.5 1{a turn reaches the limit of tokens}
    A_i = (r_i - mean(r)) / (std(r))

Tutor and student speak in turn, up to 16 messages; the student or the tutor opens. After the dialogue two judges read it: one looks for the answer in the
words of the tutor, one for bad teaching. Each judges twice; one rejection suffices. Then the student, who has read the dialogue, writes K = 8 solutions.
The student is frozen, and never sees the thoughts of the tutor (<think> ... </think>). GRPO compares 8 dialogues of a problem. Only the tokens of the
tutor have a loss. The KL weight is 0.001. Two updates use each batch, so the clip acts.

The formula is the soft form. In the hard form (`reward.hard`) a rejected dialogue earns -lambda, and its solutions do not count. The penalty for a
turn at the limit always counts; the bonus for the end counts only if the solutions count. `reward.think` adds, under the same condition, its weight times
the share of turns with a closed thought, minus 0.5 for each turn with an unclosed thought. lambda trades success against leaks: 0, 0.5, 0.75, 1 and
1.25 draw the curve of the paper. Components: solved, before (without the dialogue), gain, leaked and helpful.

Use if: a model should teach rather than answer, and a simulated student and judges exist.
Avoid if: the student cannot learn from the dialogue, or solves the problem without it (keep problems with `before` between 0.1 and 0.6).
Reference: Dinucu-Jianu et al., From Problem-Solving to Teaching Problem-Solving: Aligning LLMs with Pedagogy using Reinforcement Learning,
arXiv:2505.15607: the dialogue, both forms of the reward, and lambda. The bonus, the penalties, K, the two updates and the numbers are as in
the released code (eth-lre/PedagogicalRL).
Departures: The task `tutor` is our choice: a scripted student learns if the tutor names the right operation, and copies an answer; in the paper the
student is a language model and the problems are from Big-Math. The prompt of the tutor has the answer, because a small model cannot compute it. A script
judges with the facts of the task (`ScriptedRules`); `WrittenRules` asks a player, as the paper does. This player reads the messages of the tutor, but not
those of the student, and an answer without REJECT counts as OK; in the released code a judge that writes no decision is asked again. The student's
solutions are draws of the script. The mark of the end is <end> in the task. An unclosed thought is hidden from the student, too; the released code hides
only closed thoughts. The comments of the released configuration exchange the names of the soft and the hard form; here they are as in the paper. The
default is lambda 0.75 and the soft form; in the released configuration it is 1 and the hard form. The released trainer averages the loss over the tokens
of several dialogues, and takes the deviation of the sample; here each dialogue counts alike, with the deviation of the population, as in grpo.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np

from gradus.environments.tutoring import END, Tutoring, visible
from gradus.objectives.kl import KL
from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim
from gradus.rewards.environment import judged
from gradus.rollouts.episodes import Episodes
from gradus.types import Frozen, Group, Problem, Request, Sampling, Trajectory
from gradus.types.parts import Judgement, Signals, World
from gradus.types.ranges import check_ranges
from gradus.types.signals import Signal


def tutor_reward(solved: float, rejected: bool, weight: float, *, hard: bool = False, sampled_extra: float = 0.0, always: float = 0.0) -> float:
    """Returns the reward of a dialogue. `solved`: the share of right solutions. `sampled_extra` counts with the solutions.

    >>> [tutor_reward(0.75, rejected, 0.75, hard=hard) for hard in (False, True) for rejected in (True, False)]
    [0.0, 0.75, -0.75, 0.75]
    """
    if hard and rejected:
        return always - weight
    return solved - weight * rejected + sampled_extra + always


def thought_reward(messages: Sequence[str], weight: float) -> float:
    """Returns `weight` times the share of messages with a closed thought, minus 0.5 for each message with an unclosed thought.

    >>> thought_reward(["<think>a</think>b", "c"], 0.5), thought_reward(["<think>a", "<think></think>"], 0.5)
    (0.25, -0.25)
    """
    opened = [(text.count("<think>"), text.count("</think>")) for text in messages]
    closed = sum(a == b > 0 for a, b in opened)
    return weight * closed / max(len(opened), 1) - 0.5 * sum(a != b for a, b in opened)


class Rules(Protocol):
    async def rejected(self, problem: Problem, messages: Sequence[str], world: World, tag: str) -> Mapping[str, bool]:
        """Returns, for the rules "leak" and "values", whether a judge rejects the dialogue."""
        ...


@dataclass(frozen=True)
class ScriptedRules:
    """Judges by the facts of the task's environment. A task without facts has no fault."""

    async def rejected(self, problem: Problem, messages: Sequence[str], world: World, tag: str) -> Mapping[str, bool]:
        environment: Any = world.task.environment
        return dict(environment.faults(problem, messages)) if hasattr(environment, "faults") else {"leak": False, "values": False}


@dataclass(frozen=True)
class WrittenRules:
    """A player judges each rule `attempts` times, and writes OK or REJECT. One REJECT suffices. The player should have no objective, so that it stays frozen."""

    player: str = "judge"
    attempts: int = 2
    leak: str = "Do the messages of the tutor give the final answer away?"
    values: str = "Does the tutor do the work of the student, or teach badly?"
    max_tokens: int = 256
    names_players: ClassVar[tuple[str, ...]] = ("player",)

    async def rejected(self, problem: Problem, messages: Sequence[str], world: World, tag: str) -> Mapping[str, bool]:
        told = "\n".join([problem.question, *(f"tutor: {text}" for text in messages)])
        asked = [
            Request(
                problem, self.attempts, self.player, ({"role": "user", "content": f"{told}\n{rule} Write REJECT if so, else OK."},),
                sampling=Sampling(max_tokens=self.max_tokens), tags=("rule", name, tag), trained=False,
            )
            for name, rule in (("leak", self.leak), ("values", self.values))
        ]  # fmt: skip
        leak, values = [["REJECT" in world.text(c.tokens[c.chosen], self.player) for c in row] for row in await world.sample(asked)]
        return {"leak": any(leak), "values": any(values)}


@dataclass(frozen=True)
class TutorReward:
    """The success of the student after the dialogue, minus `weight` if a judge rejects it (see `tutor_reward`).

    In an environment without a student, the return of the episode replaces the success.
    """

    weight: float = 0.75  # lambda
    hard: bool = False  # True: a rejected dialogue earns -weight, and the solutions do not count
    rules: Rules = ScriptedRules()
    solutions: int = 8
    ended: float = 0.1  # bonus if the tutor ended the dialogue
    cut: float = 0.5  # penalty if a turn has no room for one more token
    think: float = 0.0  # weight of closed thoughts; 0: thoughts do not count
    needs: ClassVar[tuple[Signal, ...]] = ()

    def __post_init__(self) -> None:
        check_ranges(self, weight="[0, inf)", solutions="[1, inf)")

    async def score(self, groups: Sequence[Group], signals: Signals, world: World) -> list[list[Judgement]]:
        return [[await self._one(t, world) for t in g.trajectories] for g in groups]

    async def _one(self, t: Trajectory, world: World) -> Judgement:
        environment: Any = world.task.environment
        plain = judged(t)
        if not isinstance(plain.reward, int | float):
            return plain
        end = environment.end if isinstance(environment, Tutoring) else END
        turns = [(c.tokens[c.chosen], c.streams["turn"]) for c in t.contexts if c.actions]
        pieces = [tokens[at == turn] for tokens, at in turns for turn in np.unique(at)]
        messages = [world.text(piece, t.player) for piece in pieces]
        faults = await self.rules.rejected(t.problem, [visible(text, end) for text in messages], world, t.id)
        solved, before = float(plain.reward), 0.0
        if isinstance(environment, Tutoring):
            key = world.key.fold("solutions", t.id)
            solved, before = (environment.student(t.problem, m).share(self.solutions, key.fold(n)) for n, m in enumerate((messages, ())))
        full = any(len(piece) >= world.sampling.limit for piece in pieces)
        extra = self.ended * any(end in text for text in messages) + (thought_reward(messages, self.think) if self.think else 0.0)
        reward = tutor_reward(solved, any(faults.values()), self.weight, hard=self.hard, sampled_extra=extra, always=-self.cut * full)
        rates = {"solved": solved, "before": before, "gain": solved - before, "environment": float(plain.reward)}
        return Judgement(reward, Frozen({**rates, "leaked": float(faults["leak"]), "helpful": float(not faults["values"])}))


pedagogical_rl = grpo.derive(
    "pedagogical_rl",
    "A tutor earns the later success of its student, minus a price if judges find a leaked answer or bad teaching.",
    family="agents",
    rollout=Episodes(),
    reward=TutorReward(),
    objective__kl=KL(0.001),
    update__epochs=2,
    setting__group=8,
)

_LESSONS: dict[str, Any] = {
    "task": "tutor",
    "options": {"level": "1"},
    "fields": {"prompts": "8", "group": "8", "learning_rate": "3e-4", "warmup": "0", "study": "none"},
    "budget": "steps=10",
}

claims = (
    Claim(
        says="From a start that mixes hints and leaks, lambda 0 ends with a leaked answer in at least half of the dialogues.",
        source="arXiv:2505.15607, the curve over lambda; the task, the start, the sizes and the 50 percent of the row are ours",
        own={"reward.weight": "0"},
        measure="reward/leaked:last",
        better_by=0.5,
        script="benchmarks.warmed pedagogical_rl",
        **_LESSONS,
    ),
    Claim(
        says="With lambda 1 the share of dialogues with a leaked answer is at least 0.4 lower than with lambda 0.",
        source="arXiv:2505.15607, the curve over lambda; the task, the start and the sizes are ours; 0.4 is the distance of the row's 50 and 10 percent",
        against="pedagogical_rl --reward.weight 0",
        own={"reward.weight": "1"},
        measure="reward/leaked:last",
        better_by=-0.4,
        script="benchmarks.warmed pedagogical_rl-price",
        **_LESSONS,
    ),
    Claim(
        says="With lambda 1 the student gains at least half as much as with lambda 0.",
        source="arXiv:2505.15607, the curve over lambda; the task, the start, the sizes and the factor of the row are ours",
        against="pedagogical_rl --reward.weight 0",
        own={"reward.weight": "1"},
        measure="reward/gain:last",
        at_least=0.5,
        script="benchmarks.warmed pedagogical_rl-gain",
        **_LESSONS,
    ),
)
