"""LoongRL: trains on long texts in which chains of keys hide the question, in three stages; an answer is right if it contains the stored one.

    R(y) = 1 if w(b) sub w(y) or w(y) sub w(b), else 0
    A_i = (R_i - mean R) / (std R)
    loss = 1/G sum_i 1/|o_i| sum_t [-min(rho_(i,t) A_i, clip(rho_(i,t), 1 - 0.2, 1 + 0.28) A_i)]

An item has a text with the facts for several questions, among sentences that matter for no question. Several chains of lines {key: key} are at random
places of the text; the last line of each chain has a question. The prompt ends with the first key of one chain. The policy must follow this chain to
its question, and answer it from the facts. The task `hidden_question` generates such items; `length`, `chains` and `depth` are its options. The words
of the stored answer are w(b), and those of the final answer are w(y), in lower case and without punctuation. R is 1 if one is contained in the other
as consecutive words. No judge is needed.

Stage `warm` trains on the problems that hide no question, stage `chains` on all problems. Before stage `hard`, the policy of that moment answers 256
problems 8 times each, and those that it always solves are left out. Short problems in the mixture preserve the skill on short texts, for example
`--task keychain:1,arithmetic:1,hidden_question:2`. Texts much longer than those of the training are measured with `--also "long=hidden_question
--length 4096"` of `gradus compare`. Metrics: left_out, the share of drawn problems that stage `warm` left out.

Use if: a model should find its question and its facts in long texts, and texts much longer than those of the training matter.
Avoid if: texts are short (see grpo), or answers have no fixed words.
Reference: Wang et al., LoongRL: Reinforcement Learning for Advanced Reasoning over Long Contexts, arXiv:2510.19363. The paper has texts of 16,384
tokens made from multi-hop questions, and GRPO with 8 answers, clip 0.2 and 0.28, and learning rate 1e-6. The stages are a warm-up, KeyChain data, and
hard items. The released code (rStar-RL/LoongRL) has about 4 chains of 4 lines per 1,024 tokens, and keys of 8 digits.
Departures: Words must be equal. In the paper parts of words count too, and the released reward only asks whether the final answer contains the stored
one. The final answer is the last box, or the text after the last "answer:" or "="; without one of these marks R is 0. There is no KL; the released
script has the weight 0.001. Each batch serves four updates, as in the script, so the clip acts from the second update on. The people, facts, keys of
4 to 8 digits, and texts of 160 to 16,384 characters are ours, and so are the numbers of steps of the stages. The items are not filtered before the
first stage.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from gradus.curricula.shuffled_epochs import sweep_order
from gradus.objectives.trust import Clip
from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim, same_weights
from gradus.rewards.combine import Combines
from gradus.schedules.stages import Stage, Stages
from gradus.study.screen import Screened
from gradus.types import NOT_APPLICABLE, Frozen, Group, Outcome, Problem, Request, UserError
from gradus.types.answers import final_answer
from gradus.types.moments import Steps
from gradus.types.parts import Judgement, Signals, Source, World
from gradus.types.ranges import check_ranges
from gradus.types.returned import check_drawn
from gradus.types.signals import Signal

_MARK = re.compile(r"####|\\boxed\{|\banswer\s*:|=", re.IGNORECASE)
_TRIES = 1000  # problems per requested problem that a stage leaves out in a row before it gives up


def words(text: str) -> list[str]:
    """Returns the words of a text in lower case, without punctuation.

    >>> words("Paris, France.")
    ['paris', 'france']
    """
    return re.findall(r"\w+", text.casefold())


def contains(longer: Sequence[str], shorter: Sequence[str]) -> bool:
    """Returns whether `shorter` occurs in `longer` as consecutive words. An empty sequence occurs nowhere."""
    count = len(shorter)
    return count > 0 and any(list(longer[i : i + count]) == list(shorter) for i in range(len(longer) - count + 1))


def two_way(completion: str, answer: str) -> float:
    """Returns 1.0 if the final answer of the completion contains the answer or is contained in it, else 0.0. Without a final answer it is 0.0."""
    if not _MARK.search(completion):
        return 0.0
    said, due = words(final_answer(completion).rpartition("=")[2]), words(answer)
    return float(contains(said, due) or contains(due, said))


@dataclass(frozen=True)
class TwoWay(Combines):
    """1.0 if the final answer contains a stored answer or is contained in it, as whole words; else 0.0. Needs problems with answers."""

    name: ClassVar[str] = "two_way"
    needs: ClassVar[tuple[Signal, ...]] = ()

    async def score(self, groups: Sequence[Group], signals: Signals, world: World) -> list[list[Judgement]]:
        return [[Judgement(value, Frozen({self.name: value})) for value in (judged(t.problem, t.completion) for t in g.trajectories)] for g in groups]


def judged(problem: Problem, completion: str) -> Outcome:
    """Returns the largest `two_way` of the problem's answers; not applicable to a problem without an answer."""
    answers = problem.answer if isinstance(problem.answer, list | tuple) else [problem.answer]
    known = [str(answer) for answer in answers if answer is not None and words(str(answer))]
    return max(two_way(completion, answer) for answer in known) if known else NOT_APPLICABLE


@dataclass(frozen=True)
class Without:
    """Requests the problems of `ShuffledEpochs`, without the problems of the tasks in `left_out`."""

    left_out: tuple[str, ...] = ("hidden_question",)  # names of tasks
    group: int | None = None  # samples per problem; None: `group` of the setting

    def __post_init__(self) -> None:
        check_ranges(self, group="[1, inf)")

    def start(self) -> dict[str, int]:
        return {"drawn": 0}

    def choose(self, source: Source, count: int, world: World, state: dict[str, int]) -> tuple[list[Request], dict[str, Any]]:
        """Returns `count` requests. The state is the number of drawn problems. Raises UserError if the source has no other problems."""
        first = at = state["drawn"]
        found: list[Problem] = []
        while len(found) < count:
            if at - first > _TRIES * count:
                raise UserError(
                    f"curriculum.left_out names {', '.join(self.left_out)}, and the last {at - first} problems all came from these tasks; add "
                    "another task to the mixture, or let the first stage draw from all tasks: --schedule.stages.warm.changes.curriculum ShuffledEpochs"
                )
            order = sweep_order(source.size, range(at, at + count - len(found)), world.seed)
            problems = source.draw(order, world.task.level, world.seed.fold("problems"))
            check_drawn(source, problems, order)
            found += [p for p in problems if p.task not in self.left_out]
            at += len(order)
        world.note("left_out", 1 - count / (at - first))
        return [Request(problem, count=self.group or world.group) for problem in found], {"drawn": at}


loongrl = grpo.derive(
    "loongrl",
    "Chains of keys hide the question in a long text; training goes from plain problems to hidden questions, then to those that are not always solved.",
    family="data",
    reward=TwoWay(),
    objective__policy__trust=Clip(0.2, 0.28),
    objective__kl=None,
    players__reference=None,
    update__count=4,
    schedule=Stages(
        Frozen(
            warm=Stage(until=Steps(40), changes=Frozen({"curriculum": Without()})),
            chains=Stage(until=Steps(80)),
            hard=Stage(until=Steps(80), screen=Screened(low=0.0, high=1 - 1e-9, samples=8, problems=256)),
        )
    ),
)

_STAGES = {f"schedule.stages.{name}.until": f"Steps(count={count})" for name, count in (("warm", 1), ("chains", 1), ("hard", 1))}

claims = (
    same_weights(
        says="If every answer is one word, the two-way match is the task's verdict, and the final weights are the same.",
        source="arXiv:2510.19363, two-way substring match against exact match",
        against="loongrl --reward Verified",
        fields={"prompts": "4", "group": "4", "study": "none", "schedule.stages.hard.screen.problems": "8", **_STAGES},
    ),
    Claim(
        says=(
            "On problems of which most are solved, with a third stage on those not always solved, the share of groups with a gradient is over 12 "
            "steps at least 0.05 above that of stages on all problems."
        ),
        source="arXiv:2510.19363, third stage (hard items only); the task, the numbers of steps and the size of the effect are ours",
        against="loongrl --schedule.stages.hard.screen none",
        measure="informative:mean",
        better_by=0.05,
        task="string_ops",
        options={"level": "1"},
        fields={
            "prompts": "8", "group": "8", "warmup": "0", "study": "none", "schedule.stages.warm.until": "Steps(count=1)",
            "schedule.stages.chains.until": "Steps(count=3)", "schedule.stages.hard.until": "Steps(count=8)",
        },
        own={"schedule.stages.hard.screen.problems": "96"},
        budget="steps=12",
    ),
)  # fmt: skip
