"""Difficulty-aware staged RL: GRPO on problems of medium measured difficulty, then on the problems that are still hard for the trained model.

    d(x) = 1 - 1/K sum_(k=1)^K v(o_k)
    D_medium = {x : 0.3 < d(x) <= 0.7}, quad D_hard = {x : 0.7 < d(x) < 1}
    loss = 1/G sum_i 1/|o_i| sum_t [-min(rho_(i,t) A_i, clip(rho_(i,t), 1 - 0.2, 1 + 0.2) A_i) + 0.001 k_3] - 0.001 H

d(x) is the difficulty of problem x, from K = 8 samples $o_k$ of the model at the start of a stage; v is 1 for a right answer, else 0. Problems with d
<= 0.3 (easy) and with d = 1 (never solved) are in no stage. Stage `medium` trains on the medium problems until the held-out accuracy rises by less
than one point in 20 steps, at most for 200 steps. Then the trained model measures d again. Stage `hard` trains on the problems that are now hard but
solvable, with longer answers and a new optimiser. In stage `hard` the entropy bonus H is left out, and answers that are cut at the token
limit have no weight in the loss. The reward only shows whether an answer is right.

Mixed domains are mixed tasks: `--task arithmetic:1,countdown:1` measures the difficulty of both tasks in this ratio; the ratio of the problems that a
stage keeps can differ. `--study.by difficulty,task` adds to the evaluation the accuracy by level (`held_out/difficulty/N`, if the
problems have a level) and by domain (`held_out/task/NAME`), also at the start and the end of each stage.

Use if: many problems are always or never solved, their difficulty can be measured before training, and hard problems need longer answers.
Avoid if: problems are few or already of medium difficulty (see grpo), or difficulty should be followed during training (see sec, dapo).
Reference: Ji et al., How Difficulty-Aware Staged Reinforcement Learning Enhances LLMs' Reasoning Capabilities: A Preliminary Experimental Study,
arXiv:2504.00829, sections 3.2 and 4. The problems are public, but the code is not. In the paper, stage 1 has level 2 and 16k tokens until its score
is flat (step 1600), and stage 2 has level 3 and 24k tokens. Level 1, the problems that the 1.5B model sometimes solves, is the best level to train on
alone. Level 2 has the problems that both the 1.5B and the 7B model sometimes solve, and the problems that only the 7B model solves. Level 3 has the problems
that the 32B model does not solve, and half of the problems that it solves. Both stages have 16 answers to each of 128 prompts. A batch has
mathematics and code in the ratio 2.1:1, and the reward of code is the share of its tests that pass.
Departures: Only the trained model measures the difficulty, before each stage. In the paper larger models also measure the difficulty, once, and
problems that DeepSeek-R1 never solves are left out. Our own choices are the bounds 0.3 and 0.7, K = 8, the numbers that end a stage, the new optimiser, the
limits of 64 and 96 tokens, and the 256 problems that are measured per stage. The reference of the KL is the model at the start of the stage.
"""

from gradus.credit.uncut import Uncut
from gradus.objectives.kl import KL
from gradus.objectives.terms import EntropyBonus
from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim
from gradus.schedules.stages import Stage, Stages
from gradus.study.screen import Screened
from gradus.types import Frozen
from gradus.types.moments import Plateau

EVERY = 10  # number of steps between evaluations
RISING = Plateau("held_out/accuracy", gain=0.01, evaluations=2, most=200)  # ends the stage if the accuracy gains less than a point in 2 x 10 steps
BIT = 1e-9  # makes the bounds of a band exclusive
MEDIUM = Screened(low=0.3, high=0.7 - BIT, samples=8)  # 0.3 <= pass rate < 0.7, so 0.3 < d <= 0.7
HARD = Screened(low=BIT, high=0.3 - BIT, samples=8)  # 0 < pass rate < 0.3, so 0.7 < d < 1


def level(right: int, samples: int) -> str:
    """Returns the level of a problem with this number of right answers.

    The function compares pass rates instead of difficulties (1 - pass rate), because 1 - 7/10 in binary numbers is more than 0.3.
    """
    rate = right / samples
    if rate in (0.0, 1.0):
        return "always solved" if rate else "unsolved"
    return "easy" if rate >= 0.7 else "medium" if rate >= 0.3 else "hard"


difficulty_staged_rl = grpo.derive(
    "difficulty_staged_rl",
    "Trains on problems of medium measured difficulty, then on those that the trained model finds hard, with longer answers.",
    family="data",
    objective__kl=KL(0.001),
    objective__entropy=EntropyBonus(0.001),
    schedule=Stages(
        Frozen(
            medium=Stage(until=RISING, changes=Frozen({"setting.max_tokens": 64}), screen=MEDIUM),
            hard=Stage(
                until=RISING,
                changes=Frozen({"setting.max_tokens": 96, "objective.entropy.coefficient": 0.0, "credit": Uncut()}),
                screen=HARD,
            ),
        )
    ),
    setting__eval_every=EVERY,
)

claims = (
    Claim(
        says=(
            "On arithmetic and countdown in equal parts two stages of measured difficulty end at least 0.02 above GRPO on all problems, after as "
            "many updates."
        ),
        source="arXiv:2504.00829, abstract; the size of the effect is ours",
        against="grpo --eval_every=0",
        measure="held_out/accuracy:last",
        better_by=0.02,
        task="arithmetic:1,countdown:1",
        fields={"study.problems": "256"},
        own={"schedule.stages.medium.until": "Steps(count=30)", "schedule.stages.hard.until": "Steps(count=30)"},
        budget="steps=60",
        seeds=3,
    ),
)
