"""Difficulty-aware staged RL: GRPO on problems of medium measured difficulty, then on those that the trained model still finds hard.

Difficulty of a problem, from K = 8 samples of the model at the start of a stage:

    d(x) = 1 - (right answers) / K.   Levels: always solved d = 0; easy 0 < d <= 0.3; medium 0.3 < d <= 0.7; hard 0.7 < d < 1; unsolved d = 1.

Stage `medium`: the medium problems, until the held-out accuracy gains less than one point in 20 steps. Stage `hard`: d is measured again with
the model of that moment, and the problems that are now hard but solvable are trained on, with longer answers and a new optimiser. Problems
that are always solved or never are in no stage: their groups have advantage 0. Rewards are right or wrong; the rest is GRPO.

Mixed domains are mixed tasks: `--task arithmetic:1,countdown:1` measures both in an exact ratio; a stage then trains on what it keeps of them, in
the ratio in which it is kept (ours: the abstract fixes none). Advantages are per problem, so
the scales of the rewards do not mix. The evaluation gives the accuracy by level (`held_out/difficulty/N`, where the problems
have one) and by domain (`held_out/task/NAME`), at the start and the end of each stage too.

Reference: Ji et al., How Difficulty-Aware Staged Reinforcement Learning Enhances LLMs' Reasoning Capabilities: A Preliminary Experimental Study,
arXiv:2504.00829. Only the abstract and the card of the released data were at hand; this is a faithful reading of them. The card's levels come
from three models, once: level 1 is 0 < pass rate < 1 of the 1.5B model that is trained, levels 2 and 3 are problems that it, and a 7B or
a 32B model, fail. Ours: d of the trained model alone and its re-measurement, the cuts at 0.3 and 0.7, K = 8, the end of a stage, the limits of
64 and 128 tokens (the scale of the built-in tasks), 256 problems measured a stage.
"""

from gradus.papers.bases.grpo import grpo
from gradus.schedules.stages import Stage, Stages
from gradus.study.held_out import HeldOut
from gradus.study.screen import Screened
from gradus.types import Frozen
from gradus.types.moments import Plateau

EVERY = 10  # steps between evaluations
RISING = Plateau("held_out/accuracy", gain=0.01, evaluations=2, most=200)  # no gain of a point in 2 x 10 steps
BIT = 1e-9  # makes the bounds of a band exclusive
MEDIUM = Screened(low=0.3, high=0.7 - BIT, samples=8)  # 0.3 <= pass rate < 0.7, so 0.3 < d <= 0.7
HARD = Screened(low=BIT, high=0.3 - BIT, samples=8)  # 0 < pass rate < 0.3, so 0.7 < d < 1


def level(right: int, samples: int) -> str:
    """The level of a problem with this number of right answers; compared as pass rates, for 1 - 7/10 is more than 0.3 in binary."""
    rate = right / samples
    if rate in (0.0, 1.0):
        return "always solved" if rate else "unsolved"
    return "easy" if rate >= 0.7 else "medium" if rate >= 0.3 else "hard"


difficulty_staged_rl = grpo.derive(
    "difficulty_staged_rl",
    "Trains on problems of medium measured difficulty, then on those that the trained model finds hard, with longer answers.",
    family="data",
    schedule=Stages(
        Frozen(
            medium=Stage(until=RISING, changes=Frozen({"setting.max_tokens": 64}), screen=MEDIUM),
            hard=Stage(until=RISING, changes=Frozen({"setting.max_tokens": 128}), screen=HARD),
        )
    ),
    study=HeldOut(by=("difficulty", "task")),
    setting__eval_every=EVERY,
)
