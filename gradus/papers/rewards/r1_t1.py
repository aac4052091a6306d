"""R1-T1: translation with a chain of thought. Chains in the style of human translators start the training; then only the translation is rewarded.

    R = 1{"form right"} (1 + q("translation, reference"))
    r_t = 1{t = T} R - 0.01 (log pi_old(a_t) - log pi_ref(a_t))
    A_t = (hat R_t - mean(hat R)) / (std(hat R)), quad hat R_t = sum_(s >= t) r_s

An answer is `<think>chain</think><answer>translation</answer>`, each tag once and in this order; any other answer earns 0. q in [0, 1] is the
quality: COMET in the paper, chrF here. The chain itself earns nothing, so new ways to think can appear. The KL penalty inside the reward preserves
the model's knowledge of other languages. Apart from this, the method is REINFORCE++.

The first stage imitates chains in six styles. A chain translates first word by word and then the sentence, translates through a third language, adds
a back translation, uses the context, explains, or changes the structure of the sentence. For each sentence, the model imitates only the chain with
the best translation (`BestChain`). Use `Stages` for this: a stage of sampling with `makes=BestChain()`, then `sft` on `made:NAME`. The same harvest
also makes the rows of an optional third stage, which imitates the policy's own best chains.

Use if: a quality measure compares translations with references, and the translation gains from thinking first.
Avoid if: sentences are short and literal, or no references exist.
Reference: He et al., R1-T1: Fully Incentivizing Translation Capability in LLMs via Reasoning Learning, arXiv:2502.19735: six templates, the choice of
a template per sentence, form and quality, KL inside the reward. The released code (superboom/R1-T1: translate.py, main_grpo.sh) has 0.2 for the form,
COMET with two digits, GRPO with 8 answers, a KL loss of 0.001, learning rate 4e-7, temperature 0.8.
Departures: The form earns 1. Our own choices are beta 0.01, chrF and the choice of chains by chrF. If two chains are equally good, the shorter chain is
chosen; a chain of quality 0 is never chosen. Quality is chrF with its usual weights, not a learned measure. The third language and the idioms of the
paper's tests are left out; the task `translation` has one pair of made-up languages per problem, and `--task.form tags` gives solutions in tags.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from gradus.papers.bases.reinforce_plus_plus import reinforce_plus_plus
from gradus.recipe.claim import Claim, same_weights
from gradus.rewards.beside_verdict import Terms, beside_verdict
from gradus.rewards.combine import Combines
from gradus.rewards.overlap import Matches, part
from gradus.rewards.tags import Tags
from gradus.schedules.harvests import answers
from gradus.types import Group, Outcome, Problem, Trajectory
from gradus.types.parts import Judgement, Signals, World
from gradus.types.signals import Signal


@dataclass(frozen=True)
class Translated(Combines):
    """The form plus the quality of the translation; 0 without the form. If the quality does not apply, the reward is the task's verdict."""

    form: Tags = Tags(("think", "answer"))
    quality: Matches = Matches("chrf")
    name: ClassVar[str] = "translated"
    needs: ClassVar[tuple[Signal, ...]] = ()

    def quality_of(self, problem: Problem, completion: str) -> Outcome:
        """Returns the quality of the text between the last tags `answer`; 0 without these tags."""
        return self.quality(problem, part(completion, "answer") or "")

    def terms(self, trajectory: Trajectory, verdict: float) -> Terms | None:
        found = self.quality_of(trajectory.problem, trajectory.completion)
        if not isinstance(found, int | float):
            return None
        formed = self.form.value(trajectory.completion)
        return formed * (1 + found), {"form": formed, "quality": formed * found}

    async def score(self, groups: Sequence[Group], signals: Signals, world: World) -> list[list[Judgement]]:
        return await beside_verdict(groups, world, self.terms)


def best_chain(chains: Sequence[str], problem: Problem, reward: Translated = Translated()) -> str | None:
    """Returns the chain in the right form with the best translation; None if no quality is above 0. If several chains are equally good, the shortest
    wins, then the earliest."""
    found = [reward.quality_of(problem, c) if reward.form.value(c) else 0.0 for c in chains]
    scored = [(value if isinstance(value, int | float) else 0.0, -len(c), -i) for i, (value, c) in enumerate(zip(found, chains))]
    good = [row for row in scored if row[0] > 0]
    return chains[-max(good)[2]] if good else None


@dataclass(frozen=True)
class BestChain:
    """Makes demonstrations: for each problem of the stage, the answer with the best translation (see `best_chain`)."""

    @property
    def provides(self) -> frozenset[str]:
        return frozenset({"solution"})

    def rows(self, groups: Iterable[Group]) -> list[Mapping[str, Any]]:
        """Returns at most one row per problem: the problem and its `solution`. Problems are in the order of their first answers."""
        found: dict[str, tuple[Problem, list[str]]] = {}
        for answer in answers(groups):
            found.setdefault(answer.problem.id, (answer.problem, []))[1].append(answer.completion)
        chosen = ((problem, best_chain(texts, problem)) for problem, texts in found.values())
        return [{"problem": problem, "solution": text} for problem, text in chosen if text is not None]


r1_t1 = reinforce_plus_plus.derive(
    "r1_t1",
    "Translation after a chain of thought: only form and translation are rewarded, with the KL inside the reward.",
    family="rewards",
    reward=Translated(),
    setting__group=8,
)

_TRANSLATION = {"prompts": "8", "group": "4", "warmup": "0", "study": "none", "update.count": "2"}

claims = (
    same_weights(
        says="With the task's verdict as reward, the final weights are those of REINFORCE++.",
        source="arXiv:2502.19735, without form and quality",
        against="reinforce_plus_plus",
        own={"reward": "Verified"},
    ),
    Claim(
        says="From a model that imitated chains, the mean quality of translations after 12 steps is at least 0.03 above that of the start model.",
        source="arXiv:2502.19735, RL above the supervised model; task, start model, measure of quality, sizes and bound are ours",
        against="r1_t1 --setting.learning_rate 0",
        measure="reward/quality:last",
        better_by=0.03,
        task="translation",
        options={"level": "1", "form": "tags"},
        fields=_TRANSLATION,
        own={"setting.learning_rate": "2e-4"},
        budget="steps=12",
        script="benchmarks.warmed r1_t1",
    ),
)
