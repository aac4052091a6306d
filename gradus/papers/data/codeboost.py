"""CodeBoost: GRPO on the outputs of bare programs. A clique selects the programs, random changes vary them, and the policy predicts outputs or a missing
line.

    G = (V, E), quad (i, j) in E "if" |T_i cap T_j| / |T_i cup T_j| < 0.5
    V' subset.eq V "a clique of" G "of the largest size found"
    o = 1{"output equal"}, quad e = 1/2 "IoU of the lines of the errors"
    R = 0.9 (o + e)/2 + 0.1 f
    A_i = (R_i - mean(R)) / (std(R))

$T_i$ is the set of the 3-grams of tokens of problem i. Any two problems of a clique are dissimilar. The clique is searched greedily from ten random
orders. A problem is a program without instructions. The digits and operators of the program are replaced with chance 0.1, and the program runs;
programs with errors stay. With chance 0.75 the policy predicts output and errors (forward). In the other cases a line is left out, and the policy
writes a line that makes the program print the given output (backward); the completed program runs. The symbol f is the share of the required blocks
that are present; without any block R is 0. The largest R is 0.775. Metrics: reward/blocks; accuracy is the share of completions whose output and
errors are both right.

Use if: programs exist without instructions or tests, they can be run, and the model should learn how code behaves.
Avoid if: problems with tests exist (see the task code with grpo), or programs need files, a network or much time.
Reference: Wang et al., CodeBoost: Boosting Code LLMs by Squeezing Knowledge from Code Snippets with RL, arXiv:2508.05242, abstract, and the released
code (sijieaaa/CodeBoost): weights 0.9 and 0.1, the mean of both scores, one left-out line, the share 0.75 of forward problems, the chance 0.1 of a
change, the bound 0.5 of the similarity, and ten iterations of the search for a clique. The measure of similarity and the search itself were not
released.
Departures: The programs are made by the task `code_output` in a small part of Python, and an error is reported by its name alone. Blocks have marks of one
character in place of fences. There is no input to a program. Our own choices are the similarity by 3-grams, the random orders of the search and the
pool of 128 problems. The released programs have at least 10 lines; here programs have 4 to 11. A line is left out only if the output differs without
it. The released script has groups of 5, a KL coefficient of 0.01, clip 0.2 and 0.3, and four updates per batch; here these settings are those of grpo (8,
0.04, 0.2 on both sides, and one update).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from gradus.curricula.dissimilar import CuratedClique
from gradus.environments.output_blocks import scores
from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim, same_weights
from gradus.rewards.combine import Combines, check_reward
from gradus.rewards.verified import Verified
from gradus.types import Frozen, Group
from gradus.types.parts import Judgement, Reward, Signals, Task, World
from gradus.types.ranges import check_ranges
from gradus.types.signals import Signal


@dataclass(frozen=True)
class Blocks(Combines):
    """Gives a completion 0.9 (o + e)/2 plus 0.1 times the share of the required blocks that are present. Without a block the reward is 0.

    Problems without a program (columns `code`, `stdout`, `stderr` and `backward`) are judged by the reward `otherwise`.
    """

    form: float = 0.1  # weight of the blocks; output and errors have the weight 1 - form
    otherwise: Reward = Verified()
    name: ClassVar[str] = "blocks"

    @property
    def needs(self) -> tuple[Signal, ...]:
        return self.otherwise.needs

    def check(self, task: Task) -> None:
        """Raises UserError if `otherwise` does not fit the task."""
        check_reward(self.otherwise, task)

    def __post_init__(self) -> None:
        check_ranges(self, form="[0, 1]")

    async def score(self, groups: Sequence[Group], signals: Signals, world: World) -> list[list[Judgement]]:
        plain = [g for g in groups if any("stdout" not in t.problem.meta for t in g.trajectories)]
        others = iter(await self.otherwise.score(plain, signals, world) if plain else ())
        return [next(others) if g in plain else [self.judged(t.completion, t.problem.meta) for t in g.trajectories] for g in groups]

    def judged(self, completion: str, meta: Any) -> Judgement:
        """Returns the judgement of a completion, with the verdict as the component `verified`."""
        found = scores(completion, meta)
        value = (1 - self.form) * found.accuracy + self.form * found.form if found.form else 0.0
        return Judgement(value, Frozen({self.name: value, "verified": float(found.right)}))


codeboost = grpo.derive(
    "codeboost",
    "Predicts outputs and left-out lines of curated programs, with a graded reward for output, errors and form.",
    family="data",
    curriculum=CuratedClique(),
    reward=Blocks(),
)

claims = (
    same_weights(
        says="With a threshold above 1 every problem stays, and with the verdict as reward the final weights are those of GRPO on the same pool.",
        source="arXiv:2508.05242, without curation and partial scores",
        against="grpo --curriculum SuccessRates --curriculum.factor 1 --curriculum.pool 16",
        own={"curriculum.threshold": "2", "curriculum.pool": "16", "reward": "Verified"},
    ),
    Claim(
        says="From a model that saw worked outputs, GRPO on curated programs raises held-out accuracy of predicted outputs by at least 0.1.",
        source="arXiv:2508.05242, gains on predicted outputs; the size of the effect is the row's; start, task and numbers of steps are ours",
        measure="held-out accuracy at the end minus that at the start",
        better_by=0.1,
        task="code_output",
        options={"level": "1", "backward": "0"},
        fields={"prompts": "16", "group": "8", "learning_rate": "3e-4", "study.problems": "96", "curriculum.pool": "96"},
        budget="steps=20",
        seeds=3,
        script="benchmarks.codeboost",
    ),
)
