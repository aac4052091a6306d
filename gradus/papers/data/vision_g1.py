"""Vision-G1: keeps problems whose gradients agree with those of held-out problems, and chooses problems of medium difficulty among them in each round.

    I(z) = 1/|V| sum_(v in V) g(z)^T g(v)
    p(z) = share of right answers among m
    D_j = {z : 0.1 <= p(z) <= 0.9}, quad p of round j
    A_i = (r_i - mean(r)) / (std(r))
    loss = 1/G sum_i 1/|o_i| sum_t -min(rho A_i, clip(rho, 1 - 0.2, 1 + 0.28) A_i)

The pool has several sources of problems with verifiers. For a problem z, g(z) is the gradient of the log-likelihood of its worked solution at the
start model. This gradient is projected to 1024 numbers and scaled to length 1. V are 32 held-out problems. The influence I(z) is large if an update
on z raises the likelihood of the solutions to the problems in V. A source whose mean influence is negative is left out. Of every other source the
half with the largest influence is kept.

A round begins with m = 8 answers of the present model to every kept problem. The round trains on the problems D_j, from the easiest to the hardest,
for 50 steps; after the last problem the round begins again with the first. The next round measures all kept problems again. If D_j is empty, all kept
problems are used. The loss has no KL term, and for a negative advantage the ratio is bounded by 10. The source of a problem is its arm, else its
category, else its task. Metrics: influence/SOURCE, sources (number of sources left), in_window (share of the kept problems), pass_rate,
tokens/gradients.

Use if: a pool mixes sources of unknown usefulness, worked solutions exist, and some held-out problems show the goal.
Avoid if: there is one clean source (see difficulty_staged_rl, mmr1_vas), or a backward pass per problem costs too much.
Reference: Zha et al., Vision-G1: Towards General Vision Language Reasoning with Multi-Domain Data Curation, arXiv:2508.12680: selection by influence
and difficulty, and rounds of selection and training. The released scripts (yuh-zha/Vision-G1) have groups of 16 answers, no KL term, and the clip 0.2
and 0.28 with the bound 10. The scripts compute pass rates from 5 answers, but have no window, no order and no code for the influence.
Departures: For the influence, our own choices are the gradient of the worked solution, all weights in place of an adapter, the projection, the
shares, and the sizes of V and of the pool (192 problems of an endless source). Our own choices are also the window from 0.1 to 0.9, 8 answers for a
pass rate, groups of 8, and the number of steps of a round. Log-likelihoods are summed over a solution. The reward is the verdict, without a part for
the form. The released script continues to sample until the answers of a group differ; here `--rollout DynamicSampling --selection Mixed` does so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradus.curricula.influence import chosen_by_influence, influence
from gradus.curricula.shuffled_epochs import problems_at, sweep_order
from gradus.objectives.trust import DualClip
from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim, same_weights
from gradus.rollouts.auto import Auto, rolled
from gradus.rollouts.demonstrations import solved
from gradus.types import Group, Problem, Request
from gradus.types.parts import Source, World
from gradus.types.ranges import check_ranges


def easy_to_hard(rates: Sequence[float], low: float, high: float) -> list[int]:
    """Returns the indices of the pass rates in [low, high], the largest first.

    >>> easy_to_hard([0.0, 0.125, 0.5, 0.875, 1.0], 0.1, 0.9)
    [3, 2, 1]
    """
    return sorted((i for i, rate in enumerate(rates) if low <= rate <= high), key=lambda i: -rates[i])


@dataclass(frozen=True)
class InfluenceAndRates:
    """Draws problems from the easiest to the hardest. The pool is filtered once by influence, and in every round by pass rate."""

    keep: float | None = 0.5  # share of each source that is kept by influence; None: the whole pool
    held_out: int = 32  # number of held-out problems that show the goal
    project: int = 1024  # number of entries of a projected gradient
    low: float = 0.1
    high: float = 0.9
    samples: int = 8  # answers per problem for its pass rate; 0: problems are not filtered by pass rate, and come in the order of the pool
    shuffled: bool = False  # True: shuffled passes over the kept problems (only if `samples` is 0)
    every: int = 50  # number of steps of a round
    pool: int = 192  # number of problems in the pool, if the task generates problems without end

    def __post_init__(self) -> None:
        check_ranges(self, keep="(0, 1]", held_out="[1, inf)", project="[1, inf)", low="[0, 1]", high="[0, 1]")
        check_ranges(self, samples="[0, inf)", every="[1, inf)", pool="[1, inf)")

    def start(self) -> dict[str, Any]:
        return {"step": 0, "place": 0, "kept": [], "order": []}

    async def choose(self, source: Source, count: int, world: World, state: dict[str, Any]) -> tuple[list[Request], dict[str, Any]]:
        """Returns `count` requests. The state contains the number of steps, the kept problems, their order in this round, and the place in this order."""
        size = self.pool if source.size is None else source.size
        kept = state["kept"] or (list(range(size)) if self.keep is None else await self._influential(source, size, world))
        order, place = state["order"], state["place"]
        if state["step"] % self.every == 0:
            order, place = await self._ordered(source, kept, world, place)
        places = self._places(order, range(place, place + count), world)
        requests = [Request(p, count=world.group) for p in problems_at(source, places, world)]
        return requests, {"step": state["step"] + 1, "place": place + count, "kept": kept, "order": order}

    def _places(self, order: list[int], at: range, world: World) -> list[int]:
        """Returns the problems at these places of the round."""
        mixed = self.shuffled and not self.samples
        return [order[i] for i in sweep_order(len(order), at, world.seed)] if mixed else [order[i % len(order)] for i in at]

    async def _influential(self, source: Source, size: int, world: World) -> list[int]:
        """Returns the problems that are kept by influence; all problems if no source is left."""
        problems = problems_at(source, range(size), world)
        goal = world.task.held_out.draw(range(self.held_out), world.task.level, world.seed.fold("goal"))
        contexts = [solved(Request(p), world) for p in (*problems, *goal)]
        rows = await world.gradients(contexts, project=self.project)
        values, names = influence(rows[:size], rows[size:]), [source_of(p) for p in problems]
        for name in dict.fromkeys(names):
            world.note(f"influence/{name}", float(np.mean([v for v, n in zip(values, names, strict=True) if n == name])))
        kept = chosen_by_influence(values, names, self.keep or 1.0)
        world.note("sources", float(len({names[i] for i in kept})))
        return kept or list(range(size))

    async def _ordered(self, source: Source, kept: list[int], world: World, place: int) -> tuple[list[int], int]:
        """Returns the order of a round and the place where it begins."""
        if not self.samples:
            return kept, place
        problems = problems_at(source, kept, world)
        asked = [Request(p, count=self.samples, tags=("rate",), trained=False) for p in problems]
        rates = rates_of(await rolled(Auto(), asked, world), problems)
        chosen = easy_to_hard(rates, self.low, self.high)
        world.note("in_window", len(chosen) / len(kept))
        world.note("pass_rate", float(np.mean(rates)))
        return [kept[i] for i in chosen] or kept, 0


def source_of(problem: Problem) -> str:
    """Returns the name of a problem's source: its arm, else its category, else its task."""
    return str(problem.meta.get("arm") or problem.meta.get("category") or problem.task)


def rates_of(groups: Sequence[Group], problems: Sequence[Problem]) -> list[float]:
    """Returns the share of right answers to each problem; 0 without an answer that has a reward."""
    found = {t.problem.id: g.accuracy for g in groups for t in g.trajectories[:1]}
    return [found.get(p.id) or 0.0 for p in problems]


vision_g1 = grpo.derive(
    "vision_g1",
    "Problems are filtered by the influence of their gradient on held-out problems, then by pass rate in every round, easy ones first.",
    family="data",
    curriculum=InfluenceAndRates(),
    objective__policy__trust=DualClip(0.2, 0.28, 10.0),
    objective__kl=None,
    players__reference=None,
    requires=frozenset({"solution"}),
)

claims = (
    same_weights(
        says="If every problem is kept and the order is not changed, the final weights are those of GRPO over passes of the same problems.",
        source="arXiv:2508.12680, selection by influence and difficulty",
        against="vision_g1 --curriculum SuccessRates --curriculum.factor 1 --curriculum.pool 16",
        own={"curriculum.keep": "none", "curriculum.samples": "0", "curriculum.pool": "16", "curriculum.shuffled": "true"},
        task="shapes",
    ),
    Claim(
        says="On transfer the mean influence of the source whose solutions contradict the others is at most -0.01, so the source is left out.",
        source="arXiv:2508.12680, influence on held-out tasks; the sources and the bound are ours",
        measure="influence/swapped:first",
        better_by=-0.01,
        task="transfer",
        model="gradus/policies/tiny/base",
        fields={"prompts": "2", "group": "2", "study": "none", "curriculum.pool": "60", "curriculum.samples": "0"},
        budget="steps=1",
    ),
    Claim(
        says="On transfer, held-out accuracy after two rounds is at least 0.03 above that of as many steps on the whole pool.",
        source="arXiv:2508.12680, main results and rounds; the task, the sizes and the bound are ours",
        against="vision_g1 --curriculum.keep none --curriculum.samples 0",
        better_by=0.03,
        task="transfer",
        model="gradus/policies/tiny/base",
        fields={
            "prompts": "4",
            "group": "8",
            "learning_rate": "2e-4",
            "eval_every": "0",
            "study.problems": "64",
            "study.greedy": "false",
            "curriculum.pool": "60",
            "curriculum.every": "6",
        },
        own={"curriculum.samples": "4"},
        budget="steps=12",
    ),
)
