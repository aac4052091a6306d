"""E3-RL4LLMs: gives hard problems more answers and easy ones fewer, and steers the temperature so that the policy keeps the entropy of the first step.

    n_q = n_min + floor((n B - n_min B) rank_q / (sum_j rank_j)) <= n_max
    n_min = max(n - u e, n_low), quad n_max = min(n + u e, n_high)
    tau_(s + 1) = tau_s (1 + tau_s (ln(d H_1 / H_s)) / (ln V + ln ln V))
    d = (1 - f) 1/2 (1 + cos(pi t)) + f

$rank_q$ in [0, 1) is the share of all problems that were solved more often than q, over all their answers so far. A batch of B problems has n B
answers, with n = 8. After e passes over the problems each of them gets at least $n_min$ answers and at most $n_max$, with u = 2, $n_low$ = 4 and
$n_high$ = 12. The remainder of the division goes to the problems with the highest ranks that have fewer than $n_max$ answers. In the first pass all
problems get n answers.

$H_s$ is the mean entropy of step s at its temperature $tau_s$, V the size of the vocabulary, and $tau_1 = 1$. If the entropy falls below that of the
first step, the temperature rises. Sampling and log-probabilities use the same temperature. Over the last 40 % of the steps d falls from 1 to f = 0.9
along a cosine; t in [0, 1] is the finished share of this end. Before it d is 1. The advantage is GRPO's, in each problem's own group. Metrics:
allotted_most (answers to one problem), entropy. The temperature of each step is stored with its answers.

Use if: problems differ in difficulty and come again, and the entropy of the policy collapses early.
Avoid if: every problem is new, because without a memory there are no ranks. If most hard problems are impossible, more answers to them are wasted
(see mopps).
Reference: Liao et al., Enhancing Efficiency and Exploration in Reinforcement Learning for LLMs, EMNLP 2025, arXiv:2505.18573. The values n = 8, the
bounds 4 and 12, u = 2, no KL, one update per batch of 64 problems and the annealing are as in the released scripts. The learning rate is 2e-6 for 7B
and 5e-6 for 1.5B.
Departures: The ranks use all answers up to the step before; the paper sorts after each pass. Problems with equal shares have a common rank. The
released code limits only the surplus to $n_max$, so a batch with few hard problems can exceed $n_max$. The temperature stays in [0.1, 10], and an
entropy of 0 leaves it unchanged. V is a field, `--schedule.vocabulary`, with the size for the paper's models; set it for other models. From a source
without end the pool takes 256 problems. The bias for short answers to easy problems, an option of the code, is left out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from gradus.curricula.allotment import ByRank
from gradus.curricula.rates import Mean, Nearest, SuccessRates
from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim, same_weights
from gradus.schedules.paths import with_value
from gradus.types.errors import UserError
from gradus.types.moments import Event, Moment
from gradus.types.ranges import check_ranges

TEMPERATURE = "setting.temperature"


def steered(temperature: float, entropy: float, target: float, vocabulary: int) -> float:
    """Returns the next temperature: tau (1 + tau ln(target / entropy) / (ln V + ln ln V)). Entropies in nats, above 0.

    >>> round(steered(1.0, 0.5, 1.0, 32), 4), round(steered(1.0, 2.0, 1.0, 32), 4)
    (1.1472, 0.8528)
    """
    size = math.log(vocabulary)
    return temperature * (1 + temperature * math.log(target / entropy) / (size + math.log(size)))


def annealed(progress: float, factor: float) -> float:
    """Returns (1 - f) (1 + cos(pi t)) / 2 + f: 1 at the progress t = 0, and `factor` at t = 1.

    >>> annealed(0.0, 0.9), annealed(1.0, 0.9)
    (1.0, 0.9)
    """
    return (1 - factor) * 0.5 * (1 + math.cos(math.pi * progress)) + factor


@dataclass(frozen=True)
class SteadyEntropy:
    """Steers the temperature so that the entropy of the policy stays at its value in the first step. At the end of the run the target falls a little.

    A step without an update changes nothing.
    """

    vocabulary: int = 152_064  # V, the size of the model's vocabulary
    end: float = 0.4  # share of the steps over which the target falls
    factor: float = 0.9  # the target at the end, as a share of the first entropy
    low: float = 0.1  # smallest temperature
    high: float = 10.0  # largest temperature

    def __post_init__(self) -> None:
        check_ranges(self, vocabulary="[3, inf)", end="[0, 1]", factor="(0, 1]", low="(0, inf)", high="(0, inf)")
        if self.low > self.high:
            raise UserError(f"SteadyEntropy.low is {self.low}, which is above SteadyEntropy.high ({self.high}); set low to {self.high} or less")

    def start(self) -> dict[str, Any]:
        return {"temperature": None, "first": None}

    def sets(self, recipe: Any) -> tuple[tuple[str, Any], ...]:
        return ((TEMPERATURE, self.low), (TEMPERATURE, self.high))

    def at(self, now: Moment, recipe: Any, state: dict[str, Any]) -> tuple[Any, tuple[Event, ...], dict[str, Any]]:
        """Returns the recipe with the next temperature. The state has this temperature, and the entropy of the first step with an update."""
        given = 1.0 if recipe.setting.temperature is None else recipe.setting.temperature
        value = given if state["temperature"] is None else state["temperature"]
        entropy, first = now.last.get("entropy"), state["first"]
        if entropy is not None and "learning_rate" in now.last:
            if first is None:
                first = entropy
            elif entropy > 0 and first > 0:
                target = first * annealed(self.ended(now.step - 1, now.steps), self.factor)
                value = min(max(steered(value, entropy, target, self.vocabulary), self.low), self.high)
        return with_value(recipe, TEMPERATURE, value), (), {"temperature": value, "first": first}

    def ended(self, step: int, steps: int) -> float:
        """Returns the finished share of the end phase, in [0, 1], after `step` of `steps` steps.

        >>> [SteadyEntropy().ended(step, 100) for step in (50, 60, 80, 100)]
        [0.0, 0.0, 0.5, 1.0]
        """
        length = int(steps * self.end)
        return min(max((step - (steps - length)) / length, 0.0), 1.0) if length else 0.0


e3_rl4llms = grpo.derive(
    "e3_rl4llms",
    "Hard problems get more answers than easy problems, and the temperature keeps the entropy of the policy at its first value.",
    family="data",
    curriculum=SuccessRates(estimate=Mean(), choice=Nearest(), keep=1.0, factor=1, allot=ByRank(low=4, high=12, step=2)),
    schedule=SteadyEntropy(),
    setting__temperature=1.0,
    objective__kl=None,
    players__reference=None,
)

claims = (
    same_weights(
        says="With equal groups and a constant temperature the final weights are those of GRPO without a KL term.",
        source="arXiv:2505.18573, GRPO as the method without its two parts",
        against="grpo --objective.kl none --players.reference none --temperature 1.0",
        own={"schedule": "ConstantSchedule", "curriculum.allot": "none", "curriculum.pool": "none"},
    ),
    Claim(
        says="If problems have many right answers, the entropy in the last of 12 steps is at least 1.2 times that with a constant temperature.",
        source="arXiv:2505.18573, figure of the entropy; the ground, the rate and the size of the effect are ours",
        against="e3_rl4llms --schedule ConstantSchedule",
        measure="entropy:last",
        at_least=1.2,
        ground="many_ways",
        own={"schedule.vocabulary": "103"},
        fields={"eval_every": "0"},
    ),
)
