"""MolReasoner: text to molecule. A valid molecule earns a little, a similar molecule more, and the right molecule the most. Training starts from chains of
thought.

    R = 0 "if the answer is missing or no molecule"; 2 "if it is the right molecule"
    R = 0.5 + 1.5 (s_"print" + s_"fragment" + s_"group" + s_"bleu") / 4 quad "else"
    A_i = (R_i - mean(R)) / (std(R))

An answer is `<think>...</think><answer>SELFIES</answer>`. $s_"print"$ is the mean Tanimoto index of three fingerprints. $s_"fragment"$ is half the
Jaccard index of fragments, plus half their recall. $s_"group"$ is $e^(-d / n)$ with d differences in the counts of functional groups and n groups of
the right molecule. $s_"bleu"$ is BLEU of the characters, without smoothing. So the policy first learns to write valid molecules, then similar ones.
The KL weight is 0.001, and the temperature 0.7.

A caption describes a molecule in words. For captions, R has the mean of text measures in place of the four terms: `--reward.caption true` takes
BLEU-2, BLEU-4, ROUGE-1, ROUGE-2 and ROUGE-L. The supervised stage imitates chains of a large model, except chains that contradict the molecule's
facts. Metrics: reward/valid, reward/exact, reward/likeness.

Use if: answers are structures that a program can parse and compare, and exact matches are rare at first.
Avoid if: a program can check the wanted property itself, because many structures can then be right.
Reference: Zhao et al., MolReasoner: Toward Effective and Interpretable Reasoning for Molecular LLMs, arXiv:2508.02066, and the released rewards
(545487677/MolReasoner, chembl_desc2mol.py, chembl_mol2desc.py, and the script for text to molecule): floor 0.5, exact 2, the four terms, KL weight
0.001, learning rate 1e-7, temperature 0.7.
Departures: The released code takes fingerprints (MACCS, paths, Morgan of radius 2) from RDKit, and fragments and groups from the package EFGs. The
task `molecules` has chains of atoms instead. The fingerprints of the task are paths of up to 2 atoms, paths of all lengths, and neighbourhoods of
radius 2. The fragments are pieces between carbon and other atoms, and the groups depend on the place. METEOR is left out, because it needs a
dictionary of synonyms. Captions are compared by words; the released code compares sub-word tokens, and word stems for ROUGE. If the verifier of a task
compares no molecules, the reward is the verdict.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim, same_weights
from gradus.rewards.beside_verdict import Terms, beside_verdict
from gradus.rewards.combine import Combines
from gradus.rewards.overlap import bleu, part, rouge_l, rouge_n
from gradus.types import Group, Trajectory
from gradus.types.parts import Judgement, Signals, World
from gradus.types.ranges import check_ranges
from gradus.types.signals import Signal


def caption_likeness(said: str, due: str) -> float:
    """Returns the mean of BLEU-2, BLEU-4, ROUGE-1, ROUGE-2 and ROUGE-L of two texts, on words."""
    a, b = said.split(), due.split()
    return (bleu(a, b, 2) + bleu(a, b, 4) + rouge_n(a, b, 1) + rouge_n(a, b, 2) + rouge_l(a, b)) / 5


@dataclass(frozen=True)
class MoleculeReward(Combines):
    """The reward of a molecule, or of a caption (see `molreasoner`)."""

    floor: float = 0.5
    exact: float = 2.0
    graded: float = 1.5  # factor on the mean of the terms; 0: only validity and exactness count
    caption: bool = False
    name: ClassVar[str] = "molecule"
    needs: ClassVar[tuple[Signal, ...]] = ()

    def __post_init__(self) -> None:
        check_ranges(self, floor="[0, inf)", exact="[0, inf)", graded="[0, inf)")

    def value(self, exact: bool, terms: Sequence[float]) -> float:
        """Returns the reward of a valid answer from its terms, each in [0, 1].

        >>> MoleculeReward().value(False, (0.6, 0.4, 0.5, 0.5))
        1.25
        """
        return self.exact if exact else self.floor + self.graded * sum(terms) / len(terms)

    async def score(self, groups: Sequence[Group], signals: Signals, world: World) -> list[list[Judgement]]:
        likeness: Any = getattr(world.task.verify, "likeness", None)

        def terms(t: Trajectory, verdict: float) -> Terms | None:
            due = t.problem.reference
            if due is None or (likeness is None and not self.caption):
                return None
            said = part(t.completion, "answer") or ""
            if self.caption:
                near, same = caption_likeness(said, due), said.casefold() == due.casefold()
                return (self.value(same, [near]) if said else 0.0), {"valid": float(bool(said)), "exact": float(same), "likeness": near}
            found = likeness(t.problem, t.completion)
            four = [found[name] for name in ("fingerprints", "fragments", "groups")] + [bleu(said, due)]
            value = self.value(bool(found["exact"]), four) if found["valid"] else 0.0
            return value, {"valid": found["valid"], "exact": found["exact"], "likeness": found["fingerprints"]}

        return await beside_verdict(groups, world, terms)


molreasoner = grpo.derive(
    "molreasoner",
    "Text to molecule: a floor for valid molecules, graded likeness of structures, and the largest reward for the right molecule.",
    family="rewards",
    reward=MoleculeReward(),
    objective__kl__coefficient=0.001,
    setting__temperature=0.7,
)

_MOLECULES = {"prompts": "8", "group": "8", "warmup": "0", "study": "none", "learning_rate": "3e-4", "temperature": "1.0"}

claims = (
    same_weights(
        says="With the task's verdict, exact molecules only, the final weights are those of GRPO with the same KL weight and temperature.",
        source="arXiv:2508.02066, exact match",
        against="grpo --objective.kl.coefficient 0.001 --setting.temperature 0.7",
        own={"reward": "Verified"},
    ),
    Claim(
        says="The likeness of fingerprints after 12 steps is at least 0.03 above that of training on exact molecules only.",
        source="arXiv:2508.02066, graded rewards against exact ones; task, start model, sizes, the temperature 1 and the bound are ours",
        against="molreasoner --reward.graded 0 --reward.floor 0",
        measure="reward/likeness:last",
        better_by=0.03,
        task="molecules",
        options={"level": "3"},
        fields=_MOLECULES,
        budget="steps=12",
        script="benchmarks.warmed molreasoner",
    ),
)
