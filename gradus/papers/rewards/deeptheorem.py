"""DeepTheorem: each theorem is turned into variants of known truth. A proof ends in "proved" or "disproved", and this verdict is the reward.

    r_i = 1 "if the last box of answer" i "holds the label of the variant, else" 0
    A_i = (r_i - mean(r)) / (std(r))
    "outcome" = 1 "if the verdicts on all" v "variants of a theorem are right, else" 0

The model proves or disproves a statement in plain language, and ends with `\\boxed{proved}` or `\\boxed{disproved}`. A strengthened, weakened or
negated statement has a label that follows from the original theorem, so proofs need no judge. An answer without a box gets 0. The labels are
balanced: in a batch at most half of the statements have the same label, so a constant verdict earns 0.5. Variants of one theorem are not in the same
batch. Apart from this, the method is GRPO with 64 answers per statement and without a KL term; groups with equal rewards are dropped.

The outcome of a theorem is 1 if the verdicts on all its v variants are right; guesses reach $2^(-v)$ on average. A constant verdict has the outcome 0
if each theorem has a variant of each label. `AllVariants` measures the outcome (held_out/outcome). The process score of a proof is 0.4 validity + 0.3
completeness + 0.2 correctness + 0.1 clarity, each from 0 to 1 by a judge (`process_score`). This score is for reports; no reward reads it.

Use if: statements with a known truth value have variants whose truth follows from it, and proofs are in plain language.
Avoid if: proofs are formal and a checker exists, or a verdict can be guessed and only its reasons matter.
Reference: Zhang et al., DeepTheorem: Advancing LLM Reasoning for Theorem Proving Through Natural Language and Reinforcement Learning,
arXiv:2505.23754: variants, reward, outcome and the four axes with their weights. The released script (Jiahao004/DeepTheorem) has 64 answers per
statement, 128 statements per batch, no KL term, and learning rate 1e-6.
Departures: Our own choices are the balanced batches, the separation of variants, and the dropped groups. Variants come from the generator of the task
`theorems`, not from a language model. The released parser requires the box inside an answer tag after the thoughts, and gives 0 to repeated
instructions, to text almost without blanks, and to very repetitive text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from gradus.curricula.filtered import balanced_answers, drawn_until
from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim, same_weights
from gradus.selection.filters import Informative
from gradus.study.held_out import held_out_requests, of_problems
from gradus.types import Problem, Request
from gradus.types.parts import Source, World
from gradus.types.ranges import check_ranges

AXES = {"validity": 0.4, "completeness": 0.3, "correctness": 0.2, "clarity": 0.1}


def process_score(scores: dict[str, float]) -> float:
    """Returns the weighted mean of a judge's scores, each in [0, 1], for the four axes of `AXES`.

    >>> round(process_score({"validity": 1.0, "completeness": 0.5, "correctness": 1.0, "clarity": 0.0}), 9)
    0.75
    """
    return sum(weight * scores[axis] for axis, weight in AXES.items())


@dataclass(frozen=True)
class SeparateVariants:
    """Requests the problems of shuffled passes. In a step, at most half of the problems have the same answer, and each theorem has at most one variant.

    If n problems are requested and 50 n problems were already left out, the next problems need not meet these two conditions.
    """

    group: int | None = None  # samples per problem; None: `group` of the setting

    def __post_init__(self) -> None:
        check_ranges(self, group="[1, inf)")

    def start(self) -> dict[str, int]:
        return {"drawn": 0}

    def choose(self, source: Source, count: int, world: World, state: dict[str, int]) -> tuple[list[Request], dict[str, int]]:
        """Returns `count` requests. The state is the number of problems that were drawn, including problems that were left out."""

        def keep(found: list[Problem], new: list[Problem], drawn: int) -> list[Problem]:
            return balanced_answers(one_each([*found, *new]), count, 0.5) if drawn - len(found) < 50 * count else [*found, *new]

        found, at = drawn_until(source, count, world, state["drawn"], None, keep)
        return [Request(problem, count=self.group or world.group) for problem in found], {"drawn": at}


def one_each(problems: Sequence[Problem]) -> list[Problem]:
    """Returns the first problem of each theorem. A problem without the column `theorem` is kept."""
    return list({p.meta.get("theorem", p.id): p for p in reversed(problems)}.values())[::-1]


@dataclass(frozen=True)
class AllVariants:
    """Measures the share of right verdicts (held_out/accuracy), and the share of theorems with right verdicts on all variants (held_out/outcome)."""

    problems: int = 64  # theorems
    patience: int = 0  # the run stops early after this number of evaluations without improvement; 0: it never stops early
    target: float | None = None  # the run stops when held_out/accuracy reaches this number
    reward: Any = None  # the reward that judges evaluations; None: the recipe's reward

    def __post_init__(self) -> None:
        check_ranges(self, problems="[1, inf)", patience="[0, inf)", target="[0, inf)")

    async def measure(self, run: Any, recipe: Any, world: Any) -> dict[str, float | None]:
        drawn = held_out_requests(world.task.held_out, self.problems, 1, world.task.level)
        asked = [replace(r, problem=p) for r in drawn for p in all_variants(r.problem)]
        groups = await run.memory.answer(recipe, asked, world)
        hits = [float(g.trajectories[0].right) for g in groups]
        theorems: dict[str, list[float]] = {}
        for r, hit in zip(asked, hits, strict=True):
            theorems.setdefault(str(r.problem.meta.get("theorem", r.problem.id)), []).append(hit)
        return {**of_problems(hits), "held_out/outcome": sum(map(outcome, theorems.values())) / len(theorems)}


def all_variants(problem: Problem) -> list[Problem]:
    """Returns a problem for each variant of the problem's theorem; the problem itself if it has no variants."""
    pairs = problem.meta.get("variants", ())
    made = [
        replace(problem, id=f"{problem.id}/{i}", answer=label, **({"text": text} if problem.text is not None else {"messages": _message(problem, text)}))
        for i, (text, label) in enumerate(pairs)
    ]
    return made or [problem]


def _message(problem: Problem, text: str) -> tuple[Any, ...]:
    return (*problem.messages[:-1], {**problem.messages[-1], "content": text})


def outcome(hits: Sequence[float]) -> float:
    """Returns 1 if every verdict on the variants of a theorem is right, else 0.

    >>> [outcome(hits) for hits in ([1, 1, 0], [1, 1, 1])]
    [0.0, 1.0]
    """
    return float(all(hits))


deeptheorem = grpo.derive(
    "deeptheorem",
    "The verdict on a statement of known truth is the reward; a theorem counts as solved if the verdicts on all its variants are right.",
    family="rewards",
    curriculum=SeparateVariants(),
    selection=Informative(),
    objective__kl=None,
    players__reference=None,
    study=AllVariants(),
    setting__group=64,
)

_TERMS = {"prompts": "8", "group": "16", "warmup": "0", "learning_rate": "2e-4", "eval_every": "0", "study": "AllVariants"}

claims = (
    same_weights(
        says="With plain shuffled passes and all groups, the final weights are those of GRPO without a KL term.",
        source="arXiv:2505.23754, without balanced batches; the limit is ours",
        against="grpo --objective.kl=none --players.reference=none",
        own={"curriculum": "ShuffledEpochs", "selection": "Everything"},
    ),
    Claim(
        says="From a short fine-tuning on proofs, 20 steps raise the share of held-out theorems with four right verdicts by at least 0.125, twice chance.",
        source="arXiv:2505.23754, results (RL-Zero above supervised fine-tuning); task, start, sizes and the size of the effect are ours",
        measure="held_out/outcome:gain",
        better_by=0.125,
        task="theorems",
        fields=_TERMS,
        budget="steps=20",
        script="benchmarks.warmed deeptheorem",
    ),
    Claim(
        says="From this start, the share after 20 steps of RL is at least 0.05 above that after 20 further steps of fine-tuning on proofs.",
        source="arXiv:2505.23754, table 4 (RL-Zero against supervised fine-tuning); task, start, sizes and the size of the effect are ours",
        against="sft",
        measure="held_out/outcome:last",
        better_by=0.05,
        task="theorems",
        fields=_TERMS,
        budget="steps=20",
        script="benchmarks.warmed deeptheorem-sft",
    ),
)
