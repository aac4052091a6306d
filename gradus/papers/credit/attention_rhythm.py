"""Attention rhythm: attention shows the tokens that plan, and the tokens to which later tokens look back. Positive advantages are increased at these
tokens.

    d_h = mean over t of sum_s W_h(t, s) (t - s)
    WAAD_t = sum_(s <= t) W_loc(t, s) min(t - s, 10), quad delta_t = |WAAD_t - WAAD_(t+1)|
    FAI_s = mean over t of W_glob(t, s), quad s + 10 <= t <= min(T, s + 50)
    A_t = gamma_t A if A >= 0, else A

One more forward pass reads the attention weights $W_h(t, s)$ of head h from token t back to token s. It reads five of the L layers, evenly spread from layer
L/3 to layer 2L/3. The means are over tokens t of the reply, and T is its last token. The 30 percent of heads with the smallest distance $d_h$ are
local, and the 30 percent with the largest are global. $W_loc$ and $W_glob$ are the mean weights of local and of global heads. A is the group-relative
advantage of the answer, and $gamma_t$ has no gradient.

$gamma_t$ is 1 except at the tokens that a rule names; amp is 1.5. Rule local: $gamma_t$ is amp at the 40 percent of tokens with the largest delta
(preplan tokens, at the start of a phrase). Rule global: $gamma_t$ is amp at the 40 percent with the largest FAI (anchors). Rule coupled is the
default. For an anchor t with $WAAD_t <= tau$ this rule looks for the largest delta among the 3 tokens before t. If this delta is at least eta, the
token with this delta introduces the anchor. The anchor's $gamma_t$ then grows by (1 - alpha)(amp - 1), and the $gamma_t$ of the introducing token
grows by alpha (amp - 1), once for all its anchors. alpha is 0.5. The $gamma_t$ of any other anchor grows by amp - 1. Apart from this, the method is
GRPO without KL and entropy terms, with 16 updates per batch.

Use if: answers are long chains of reasoning, the reward comes at the end, and the network's attention weights can be read.
Avoid if: the network's attention weights cannot be read, the network is too small for heads with different ranges, or answers are short (see grpo,
dapo).
Reference: Li et al., Attention Illuminates LLM Reasoning: The Preplan-and-Anchor Rhythm Enables Fine-Grained Policy Optimization, arXiv:2510.13554
(v1), sections 4.1 and 5, eq. 13 to 18. The version of ICML 2026 computes FAI from tokens up to 100 positions later, and scales advantages of both signs. The
paper finds both changes better: `--credit.factor.reads.far 100 --credit.when all`. No code of the authors was found.
Departures: The clip 0.2, alpha, and the range of 3 tokens before an anchor are our choices; the paper names 1 to 3 tokens. The bounds tau and eta
(the paper's second tau) are the medians of WAAD and delta in the reply; the paper gives no numbers. Shares are rounded up, and ties go to the earlier
token. At least one head is local and one global. Each context of a trajectory is a separate reply.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from gradus.credit.groups import GroupRelative
from gradus.credit.scaled import Scaled
from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim
from gradus.types import Group, Key
from gradus.types.attention import fai, head_distances, middle_third, waad
from gradus.types.parts import Signals
from gradus.types.ranges import check_ranges
from gradus.types.signals import Opened, Read, Signal, Want


@dataclass(frozen=True)
class Rhythm(Want):
    """WAAD and FAI of every action, [A, 2], without gradient. The attention weights of one context at a time are in memory."""

    head_share: float = 0.3
    window: int = 10  # largest distance that counts in WAAD, in tokens
    near: int = 10  # FAI counts later tokens from this distance on
    far: int = 50  # FAI counts later tokens up to this distance
    opens: ClassVar[frozenset[str]] = frozenset({"attention"})

    def __post_init__(self) -> None:
        check_ranges(self, head_share="(0, 0.5]", window="[1, inf)", near="[1, inf)", far="[1, inf)")

    def rows(self, opened: Opened, key: Key) -> Tensor:
        pairs = zip(opened.attention(middle_third(opened.layers)), opened.contexts, strict=True)
        return torch.cat([self.of(found.flatten(0, 1), torch.from_numpy(c.action_positions)) for found, c in pairs if c.actions])

    def of(self, attention: Tensor, reply: Tensor) -> Tensor:
        """Returns WAAD and FAI, [A, 2], from the weights of all heads [heads, T, T] and the positions of the actions [A]."""
        reply = reply.to(attention.device)
        order = torch.argsort(head_distances(attention, reply), stable=True)
        count = ceil(self.head_share * len(order))
        local, glob = attention[order[:count]].mean(0), attention[order[-count:]].mean(0)
        return torch.stack([waad(local, reply, window=self.window), fai(glob, reply, near=self.near, far=self.far)], 1)


def largest(values: np.ndarray, share: float) -> np.ndarray:
    """Returns the indices of the largest values. The number of indices is `share` of all, rounded up. If values are equal, the earlier tokens are chosen."""
    return np.sort(np.argsort(-values, kind="stable")[: ceil(share * len(values))])


def steps_of(distances: np.ndarray) -> np.ndarray:
    """Returns delta [A]: |WAAD[t] - WAAD[t + 1]|, and 0 at the last token."""
    return np.append(np.abs(np.diff(distances)), 0.0)


def coupled(distances: np.ndarray, influence: np.ndarray, *, amp: float, alpha: float, share: float, back: int = 3) -> np.ndarray:
    """Returns gamma [A] of the coupled rule. Args: `distances` [A] is WAAD, `influence` [A] is FAI."""
    gamma, steps = np.ones(len(distances)), steps_of(distances)
    low, high = np.median(distances), np.median(steps)
    introductory = set[int]()
    for t in largest(influence, share):
        before = steps[max(0, t - back) : t]
        if distances[t] <= low and len(before) and before.max() >= high:
            gamma[t] += (1 - alpha) * (amp - 1)
            introductory.add(max(0, int(t) - back) + int(before.argmax()))
        else:
            gamma[t] += amp - 1
    gamma[sorted(introductory)] += alpha * (amp - 1)
    return gamma


@dataclass(frozen=True)
class PlanAndAnchor:
    """Gives gamma of every action. The rule decides which tokens get more than 1: preplan tokens ("local"), anchors ("global"), or both, which share the gain
    ("coupled")."""

    rule: Literal["local", "global", "coupled"] = "coupled"
    amp: float = 1.5
    alpha: float = 0.5  # share of an anchor's gain that goes to its preplan token, if it has one (rule "coupled")
    share: float = 0.4  # share of the tokens that are preplan tokens or anchors
    reads: Rhythm = Rhythm()
    player: str = "policy"
    only_positive: bool = True  # advantages below 0 do not change

    def __post_init__(self) -> None:
        check_ranges(self, amp="[1, inf)", alpha="[0, 1]", share="(0, 1]")

    @property
    def needs(self) -> tuple[Signal, ...]:
        return (Read(self.player, reads=self.reads),)

    def factors(self, groups: Sequence[Group], signals: Signals) -> list[list[np.ndarray]]:
        rows = signals[self.needs[0]]
        return [[self._of(rows[t.id].astype(np.float64), [c.actions for c in t.contexts]) for t in g.trajectories] for g in groups]

    def _of(self, rows: np.ndarray, counts: Sequence[int]) -> np.ndarray:
        pieces = np.split(rows, np.cumsum(counts)[:-1])
        return np.concatenate([self.gamma(piece[:, 0], piece[:, 1]) for piece in pieces if len(piece)])

    def gamma(self, distances: np.ndarray, influence: np.ndarray) -> np.ndarray:
        """Returns gamma [A] from the WAAD and FAI of one reply."""
        if self.rule == "coupled":
            return coupled(distances, influence, amp=self.amp, alpha=self.alpha, share=self.share)
        gamma = np.ones(len(distances))
        gamma[largest(steps_of(distances) if self.rule == "local" else influence, self.share)] = self.amp
        return gamma


attention_rhythm = grpo.derive(
    "attention_rhythm",
    "Attention shows the tokens that plan and the tokens to which later tokens look back; positive advantages grow at these tokens.",
    family="credit",
    credit=Scaled(GroupRelative(), PlanAndAnchor()),
    objective__kl=None,
    players__reference=None,
    update__count=16,
)

claims = (
    Claim(
        says=(
            "Advantages grown at anchors and their preplan tokens learn faster than GRPO's even ones: the mean reward over 40 steps is at least "
            "0.01 higher."
        ),
        source="arXiv:2510.13554, section 5 (faster and higher on Countdown and mathematics); the size of the effect is ours",
        against="attention_rhythm --credit.factor.amp=1.0",
        measure="reward:mean",
        better_by=0.01,
        task="countdown",
        budget="steps=40",
        seeds=3,
    ),
)
