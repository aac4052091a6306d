"""Parts that are not made as their place asks: refused before anything runs, and the sound ones beside them are not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from gradus.credit.clipped import Clipped
from gradus.credit.groups import GroupRelative
from gradus.objectives.kl import KL
from gradus.objectives.trust import Clip, Unclipped
from gradus.papers.bases.grpo import grpo
from gradus.recipe import part_classes, registry
from gradus.recipe.compatibility import check_parts
from gradus.rollouts.behaviour_policy import BehaviourPolicy
from gradus.rollouts.dynamic_sampling import DynamicSampling
from gradus.rollouts.single_turn import SingleTurn
from gradus.types import UserError
from gradus.types.players import Copy, Player
from gradus.types.signals import LogProbs


@dataclass(frozen=True)
class Rule:
    needs: ClassVar[Any] = ()

    def assign(self, groups: Any, signals: Any) -> Any: ...


class Extended(Rule):
    """A subclass that is no dataclass itself is as frozen as its base."""


@dataclass
class Loose(Rule.__mro__[1]):  # type: ignore[misc]
    def assign(self, groups: Any, signals: Any) -> Any: ...


class Plain:
    def assign(self, groups: Any, signals: Any) -> Any: ...


def made(name: str = "Made", bases: tuple[type, ...] = (), **members: Any) -> Any:
    """An instance of a frozen dataclass with these members."""
    return dataclass(frozen=True)(type(name, bases, {"__module__": __name__, **members}))()


def refused(**changes: Any) -> str:
    with pytest.raises(UserError) as caught:
        check_parts(grpo.but(**changes))
    return str(caught.value)


def test_an_instance_is_a_part_and_its_class_is_none() -> None:
    check_parts(grpo.but(credit=Rule()))
    check_parts(grpo.but(credit=Extended()))
    assert refused(credit=Rule).startswith("`credit` is the class Rule (test_part_classes.py, line ")
    assert refused(credit=Clipped(rule=GroupRelative)).startswith("`credit.rule` is the class GroupRelative (groups.py, line ")
    assert refused(objective__policy__trust=Clip).endswith("itself; give an instance of it: Clip()")
    assert refused(players__reference=Player(Copy)).startswith("`players.reference.model` is the class Copy")


def test_a_part_cannot_change() -> None:
    assert "which can change during the run; write @dataclass(frozen=True)" in refused(credit=Loose())
    assert "which is not a dataclass; write @dataclass(frozen=True)" in refused(credit=Plain())


def test_two_parts_of_one_name() -> None:
    def assign(self: Any, groups: Any, signals: Any) -> Any: ...

    def losses(self: Any, log_ratio: Any, advantages: Any, batch: Any) -> Any: ...

    trust, other = made("Twin", losses=losses, separable=True), made("Twin", assign=assign, needs=())
    check_parts(grpo.but(objective__policy__trust=trust))
    assert "two parts have the name Twin" in refused(objective__policy__trust=trust, credit=other)
    taken = made("GroupRelative", assign=assign, needs=())
    assert "has the name of the built-in part gradus.credit.groups.GroupRelative; rename your class" in refused(credit=taken)
    assert "built-in part gradus.objectives.trust.Clip" in refused(objective__policy__trust=made("Clip", bases=(Unclipped,)))


def test_no_two_built_in_parts_have_one_name() -> None:
    import ast
    from collections import Counter

    from gradus.recipe.overrides import SEAMS

    root = registry.PAPERS.parent
    names = Counter(
        node.name
        for seam in (*SEAMS, "papers")
        for path in (root / seam).rglob("*.py")
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.ClassDef) and any("dataclass" in ast.unparse(d) for d in node.decorator_list)
    )
    assert len(names) > 100
    assert [name for name, count in names.items() if count > 1] == []


@pytest.mark.parametrize(
    ("members", "said"),
    [
        ({"needs": lambda self: ()}, "a method, but no code calls it; write @property above the method"),
        ({"needs": (LogProbs,)}, "whose `needs` contains the class LogProbs; it must be a tuple of Signal objects"),
        ({"needs": LogProbs()}, "whose `needs` is a LogProbs"),
        ({"needs": ("logprobs",)}, "whose `needs` contains a str ('logprobs')"),
        ({"needs": (), "separable": lambda self: True}, "whose `separable` is a function; it must be True, False, or a @property"),
        ({"needs": (), "separable": "yes"}, "whose `separable` is a str ('yes')"),
    ],
)
def test_what_a_part_declares_is_of_the_right_type(members: dict[str, Any], said: str) -> None:
    said = said.replace("a function", "a method")
    assert said in refused(credit=made(bases=(Rule,), **members))


def test_a_term_reads_a_source_that_there_is() -> None:
    check_parts(grpo.but(objective__kl=KL(source="replay")))
    assert "`objective.kl` is KL" in refused(objective__kl=KL(source="repaly"))
    assert "the source 'repaly'; set the source to one of policy, expert, teacher, replay, partner" in refused(objective__kl=KL(source="repaly"))


async def awaited(self: Any, requests: Any, world: Any) -> Any: ...


@pytest.mark.parametrize(
    ("seam", "members", "said"),
    [
        ("credit", {"assign": lambda self, groups: []}, "whose assign (test_part_classes.py, line|it must take (self, groups, signals)"),
        ("credit", {"assign": lambda self, groups, signals, more: []}, "missing a required argument: 'more'"),
        ("credit", {"assign": 3}, "is an int (3); it must be a method: def assign(self, groups, signals)"),
        ("credit", {"assign": lambda self, g, s: [], "start": lambda self: {}}, "it must take (self, groups, signals, state)"),
        ("curriculum", {"choose": lambda self, s, c, w, t: [], "start": lambda self: 0, "learn": lambda self, g: 0}, "(self, groups, dropped, world, state)"),
        ("rollout", {"run": lambda self, requests, world: []}, "is not a coroutine; write async def run"),
        ("update", {"apply": lambda self, players, batches, step: {}}, "it must take (self, players, batches, step, key)"),
        ("schedule", {"at": lambda self, step: step}, "it must take (self, now, recipe)"),
        ("study", {"measure": lambda self, run, recipe, world: {}}, "write async def measure"),
        ("optimizer", {"build": lambda self, parameters: 0}, "lacks lr"),
    ],
)
def test_a_method_that_cannot_be_called(seam: str, members: dict[str, Any], said: str) -> None:
    told = refused(**{seam: made(needs=(), **members)})
    assert [part for part in said.split("|") if part not in told] == [], told


def test_a_coroutine_where_nothing_awaits_one() -> None:
    async def at(self: Any, step: int, recipe: Any) -> Any: ...

    async def assign(self: Any, groups: Any, signals: Any) -> Any: ...

    assert "is a coroutine, but no code awaits it; write def at" in refused(schedule=made(at=at))
    check_parts(grpo.but(credit=made(assign=assign, needs=())))  # what remembers is called by one that waits


def test_parts_inside_others_are_called_as_their_protocol_says() -> None:
    check_parts(grpo.but(rollout=DynamicSampling(rollout=made(run=awaited))))
    assert "`rollout.rollout` is Made, whose run" in refused(rollout=DynamicSampling(rollout=made(run=lambda self, r, w: [])))
    assert "`rollout.until` is Made, whose keep" in refused(rollout=DynamicSampling(until=made(keep=lambda self, groups: [])))
    assert "`credit.rule` is Made, whose assign" in refused(credit=Clipped(rule=made(assign=lambda self, g: [], needs=())))
    assert "lacks run" in refused(rollout=BehaviourPolicy("policy", rollout=Clip()))
    check_parts(grpo.but(rollout=BehaviourPolicy("policy", SingleTurn())))


def test_every_value_is_walked_inner_parts_first() -> None:
    found = [where for where, _ in part_classes.everything(grpo.but(credit=Clipped()), "")]
    assert found.index("credit.rule.scale") < found.index("credit.rule") < found.index("credit")
    assert "players.reference.model.of" in found
