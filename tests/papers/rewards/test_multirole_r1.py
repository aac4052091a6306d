"""MultiRole-R1: roles and words by hand, the gate of the bonus, the harvest of agreeing chains, and GRPO at the limit."""

from __future__ import annotations

import math

import pytest
import torch

from gradus.papers.bases.grpo import grpo
from gradus.papers.rewards.multirole_r1 import AgreedChains, Diverse, argued, jaccard, lexical, multirole_r1, parts_of
from gradus.rewards.diversity import distinct_share
from gradus.testing.methods import check_micro_batches, toy_group, weights_after
from gradus.types import UserError


def part(role, start):
    return f"[{role}] " + " ".join(f"w{i}" for i in range(start, start + 10))


THREE = f"{part('owner', 0)} {part('guest', 10)} {part('child', 20)} =yes"
COPIED = f"{part('owner', 0)} {part('guest', 10)} {part('child', 10)} =yes"


def answer(text, right):
    (t,) = toy_group(float(right)).trajectories
    return t.but(completion=text)


def test_the_perspective_part_by_hand() -> None:
    assert argued(parts_of(THREE), least=10, copy=0.8) / 4 == 0.75
    assert argued(parts_of(COPIED), least=10, copy=0.8) / 4 == 0.5
    twice = f"{part('owner', 0)} {part('owner', 10)} =yes"
    assert argued(parts_of(twice), least=10, copy=0.8) == 1  # the same role again
    short = "[owner] too short =yes"
    assert [argued(parts_of(short), least=n, copy=0.8) for n in (2, 3)] == [1, 0]
    near = f"{part('owner', 0)} [guest] w0 w1 w2 w3 w4 w5 w6 w7 w8 other =yes"  # 9 of 11 words
    assert [argued(parts_of(near), least=10, copy=c) for c in (0.8, 0.9)] == [1, 2]
    at_bound = "[owner] w0 w1 w2 w3 w4 w5 w6 w7 w8 [guest] w0 w1 w2 w3 w4 w5 w6 w7 other =yes"  # 8 of 10 words: a copy
    assert argued(parts_of(at_bound), least=9, copy=0.8) == 1
    assert argued(parts_of("no header =yes"), least=1, copy=0.8) == 0


def test_the_lexical_part_by_hand() -> None:
    """a b a b: distinct-1 2/4, distinct-2 2/3 (ab ba of ab ba ab), distinct-3 2/2, entropy ln 2 / ln 4, overlap of {a, b} and {a, b} 1."""
    assert distinct_share([[0, 1, 0, 1]], 2) == pytest.approx(2 / 3)
    assert lexical(list("abab"), [list("ab"), list("ab")]) == pytest.approx((1 / 2 + 2 / 3 + 1 + 1 / 2 + 0) / 5)
    assert lexical(list("abcd"), [list("ab"), list("cd")]) == pytest.approx(1.0)
    assert lexical(list("abcd"), [list("abcd")]) == pytest.approx(0.8)  # one part: no second view
    assert lexical([], []) == 0.0
    assert lexical(["a"], [["a"]]) == pytest.approx(0.2)
    assert (jaccard("ab", "bc"), jaccard("", "")) == (1 / 3, 0.0)


def test_the_reward_by_hand() -> None:
    """Thirty different words in three parts: lexical 1, perspective 0.75, so the diversity is 0.875."""
    value, found = Diverse().of(answer(THREE, True))
    assert found == {"roles": 3.0, "diversity": pytest.approx(0.875), "form": 1.0}
    assert value == pytest.approx(1 + 0.2 * 0.875 + 0.1)
    wrong, same = Diverse().of(answer(THREE, False))
    assert (wrong, same["diversity"]) == (pytest.approx(0.1), pytest.approx(0.875))  # a wrong answer gets no bonus
    assert Diverse().of(answer("=yes", True)) == (1.0, {"roles": 0.0, "diversity": 0.0, "form": 0.0})
    assert Diverse().of(answer(part("owner", 0), False))[1]["form"] == 0.0  # no final answer
    five = " ".join(part(r, 10 * i) for i, r in enumerate(("a", "b", "c", "d", "e"))) + " =yes"
    assert Diverse().of(answer(five, True))[1]["diversity"] == pytest.approx(1.0)  # at most n_max


def test_parts_end_at_the_final_answer() -> None:
    assert parts_of("[a] x = y =yes") == [("a", ["x", "=", "y"])]
    assert parts_of("intro [A b] x [c] =yes") == [("a b", ["x"]), ("c", [])]
    assert parts_of("[1] x [] y") == []


def test_the_harvest_keeps_agreeing_chains_of_several_roles() -> None:
    texts = [THREE, THREE.replace("=yes", "=no"), "=yes", f"{part('owner', 0)} =yes", COPIED]
    group = toy_group(*[0.0] * 5)
    group = group.but(trajectories=tuple(t.but(completion=c) for t, c in zip(group.trajectories, texts, strict=True)))
    rows = AgreedChains().rows([group])
    assert [r["solution"] for r in rows] == [THREE, COPIED]
    assert {r["answer"] for r in rows} == {"yes"}
    assert AgreedChains(roles=3).rows([group, group.but(aside=True)]) == [{"prompt": "a", "answer": "yes", "solution": THREE}]
    assert AgreedChains().provides == {"solution"}


def test_without_shaping_it_is_grpo() -> None:
    plain = multirole_r1.but(reward__weight=0.0, reward__form=0.0)
    base = grpo.but(objective__kl__coefficient=0.001)
    one, other = (weights_after(r, steps=3)["policy.logits"] for r in (plain, base))
    assert torch.equal(one, other)
    check_micro_batches(multirole_r1)
    assert (multirole_r1.reward.weight, multirole_r1.reward.most, multirole_r1.reward.form) == (0.2, 4, 0.1)
    assert math.isclose(multirole_r1.objective["kl"].coefficient, 0.001)
    with pytest.raises(UserError, match=r"Diverse\.most"):
        Diverse(most=0)
