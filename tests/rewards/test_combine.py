from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradus.rewards.combine import Combines, Lowest, Product, Sum, add, check_reward, lowest, multiply
from gradus.types import NOT_APPLICABLE, Failed, FailureKind, Frozen, UserError
from gradus.types.parts import Judgement
from gradus.types.signals import Entropy, LogProbs
from tests.rewards.judged import score, task, trajectory

NA = NOT_APPLICABLE


@dataclass(frozen=True)
class Constant(Combines):
    value: object
    name: str = "constant"
    needs: tuple = ()
    steps: tuple = ()

    async def score(self, groups, signals, world):
        return [[Judgement(self.value, Frozen({self.name: self.value}), self.steps) for _ in g.trajectories] for g in groups]


@dataclass(frozen=True)
class Unnamed(Combines):
    needs = ()

    async def score(self, groups, signals, world):
        return [[Judgement(4.0, Frozen(x=1.0, y=3.0)) for _ in g.trajectories] for g in groups]


def one(reward):
    return score(reward, [trajectory(tokens=range(5))])[0][0]


A, B, C = Constant(2.0, "a"), Constant(5.0, "b"), Constant(7.0, "c")


def test_sums_products_and_weights():
    assert one(A + B).reward == 7.0
    assert one(A * B).reward == 10.0
    assert one(0.5 * A + B).reward == 6.0  # 0.5 * 2 + 5
    assert one(2 * (A + 3 * B)).reward == 34.0  # 2 * (2 + 15)
    assert one(A * 0.5).reward == 1.0
    assert one(A * (B + C)).reward == 24.0  # 2 * 12
    assert one(A + B * C).reward == 37.0  # 2 + 35
    assert one(A * B * C).reward == 70.0


def test_constants():
    assert one(2 * A - 1).reward == 3.0  # 2 * 2 - 1
    assert one(A + 3).reward == 5.0
    assert one(3 * (A - 1) + B).reward == 8.0  # 3 * 1 + 5
    assert one((A - 1) + (B - 2)).reward == 4.0  # 1 + 3
    assert one((A - 1) * B).reward == 5.0  # 1 * 5
    assert one(A - B).reward == -3.0
    assert one(2 * A - (B - 1)).reward == 0.0  # 4 - 4
    assert Sum(Frozen(a=A, b=B), Frozen(a=2.0), constant=-1.0) == 2 * A - 1 + B


def test_a_constant_is_no_component_and_pays_nothing_alone():
    assert dict(one(2 * A - 1 + B).components) == {"a": 2.0, "b": 5.0}
    assert one(Constant(NA, "a") - 1).reward is NA
    assert one(Constant(Failed("x"), "a") - 1).reward == Failed("a: x")
    stepped = Constant(3.0, "s", steps=((0, 1, "s", 1.0), (0, 4, "s", 2.0)))
    assert one(stepped - 1).steps == stepped.steps


def test_operators_give_flat_parts_that_can_be_replaced_by_name():
    assert Sum(Frozen(a=A, b=B, c=C), Frozen(c=0.5)) == A + B + 0.5 * C
    assert Product(Frozen(a=A, b=B, c=C)) == A * B * C
    assert Sum(Frozen(a=A, a_2=A, a_3=A)) == A + A + A
    assert Sum(Frozen(a=A, a_2=A, b=B), Frozen(a_2=0.5)) == A + (0.5 * A + B)
    assert list((Unnamed() + A * B).parts) == ["unnamed", "a*b"]


def test_components_are_unweighted_and_nested_ones_are_shown_below_their_part():
    assert dict(one(0.5 * A + B).components) == {"a": 2.0, "b": 5.0}
    assert dict(one(A + B * C).components) == {"a": 2.0, "b*c": 35.0, "b*c/b": 5.0, "b*c/c": 7.0}
    assert dict(one(Sum(Frozen(mine=Unnamed()))).components) == {"mine": 4.0, "mine/x": 1.0, "mine/y": 3.0}


@pytest.mark.parametrize(
    ("values", "total", "product"),
    [
        ((2.0, NA), 2.0, 2.0),
        ((NA, 3.0), 3.0, 3.0),
        ((NA, NA), NA, NA),
        ((2.0, 0.0), 2.0, 0.0),
        ((2.0, Failed("x")), Failed("b: x"), Failed("b: x")),
        ((NA, Failed("x")), Failed("b: x"), Failed("b: x")),
        ((Failed("y"), Failed("x")), Failed("a: y"), Failed("a: y")),
        ((2.0, Failed("late", FailureKind.TIMEOUT)), Failed("b: late", FailureKind.TIMEOUT), Failed("b: late", FailureKind.TIMEOUT)),
    ],
)
def test_not_applicable_is_left_out_and_failed_fails_the_whole(values, total, product):
    a, b = (Constant(v, n) for v, n in zip(values, "ab", strict=True))
    assert one(a + b).reward == total
    assert one(a * b).reward == product
    assert dict(one(a + b).components) == dict(zip("ab", values, strict=True))


def test_rewards_at_single_actions_are_weighted_or_gated():
    stepped = Constant(3.0, "s", steps=((0, 1, "s", 1.0), (0, 4, "s", 2.0)))
    assert one(0.5 * stepped + A).steps == ((0, 1, "s", 0.5), (0, 4, "s", 1.0))
    assert one(A * stepped).steps == ((0, 1, "s", 2.0), (0, 4, "s", 4.0))
    assert one(A * stepped).reward == 6.0  # the sum of its steps
    assert one(Sum(Frozen(mine=stepped))).steps == ((0, 1, "mine", 1.0), (0, 4, "mine", 2.0))
    with pytest.raises(UserError, match="s and t give rewards at single actions"):
        one(stepped * Constant(3.0, "t", steps=((0, 0, "t", 1.0),)))


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=6), st.randoms())
def test_the_order_of_parts_changes_no_bit_of_a_sum(values, random):
    judged = {str(n): Judgement(v) for n, v in enumerate(values)}
    shuffled = dict(random.sample(list(judged.items()), len(judged)))
    assert add(judged, {}).reward == add(shuffled, {}).reward


def test_the_pure_functions():
    judged = {"a": Judgement(0.5), "b": Judgement(4.0), "c": Judgement(NA)}
    assert add(judged, {"b": 0.25}).reward == 1.5  # 0.5 + 0.25 * 4
    assert add(judged, {"b": 0.25}, -1.0).reward == 0.5
    assert multiply(judged).reward == 2.0


def test_needs_are_the_union():
    part = Constant(1.0, "a", needs=(Entropy(), LogProbs())) + Constant(1.0, "b", needs=(LogProbs(),)) * A
    assert part.needs == (Entropy(), LogProbs())


def test_misuse_is_a_sentence():
    with pytest.raises(UserError, match=r'unknown component "aa" \(did you mean a\?\)'):
        Sum(Frozen(a=A), Frozen(aa=1.0))
    with pytest.raises(UserError, match="the weight of the reward a is nan"):
        float("nan") * A
    with pytest.raises(UserError, match="the constant of a sum of rewards is inf"):
        A + float("inf")
    with pytest.raises(UserError, match="a product of rewards needs at least one part"):
        Product(Frozen())


def test_every_part_is_checked_against_the_task():
    class Checked(Constant):
        def check(self, task):
            raise UserError(f"cannot judge {task.name}")

    for reward in (Checked(1.0, "x"), A + Checked(1.0, "x"), A * (B + Checked(1.0, "x"))):
        with pytest.raises(UserError, match="cannot judge p"):
            check_reward(reward, task())
    check_reward(A + B, task())


def test_the_lowest_part_that_applies_is_the_reward():
    judged = one(Lowest(Frozen(a=A, b=Constant(-1.0, "b"), c=Constant(NA, "c"))))
    assert judged.reward == -1.0
    assert dict(judged.components) == {"a": 2.0, "b": -1.0, "c": NA}
    assert one(Lowest(Frozen(a=A))).reward == one(A).reward  # of one part it is this part
    assert one(Lowest(Frozen(a=Constant(NA, "a")))).reward is NA
    assert one(Lowest(Frozen(a=A, b=Constant(Failed("late"), "b")))).reward.reason == "b: late"


def test_a_minimum_has_a_part_and_no_rewards_at_actions():
    with pytest.raises(UserError, match="a minimum of rewards needs at least one part"):
        Lowest(Frozen())
    with pytest.raises(UserError, match="b gives rewards at single actions, which have no minimum; use a sum"):
        lowest({"a": Judgement(1.0), "b": Judgement(2.0, steps=((0, 1, "b", 2.0),))})


def test_a_minimum_asks_for_the_signals_of_all_parts_and_checks_them():
    needy = Constant(1.0, "d", (Entropy(),))
    assert Lowest(Frozen(a=A, d=needy)).needs == (Entropy(),)
    assert Lowest(Frozen(a=A, d=needy)).name == "a&d"
