"""DeepSeek-R1: a cold start with readable solutions, RL on rule rewards, SFT of the BASE model on right answers of the RL model, and RL again.

    cold:   SFT on worked solutions
    reason: GRPO, R = right + form + language
    sample: answers of this model; right answers in one language are kept
    tune:   SFT of the first model on the kept answers
    align:  GRPO with the same rewards

    A_i = (R_i - mean(R)) / (std(R))
    loss = 1/G sum_i 1/|o_i| sum_t [-min(rho A_i, clip(rho, 1 - 10, 1 + 10) A_i) + 0.001 (pi_ref/pi - log pi_ref/pi - 1)]

The reward R has three terms with the weight 1. The term right is 1 if the answer is right, and form is 1 if the tags are in order. The term language
is the share of the thoughts' words that are in the language of the question. A group has 16 answers. After every 400 steps the reference becomes the
current policy, because a fixed reference would keep the answers short. rho is the ratio of a token to the sampling policy. The bounds are so wide
that only rho above 11 with A > 0 is cut; with one update per batch rho is 1.

R1-Zero is RL alone: it starts from the base model and has no reward for the language: `gradus train deepseek_r1 --schedule RenewReference
--reward.weights '{"language": 0}'`. Distillation is SFT of a small model on the kept answers: `gradus train sft --task RUN/made/sample.jsonl --model
SMALL`.

Use if: answers can be checked by rules, and the final model should be readable as well as right.
Avoid if: one stage of RL is enough (see grpo), or a stronger model's answers exist (see sft).
Reference: DeepSeek-AI, DeepSeek-R1: Incentivizing Reasoning Capability in LLMs via Reinforcement Learning, arXiv:2501.12948, sections 2.2 and 2.3,
and the version of 2025 in Nature, which gives the hyper-parameters: KL 0.001, learning rate 3e-6, clip 10, 16 answers, 32 questions, a new reference
every 400 steps. No code of the training is public.
Departures: A task's worked solutions replace the few thousand long chains of the cold start. Three parts of the paper are left out: the 200,000
general items of stage `tune`, and the preference reward models and the lower temperature of stage `align`. Our own choices are the numbers of steps,
the number of kept answers, and the reward for the form in the stages `reason` and `align`. The ratio belongs to a token, as in DeepSeekMath; the
paper has the ratio of the whole answer. The language of a word is the alphabet of most of its letters. The limit on new tokens is not raised during training;
`Ramp("setting.max_tokens", ...)` does this.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from gradus.objectives.kl import KL
from gradus.objectives.trust import Clip
from gradus.papers.bases.grpo import grpo
from gradus.papers.bases.sft import sft
from gradus.recipe.claim import Claim, same_weights
from gradus.rewards.combine import Combines
from gradus.rewards.language import language
from gradus.rewards.tags import Tags
from gradus.rewards.verified import Verified
from gradus.rollouts.auto import Auto
from gradus.schedules.harvests import answers
from gradus.schedules.stages import FIRST, Stage, Stages
from gradus.types import Frozen, Group, Problem
from gradus.types.moments import CopyWeights, Event, Moment, Steps
from gradus.types.parts import Judgement, Signals, World
from gradus.types.ranges import check_ranges
from gradus.types.signals import Signal


def language_share(question: str, completion: str, *, alphabets: Mapping[str, str], end: str) -> float:
    """Returns the share of the thoughts' words that are in the language of the question. Words without letters do not count; the share is 1 if no
    words are left.

    >>> language_share("what is it", "a b c d e f g ж з и</think>ж", alphabets={}, end="</think>")
    0.7
    """
    thoughts, _, answer = completion.rpartition(end)
    found = [language(word, alphabets) for word in (thoughts or answer).split()]
    words = [name for name in found if name]
    return sum(name == language(question, alphabets) for name in words) / len(words) if words else 1.0


@dataclass(frozen=True)
class LanguageShare(Combines):
    """The share of the thoughts' words that are in the language of the question, in [0, 1]."""

    alphabets: Frozen[str] = Frozen()  # name of a language -> its letters; empty: Unicode's scripts
    end: str = "</think>"  # the text that ends the thoughts
    name: ClassVar[str] = "language"
    needs: ClassVar[tuple[Signal, ...]] = ()

    def value(self, question: str, completion: str) -> float:
        """Returns the value of a completion."""
        return language_share(question, completion, alphabets=self.alphabets, end=self.end)

    async def score(self, groups: Sequence[Group], signals: Signals, world: World) -> list[list[Judgement]]:
        values = [[self.value(t.problem.question, t.completion) for t in g.trajectories] for g in groups]
        return [[Judgement(value, Frozen({self.name: value})) for value in row] for row in values]


@dataclass(frozen=True)
class RenewReference:
    """Gives the player `to` the weights of the policy after every `every` steps."""

    every: int = 400
    to: str = "reference"

    def __post_init__(self) -> None:
        check_ranges(self, every="[1, inf)")

    @property
    def causes(self) -> tuple[Event, ...]:
        return (CopyWeights("policy", self.to),)

    def at(self, now: Moment, recipe: Any) -> tuple[Any, tuple[Event, ...]]:
        return recipe, self.causes if now.step and now.step % self.every == 0 else ()


@dataclass(frozen=True)
class ReadableAnswers:
    """Makes demonstrations from right answers whose thoughts are in the language of the question: the first `most` different ones for each problem."""

    most: int = 4
    least: float = 1.0  # smallest share of words in the language of the question that a kept answer has
    alphabets: Frozen[str] = Frozen()
    end: str = "</think>"

    def __post_init__(self) -> None:
        check_ranges(self, most="[1, inf)", least="[0, 1]")

    @property
    def provides(self) -> frozenset[str]:
        return frozenset({"solution"})

    def rows(self, groups: Iterable[Group]) -> list[Mapping[str, Any]]:
        """Returns one row per kept answer. Problems are in the order of their first kept answers."""
        found: dict[str, tuple[Problem, dict[str, None]]] = {}
        for t in answers(groups):
            if t.right and language_share(t.problem.question, t.completion, alphabets=self.alphabets, end=self.end) >= self.least:
                found.setdefault(t.problem.id, (t.problem, {}))[1][t.completion] = None
        return [{"problem": problem, "solution": text} for problem, texts in found.values() for text in list(texts)[: self.most]]


SAMPLE = Frozen({"setting.learning_rate": 0.0, "rollout": Auto()})

deepseek_r1 = grpo.derive(
    "deepseek_r1",
    "A cold start, RL on rule rewards, SFT of the base model on kept answers of the RL model, and RL again.",
    family="guidance",
    reward=Verified() + Tags() + LanguageShare(),
    objective__policy__trust=Clip(10.0, 10.0),
    objective__kl=KL(0.001),
    schedule=Stages(
        Frozen(
            cold=Stage(sft, Steps(50)),
            reason=Stage(until=Steps(1200), changes=Frozen(schedule=RenewReference())),
            sample=Stage(until=Steps(32), changes=SAMPLE, makes=ReadableAnswers()),
            tune=Stage(sft, Steps(100), start=FIRST, task="made:sample"),
            align=Stage(until=Steps(100)),
        )
    ),
    setting__group=16,
    requires=frozenset({"solution"}),
)

_STEPS = {"cold": 4, "reason": 12, "sample": 4, "tune": 8, "align": 4}
_SMALL = {"prompts": "8", "group": "8", "learning_rate": "3e-4", "warmup": "0", "eval_every": "0", "study.problems": "64", "study.greedy": "false"}

claims = (
    same_weights(
        says="Without stages, with the verdict as the only reward and one update per batch, the wide clip never acts: the final weights are those of GRPO.",
        source="arXiv:2501.12948, section 2.2.1",
        against="grpo --objective.kl.coefficient 0.001",
        own={"schedule": "ConstantSchedule", "reward": "Verified"},
        budget="steps=5",
    ),
    Claim(
        says="After as many steps, the accuracy on sums of three digits is at least 0.95 of that of R1-Zero.",
        source="arXiv:2501.12948, R1 against R1-Zero on tasks of reasoning; the bound, the task and the steps are ours",
        against="deepseek_r1 --schedule RenewReference",
        measure="accuracy",
        at_least=0.95,
        task="arithmetic",
        options={"level": "3"},
        fields=_SMALL,
        own={f"schedule.stages.{name}.until": f"Steps(count={steps})" for name, steps in _STEPS.items()},
        budget="steps=32",
        problems=100,
    ),
)
