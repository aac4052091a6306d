"""GLoRe: a model of steps tells where a draft goes wrong; two refiners write the answer again, and a model of outcomes chooses between draft and refinements.

    l_i = 1 "if at least one of" K = 8 "continuations of the steps" 1, ..., i "is right, else" 0
    loss_SORM = "mean over labelled" i "of" -l_i log s_i - (1 - l_i) log(1 - s_i)
    loss_ORM = "mean over tokens" t "of" -R log o_t - (1 - R) log(1 - o_t)
    hat y = argmax_(y in {"draft", "global", "local"}) o(x, y)

The student, which is the policy, does not change. It drafts answers, and continues every wrong draft from the end of each step. A right continuation
counts only if it uses the results of the steps before it. If $l_i = 1$, all earlier labels become 1. At every depth, surplus labels of the more frequent kind
are dropped. SORM is the sigmoid of the value head of `sorm`. ORM is the sigmoid of the value head of `orm`; it learns only the verdict R of the whole draft.

Both refiners start as the student and learn by SFT. The global refiner reads a wrong draft, and learns a right answer to the same problem. The local
refiner reads the draft with the mark [BAD] before the first step with label 0. It learns the text before the mark, followed by a right continuation.

At test time the student drafts greedily. The mark goes before the first step with a SORM below 0.5. Draft, global and local refinement are scored by
ORM. If no step is below 0.5, the local refinement is the draft.

Metrics: local_pairs and global_pairs (per problem), good_labels (share of 1 before the balance); held_out/accuracy, held_out/draft, /global, /local,
/best_of_3, /oracle (refines only wrong drafts), /over_best_of_3, /sorm_steps and /orm_steps (balanced accuracy on right and wrong steps), /over_orm.

Use if: the student solves 20 to 80 percent of the problems, and errors lie in single steps.
Avoid if: the student can be trained further (see grpo), or a verifier is present at test time.
Reference: Havrilla et al., GLoRe: When, Where, and How to Improve LLM Reasoning via Global and Local Refinements, arXiv:2402.10963. Only the abstract and
notes on the paper were read; no code of the authors was found.
Departures: The student learns by SFT alone; in the paper, it also learns by RL. Every step makes new data, in place of one large set before the training. A
right draft gets the labels 1 without continuations; the rule for earlier labels gives the same result. The whole draft has its verdict as label, which is not
balanced; so a wrong draft always has a mark, at the latest before its last step. ORM learns at every token. The test "uses the results" is ours: the last
digit of each result, unless it is 0, occurs in the final answer. It reads only numbers after "=", so on string_ops, the task of both claims, it accepts every
right continuation, and a wrong step that is followed by a right answer gets the label 1. There is one pair per wrong draft and refiner. The prompts are ours.
In the study, a step is right only if the answer up to its end agrees with the worked solution; this rule is ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gradus.credit.groups import Constant
from gradus.credit.step_values import StepChances
from gradus.curricula.shuffled_epochs import ShuffledEpochs
from gradus.objectives.chances import ChanceLoss, RewardLikelihood
from gradus.objectives.terms import Imitation
from gradus.papers.bases.sft import sft
from gradus.recipe.claim import Claim
from gradus.rewards.reward_model import chance_of
from gradus.rewards.verified import Verified
from gradus.rollouts.spans import rows_of
from gradus.rollouts.step_repairs import RepairDraft, StepRepairs, said_before
from gradus.schedules.stages import Stage, Stages
from gradus.search.best_refinement import BestRefinement
from gradus.study.held_out import held_out_requests, of_problems
from gradus.study.summary import mean
from gradus.types import Frozen
from gradus.types.moments import Steps
from gradus.types.parts import Reward, World
from gradus.types.players import Copy, Head, Player
from gradus.types.ranges import check_ranges
from gradus.types.signals import Value
from gradus.types.spans import scores_at_ends


@dataclass(frozen=True)
class RefinementStudy:
    """Measures the search, its single candidates, best of 3 by ORM, and both outcome models on the steps of sampled answers (see the metrics of the recipe).

    A step is right if the answer up to its end is the beginning of the worked solution.
    """

    problems: int = 64
    search: BestRefinement = BestRefinement()
    patience: int = 0  # the run stops early after this number of evaluations without improvement; 0: it never stops early
    target: float | None = None  # the run stops when held_out/accuracy reaches this number; None: no such stop
    reward: Reward = Verified()  # the reward that judges evaluations

    def __post_init__(self) -> None:
        check_ranges(self, problems="[1, inf)", patience="[0, inf)", target="[0, inf)")

    async def measure(self, run: Any, recipe: Any, world: Any) -> dict[str, float | None]:
        requests = held_out_requests(world.task.held_out, self.problems, 1, world.task.level)
        search = replace(self.search, ways=("draft", "global", "local", "sample", "sample"))
        rows = await search.candidates(requests, world)
        right = np.array([[float(t.right) for t in row] for row in rows])
        each = np.arange(len(rows))
        ours = right[each, await search.picks([row[:3] for row in rows], world)]
        best = right[each, np.array([0, 3, 4])[await search.picks([[row[0], *row[3:]] for row in rows], world)]]
        fixed = right[each, 1 + np.array(await search.picks([row[1:3] for row in rows], world))]
        found = dict(zip(("held_out/draft", "held_out/global", "held_out/local"), right.mean(0).tolist(), strict=False))
        found |= {"held_out/best_of_3": float(best.mean()), "held_out/over_best_of_3": float((ours - best).mean())}
        found["held_out/oracle"] = float(np.where(right[:, 0] > 0, 1.0, fixed).mean())
        sampled = [RepairDraft(r, t, rows_of(search.marking, t, world)[0]) for r, row in zip(requests, rows, strict=True) for t in row[3:] if t.actions]
        sorm, orm = [await step_accuracy(sampled, player, search.threshold, world) for player in (search.sorm, search.orm)]
        over = None if sorm is None or orm is None else sorm - orm
        return {**of_problems(ours.tolist()), **found, "held_out/sorm_steps": sorm, "held_out/orm_steps": orm, "held_out/over_orm": over}


async def step_accuracy(drafts: Sequence[RepairDraft], player: str, threshold: float, world: World) -> float | None:
    """Returns the mean of two shares: right steps with a score of at least the threshold, and wrong steps with a smaller score. None without one kind."""
    well: dict[bool, list[float]] = {True: [], False: []}
    rows = await world.score([d.made.contexts[0] for d in drafts], Value(), player)
    for d, row in zip(drafts, rows, strict=True):
        due = str(d.made.problem.meta["solution"]).strip()
        begun = [due.startswith(said_before(start, world)) for start in d.starts[1:]]
        truths = [*begun, d.made.completion.strip() == due]
        for score, truth in zip(chance_of(scores_at_ends(row, d.row)), truths, strict=True):
            well[truth].append(float((score >= threshold) == truth))
    shares = [mean(found) for found in well.values()]
    return None if None in shares else float(np.mean(shares))  # type: ignore[arg-type]


_JUDGE, _REFINER = Head(of=Copy("policy")), Player(Copy("policy"), objective=Frozen(imitation=Imitation()), credit=Constant())

glore = sft.derive(
    "glore",
    "A model of steps locates the first error, refiners learn repairs from the same rollouts, and a model of outcomes chooses among draft and repairs.",
    family="search",
    curriculum=ShuffledEpochs(),
    rollout=StepRepairs(),
    credit=None,
    objective=None,
    players__orm=Player(_JUDGE, objective=Frozen(outcome=RewardLikelihood("value")), credit=Constant(), learns_from="policy"),
    players__sorm=Player(_JUDGE, objective=Frozen(steps=ChanceLoss()), credit=StepChances(last=True), learns_from="policy"),
    players__global_refiner=_REFINER,
    players__local_refiner=_REFINER,
    schedule=Stages(Frozen(student=Stage(sft, until=Steps(100)), refine=Stage(until=Steps(100), changes=Frozen(study=RefinementStudy())))),
    search=BestRefinement(),
)

_TERMS: Any = {
    "task": "string_ops", "options": {"level": "3"}, "budget": "steps=82",
    "fields": {
        "prompts": "16", "group": "4", "warmup": "0", "learning_rate": "5e-4", "eval_every": "0", "study.problems": "16",
        "rollout.marking.separator": "[ =]", "search.marking.separator": "[ =]",
        "schedule.stages.student.until": "Steps(count=2)", "schedule.stages.refine.until": "Steps(count=80)",
        "schedule.stages.refine.changes.study.problems": "128", "schedule.stages.refine.changes.study.search.marking.separator": "[ =]",
    },
}  # fmt: skip
_OURS = (
    "the task, its start model, the sizes and the size of the effect are ours. The student has 2 steps of SFT, after which 58 to 78 percent of its answers are "
    "right (seed 0); the other players learn for 80 steps"
)

claims = (
    Claim(
        says="SORM tells right from wrong steps of sampled answers with a balanced accuracy at least 0.05 above ORM.",
        source=f"arXiv:2402.10963, accuracy of SORM and ORM on steps; {_OURS}",
        measure="held_out/over_orm:last", better_by=0.05, **_TERMS,
    ),
    Claim(
        says="The best of draft, global and local refinement is right at least 0.02 more often than the best of 3 samples by the same ORM.",
        source=f"arXiv:2402.10963, draft with both refinements against best of 3; {_OURS}. The samples are the greedy draft and two sampled answers",
        measure="held_out/over_best_of_3:last", better_by=0.02, **_TERMS,
    ),
)  # fmt: skip
