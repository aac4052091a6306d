"""ReEx-SQL: trial queries within the answer. The model reads their results before it writes the final query; useful trials are rewarded.

    R = r_exec + r_entity + r_explore
    r_exec = 3 if the result is right, quad 0 if it differs, quad -1 if the query fails
    r_entity = (|E cap E^*|) / (|E cup E^*|), quad r_explore = (u) / (2 min(2, m))
    A_i = (R_i - mean(R)) / (std(R))

A piece of the answer ends at </intermediate_sql>. The query runs, and its result is inserted between <result> and </result>: the names of the columns
and at most three rows, or the text of the error. Inserted results have no loss. Only the first T = 3 trials run. `<final_sql>query</final_sql>` ends
the answer. E is the set of tables and columns in the final query, and a star marks the reference. m is the number of trials, and u counts the useful
trials among the first two. A trial is useful if its result has at least one row and is new in this answer. $r_explore$ is 0 for m = 0. If a tag is
not closed or there is no final query, R is -1.

At test time `TREE` is a search (`recipe.but(search=TREE)`). Every live branch is continued k = 3 times up to its next trial or final query. Branches with the
same results are merged; the most probable one stays. At most B = 8 branches continue. Finished branches vote by the result of their final query. If two
results have equal votes, the result of the more probable branch wins. Branches share their earlier text, so it is sampled only once. Separate answers would
sample it several times.

A group has 8 answers, and the KL weight is 0.001. Metrics: reward/execution, reward/entity, reward/explore.

Use if: the query needs facts that only the database shows, such as the spelling of values, and trials are cheap.
Avoid if: questions and schema determine the query (see reasoning_sql, think2sql), or if a trial costs much.
Reference: Dai et al., ReEx-SQL: Reasoning with Execution-Aware Reinforcement Learning for Text-to-SQL, arXiv:2505.12768. No code was found.
Departures: Our own choices are the values of all terms, T, k and B, the share of useful trials, and the order in which branches are kept. The clip is as in
the base; a batch has one update, so the clip never acts. The probability of a branch is measured by its mean log-probability per token. Thinking needs no
tag. An episode has at most 6 pieces. Three dots after the rows mean that more rows exist. A result is new if its shown text is new, and branches are merged
if these texts are equal. A vote compares the multisets of the first 1,000 rows, without names of columns. The tree of one question is sampled round by round.
If a task has no reference queries, the reward is the verdict. The task, with hidden spellings in generated tables (`--task.hidden true`), is our choice.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from gradus.environments.tools import Tools
from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim
from gradus.rewards.environment import EnvironmentReturn
from gradus.rewards.queries import schema_overlap
from gradus.rollouts.episodes import Episodes
from gradus.search.episode_tree import EpisodeTree
from gradus.tools.databases import QueryError, QueryLimits, read
from gradus.tools.forms import TaggedCalls
from gradus.tools.sql import Sql, table
from gradus.types import Ended, Frozen, Group, Problem, Trajectory
from gradus.types.parts import Judgement, Signals, World
from gradus.types.signals import Signal

TRIAL, FINAL = "intermediate_sql", "final_sql"
TRIALS, ROWS = 3, 3


def inside(tag: str, text: str) -> list[str]:
    """Returns the texts between the opening and the closing tag."""
    return [found.strip() for found in re.findall(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)]


def balanced(text: str) -> bool:
    """Returns whether every tag is closed and there is one final query."""
    pairs = all(text.count(f"<{tag}>") == text.count(f"</{tag}>") for tag in ("think", TRIAL, FINAL))
    return pairs and len(inside(FINAL, text)) == 1 and len(inside(TRIAL, text)) == text.count(f"<{TRIAL}>")


def outcome(problem: Problem, query: str) -> tuple[str | None, int]:
    """Returns the shown result of a query and the number of its rows; None and 0 if it fails."""
    try:
        found = read(str(problem.meta["database"]), query, QueryLimits(rows=ROWS))
    except QueryError:
        return None, 0
    return table(found), len(found.rows)


def exploration(results: Sequence[tuple[str | None, int]]) -> float:
    """Returns half of the share of useful trials among the first two trials. If there is only one trial, this trial alone decides. A trial is useful if it
    has rows and is new.

    >>> exploration([("a", 1), ("b", 1)]), exploration([("a", 1), ("a", 1)]), exploration([("a", 0)]), exploration([])
    (0.5, 0.25, 0.0, 0.0)
    """
    first = results[:2]
    useful = sum(rows > 0 and shown not in {text for text, _ in first[:i]} for i, (shown, rows) in enumerate(first))
    return 0.5 * useful / len(first) if first else 0.0


@dataclass(frozen=True)
class ExplorationReward:
    """Gives -1 for a broken form; else the sum of the terms for execution, names and exploration. Accuracy is the environment's verdict."""

    explore: bool = True
    needs: ClassVar[tuple[Signal, ...]] = ()

    async def score(self, groups: Sequence[Group], signals: Signals, world: World) -> list[list[Judgement]]:
        plain = await EnvironmentReturn().score(groups, signals, world)
        return [[self._judged(t, j) for t, j in zip(g.trajectories, row, strict=True)] for g, row in zip(groups, plain, strict=True)]

    def _judged(self, t: Trajectory, plain: Judgement) -> Judgement:
        if not isinstance(plain.reward, float | int) or "reference_query" not in t.problem.meta:
            return plain
        if t.ended is not Ended.ENVIRONMENT or not balanced(t.completion):
            return replace(plain, reward=-1.0)
        (final,), meta = inside(FINAL, t.completion), t.problem.meta
        execution = 3.0 if plain.reward > 0 else -1.0 if outcome(t.problem, final)[0] is None else 0.0
        entity = schema_overlap(final, str(meta["reference_query"]), list(map(str, meta["names"])))
        explore = exploration([outcome(t.problem, query) for query in inside(TRIAL, t.completion)[:TRIALS]]) if self.explore else 0.0
        parts = {"execution": execution, "entity": entity, "explore": explore}
        return replace(plain, reward=sum(parts.values()), components=Frozen({**plain.components, **parts}))


def result_vote(leaf: Trajectory) -> object:
    """Returns the vote of a finished branch of the tree: the rows of its final query in a fixed order; None if the query fails."""
    found = inside(FINAL, leaf.completion)
    try:
        return tuple(sorted(read(str(leaf.problem.meta["database"]), found[-1], QueryLimits()).rows, key=repr)) if found else None
    except QueryError:
        return None


PLAY = Episodes(max_turns=TRIALS + 3)
TREE = EpisodeTree(copies=3, live=8, vote=result_vote, play=PLAY)

reex_sql = grpo.derive(
    "reex_sql",
    "Trial queries within the answer, and a reward for execution, names and useful trials.",
    family="agents",
    environment=Tools(tools=Frozen(sql=Sql(rows=ROWS)), form=TaggedCalls(names=((TRIAL, "sql"), (FINAL, "answer"))), calls=TRIALS, limit=TRIALS + 3),
    rollout=PLAY,
    reward=ExplorationReward(),
    objective__kl__coefficient=0.001,
    setting__group=8,
)

claims = (
    Claim(
        says="On questions with hidden spellings accuracy is at least 0.1 above the same training without results of trials.",
        source="arXiv:2505.12768, abstract (above the reasoning without trials); the row's 10 points; task, start and sizes are ours",
        against="reex_sql --environment.calls=0",
        measure="accuracy",
        better_by=0.1,
        task="text2sql",
        options={"hidden": "true"},
        fields={"prompts": "4", "group": "8", "learning_rate": "3e-4", "eval_every": "0", "study.problems": "64"},
        budget="steps=12",
        script="benchmarks.warmed reex_sql",
        seeds=3,
    ),
)
