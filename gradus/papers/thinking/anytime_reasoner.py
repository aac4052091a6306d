"""AnytimeReasoner: trains a model to have a good answer at every token budget. Thoughts are cut at several budgets, and answers are verified at each cut.

    r_j = "mean score of the" a "answers at cut" j
    R_s = sum_(j >= s) p_j r_j
    V_1 = (sum_(j < s) 2^j r_j)/(sum_(j < s) 2^j) sum_(j >= s) p_j
    A_s = R_s - (s V_1 + (m - s) "mean over thoughts of" R_s) / m

Each of 8 thoughts of a question is cut at the budgets $b_1 < ... < b_m$; m is 4. At each cut an inserted text ends the thinking, and a = 4 short
answers are sampled and verified. The prior p over budgets is uniform, linear in the budget, or has all its weight on the last budget ("base"). A
token between $b_s$ and $b_(s+1)$ (s = 0 to m - 1) gets the return $R_s$ of the cuts at or after its segment. The baseline (BRPO) mixes $V_1$, which
comes from the earlier scores of the same thought, with the mean return of the group. $V_1$ counts more in later segments; the first segment uses only
the mean of the group. Advantages are not divided by a deviation. A short answer has its own advantage: its score minus the mean score of the answers
at the same cut. Each thinking token is trained once, and an answer trains only its own tokens. The loss is PPO's clip, without KL, and a step has two
updates. Metrics: reward/anytime (mean of $r_j$ over cuts), thought.

Use if: the budget at test time varies, or thoughts should lead to an answer early.
Avoid if: no answer is possible before the thought ends, because the early cuts then only cost samples (see grpo).
Reference: Qi et al., Optimizing Anytime Reasoning via Budget Relative Policy Optimization, arXiv:2505.13438. The released code
(sail-sg/AnytimeReasoner) has the budgets 2000 to 8000, 4 answers, 8 thoughts, and 64 questions in mini-batches of 32. With the prior "base", one
answer per cut and the group's mean as baseline, the advantage of a thought is the mean-centred advantage of GRPO.
Departures: The inserted text is only the mark `</think>`. A thought that ended without a cut already has this mark. The code also inserts an ellipsis and a
heading, and counts only answers in this format. A thought that ends early gets new answers at each later cut; in the code these cuts share one larger set of
answers, with one mean. With one answer per cut, the baseline of an answer is the mean over the thoughts at that cut, as in the code. The loss is a mean over
all tokens of the mini-batch. The uniform prior is the default here; the code has a run for each prior.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from gradus.objectives.aggregation import TokenMean
from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim, same_weights
from gradus.rewards.combine import Combines, check_reward
from gradus.rewards.reshaped import reshaped
from gradus.rewards.verified import Verified
from gradus.rollouts.auto import Auto
from gradus.rollouts.exits import Budgets, check_mark, check_one_turn, cut_answers, final_answers, forced, thought_of, tokens_of, with_exits
from gradus.rollouts.single_turn import one_turn
from gradus.types import Context, Group, Request, Trajectory, UserError, prompt_context
from gradus.types.parts import Credited, Judgement, Reward, Signals, Task, World
from gradus.types.ranges import check_ranges
from gradus.types.signals import Signal

Prior = Literal["uniform", "linear", "base"]
Baseline = Literal["both", "group"]


def prior_of(cuts: int, prior: Prior) -> np.ndarray:
    """Returns the weights [m] of equally spaced budgets, which add up to 1."""
    weights = {"uniform": np.ones(cuts), "linear": np.arange(1.0, cuts + 1), "base": np.eye(cuts)[-1]}[prior]
    return np.asarray(weights / weights.sum())


def budget_relative(scores: np.ndarray, prior: np.ndarray, *, baseline: Baseline = "both", discount: float = 2.0) -> np.ndarray:
    """Returns the advantages A_s [G, m] of thoughts. Args: `scores` r [G, m], `prior` p [m]. With baseline "group", V_1 is not used.

    >>> budget_relative(np.array([[0, 0, 1, 1], [0, 0, 0, 0.0]]), np.full(4, 0.25))[0].round(4).tolist()
    [0.25, 0.3125, 0.375, 0.1116]
    """
    r = np.asarray(scores, np.float64)
    m = r.shape[1]
    out = np.zeros_like(r)
    for s in range(m):
        returns = r[:, s:] @ prior[s:]
        weights = discount ** np.arange(s)
        own = r[:, :s] @ weights / weights.sum() * prior[s:].sum() if s else np.zeros(len(r))
        share = s / m if baseline == "both" else 0.0
        out[:, s] = returns - share * own - (1 - share) * returns.mean()
    return out


def scores_of(group: Group) -> dict[int, np.ndarray]:
    """Returns for every thought the mean scores r [m] at its cuts; 0 at a cut without judged answers. Raises UserError without forced exits."""
    if any("cuts" not in t.links for t in group.trajectories):
        raise UserError(f"group {group.key} has answers without forced exits; set --rollout BudgetExits")
    found: dict[int, list[list[float]]] = {t.links["trace"]: [[] for _ in t.links["cuts"]] for t in group.trajectories}
    for t in group.trajectories:
        if not is_thought(t):
            found[t.links["trace"]][t.links["exit"]].append(float(t.components.get("verified", t.value)))  # type: ignore[arg-type]
    return {trace: np.array([float(np.mean(row)) if row else 0.0 for row in rows]) for trace, rows in found.items()}


def is_thought(trajectory: Trajectory) -> bool:
    """Returns whether a trajectory is a thought, not a forced answer."""
    return bool(trajectory.links["exit"] == len(trajectory.links["cuts"]))


@dataclass(frozen=True)
class BudgetExits:
    """Cuts every thought at the budgets `places`, and samples `answers` final answers at each cut. Links, groups and metrics are those of `ForcedExits`.

    If a thought ended without a cut, the mark that the player wrote stays, and nothing is inserted. The thought ends with its mark or its last cut.
    """

    places: Budgets = Budgets()
    text: str = "</think>"  # this text is inserted at a cut
    mark: str = "</think>"  # the final answer follows this text
    answers: int = 4  # final answers per cut
    limit: int = 128  # new tokens of a forced answer
    gives: ClassVar[frozenset[str]] = frozenset({"exits"})
    plays: ClassVar[str] = "answers"

    def __post_init__(self) -> None:
        check_ranges(self, answers="[1, inf)", limit="[1, inf)")
        check_mark(self)

    @property
    def test(self) -> Auto:
        """The rollout of evaluation: plain answers."""
        return Auto()

    def check_task(self, task: Task) -> None:
        """Raises UserError if the player writes no text, or if the task has an environment."""
        check_one_turn(self, task)

    async def run(self, requests: Sequence[Request], world: World) -> list[Group]:
        """Returns one judged group per request."""
        return await cut_answers(requests, self._exits, world)

    async def _exits(self, request: Request, index: int, whole: Context, world: World) -> list[Trajectory]:
        """Returns the forced answers of one answer, and its thought."""
        thought, marked = thought_of(whole, self.mark, request, world)
        cuts = self.places.cuts(thought)
        ended = [cut == thought < marked for cut in cuts]  # the player itself ended the thought
        inserted = prompt_context(tokens_of(self.text, world, request.player))
        starts = [whole.first(marked) if own else whole.first(cut).then(inserted) for cut, own in zip(cuts, ended, strict=True)]
        drawn = await final_answers(request, index, starts, world, limit=self.limit, count=self.answers)
        made = [[forced(asked, n, start, piece, piece, world) for n, piece in enumerate(row)] for start, (asked, row) in zip(starts, drawn, strict=True)]
        trained = whole.first(min(marked if ended[-1] else cuts[-1], whole.actions))
        return with_exits(made, one_turn(request, index, trained, world), index, cuts, thought, world)


@dataclass(frozen=True)
class AnytimeReturn(Combines):
    """Forced answers keep the reward of `reward`. A thought gets the mean score of its cuts, weighted by the prior. The component "anytime" is the mean score
    with equal weights.
    """

    reward: Reward = Verified()
    prior: Prior = "uniform"
    name: ClassVar[str] = "anytime"

    @property
    def needs(self) -> tuple[Signal, ...]:
        return self.reward.needs

    def check(self, task: Task) -> None:
        check_reward(self.reward, task)

    async def score(self, groups: Sequence[Group], signals: Signals, world: World) -> list[list[Judgement]]:
        return await reshaped(self.reward, groups, signals, world, lambda judged: [self.values(g) for g in judged])

    def values(self, group: Group) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """Returns the rewards [G] of a judged group, its verdicts, and the mean scores of the thoughts."""
        if not all("cuts" in t.links for t in group.trajectories):  # plain answers, as in an evaluation
            return group.rewards, {}
        scores = scores_of(group)
        found = group.rewards.copy()
        for i, t in enumerate(group.trajectories):
            if is_thought(t):
                row = scores[t.links["trace"]]
                found[i] = row @ prior_of(len(row), self.prior)
        return found, {"verified": found, "anytime": np.array([scores[t.links["trace"]].mean() for t in group.trajectories])}


@dataclass(frozen=True)
class BudgetRelative:
    """Tokens of a thought get the budget-relative advantage. A forced answer gets its score minus the mean score at the same cut."""

    prior: Prior = "uniform"
    baseline: Baseline = "both"  # "group": only the mean return of the group
    discount: float = 2.0
    needs: ClassVar[tuple[Signal, ...]] = ()

    def assign(self, groups: Sequence[Group], signals: Signals) -> list[list[Credited]]:
        return [self._group(group) for group in groups]

    def _group(self, group: Group) -> list[Credited]:
        scores = scores_of(group)
        table = np.array(list(scores.values()))
        found = budget_relative(table, prior_of(table.shape[1], self.prior), baseline=self.baseline, discount=self.discount)
        rows = dict(zip(scores, found, strict=True))
        several = max(sum(t.links["exit"] == k and t.links["trace"] == i for t in group.trajectories) for i in scores for k in range(table.shape[1])) > 1
        out = []
        for t in group.trajectories:
            cuts, trace, at = np.array(t.links["cuts"]), t.links["trace"], t.links["exit"]
            if is_thought(t):
                segments = (cuts[None, :] <= np.minimum(np.arange(t.actions), cuts[-1] - 1)[:, None]).sum(1)
                out.append(Credited(rows[trace][segments]))
            else:
                mean = scores[trace][at] if several else table[:, at].mean()
                out.append(Credited(np.full(t.actions, float(t.value - mean))))
        return out


anytime_reasoner = grpo.derive(
    "anytime_reasoner",
    "Thoughts are cut at several budgets, and each cut gets answers; the advantage of a segment is relative to the earlier scores of the thought.",
    family="thinking",
    rollout=BudgetExits(),
    reward=AnytimeReturn(),
    credit=BudgetRelative(),
    objective__policy__average=TokenMean(),
    objective__kl=None,
    players__reference=None,
    update__count=2,
)

_SMALL = {
    "rollout.places.at": "(4, 8, 12, 16)", "rollout.mark": " =", "rollout.text": " =", "rollout.limit": "5", "rollout.answers": "2",
    "prompts": "8", "group": "4", "learning_rate": "3e-4", "warmup": "0", "study": "none",
}  # fmt: skip

claims = (
    same_weights(
        says="With all weight on the last budget and the group's baseline, the prior of the reward has no effect on the weights.",
        source="arXiv:2505.13438, the special case of GRPO: only scores at cuts enter the advantage",
        against="anytime_reasoner --credit.prior base --credit.baseline group --reward.prior base",
        own={"credit.prior": "base", "credit.baseline": "group"},
        options={"level": "2"},
        fields=_SMALL,
        budget="steps=2",
    ),
    Claim(
        says="With the uniform prior, the mean score over the four budgets after 25 steps is at least 1.1 times that of training for the last budget alone.",
        source="arXiv:2505.13438, figures 3 and 4 (above GRPO at every budget); task, budgets of 4 to 16 tokens and the factor are ours",
        against="anytime_reasoner --credit.prior base --credit.baseline group",
        measure="reward/anytime:last",
        at_least=1.1,
        task="arithmetic",
        options={"level": "2"},
        fields=_SMALL,
        budget="steps=25",
    ),
)
