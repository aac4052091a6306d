"""GAIN-RL: problems are sorted once by the angles between the hidden states of their tokens, and a sampling window moves from small to large angles.

    C_(i,j) = (h_i * h_j) / (|h_i| |h_j|)
    s = mean over j < i in Q of C_(i,j) + 8 mean over i in Q and j in S of C_(i,j)
    p_k prop exp(-(k - mu)^2 / (2 sigma^2))
    mu becomes mu + min(n, max(0, n/2 tanh(2 (a - 1/2)) + n/2 tanh(2 c)))

$h_i$ is the hidden state of token i of a prompt. Q is the set of tokens of the problem. S is the set of tokens of the fixed prefix that all prompts
share; without such a prefix the second term is 0. One forward pass per problem before training gives its concentration s. The problem with the
largest s has place k = 0. In the paper prompts with a large s give larger gradients, and are learned first.

An epoch draws its problems without repetition in proportion to $p_k$. At first mu = 0. After the epoch mu moves by the accuracy a of the answers, and
by c. Here c is the mean of $C_(i,j)$ over j < i in the whole sequences of prompt and answer. Sigma and n are a tenth of the number of problems. Apart
from this, the method is GRPO. Metrics: window (mu as a share of all places), window/accuracy (a), window/concentration (c).

Use if: a fixed set of problems has a wide range of difficulty, and their difficulty has not been measured.
Avoid if: problems are new in every step, or of one kind (see grpo). To follow measured success rates, see mopps.
Reference: Wang et al., Angles Don't Lie: Unlocking Training-Efficient RL Through the Model's Own Signals, arXiv:2506.02281. Alpha = 2, beta = 0.5,
lambda = 8 and the form of the move are as in the paper. In the paper n = sigma = 1000 for data sets of about 7,500 problems, with 1024 problems
per epoch. The released code draws 256 problems per epoch; in the code for verl these problems are one batch.
Departures: n and sigma are shares of the number of problems, and an epoch has 32 of 256 problems; both numbers are our choices. The centre mu stops
at the last place. The problems of an epoch come in the order of plain passes; the released code sorts them by place. The hidden states are the inputs
of the output head, not the inputs of the last layer's MLP. In the released code both terms of s are means over more tokens than those of Q and S, because the
code cuts only the rows of the matrix. In the released code c also counts the pairs of a token with itself, counts neighbours twice, and comes from
the pass for the log-probabilities, before the update. Here c needs an extra pass, with the policy after the update. In the released code the accuracy
is half of a reward between 0 and 2.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from gradus.curricula.window import Window, accuracy
from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim, same_weights
from gradus.types import Context, Group, Key, Problem, Request
from gradus.types.parts import World
from gradus.types.ranges import check_ranges
from gradus.types.signals import Opened, Want


def concentration(states: Tensor, fixed: int, inter: float) -> Tensor:
    """Returns the angle concentration, a scalar, of hidden states [T, d]; the first `fixed` tokens are the fixed prefix.

    The concentration is the mean cosine over pairs of later tokens, plus `inter` times the mean cosine over pairs of a later token and a prefix
    token. A mean without any pair is 0.
    """
    unit = torch.nn.functional.normalize(states, dim=-1)
    rest, count = unit[fixed:], len(unit) - fixed
    total = rest.sum(0)
    pairs = count * (count - 1) / 2
    within = (total @ total - rest.square().sum()) / 2 / pairs if pairs else unit.new_zeros(())
    across = (total / count) @ unit[:fixed].mean(0) if fixed and count else unit.new_zeros(())
    return within + inter * across


@dataclass(frozen=True)
class Concentration(Want):
    """The angle concentration of each context, the same for all its actions. [A]

    `prompt`: True reads the tokens before the first action, False all tokens. The first `fixed` tokens are the prefix that all prompts share.
    """

    prompt: bool = False
    fixed: int = 0
    inter: float = 8.0
    opens: ClassVar[frozenset[str]] = frozenset({"states"})

    def rows(self, opened: Opened, key: Key) -> Tensor:
        states, owner = opened.states()
        out = []
        for number, context in enumerate(opened.contexts):
            own = states[owner == number]
            own = own[: int(context.action_positions[0])] if self.prompt else own
            out.append(concentration(own.double(), self.fixed, self.inter).expand(context.actions))
        return torch.cat(out)


def shared_beginning(rows: Sequence[np.ndarray]) -> int:
    """Returns the number of first tokens that all rows share. The number is less than the length of the shortest row.

    >>> shared_beginning([np.array([1, 2, 3]), np.array([1, 2, 4, 5])])
    2
    """
    least = min(map(len, rows)) - 1
    first = rows[0]
    return next((i for i in range(least) if any(row[i] != first[i] for row in rows)), max(least, 0))


@dataclass(frozen=True)
class ByAngles:
    """Sorts problems by the angle concentration of their prompts. The largest comes first."""

    inter: float = 8.0  # lambda, the weight of the second mean of s

    def __post_init__(self) -> None:
        check_ranges(self, inter="[0, inf)")

    async def values(self, problems: Sequence[Problem], world: World) -> np.ndarray:
        """Returns minus the concentration of each prompt [N]."""
        prompts = [world.prompt(Request(p)) for p in problems]
        fixed = shared_beginning([c.sequence for c in prompts]) if len(prompts) > 1 else 0
        rows = await world.score([_with_action(c) for c in prompts], Concentration(prompt=True, fixed=fixed, inter=self.inter))
        return -np.array([float(row[0]) for row in rows])


def _with_action(prompt: Context) -> Context:
    """Returns the prompt with one further token that counts as an action, because a reading has one row per action. No reading uses this token."""
    return replace(prompt, tokens=np.append(prompt.tokens, prompt.tokens[-1:]), chosen=np.append(prompt.chosen, True), streams={})


@dataclass(frozen=True)
class AsLearned:
    """Moves the window by accuracy and concentration, at most by n = `step` times the number of problems per epoch."""

    alpha: float = 2.0
    beta: float = 0.5  # the term of the accuracy is positive above this accuracy
    step: float = 0.1

    def __post_init__(self) -> None:
        check_ranges(self, alpha="(0, inf)", beta="[0, 1]", step="[0, 1]")

    async def measure(self, groups: Sequence[Group], world: World) -> Mapping[str, float]:
        """Returns the accuracy of the groups and the mean concentration of their sequences."""
        contexts = [c for g in groups for t in g.trajectories for c in t.contexts if c.actions]
        rows = await world.score(contexts, Concentration()) if contexts else []
        return {"accuracy": accuracy(groups), "concentration": float(np.mean([row[0] for row in rows] or [0.0]))}

    def distance(self, measured: Mapping[str, float], size: int) -> float:
        n = self.step * size
        moved = n / 2 * math.tanh(self.alpha * (measured["accuracy"] - self.beta)) + n / 2 * math.tanh(self.alpha * measured["concentration"])
        return min(max(moved, 0.0), n)


gain_rl = grpo.derive(
    "gain_rl",
    "Problems are sorted once by the angles of their hidden states, and a sampling window moves over them as they are learned.",
    family="data",
    curriculum=Window(by=ByAngles(), pace=AsLearned(), width=0.1, epoch=32),
)

claims = (
    same_weights(
        says="If an epoch has all problems, the sorted order has no effect, and the final weights are those of GRPO.",
        source="arXiv:2506.02281, the window with the whole data in an epoch",
        against="grpo",
        own={"curriculum.pool": "12", "curriculum.epoch": "12"},
    ),
    Claim(
        says=(
            "On 80 problems of which four of five are trivial or impossible, the accuracy on the others is after 24 steps at least that of "
            "equally likely problems."
        ),
        source="arXiv:2506.02281, main results (as accurate as uniform sampling after fewer epochs); the ground and the pool are ours",
        against="gain_rl --curriculum.width inf",
        measure="accuracy@middle",
        better_by=0.0,
        ground="ladder",
        fields={"prompts": "8", "eval_every": "0", "curriculum.pool": "80", "curriculum.epoch": "16"},
        budget="steps=24",
    ),
)
