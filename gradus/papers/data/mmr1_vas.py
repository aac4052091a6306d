"""MMR1: half of each batch is drawn in proportion to a score that predicts the variance of rewards, and the scores are renewed at intervals.

    OVS(x) = P(x) (1 - P(x))
    TDS(x) = n_distinct / n_all
    VPS(x) = alpha OVS(x) + beta TDS(x)
    p(x) = (VPS(x)) / (sum_y VPS(y))

P(x) is the share of right answers among N answers to problem x. OVS, the score of the variance, is largest at P = 1/2. TDS is the diversity of these
N answers: the share of different sequences among all sequences of three tokens. alpha is 0.8, and beta 0.2. A batch has B problems: floor(lambda B)
problems are drawn with replacement in proportion to p, and the others come from shuffled passes over all problems; lambda is 0.5. All else is GRPO,
with a KL weight of 0.01.

At the first step, and again every 35 steps, the policy answers each problem N = 32 times for its score; no update reads these answers. If all scores
are 0, the whole batch comes from the passes. Metrics: promise, the mean VPS of the requested problems; tokens/probe, the tokens of the answers for
scores.

Use if: the same problems are drawn many times, many problems are always or never solved, and answers for scores are cheap in comparison with training.
Avoid if: the data is large or endless, so that scores of all problems cost too much (see mopps, sec), or all problems are about half solved.
Reference: Leng et al., MMR1: Enhancing Multimodal Reasoning with Variance-Aware Sampling and Open Resources, arXiv:2509.21268: the scores, the
mixture, alpha, beta, lambda, N and the 35 steps. The released script (LengSicong/MMR1) has 8 answers to each of 512 problems per step, KL weight
0.01, N = 8, a renewal every 4 steps, and OVS alone: `--curriculum.alpha 1 --curriculum.beta 0 --curriculum.samples 8 --curriculum.every 4`.
Departures: If a task generates problems without end, the pool has 64 of them; this number is our choice. The released code subtracts the smallest
score of all problems and divides by the range, so the worst problem has the weight 0; this form is `--curriculum.rescaled true`. The code can mix old
and new scores; in the script the old scores have the weight 0. The code also has the mean edit distance and self-BLEU as measures of diversity; here
TDS is the only measure. The script samples at temperature 0.6, and its loss is the mean over the tokens of a micro-batch. The reward is the reward of
the task, without the paper's reward for the form. The supervised start is `sft`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradus.curricula.rates import drawn_by_weight
from gradus.curricula.shuffled_epochs import problems_at, sweep_order
from gradus.objectives.kl import KL
from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim, same_weights
from gradus.rewards.diversity import distinct_share
from gradus.rollouts.auto import Auto, rolled
from gradus.types import Group, Request
from gradus.types.parts import Source, World
from gradus.types.ranges import check_ranges


def promise(rate: float, diversity: float, *, alpha: float = 0.8, beta: float = 0.2) -> float:
    """Returns the variance promotion score alpha P (1 - P) + beta TDS.

    >>> round(promise(0.5, 0.4), 2), round(promise(1.0, 0.4), 2)
    (0.28, 0.08)
    """
    return alpha * rate * (1 - rate) + beta * diversity


@dataclass(frozen=True)
class VarianceAware:
    """Draws floor(share * n) of n problems with replacement in proportion to their scores, and the others from shuffled passes over all problems.

    In the first step and after every `every` steps, the policy answers each problem `samples` times, and these answers give the scores.
    """

    alpha: float = 0.8  # weight of the outcome variance
    beta: float = 0.2  # weight of the diversity
    share: float = 0.5  # share of a batch that is drawn by score
    samples: int = 32  # number of answers that give the score of a problem
    every: int = 35  # steps between two renewals of the scores
    pool: int = 64  # number of problems in the pool, if the task generates problems without end
    rescaled: bool = False  # True: the scores are shifted and scaled so that the smallest is 0 and the largest is 1

    def __post_init__(self) -> None:
        check_ranges(self, alpha="[0, inf)", beta="[0, inf)", share="[0, 1]", samples="[2, inf)", every="[1, inf)", pool="[1, inf)")

    def start(self) -> dict[str, Any]:
        return {"step": 0, "drawn": 0, "scores": []}

    async def choose(self, source: Source, count: int, world: World, state: dict[str, Any]) -> tuple[list[Request], dict[str, Any]]:
        """Returns `count` requests. The state contains the number of steps, the place in the passes, and the score of every problem."""
        size = self.pool if source.size is None else source.size
        step, first, scores = state["step"], state["drawn"], state["scores"]
        if self.share and (step % self.every == 0 or len(scores) != size):
            scores = await self._scores(source, size, world)
        weights = np.asarray(scores, dtype=np.float64)
        number = int(self.share * count) if len(scores) and weights.sum() > 0 else 0
        places = drawn_by_weight(weights, number, world.seed.fold("variance", step)).tolist()
        places += sweep_order(size, range(first, first + count - number), world.seed)
        for place in places if len(scores) else ():
            world.note("promise", float(weights[place]))
        requests = [Request(problem, count=world.group) for problem in problems_at(source, places, world)]
        return requests, {"step": step + 1, "drawn": first + count - number, "scores": scores}

    async def _scores(self, source: Source, size: int, world: World) -> list[float]:
        """Returns the score of every problem from new answers."""
        problems = problems_at(source, range(size), world)
        asked = [Request(p, count=self.samples, tags=("score",), trained=False) for p in problems]
        found = scores_of(await rolled(Auto(), asked, world), self.alpha, self.beta)
        scores = np.array([found.get(p.id, 0.0) for p in problems])
        if self.rescaled:
            scores = (scores - scores.min()) / max(float(np.ptp(scores)), 1e-12)
        return [float(s) for s in scores]


def scores_of(groups: Sequence[Group], alpha: float, beta: float) -> Mapping[str, float]:
    """Returns the variance promotion score by problem. Failed answers do not count."""
    found = {}
    for group in groups:
        whole = [t for t in group.trajectories if t.failed is None]
        if whole:
            rate = float(np.mean([t.right for t in whole]))
            spoken = [c.tokens[c.chosen].tolist() for t in whole for c in t.contexts]
            found[whole[0].problem.id] = promise(rate, distinct_share(spoken), alpha=alpha, beta=beta)
    return found


mmr1_vas = grpo.derive(
    "mmr1_vas",
    "Half of each batch is drawn in proportion to the reward variance that is predicted for a problem.",
    family="data",
    curriculum=VarianceAware(),
    objective__kl=KL(0.01),
)

claims = (
    same_weights(
        says="If no problem is drawn by its score, the final weights on questions about pictures are those of GRPO over passes of the same problems.",
        source="arXiv:2509.21268, the mixture at lambda 0",
        against="grpo --objective.kl.coefficient 0.01 --curriculum SuccessRates --curriculum.factor 1 --curriculum.pool 16",
        own={"curriculum.share": "0", "curriculum.pool": "16"},
        task="shapes",
        fields={"prompts": "4", "group": "8", "study": "none"},
    ),
    Claim(
        says=(
            "On 80 problems of which four of five are trivial or impossible, the mean share of groups with a gradient over 30 steps is at least 1.2 "
            "times that of passes over the same problems."
        ),
        source="arXiv:2509.21268, analysis of gradients (more than with uniform sampling); size of the effect, ground, pool and renewal are ours",
        against="mmr1_vas --curriculum.share 0",
        measure="informative:mean",
        at_least=1.2,
        ground="ladder",
        fields={"prompts": "8", "eval_every": "0", "curriculum.pool": "80", "curriculum.samples": "8", "curriculum.every": "15"},
        budget="steps=30",
    ),
)
