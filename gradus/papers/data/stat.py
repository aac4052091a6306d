"""STAT: wrong answers show which skills are missing, and fine-tuning draws its problems in proportion to these skills.

    D = {q : "share of right answers" < 0.85 quad "or some step has a share of right answers" < 0.7}
    n_s = |{q in D : s in M_q}|
    B = union_(q in D) union_(s in M_q) {5 problems that need s}
    loss = -1/N sum_((x, y) in B) sum_t log pi(y_t | x, y_(<t))

Stage `look` samples answers to problems and changes no weight. Each problem is labelled with the skills of its steps. A problem q is difficult (in D)
if the share of right answers, or of answers that are right up to some step, is below its bound. The missing skills $M_q$ of a problem are the skills
of the first wrong steps of its answers: at most three, the most frequent first. Stage `study` imitates worked solutions of B. For every pair of a
difficult problem and a missing skill, B has five problems that need the skill. So skills appear in proportion to the Missing-Skill-Profile $n_s$. N
is the number of tokens. Stage `rl` is GRPO on all problems.

Use if: worked solutions exist, each step can be named by a skill, and more fine-tuning on all of the data no longer helps.
Avoid if: steps have no labels (see limr or difficulty_staged_rl, which choose by accuracy alone), or all skills fail equally often.
Reference: He, Panigrahi, Lin & Arora, Skill-Targeted Adaptive Training, arXiv:2510.10023, and the released data with its description: 500 difficult
questions, 2 to 3 missing skills each, 5 problems per skill with 3 answers each, 9.5k pairs. STAT-Syn writes 2 new problems per pair with 3 solutions,
and keeps a problem if at least 2 of its solutions have the same answer (`AnswersThatAgree`).
Departures: A comparison with the worked solution, step by step, replaces the teacher and the process reward model; a step is a word of the solution,
and the last step begins with "=". Only the first wrong step of an answer counts, because later wrong steps follow from it. The bounds 0.85 and 0.7
are our choices. The problems of stage `look` are both the validation set and the problems to draw from. Each problem has one solution, so a drawn
problem gives one pair instead of three. All pairs are kept. The lengths of the stages are our choice. No new problems are written, and there is one
round instead of up to four.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gradus.papers.bases.grpo import grpo
from gradus.papers.bases.sft import sft
from gradus.recipe.claim import Claim, same_weights
from gradus.schedules.harvests import answers
from gradus.schedules.stages import Stage, Stages
from gradus.types import Frozen, Group, Key, Problem, UserError
from gradus.types.moments import Steps
from gradus.types.ranges import check_ranges


def steps_of(text: str) -> list[str]:
    """Returns the steps of a worked solution: its words. A "=" begins the last word.

    >>> steps_of("ade eda=edaade")
    ['ade', 'eda', 'edaade']
    """
    return text.replace("=", " ").split()


def first_wrong(written: Sequence[str], right: Sequence[str]) -> int | None:
    """Returns the index of the first step that is missing or differs; None if there is none. Steps beyond the end of the right solution do not
    count."""
    return next((i for i, step in enumerate(right) if i >= len(written) or written[i] != step), None)


def missing(solution: str, given: Sequence[tuple[str, bool]], skills: Sequence[str], *, final: float, step: float, most: int) -> list[str]:
    """Returns the missing skills of a problem, the most frequent first; none if the problem is not difficult.

    Args: `given`: the answers, each with its verdict, at least one. `skills`: one per step of the solution. `final`, `step`: the problem is difficult if the
    share of right answers is below `final`, or if at any step the share of answers without an error so far is below `step`.
    """
    right = steps_of(solution)
    failed = [first_wrong(steps_of(text), right) for text, _ in given]
    share = sum(verdict for _, verdict in given) / len(given)
    reached = [sum(at is None or at > i for at in failed) / len(given) for i in range(len(right))]
    if share >= final and all(r >= step for r in reached):
        return []
    return [skill for skill, _ in Counter(skills[at] for at in failed if at is not None and at < len(skills)).most_common(most)]


@dataclass(frozen=True)
class MissingSkills:
    """Draws, for every pair of a difficult problem and a skill that its answers lack, `each` problems of the stage that need this skill."""

    column: str = "functions"  # the column with one skill per step of the worked solution
    each: int = 5  # number of problems per pair of problem and skill
    final: float = 0.85  # a problem is difficult if the share of right answers is below this bound
    step: float = 0.7  # a problem is also difficult if, for some step, the share of answers that are right up to this step is below this bound
    most: int = 3  # largest number of missing skills per problem
    difficult: int = 500  # largest number of difficult problems
    targeted: bool = True  # False: draws the same number of problems from all problems

    def __post_init__(self) -> None:
        check_ranges(self, each="[1, inf)", final="[0, 1]", step="[0, 1]", most="[1, inf)", difficult="[1, inf)")

    @property
    def provides(self) -> frozenset[str]:
        return frozenset({"solution", "skill"})

    def rows(self, groups: Iterable[Group]) -> list[Mapping[str, Any]]:
        """Returns one row per drawn problem: the problem, its `solution`, and the `skill` for which it is drawn."""
        found: dict[str, tuple[Problem, list[tuple[str, bool]]]] = {}
        for answer in answers(groups, cut=True):
            found.setdefault(answer.problem.id, (answer.problem, []))[1].append((answer.completion, answer.right))
        bounds: dict[str, Any] = {"final": self.final, "step": self.step, "most": self.most}
        lists = {name: missing(self._read(p, "solution"), given, self._read(p, self.column), **bounds) for name, (p, given) in found.items()}
        hard = [(name, skills) for name, skills in lists.items() if skills][: self.difficult]
        pool = {name: p for name, (p, _) in found.items()}
        return [
            {"problem": pool[drawn], "solution": self._read(pool[drawn], "solution"), "skill": skill}
            for name, skills in hard
            for skill in skills
            for drawn in self._drawn(pool, name, skill)
        ]

    def _drawn(self, pool: Mapping[str, Problem], name: str, skill: str) -> list[str]:
        fitting = [n for n, p in pool.items() if not self.targeted or skill in self._read(p, self.column)]
        order = [fitting[i] for i in Key(0).fold("stat", name, skill).permutation(len(fitting))]
        return (order * self.each)[: self.each]

    def _read(self, problem: Problem, column: str) -> Any:
        value = problem.meta.get(column)
        if value is None:
            raise UserError(
                f'problem {problem.id} has no column "{column}"; give every problem a worked solution (column "solution"), and one skill per step '
                f'(column "{self.column}")'
            )
        return value


stat = grpo.derive(
    "stat",
    "Fine-tuning on problems drawn in proportion to the skills that failed answers lack, and then GRPO.",
    family="data",
    schedule=Stages(
        Frozen(
            look=Stage(until=Steps(32), makes=MissingSkills(), changes=Frozen({"setting.learning_rate": 0.0})),
            study=Stage(sft, Steps(100), task="made:look"),
            rl=Stage(until=Steps(100)),
        )
    ),
)

_LOOK = "schedule.stages.look"
_SMALL = {
    "prompts": "8", "group": "8", "learning_rate": "3e-4", "warmup": "0", "eval_every": "0", "study.problems": "128", "study.greedy": "false",
    f"{_LOOK}.until": "Steps(count=12)", "schedule.stages.study.until": "Steps(count=15)", "schedule.stages.rl.until": "Steps(count=8)",
}  # fmt: skip

claims = (
    same_weights(
        says="Without stages, the final weights are those of GRPO.",
        source="arXiv:2510.10023, the last stage alone",
        against="grpo",
        own={"schedule": "ConstantSchedule"},
        task="string_ops",
    ),
    Claim(
        says=(
            "On string functions, accuracy after fine-tuning on problems drawn for the missing skills, and GRPO, is at least 0.05 above that after as many "
            "problems drawn from all."
        ),
        source="arXiv:2510.10023, STAT-Sel above SFT on MATH; the size of the effect, the task and the numbers of steps are ours",
        against=f"stat --{_LOOK}.makes.targeted false",
        measure="held_out/accuracy:last",
        better_by=0.05,
        task="string_ops",
        options={"level": "3"},
        fields=_SMALL,
        budget="steps=35",
    ),
    Claim(
        says="Fine-tuning for the missing skills and GRPO together raise held-out accuracy on string functions by at least 0.07.",
        source="arXiv:2510.10023, gains of STAT and of GRPO after it; 0.05 and 0.02, the task and the numbers of steps are ours",
        measure="held_out/accuracy:gain",
        better_by=0.07,
        task="string_ops",
        options={"level": "3"},
        fields=_SMALL,
        budget="steps=35",
    ),
)
