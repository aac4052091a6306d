"""LeDex: a model explains the fault of a wrong program, and then writes the program again. PPO rewards the explanation and the fix separately.

    R_code = 5 (S_cb + S_ut) - 5
    R_exp = max(-5, (50 S_ex - 35)/3)
    delta_t = r_t + V_(t+1) - V_t, quad A_t = sum_(k >= 0, t + k <= e(t)) lambda^k delta_(t+k)

$S_cb$ is the mean CodeBLEU of the fix and the known right fixes, and $S_ut$ is the share of tests that the fix passes. $S_ex$ is the mean cosine between the
embedding of the explanation and the embeddings of explanations that led to a right fix: 0.4 gives -5, 0.7 gives 0, and 1 gives 5. The last token of the
explanation gets $R_exp$, and the last token of the fix gets $R_code$. e(t) is the last token of the segment of token t, and the value after e(t) is 0. So the
reward of the fix does not change the advantages of the explanation. The advantages of the two segments are whitened separately. The KL penalty applies to
every token.

A reply is <explanation>...</explanation><fix>...</fix>. The prompt has the task, the wrong program, and the result of a failing test. Training uses right
and wrong fixes. Fine-tuning comes first, on trajectories whose fix passes all tests: `gradus train sft:50,ledex:100 --task code_repair --task.form function
--task.reward share`. At test time the program is run and repaired again, up to 3 times. Metrics: reward/explanation, reward/fix, reward/code_bleu.

Use if: programs can be run, right fixes are known, and readers need an explanation of the fault.
Avoid if: there are no explanations to compare with, or tests alone should decide, because a right fix in other words has a low CodeBLEU.
Reference: Jiang et al., LeDex: Training LLMs to Better Self-Debug and Explain Code, arXiv:2405.18649: both rewards with their limits -5 and 5, separate
rewards for explanation and fix, data of successes and failures, and up to 3 rounds.
Departures: No code was found. The task `code_repair` is ours: functions of three to five steps with one fault, and explanations of one form. The wrong program
comes from the task, not from samples of the model. Plain generation is not mixed into the fine-tuning. The embedding counts the n-grams of one to three
characters, in place of a sentence encoder. R_exp is clipped at -5. Each problem has one known right fix and one explanation, so both means are over one text.
An answer without </explanation> is one segment: its last token gets both rewards, and it is whitened with the explanations. The rounds at test time stop at a
program that passes the tests of the task. The ends of the segments, the whitening of each segment, KL 0.05 and clip 0.2 are our choices. The multi-turn form
is not trained. CodeBLEU is our own implementation for Python. The reward of a problem without known fixes is the verdict.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from gradus.credit.gae import action_rewards, gae, last_value, whiten
from gradus.credit.kl_penalty import KLPenalty
from gradus.environments.program_edits import asks, fix_of
from gradus.papers.bases.ppo import ppo
from gradus.recipe.claim import Claim, same_weights
from gradus.rewards.beside_verdict import Terms, beside_verdict
from gradus.rewards.code_bleu import code_bleu
from gradus.rewards.combine import Combines
from gradus.rewards.overlap import grams
from gradus.rollouts.feedback import Attempt
from gradus.rollouts.spans import WithSpans
from gradus.search.revised import Revised
from gradus.types import Frozen, Group, Trajectory
from gradus.types.control import EndValues
from gradus.types.parts import Credited, Judgement, Signals, World
from gradus.types.ranges import check_ranges
from gradus.types.signals import Signal, Values
from gradus.types.spans import Separated

EXPLANATION = "explanation"
PARTS = Separated(r"</explanation>", most=2)
"""Step 0 is the explanation with its tags, step 1 is the rest."""


def embedded(text: str) -> Counter[tuple[object, ...]]:
    """Returns the numbers of the n-grams of 1 to 3 characters."""
    return sum((grams(text, n) for n in (1, 2, 3)), Counter())


def cosine(one: str, two: str) -> float:
    """Returns the cosine of the embeddings of two texts, in [0, 1]; 0 for an empty text."""
    a, b = embedded(one), embedded(two)
    length = math.sqrt(sum(n * n for n in a.values()) * sum(n * n for n in b.values()))
    return min(1.0, sum(n * b[key] for key, n in a.items()) / length) if length else 0.0


def code_reward(overlap: float, passed: float) -> float:
    """Returns R_code, from -5 to 5."""
    return 5 * (overlap + passed) - 5


def explanation_reward(likeness: float) -> float:
    """Returns R_exp, from -5 to 5."""
    return max(-5.0, (50 * likeness - 35) / 3)


@dataclass(frozen=True)
class ExplainedFix(Combines):
    """The rewards of the explanation and of the fix, each from -5 to 5. The reward of a problem without known fixes (columns `fix` and `explanation`) is the
    verdict."""

    name: ClassVar[str] = "explained"
    needs: ClassVar[tuple[Signal, ...]] = ()

    async def score(self, groups: Sequence[Group], signals: Signals, world: World) -> list[list[Judgement]]:
        return await beside_verdict(groups, world, terms)


def terms(t: Trajectory, passed: float) -> Terms | None:
    """Returns the reward of a reply and its components."""
    meta = t.problem.meta
    if "fix" not in meta:
        return None
    said = t.completion.partition("<explanation>")[2].partition("</explanation>")[0].strip()
    overlap = code_bleu(fix_of(t.completion), meta["fix"])
    explanation, fix = explanation_reward(cosine(said, meta[EXPLANATION])), code_reward(overlap, passed)
    return explanation + fix, {EXPLANATION: explanation, "fix": fix, "code_bleu": overlap}


@dataclass(frozen=True)
class SegmentGAE:
    """GAE within each step of an answer (stream `span`). The last action of step 0 gets the component `explanation`, and the last action of the answer gets
    the rest of the reward. Each step is whitened separately. An answer with one step has the advantages of GAE. If the component is missing, the last action
    gets the whole reward.
    """

    gamma: float = 1.0
    lam: float = 0.95
    whitened: bool = True  # over all actions of the batch that have the same step number
    critic: str = "critic"
    gives: ClassVar[frozenset[str]] = frozenset({"returns"})
    asks: ClassVar[Mapping[str, str]] = Frozen(spans="--rollout WithSpans")

    def __post_init__(self) -> None:
        check_ranges(self, gamma="[0, 1]", lam="[0, 1]")

    @property
    def needs(self) -> tuple[Signal, ...]:
        return (Values(player=self.critic), EndValues(player=self.critic))

    def assign(self, groups: Sequence[Group], signals: Signals) -> list[list[Credited]]:
        trajectories = [t for g in groups for t in g.trajectories]
        values = [signals[Values(player=self.critic)][t.id].astype(np.float64) for t in trajectories]
        pieces = [self._segments(t, v, last_value(t, signals, self.critic)) for t, v in zip(trajectories, values, strict=True)]
        returns = [np.concatenate(row) + v for row, v in zip(pieces, values, strict=True)]
        if self.whitened:
            firsts, rests = whiten([row[0] for row in pieces]), whiten([row[1] for row in pieces])
            pieces = list(zip(firsts, rests, strict=True))
        flat = iter(Credited(np.concatenate(row), r) for row, r in zip(pieces, returns, strict=True))
        return [[next(flat) for _ in g.trajectories] for g in groups]

    def _segments(self, t: Trajectory, values: np.ndarray, last: float) -> tuple[np.ndarray, np.ndarray]:
        """Returns the advantages of step 0 and of the rest; the rest is empty for an answer with one step."""
        rewards, cut = action_rewards(t), int((t.stream("span") <= 0).sum())
        own = t.components.get(EXPLANATION, 0.0)
        if 0 < cut < len(rewards) and isinstance(own, int | float):
            rewards[-1] -= own
            rewards[cut - 1] += own
        first = gae(rewards[:cut], values[:cut], gamma=self.gamma, lam=self.lam, last_value=0.0 if cut < len(rewards) else last)
        return first, gae(rewards[cut:], values[cut:], gamma=self.gamma, lam=self.lam, last_value=last)


@dataclass(frozen=True)
class FailingTest:
    """Feedback for the next round: the issue, the function that the reply wrote, and the result of its first failing test.

    A reply without a function gets no feedback. The tests run in the task's sandbox.
    """

    async def texts(self, attempts: Sequence[Attempt], world: World) -> list[str | None]:
        return [self.text(t, world) for _, t in attempts]

    def text(self, t: Trajectory, world: World) -> str | None:
        failure, fix = getattr(world.task.verify, "failure", None), fix_of(t.completion)
        if failure is None or not fix or "issue" not in t.problem.meta:
            return None
        return asks(t.problem.meta["issue"], fix, failure(t.problem, t.completion))


ledex = ppo.derive(
    "ledex",
    "A model explains the fault of a wrong program and writes the program again; explanation and fix have separate rewards in PPO.",
    family="agents",
    rollout=WithSpans(marking=PARTS),
    reward=ExplainedFix(),
    credit=KLPenalty(SegmentGAE(), 0.05, "k1"),
    search=Revised(rounds=3, feedback=FailingTest()),
)

_TERMS = {"prompts": "8", "group": "4", "learning_rate": "5e-5", "warmup": "0", "eval_every": "12", "study.problems": "64", "study.greedy": "false"}

claims = (
    same_weights(
        says="For answers without an explanation the final weights are those of PPO with the same KL coefficient.",
        source="arXiv:2405.18649, the objective is PPO's; the limit is ours",
        against="ppo --credit.coefficient 0.05",
    ),
    Claim(
        says="After fine-tuning, 12 steps raise the share of right fixes by at least 0.05.",
        source="arXiv:2405.18649, tables of the refinement after SFT and after RL; the size is the row's; task, start and numbers of steps are ours"
        "; stated again after a look: at a rate of 3e-4 right fixes became rarer in all seeds",
        measure="held_out/accuracy:gain",
        better_by=0.05,
        task="code_repair",
        options={"form": "function", "level": "1", "reward": "share"},
        fields=_TERMS,
        budget="steps=12",
        seeds=3,
        script="benchmarks.warmed ledex",
    ),
)
