"""Shop-R1: the next action of a shopper, with a rationale. A confident rationale earns more. The reward of the action is a hierarchy from type to values.

    R = 0.5 1{"valid"} + alpha S + v
    S = 1/N sum_t sum_i p_ti log (p_ti |V|)
    v = 0.3 + "attributes" + "values" "if the type is right, else" 0
    A_i = (R_i - mean(R)) / (std(R))

An answer is a JSON object with a rationale and an action: click (a name), type_and_submit (a name and a text) or terminate. At each token the KL from
the uniform distribution to the policy's distribution is computed, in nats. S is the mean of this KL over the N tokens of the rationale; alpha is
0.005. With the right type, a click earns 0.2 for having a name, and 1000 times rouge for the name. A submission earns 0.1 for having a name, 0.1 for having a
text, 0.1 times rouge for the name, and 1000 times rouge for the text. rouge is the ROUGE-L with the true value; a value below 0.75 counts as 0. With the
factor 1000, long values earn more than easy actions such as terminate, which earns 0.3. The large scale does no harm, because advantages are divided by the
deviation. Apart from this, the method is GRPO with a KL weight of 0.001 and temperature 0.6.

If one answer of a group has an exact value, this value alone decides the advantages of the group; the small terms matter only in the other groups. The flat
reward of the ablation is `--reward.attributes 0 --reward.values 0`. Metrics: reward/type, reward/value, reward/certainty.

Use if: structured actions with free text are predicted, and easy actions would win if all actions earned the same.
Avoid if: all actions are equally hard, or a value is either right or wrong, without degrees.
Reference: Zhang et al., Shop-R1: Rewarding LLMs to Simulate Human Behavior in Online Shopping via Reinforcement Learning, arXiv:2507.17842: certainty,
hierarchy, factor 1000, threshold 0.75, alpha 0.005, KL 0.001, temperature 0.6, learning rate 1e-7, after supervised fine-tuning. No
code of the authors was found.
Departures: In the paper the mean in S may be over the vocabulary as well, which makes the term tiny; the form above is large enough to have an
effect. The split 0.2 and 0.1 follows a public re-implementation of the paper's table. The sessions of the task `shop` are generated. A problem
without the column `action` gets the task's verdict as its reward.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor

from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim, same_weights
from gradus.rewards.beside_verdict import Terms, beside_verdict
from gradus.rewards.combine import Combines
from gradus.rewards.overlap import rouge_l, rouge_words
from gradus.rollouts.spans import STREAM, WithSpans
from gradus.types import Group, Key, Trajectory
from gradus.types.parts import Judgement, Signals, World
from gradus.types.ranges import check_ranges
from gradus.types.signals import Opened, Read, Signal, Want
from gradus.types.spans import Phrases

TYPES = ("click", "type_and_submit", "terminate")


@dataclass(frozen=True)
class Peaked(Want):
    """KL(p || uniform) = log V - entropy of p, in nats. The value is 0 if p is uniform. [A]"""

    opens: ClassVar[frozenset[str]] = frozenset({"logits"})

    def rows(self, opened: Opened, key: Key) -> Tensor:
        return opened.reduced(lambda part, logits: peaked(logits))


def peaked(logits: Tensor) -> Tensor:
    """Returns sum_i p_i log(p_i V) over the last axis. Args: `logits` [..., V]."""
    logs = logits.log_softmax(-1)
    return (logs.exp() * logs).sum(-1) + logits.new_tensor(float(logits.shape[-1])).log()


def action_of(completion: str) -> Mapping[str, Any] | None:
    """Returns the action in a completion's JSON object; None if the object has no rationale, or no action of a known type."""
    try:
        found = json.loads(completion[completion.index("{") : completion.rindex("}") + 1])
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or not isinstance(found.get("rationale"), str) or not isinstance(found.get("action"), dict):
        return None
    return found["action"] if found["action"].get("type") in TYPES else None


@dataclass(frozen=True)
class ShopperReward(Combines):
    """The reward of an action with its rationale (see `shop_r1`). A problem without the column `action` gets the task's verdict as its reward."""

    valid: float = 0.5
    certainty: float = 0.005  # alpha
    type_right: float = 0.3
    attributes: float = 1.0  # factor on the rewards for having a name and a text, and for the name of a submission
    values: float = 1000.0  # factor on the likeness of the last value
    least: float = 0.75  # ROUGE-L below this bound counts as 0
    name: ClassVar[str] = "shopper"

    def __post_init__(self) -> None:
        check_ranges(self, certainty="[0, inf)", attributes="[0, inf)", values="[0, inf)", least="[0, 1]")

    @property
    def needs(self) -> tuple[Signal, ...]:
        return (Read(reads=Peaked()),) if self.certainty else ()

    def rouge(self, said: Any, due: Any) -> float:
        """Returns ROUGE-L of two values, 0 below `least`."""
        found = rouge_l(rouge_words(str(said or "")[:400]), rouge_words(str(due)))
        return found if found >= self.least else 0.0

    def action_value(self, said: Mapping[str, Any], due: Mapping[str, Any]) -> tuple[float, float]:
        """Returns v, and the likeness of the last value."""
        if said["type"] != due["type"]:
            return 0.0, 0.0
        has = {name: float(bool(said.get(name))) for name in ("name", "text")}
        if due["type"] == "click":
            likeness = self.rouge(said.get("name"), due["name"])
            return self.type_right + self.attributes * 0.2 * has["name"] + self.values * likeness, likeness
        if due["type"] == "type_and_submit":
            likeness = self.rouge(said.get("text"), due["text"])
            crumbs = 0.1 * has["name"] + 0.1 * has["text"] + 0.1 * self.rouge(said.get("name"), due["name"])
            return self.type_right + self.attributes * crumbs + self.values * likeness, likeness
        return self.type_right, 1.0

    async def score(self, groups: Sequence[Group], signals: Signals, world: World) -> list[list[Judgement]]:
        rows: Mapping[str, Any] = signals[Read(reads=Peaked())] if self.certainty else {}

        def terms(t: Trajectory, verdict: float) -> Terms | None:
            due = t.problem.meta.get("action")
            if due is None:
                return None
            said = action_of(t.completion)
            v, likeness = self.action_value(said, due) if said is not None else (0.0, 0.0)
            sure = self.certain(t, rows.get(t.id)) if said is not None else 0.0
            ends = float(said is not None and said["type"] == "terminate")
            parts = {"type": float(v > 0), "value": likeness, "certainty": sure, "terminates": ends}
            return self.valid * (said is not None) + self.certainty * sure + v, parts

        return await beside_verdict(groups, world, terms)

    def certain(self, trajectory: Trajectory, row: Any) -> float:
        """Returns S, the mean of `row` [A] over the actions of the rationale; 0 without such actions."""
        if row is None or not all(STREAM in c.streams for c in trajectory.contexts):
            return 0.0
        own = row[trajectory.stream(STREAM) >= 0]
        return float(own.mean()) if len(own) else 0.0


shop_r1 = grpo.derive(
    "shop_r1",
    "A shopper's next action: the rationale is rewarded for its certainty, and the action for its type and its values.",
    family="rewards",
    reward=ShopperReward(),
    rollout=WithSpans(marking=Phrases(r'(?<="rationale":")[^"]+')),
    objective__kl__coefficient=0.001,
    setting__temperature=0.6,
)

_SHOP = {"prompts": "8", "group": "8", "warmup": "0", "study": "none", "learning_rate": "3e-4", "temperature": "1.0"}

claims = (
    same_weights(
        says="With the task's verdict, the final weights are those of GRPO with the same KL weight and temperature.",
        source="arXiv:2507.17842, exact actions",
        against="grpo --objective.kl.coefficient 0.001 --setting.temperature 0.6",
        own={"reward": "Verified"},
    ),
    Claim(
        says="From a supervised start, the likeness of predicted values after 12 steps is at least 0.05 above that of the flat reward for the type.",
        source="arXiv:2507.17842, hierarchical reward against a flat one; task, start model, sizes, the temperature 1 and the bound are ours",
        against="shop_r1 --reward.attributes 0 --reward.values 0",
        measure="reward/value:last",
        better_by=0.05,
        task="shop",
        options={"level": "2"},
        fields=_SHOP,
        budget="steps=12",
        script="benchmarks.warmed shop_r1",
    ),
)
