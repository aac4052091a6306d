"""Clip and Delta: the step scores of a process reward model are bounded, and their differences are the rewards, so repeated easy steps earn nothing.

    r_k = alpha d_k, quad r_K "also gets" s
    q'_k = min(q_k - eta, 0)
    d_k = q'_k - q'_(k+1), quad d_K = q'_K

The steps 1 to K of a solution have the scores $q_k in [0, 1]$ of a process reward model, and s is 1 if the solution is right, else 0. The reward $r_k$
belongs to the last token of step k. With $d_k = q_k$ (`refine` "none") the sum of the rewards grows with K. So the policy learns to repeat easy right
steps. Clip makes all scores at most 0: a good step earns nothing, and a bad step costs reward. Delta makes the sum of the rewards from step k to the
end equal to $q_k$, so the return of a step is the step's own score, and a repetition adds nothing. The recipe uses Clip and then Delta. PPO learns
from the rewards, with a critic, gamma 1 and a KL penalty of 0.1 in the reward. Metrics: `reward/verified` (s), `reward/steps` (K), `reward/scores`
(the sum of $q_k$).

Use if: a process reward model exists, and the policy makes its answers longer to collect scores.
Avoid if: only whole answers can be scored, because a score of the whole answer adds little to s (see ppo).
Reference: Gao et al., On Designing Effective RL Reward at Training Time for LLM Reasoning, arXiv:2410.15115, section 4 (Clip, Delta).
Departures: No code of the authors was read. Our catalogue gives this form of $d_K$. As we remember it, the paper drops the score of the last step, because s
replaces this score; `--reward.last dropped` has this form: $d_(K-1) = q_(K-1)$ and $d_K = 0$. The sum is $q_1$ in both forms. The values alpha 0.02 and eta
0.5 are not confirmed. With `eta` None, eta is the mean score of the batch's steps. The arm with one score of the whole solution is left out. The default
judge of steps is a rule: a step with a true equation scores 0.9, and a step with any other equation scores 0.1. With this rule a repeated true equation is a
hack. For a trained judge, set `--reward.scorer LearnedScores --players.prm.model FOLDER` (a run of process_reward_model).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol

import numpy as np

from gradus.credit.step_values import sigmoid
from gradus.papers.bases.ppo import ppo
from gradus.recipe.claim import Claim, same_weights
from gradus.rewards.combine import Combines
from gradus.rewards.step_scores import scores_at_ends, step_numbers
from gradus.rewards.verified import Verified
from gradus.types import Frozen, Group, Trajectory, UserError
from gradus.types.parts import Judgement, Signals, Task, World
from gradus.types.ranges import check_ranges
from gradus.types.signals import Signal, Values
from gradus.types.spans import STEPS, Marking

Refine = Literal["none", "clip", "delta", "clip_delta"]
_EQUATION = re.compile(r"([0-9+*-]+)=(-?[0-9]+)")


def clipped(scores: np.ndarray, eta: float) -> np.ndarray:
    """Returns min(q_k - eta, 0), [K]."""
    return np.minimum(scores - eta, 0.0)


def deltas(scores: np.ndarray, last: str = "own") -> np.ndarray:
    """Returns q_k - q_(k+1), [K]; the last one is q_K. With `last` "dropped", q_K counts as 0 before the differences."""
    kept = scores if last == "own" else np.append(scores[:-1], 0.0)[: len(scores)]
    return kept - np.append(kept[1:], 0.0)


def refined(scores: np.ndarray, refine: Refine, eta: float, last: str = "own") -> np.ndarray:
    """Returns the step rewards before alpha, [K]."""
    found = clipped(scores, eta) if refine in ("clip", "clip_delta") else scores
    return deltas(found, last) if refine in ("delta", "clip_delta") else found


class StepScorer(Protocol):
    @property
    def needs(self) -> tuple[Signal, ...]: ...

    def scores(self, trajectory: Trajectory, signals: Signals, world: World) -> tuple[np.ndarray, np.ndarray]:
        """Returns (the score of every step [K], the last action of every step [K])."""
        ...


@dataclass(frozen=True)
class TrueEquations:
    """Scores each step with an equation by a rule: `high` if the equation is true, `low` if it is false. Other steps have no score."""

    marking: Marking = STEPS
    high: float = 0.9
    low: float = 0.1
    needs: ClassVar[tuple[Signal, ...]] = ()

    def scores(self, trajectory: Trajectory, signals: Signals, world: World) -> tuple[np.ndarray, np.ndarray]:
        numbers = step_numbers(self.marking, trajectory, world)
        tokens = np.concatenate([np.zeros(0, np.int64), *(c.sequence[c.action_positions] for c in trajectory.contexts)])
        found: list[float] = []
        places: list[int] = []
        for number in dict.fromkeys(numbers[numbers >= 0].tolist()):
            own = np.flatnonzero(numbers == number)
            if (match := _EQUATION.search(world.text(tokens[own], trajectory.player))) is not None:
                found.append(self.high if holds(match[1], int(match[2])) else self.low)
                places.append(int(own[-1]))
        return np.array(found), np.array(places, np.int64)


@dataclass(frozen=True)
class LearnedScores:
    """Scores each step by a process reward model: the sigmoid of the player's value head at the end of the step."""

    player: str = "prm"
    marking: Marking = STEPS

    @property
    def needs(self) -> tuple[Signal, ...]:
        return (Values(player=self.player),)

    def scores(self, trajectory: Trajectory, signals: Signals, world: World) -> tuple[np.ndarray, np.ndarray]:
        numbers = step_numbers(self.marking, trajectory, world)
        ends = [int(np.flatnonzero(numbers == n)[-1]) for n in dict.fromkeys(numbers[numbers >= 0].tolist())]
        return sigmoid(scores_at_ends(signals[Values(player=self.player)][trajectory.id], numbers)), np.array(ends, np.int64)


def holds(expression: str, result: int) -> bool:
    """Returns whether a sum of products of whole numbers has this result. False if the text is not a sum of products of whole numbers.

    >>> holds("4*6+3", 27), holds("7+5", 13), holds("7++5", 12)
    (True, False, False)
    """
    if not re.fullmatch(r"\d{1,9}(?:[+*-]\d{1,9}){0,9}", expression):
        return False
    terms = re.findall(r"([+-]?)([\d*]+)", expression)
    total = sum((-1 if sign == "-" else 1) * int(np.prod([int(n) for n in product.split("*")])) for sign, product in terms)
    return total == result


@dataclass(frozen=True)
class RefinedSteps(Combines):
    """A reward: the task's verdict. In addition, the last action of each step gets alpha times the refined score of the step."""

    scorer: StepScorer = TrueEquations()
    refine: Refine = "clip_delta"
    alpha: float = 0.02
    eta: float | None = 0.5  # None: the mean score of the batch's steps
    last: Literal["own", "dropped"] = "own"
    name: ClassVar[str] = "refined_steps"

    def __post_init__(self) -> None:
        check_ranges(self, alpha="[0, inf)", eta="[0, 1]")
        for field, known in (("refine", ("none", "clip", "delta", "clip_delta")), ("last", ("own", "dropped"))):
            if getattr(self, field) not in known:
                raise UserError(f"RefinedSteps.{field} is {getattr(self, field)!r}; it must be one of {', '.join(known)}")

    @property
    def needs(self) -> tuple[Signal, ...]:
        return self.scorer.needs

    def check(self, task: Task) -> None:
        Verified().check(task)

    async def score(self, groups: Sequence[Group], signals: Signals, world: World) -> list[list[Judgement]]:
        verdicts = await Verified().score(groups, signals, world)
        found = [[self.scorer.scores(t, signals, world) for t in g.trajectories] for g in groups]
        every = np.concatenate([np.zeros(0), *(scores for row in found for scores, _ in row)])
        eta = self.eta if self.eta is not None else float(every.mean()) if len(every) else 0.0
        return [[self._judged(t, v, *f, eta) for t, v, f in zip(g.trajectories, a, b, strict=True)] for g, a, b in zip(groups, verdicts, found, strict=True)]

    def _judged(self, t: Trajectory, verdict: Judgement, scores: np.ndarray, ends: np.ndarray, eta: float) -> Judgement:
        if not isinstance(verdict.reward, int | float):
            return verdict
        paid = self.alpha * refined(scores, self.refine, eta, self.last)
        starts = np.cumsum([0, *(c.actions for c in t.contexts)])
        context = np.searchsorted(starts, ends, side="right") - 1
        steps = tuple((int(c), int(a), "step", float(r)) for c, a, r in zip(context, ends - starts[context], paid, strict=True))
        parts = Frozen(verified=verdict.reward, steps=float(len(scores)), scores=float(scores.sum()))
        return Judgement(float(verdict.reward) + float(paid.sum()), parts, steps)


prm_clip_delta = ppo.derive(
    "prm_clip_delta",
    "The step scores of a process reward model are bounded, and their differences are added to the verdict.",
    family="rewards",
    reward=RefinedSteps(),
    credit__coefficient=0.1,
)

_TERMS = {"prompts": "8", "group": "8", "learning_rate": "3e-4", "warmup": "0", "eval_every": "0", "study.problems": "64", "study.greedy": "false"}
_MIX = {"reward.alpha": "1.0", "credit.coefficient": "0.01"}

claims = (
    same_weights(
        says="With alpha 0 the final weights are those of PPO with the same KL penalty.",
        source="arXiv:2410.15115, section 4: the success reward alone",
        against="ppo --credit.coefficient 0.1", own={"reward.alpha": "0"},
    ),
    Claim(
        says="With alpha 1, answers at the end are at most 0.75 times as long as with the scores alone.",
        source="arXiv:2410.15115, section 3 (repeated steps under the plain mix) and section 4; the factor, alpha and the task are ours",
        against="prm_clip_delta --reward.refine none",
        measure="length:last", at_most=0.75, task="arithmetic", options={"level": "2"},
        fields={**_TERMS, **_MIX}, budget="steps=25",
    ),
    Claim(
        says="With alpha 1, held-out accuracy is at least 0.95 times that of the verdict alone.",
        source="arXiv:2410.15115, tables of section 5; the task, its budget and the bound are ours",
        against="prm_clip_delta --reward.alpha 0",
        measure="accuracy", at_least=0.95, task="arithmetic", options={"level": "2"},
        fields={**_TERMS, "credit.coefficient": "0.01"}, own={"reward.alpha": "1.0"}, budget="steps=25", problems=100, samples=2,
    ),
)
