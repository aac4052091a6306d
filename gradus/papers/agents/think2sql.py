"""Think2SQL: GRPO for SQL queries. The reward compares two result tables by cells and rows, so a nearly right table earns nearly the full reward.

    R = 0.85 Q + 0.1 F + 0.05 K
    Q = (CP + CR + TC) / 3
    CP = (|P cap T|) / (|P|), quad CR = (|P cap T|) / (|T|), quad TC = (min(n_P, n_T)) / (max(n_P, n_T))
    A_i = (R_i - mean(R)) / (std(R))

P is the multiset of the cells in the result of the answer's query, and T is the same multiset for the reference query. The results have $n_P$ and
$n_T$ rows. CP is the precision of the cells, CR is their recall, and TC is the agreement of the numbers of rows. Q is 0 for a query that does not
run. An answer is `<reasoning>...</reasoning><answer>query</answer>`. F is 1 if both tags occur once, in this order, with nothing around them. K is
0.25 times the number of these four tags that occur exactly once. `--reward.table exact` sets Q to the verdict of the task: 1 for the right result,
else 0.

A group has 16 answers, and there is no KL term. The paper compares prompts, SFT, RL, and SFT followed by RL; small models gain most from SFT before
RL. Metrics: reward/precision, reward/recall, reward/rows, reward/form, reward/tags.

Use if: queries are judged by their results, results have several columns and rows, and few groups have both right and wrong answers.
Avoid if: results are single numbers, because then Q and the verdict are nearly equal, or if clauses can be compared with a reference query (see
reasoning_sql).
Reference: Papicchio et al., Think2SQL: Reinforce LLM Reasoning Capabilities for Text2SQL, arXiv:2504.15077, versions 1, 2 and 5.
Departures: The weights 0.85, 0.1 and 0.05 could not be confirmed. Equal cells agree even if they are in different columns, and two empty tables
agree. The order of rows counts in the verdict, but not in Q. A table is cut after 10,000 rows, and the rows after the cut do not count. The clip is as in the
base; a batch has one update, so the clip never acts. The task, with one or two generated tables, is our choice. Version 3 of the paper is another study. The
public code (spapicchio/Think2SQL) belongs to version 3 and differs: its script gives Q the weight 0.95 and the form the weight 0.05. In another reward of
this code every query that runs earns at least 0.1. The code takes the deviation over the batch. This recipe does not set the paper's temperature of 0.7 and
learning rate of 10^-6. The other ways of training are not recipes of this file. If the verifier of a task runs no queries, the reward is the verdict.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim, same_weights
from gradus.rewards.beside_verdict import Terms, beside_verdict
from gradus.rewards.combine import Combines
from gradus.rewards.tags import in_tags
from gradus.types import Frozen, Group, Trajectory
from gradus.types.parts import Judgement, Signals, World
from gradus.types.signals import Signal

TAGS = ("<reasoning>", "</reasoning>", "<answer>", "</answer>")


def agreement(said: Sequence[Sequence[Any]], due: Sequence[Sequence[Any]]) -> tuple[float, float, float]:
    """Returns cell precision, cell recall and the agreement of the numbers of rows of two tables.

    >>> agreement([(1, 2), (9, 9)], [(2, 1)])
    (0.5, 1.0, 0.5)
    """
    ours, theirs = (Counter(cell for row in table for cell in row) for table in (said, due))
    common = (ours & theirs).total()
    precision, recall = (common / cells.total() if cells else float(not ours and not theirs) for cells in (ours, theirs))
    return precision, recall, min(len(said), len(due)) / max(len(said), len(due)) if said or due else 1.0


@dataclass(frozen=True)
class TableReward(Combines):
    """The weighted sum of three terms: the form, the tags, and the agreement of the result tables (or the verdict, if `table` is "exact")."""

    table: Literal["cells", "exact"] = "cells"
    weights: Frozen[float] = Frozen(table=0.85, form=0.1, tags=0.05)
    name: ClassVar[str] = "table"
    needs: ClassVar[tuple[Signal, ...]] = ()

    async def score(self, groups: Sequence[Group], signals: Signals, world: World) -> list[list[Judgement]]:
        results = getattr(world.task.verify, "results", None)

        def terms(t: Trajectory, verdict: float) -> Terms | None:
            if results is None:
                return None
            _, ran, due = results(t.problem, t.completion)
            precision, recall, rows = (0.0, 0.0, 0.0) if ran is None else agreement(ran, due)
            found = {"table": verdict if self.table == "exact" else (precision + recall + rows) / 3, **form(t.completion)}
            reward = sum(self.weights.get(name, 0.0) * value for name, value in found.items())
            return reward, {"precision": precision, "recall": recall, "rows": rows, **found}

        return await beside_verdict(groups, world, terms)


def form(completion: str) -> dict[str, float]:
    """Returns whether the form is right, and the share of the four tags that occur exactly once."""
    return {"form": float(in_tags(completion, ("reasoning", "answer"))), "tags": sum(completion.count(tag) == 1 for tag in TAGS) / len(TAGS)}


think2sql = grpo.derive(
    "think2sql",
    "Queries are judged by their form, and by the cells and rows that their result shares with the reference's result.",
    family="agents",
    reward=TableReward(),
    objective__kl=None,
    players__reference=None,
    setting__group=16,
)

claims = (
    same_weights(
        says="With the verdict as the only term, the final weights are those of GRPO without a KL term.",
        source="arXiv:2504.15077, the variant with the execution accuracy",
        against="grpo --objective.kl none --players.reference none",
        own={"reward.table": "exact", "reward.weights": '{"table": 1.0}'},
    ),
    Claim(
        says="On questions about two tables the share of groups with a gradient is over 8 steps at least 1.3 times that of the verdict, without form terms.",
        source=(
            "arXiv:2504.15077, abstract (fine-grained rewards learn more than the execution accuracy); the row's factor; task, start, sizes and the "
            "weights of both arms are ours"
        ),
        against="think2sql --reward.table exact",
        measure="informative:mean",
        at_least=1.3,
        task="text2sql",
        options={"level": "5"},
        fields={"prompts": "4", "group": "8", "warmup": "0", "study": "none", "learning_rate": "3e-4", "reward.weights": '{"table": 1.0}'},
        budget="steps=8",
        script="benchmarks.warmed think2sql",
        seeds=3,
    ),
)
