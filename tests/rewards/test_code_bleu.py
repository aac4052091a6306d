"""CodeBLEU by hand: tokens, weighted keywords, trees, flow."""

from __future__ import annotations

import ast

import pytest

from gradus.rewards.code_bleu import code_bleu, flows, subtrees, tokens, weighted_bleu
from gradus.rewards.overlap import bleu

ONE = "def f(x):\n x=x+3\n return x"


def test_equal_programs_have_one_and_others_less() -> None:
    assert code_bleu(ONE, ONE) == pytest.approx(1.0)
    near, far = code_bleu(ONE.replace("3", "4"), ONE), code_bleu("def f(x):\n return 7", ONE)
    assert 1.0 > near > far > 0.0
    assert code_bleu("", ONE) == 0.0


def test_parts_by_hand() -> None:
    # names differ only: tree and flow agree, so the rest is half of both BLEU
    other = ONE.replace("x", "y")
    both = (bleu(tokens(other), tokens(ONE), smooth=True), weighted_bleu(tokens(other), tokens(ONE)))
    assert code_bleu(other, ONE) == pytest.approx((sum(both) + 2) / 4)
    # no Python: tree and flow have 0
    assert code_bleu("x x x", ONE) == pytest.approx((bleu(["x"] * 3, tokens(ONE), smooth=True) + weighted_bleu(["x"] * 3, tokens(ONE))) / 4)


def test_keywords_weigh_more() -> None:
    # precision of single tokens 1/2; weighted: a shared keyword gives 1 / 1.2, a shared name 0.2 / 1.2
    keyword, name = weighted_bleu(["return", "q"], ["return", "z"]), weighted_bleu(["return", "q"], ["def", "q"])
    plain = bleu(["return", "q"], ["return", "z"], smooth=True)
    assert keyword == pytest.approx(plain * ((1 / 1.2) / 0.5) ** 0.5)
    assert name == pytest.approx(plain * ((0.2 / 1.2) / 0.5) ** 0.5)
    assert weighted_bleu([], ["x"]) == weighted_bleu(["a"], ["b"]) == 0.0


def test_trees_and_flows_by_hand() -> None:
    # sources are numbered before targets: b, c, a
    assert dict(flows(ast.parse("a=b+c\nb=a"))) == {("v2", ("v0", "v1")): 1, ("v0", ("v2",)): 1}
    assert flows(ast.parse("a=b")) == flows(ast.parse("p=q"))
    assert flows(ast.parse("a=a")) != flows(ast.parse("a=b"))
    assert subtrees(ast.parse("a+1")) == subtrees(ast.parse("b+2")) != subtrees(ast.parse("a-1"))
