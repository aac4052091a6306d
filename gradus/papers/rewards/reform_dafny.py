"""Re:Form: specifications in a formal language, without thoughts. The reward has stages; the last stage needs a specification as strong as the
reference.

    R = 0 "if the code is missing or changed"; 0.01 "if it does not compile"; 0 "if it cheats"
    R = 0.2 + 0.4 1{"verified"} + 0.4 1{"verified, and as strong"} quad "else"
    "as strong:" P => P' and P wedge Q' => Q
    A_i = (R_i - mean(R)) / (std(R))

The input is code without specifications. The output is the same code with specifications: demands on callers (preconditions), and promises (postconditions).
The reference has the demands P and the promises Q, and the output has P' and Q'. So an output may not demand more than the reference, and may not promise
less. A stronger promise is allowed if the code keeps it. These outputs are cheats: a promise "true" or "false", only promises that are true for every result,
no promise, and new assumptions. Without the check of strength (`--reward.strong 0 --reward.verified 0.8`), weak specifications earn the full reward.
Apart from this, the method is GRPO with a KL weight of 0.001 and an entropy bonus of 0.01. Metrics: reward/verified_code, reward/strong (the rate of
superior specifications), reward/ensures (promises per answer).

Use if: a verifier can check specifications, and reference specifications exist, so that strength can be compared.
Avoid if: no reference specification exists, or the model writes no code that compiles (see sft first).
Reference: Yan et al., Re:Form -- Reducing Human Priors in Scalable Formal Software Verification with RL in LLMs: A Preliminary Study on Dafny,
arXiv:2507.16331, and the released code (Veri-Code/ReForm): subset_reward.py (`compute_score`) and condition_comparison_fixed.py have the stages,
their values and the check of subsets; train.sh has KL 0.001, entropy 0.01 and learning rate 1e-5. The file naive_reward.py was not found. The
supervised start on 5,000 programs and groups of 4 to 32 are from the catalogue.
Departures: The released scorer adds 1 for strength, so an output that passes all checks earns 1.6; its documentation says 0.4, as here. Errors of
parsing or types are checked before cheats, as in the released code. In the released code an answer without promises earns 0.6, and only a single
promise x == x is a cheat. Here an answer without promises, and any answer with only true promises, earns 0. The released check tests both
implications at the end of the code, where the result is known; here both must be true for every result r. Instead of Dafny, the task `specifications`
has a small language of integers without branches or loops, and a checker that tries all inputs from -8 to 8. Translation of programs and the
benchmark DafnyComp are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from gradus.objectives.terms import EntropyBonus
from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim, same_weights
from gradus.rewards.beside_verdict import Terms, beside_verdict
from gradus.rewards.combine import Combines
from gradus.types import Group, Trajectory
from gradus.types.parts import Judgement, Signals, World
from gradus.types.ranges import check_ranges
from gradus.types.signals import Signal


@dataclass(frozen=True)
class Staged(Combines):
    """The reward by stages: errors, then compiled code, verified code, and a strong specification. If a task has no checker, the reward is the verdict."""

    error: float = 0.01
    compiles: float = 0.2
    verified: float = 0.4
    strong: float = 0.4
    name: ClassVar[str] = "staged"
    needs: ClassVar[tuple[Signal, ...]] = ()

    def __post_init__(self) -> None:
        check_ranges(self, error="[0, inf)", compiles="[0, inf)", verified="[0, inf)", strong="[0, inf)")

    def value(self, found: Any) -> float:
        """Returns the reward of an answer from the stages that it reached."""
        if not found.code:
            return 0.0
        if not found.compiles:
            return self.error
        return 0.0 if found.cheats else self.compiles + self.verified * found.verified + self.strong * found.strong

    async def score(self, groups: Sequence[Group], signals: Signals, world: World) -> list[list[Judgement]]:
        checked = getattr(world.task.verify, "checked", None)

        def terms(t: Trajectory, verdict: float) -> Terms | None:
            if checked is None:
                return None
            found = checked(t.problem, t.completion)
            honest = found.compiles and not found.cheats
            return self.value(found), {
                "compiles": float(found.compiles), "verified_code": float(honest and found.verified), "strong": float(honest and found.strong),
                "ensures": float(found.ensures),
            }  # fmt: skip

        return await beside_verdict(groups, world, terms)


reform_dafny = grpo.derive(
    "reform_dafny",
    "A verifier rewards formal specifications in stages; the last stage needs a specification as strong as the reference.",
    family="rewards",
    reward=Staged(),
    objective__kl__coefficient=0.001,
    objective__entropy=EntropyBonus(0.01),
    setting__group=4,
)

_CODE = {"prompts": "8", "group": "4", "warmup": "0", "study": "none", "learning_rate": "3e-4"}

claims = (
    same_weights(
        says="With the task's verdict and without the entropy bonus, the final weights are those of GRPO with the same KL weight.",
        source="arXiv:2507.16331, one stage",
        against="grpo --objective.kl.coefficient 0.001",
        own={"reward": "Verified", "objective.entropy": "none"},
    ),
    Claim(
        says="With the check of strength, the rate of superior specifications after 15 steps is at least 0.05 above that of the naive reward.",
        source="arXiv:2507.16331, subset reward against the naive reward; task, start model, sizes and bound are ours",
        against="reform_dafny --reward.strong 0 --reward.verified 0.8",
        measure="reward/strong:last",
        better_by=0.05,
        task="specifications",
        options={"level": "2"},
        fields=_CODE,
        budget="steps=15",
        script="benchmarks.warmed reform_dafny",
    ),
)
