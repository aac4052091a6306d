"""Shop-R1: certainty and the hierarchy by hand, the rationale's tokens, and GRPO at the limit."""

from __future__ import annotations

import asyncio
import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from gradus.papers.bases.grpo import grpo
from gradus.papers.rewards.shop_r1 import Peaked, ShopperReward, action_of, peaked, shop_r1
from gradus.recipe.core import changes
from gradus.rewards.verified import Verified
from gradus.tasks.text.shop import shop
from gradus.testing.methods import check_micro_batches, scripted_world, toy_trajectory, weights_after
from gradus.types import Frozen, Group, Problem, UserError
from gradus.types.signals import Read

CLICK, SEARCH, END = {"type": "click", "name": "red cap"}, {"type": "type_and_submit", "name": "search", "text": "red cap"}, {"type": "terminate"}


def value(said: dict, due: dict, **fields: float) -> float:
    return ShopperReward(**fields).action_value(said, due)[0]


def test_certainty_by_hand() -> None:
    logits = torch.tensor([[0.7, 0.1, 0.1, 0.1], [0.25] * 4], dtype=torch.float64).log()
    assert peaked(logits).tolist() == pytest.approx([0.4458, 0.0], abs=5e-5)
    assert peaked(logits)[0].item() == pytest.approx(0.7 * math.log(2.8) + 0.3 * math.log(0.4))


def test_the_hierarchy_by_hand() -> None:
    assert value(CLICK, CLICK) == pytest.approx(0.3 + 0.2 + 1000)
    # ROUGE-L of "red mug" and "red cap" is 1/2, below .75
    assert value({"type": "click", "name": "red mug"}, CLICK) == pytest.approx(0.5)
    assert value({"type": "click"}, CLICK) == pytest.approx(0.3)
    assert value(SEARCH, CLICK) == value(END, CLICK) == value(CLICK, END) == 0.0
    assert value(END, END) == pytest.approx(0.3)
    assert value(SEARCH, SEARCH) == pytest.approx(0.3 + 0.1 + 0.1 + 0.1 + 1000)
    assert value({**SEARCH, "text": "blue mug"}, SEARCH) == pytest.approx(0.6)
    # three of four words: F1 = 6/7, above .75
    due = {"type": "click", "name": "big red long cap"}
    assert value({"type": "click", "name": "big red old cap"}, due) == pytest.approx(0.5 + 750)  # 3/4, at the bound
    assert value({"type": "click", "name": "big red cap"}, due) == pytest.approx(0.5 + 1000 * 6 / 7)


def test_the_flat_reward() -> None:
    flat = {"attributes": 0.0, "values": 0.0}
    assert [value(said, due, **flat) for said, due in ((CLICK, CLICK), (SEARCH, SEARCH), (END, END), (END, CLICK))] == pytest.approx([0.3, 0.3, 0.3, 0.0])


def answer(action: dict) -> str:
    return json.dumps({"rationale": "seen", "action": action})


def test_the_whole_reward() -> None:
    texts = (answer(CLICK), answer(END), "no json", json.dumps({"action": CLICK}))
    problem = Problem("p", "shop", text="q", meta=Frozen(action=Frozen(CLICK)))
    rows, signal = [], {}
    for i, text in enumerate(texts):
        t = toy_trajectory([2, 3, 4], name=str(i)).but(problem=problem, completion=text)
        rows.append(t.but(contexts=(replace(t.contexts[0], streams=Frozen(span=np.array([-1, 0, 0]))),)))
        signal[str(i)] = np.array([9.0, 1.0, 3.0])
    world, _ = scripted_world(shop(), lambda ask: "")
    (found,) = asyncio.run(ShopperReward().score([Group("g", tuple(rows))], {Read(reads=Peaked()): signal}, world))
    # the mean over the two tokens of the rationale is 2
    assert [j.reward for j in found] == pytest.approx([0.5 + 0.01 + 1000.5, 0.5 + 0.01, 0.0, 0.0])
    assert [j.components["verified"] for j in found] == [1.0, 0.0, 0.0, 0.0]
    assert [j.components["terminates"] for j in found] == [0.0, 1.0, 0.0, 0.0]


def test_what_is_an_action() -> None:
    assert action_of(f"so {answer(END)}.") == END
    assert [action_of(text) for text in ("", "{}", '{"rationale":"a","action":{"type":"jump"}}', "[{}]")] == [None] * 4


def test_the_marked_rationale() -> None:
    text = '{"rationale":"seen it","action":{}}'
    ((first, last),) = shop_r1.rollout.marking.regions(text)
    assert text[first:last] == "seen it"


def test_with_the_verdict_it_is_grpo() -> None:
    base = grpo.but(objective__kl__coefficient=0.001, setting__temperature=0.6)
    assert torch.equal(*(weights_after(r, steps=3)["policy.logits"] for r in (shop_r1.but(reward=Verified()), base)))
    assert {"reward", "rollout", "objective.kl.coefficient"} <= set(changes(grpo, shop_r1))
    check_micro_batches(shop_r1)
    with pytest.raises(UserError, match=r"ShopperReward\.least"):
        ShopperReward(least=2)
