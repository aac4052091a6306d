"""Reasoning-SQL: GRPO for queries. A query with a wrong result can earn partial rewards: for its tables and columns, n-grams, syntax, logic and form.

    R = 3 r_exec + 2 r_judge + r_schema + r_ngram + r_syntax + r_form
    r_schema = (|S cap S^*|) / (|S cup S^*|), quad r_ngram = (|B cap B^*|) / (|B cup B^*|)
    A_i = (R_i - mean(R)) / (std(R))

An answer is `<reasoning>...</reasoning><answer>query</answer>`. $r_exec$ is 1 if query and reference have the same result; $r_syntax$ is 1 if the
query runs. S is the set of tables and columns in a query, and B is the set of pairs of neighbouring tokens; a star marks the reference. The judge grades
the logic of a wrong query from 0 to 1, and is asked about wrong queries only; a right query has $r_judge$ = 1. $r_form$ is 1 if both tags occur once
in this order. A wrong query earns at most 6, and a right query at least 6, so a right query is never worse than a wrong query. There is no supervised
stage before the RL. The KL weight is 0.001, and a group has 6 answers.

At test time several queries are sampled, and the most common result is taken (`Majority`).
Metrics: reward/syntax, reward/schema, reward/ngram, reward/judge, reward/form.

Use if: queries are judged by their results, and most groups have equal results, so the result alone gives no gradient.
Avoid if: there is no reference query to compare with (then only result, syntax and judge remain), or most groups already have right and wrong queries.
Reference: Pourreza et al., Reasoning-SQL: Reinforcement Learning with SQL Tailored Partial Rewards for Reasoning-Enhanced Text-to-SQL,
arXiv:2503.23157: the six rewards and GRPO without a supervised stage. No code of the authors was found.
Departures: The weights are our choices; the result of a query counts more than all other rewards together. The paper's judge is a large model with
its own rubrics; here the player `judge` gives points from 0 to 10 (`WrittenPoints`), and `ClauseJudge` is a scripted judge with the same task. Names
count as used if they occur as tokens of the query, even inside a string. The schema filter is left out. If the verifier of a task runs no queries, the reward
is the verdict.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim, same_weights
from gradus.rewards.beside_verdict import Terms, beside_verdict
from gradus.rewards.combine import Combines
from gradus.rewards.judge import Criterion, Judge, WrittenPoints
from gradus.rewards.overlap import jaccard
from gradus.rewards.queries import schema_overlap, tokens
from gradus.rewards.tags import in_tags
from gradus.types import Frozen, Group, Trajectory
from gradus.types.parts import Judgement, Signals, World
from gradus.types.players import Player
from gradus.types.signals import Signal

_CLAUSE = re.compile(r"\b(select|from|where|group by|order by|limit)\b", re.IGNORECASE)
LOGIC = Criterion("The query has the logic of the reference query.", 10)


def bigram_overlap(said: str, due: str) -> float:
    """Returns the Jaccard index of the pairs of neighbouring tokens."""
    a, b = tokens(said), tokens(due)
    return jaccard(list(pairwise(a)), list(pairwise(b)))


@dataclass(frozen=True)
class ClauseJudge:
    """A scripted judge: the share of the clauses of the reference query that the query also has, word for word."""

    async def points(self, trajectories: Sequence[Trajectory], criteria: Sequence[Criterion], world: World) -> list[list[int]]:
        return [[round(c.points * self.share(t)) for c in criteria] for t in trajectories]

    def share(self, trajectory: Trajectory) -> float:
        query = world_query(trajectory)
        due = clauses(str(trajectory.problem.meta["reference_query"]))
        return sum(clause in clauses(query) for clause in due) / len(due) if query is not None else 0.0


def clauses(query: str) -> list[str]:
    """Returns the clauses of a query, such as "where b = 1"."""
    parts = _CLAUSE.split(query.lower())
    return [f"{name} {' '.join(tokens(text))}" for name, text in zip(parts[1::2], parts[2::2])]


def world_query(trajectory: Trajectory) -> str | None:
    """Returns the text of the last `<answer>` tag."""
    found = re.findall("<answer>(.*?)</answer>", trajectory.completion, re.DOTALL)
    return found[-1].strip() if found else None


@dataclass(frozen=True)
class QueryReward(Combines):
    """The weighted sum of result, judge, schema, n-grams, syntax and form. The judge reads only answers with a wrong result."""

    judge: Judge = WrittenPoints()
    weights: Frozen[float] = Frozen(executed=3.0, judge=2.0, schema=1.0, ngram=1.0, syntax=1.0, form=1.0)
    name: ClassVar[str] = "query"
    needs: ClassVar[tuple[Signal, ...]] = ()

    async def score(self, groups: Sequence[Group], signals: Signals, world: World) -> list[list[Judgement]]:
        executed = getattr(world.task.verify, "executed", None)
        if executed is None:
            return await beside_verdict(groups, world, lambda t, verdict: None)
        runs = {t.id: executed(t.problem, t.completion) for g in groups for t in g.trajectories}
        wrong = [t for g in groups for t in g.trajectories if not runs[t.id][2]]
        graded = await self.judge.points(wrong, [LOGIC], world) if wrong and self.weights.get("judge") else [[0]] * len(wrong)
        judged = {t.id: row[0] / LOGIC.points for t, row in zip(wrong, graded, strict=True)}

        def terms(t: Trajectory, verdict: float) -> Terms:
            query, ran, right = runs[t.id]
            found = self.parts(t, query, ran, right, judged.get(t.id, 1.0))
            return sum(self.weights.get(name, 0.0) * value for name, value in found.items()), found

        return await beside_verdict(groups, world, terms)

    def parts(self, trajectory: Trajectory, query: str | None, ran: bool, right: bool, judged: float) -> Mapping[str, float]:
        """Returns the six terms, each in [0, 1]."""
        meta = trajectory.problem.meta
        due, names = str(meta["reference_query"]), list(map(str, meta["names"]))
        return {
            "executed": float(right),
            "judge": judged,
            "schema": schema_overlap(query, due, names) if query else 0.0,
            "ngram": bigram_overlap(query, due) if query else 0.0,
            "syntax": float(ran),
            "form": float(in_tags(trajectory.completion, ("reasoning", "answer"))),
        }


reasoning_sql = grpo.derive(
    "reasoning_sql",
    "Queries get partial rewards for their tables and columns, n-grams, syntax, logic and form.",
    family="rewards",
    reward=QueryReward(),
    objective__kl__coefficient=0.001,
    players__judge=Player(),
    setting__group=6,
)

claims = (
    same_weights(
        says="With the result alone as reward, the final weights are those of GRPO with the same KL weight.",
        source="arXiv:2503.23157, execution reward",
        against="grpo --objective.kl.coefficient 0.001",
        own={"reward": "Verified"},
    ),
    Claim(
        says="With the partial rewards the share of groups with a gradient is over 12 steps at least 0.2 above that of the result alone.",
        source="arXiv:2503.23157, partial rewards against sparse results; task, start model, scripted judge, sizes and bound are ours",
        against="grpo --objective.kl.coefficient 0.001",
        measure="informative:mean",
        better_by=0.2,
        task="text2sql",
        options={"level": "2"},
        fields={"prompts": "8", "group": "6", "warmup": "0", "study": "none", "learning_rate": "3e-4"},
        own={"reward.judge": "ClauseJudge", "players.judge": "none"},
        budget="steps=12",
        script="benchmarks.warmed reasoning_sql",
    ),
)
