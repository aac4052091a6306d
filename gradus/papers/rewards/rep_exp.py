"""RepExp: a reply gets a bonus if its hidden states differ from the hidden states of the group's other replies. So the policy keeps trying new solutions.

    Sigma = lambda I + sum_j h_j h_j^T
    b_i = h_i^T Sigma^-1 h_i
    R_i = correct_i + beta b_i
    A_i = (R_i - mean(R)) / (std(R))

A frozen copy of the start model reads reply i. A sparse random matrix (a new matrix at each step) projects the mean of the last hidden layer over the
tokens of the reply to `dim` numbers. The feature $h_i$ is this projection minus its mean over the group. The sum in Sigma is over the group, lambda is the
ridge, and I is the identity matrix. The bonus $b_i$ is the leverage, in [0, 1). beta is 0.01, and $correct_i$ is the verdict. Apart from this, the method is
GRPO on R, without KL, with a mean over all tokens and four updates per batch. If a group has no right reply, none of its replies gets a bonus. In other
groups wrong replies get a bonus too.

With the option `leave_one_out` the bonus is $h_i^T (Sigma - h_i h_i^T)^-1 h_i = b_i / (1 - b_i)$. At test time the same score picks a few different
replies for a verifier (`DiverseOf`, algorithm 1). The search starts with one reply and sets $Sigma = I + h h^T$ with the feature h of this reply.
Then the search repeatedly takes the remaining reply with the largest $h_i^T Sigma^-1 h_i$ and adds the $h_i h_i^T$ of this reply to Sigma. The pool's
mean is subtracted from all features.

If dim >= G - 1 and features are much larger than sqrt(lambda), every leverage tends to 1 - 1/G, so all replies have the same bonus. In this case the
metric `bonus_spread`, the mean deviation of the bonus over groups with a right reply, is near 0. If the rewards of a group differ, the bonus changes
advantages little. If all replies are right, the bonus alone determines the advantages, because the bonuses are divided by their deviation.

Use if: the policy's replies become more and more alike during training, and several tries per problem should still find new solutions.
Avoid if: most groups have no right reply, because such groups get no bonus (see scaf_grpo, luffy), or the start model's hidden states cannot be read.
Reference: Tuyls et al., Representation-Based Exploration for Language Models: From Test-Time to Post-Training, arXiv:2510.11686, section 3,
appendices B.1 (ridge 1 and 512 dimensions at test time) and C. Appendix C has 32 dimensions (128 for long problems), the mean of the group, and no
bonus if all replies are wrong. The scripts of the released code (verl, recipe/rep_exp) have beta 0.01, ridge 0.01, G = 8, the mean over tokens, and 4
updates (1024 prompts in mini-batches of 256). The released matrix comes from scikit-learn's SparseRandomProjection: density 1 / sqrt(width), entries
+-sqrt(sqrt(width) / dim).
Departures: The random key of the step determines the matrix. The paper draws the first reply at random; here the first reply is the first of the
pool, because all replies of the pool have the same distribution. The feature of a trajectory with several contexts is the mean over all its tokens. The
paper's bonus on single tokens while sampling (section 4.2) is left out. The defaults of the released code are leave-one-out, 512 dimensions and beta 1; its
scripts override all three. The released code can also keep Sigma across steps and divide bonuses by their deviation; both are off in its runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from gradus.objectives.aggregation import TokenMean
from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim
from gradus.rewards.combine import Combines
from gradus.rewards.verified import Verified
from gradus.rollouts.auto import Auto, rolled
from gradus.search.best_of import best
from gradus.types import Frozen, Group, Key, Problem, Request, Trajectory
from gradus.types.parts import Judgement, Reward, Rollout, Signals, Task, World
from gradus.types.players import Copy, Player
from gradus.types.ranges import check_ranges
from gradus.types.signals import Opened, Read, Signal, Want


@dataclass(frozen=True)
class ReplyFeature(Want):
    """The mean of the last hidden states of a context's chosen tokens, projected to `dim` numbers. [A, dim]: every row of a context is the same."""

    dim: int = 32
    opens: ClassVar[frozenset[str]] = frozenset({"states"})

    def __post_init__(self) -> None:
        check_ranges(self, dim="[1, inf)")

    def rows(self, opened: Opened, key: Key) -> Tensor:
        states, owner = opened.states()
        matrix = torch.from_numpy(sparse_projection(states.shape[1], self.dim, key.fold("projection"))).to(states)
        out: list[Tensor] = []
        for i, context in enumerate(opened.contexts):
            if context.actions:
                mine = states[owner == i][torch.from_numpy(context.action_positions).to(states.device)]
                out.append((mine.mean(0) @ matrix).expand(context.actions, -1))
        return torch.cat(out)


def sparse_projection(width: int, dim: int, key: Key) -> np.ndarray:
    """Returns a matrix [width, dim]. An entry is +-sqrt(sqrt(width) / dim) with chance 1 / sqrt(width), else 0. Li et al., Very Sparse Random Projections, 2006."""
    drawn, density = key.uniform(width, dim), 1 / np.sqrt(width)
    sign = np.where(drawn < density / 2, -1.0, np.where(drawn < density, 1.0, 0.0))
    return sign / np.sqrt(density * dim)


def leverages(features: np.ndarray, *, ridge: float) -> np.ndarray:
    """Returns h_i^T (ridge I + sum_j h_j h_j^T)^-1 h_i for the rows h_i of `features` [G, d]: float64 [G], each in [0, 1), with a sum below d.

    The function does not centre the features.
    """
    covariance = ridge * np.eye(features.shape[1]) + features.T @ features
    return np.einsum("gd,dg->g", features, np.linalg.solve(covariance, features.T))


def centred(features: np.ndarray) -> np.ndarray:
    """Returns the features minus their mean, float64."""
    wide = features.astype(np.float64)
    return wide - wide.mean(0)


def with_one_more(inverse: np.ndarray, h: np.ndarray) -> np.ndarray:
    """Returns (Sigma + h h^T)^-1 from `inverse` = Sigma^-1, by Sherman and Morrison's formula."""
    along = inverse @ h
    return inverse - np.outer(along, along) / (1 + h @ along)


def diverse(features: np.ndarray, count: int, *, ridge: float) -> list[int]:
    """Picks `count` rows of `features` [n, d]: row 0, then repeatedly the remaining row with the largest h^T Sigma^-1 h (the first such row)."""
    inverse, left = np.eye(features.shape[1]) / ridge, list(range(len(features)))
    out: list[int] = []
    while left and len(out) < count:
        scores = [features[i] @ inverse @ features[i] for i in left] if out else [0.0]
        out.append(left.pop(int(np.argmax(scores))))
        inverse = with_one_more(inverse, features[out[-1]])
    return out


def feature_of(rows: np.ndarray) -> np.ndarray:
    """Returns the feature of a trajectory, the mean of its `rows` [A, dim] over all its tokens."""
    return rows.mean(0, dtype=np.float64)


@dataclass(frozen=True)
class Exploring(Combines):
    """Adds beta times the elliptical bonus to the value of `reward` in groups with a right reply. The component `bonus` is the bonus without beta."""

    reward: Reward = Verified()
    beta: float = 0.01
    ridge: float = 0.01  # lambda in the paper; about as large as the small eigenvalues of the group's features
    dim: int = 32
    leave_one_out: bool = False
    player: str = "start"  # the player whose hidden states are the features
    name: ClassVar[str] = "exploring"

    def __post_init__(self) -> None:
        check_ranges(self, beta="[0, inf)", ridge="(0, inf)", dim="[1, inf)")

    @property
    def feature(self) -> Signal:
        return Read(self.player, reads=ReplyFeature(self.dim))

    @property
    def needs(self) -> tuple[Signal, ...]:
        return (*self.reward.needs, self.feature)

    def check(self, task: Task) -> None:
        """Raises UserError if `reward` does not fit the task."""
        if hasattr(self.reward, "check"):
            self.reward.check(task)

    async def score(self, groups: Sequence[Group], signals: Signals, world: World) -> list[list[Judgement]]:
        judged = await self.reward.score(groups, signals, world)
        out: list[list[Judgement]] = []
        for group, row in zip(groups, judged, strict=True):
            bonus = self.bonuses(np.array([feature_of(signals[self.feature][t.id]) for t in group.trajectories]))
            right = any(t.but(reward=j.reward, components=j.components).right for t, j in zip(group.trajectories, row, strict=True))
            if right:
                world.note("bonus_spread", float(bonus.std()))
            out.append([self.paid(j, float(b) if right else 0.0) for j, b in zip(row, bonus, strict=True)])
        return out

    def bonuses(self, features: np.ndarray) -> np.ndarray:
        """Returns the bonuses [G] of one group from its features [G, dim]."""
        found = leverages(centred(features), ridge=self.ridge)
        return found / (1 - found) if self.leave_one_out else found

    def paid(self, judgement: Judgement, bonus: float) -> Judgement:
        """Adds the bonus to the judgement. A judgement whose reward failed or does not apply is unchanged."""
        if not isinstance(judgement.reward, (int, float)):
            return judgement
        components = Frozen({**judgement.components, "bonus": bonus})
        return replace(judgement, reward=judgement.reward + self.beta * bonus, components=components)


@dataclass(frozen=True)
class DiverseOf:
    """Samples `pool` answers, picks the `count` answers whose hidden states in `player` differ most, and keeps the picked answer with the highest
    reward.

    Only the picked answers would need a verifier. If the verifier knows the answer, the accuracy is the share of problems with a right answer in the
    picked set.
    """

    count: int = 4
    pool: int = 16
    ridge: float = 1.0
    dim: int = 512
    player: str = "start"
    rollout: Rollout = Auto()

    def __post_init__(self) -> None:
        check_ranges(self, count="[1, inf)", pool="[1, inf)", ridge="(0, inf)", dim="[1, inf)")

    async def solve(self, problem: Problem, world: World) -> Trajectory:
        """Returns the best of the picked answers to one problem."""
        return (await self.run([Request(problem)], world))[0].trajectories[0]

    async def run(self, requests: Sequence[Request], world: World) -> list[Group]:
        """Returns `request.count` answers to each problem, each from a separate pool."""
        groups = await rolled(self.rollout, [replace(r, count=r.count * self.pool, sample=r.sample * self.pool) for r in requests], world)
        contexts = [c for g in groups for t in g.trajectories for c in t.contexts]
        found = iter(await world.score(contexts, ReplyFeature(self.dim), self.player))
        features = {t.id: feature_of(np.concatenate([next(found) for _ in t.contexts])) for g in groups for t in g.trajectories}
        return [g.but(trajectories=tuple(self._pick(pool, features) for pool in self._pools(g))) for g in groups]

    def _pools(self, group: Group) -> list[tuple[Trajectory, ...]]:
        return [group.trajectories[i : i + self.pool] for i in range(0, len(group.trajectories), self.pool)]

    def _pick(self, pool: Sequence[Trajectory], features: dict[str, np.ndarray]) -> Trajectory:
        chosen = diverse(centred(np.array([features[t.id] for t in pool])), self.count, ridge=self.ridge)
        return best([pool[i] for i in chosen])


rep_exp = grpo.derive(
    "rep_exp",
    "In groups with a right reply, a reply with unusual hidden states gets a bonus; the same score picks replies at test time.",
    family="rewards",
    reward=Exploring(),
    objective__policy__average=TokenMean(),
    objective__kl=None,
    players__reference=None,
    players__start=Player(Copy("policy")),
    update__count=4,
)

claims = (
    Claim(
        says=(
            "At test time four answers picked for their difference out of sixteen hold a right one at least as often as five random answers: the "
            "pass rate of random subsets with 80 percent of the verifications."
        ),
        source="arXiv:2510.11686, section on test-time exploration; the sizes are ours",
        against="rep_exp --search=BestOf --search.count=5",
        measure="held_out/accuracy:first",
        better_by=0.0,
        task="countdown",
        fields={"study.greedy": "false", "study.problems": "120", "reward": "Verified"},
        own={"search": "DiverseOf"},
        budget="steps=1",
        seeds=3,
    ),
)
