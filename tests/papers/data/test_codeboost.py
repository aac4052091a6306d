"""CodeBoost: scores of blocks, the clique, the curriculum over it, and GRPO at the limits."""

from __future__ import annotations

import pytest
import torch

from gradus.curricula.dissimilar import CuratedClique
from gradus.curricula.rates import SuccessRates
from gradus.papers.bases.grpo import grpo
from gradus.papers.data.codeboost import Blocks, codeboost
from gradus.recipe.core import changes
from gradus.rewards.verified import Verified
from gradus.testing.methods import check_resumes, toy_task, train_toy, weights_after
from gradus.types import Frozen, UserError

META = Frozen(code="a=3|print(a)", stdout="3\n", stderr="", backward=False)


def test_rewards_of_the_row():
    value = [Blocks().judged(text, META).reward for text in ("=3!", "=3", "3", "=4!", "=4")]
    assert value == pytest.approx([0.775, 0.5, 0.0, 0.9 * 0.25 + 0.1, 0.05])
    assert Blocks().judged("=3!", META).components["verified"] == 1.0
    assert Blocks().judged("=3", META).components["verified"] == 0.0
    hidden = Frozen(code="a=3|_|print(a)", stdout="5\n", stderr="", backward=True)
    assert Blocks().judged("#a=5", hidden).reward == Blocks().judged("#a=a+2", hidden).reward == pytest.approx(0.775)


def test_with_all_problems_and_the_verdict_it_is_grpo():
    task = toy_task(codeboost)
    base = grpo.but(curriculum=SuccessRates(factor=1, pool=6))
    off = codeboost.but(curriculum=CuratedClique(threshold=2.0, pool=6), reward=Verified())
    verdict = off.but(reward=Blocks())  # the toy's problems have no program
    ours, other, plain = (weights_after(r, steps=3, task=task)["policy.logits"] for r in (off, verdict, base))
    assert torch.equal(ours, plain)
    assert torch.equal(other, plain)
    assert set(changes(grpo, codeboost)) == {"reward", "curriculum"}
    assert train_toy(codeboost.but(curriculum=CuratedClique(pool=4)), steps=2).metrics[0]["curated"] >= 1
    check_resumes(codeboost.but(curriculum=CuratedClique(pool=4)), steps=4, after=2)


def test_what_cannot_be_is_refused():
    with pytest.raises(UserError, match=r"CuratedClique\.pool"):
        CuratedClique(pool=0)
    with pytest.raises(UserError, match=r"Blocks\.form"):
        Blocks(form=2.0)
