"""QwenLong-L1: RL for long documents. The length of the inputs grows in phases, and hard problems of earlier phases come again.

    "phase" k: L_(k-1) < "tokens of the input" <= L_k
    P(x) prop 1 / m(x), quad m(x) = "mean reward of the answers to" x "so far, at least" 1 / (2 G)
    R = max(r_rule, r_judge)
    A_i = (R_i - mean(R)) / (std(R))

The phases have the bounds $L_0 = 0$, 20000 and 60000 tokens; a phase draws new problems from its own band only. From the second phase on, a fifth of
each step consists of problems of earlier phases. These problems are drawn without replacement with the probability P; G = 8 is the number of answers.
A problem that was drawn twice and never solved is not drawn again. The optimiser resets its moments at the start of a phase. An answer is right if a
rule finds the reference answer, or if a judge calls both answers equivalent, because a rule alone misses other wordings. The loss is GRPO with a mean
over tokens, four updates per batch, clip 0.2 and no KL term, on groups with right and wrong answers. A warm-up by SFT is an additional first stage:
`sft:100,qwenlong_l1:400`.
Metrics: input_length, retrospective (share).

Use if: inputs differ much in length, and a model that solves short inputs fails on long inputs.
Avoid if: all inputs have about the same length (see gain_rl for an order by difficulty).
Reference: Wan et al., QwenLong-L1: Towards Long-Context Large Reasoning Models with Reinforcement Learning, arXiv:2505.17667. The released script
(Tongyi-Zhiwen/QwenLong-L1) has clip 0.2, 128 prompts in mini-batches of 32, temperature 0.7, and the filter by accuracy.
Departures: Our own choices are the floor 1 / (2 G), the fifth, the two visits, the reset of the optimiser and the 200 steps of the first phase. The
released script is the second phase without phases and without repeated problems. The judge is the comparison `TwoWay`, a script in place of a small
model; `--reward.judge PART` sets another judge. The penalty on answers near the limit (the last 1000 of 10000 tokens) and top-p 0.95 are left out,
and groups that the filter drops are not replaced. The learning rate of the script, 2e-6, is a field. The deviation is the population deviation.
Lengths are the lengths of the prompts in the policy's tokens.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from gradus.curricula.shuffled_epochs import problems_at
from gradus.objectives.aggregation import TokenMean
from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim, same_weights
from gradus.rewards.combine import Combines, check_reward
from gradus.rewards.two_way import TwoWay
from gradus.rewards.verified import Verified
from gradus.selection.filters import Mixed
from gradus.types import Failed, Frozen, Group, Request, UserError
from gradus.types.moments import Event, Moment, ResetOptimizer
from gradus.types.parts import Judgement, Reward, Signals, Source, Task, World
from gradus.types.ranges import check_ranges
from gradus.types.signals import Signal


def chances(means: Sequence[float], floor: float) -> np.ndarray:
    """Returns probabilities proportional to 1 / max(mean, floor), which add up to 1.

    >>> chances([1.0, 0.5, 0.25], 0.01).round(3).tolist()
    [0.143, 0.286, 0.571]
    """
    weights = 1 / np.maximum(np.asarray(means, np.float64), floor)
    return np.asarray(weights / weights.sum())


@dataclass(frozen=True)
class LengthPhases:
    """Requests problems whose prompts lie in the length band of the phase, and hard problems of earlier phases.

    Phase k has the band (bounds[k], bounds[k + 1]] in tokens, and `steps[k]` steps; the last phase lasts to the end. The pool consists of the first `pool`
    problems of the source. A band without problems is an error.
    """

    bounds: tuple[int, ...] = (0, 20000, 60000)
    steps: tuple[int, ...] = (200,)  # number of steps of each phase except the last
    share: float = 0.2  # from the second phase on, this share of the requests is for problems of earlier phases
    visits: int = 2  # after this number of visits without a right answer, a problem is not drawn again
    pool: int = 1024

    def __post_init__(self) -> None:
        check_ranges(self, share="[0, 1)", visits="[1, inf)", pool="[1, inf)")
        if len(self.bounds) != len(self.steps) + 2 or list(self.bounds) != sorted(set(self.bounds)):
            raise UserError(
                f"LengthPhases.bounds is {self.bounds} and LengthPhases.steps is {self.steps}; give bounds in rising order, and two "
                "more bounds than steps"
            )

    def start(self) -> dict[str, Any]:
        return {"drawn": [0] * (len(self.steps) + 1), "lengths": [], "phase": 0, "seen": {}, "index": {}}

    def phase(self, step: int) -> int:
        """Returns the number of the phase of a step."""
        return int(np.searchsorted(np.cumsum(self.steps), step, side="right")) if self.steps else 0

    def choose(self, source: Source, count: int, world: World, state: dict[str, Any]) -> tuple[list[Request], dict[str, Any]]:
        pool = list(range(self.pool if source.size is None else min(self.pool, source.size)))
        every = problems_at(source, pool, world)
        lengths = state["lengths"] or [len(world.prompt(Request(p)).sequence) for p in every]
        phase = self.phase(world.step)
        band = [i for i in pool if self.bounds[phase] < lengths[i] <= self.bounds[phase + 1]]
        if not band:
            raise UserError(f"LengthPhases: no problem of the pool has {self.bounds[phase] + 1} to {self.bounds[phase + 1]} tokens; change --curriculum.bounds")
        old = self._old(count, phase, world, state)
        new = count - len(old)
        first = state["drawn"][phase]
        fresh = [band[world.seed.fold("phase", phase, n // len(band)).permutation(len(band))[n % len(band)]] for n in range(first, first + new)]
        chosen = [*fresh, *old]
        world.note("retrospective", len(old) / max(count, 1))
        world.note("input_length", float(np.mean([lengths[i] for i in chosen])))
        drawn = [n + new if k == phase else n for k, n in enumerate(state["drawn"])]
        index = {**state["index"], **{every[i].id: [i, phase] for i in fresh if every[i].id not in state["index"]}}
        return [Request(every[i], count=world.group) for i in chosen], {**state, "lengths": lengths, "drawn": drawn, "index": index}

    def _old(self, count: int, phase: int, world: World, state: dict[str, Any]) -> list[int]:
        """Returns the indices of the problems of earlier phases."""
        known = {name: row for name, row in state["seen"].items() if state["index"].get(name, [0, phase])[1] < phase}
        left = [name for name, (total, _, visits) in known.items() if total > 0 or visits < self.visits]
        wanted = min(round(self.share * count), len(left))
        if not wanted:
            return []
        order = world.seed.fold("retrospective", world.step).uniform(len(left))
        odds = chances([known[name][0] / known[name][1] for name in left], 1 / (2 * world.group))
        keys = np.log(order) / odds  # the largest keys are a weighted draw without replacement
        return [state["index"][left[i]][0] for i in np.argsort(-keys)[:wanted]]

    def learn(self, groups: Sequence[Group], dropped: Sequence[Group], world: World, state: dict[str, Any]) -> dict[str, Any]:
        """Returns the state with the sum and the number of the rewards of each problem, and the number of its visits."""
        seen = dict(state["seen"])
        for group in (*groups, *dropped):
            values = [t.value for t in group.trajectories if t.failed is None]
            if values:
                name = group.trajectories[0].problem.id
                total, number, visits = seen.get(name, (0.0, 0, 0))
                seen[name] = [total + sum(values), number + len(values), visits + 1]
        return {**state, "seen": seen}


@dataclass(frozen=True)
class ResetAtPhases:
    """Resets the moments of the optimiser before the first step of each phase of the curriculum, except the first phase."""

    causes: ClassVar[tuple[Event, ...]] = (ResetOptimizer(),)

    def at(self, now: Moment, recipe: Any) -> tuple[Any, tuple[Event, ...]]:
        return recipe, self.causes if now.step in np.cumsum(getattr(recipe.curriculum, "steps", ())) else ()


@dataclass(frozen=True)
class Either(Combines):
    """The larger of the rewards of `rule` and `judge`. If one of the two rewards does not apply, the other reward counts. The component "verified" is
    the result."""

    rule: Reward = Verified()
    judge: Reward = TwoWay()
    name: ClassVar[str] = "either"

    @property
    def needs(self) -> tuple[Signal, ...]:
        return tuple(dict.fromkeys((*self.rule.needs, *self.judge.needs)))

    def check(self, task: Task) -> None:
        check_reward(self.rule, task)
        check_reward(self.judge, task)

    async def score(self, groups: Sequence[Group], signals: Signals, world: World) -> list[list[Judgement]]:
        rows = await asyncio.gather(*(part.score(groups, signals, world) for part in (self.rule, self.judge)))
        return [[self._either(a, b) for a, b in zip(one, two, strict=True)] for one, two in zip(*rows, strict=True)]

    def _either(self, rule: Judgement, judge: Judgement) -> Judgement:
        numbers = [float(j.reward) for j in (rule, judge) if isinstance(j.reward, int | float)]
        parts = {"rule": rule.reward, "judge": judge.reward}
        if lost := next((j for j in (rule, judge) if isinstance(j.reward, Failed)), None):
            return replace(lost, components=Frozen(parts))
        if not numbers:
            return replace(rule, components=Frozen(parts))
        return Judgement(max(numbers), Frozen({"verified": max(numbers), **parts}))


qwenlong_l1 = grpo.derive(
    "qwenlong_l1",
    "The length of the inputs grows in phases, and hard problems of earlier phases come again.",
    family="thinking",
    curriculum=LengthPhases(),
    reward=Either(),
    selection=Mixed(),
    objective__policy__average=TokenMean(),
    objective__kl=None,
    players__reference=None,
    schedule=ResetAtPhases(),
    setting__temperature=0.7,
    update__count=4,
)

claims = (
    same_weights(
        says="If the rule alone judges, the final weights are those of the same recipe with the plain verdict.",
        source="arXiv:2505.17667, the rule-based reward",
        against="qwenlong_l1 --reward Verified",
        own={"reward.judge": "Verified"},
        options={"level": "2"},
        fields={"prompts": "4", "group": "4", "study": "none", "warmup": "0"},
    ),
    Claim(
        says="On problems of three functions, the longest of two bands, the accuracy is at least 3 points above that of one phase over both bands.",
        source=(
            "arXiv:2505.17667, ablation of the phases; the ground, bands up to 20 and up to 32 tokens, 6 of 14 steps, and the effect are ours. Stated "
            "again before a measurement: the optimiser is reset at step 6, where the second phase begins, and no longer at step 200"
        ),
        against="qwenlong_l1 --curriculum LengthPhases(bounds=(0,32),steps=())",
        own={"curriculum.bounds": "(0, 20, 32)", "curriculum.steps": "(6,)"},
        measure="accuracy@middle",
        better_by=0.03,
        ground="ladder",
        fields={"update.count": "4", "curriculum.pool": "200"},
    ),
)
