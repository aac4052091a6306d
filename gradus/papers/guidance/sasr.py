"""SASR: after a warm-up with worked solutions, each step is drawn: imitation or GRPO. The gradient norm of imitation sets the probability.

    p_s = G_last / (G_last + gamma G_warm)
    step s = (loss_SFT if u < p_s; loss_GRPO otherwise), quad u ~ U(0, 1)
    loss_SFT = -1/Z sum_y sum_t log pi(y_t | x, y_(<t))
    loss_GRPO = 1/G sum_i 1/|o_i| sum_t -min(rho A_i, clip(rho, 1 - 0.2, 1 + 0.2) A_i) + 0.04 KL

G_warm is the mean norm of the gradient of imitation in the warm-up, and G_last the norm in the last step of imitation. Norms are measured before clipping. A
small norm says that the policy is close to the solutions. So p falls while the policy learns from the solutions, and rises again if RL moves the policy away
from the solutions. Right after the warm-up p is about 1 / (1 + gamma). Z counts the tokens of the solutions y. A_i, rho and KL are as in GRPO.
The reference of KL is the policy at the end of the warm-up. After `forced` GRPO steps in a row, one step of imitation renews G_last.

Use if: worked solutions exist for the task's own problems, and SFT alone overfits while RL alone learns too slowly.
Avoid if: no solutions exist (see grpo). For a fixed mixture in each step, see chord. For solutions within the groups, see luffy.
Reference: Chen et al., Step-wise Adaptive Integration of Supervised Fine-tuning and Reinforcement Learning for Task-Specific LLMs, arXiv:2505.13026 (the
probability, gamma 1, the warm-up of one epoch). We read a summary, but not the paper, and found no public code.
Departures: The warm-up has 50 steps. The norm is the L2 norm of the whole gradient, and G_warm the mean over the whole warm-up. The forced step after
20 GRPO steps is our choice; `--schedule.forced 0` switches it off. The paper also rewards the form of an answer; here a task's verifier decides
alone. It is our choice that the reference is the policy at the end of the warm-up.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from gradus.credit.groups import Constant
from gradus.objectives.terms import Imitation
from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim, same_weights
from gradus.rollouts.auto import Auto
from gradus.rollouts.demonstrations import Demonstrations
from gradus.schedules.paths import with_value
from gradus.types.moments import CopyWeights, Event, Moment
from gradus.types.parts import Rollout
from gradus.types.ranges import check_ranges


def imitation_chance(last: float, warm: float, *, gamma: float) -> float:
    """Returns G_last / (G_last + gamma G_warm); 1 if both norms are 0."""
    total = last + gamma * warm
    return last / total if total > 0 else 1.0


@dataclass(frozen=True)
class ByGradientNorm:
    """Sets the rollout of each step: `imitate` in the warm-up and with probability p, else `explore`. The gradient norms of imitation give p.

    A step of imitation has the credit `Constant`.
    """

    gamma: float = 1.0  # weight of the warm-up's norm; 0: imitation only
    warmup: int = 50  # number of steps of imitation at the start
    forced: int = 20  # a step of imitation follows this many steps of RL in a row; 0: never
    imitate: Rollout = Demonstrations()
    explore: Rollout = Auto()
    reference: str | None = "reference"  # this player gets the policy's weights at the end of the warm-up; None: no player gets them

    def __post_init__(self) -> None:
        check_ranges(self, gamma="[0, inf)", warmup="[1, inf)", forced="[0, inf)")

    @property
    def causes(self) -> tuple[Event, ...]:
        return () if self.reference is None else (CopyWeights("policy", self.reference),)

    def start(self) -> dict[str, Any]:
        return {"warm": 0.0, "count": 0, "last": None, "imitated": False, "since": 0}

    def sets(self, recipe: Any) -> tuple[tuple[str, Any], ...]:
        return (("rollout", self.imitate), ("credit", Constant()), ("rollout", self.explore))

    def at(self, now: Moment, recipe: Any, state: dict[str, Any]) -> tuple[Any, tuple[Event, ...], dict[str, Any]]:
        """Returns the recipe with the rollout of the step. At the end of the warm-up it also returns the event that copies the weights to `reference`."""
        seen = seen_norm(state, now, self.warmup)
        imitates = now.step < self.warmup or self._draws(now, seen) or 0 < self.forced <= seen["since"]
        events = self.causes if now.step == self.warmup else ()
        new = {**seen, "imitated": imitates, "since": 0 if imitates else seen["since"] + 1}
        found = with_value(with_value(recipe, "rollout", self.imitate), "credit", Constant()) if imitates else with_value(recipe, "rollout", self.explore)
        return found, events, new

    def _draws(self, now: Moment, seen: dict[str, Any]) -> bool:
        warm = seen["warm"] / max(seen["count"], 1)
        last = warm if seen["last"] is None else seen["last"]
        return bool(now.key.fold("imitates").uniform()[()] < imitation_chance(last, warm, gamma=self.gamma))


def seen_norm(state: dict[str, Any], now: Moment, warmup: int) -> dict[str, Any]:
    """Returns the state with the norm of the step before, if that step was a step of imitation. A step that was skipped has no norm."""
    norm = now.last.get("grad_norm")
    if not state["imitated"] or norm is None or not math.isfinite(norm):
        return state
    warming = now.step <= warmup
    return {**state, "last": norm, "warm": state["warm"] + norm * warming, "count": state["count"] + warming}


sasr = grpo.derive(
    "sasr",
    "Each step is imitation or GRPO; the gradient norm of imitation sets the probability.",
    family="guidance",
    objective__imitation=Imitation(),
    schedule=ByGradientNorm(),
    requires=frozenset({"solution"}),
)

_SMALL = {"prompts": "8", "group": "8", "learning_rate": "3e-4", "warmup": "0", "eval_every": "0", "study.problems": "64", "study.greedy": "false"}

claims = (
    same_weights(
        says="With gamma = 0 every step is imitation, and the final weights are those of SFT on as many solutions.",
        source="arXiv:2505.13026, the probability at gamma 0",
        against="sft --curriculum ShuffledEpochs",
        own={"schedule.gamma": "0", "schedule.warmup": "1"},
        fields={"prompts": "4", "group": "4", "study": "none", "warmup": "0"},
    ),
    Claim(
        says="On puzzles of knights and knaves, held-out accuracy after 24 steps is at least 0.02 above that of 8 steps of SFT and 16 of GRPO.",
        source="arXiv:2505.13026, table of main results (above SFT followed by RL); the task, the numbers of steps and the size of the effect are ours",
        against="sft:8,grpo:16",
        measure="accuracy",
        better_by=0.02,
        task="knights_knaves",
        fields=_SMALL,
        own={"schedule.warmup": "8"},
        budget="steps=24",
        problems=100,
    ),
)
