"""Dictionary-guided translation: the model looks words up while it translates into a language that it hardly knows. SFT shows how, then GRPO with BLEU.

    y = (a_1, e_1, ..., a_n), quad n - 1 <= 5
    R = "BLEU"(a, a^*) + b
    b = -0.1 "if a call is malformed or the translation is missing, else" 0.1 "with a call, else" 0
    A_i = (R_i - mean(R)) / (std(R))

A piece $a_k$ ends at </lookup>; up to 5 entries $e_k$ of the dictionary are inserted between <matches> and </matches>. These are the entries of the word
itself. If the word has no entry, these are the entries of words with almost the same spelling. Entries have no loss. The translation a is between <answer>
and </answer>. The reward is the smoothed BLEU of the sentence, in [0, 1], plus a small number b per episode. In the first stage the policy learns parallel
sentences with look-ups of their rare words, and some sentences without look-ups. In the second stage it finds out by itself which words it has to look up.
The KL term has the coefficient 0.04 of the base; its reference is the policy at the start of the stage. Metrics: reward/environment (BLEU), reward/form,
reward/aimed (share of the look-ups that ask for a rare word).

Use if: parallel text is scarce, a dictionary exists, and the model knows the frequent words.
Avoid if: the language is well covered by the model, or words have many forms that a dictionary does not list.
Reference: Mosquera et al., Improving Low-Resource Translation with Dictionary-Guided Fine-Tuning and RL: A Spanish-to-Wayuunaiki Study,
arXiv:2508.19481: two stages, the dictionary with five matches per word, BLEU as reward. The code of the authors (Manuel-2011/RLTranslator) was not available.
Departures: We could read only the abstract and reviews of the paper. The number b, the limit of 5 look-ups, fuzzy matches by edit distance, 8
translations per sentence and the KL coefficient are our choices. A call is malformed if a piece has neither a look-up nor an answer. Precisions
without a match are smoothed by Chen and Cherry's third method, and orders longer than the translation are left out. In the paper the prompts of SFT
ask for zero to four random words of a sentence; here the answers look up the rare words. The language of the task phrasebook is made up. SFT has 150
steps. Each batch has one update, so the clip never acts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from gradus.environments.tools import Tools
from gradus.papers.bases.grpo import grpo
from gradus.papers.bases.sft import sft
from gradus.recipe.claim import Claim
from gradus.rewards.environment import EnvironmentReturn
from gradus.rewards.overlap import Matches
from gradus.rollouts.episodes import Episodes
from gradus.schedules.stages import Stage, Stages
from gradus.tools.dictionary import Dictionary
from gradus.tools.forms import TaggedCalls
from gradus.types import Ended, Frozen, Group, Trajectory
from gradus.types.moments import Steps
from gradus.types.parts import Judgement, Signals, World
from gradus.types.ranges import check_ranges
from gradus.types.signals import Signal


@dataclass(frozen=True)
class TranslationWithLookups:
    """The environment's return (BLEU), plus `bonus` if there are calls and all are well-formed, minus `penalty` if a call is malformed or the answer is
    missing."""

    bonus: float = 0.1
    penalty: float = 0.1
    needs: ClassVar[tuple[Signal, ...]] = ()

    def __post_init__(self) -> None:
        check_ranges(self, bonus="[0, inf)", penalty="[0, inf)")

    async def score(self, groups: Sequence[Group], signals: Signals, world: World) -> list[list[Judgement]]:
        plain = await EnvironmentReturn().score(groups, signals, world)
        return [[self._judged(t, j) for t, j in zip(g.trajectories, row, strict=True)] for g, row in zip(groups, plain, strict=True)]

    def _judged(self, trajectory: Trajectory, plain: Judgement) -> Judgement:
        if not isinstance(plain.reward, float | int):
            return plain
        bad = trajectory.links["invalid"] > 0 or trajectory.ended is not Ended.ENVIRONMENT
        form = -self.penalty if bad else self.bonus if trajectory.links.get("calls") else 0.0
        words = [word.strip() for word in re.findall(r"<lookup>(.*?)</lookup>", trajectory.completion, re.DOTALL)]
        rare = str(trajectory.problem.meta.get("rare", "")).split()
        aimed = {"aimed": sum(word in rare for word in words) / len(words)} if words else {}
        return replace(plain, reward=plain.reward + form, components=Frozen({**plain.components, "form": form, **aimed}))


TRANSLATOR = Tools(tools=Frozen(lookup=Dictionary(top=5)), form=TaggedCalls("<matches>", "</matches>"), calls=5, limit=7, verify=Matches("bleu"))

wayuu_dict_grpo = grpo.derive(
    "wayuu_dict_grpo",
    "A dictionary inside the translation: SFT on look-ups of rare words, then GRPO with the BLEU of the sentence.",
    family="agents",
    environment=TRANSLATOR,
    rollout=Episodes(max_turns=7),
    reward=TranslationWithLookups(),
    schedule=Stages(Frozen(sft=Stage(sft, Steps(150), changes=Frozen(environment=TRANSLATOR)), rl=Stage(until=Steps(200)))),
)

_TERMS: dict[str, Any] = {
    "task": "phrasebook",
    "options": {"level": "1"},
    "fields": {
        "prompts": "6", "group": "8", "learning_rate": "3e-4", "eval_every": "0", "study.problems": "64", "study.greedy": "false",
        "schedule": "ConstantSchedule",
    },
    "budget": "steps=16",
    "seeds": 3,
}  # fmt: skip

claims = (
    Claim(
        says="On sentences with words that training never shows, BLEU is at least 1.15 times that of the same training without entries.",
        source=(
            "arXiv:2508.19481, abstract (18 percent above the baseline without a dictionary); the row's 15 percent; the language, the start and the sizes "
            "are ours"
        ),
        against="wayuu_dict_grpo --environment.calls=0",
        measure="reward",
        at_least=1.15,
        script="benchmarks.warmed wayuu_dict_grpo",
        **{**_TERMS, "fields": {**_TERMS["fields"], "study.reward": "EnvironmentReturn"}},
    ),
    Claim(
        says="After these steps at least two thirds of the look-ups ask for a rare word, though three of four words are frequent.",
        source="arXiv:2508.19481, section 5 (when the model uses the tool); the row's factor of two; the language, the start and the sizes are ours",
        measure="reward/aimed:last",
        better_by=0.667,
        script="benchmarks.warmed wayuu_dict_grpo-aimed",
        **_TERMS,
    ),
)
