"""The task molecules: which texts are molecules, canonical forms, and likeness by hand."""

from __future__ import annotations

import math
from collections import Counter

import pytest

from gradus.tasks.text.molecules import (
    ChainLikeness,
    canonical,
    decoded,
    fragments,
    group_likeness,
    groups,
    molecules,
    paths,
    surroundings,
    tanimoto,
)
from gradus.testing import Effort, check_task
from gradus.types import Problem
from tests.tasks.contract import HOSTILE, check_read_back


def test_the_contract() -> None:
    check_task(molecules(), right=lambda p: [p.meta["solution"]], wrong=lambda p: HOSTILE, effort=Effort(problems=6, texts=100), strict=True)
    check_read_back(molecules())


@pytest.mark.parametrize("text", ["", "[C", "[C][X]", "CCO", "[C][F][C]", "[C]" * 13, "[C] [O]", "[C]x"])
def test_other_texts_are_no_molecules(text: str) -> None:
    assert decoded(text) is None


def test_molecules_and_their_canonical_form() -> None:
    assert decoded("[F][C][F]") == ["F", "C", "F"]
    assert canonical(decoded("[O][C][C]")) == canonical(decoded("[C][C][O]")) == ["C", "C", "O"]


def test_likeness_by_hand() -> None:
    assert paths("CCO", 2) == {"C", "O", "CC", "CO"}
    assert surroundings("CCCO", 1) == {"CC", "CCC", "CCO", "CO"}
    assert fragments("CCOCN") == {"CC", "O", "C", "N"}
    assert groups("OCOCN") == Counter(alcohol=1, ether=1, amine=1)
    assert tanimoto({"a", "b"}, {"b", "c"}) == pytest.approx(1 / 3)
    assert group_likeness(Counter(alcohol=1), Counter(alcohol=1, amine=1)) == pytest.approx(math.exp(-0.5), abs=1e-5)
    problem = Problem("x", "molecules", text="", answer="[C][C][O]")
    found = ChainLikeness().likeness(problem, "<answer>[C][O]</answer>")
    # CO against CCO: paths of 2: 3 of 4; of all lengths: 3 of 5; surroundings: {CO} against {CCO} once, 0 of 2; fragments {C, O} against {CC, O}: 1/3 and 1/2
    assert found["fingerprints"] == pytest.approx((3 / 4 + 3 / 5 + 0) / 3)
    assert found["fragments"] == pytest.approx(0.5 / 3 + 0.25)
    assert (found["groups"], found["exact"], found["valid"]) == (1.0, 0.0, 1.0)
    assert ChainLikeness()(problem, "[C]=[O][C][C]") == 1.0
